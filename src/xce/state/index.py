"""The indexes that a record keeps in step, and what every record asks of a job."""

import heapq
from collections.abc import Iterator

from xce.model import record as r
from xce.model.errors import IllegalTransitionError
from xce.model.ids import Index, JobId, Micros
from xce.model.job import EndCause, Phase
from xce.model.ranges import EMPTY, ZERO, Ranges, contains, count
from xce.model.record_elements import ElementsDoomed, ElementsReleased
from xce.resreq.dependency import subjects_of
from xce.state import usage
from xce.state.cluster import ClusterState, RequestClass
from xce.state.deadline import await_deadlines
from xce.state.job import DOOMED, WAITS_BEGIN, WAITS_DEPENDENCY, Attempt, Job


def use_spec(state: ClusterState, spec_id: int) -> None:
    """Count a job more that uses a spec."""
    uses = state.spec_uses.pop(spec_id, 1) + 1
    if uses > 1:
        state.spec_uses[spec_id] = uses


def index_job(state: ClusterState, job: Job) -> None:
    """Put ``job`` into every index that its present state asks for."""
    owner = job.owner.user
    if job.finished_at_us:
        state.finished.append((job.finished_at_us, job.id, state.seq))
    else:
        unfinished = state.unfinished.get(owner)
        if unfinished is None:
            unfinished = state.unfinished[owner] = {}
        unfinished[job.id] = None
        for host in job.retried:
            state.avoiders.setdefault(host, {})[job.id] = None
        if job.variants or state.classes[job.cls].delays:
            await_delay(state, job)
        await_deadlines(state, job)
    state.note_name(job)
    if job.waits or job.awaiting:
        _index_waits(state, job)
    refresh_waiting(state, job)


def _index_waits(state: ClusterState, job: Job) -> None:
    """Index what a job waits for besides room."""
    if job.is_conditional:
        index_dependency(state, job)
    for until_us, _ in job.dooms:
        if until_us:
            state.wait_until(until_us, job.id)
    if job.waits & WAITS_BEGIN:
        state.wait_until(job.begin_at_us, job.id)
    if job.waits & DOOMED and job.doomed_until_us > 0:
        state.wait_until(job.doomed_until_us, job.id)


def index_dependency(state: ClusterState, job: Job) -> None:
    """Put a job into the lists of those that wait for others."""
    if job.dependency is not None:
        for subject in subjects_of(job.dependency):
            state.dependents.setdefault(subject, {})[job.id] = None


def refresh_waiting(state: ClusterState, job: Job) -> None:
    """Keep the classes' lists of jobs that have elements which may start now."""
    if job.variants:
        _refresh_each(state, job)
        return
    found = state.classes[job.cls]
    waiting = found.moved if job.offset else found.waiting
    if job.ready and not job.waits and (job.array is None or state.room(job) > 0):
        if job.id not in waiting:
            _begin_waiting(state, job, found)
        else:
            if job.id in state.reservations:
                _drop_stale_reservations(state, job)
            if state.holds:
                _drop_stale_holds(state, job)
    elif job.id in waiting:
        _leave_waiting(state, job, found)
        _note_waits_not(state, job)


def refresh_soon(state: ClusterState, job: Job, late: dict[JobId, Job]) -> None:
    """Keep the lists as `refresh_waiting` does; of a job whose elements are of several classes
    once for a whole record, which may name thousands of runs of it: it is put into ``late``.
    """
    if job.variants:
        late[job.id] = job
    else:
        refresh_waiting(state, job)


def _refresh_each(state: ClusterState, job: Job) -> None:
    """Keep the lists of all classes of a job whose elements are of several."""
    ready = job.ready if not job.waits and state.room(job) > 0 else EMPTY
    waits = {cls for cls, _, _ in job.forms(ready)}
    for cls in job.classes():
        found = state.classes[cls]
        is_there = job.id in (found.moved if job.offset else found.waiting)
        if cls in waits and not is_there:
            _begin_waiting(state, job, found)
        elif is_there and cls not in waits:
            _leave_waiting(state, job, found)
    if not waits:
        _note_waits_not(state, job)
        return
    if job.id in state.reservations:
        _drop_stale_reservations(state, job)
    if state.holds:
        _drop_stale_holds(state, job)


