"""Conservative backfill of ``sim swf``: every job has a reservation, found out when it matters.

All reservations are made anew, in queue order, after an early end. With a long queue most of them
are forgotten before anybody has asked for them, so a session finds out only what it needs to know
who starts now; starts are the same as if all had been found out (tested).
"""

import heapq
from bisect import bisect_left
from typing import Final

import numpy as np

from xce.sim.swf_machine import Machine, Place
from xce.sim.swf_profile import Numbers, Profile

LAZY_FROM: Final = 20
"""With so many jobs it is worth asking first whether any of them might start."""
AT_ONCE: Final = 64
"""So many reservations are found out before it is asked again who might still start."""


class Conservative:
    """Runs the sessions of a machine.

    Three facts put reservations off. Further reservations only take room, so whoever does not fit
    now beside the known ones does not start now. For the same reason a job begins at the earliest
    when its size is free for the first time beside the known ones. And so a job that fits now, and
    would be gone before any of those in front of it can begin, starts now, whatever they get.

    Jobs are known here by their rank: their place in the policy's order of all jobs.
    """

    def __init__(self, machine: Machine) -> None:
        machine.arrived = []
        jobs = machine.jobs
        self._places: list[Place] = sorted(machine.place(number) for number in range(len(jobs)))
        self._sizes = np.array([jobs[place[2]].size for place in self._places], np.int64)
        self._spans = np.array([jobs[place[2]].request for place in self._places], np.int64)
        self._waiting = np.empty(0, np.int64)
        """Whoever waits, in the policy's order."""
        self._open = np.empty(0, np.int64)
        """Whose reservation is not found out yet, in the order in which they get one."""
        self._known: list[tuple[int, int]] = []
        """A heap of reservations: when, and who."""
        self._profile = Profile(0, [(0, machine.free)])

    def __call__(self, machine: Machine, now: int) -> None:
        """Run a session."""
        arrived = self._take_arrived(machine)
        if machine.ended_early:
            self._make_anew(machine, now)
        elif len(arrived):
            self._open = np.concatenate((self._open, arrived))
        machine.ended_early = False
        self._profile.forget(now)
        self._find_out(machine, now)
        begin: list[int] = []
        while self._known and self._known[0][0] <= now:
            begin.append(heapq.heappop(self._known)[1])
        begin.sort()
        for rank in begin:
            place = self._places[rank]
            del machine.queue[bisect_left(machine.queue, place)]
            machine.start(place, now)
        if begin:
            self._waiting = np.delete(self._waiting, self._waiting.searchsorted(begin))

    def _take_arrived(self, machine: Machine) -> Numbers:
        """Return who came since the last session, in the policy's order."""
        assert machine.arrived is not None
        if not machine.arrived:
            return np.empty(0, np.int64)
        ranks = [bisect_left(self._places, place) for place in sorted(machine.arrived)]
        machine.arrived.clear()
        arrived = np.array(ranks, np.int64)
        self._waiting = np.insert(self._waiting, self._waiting.searchsorted(arrived), arrived)
        return arrived

    def _make_anew(self, machine: Machine, now: int) -> None:
        """Forget all reservations."""
        self._known.clear()
        self._open = self._waiting
        steps = [(now, machine.free), *((end, size) for end, _, size in machine.believed)]
        self._profile = Profile(now, steps)

    def _find_out(self, machine: Machine, now: int) -> None:
        """Find out reservations until nobody who has none can start now."""
        while len(self._open):
            count = len(self._open)
            if count > LAZY_FROM:
                sizes, spans = self._sizes[self._open], self._spans[self._open]
                might = self._profile.fits_now(sizes, spans)
                first = int(might.argmax())
                if not might[first]:
                    return
                blocker = self._find_blocker(first, now + int(spans[first]))
                if blocker == first:
                    self._reserve(machine, first, first + 1)
                    continue
                count = min(blocker + 1, AT_ONCE)
            self._reserve(machine, 0, count)

    def _find_blocker(self, count: int, until: int) -> int:
        """Return who of the first open ones might begin before an instant; ``count``: nobody."""
        front = self._open[:count]
        asked: set[tuple[int, int]] = set()
        for place in np.flatnonzero(self._profile.frees(self._sizes[front]) < until).tolist():
            pair = int(self._sizes[front[place]]), int(self._spans[front[place]])
            if pair not in asked:
                asked.add(pair)
                if self._profile.begins_before(*pair, until):
                    return int(place)
        return count

    def _reserve(self, machine: Machine, first: int, last: int) -> None:
        """Find out the reservations of a part of the open ones."""
        machine.tried += last - first
        for rank in self._open[first:last].tolist():
            at = self._profile.reserve(int(self._sizes[rank]), int(self._spans[rank]))
            heapq.heappush(self._known, (at, rank))
        self._open = np.concatenate((self._open[:first], self._open[last:]))
