"""Queue and backfill on a machine that is nothing but processors: the scheduler of ``sim swf``.

An event loop over whole seconds with the rules of ``docs/simulator.md``, which are those that the
literature's results hang on. It has no hosts and no requests, so that logs of 100,000 jobs take
seconds; scenarios run the real session instead.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from xce.sim.swf import SwfJob
from xce.sim.swf_profile import Profile

POLICIES: Final = ("fcfs", "sjf")
LAZY_FROM: Final = 20
"""With so many jobs it is worth asking first whether any of them might start."""
BACKFILLS: Final = ("none", "easy", "easy-sjbf", "conservative")

Place: TypeAlias = tuple[int, int, int]
"""A job in a queue: what it is ordered by, and its number."""


class Result(NamedTuple):
    """What came of a run."""

    starts: list[int]
    """When each job started, in the order of the jobs."""
    order: list[int]
    """The jobs in the order of their starts."""
    sessions: int
    events: int
    tried: int
    """How many candidates the backfill looked at: counted work, for tests."""


def simulate(
    jobs: Sequence[SwfJob],
    procs: int,
    *,
    policy: str = "fcfs",
    backfill: str = "easy",
    each_event: bool = False,
) -> Result:
    """Run the jobs (in order of submission) on ``procs`` processors.

    Args:
        jobs: None is wider than the machine.
        procs: Processors of the machine.
        policy: One of `POLICIES`.
        backfill: One of `BACKFILLS`.
        each_event: At one second each submission, then each termination has a session of its own;
            else there is one session behind all terminations and submissions of a second.
    """
    machine = Machine(jobs, procs, shortest_first=policy == "sjf")
    session: Callable[[Machine, int], None]
    match backfill:
        case "none":
            session = _start_in_order
        case "easy":
            session = _easy
        case "easy-sjbf":
            machine.by_length = []
            session = _easy
        case _:
            session = Conservative(machine)
    if each_event:
        _run_each(machine, session)
    else:
        _run_batches(machine, session)
    return Result(machine.starts, machine.order, machine.sessions, machine.events, machine.tried)


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


def _run_batches(machine: Machine, session: Callable[[Machine, int], None]) -> None:
    """All terminations of a second, all submissions, one session."""
    jobs, ends, coming = machine.jobs, machine.ends, 0
    while coming < len(jobs) or ends:
        now = jobs[coming].submit if coming < len(jobs) else ends[0][0]
        if ends and ends[0][0] < now:
            now = ends[0][0]
        while ends and ends[0][0] == now:
            machine.end(now)
        while coming < len(jobs) and jobs[coming].submit == now:
            machine.submit(coming)
            coming += 1
        machine.sessions += 1
        session(machine, now)


def _run_each(machine: Machine, session: Callable[[Machine, int], None]) -> None:
    """Each submission of a second, then each termination, with a session of its own."""
    jobs, ends, coming = machine.jobs, machine.ends, 0
    while coming < len(jobs) or ends:
        now = jobs[coming].submit if coming < len(jobs) else ends[0][0]
        if ends and ends[0][0] < now:
            now = ends[0][0]
        machine.release(now)
        while coming < len(jobs) and jobs[coming].submit == now:
            machine.submit(coming)
            coming += 1
            machine.sessions += 1
            session(machine, now)
        while ends and ends[0][0] == now:
            machine.end(now)
            machine.sessions += 1
            session(machine, now)


def _start_in_order(machine: Machine, now: int) -> None:
    """Start jobs from the front of the queue as long as they fit."""
    queue, jobs, count = machine.queue, machine.jobs, 0
    while count < len(queue) and jobs[queue[count][2]].size <= machine.free:
        machine.start(queue[count], now)
        count += 1
    del queue[:count]


def _easy(machine: Machine, now: int) -> None:
    """Reserve for the head alone; the others may pass where that does not delay it."""
    _start_in_order(machine, now)
    if machine.free == 0 or len(machine.queue) < 2:
        return
    shadow, extra = _reserve(machine, machine.jobs[machine.queue[0][2]].size)
    if machine.by_length is None:
        candidates = machine.queue[1:]
    else:
        head = machine.queue[0][2]
        candidates = [place for place in machine.by_length if place[2] != head]
    jobs, begun = machine.jobs, set()
    for place in candidates:
        machine.tried += 1
        job = jobs[place[2]]
        if job.size > machine.free:
            continue
        if now + job.request > shadow:
            if job.size > extra:
                continue
            extra -= job.size
        machine.start(place, now)
        begun.add(place[2])
        if machine.free == 0:
            break
    if begun:
        machine.queue[:] = [place for place in machine.queue if place[2] not in begun]


def _reserve(machine: Machine, size: int) -> tuple[int, int]:
    """Return when ``size`` processors are believed to be free, and how many more are then."""
    free, shadow = machine.free, 0
    for end, _, held in machine.believed:
        if free >= size and end > shadow:
            break
        free += held
        shadow = end
    return shadow, free - size


class Conservative:
    """Every job has a reservation; all are made anew, in queue order, after an early end.

    With a long queue a reservation is found out only when it may matter: as long as what is free
    now, beside the known ones, suffices for none of the others, none of them starts, since further
    reservations only take more. That puts off most of them until all are made anew anyway.
    """

    def __init__(self, machine: Machine) -> None:
        machine.arrived = []
        self._sizes = np.array([job.size for job in machine.jobs], np.int64)
        self._spans = np.array([job.request for job in machine.jobs], np.int64)
        self._open: list[int] = []
        """Jobs whose reservation is not found out yet, in the order in which they get one."""
        self._known: list[tuple[int, Place]] = []
        """A heap of reservations: when, and who."""
        self._profile = Profile(0, [(0, machine.free)])

    def __call__(self, machine: Machine, now: int) -> None:
        """Run a session."""
        assert machine.arrived is not None
        if machine.ended_early:
            self._make_anew(machine, now)
        else:
            self._open += [place[2] for place in sorted(machine.arrived)]
        machine.arrived.clear()
        machine.ended_early = False
        self._profile.forget(now)
        self._find_out(machine)
        begin: list[Place] = []
        while self._known and self._known[0][0] <= now:
            begin.append(heapq.heappop(self._known)[1])
        for place in sorted(begin):
            del machine.queue[bisect_left(machine.queue, place)]
            machine.start(place, now)

    def _make_anew(self, machine: Machine, now: int) -> None:
        """Forget all reservations."""
        self._known.clear()
        self._open = [place[2] for place in machine.queue]
        steps = [(now, machine.free), *((end, size) for end, _, size in machine.believed)]
        self._profile = Profile(now, steps)

    def _find_out(self, machine: Machine) -> None:
        """Find out reservations, up to the last job that might start now."""
        profile = self._profile
        while self._open:
            last = len(self._open)
            if last > LAZY_FROM:
                numbers = np.array(self._open, np.int64)
                might = profile.fits_now(self._sizes[numbers], self._spans[numbers])
                last = int(might.argmax()) + 1 if might.any() else 0
            if not last:
                return
            machine.tried += last
            for number in self._open[:last]:
                job = machine.jobs[number]
                at = profile.reserve(job.size, job.request)
                heapq.heappush(self._known, (at, machine.place(number)))
            del self._open[:last]
