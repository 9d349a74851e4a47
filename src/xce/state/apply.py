"""Record to state: the only writer. It obeys and never chooses; a record that does not fit is a
fault (`IllegalTransitionError`), since then the journal is corrupt or a decider is wrong.

Costs grow with what a record names, never with the number of jobs or hosts.
"""

import heapq
from collections.abc import Callable, Iterable
from typing import Any, Final

from xce.model import record as r
from xce.model import record_trust, record_windows
from xce.model.entry import Entry
from xce.model.errors import IllegalTransitionError
from xce.model.group import GroupsDeleted, GroupsSet
from xce.model.host_record import CheckpointsSeen, HostsLeftOut
from xce.model.ids import JobId, Micros, Seq
from xce.model.queue_record import QueuesSwitched
from xce.model.ranges import EMPTY, ZERO, count, subtract, unite
from xce.model.record_access import DenialsNoted, LoginBegan, LoginRefreshed, LoginRevoked
from xce.model.record_elements import ElementsDoomed, ElementsReleased
from xce.model.record_modify import JobModified
from xce.model.record_post import Posted
from xce.model.record_waiting import DelaysPassed, DependencyDoomed
from xce.model.trace import TracesChanged
from xce.state import groups, host_records, live, modify, over, usage
from xce.state.cluster import ClusterState, RequestClass, Window
from xce.state.deadline import is_awaited
from xce.state.elements import (
    apply_elements_doomed,
    apply_elements_released,
    await_elements,
    leave_awaiting,
)
from xce.state.index import (
    await_delay,
    contains_all,
    count_waiting,
    demand,
    drop_class,
    drop_hold,
    drop_reservation,
    drop_spec,
    each_run,
    finish,
    forget_left,
    forget_subjects,
    found_job,
    index_job,
    leave_waiting,
    next_wait_us,
    refresh_soon,
    refresh_waiting,
    use_spec,
)
from xce.state.ineligible import enter, leave, settle_queues
from xce.state.job import (
    DOOMED,
    WAITS_BEGIN,
    WAITS_DEPENDENCY,
    Job,
    Withdrawal,
)
from xce.state.key_use import KeyUse, key_time_us
from xce.state.switches import apply_queues_switched, keep_switches
from xce.state.untouched import end_untouched

_GONE_MAX: Final = 1_000
"""So many instants of attempts that are over may stay in the heap."""


def apply(state: ClusterState, entry: Entry) -> None:
    """Make ``entry`` true.

    Raises:
        IllegalTransitionError: It does not follow the last one, or a record does not fit.
    """
    begin_entry(state, seq=entry.seq, at_us=entry.at_us)
    apply_records(state, entry.records)


def begin_entry(state: ClusterState, *, seq: Seq, at_us: Micros) -> None:
    """Open entry ``seq``; its records follow by `apply_records`.

    Raises:
        IllegalTransitionError: It does not follow the last one.
    """
    if seq != state.seq + 1:
        raise IllegalTransitionError(f"entry {seq} does not follow entry {state.seq}")
    state.seq = seq
    state.now_us = at_us


def apply_records(state: ClusterState, records: Iterable[r.Record]) -> None:
    """Make records of the open entry true, in order.

    Raises:
        IllegalTransitionError: A record does not fit.
    """
    for record in records:
        _APPLY[type(record)](state, record)
    if state.left_classes:
        # Only now: a record may be about a class that the one before has left.
        forget_left(state)
    due, returns = state.due, state.returns
    while due and not _is_due(state, *due[0]):
        state.awaited.discard(heapq.heappop(due))
    while returns and not _is_held(state, *returns[0]):
        heapq.heappop(returns)
    if state.returns_gone > _GONE_MAX and state.returns_gone > len(returns) // 2:
        # Many attempts ended long before their amounts came back.
        state.returns[:] = [item for item in returns if _is_held(state, *item)]
        heapq.heapify(state.returns)
        state.returns_gone = 0


def _is_due(state: ClusterState, at_us: Micros, job_id: JobId) -> bool:
    """Return whether the instant still means something to its job."""
    job = state.jobs.get(job_id)
    if job is None or job.is_finished:
        return False
    begins = bool(job.waits & WAITS_BEGIN) and job.begin_at_us == at_us
    delay_us = next_wait_us(state, job)
    passes = bool(delay_us) and job.submit_at_us + delay_us == at_us
    ends = bool(job.waits & DOOMED) and job.doomed_until_us == at_us
    if begins or passes or ends or any(until_us == at_us for until_us, _ in job.dooms):
        return True
    return bool(state.deadlines) and is_awaited(state, at_us, job)


