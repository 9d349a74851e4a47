"""Questions about a job that many ask: its word, its reason, the elements in a state."""

from collections.abc import Callable, Iterator
from typing import Final

from xce.model.dependency import COUNTS, EVERY, Condition, Test
from xce.model.display import stat_word
from xce.model.ids import Index, JobId
from xce.model.job import EndCause, Outcome, Phase, PostStat, Stop
from xce.model.ranges import (
    Ranges,
    contains,
    count,
    from_runs,
    from_sorted,
    intersect,
    subtract,
)
from xce.model.reason import Reason, ReasonCode
from xce.state.cluster import ClusterState, RequestClass
from xce.state.job import DOOMED, WAITS_BEGIN, WAITS_DEPENDENCY, Attempt, Ended, Job

_REQUEUED: Final = Reason(ReasonCode.REQUEUED)


def shown_forms(state: ClusterState, job: Job, among: Ranges) -> list[tuple[int, int, Ranges]]:
    """Return class, spec and positions of the elements in ``among``, those alike together: what
    lives is what it was placed as, and what has ended is what its element is.
    """
    if not job.is_modified:
        return [(job.cls, job.spec_id, among)]
    live: dict[tuple[int, int], list[int]] = {}
    for position, attempt in sorted((job.live or {}).items()):
        own = attempt.cls, state.spec_id_at(job, position)
        if own != job.form_at(position) and contains(among, position, position):
            live.setdefault(own, []).append(position)
    apart = [(*form, from_sorted(places)) for form, places in live.items()]
    rest = among
    for _, _, places in apart:
        rest = subtract(rest, places)
    return job.forms(rest) + apart


def waiting_groups(job: Job, ranges: Ranges) -> Iterator[Ranges]:
    """Yield the parts of ``ranges`` that wait for the same: each a set of its own."""
    for _, _, part in job.forms(ranges) if job.variants else ((0, 0, ranges),):
        yield from _waiting_alike(job, part)


def _waiting_alike(job: Job, ranges: Ranges) -> Iterator[Ranges]:
    """Yield the parts of elements of one form that wait for the same."""
    if not job.awaiting:
        yield ranges
        return
    doomed = from_runs(run for _, runs in job.dooms for run in runs)
    waits = subtract(job.awaiting, doomed)
    rest = subtract(ranges, job.awaiting)
    for part in (
        rest,
        intersect(waits, ranges),
        intersect(doomed, ranges),
    ):
        if part:
            yield part


def pend_reason(
    state: ClusterState, job: Job, *, held: bool = False, position: int | None = None
) -> Reason:
    """Return why the pending (or held) elements of ``job`` wait.

    Args:
        state: Knows what its class waits for.
        job: The job.
        held: Whether those are meant that are held.
        position: Of the element that is meant; None: of one that may start first.
    """
    if held:
        return Reason(ReasonCode.HELD, detail="administrator" if job.held_by_admin else "")
    if job.awaiting:
        if position is None:
            position = (job.ready or job.pending or job.held)[0][0]
        if contains(job.awaiting, position, position):
            code = ReasonCode.DEPENDENCY_NEVER if job.is_doomed(position) else ReasonCode.DEPENDENCY
            return Reason(code, detail=state.spec(job).dependency)
    if job.waits & DOOMED:
        return Reason(ReasonCode.DEPENDENCY_NEVER, detail=state.spec(job).dependency)
    if job.waits & WAITS_BEGIN:
        return Reason(ReasonCode.BEGIN_TIME, at_us=job.begin_at_us)
    if job.waits & WAITS_DEPENDENCY:
        return Reason(ReasonCode.DEPENDENCY, detail=state.spec(job).dependency)
    if job.array is not None and state.room(job) == 0:
        return Reason(ReasonCode.ARRAY_LIMIT, needed=job.array.limit)
    found = _class_waiting(state, job, position)
    queue = state.queues.get(found.key.queue)
    if queue is None or not queue.active:
        return Reason(ReasonCode.QUEUE_CLOSED, resource=found.key.queue)
    if not state.is_window_open(queue.name):
        opens_us = state.next_window_us(queue.name)
        return Reason(ReasonCode.WINDOW, resource=queue.name, at_us=opens_us)
    reason = found.reason
    if reason.code is ReasonCode.NEW and job.requeues:
        return _REQUEUED
    return reason


