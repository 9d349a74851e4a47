"""The machine of ``sim swf``: processors, what waits for them, what runs on them."""

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import TypeAlias

from xce.sim.swf import SwfJob

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

    def place(self, number: int) -> Place:
        """Return a job's place in the queue's order."""
        job = self.jobs[number]
        return (job.request if self._shortest_first else 0, job.submit, number)

    def submit(self, number: int) -> None:
        """Let a job wait."""
        job = self.jobs[number]
        self.events += 1
        place = self.place(number)
        insort(self.queue, place)
        if self.by_length is not None:
            insort(self.by_length, (job.request, job.submit, number))
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
            key = (job.request, job.submit, number)
            del self.by_length[bisect_left(self.by_length, key)]

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