def _is_held(state: ClusterState, at_us: Micros, job_id: JobId, position: int, number: int) -> bool:
    """Return whether the attempt still holds the amounts that come back then."""
    attempt = state.attempt(job_id, position)
    if attempt is None or attempt.number != number:
        return False
    offsets = state.classes[attempt.cls].forms[attempt.alternative].offsets
    due = offsets[attempt.returned : attempt.returned + 1]
    return [attempt.started_at_us + offset for offset in due] == [at_us]


def _config_applied(state: ClusterState, record: r.ConfigApplied) -> None:
    before, zone = state.queues, state.config.time_zone
    keep_switches(state, record.config)
    if state.config.has_fences and state.config.host_grace_us > record.config.host_grace_us:
        longest_us = max(state.config.host_grace_us, state.long_grace_us[1])
        state.long_grace_us = (state.now_us, longest_us)
    state.config = record.config
    state.config_version = record.version
    state.set_queues()
    for name in list(state.windows):
        queue = state.queues.get(name)
        # Windows that were changed are closed until they are resolved.
        was = before[name].run_windows
        if queue is None or queue.run_windows != was or record.config.time_zone != zone:
            del state.windows[name]
    settle_queues(state)
    state.hosts.configure(record.config, record.hosts)
    state.pools.configure(record.config)
    for found in state.classes.values():
        found.compile(state.hosts)
    usage.recount(state)


def _spec_stored(state: ClusterState, record: r.SpecStored) -> None:
    state.sharing.share_spec(record.spec)
    state.note_spec(record.spec_id, record.spec)
    state.spec_uses[record.spec_id] = 0
    state.next_spec = record.spec_id + 1


def _class_stored(state: ClusterState, record: r.ClassStored) -> None:
    found = RequestClass(record.cls, record.key, record.resreq)
    found.compile(state.hosts)
    state.classes[record.cls] = found
    state.class_ids[record.key] = record.cls
    state.next_class = record.cls + 1


def _job_submitted(state: ClusterState, record: r.JobSubmitted) -> None:
    # One that a restored journal lacks is taken up again under its own id.
    if record.job < state.next_job and (record.job in state.jobs or not state.is_lost(record.job)):
        raise IllegalTransitionError(f"job id {record.job} is not new")
    array = record.array
    size = 1 if array is None else array.count
    everything = ZERO if size == 1 else ((0, size - 1),)
    waits = WAITS_BEGIN if record.begin_at_us else 0
    pending, held = (EMPTY, everything) if record.hold else (everything, EMPTY)
    # By place, which takes half the time: a start goes through here for millions of jobs.
    job = Job(
        record.job, record.spec_id, record.cls, state.sharing.share_owner(record.owner),
        record.submit_at_us, size, array, pending, held, False, waits, record.begin_at_us,
        record.dependency,
    )  # fmt: skip
    if record.dependency is not None and not await_elements(job, record.dependency):
        job.waits |= WAITS_DEPENDENCY
    enter(state, job, everything)
    state.next_job = max(state.next_job, record.job + 1)
    state.jobs[record.job] = job
    use_spec(state, record.spec_id)
    found = state.classes[record.cls]
    found.jobs += 1
    state.left_classes.pop(record.cls, None)
    if record.hold:
        found.held += size
    else:
        found.pending += size
    index_job(state, job)


def _key_used(state: ClusterState, record: r.KeyUsed) -> None:
    use = state.keys.get((record.user, record.key))
    if use is None:
        # A clock that goes before ours makes keys that live longer, so that none is forgotten
        # before it is too old to be taken for new.
        latest_us = state.now_us + state.config.key_window_us
        at_us = max(state.now_us, min(key_time_us(record.key), latest_us))
        use = state.keys[record.user, record.key] = KeyUse(at_us)
    use.note(record.line, record.jobs)


def _keys_forgotten(state: ClusterState, record: r.KeysForgotten) -> None:
    # Keys stand in the order of their first use, which is nearly the order of time.
    for key, use in list(state.keys.items()):
        if use.at_us >= record.before_us:
            break
        del state.keys[key]


def _jobs_released(state: ClusterState, record: r.JobsReleased) -> None:
    for job_id in record.jobs:
        job = found_job(state, job_id)
        leave(state, job, whole := ((0, job.size - 1),))
        if record.from_dependency:
            job.waits &= ~(WAITS_DEPENDENCY | DOOMED)
            forget_subjects(state, job)
        else:
            job.waits &= ~WAITS_BEGIN
        enter(state, job, whole)
        job.revision += 1
        refresh_waiting(state, job)


def _delays_passed(state: ClusterState, record: DelaysPassed) -> None:
    for job_id, waited_us in zip(record.jobs, record.waited_us, strict=True):
        job = found_job(state, job_id)
        job.waited_us = waited_us
        job.revision += 1
        await_delay(state, job)