def _class_waiting(state: ClusterState, job: Job, position: int | None) -> RequestClass:
    """Return the class of an element that waits; None: of one that may start first."""
    if not job.variants:
        return state.classes[job.cls]
    if position is None:
        position = next((first for first, _ in (*job.ready, *job.pending)), 0)
    return state.classes[job.form_at(position)[0]]


def is_unknown(state: ClusterState, attempt: Attempt) -> bool:
    """Return whether nobody can say how an attempt is: its host is away for too long."""
    return state.hosts.is_silent[attempt.hosts[0]]


def stat_of_attempt(attempt: Attempt, *, unknown: bool = False) -> str:
    """Return the STAT word of a live attempt; one that shall end on a host that is away is
    ``ZOMBI``, another one there ``UNKWN``.
    """
    if unknown:
        return "UNKWN" if attempt.end_cause == EndCause.NONE else "ZOMBI"
    return stat_word(
        Phase(attempt.phase),
        Outcome.NONE,
        held=False,
        suspended=attempt.suspended,
        by_system=attempt.is_stopped_by_system,
    )


def stop_word(attempt: Attempt) -> str:
    """Return why the cluster itself suspends an attempt: ``window``, ``preempted``, ``load`` or
    nothing.
    """
    if not attempt.is_stopped_by_system:
        return ""
    if attempt.stops & Stop.PREEMPTED:
        return "preempted"
    return "window" if attempt.stops & Stop.WINDOW else "load"


def ended_element(job: Job, position: int) -> tuple[Ended, str] | None:
    """Return how an element ended and on whose word, or None while it has not."""
    ended = job.ended_at(position)
    if ended is not None:
        return ended, (job.ended_by or {}).get(position, "")
    for item in job.withdrawn:
        if contains(item.ranges, position, position):
            return (
                Ended(outcome=Outcome.EXIT, cause=EndCause(item.cause), ended_at_us=item.at_us),
                item.by,
            )
    return None


def stat_of(state: ClusterState, job: Job, position: int) -> str:
    """Return the STAT word of one element."""
    if job.live and position in job.live:
        attempt = job.live[position]
        return stat_of_attempt(attempt, unknown=is_unknown(state, attempt))
    if contains(job.pending, position, position):
        return "PEND"
    if contains(job.held, position, position):
        return "PSUSP"
    found = ended_element(job, position)
    return "DONE" if found is not None and found[0].outcome == Outcome.DONE else "EXIT"


def counts(job: Job) -> dict[str, int]:
    """Return how many elements of ``job`` are in each state."""
    live = job.live.values() if job.live else ()
    suspended = sum(attempt.suspended for attempt in live)
    by_system = sum(attempt.is_stopped_by_system for attempt in live)
    return {
        "pend": count(job.pending),
        "psusp": count(job.held),
        "run": job.live_count - suspended,
        "ususp": suspended - by_system,
        "ssusp": by_system,
        "done": job.done,
        "exit": job.exited,
    }


COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "": lambda _code, _wanted: True,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def probe(
    state: ClusterState, condition: Condition, job_id: JobId, index: Index
) -> tuple[bool, bool]:
    """Return whether a condition on one job holds now, and whether that is final.

    ``index`` is -1 for the whole job or array: then every element must satisfy it. A job that has
    left the state is answered as false and final; submit asks the history for such ones first.
    """
    job = state.jobs.get(job_id)
    if job is None:
        return False, True
    position = job.position(index) if index >= 0 else None
    if index >= 0 and position is None:
        return False, True
    if condition.test in COUNTS:
        return _probe_count(job, condition)
    if condition.test is Test.EXTERNAL:
        post = job.posts_of(-1 if position is None else position).get(0)
        words = post.text.split(maxsplit=1) if post is not None else []
        # Nobody writes to a job that is over.
        return words[:1] == [condition.word], job.is_finished
    test, op, code = condition.test, condition.op, condition.code
    if position is not None or job.array is None:
        return _probe_element(state, job, position or 0, test, op, code)
    return _probe_array(job, test, op, code)


def _probe_count(job: Job, condition: Condition) -> tuple[bool, bool]:
    """Compare how many elements are in a state."""
    found = counts(job)
    suspended = found["ususp"] + found["ssusp"]
    number = {
        Test.NUMDONE: found["done"],
        Test.NUMEXIT: found["exit"],
        Test.NUMENDED: found["done"] + found["exit"],
        Test.NUMHOLD: found["psusp"],
        Test.NUMPEND: found["pend"],
        Test.NUMRUN: found["run"],
        Test.NUMSTART: found["run"] + suspended,
    }[condition.test]
    if condition.op == EVERY:
        return number == job.size, job.is_finished
    return COMPARE[condition.op](number, condition.code), job.is_finished


def _probe_element(
    state: ClusterState, job: Job, position: int, test: Test, op: str, code: int
) -> tuple[bool, bool]:
    found = ended_element(job, position)
    if found is None:
        live = job.live.get(position) if job.live else None
        return test is Test.STARTED and live is not None and live.phase == Phase.RUNNING, False
    ended = found[0]
    match test:
        case Test.ENDED | Test.STARTED:
            # As LSF: one that was killed while it pended counts as started too.
            return True, True
        case Test.POST_DONE | Test.POST_ERR:
            return _has_post(job, position, ended, test), True
        case Test.DONE:
            return ended.outcome == Outcome.DONE, True
        case Test.EXIT:
            return ended.outcome == Outcome.EXIT and COMPARE[op](ended.exit_code, code), True
        case _:
            return False, True


def _probe_array(job: Job, test: Test, op: str, code: int) -> tuple[bool, bool]:
    """All elements must satisfy it; one that never can settles it early."""
    if job.post_stats and test in (Test.POST_DONE, Test.POST_ERR):
        found = [ended_element(job, place) for place in range(job.size) if job.is_finished]
        return bool(found) and all(
            one is not None and _has_post(job, place, one[0], test)
            for place, one in enumerate(found)
        ), job.is_finished
    match test:
        case Test.ENDED:
            return job.is_finished, job.is_finished
        case Test.DONE | Test.POST_DONE:
            return job.is_finished and job.exited == 0, job.is_finished or job.exited > 0
        case Test.STARTED:
            begun = job.size - count(job.pending) - count(job.held)
            starting = sum(a.phase == Phase.STARTING for a in (job.live or {}).values())
            return begun - starting == job.size, job.is_finished
        case Test.POST_ERR:
            return False, job.is_finished
        case Test.EXIT:
            if job.done > 0:
                return False, True
            if not job.is_finished:
                return False, False
            return all(_exit_matches(job, place, op, code) for place in range(job.size)), True
        case _:
            return False, True


def _has_post(job: Job, position: int, ended: Ended, test: Test) -> bool:
    """Return whether post-execution commands ended so; without any, a job that is done has."""
    stat = (job.post_stats or {}).get(position, PostStat.NONE)
    if test is Test.POST_ERR:
        return stat == PostStat.FAILED
    return stat == PostStat.DONE or (stat == PostStat.NONE and ended.outcome == Outcome.DONE)


def _exit_matches(job: Job, position: int, op: str, code: int) -> bool:
    found = ended_element(job, position)
    return (
        found is not None
        and found[0].outcome == Outcome.EXIT
        and COMPARE[op](found[0].exit_code, code)
    )
