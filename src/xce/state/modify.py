"""The record about a job that is changed. Used by `xce.state.apply` only."""

import msgspec

from xce.model.ranges import EMPTY, count
from xce.model.record_modify import JobModified
from xce.state.cluster import ClusterState
from xce.state.elements import await_elements
from xce.state.index import (
    await_delay,
    demand,
    drop_class,
    drop_hold,
    drop_spec,
    forget_subjects,
    found_job,
    index_dependency,
    refresh_waiting,
    settle_owed,
    use_spec,
)
from xce.state.job import DOOMED, WAITS_BEGIN, WAITS_DEPENDENCY, Attempt, Job
from xce.state.shares import move_use


def apply_job_modified(state: ClusterState, record: JobModified) -> None:
    """Let a job be another one."""
    job = found_job(state, record.job)
    demand(not job.is_finished, job, "modified")
    since_us, job.waiting_since_us = job.waiting_since_us, 0
    _leave_class(state, job)
    _set_waits(state, job, record)
    if job.array is not None:
        job.array = msgspec.structs.replace(job.array, limit=record.array_limit)
    # First: it may be one that only attempts of it have had.
    use_spec(state, record.spec_id)
    if record.keeps_specs:
        _keep_specs(state, job, record)
    if record.spec_id != job.spec_id:
        state.forget_name(job)
        old_spec, job.spec_id = job.spec_id, record.spec_id
        state.note_name(job)
        drop_spec(state, old_spec)
    else:
        drop_spec(state, job.spec_id)
    old_class, job.cls = job.cls, record.cls
    _enter_class(state, job)
    _move_live(state, job, record)
    drop_class(state, old_class)
    delays = state.classes[job.cls].delays
    job.waited_us = max((delay for delay in delays if delay <= job.waited_us), default=0)
    job.is_modified = True
    job.revision += 1
    await_delay(state, job)
    refresh_waiting(state, job)
    if job.waiting_since_us and since_us:
        job.waiting_since_us = since_us


def _leave_class(state: ClusterState, job: Job) -> None:
    """Take what waits of a job out of its class; what was kept for it was for another request."""
    found = state.classes[job.cls]
    found.pending -= count(job.pending)
    found.held -= count(job.held)
    found.waiting.pop(job.id, None)
    found.moved.pop(job.id, None)
    if not found.has_waiting:
        state.waiting.pop(job.cls, None)
    state.reservations.pop(job.id, None)
    for job_id, index in [place for place in state.holds if place[0] == job.id]:
        drop_hold(state, job_id, index)


def _enter_class(state: ClusterState, job: Job) -> None:
    found = state.classes[job.cls]
    found.jobs += 1
    state.left_classes.pop(job.cls, None)
    found.pending += count(job.pending)
    found.held += count(job.held)


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


def _keep_specs(state: ClusterState, job: Job, record: JobModified) -> None:
    """Let live attempts run what they were placed with, whatever their job is to run."""
    moves = dict(zip(record.specs_before, record.specs_after, strict=True))
    for attempt in (job.live or {}).values():
        before = attempt.spec_id or job.spec_id
        after = moves.get(before, before)
        own = 0 if after == record.spec_id else after
        if own:
            use_spec(state, own)
        if attempt.spec_id:
            drop_spec(state, attempt.spec_id)
        attempt.spec_id = own


def _move_live(state: ClusterState, job: Job, record: JobModified) -> None:
    """Let live attempts be of another class that holds the same."""
    moves = dict(zip(record.before, record.after, strict=True))
    for position, attempt in (job.live or {}).items():
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
