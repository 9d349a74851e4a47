"""The machine of ``sim swf``: processors, what waits for them, what runs on them."""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from xce.sim.swf import SwfJob

_BLOCK: Final = 256
_NOBODY: Final = 1 << 62
"""The size of a job that does not wait."""
Place: TypeAlias = tuple[int, int, int]
"""A job in a queue: what it is ordered by, and its number."""


class Machine:
    """What waits and what runs."""

    def __init__(self, jobs: Sequence[SwfJob], procs: int, *, shortest_first: bool) -> None:
        self.jobs = jobs
        self.free = procs
        self.starts = [-1] * len(jobs)
        self.order: list[int] = []
        self.queue: list[Place] = []
        """In the order of the policy."""
        self.by_length: list[Place] | None = None
        """The same jobs, the shortest first, where the backfill asks for it."""
        self.arrived: list[Place] | None = None
        """Those that came since the last session, where the backfill asks for it."""
        self.believed: list[tuple[int, int, int]] = []
        """What runs as ``(believed end, place in order, processors)``, sorted."""
        self.ends: list[tuple[int, int, int]] = []
        """Heap of ``(end, place in order, job)``."""
        self.ended_early = False
        """Something ended before it was believed to since the last session."""
        self.sessions = 0
        self.events = 0
        self.tried = 0
        self._shortest_first = shortest_first
        self._columns: Columns | None = None

    @property
    def columns(self) -> "Columns":
        """Who waits, in the order in which the backfill tries them; kept from the first use on."""
        if self._columns is None:
            numbers = range(len(self.jobs))
            is_by_length = self.by_length is not None
            places = map(self._length if is_by_length else self.place, numbers)
            self._columns = Columns(self.jobs, sorted(places))
            for _, _, number in self.queue:
                self._columns.add(number)
        return self._columns

    def _length(self, number: int) -> Place:
        job = self.jobs[number]
        return (job.request, job.submit, number)

    def place(self, number: int) -> Place:
        """Return a job's place in the queue's order."""
        job = self.jobs[number]
        return (job.request if self._shortest_first else 0, job.submit, number)

    def submit(self, number: int) -> None:
        """Let a job wait."""
        self.events += 1
        place = self.place(number)
        insort(self.queue, place)
        if self.by_length is not None:
            insort(self.by_length, self._length(number))
        if self._columns is not None:
            self._columns.add(number)
        if self.arrived is not None:
            self.arrived.append(place)

    def start(self, place: Place, now: int) -> None:
        """Start a waiting job; whoever calls takes it out of ``queue``."""
        number = place[2]
        job = self.jobs[number]
        self.starts[number] = now
        rank = len(self.order)
        self.order.append(number)
        self.free -= job.size
        insort(self.believed, (now + job.request, rank, job.size))
        heapq.heappush(self.ends, (now + job.run, rank, number))
        if self.by_length is not None:
            del self.by_length[bisect_left(self.by_length, self._length(number))]
        if self._columns is not None:
            self._columns.remove(number)

    def end(self, now: int) -> None:
        """Let the job that ends first be over."""
        _, rank, number = heapq.heappop(self.ends)
        job = self.jobs[number]
        self.events += 1
        key = (self.starts[number] + job.request, rank, job.size)
        at = bisect_left(self.believed, key)
        if at < len(self.believed) and self.believed[at] == key:
            del self.believed[at]
            self.free += job.size
            self.ended_early = self.ended_early or key[0] > now

    def release(self, now: int) -> None:
        """Count what is believed to end by now as gone, though its end is still to be handled."""
        count = bisect_left(self.believed, (now + 1,))
        self.free += sum(item[2] for item in self.believed[:count])
        del self.believed[:count]


class Columns:
    """Who waits, as columns along an order of all jobs, so that many are looked at in one step.

    They stand in blocks, of each of which the smallest size and the shortest span are known.

    Args:
        jobs: All of them.
        places: Where each stands, in order.
    """

    def __init__(self, jobs: Sequence[SwfJob], places: Sequence[Place]) -> None:
        self._jobs, self._places = jobs, places
        self._rank = [0] * len(jobs)
        for rank, place in enumerate(places):
            self._rank[place[2]] = rank
        count = -(-len(jobs) // _BLOCK)
        self._sizes = np.full((count, _BLOCK), _NOBODY)
        self._spans = np.full((count, _BLOCK), _NOBODY)
        self._least = np.full((2, count), _NOBODY)

    def add(self, number: int) -> None:
        """Let a job wait."""
        size, span = self._jobs[number].size, self._jobs[number].request
        block, at = divmod(self._rank[number], _BLOCK)
        self._sizes[block, at], self._spans[block, at] = size, span
        self._least[0, block] = min(size, self._least[0, block])
        self._least[1, block] = min(span, self._least[1, block])

    def remove(self, number: int) -> None:
        """Let a job wait no more."""
        block, at = divmod(self._rank[number], _BLOCK)
        self._sizes[block, at] = self._spans[block, at] = _NOBODY
        self._least[:, block] = self._sizes[block].min(), self._spans[block].min()

    def might_pass(self, machine: Machine, span: int, extra: int) -> Iterator[Place]:
        """Yield in order who is not too large, and not too long where he is larger than ``extra``.

        What is free is asked of the machine for each block, so that later ones may start fewer.
        """
        sizes, spans = self._least
        is_hopeful = (sizes <= machine.free) & ((sizes <= extra) | (spans <= span))
        for block in is_hopeful.nonzero()[0].tolist():
            sizes, spans = self._sizes[block], self._spans[block]
            may = (sizes <= machine.free) & ((sizes <= extra) | (spans <= span))
            for at in may.nonzero()[0].tolist():
                yield self._places[block * _BLOCK + at]