def _begin_waiting(state: ClusterState, job: Job, found: RequestClass) -> None:
    waiting = found.moved if job.offset else found.waiting
    state.waiting[found.cls] = found
    if waiting is found.waiting and waiting and next(reversed(waiting)) > job.id:
        found.sorted = False
    waiting[job.id] = None
    # A state that was loaded knows it already.
    job.waiting_since_us = job.waiting_since_us or max(state.now_us, 1)


def _leave_waiting(state: ClusterState, job: Job, found: RequestClass) -> None:
    del (found.moved if job.offset else found.waiting)[job.id]
    if not found.has_waiting:
        del state.waiting[found.cls]


def leave_waiting(state: ClusterState, job: Job) -> None:
    """Take a job out of the lists of all its classes; since when it waits is the caller's."""
    for cls in job.classes():
        found = state.classes[cls]
        found.waiting.pop(job.id, None)
        found.moved.pop(job.id, None)
        if not found.has_waiting:
            state.waiting.pop(cls, None)


def _note_waits_not(state: ClusterState, job: Job) -> None:
    """Nothing of a job waits any more: nothing is kept for it."""
    job.waiting_since_us = 0
    state.reservations.pop(job.id, None)
    if state.holds:
        _drop_stale_holds(state, job)


def count_waiting(
    state: ClusterState, job: Job, ranges: Ranges, *, pending: int = 0, held: int = 0
) -> None:
    """Count elements of a job in their classes: 1 more, -1 less of them pend or are held."""
    for cls, _, part in job.forms(ranges) if job.variants else ((job.cls, 0, ranges),):
        found, size = state.classes[cls], count(part)
        found.pending += pending * size
        found.held += held * size


def _drop_stale_reservations(state: ClusterState, job: Job) -> None:
    """Forget what is kept for elements that pend no more."""
    for index in list(state.reservations[job.id]):
        position = job.position(index)
        if position is None or not contains(job.pending, position, position):
            drop_reservation(state, job.id, index)


def _drop_stale_holds(state: ClusterState, job: Job) -> None:
    """Release the room held for elements that wait no more."""
    for job_id, index in [place for place in state.holds if place[0] == job.id]:
        position = job.position(index)
        pends = position is not None and contains(job.pending, position, position)
        if not (pends and job.waiting_since_us):
            drop_hold(state, job_id, index)


def drop_hold(state: ClusterState, job: JobId, index: Index) -> None:
    """Release the room that is held for an element, if any is."""
    hold = state.holds.pop((job, index), None)
    if hold is not None:
        usage.move_hold(state, hold, -1)


def drop_reservation(state: ClusterState, job: JobId, index: Index) -> None:
    """Forget what is kept for an element."""
    kept = state.reservations.get(job)
    if kept is not None and kept.pop(index, None) is not None and not kept:
        del state.reservations[job]


def settle_owed(state: ClusterState, job: Job, position: int, attempt: Attempt) -> None:
    """Keep the index of what the hosts must be told."""
    owes = (
        attempt.phase == Phase.STARTING
        or attempt.end_cause != EndCause.NONE
        or attempt.suspended != attempt.shall_stop
    )
    owed = state.owed.setdefault(attempt.hosts[0], {})
    if owes:
        owed[job.id, position] = None
    else:
        owed.pop((job.id, position), None)


def await_return(state: ClusterState, job: Job, position: int, attempt: Attempt) -> None:
    """Keep the instant at which amounts of a started attempt come back next."""
    offsets = state.classes[attempt.cls].forms[attempt.alternative].offsets
    if attempt.started_at_us and attempt.returned < len(offsets):
        at_us = attempt.started_at_us + offsets[attempt.returned]
        heapq.heappush(state.returns, (at_us, job.id, position, attempt.number))


def next_wait_us(state: ClusterState, job: Job) -> Micros:
    """Return the next delay in a job's request that is still to pass; 0: none is."""
    return next((delay for delay in delays_of_job(state, job) if delay > job.waited_us), 0)


