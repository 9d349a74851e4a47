"""What would let a job start at once, and who is in its way. It starts nothing and changes nothing.

A suggestion is never a guess: the job was withdrawn, submitted again as suggested (or released,
where that is all) and it started in a session on the cluster as it is. So it stands behind those
that wait already, as it would in life.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Final

import msgspec

from xce.advice.blockers import Blockage, find_blockage
from xce.advice.relax import Change, Relaxation, Wish, relaxations
from xce.advice.sketch import Sketch
from xce.advice.trials import TRIALS_MAX, BoundHitError, Element, Start, Trials
from xce.control.submit import decide_submit
from xce.model.command import SubmitJobs
from xce.model.config import LEVELS
from xce.model.ids import JobId
from xce.model.job import ArraySpec, Submission
from xce.model.ranges import contains
from xce.model.reason import Reason, ReasonCode
from xce.model.refusal import Refusal
from xce.resreq.dependency import subjects_of
from xce.state.cluster import ClusterState
from xce.state.job import DOOMED, WAITS_BEGIN, WAITS_DEPENDENCY, Job
from xce.state.view import pend_reason

replace = msgspec.structs.replace
SUGGESTIONS_MAX: Final = 12
PAIRS_MAX: Final = 3
"""Most pairs that are told, where nothing helps alone."""
_AGAIN: Final = Change("again", "submitted again as it is: it would avoid no host then")
_NOT_HELD: Final = Change("hold", "not held", "without -H")
_CLOSED_MAX: Final = 4
"""Most closed hosts that are tried."""
_ONE_OF: Final = frozenset({("queue", "queue"), ("open", "open"), ("open", "open-all")})
"""Kinds that make no sense together."""
_TIMED: Final = frozenset({ReasonCode.RESERVED, ReasonCode.DEADLINE})


class Suggestion(msgspec.Struct, frozen=True):
    """Changes with which the job would start at once."""

    changes: tuple[Change, ...]
    wish: Wish
    hosts: tuple[str, ...]
    """Where it would run, in rank order."""
    tasks: tuple[int, ...]


class Advice(msgspec.Struct, frozen=True):
    """What was found about an element that waits."""

    reason: Reason
    """Why it waits, as a session finds now."""
    start: Start | None = None
    """The next session starts it, as things are."""
    suggestions: tuple[Suggestion, ...] = ()
    blockage: Blockage = Blockage()
    waits_for: tuple[JobId, ...] = ()
    """Unfinished jobs that its dependency names."""
    trials: int = 0
    is_cut: bool = False
    """There were too many trials: more may help than is told."""


def first_waiting(job: Job) -> int | None:
    """Return the index of the first element of a job that waits or is held, None: none does."""
    waiting = job.pending or job.held
    return job.index(waiting[0][0]) if waiting else None


def advise(trials: Trials, element: Element) -> Advice:
    """Return what would let an element start that pends or is held."""
    job_id, index = element
    base = trials.easel.base
    job = base.jobs[job_id]
    position = job.position(index)
    assert position is not None, f"job {job_id} has no element {index}"
    is_held = not contains(job.pending, position, position)
    reason = pend_reason(base, job, held=is_held, position=position)
    waits_for = _waits_for(base, job)
    search = _Search(trials, element, gates=tuple(_gates(base, job, position, is_held=is_held)))
    blockage = Blockage()
    try:
        sketch = trials.sketch()
        start = trials.start(sketch, element)
        if start is not None:
            return Advice(reason, start, trials=trials.made)
        if reason == base.class_at(job, position).reason:
            reason = trials.reason(sketch, job_id, position) or reason
        trials.allow(TRIALS_MAX // 2)
        if not is_held and not job.waits and not contains(job.awaiting, position, position):
            blockage = find_blockage(trials, element)
        trials.allow(TRIALS_MAX)
        if not _has_hold(base, job_id):
            is_timed = bool(base.reservations or base.windows) or _is_timed(reason)
            search.run(is_timed=is_timed)
    except BoundHitError:
        search.is_cut = True
    return Advice(
        reason,
        None,
        tuple(search.found),
        blockage,
        waits_for,
        trials.made,
        search.is_cut,
    )


def _has_hold(state: ClusterState, job_id: JobId) -> bool:
    """Return whether others give way for a job already."""
    return any(job == job_id for job, _ in state.holds)


def _is_timed(reason: Reason) -> bool:
    return reason.code in _TIMED or any(map(_is_timed, reason.under))


def _waits_for(state: ClusterState, job: Job) -> tuple[JobId, ...]:
    if not job.is_conditional or job.dependency is None:
        return ()
    subjects = sorted(set(subjects_of(job.dependency)))
    return tuple(one for one in subjects if one in state.jobs and not state.jobs[one].is_finished)


def _gates(state: ClusterState, job: Job, position: int, *, is_held: bool) -> Iterator[Change]:
    """Yield what keeps a job out of sessions: all of it must go, whatever else would help."""
    if is_held:
        who = "released by an administrator" if job.held_by_admin else "released"
        yield Change("hold", who, f"bresume {job.id}")
    if job.waits & WAITS_BEGIN:
        yield Change("begin-time", "without a begin time", "without -b")
    awaits = contains(job.awaiting, position, position)
    if awaits or job.waits & (WAITS_DEPENDENCY | DOOMED):
        text = state.spec(job).dependency
        yield Change("dependency", f"without the dependency {text}", f'without -w "{text}"')
    if job.array is not None and state.room(job) == 0:
        limit = job.array.limit
        yield Change("array-limit", f"without the array's limit of {limit}", f"without %{limit}")


class _Search:
    """Tries what would let an element start."""

    def __init__(self, trials: Trials, element: Element, gates: tuple[Change, ...]) -> None:
        self._trials = trials
        self._element = element
        self._gates = gates
        base = trials.easel.base
        self._job = base.jobs[element[0]]
        key = base.class_at(self._job, self._job.position(element[1]) or 0).key
        self._wish = Wish(key.request, key.queue, key.run_limit_us)
        self._base = base
        self.found: list[Suggestion] = []
        self.is_cut = False

    def run(self, *, is_timed: bool) -> None:
        """Try everything, one change at a time, then two.

        Raises:
            BoundHitError: There were too many trials.
        """
        if self._try(self._wish, () if self._gates else (_AGAIN,)):
            return
        ways = relaxations(
            self._wish,
            self._other_queues(),
            self._closed_hosts(),
            is_timed=is_timed,
            levels=("host", *(self._base.config.levels or LEVELS)),
        )
        for way in ways:
            if way.kind == "open-all" and self.found:
                continue
            self._try_way(self._wish, way, ())
            if len(self.found) >= SUGGESTIONS_MAX:
                self.is_cut = True
                return
        if self.found:
            return
        for one, other in combinations(ways, 2):
            if (one.kind, other.kind) in _ONE_OF:
                continue
            self._try_pair(one, other)
            if len(self.found) >= PAIRS_MAX:
                return

    def _other_queues(self) -> tuple[str, ...]:
        """Return the queues that would take it, the most important first."""
        own = self._wish.queue
        queues = sorted(
            (queue for queue in self._base.queues.values() if queue.name != own and queue.active),
            key=lambda queue: (-queue.priority, queue.name),
        )
        return tuple(queue.name for queue in queues if self._may_enter(queue.name))

    def _closed_hosts(self) -> tuple[str, ...]:
        """Return hosts that are closed and there, a few of them."""
        table = self._base.hosts
        closed = table.is_configured & table.is_up & ~table.is_open
        return tuple(table.names[number] for number in closed.nonzero()[0][:_CLOSED_MAX].tolist())

    def _may_enter(self, queue: str) -> bool:
        submission = self._submission(replace(self._wish, queue=queue))
        command = SubmitJobs(self._job.owner, (submission,))
        _, (result,) = decide_submit(self._base, command, self._trials.easel.now_us)
        return not isinstance(result, Refusal)

    def _try_pair(self, one: Relaxation, other: Relaxation) -> None:
        """Try two changes; the numbers of each are then made as large as the other's allow."""
        wish = one.apply(self._wish, one.least)
        if self._start(other.apply(wish, other.least)) is None:
            return

        def both(number: int) -> Wish:
            return other.apply(one.apply(self._wish, number), other.least)

        value = self._largest(one, both)
        self._try_way(one.apply(self._wish, value), other, (one.tell(value),))

    def _try_way(self, wish: Wish, way: Relaxation, others: tuple[Change, ...]) -> None:
        if self._start(way.apply(wish, way.least)) is None:
            return
        value = way.least
        if way.spread is not None:
            start = self._start(way.spread(wish))
            value = sum(start.tasks) if start is not None else value
        if not way.is_graded or value == way.least:
            value = self._largest(way, lambda number: way.apply(wish, number))
        self._try(way.apply(wish, value), (*others, way.tell(value)))

    def _largest(self, way: Relaxation, apply: Callable[[int], Wish]) -> int:
        """Return the largest number with which it starts; it does with the smallest."""
        low, high = way.least, way.most + 1
        while low + 1 < high:
            middle = (low + high) // 2
            if self._start(apply(middle)) is not None:
                low = middle
            else:
                high = middle
        return low

    def _try(self, wish: Wish, changes: tuple[Change, ...]) -> bool:
        """Note what is wanted as a suggestion if it lets the element start."""
        start = self._start(wish)
        if start is None:
            return False
        gates = self._gates
        if not self._is_release(wish):
            gates = tuple(_NOT_HELD if gate.kind == "hold" else gate for gate in gates)
        told = (*gates, *changes)
        if told not in [one.changes for one in self.found]:
            self.found.append(Suggestion(told, wish, start.hosts, start.tasks))
        return True

    def _start(self, wish: Wish) -> Start | None:
        """Return how the element starts if that is wanted of it instead."""
        sketch = self._trials.sketch()
        element = self._prepare(sketch, wish)
        return None if element is None else self._trials.start(sketch, element)

    def _is_release(self, wish: Wish) -> bool:
        """Return whether all that is to be done is to release it."""
        return wish == self._wish and [gate.kind for gate in self._gates] == ["hold"]

    def _prepare(self, sketch: Sketch, wish: Wish) -> Element | None:
        job_id, index = self._element
        position = self._job.position(index)
        assert position is not None, "the element exists"
        own = ((position, position),)
        if self._is_release(wish):
            sketch.release(job_id, own)
            return self._element
        if wish.opened:
            sketch.open_hosts(wish.opened)
        if wish.opened and not self._gates and wish == replace(self._wish, opened=wish.opened):
            return self._element
        sketch.withdraw(job_id, own)
        result = sketch.submit(self._job.owner, self._submission(wish))
        return None if isinstance(result, Refusal) else (result, index)

    def _submission(self, wish: Wish) -> Submission:
        return resubmission(self._base, self._job, self._element[1], wish)


def resubmission(state: ClusterState, job: Job, index: int, wish: Wish) -> Submission:
    """Return the submission of one element anew, with something else wanted of it.

    What it waited for beside room (hold, begin time, dependency, array limit) is left out.
    """
    position = job.position(index) or 0
    key, spec = state.class_at(job, position).key, state.spec_at(job, position)
    array = None if job.array is None else ArraySpec(((index, index, 1),))
    return Submission(
        spec=replace(spec, dependency="", array="" if array is None else str(index)),
        request=wish.request,
        queue=wish.queue,
        project=key.project,
        array=array,
        run_limit_us=wish.run_limit_us,
        estimate_us=key.estimate_us,
        priority=key.priority,
    )
