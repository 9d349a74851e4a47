"""Queue and backfill on a machine that is nothing but processors: the scheduler of ``sim swf``.

An event loop over whole seconds with the rules of ``docs/simulator.md``, which are those that the
literature's results hang on. It has no hosts and no requests, so that logs of 100,000 jobs take
seconds; scenarios run the real session instead.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from xce.sim.swf import SwfJob
from xce.sim.swf_conservative import Conservative
from xce.sim.swf_machine import Machine, Place

MANY: Final = 256
"""With more that wait it is worth asking first who might start at all."""
POLICIES: Final = ("fcfs", "sjf")
BACKFILLS: Final = ("none", "easy", "easy-sjbf", "conservative")


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
    head = machine.queue[0][2]
    shadow, extra = _reserve(machine, machine.jobs[head].size)
    jobs, begun = machine.jobs, list[int]()
    for place in _candidates(machine, shadow - now, extra):
        machine.tried += 1
        job = jobs[place[2]]
        if job.size > machine.free or place[2] == head:
            continue
        if now + job.request > shadow:
            if job.size > extra:
                continue
            extra -= job.size
        machine.start(place, now)
        begun.append(place[2])
        if machine.free == 0:
            break
    for number in begun:
        del machine.queue[bisect_left(machine.queue, machine.place(number))]


def _candidates(machine: Machine, span: int, extra: int) -> Iterable[Place]:
    """Return who may pass the head, in order; where many wait, only who might start."""
    if len(machine.queue) > MANY:
        return machine.columns.might_pass(machine, span, extra)
    return machine.by_length[:] if machine.by_length is not None else machine.queue


def _reserve(machine: Machine, size: int) -> tuple[int, int]:
    """Return when ``size`` processors are believed to be free, and how many more are then."""
    free, shadow = machine.free, 0
    for end, _, held in machine.believed:
        if free >= size and end > shadow:
            break
        free += held
        shadow = end
    return shadow, free - size