def delays_of_job(state: ClusterState, job: Job) -> tuple[Micros, ...]:
    """Return the delays in the requests of a job's elements, rising."""
    if not job.variants:
        return state.classes[job.cls].delays
    return tuple(sorted({one for cls in job.classes() for one in state.classes[cls].delays}))


def await_delay(state: ClusterState, job: Job) -> None:
    """Have a job looked at again when the next delay in its request is over."""
    delay_us = next_wait_us(state, job)
    if delay_us:
        state.wait_until(job.submit_at_us + delay_us, job.id)


def finish(state: ClusterState, job: Job, at_us: int) -> None:
    """Note the end of the whole job when nothing of it is left."""
    if job.pending or job.held or job.live:
        return
    user = job.owner.user
    unfinished = state.unfinished[user]
    unfinished.pop(job.id, None)
    if not unfinished:
        del state.unfinished[user]
    if job.waits:
        job.waits &= ~DOOMED
        if job.waits & WAITS_DEPENDENCY:
            job.waits &= ~WAITS_DEPENDENCY
            forget_subjects(state, job)
    for host in job.avoid:
        state.avoiders.get(host, {}).pop(job.id, None)
    _note_finished(state, job, at_us)


def _note_finished(state: ClusterState, job: Job, at_us: Micros) -> None:
    # The order of the queue is the order of the instants; a report's age may reach back a little.
    finished = state.finished
    last = finished[-1][0] if finished else 0
    ended_at_us = job.finished_at_us = max(at_us, 1, job.submit_at_us, last)
    finished.append((ended_at_us, job.id, state.seq))


def forget_subjects(state: ClusterState, job: Job) -> None:
    """Take a job out of the lists of those that wait for others."""
    if job.dependency is None:
        return
    for subject in subjects_of(job.dependency):
        waiting = state.dependents.get(subject)
        if waiting is not None:
            waiting.pop(job.id, None)
            if not waiting:
                del state.dependents[subject]


def found_job(state: ClusterState, job: JobId) -> Job:
    """Return a job that must exist.

    Raises:
        IllegalTransitionError: It does not.
    """
    found = state.jobs.get(job)
    if found is None:
        raise IllegalTransitionError(f"job {job} does not exist")
    return found


def each_run(
    state: ClusterState,
    record: r.Held
    | r.Unheld
    | r.Withdrawn
    | r.BulkPlaced
    | r.EndDecided
    | r.SuspensionAsked
    | r.SignalAsked
    | r.StopsChanged
    | ElementsReleased
    | ElementsDoomed,
) -> Iterator[tuple[Job, Ranges]]:
    """Yield each run of a record as its job and positions."""
    jobs = state.jobs
    for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
        found = jobs.get(job) or found_job(state, job)
        yield found, ZERO if found.array is None else found.positions(first, last)


def contains_all(outer: Ranges, inner: Ranges) -> bool:
    """Return whether every run of ``inner`` lies in ``outer``."""
    return outer == inner or all(contains(outer, first, last) for first, last in inner)


def demand(holds: bool, job: Job, what: str) -> None:
    """Complain unless a record fits.

    Raises:
        IllegalTransitionError: It does not.
    """
    if not holds:
        raise IllegalTransitionError(f"elements of job {job.id} cannot be {what} now")


def drop_spec(state: ClusterState, spec_id: int) -> None:
    """Note that a job has this spec no more; forget it when none has."""
    uses = state.spec_uses.pop(spec_id, 1) - 1
    if uses == 0:
        state.forget_spec(spec_id)
    elif uses > 1:
        state.spec_uses[spec_id] = uses


def drop_class(state: ClusterState, cls: int) -> None:
    """Note that a job is of this class no more."""
    found = state.classes[cls]
    found.jobs -= 1
    if found.jobs == 0:
        state.left_classes[cls] = None


def forget_left(state: ClusterState) -> None:
    """Forget the classes of which there are neither jobs nor live attempts any more."""
    for cls in list(state.left_classes):
        found = state.classes[cls]
        if found.jobs or not found.live:
            del state.left_classes[cls]
        if not (found.jobs or found.live):
            del state.classes[cls]
            state.class_ids.pop(found.key, None)
