"""Which resources a request asks for, alternative by alternative."""

import pytest

from xce.model.config import ClusterConfig, PoolConfig, ResourceConfig
from xce.model.device import GpuWish
from xce.resreq.compile import compile_request
from xce.resreq.used import resources_used

CONFIG = ClusterConfig(
    resources=(
        ResourceConfig(name="lic", kind="counter"),
        ResourceConfig(name="seats", kind="pool"),
    ),
    pools=(PoolConfig(name="seats", total=4),),
)


def used(*texts, **options):
    request = compile_request(texts, config=CONFIG, **options)
    return [sorted(names) for names in resources_used(request)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("select[type==any] order[mem] span[hosts=1]", []),
        ("select[mem>100]", []),
        ("rusage[mem=100]", [["mem"]]),
        ("rusage[mem=100:lic=1/job,seats=2]", [["lic", "mem", "seats"]]),
        ("rusage[mem=(100 50):duration=(1h):decay=0]", [["mem"]]),
        ("rusage[lic=1 || seats=2]", [["lic"], ["seats"]]),
        ("{rusage[lic=1]} || {rusage[seats=2:mem=5]}", [["lic"], ["mem", "seats"]]),
        ("{rusage[lic=1]} || {select[mem>1]}", [["lic"], []]),
        ("2*{rusage[lic=1]} + 1*{rusage[mem=5]} + 1*{span[hosts=1]}", [["lic", "mem"]]),
        (
            "{2*{rusage[lic=1]} + 1*{rusage[mem=5]}} || {rusage[seats=1]}",
            [["lic", "mem"], ["seats"]],
        ),
        ("rusage[ngpus_physical=2:mem=5]", [["mem", "ngpus_physical"]]),
    ],
)
def test_the_resources_of_rusage_are_named_for_each_alternative(text, names):
    assert used(text) == names


def test_what_the_option_gpu_asks_for_counts_too():
    assert used("rusage[mem=5]", gpu=GpuWish(count=2, is_by_lsf=True)) == [
        ["mem", "ngpus_physical"]
    ]
