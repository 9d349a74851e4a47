"""Limits of a job beside run time and memory: CPU time, swap, processes, and sizes."""

from typing import Final, NamedTuple

import msgspec

from xce.model.ids import Micros
from xce.model.units import render_span


class ProcessLimits(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a job, or each of its processes, may use; 0: no limit.

    The first four are of the whole job: CPU time of all its processes on all its hosts, the others
    of what it has on one host. The rest, and the CPU time, are limits of each process.
    """

    cpu_us: Micros = 0
    """``-c``."""
    swap_kib: int = 0
    """``-v``: memory and swap together."""
    processes: int = 0
    """``-p``."""
    threads: int = 0
    """``-T``."""
    stack_kib: int = 0
    """``-S``."""
    data_kib: int = 0
    """``-D``."""
    file_kib: int = 0
    """``-F``: of a file that it writes."""
    core_kib: int = -1
    """``-C``: of a core dump; -1: no limit."""

    @property
    def is_counted(self) -> bool:
        """Whether the whole job is measured for them."""
        return bool(self.cpu_us or self.swap_kib or self.processes or self.threads)


NO_LIMITS: Final = ProcessLimits()


class Shown(NamedTuple):
    """What a limit is called."""

    member: str
    option: str
    noun: str
    is_size: bool


SHOWN: Final = (
    Shown("cpu_us", "-c", "CPU limit", is_size=False),
    Shown("swap_kib", "-v", "swap limit", is_size=True),
    Shown("processes", "-p", "process limit", is_size=False),
    Shown("threads", "-T", "thread limit", is_size=False),
    Shown("stack_kib", "-S", "stack limit", is_size=True),
    Shown("data_kib", "-D", "data limit", is_size=True),
    Shown("file_kib", "-F", "file limit", is_size=True),
    Shown("core_kib", "-C", "core limit", is_size=True),
)
"""All of them, in the order of the struct."""


def is_set(limits: ProcessLimits, member: str) -> bool:
    """Return whether there is such a limit."""
    return bool(getattr(limits, member) != getattr(NO_LIMITS, member))


def fill(limits: ProcessLimits, others: ProcessLimits) -> ProcessLimits:
    """Return limits, with those of ``others`` where there are none."""
    if others == NO_LIMITS:
        return limits
    missing = {
        one.member: getattr(others, one.member) for one in SHOWN if not is_set(limits, one.member)
    }
    return msgspec.structs.replace(limits, **missing) if missing else limits


def without(limits: ProcessLimits, others: ProcessLimits) -> ProcessLimits:
    """Return limits without those that are the same in ``others``."""
    same = {
        one.member: getattr(NO_LIMITS, one.member)
        for one in SHOWN
        if getattr(limits, one.member) == getattr(others, one.member)
    }
    return msgspec.structs.replace(limits, **same)


def find_above(limits: ProcessLimits, most: ProcessLimits) -> Shown | None:
    """Return the first limit that is above the greatest one; None: none is."""
    for one in SHOWN:
        are_set = is_set(limits, one.member) and is_set(most, one.member)
        if are_set and getattr(limits, one.member) > getattr(most, one.member):
            return one
    return None


def render_limit(limits: ProcessLimits, one: Shown) -> str:
    """Return a limit with its name."""
    value: int = getattr(limits, one.member)
    if one.member == "cpu_us":
        return f"{one.noun} {render_span(value)}"
    return f"{one.noun} {value} KiB" if one.is_size else f"{one.noun} {value}"
