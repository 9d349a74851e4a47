"""Processors of hosts: threads of cores in sockets and NUMA domains, and what jobs have of them.

A *processor* is what the kernel counts as a CPU: a hardware thread. Sets of them are masks: bit k
stands for the processor that the kernel calls k. In the tables of hosts a mask is cut into words
of `WORD_BITS`, so that a row of amounts can hold one: giving out takes bits away, giving back adds
them.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from xce.model.errors import TextError
from xce.model.ranges import from_sorted

PROCESSORS_MAX: Final = 1024
"""Numbers of processors are below it."""
WORD_BITS: Final = 60
LEVELS: Final = ("numa", "socket", "core", "thread")
"""The levels of ``affinity[]``, the widest first."""


class Processor(msgspec.Struct, frozen=True, array_like=True):
    """A hardware thread."""

    number: int
    """As the kernel counts."""
    core: int
    """Its core, a number that no other core of the host has."""
    socket: int
    numa: int
    is_told_only: bool = False
    """It was made up by the configuration: jobs are told of it, and are not bound to it."""

    def place(self, level: str) -> int:
        """Return the number of its domain at a level."""
        match level:
            case "numa":
                return self.numa
            case "socket":
                return self.socket
            case "core":
                return self.core
            case _:
                return self.number


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """What an attempt has of the processors of one host."""

    tasks: tuple[str, ...]
    """The processors that each task is bound to, as a list like ``0-3,8``."""
    nodes: tuple[str, ...]
    """The NUMA domains that each task's memory is bound to, likewise; each empty: to none."""
    is_local_only: bool = False
    """``membind=localonly`` of all tasks: memory of other NUMA domains is not taken at all."""
    is_told_only: bool = False
    """It is told to the job only."""
    local_only: tuple[bool, ...] = ()
    """The same of each task, where tasks differ; empty: ``is_local_only`` is said of all."""

    def keeps_local(self, task: int) -> bool:
        """Return whether a task has no memory of other NUMA domains."""
        return self.local_only[task] if self.local_only else self.is_local_only


class Layout:
    """How the processors of a host lie, as masks."""

    def __init__(self, processors: Sequence[Processor]) -> None:
        self.processors = tuple(processors)
        self.all = mask_of(item.number for item in processors)
        self.domains: dict[str, tuple[int, ...]] = {
            level: _domains(processors, level) for level in LEVELS
        }
        """By level: the mask of each domain, by number."""
        self.is_told_only = any(item.is_told_only for item in processors)

    def around(self, mask: int, level: str) -> int:
        """Return all processors of the domains in which any of ``mask`` lies."""
        found = 0
        for domain in self.domains[level]:
            if domain & mask:
                found |= domain
        return found

    def numbers(self, mask: int, level: str) -> list[int]:
        """Return the numbers of the domains in which any of ``mask`` lies."""
        held = (item for item in self.processors if mask >> item.number & 1)
        return sorted({item.place(level) for item in held})


@functools.lru_cache(maxsize=4096)
def layout_of(processors: tuple[Processor, ...]) -> Layout:
    """Return how processors lie; equal ones share it."""
    return Layout(processors)


def _domains(processors: Sequence[Processor], level: str) -> tuple[int, ...]:
    found: dict[int, int] = {}
    # Of threads the ones of a core stand together.
    order = sorted(processors, key=lambda item: (item.numa, item.socket, item.core, item.number))
    for item in order:
        place = item.place(level)
        found[place] = found.get(place, 0) | 1 << item.number
    return (
        tuple(found.values()) if level == "thread" else tuple(found[key] for key in sorted(found))
    )


def mask_of(numbers: Iterable[int]) -> int:
    """Return the set of some processors."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def numbers_in(mask: int) -> list[int]:
    """Return the processors of a set, rising."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def words_of(mask: int, words: int) -> list[int]:
    """Return a set as so many words, the one with the lowest numbers first."""
    part = (1 << WORD_BITS) - 1
    return [mask >> WORD_BITS * word & part for word in range(words)]


def join_words(words: Sequence[int]) -> int:
    """Return the set that words stand for."""
    mask = 0
    for place, word in enumerate(words):
        mask |= word << WORD_BITS * place
    return mask


def words_for(processors: Sequence[Processor]) -> int:
    """Return how many words hold any set of some processors."""
    return 1 + max(item.number for item in processors) // WORD_BITS if processors else 0


def render_list(numbers: Iterable[int]) -> str:
    """Return numbers as the kernel writes a list: ``0-3,8``."""
    runs = from_sorted(sorted(numbers))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def parse_list(text: str, most: int = PROCESSORS_MAX) -> tuple[int, ...]:
    """Return the numbers of a list like ``0-3,8``; each below ``most``.

    Raises:
        TextError: It is none.
    """
    found: set[int] = set()
    for item in filter(None, text.strip().split(",")):
        low, dash, high = item.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or len(item) > 20:
            raise TextError(f"{text[:60]!r} is no list of numbers like 0-3,8")
        first, last = int(low), int(high or low)
        if not first <= last < most:
            raise TextError(f"{item!r} is no range of numbers below {most}")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def made_up(shape: Mapping[str, int]) -> tuple[Processor, ...]:
    """Return the processors of a host as described: equal sockets of equal cores.

    They are numbered as kernels do: first one thread of each core, then the next of each.

    Args:
        shape: ``sockets``, ``cores`` of each, ``threads`` of each core, and in how many ``numa``
            domains all cores are divided.
    """
    sockets, threads = shape["sockets"], shape["threads"]
    cores = sockets * shape["cores"]
    return tuple(
        Processor(
            core + cores * thread, core, core // shape["cores"], core * shape["numa"] // cores,
            is_told_only=True,
        )
        for thread in range(threads)
        for core in range(cores)
    )  # fmt: skip