def _dependency_doomed(state: ClusterState, record: DependencyDoomed) -> None:
    for job_id in record.jobs:
        job = found_job(state, job_id)
        job.waits |= DOOMED
        job.doomed_until_us = record.ends_at_us
        if record.ends_at_us:
            state.wait_until(record.ends_at_us, job_id)


def _held(state: ClusterState, record: r.Held) -> None:
    late: dict[JobId, Job] = {}
    for job, ranges in each_run(state, record):
        demand(contains_all(job.pending, ranges), job, "held")
        leave(state, job, ranges)
        job.pending = subtract(job.pending, ranges)
        job.held = unite(job.held, ranges)
        enter(state, job, ranges)
        job.held_by_admin = job.held_by_admin or record.by_admin
        job.revision += 1
        count_waiting(state, job, ranges, pending=-1, held=1)
        refresh_soon(state, job, late)
    for job in late.values():
        refresh_waiting(state, job)


def _unheld(state: ClusterState, record: r.Unheld) -> None:
    late: dict[JobId, Job] = {}
    for job, ranges in each_run(state, record):
        demand(contains_all(job.held, ranges), job, "released")
        leave(state, job, ranges)
        job.held = subtract(job.held, ranges)
        job.pending = unite(job.pending, ranges)
        enter(state, job, ranges)
        job.held_by_admin = job.held_by_admin and bool(job.held)
        job.revision += 1
        count_waiting(state, job, ranges, pending=1, held=-1)
        refresh_soon(state, job, late)
    for job in late.values():
        refresh_waiting(state, job)


def _jobs_moved(state: ClusterState, record: r.JobsMoved) -> None:
    for job_id, beside, offset in zip(record.jobs, record.beside, record.offsets, strict=True):
        job = found_job(state, job_id)
        since_us = job.waiting_since_us
        leave_waiting(state, job)
        job.beside, job.offset = beside, offset
        job.revision += 1
        if since_us:
            refresh_waiting(state, job)


def _withdrawn(state: ClusterState, record: r.Withdrawn) -> None:
    # Many jobs lose the same run (their only element): they share what is said of it.
    only = (Withdrawal(ZERO, record.cause, record.by, record.at_us),)
    late: dict[JobId, Job] = {}
    for job, ranges in end_untouched(state, record, only):
        withdrawal = only
        if ranges is not ZERO and ranges != ZERO:
            withdrawal = (Withdrawal(ranges, record.cause, record.by, record.at_us),)
        from_pending = subtract(ranges, job.held)
        demand(contains_all(job.pending, from_pending), job, "withdrawn")
        size = count(ranges)
        count_waiting(state, job, from_pending, pending=-1)
        count_waiting(state, job, subtract(ranges, from_pending), held=-1)
        leave(state, job, ranges)
        job.pending = subtract(job.pending, ranges)
        job.held = subtract(job.held, ranges)
        leave_awaiting(state, job, ranges)
        job.withdrawn = job.withdrawn + withdrawal if job.withdrawn else withdrawal
        job.exited += size
        job.revision += 1
        finish(state, job, record.at_us)
        refresh_soon(state, job, late)
    for job in late.values():
        refresh_waiting(state, job)


def _reasons_changed(state: ClusterState, record: r.ReasonsChanged) -> None:
    for cls, reason in zip(record.classes, record.reasons, strict=True):
        found = state.classes.get(cls)
        if found is not None:
            found.reason = reason


def _reservations_changed(state: ClusterState, record: r.ReservationsChanged) -> None:
    for job_id, index in zip(record.jobs, record.indices, strict=True):
        drop_reservation(state, job_id, index)
    for item in record.reserved:
        if found_job(state, item.job).waiting_since_us:
            state.reservations.setdefault(item.job, {})[item.index] = item


def _room_held(state: ClusterState, record: r.RoomHeld) -> None:
    state.holds[record.job, record.index] = record
    usage.move_hold(state, record, 1)


def _room_released(state: ClusterState, record: r.RoomReleased) -> None:
    for job_id, index in zip(record.jobs, record.indices, strict=True):
        drop_hold(state, job_id, index)


def _windows_resolved(state: ClusterState, record: record_windows.WindowsResolved) -> None:
    state.windows_version = record.version
    was_open = {name for name, window in state.windows.items() if window.is_open}
    state.windows = {
        name: Window(intervals, name in was_open)
        for name, intervals in zip(record.queues, record.intervals, strict=True)
    }
    settle_queues(state)


