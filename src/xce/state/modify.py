"""The record about a job that is changed. Used by `xce.state.apply` only."""

from collections.abc import Iterator

import msgspec

from xce.model.ranges import EMPTY, Ranges, contains, from_runs, subtract, unite
from xce.model.record_modify import JobModified
from xce.state.cluster import ClusterState
from xce.state.deadline import await_deadlines
from xce.state.elements import await_elements
from xce.state.index import (
    await_delay,
    count_waiting,
    delays_of_job,
    demand,
    drop_class,
    drop_hold,
    drop_spec,
    forget_subjects,
    found_job,
    index_dependency,
    leave_waiting,
    refresh_waiting,
    settle_owed,
    use_spec,
)
from xce.state.ineligible import enter, leave
from xce.state.job import DOOMED, WAITS_BEGIN, WAITS_DEPENDENCY, Attempt, Job, Variant
from xce.state.shares import move_use


def apply_job_modified(state: ClusterState, record: JobModified) -> None:
    """Let a job, or elements of it, be another one."""
    job = found_job(state, record.job)
    demand(not job.is_finished, job, "modified")
    leave(state, job, whole := ((0, job.size - 1),))
    since_us, job.waiting_since_us = job.waiting_since_us, 0
    named = _named(job, record)
    meant = _rest(job) if named is None else named
    _leave_classes(state, job)
    if named is None:
        _set_waits(state, job, record)
        if job.array is not None:
            job.array = msgspec.structs.replace(job.array, limit=record.array_limit)
    # First: it may be one that only attempts of it have had.
    use_spec(state, record.spec_id)
    if record.keeps_specs:
        _keep_specs(state, job, record, meant)
    before = job.own_forms()
    if named is None:
        state.forget_name(job)
        job.cls, job.spec_id = record.cls, record.spec_id
        state.note_name(job)
    _set_variants(job, record, named)
    _enter_classes(state, job)
    _move_live(state, job, record, meant)
    for cls, spec_id in before:
        drop_class(state, cls)
        drop_spec(state, spec_id)
    drop_spec(state, record.spec_id)
    enter(state, job, whole)
    delays = delays_of_job(state, job)
    job.waited_us = max((delay for delay in delays if delay <= job.waited_us), default=0)
    job.is_modified = True
    job.revision += 1
    await_delay(state, job)
    await_deadlines(state, job)
    refresh_waiting(state, job)
    if job.waiting_since_us and since_us:
        job.waiting_since_us = since_us


def _named(job: Job, record: JobModified) -> Ranges | None:
    """Return the elements that a record names; None: the job, and all that are as it is."""
    if not record.firsts:
        return None
    runs = zip(record.firsts, record.lasts, strict=True)
    return from_runs(run for first, last in runs for run in job.positions(first, last))


def _rest(job: Job) -> Ranges:
    """Return the elements that are as the job."""
    rest: Ranges = ((0, job.size - 1),)
    for variant in job.variants:
        rest = subtract(rest, variant.ranges)
    return rest


def _set_variants(job: Job, record: JobModified, named: Ranges | None) -> None:
    """Set elements apart; those that are as the job stand in no variant."""
    found: dict[tuple[int, int], Ranges] = {}
    for one in job.variants:
        left = one.ranges if named is None else subtract(one.ranges, named)
        if left:
            found[one.cls, one.spec_id] = left
    if named is not None:
        form = record.cls, record.spec_id
        found[form] = unite(found.get(form, EMPTY), named)
    found.pop((job.cls, job.spec_id), None)
    job.variants = tuple(Variant(ranges, *form) for form, ranges in found.items())


def _leave_classes(state: ClusterState, job: Job) -> None:
    """Take what waits of a job out of its classes; what was kept for it was for other requests."""
    count_waiting(state, job, job.pending, pending=-1)
    count_waiting(state, job, job.held, held=-1)
    leave_waiting(state, job)
    state.reservations.pop(job.id, None)
    for job_id, index in [place for place in state.holds if place[0] == job.id]:
        drop_hold(state, job_id, index)


def _enter_classes(state: ClusterState, job: Job) -> None:
    for cls, spec_id in job.own_forms():
        state.classes[cls].jobs += 1
        state.left_classes.pop(cls, None)
        use_spec(state, spec_id)
    count_waiting(state, job, job.pending, pending=1)
    count_waiting(state, job, job.held, held=1)


def _set_waits(state: ClusterState, job: Job, record: JobModified) -> None:
    """Let a job wait for what it shall wait for now."""
    if job.is_conditional and not record.keeps_elements:
        forget_subjects(state, job)
    job.waits &= ~(WAITS_BEGIN | WAITS_DEPENDENCY | DOOMED)
    job.begin_at_us, job.dependency = record.begin_at_us, record.dependency
    job.doomed_until_us = 0
    if job.begin_at_us > state.now_us:
        job.waits |= WAITS_BEGIN
        state.wait_until(job.begin_at_us, job.id)
    if record.keeps_elements:
        return
    if job.dependency is not None and not await_elements(job, job.dependency):
        job.waits |= WAITS_DEPENDENCY
    elif job.dependency is None:
        job.awaiting, job.dooms = EMPTY, ()
    if job.is_conditional:
        index_dependency(state, job)


def _keep_specs(state: ClusterState, job: Job, record: JobModified, meant: Ranges) -> None:
    """Let live attempts run what they were placed with, whatever their elements are to run."""
    moves = dict(zip(record.specs_before, record.specs_after, strict=True))
    for position, attempt in _live_in(job, meant):
        before = attempt.spec_id or job.form_at(position)[1]
        after = moves.get(before, before)
        own = 0 if after == record.spec_id else after
        if own:
            use_spec(state, own)
        if attempt.spec_id:
            drop_spec(state, attempt.spec_id)
        attempt.spec_id = own


def _live_in(job: Job, meant: Ranges) -> Iterator[tuple[int, Attempt]]:
    for position, attempt in (job.live or {}).items():
        if contains(meant, position, position):
            yield position, attempt


def _move_live(state: ClusterState, job: Job, record: JobModified, meant: Ranges) -> None:
    """Let live attempts be of another class that holds the same."""
    moves = dict(zip(record.before, record.after, strict=True))
    for position, attempt in _live_in(job, meant):
        if attempt.cls in moves:
            _move_attempt(state, attempt, moves[attempt.cls])
        if record.has_new_limits:
            attempt.has_new_limits = True
            settle_owed(state, job, position, attempt)


def _move_attempt(state: ClusterState, attempt: Attempt, cls: int) -> None:
    old, new = state.classes[attempt.cls], state.classes[cls]
    old.live -= 1
    new.live += 1
    old.suspended -= attempt.suspended
    new.suspended += attempt.suspended
    move_use(state, attempt, new)
    attempt.cls = cls
    if not new.jobs:
        state.left_classes[cls] = None
