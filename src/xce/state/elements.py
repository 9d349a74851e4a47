"""Elements that wait for those of other arrays: what is true of many at once, and their records."""

from collections.abc import Iterator
from typing import Final

from xce.model.dependency import Condition, Dependency, Test
from xce.model.ids import JobId
from xce.model.job import Outcome, Phase
from xce.model.ranges import (
    EMPTY,
    Ranges,
    contains,
    from_runs,
    from_sorted,
    intersect,
    subtract,
    unite,
)
from xce.model.record_elements import ElementsDoomed, ElementsReleased
from xce.resreq.elements import arrays_of
from xce.state.cluster import ClusterState
from xce.state.index import contains_all, demand, each_run, forget_subjects, refresh_waiting
from xce.state.ineligible import enter, leave
from xce.state.job import Job
from xce.state.view import COMPARE

_OVER: Final = (Outcome.DONE, Outcome.EXIT)


def probe_elements(
    state: ClusterState, condition: Condition, job_id: JobId, among: Ranges
) -> tuple[Ranges, Ranges]:
    """Return of which elements of a job a condition is true now, and of which that is final.

    As `xce.state.view.probe` does for one element.
    """
    job = state.jobs.get(job_id)
    if job is None:
        return EMPTY, among
    if condition.test is Test.EXTERNAL:
        return _with_word(job, condition.word, among), among if job.is_finished else EMPTY
    gone = intersect(withdrawn_of(job), among)
    over = unite(gone, from_sorted(job.ended_places(_OVER, among)))
    match condition.test:
        case Test.ENDED:
            return over, over
        case Test.STARTED:
            # As LSF: one that was killed while it pended counts as started too.
            return unite(over, from_sorted(sorted(_running(job, among)))), over
        case Test.DONE | Test.POST_DONE:
            return from_sorted(job.ended_places((Outcome.DONE,), among)), over
        case Test.EXIT:
            return unite(_exited(job, condition, among), _if_zero(condition, gone)), over
        case _:
            return EMPTY, over


def withdrawn_of(job: Job) -> Ranges:
    """Return the elements of a job that ended before they started."""
    return from_runs(run for item in job.withdrawn for run in item.ranges)


def _running(job: Job, among: Ranges) -> Iterator[int]:
    for position, attempt in (job.live or {}).items():
        if attempt.phase == Phase.RUNNING and contains(among, position, position):
            yield position


def _exited(job: Job, condition: Condition, among: Ranges) -> Ranges:
    """Return the elements that have run and exited with a code that is asked for."""
    compare, code = COMPARE[condition.op], condition.code
    places = job.ended_places((Outcome.EXIT,), among)
    ends = ((place, job.ended_at(place)) for place in places)
    return from_sorted(
        place for place, ended in ends if ended is not None and compare(ended.exit_code, code)
    )


def _if_zero(condition: Condition, gone: Ranges) -> Ranges:
    """Return the withdrawn elements if exit code 0, which stands for theirs, is asked for."""
    return gone if COMPARE[condition.op](0, condition.code) else EMPTY


def _with_word(job: Job, word: str, among: Ranges) -> Ranges:
    """Return the elements whose external status begins with a word."""
    found = EMPTY
    posts = {-1: {}, **(job.posts or {})}
    for position in sorted(posts):
        run = among if position < 0 else intersect(((position, position),), among)
        post = job.posts_of(position).get(0)
        is_word = post is not None and post.text.split(maxsplit=1)[:1] == [word]
        found = unite(found, run) if is_word else subtract(found, run)
    return found


def await_elements(job: Job, tree: Dependency | None) -> bool:
    """Let what waits of a job wait for elements of other arrays, if it shall; return whether."""
    job.awaiting, job.dooms = EMPTY, ()
    if tree is None or not arrays_of(tree):
        return False
    job.awaiting = unite(job.pending, job.held)
    return True


def leave_awaiting(state: ClusterState, job: Job, gone: Ranges) -> None:
    """Note that elements wait for no others any more."""
    if not job.awaiting:
        return
    job.awaiting = subtract(job.awaiting, gone)
    kept = ((until_us, subtract(ranges, gone)) for until_us, ranges in job.dooms)
    job.dooms = tuple((until_us, ranges) for until_us, ranges in kept if ranges)
    if not job.awaiting:
        forget_subjects(state, job)


def apply_elements_released(state: ClusterState, record: ElementsReleased) -> None:
    """Let elements wait for no others any more."""
    for job, ranges in each_run(state, record):
        demand(contains_all(job.awaiting, ranges), job, "released")
        leave(state, job, ranges)
        leave_awaiting(state, job, ranges)
        enter(state, job, ranges)
        job.revision += 1
        refresh_waiting(state, job)


def apply_elements_doomed(state: ClusterState, record: ElementsDoomed) -> None:
    """Note that elements wait in vain."""
    for job, ranges in each_run(state, record):
        demand(contains_all(job.awaiting, ranges), job, "doomed")
        job.dooms = (*job.dooms, (record.ends_at_us, ranges))
        job.revision += 1
        if record.ends_at_us:
            state.wait_until(record.ends_at_us, job.id)