def _windows_moved(state: ClusterState, record: record_windows.WindowsMoved) -> None:
    for name in record.queues:
        state.windows[name].is_open = record.is_open
    settle_queues(state)


def _traces_changed(state: ClusterState, record: TracesChanged) -> None:
    for number in record.stopped:
        del state.traces[number]
    for rule in record.started:
        state.traces[rule.number] = rule
        state.next_trace = max(state.next_trace, rule.number + 1)


def _key_trusted(state: ClusterState, record: record_trust.KeyTrusted) -> None:
    state.trust.apply_trusted(record)


def _key_revoked(state: ClusterState, record: record_trust.KeyRevoked) -> None:
    state.trust.apply_revoked(record)


def _host_token_made(state: ClusterState, record: record_trust.HostTokenMade) -> None:
    state.trust.apply_token_made(record, state.now_us)


def _host_token_used(state: ClusterState, record: record_trust.HostTokenUsed) -> None:
    state.trust.apply_token_used(record)


def _posted(state: ClusterState, record: Posted) -> None:
    job = found_job(state, record.job)
    position = -1 if record.index < 0 else job.position(record.index)
    demand(position is not None, job, "written to")
    assert position is not None
    job.posts = job.posts if job.posts is not None else {}
    job.posts.setdefault(position, {})[record.box] = record.post
    job.revision += 1


def _session_ran(state: ClusterState, record: r.SessionRan) -> None:
    """Changes nothing: it is the recording that replay compares with."""


def _jobs_forgotten(state: ClusterState, record: r.JobsForgotten) -> None:
    gone = set(record.jobs)
    for job_id in record.jobs:
        job = state.jobs.pop(job_id)
        state.forget_name(job)
        for cls, spec_id in job.own_forms():
            drop_spec(state, spec_id)
            drop_class(state, cls)
    while state.finished and state.finished[0][1] in gone:
        gone.discard(state.finished.popleft()[1])
    if gone:
        for item in [item for item in state.finished if item[1] in gone]:
            state.finished.remove(item)


_APPLY: Final[dict[type, Callable[[ClusterState, Any], None]]] = {
    r.ConfigApplied: _config_applied,
    **host_records.APPLY,
    HostsLeftOut: live.apply_hosts_left_out,
    QueuesSwitched: apply_queues_switched,
    r.SpecStored: _spec_stored,
    r.ClassStored: _class_stored,
    r.JobSubmitted: _job_submitted,
    r.KeyUsed: _key_used,
    r.KeysForgotten: _keys_forgotten,
    DenialsNoted: lambda _state, _record: None,
    LoginBegan: lambda _state, _record: None,
    LoginRefreshed: lambda state, record: state.logins.take_turn(record),
    LoginRevoked: lambda state, record: state.logins.take(record, state.now_us),
    r.JobsReleased: _jobs_released,
    DelaysPassed: _delays_passed,
    DependencyDoomed: _dependency_doomed,
    ElementsReleased: apply_elements_released,
    ElementsDoomed: apply_elements_doomed,
    r.Held: _held,
    r.Unheld: _unheld,
    r.JobsMoved: _jobs_moved,
    JobModified: modify.apply_job_modified,
    Posted: _posted,
    GroupsSet: groups.apply_groups_set,
    GroupsDeleted: groups.apply_groups_deleted,
    r.Withdrawn: _withdrawn,
    r.BulkPlaced: live.apply_bulk_placed,
    r.GangPlaced: live.apply_gang_placed,
    r.Started: live.apply_started,
    r.AmountsReturned: live.apply_amounts_returned,
    r.EndDecided: live.apply_end_decided,
    r.Ended: live.apply_ended,
    r.LaunchFailed: live.apply_launch_failed,
    r.SuspensionAsked: live.apply_suspension_asked,
    r.SuspensionDone: live.apply_suspension_done,
    r.SignalAsked: live.apply_signal_asked,
    CheckpointsSeen: live.apply_checkpoints_seen,
    r.ReasonsChanged: _reasons_changed,
    r.ReservationsChanged: _reservations_changed,
    r.RoomHeld: _room_held,
    r.RoomReleased: _room_released,
    r.Requeued: live.apply_requeued,
    r.Reopened: over.apply_reopened,
    record_windows.WindowsResolved: _windows_resolved,
    record_windows.WindowsMoved: _windows_moved,
    r.StopsChanged: live.apply_stops_changed,
    TracesChanged: _traces_changed,
    r.SessionRan: _session_ran,
    r.JobsForgotten: _jobs_forgotten,
    record_trust.KeyTrusted: _key_trusted,
    record_trust.KeyRevoked: _key_revoked,
    record_trust.HostTokenMade: _host_token_made,
    record_trust.HostTokenUsed: _host_token_used,
}
