"""The requirement of an application profile under a job's own."""

import pytest

from xce.model.config import ClusterConfig, ResourceConfig
from xce.resreq.compile import compile_request, render_request
from xce.resreq.errors import ResreqError

CONFIG = ClusterConfig(
    resources=(
        ResourceConfig(name="big", kind="boolean"),
        ResourceConfig(name="fast", kind="boolean"),
        ResourceConfig(name="seat", kind="counter"),
    )
)


def both(own, base):
    return render_request(compile_request(own and (own,), config=CONFIG, base=base))


@pytest.mark.parametrize(
    ("own", "base", "expected"),
    [
        ("", "select[big] rusage[mem=100]", "select[big] rusage[mem=100]"),
        ("select[fast]", "select[big]", "select[fast && big]"),
        ("select[fast||big]", "select[big]", "select[(fast || big) && big]"),
        ("rusage[mem=5]", "rusage[mem=100,seat=1]", "rusage[mem=5:seat=1]"),
        ("order[mem]", "order[slots:mem]", "order[mem:slots]"),
        ("span[hosts=1]", "span[hosts=1] select[big]", "select[big] span[hosts=1]"),
        ("", "span[ptile=2]", "span[ptile=2]"),
    ],
)
def test_what_the_profile_says_binds_and_the_job_adds(own, base, expected):
    same = render_request(compile_request((expected,), config=CONFIG))
    assert both(own, base) == same


def test_alternatives_and_parts_get_the_profiles_select():
    found = compile_request(
        ("{select[fast]} || {rusage[mem=5]}",), config=CONFIG, base="select[big] rusage[mem=9]"
    )
    assert [one.request.select for one in found.alternatives] == ["fast && big", "big"]
    assert [one.request.amounts[0].value for one in found.alternatives] == [9, 5]
    parts = compile_request(("2*{select[fast]} + 1*{}",), config=CONFIG, base="select[big]").parts
    assert [part.request.select for part in parts] == ["fast && big", "big"]


def test_contradictions_are_refused():
    with pytest.raises(ResreqError, match="span"):
        both("span[hosts=1]", "span[ptile=2]")
    with pytest.raises(ResreqError, match="compound"):
        both("select[big]", "1*{select[big]} + 1*{select[fast]}")
    with pytest.raises(ResreqError):
        both("select[nosuch]", "select[big]")
