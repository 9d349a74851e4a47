"""Binding to processors and memory: children inherit it, and we let go of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xce.worker.shepherd.bind import Bound, binding, bound_of
from xce.worker.shepherd.cgroups import Groups

SHOW = "import os; print(sorted(os.sched_getaffinity(0)))"


def test_a_child_is_bound_and_we_are_not_any_more() -> None:
    before = os.sched_getaffinity(0)
    last = max(before)
    with binding(Bound((last,), (), is_local_only=False)):
        child = subprocess.check_output([sys.executable, "-c", SHOW], text=True)
    assert child == f"[{last}]\n"
    assert os.sched_getaffinity(0) == before


def test_bound_to_nothing_is_as_we_are() -> None:
    before = os.sched_getaffinity(0)
    with binding(bound_of(None)):
        assert os.sched_getaffinity(0) == before


def test_processors_that_are_not_there_are_an_error_and_leave_us_as_we_are() -> None:
    before = os.sched_getaffinity(0)
    with (
        pytest.raises(OSError, match=r"processors \[1023\] are not there"),
        binding(Bound((min(before), 1023), (), is_local_only=False)),
    ):
        pass
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("is_local_only", [True, False])
def test_memory_is_bound_where_the_kernel_lets_us(is_local_only: bool) -> None:
    policy = Path("/proc/self/numa_maps")
    if not policy.exists():
        pytest.skip("the kernel has no NUMA domains")
    show = "print(open('/proc/self/numa_maps').read())"
    try:
        with binding(Bound(tuple(os.sched_getaffinity(0)), (0,), is_local_only)):
            child = subprocess.check_output([sys.executable, "-c", show], text=True)
    except OSError as error:
        pytest.skip(f"memory cannot be bound here: {error}")
    assert ("bind:0" if is_local_only else "prefer:0") in child
    assert "bind" not in policy.read_text()


def test_a_group_is_held_to_processors_where_it_has_the_controller(tmp_path: Path) -> None:
    groups = Groups.__new__(Groups)
    groups.base, groups.has_cpuset = str(tmp_path), True
    (tmp_path / "1.0.1").mkdir()
    for name in ("cpuset.cpus", "cpuset.mems"):
        (tmp_path / "1.0.1" / name).touch()
    assert groups.bind("1.0.1", (0, 2), (1,))
    assert (tmp_path / "1.0.1/cpuset.cpus").read_text() == "0,2"
    assert (tmp_path / "1.0.1/cpuset.mems").read_text() == "1"
    assert not groups.bind("gone", (0,), ())
    groups.has_cpuset = False
    assert not groups.bind("1.0.1", (1,), ())
