"""Binding to processors and memory: children inherit it, and we let go of it."""

import os
import platform
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


# Mode and first word of the nodes, as `get_mempolicy` of Linux on x86_64 tells of this process.
MEMORY = """
import ctypes
mode, nodes = ctypes.c_int(), (ctypes.c_ulong * 16)()
answer = ctypes.CDLL(None).syscall(239, ctypes.byref(mode), nodes, 1024, None, 0)
print(answer, mode.value, nodes[0])
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the system call has another number")
@pytest.mark.parametrize(("is_local_only", "mode"), [(True, 2), (False, 1)])
def test_memory_is_bound_where_the_kernel_lets_us(is_local_only: bool, mode: int) -> None:
    show = [sys.executable, "-c", MEMORY]
    try:
        with binding(Bound(tuple(os.sched_getaffinity(0)), (0,), is_local_only)):
            child = subprocess.check_output(show, text=True)
    except OSError as error:
        pytest.skip(f"memory cannot be bound here: {error}")
    if child.startswith("-1"):
        pytest.skip("the kernel does not tell what memory is bound to")
    assert child == f"0 {mode} 1\n"
    assert subprocess.check_output(show, text=True) == "0 0 0\n"


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
