"""What placement cannot do yet is refused by name, with its column, from one table."""

import pytest

from xce.model.config import ClusterConfig, PoolConfig, ResourceConfig
from xce.resreq.built import refuse_not_built
from xce.resreq.compile import compile_request

CONFIG = ClusterConfig(
    resources=(
        ResourceConfig(name="lic", kind="counter"),
        ResourceConfig(name="gpu32gb", kind="boolean"),
        ResourceConfig(name="rack", kind="string"),
    ),
    pools=(PoolConfig(name="seats", total=4),),
)


def refused(*texts, config=CONFIG, tasks=None):
    request = compile_request(texts, config=config, tasks=tasks)
    return refuse_not_built(request, config=config, texts=texts)


@pytest.mark.parametrize(
    ("text", "what", "column"),
    [
        ("affinity[core(1,same=numa,exclusive=(socket,injob))*2]", "repeats units", 1),
        ("1*{rusage[gpu=2:gtile=1]} + 1*{}", "gtile of GPUs in a request of several parts", 17),
        ("rusage[ngpus_shared=1]", "ngpus_shared in rusage[]", 8),
        ("select[gpu_mode0>0]", "gpu_mode0 in select[]", 8),
    ],
)
def test_what_is_not_honoured_yet_is_refused_by_name(text, what, column):
    error = refused(text)
    assert error is not None
    assert what in error.message
    assert "not built yet" in error.message
    assert error.column > 0
    assert (error.text, error.lsf) == (text, "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mem>1 && rack == ut && gpu32gb order[-mem:slots] rusage[mem=1:lic=1/job] span[ptile=2]",
        "rusage[seats=1/job:ngpus_physical=0] span[hosts=1]",
        "span[gtile='!'] rusage[gpu=1]",
        "select[seats>1] order[-seats]",
        "cu[balance] span[ptile=2]",
        "cu[balance] span[hosts=2]",
        "2*{affinity[core]} + 1*{mem>1} + 3*{affinity[core(2,same=socket)]}",
        "1*{affinity[core(1,exclusive=(socket,injob))]} + 1*{mem>1}",
        "1*{affinity[core(1,exclusive=(socket,injob))]} + 1*{affinity[core]}",
        "1*{affinity[core:membind=localonly]} + 1*{affinity[core]}",
        "affinity[core:cpubind=socket]",
        "affinity[core(1,same=socket,exclusive=(socket,injob)):cpubind=socket:membind=localonly]",
        "select[type == any && hname != model && !defined(rack)]",
    ],
)
def test_what_is_placed_is_not_refused(text):
    assert refused(text) is None


def test_a_declared_resource_wins_over_one_that_is_not_built():
    config = ClusterConfig(
        resources=(
            ResourceConfig(name="ngpus", kind="number"),
            ResourceConfig(name="ngpus_physical", kind="counter"),
        )
    )
    assert refused("select[ngpus > 1] rusage[ngpus_physical=1]", config=config) is None


def test_the_column_of_an_alias_is_found():
    error = refused("mem>1", "order[mem:cpu] rusage[ngpus_shared=1]")
    assert error is not None
    assert error.text == "order[mem:cpu] rusage[ngpus_shared=1]"
    assert error.column > 0
