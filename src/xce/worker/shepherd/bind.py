"""Binding a job to processors and memory: what a process is bound to, its children inherit.

The shepherd, which has one thread, binds itself, starts the job shell, and lets go again. Where
its control groups have the controller ``cpuset``, the job's group holds it there too, so that it
cannot unbind itself.
"""

import ctypes
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from xce.worker.shepherd.cgroups import Groups

_SET_MEMPOLICY: Final = {"x86_64": 238, "aarch64": 237, "ppc64le": 261, "riscv64": 237}
"""The number of the system call, by machine."""
_DEFAULT: Final = 0
_PREFERRED: Final = 1
_BIND: Final = 2
_NODES_MAX: Final = 1024


class Bound(NamedTuple):
    """What a job is bound to."""

    processors: tuple[int, ...]
    nodes: tuple[int, ...]
    """NUMA domains of its memory; none: any."""
    is_local_only: bool
    """Whether it may have memory of no other one."""


def bound_of(order: Sequence[object] | None) -> Bound | None:
    """Return what an order says; None: it binds to nothing."""
    if order is None:
        return None
    processors, nodes, is_local_only = order
    return Bound(_numbers(processors), _numbers(nodes), bool(is_local_only))


def _numbers(items: object) -> tuple[int, ...]:
    return tuple(int(item) for item in items) if isinstance(items, list) else ()


def hold_to(groups: Groups, name: str, bound: Bound | None) -> None:
    """Have the kernel hold the group of an attempt to what it is bound to, where it can."""
    if bound is not None:
        groups.bind(name, bound.processors, bound.nodes if bound.is_local_only else ())


@contextmanager
def binding(bound: Bound | None) -> Iterator[None]:
    """Be bound while a job is started.

    Raises:
        OSError: The host has not these processors, or cannot bind memory.
    """
    if bound is None:
        yield
        return
    before = os.sched_getaffinity(0)
    missing = sorted(set(bound.processors) - before)
    if missing:
        # The kernel would bind to those that are there, without a word.
        raise OSError(f"processors {missing} are not there for us")
    os.sched_setaffinity(0, bound.processors)
    try:
        if bound.nodes:
            set_memory(bound.nodes, is_only=bound.is_local_only)
        try:
            yield
        finally:
            if bound.nodes:
                set_memory((), is_only=False)
    finally:
        os.sched_setaffinity(0, before)


def set_memory(nodes: Sequence[int], *, is_only: bool) -> None:
    """Have memory come from some NUMA domains; from any where none is named.

    The kernel knows one preferred domain: the first. Others follow by their distance to it.

    Raises:
        OSError: It cannot.
    """
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None:
        raise OSError(f"memory cannot be bound on {platform.machine()}")
    mask = (ctypes.c_ulong * (_NODES_MAX // 64))()
    for node in nodes if is_only else nodes[:1]:
        mask[node // 64] |= 1 << node % 64
    mode = (_BIND if is_only else _PREFERRED) if nodes else _DEFAULT
    size = _NODES_MAX if nodes else 0
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(number, mode, ctypes.byref(mask) if nodes else None, size) != 0:
        # Without its number: whatever it is, the host is to blame and not the job.
        raise OSError(f"memory cannot be bound: {os.strerror(ctypes.get_errno())}")
