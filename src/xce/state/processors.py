"""The processors of all hosts, and which of them are out: sets of them are rows of words."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xce.model.ids import HostNumber
from xce.model.processor import (
    Layout,
    Processor,
    join_words,
    layout_of,
    words_for,
    words_of,
)

Words = npt.NDArray[np.int64]


class ProcessorTable:
    """The processors of all hosts, by host number."""

    def __init__(self) -> None:
        self.hosts: list[tuple[Processor, ...]] = []
        self.reported: list[tuple[Processor, ...]] = []
        """What workers found."""
        self.codes: list[int] = []
        """By host: which of ``layouts`` it has; -1: nobody knows."""
        self.layouts: list[Layout] = []
        self.words = 0
        """Words of the largest set."""
        self._code: dict[tuple[Processor, ...], int] = {}

    def add(self) -> None:
        """Make room for one more host."""
        self.hosts.append(())
        self.reported.append(())
        self.codes.append(-1)

    def settle(self, number: HostNumber, configured: tuple[Processor, ...] | None) -> None:
        """Bring the processors of a host to what its configuration says, else its worker."""
        now = self.reported[number] if configured is None else configured
        if now == self.hosts[number]:
            return
        self.hosts[number] = self._shared(now)
        self.codes[number] = self._code_of(now)
        self.words = max(self.words, words_for(now))

    def report(self, number: HostNumber, processors: tuple[Processor, ...]) -> None:
        """Note what the worker of a host found; hosts that are alike share it."""
        self.reported[number] = self._shared(processors)

    def _shared(self, processors: tuple[Processor, ...]) -> tuple[Processor, ...]:
        code = self._code_of(processors)
        return self.layouts[code].processors if code >= 0 else ()

    def _code_of(self, processors: tuple[Processor, ...]) -> int:
        if not processors:
            return -1
        code = self._code.get(processors)
        if code is None:
            code = self._code[processors] = len(self.layouts)
            self.layouts.append(layout_of(processors))
        return code

    def layout(self, number: HostNumber) -> Layout | None:
        """Return how the processors of a host lie; None: nobody knows."""
        code = self.codes[number]
        return self.layouts[code] if code >= 0 else None

    def by_number(self, number: HostNumber) -> dict[int, Processor]:
        """Return the processors of a host by their own numbers."""
        return {item.number: item for item in self.hosts[number]}

    def total(self, number: HostNumber) -> list[int]:
        """Return all processors of a host, as words."""
        layout = self.layout(number)
        return words_of(layout.all if layout is not None else 0, self.words)


def add_held(amounts: Words, row: int, processors: Sequence[int], tasks: int) -> None:
    """Add what an attempt holds of a host's processors to amounts along the rows.

    A set has as many words as it had when it was given out; there may be more of them now.

    Args:
        amounts: Along the rows.
        row: The first row that is a word.
        processors: As `xce.model.plan.GangStart.processors` has them of an entry.
        tasks: Tasks of the entry.
    """
    words = len(processors) // (tasks + 1)
    amounts[row : row + words] += np.asarray(processors[:words], np.int64)


def split_sets(processors: Sequence[int], tasks: int) -> tuple[int, tuple[int, ...]]:
    """Return what an entry of a placement holds, and the units of each of its tasks, as sets; see
    `add_held`.
    """
    if not processors:
        return 0, ()
    words = len(processors) // (tasks + 1)
    held, *bound = (
        join_words(processors[first : first + words])
        for first in range(0, words * (tasks + 1), words)
    )
    return held, tuple(bound)


def is_held(free: Words, needed: Words, row: int) -> bool:
    """Return whether amounts are there: whole sets of processors from ``row`` on, and as much of
    everything else as is needed.
    """
    is_short = (free[:row] < needed[:row]) & (needed[:row] > 0)
    return not is_short.any() and bool((free[row:] & needed[row:] == needed[row:]).all())
