"""Record to state: the only writer. It obeys and never chooses; a record that does not fit is a
fault (`IllegalTransitionError`), since then the journal is corrupt or a decider is wrong.

Costs grow with what a record names, never with the number of jobs or hosts.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from xce.model import record as r
from xce.model.entry import Entry
from xce.model.errors import IllegalTransitionError
from xce.model.ids import HostNumber, JobId, Micros, Seq
from xce.model.job import EndCause, Outcome, Phase
from xce.model.ranges import EMPTY, ZERO, Ranges, contains, count, positions, subtract, unite
from xce.resreq.dependency import subjects_of
from xce.state import usage
from xce.state.cluster import ClusterState, KeyUse, RequestClass, key_time_us
from xce.state.job import (
    CHUNK,
    DOOMED,
    WAITS_BEGIN,
    WAITS_DEPENDENCY,
    Attempt,
    Ended,
    EndedChunk,
    Job,
    Withdrawal,
)


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
    due = state.due
    while due and not _is_due(state, *due[0]):
        heapq.heappop(due)


def _is_due(state: ClusterState, at_us: Micros, job_id: JobId) -> bool:
    """Return whether the instant still means something to its job."""
    job = state.jobs.get(job_id)
    if job is None or job.is_finished:
        return False
    begins = bool(job.waits & WAITS_BEGIN) and job.begin_at_us == at_us
    return begins or (bool(job.waits & DOOMED) and job.doomed_until_us == at_us)


def index_job(state: ClusterState, job: Job) -> None:
    """Put ``job`` into every index that its present state asks for."""
    owner = job.owner.user
    if job.is_finished:
        state.finished.append((job.finished_at_us, job.id, state.seq))
    else:
        state.unfinished.setdefault(owner, {})[job.id] = None
        for host in job.avoid:
            state.avoiders.setdefault(host, {})[job.id] = None
    state.names.setdefault(owner, {}).setdefault(state.spec(job).name, {})[job.id] = None
    if job.waits & WAITS_DEPENDENCY and job.dependency is not None:
        for subject in subjects_of(job.dependency):
            state.dependents.setdefault(subject, {})[job.id] = None
    if job.waits & WAITS_BEGIN:
        state.wait_until(job.begin_at_us, job.id)
    if job.waits & DOOMED and job.doomed_until_us > 0:
        state.wait_until(job.doomed_until_us, job.id)
    refresh_waiting(state, job)


def refresh_waiting(state: ClusterState, job: Job) -> None:
    """Keep the class's list of jobs that have elements which may start now."""
    waiting = state.classes[job.cls].waiting
    if job.pending and not job.waits and state.room(job) > 0:
        if job.id not in waiting:
            found = state.classes[job.cls]
            if waiting and found.sorted and next(reversed(waiting)) > job.id:
                found.sorted = False
            waiting[job.id] = None
    else:
        waiting.pop(job.id, None)


def _job(state: ClusterState, job: JobId) -> Job:
    found = state.jobs.get(job)
    if found is None:
        raise IllegalTransitionError(f"job {job} does not exist")
    return found


def _runs(
    state: ClusterState,
    record: r.Held
    | r.Unheld
    | r.Withdrawn
    | r.BulkPlaced
    | r.EndDecided
    | r.SuspensionAsked
    | r.SignalAsked,
) -> Iterator[tuple[Job, Ranges]]:
    """Yield each run of a record as its job and positions."""
    for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
        found = _job(state, job)
        yield found, ZERO if found.array is None else found.positions(first, last)


def _config_applied(state: ClusterState, record: r.ConfigApplied) -> None:
    state.config = record.config
    state.config_version = record.version
    state.set_queues()
    state.hosts.configure(record.config, record.hosts)
    state.pools.configure(record.config)
    for found in state.classes.values():
        found.compile(state.hosts)
    usage.recount(state)


def _host_up(state: ClusterState, record: r.HostUp) -> None:
    hosts, number = state.hosts, record.host
    hosts.is_up[number] = True
    hosts.boot_ids[number] = record.boot_id
    hosts.cpus[number] = record.cpus
    hosts.mem_mib[number] = record.mem_mib
    hosts.isolation[number] = record.isolation
    hosts.versions[number] = record.version
    hosts.reported[number] = dict(record.attributes)
    hosts.join(number)


def _host_down(state: ClusterState, record: r.HostDown) -> None:
    state.hosts.is_up[record.host] = False
    state.hosts.change += 1


def _hosts_opened(state: ClusterState, record: r.HostsOpened) -> None:
    for number in record.hosts:
        state.hosts.is_open[number] = record.is_open
        state.hosts.comments[number] = record.comment
        state.hosts.failures[number] = 0
        if record.is_open:
            _lift_avoidance(state, number)
    state.hosts.change += 1


def _avoidance_lifted(state: ClusterState, record: r.AvoidanceLifted) -> None:
    for number in record.hosts:
        _lift_avoidance(state, number)


def _lift_avoidance(state: ClusterState, number: HostNumber) -> None:
    """Let the jobs that failed on a host try it again."""
    state.hosts.fault_at_us[number] = 0
    for job_id in state.avoiders.pop(number, {}):
        job = state.jobs[job_id]
        job.avoid = tuple(host for host in job.avoid if host != number)
        job.revision += 1


def _spec_stored(state: ClusterState, record: r.SpecStored) -> None:
    state.specs[record.spec_id] = record.spec
    state.spec_ids[record.spec] = record.spec_id
    state.spec_uses[record.spec_id] = 0
    state.next_spec = record.spec_id + 1


def _class_stored(state: ClusterState, record: r.ClassStored) -> None:
    found = RequestClass(record.cls, record.key, record.resreq)
    found.compile(state.hosts)
    state.classes[record.cls] = found
    state.class_ids[record.key] = record.cls
    state.next_class = record.cls + 1


def _job_submitted(state: ClusterState, record: r.JobSubmitted) -> None:
    if record.job < state.next_job:
        raise IllegalTransitionError(f"job id {record.job} is not new")
    size = 1 if record.array is None else record.array.count
    everything = ((0, size - 1),)
    waits = (WAITS_BEGIN if record.begin_at_us else 0) | (
        WAITS_DEPENDENCY if record.dependency is not None else 0
    )
    job = Job(
        id=record.job,
        spec_id=record.spec_id,
        cls=record.cls,
        owner=record.owner,
        submit_at_us=record.submit_at_us,
        size=size,
        array=record.array,
        pending=EMPTY if record.hold else ZERO if size == 1 else everything,
        held=everything if record.hold else EMPTY,
        waits=waits,
        begin_at_us=record.begin_at_us,
        dependency=record.dependency,
    )
    state.next_job = record.job + 1
    state.jobs[record.job] = job
    state.spec_uses[record.spec_id] += 1
    found = state.classes[record.cls]
    found.jobs += 1
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
        use = state.keys[record.user, record.key] = KeyUse(at_us, {})
    for place, job in enumerate(record.jobs):
        use.lines[record.line + place] = job


def _keys_forgotten(state: ClusterState, record: r.KeysForgotten) -> None:
    # Keys stand in the order of their first use, which is nearly the order of time.
    for key, use in list(state.keys.items()):
        if use.at_us >= record.before_us:
            break
        del state.keys[key]


def _jobs_released(state: ClusterState, record: r.JobsReleased) -> None:
    for job_id in record.jobs:
        job = _job(state, job_id)
        if record.from_dependency:
            job.waits &= ~(WAITS_DEPENDENCY | DOOMED)
            _forget_subjects(state, job)
        else:
            job.waits &= ~WAITS_BEGIN
        job.revision += 1
        refresh_waiting(state, job)


def _forget_subjects(state: ClusterState, job: Job) -> None:
    if job.dependency is None:
        return
    for subject in subjects_of(job.dependency):
        waiting = state.dependents.get(subject)
        if waiting is not None:
            waiting.pop(job.id, None)
            if not waiting:
                del state.dependents[subject]


def _dependency_doomed(state: ClusterState, record: r.DependencyDoomed) -> None:
    for job_id in record.jobs:
        job = _job(state, job_id)
        job.waits |= DOOMED
        job.doomed_until_us = record.ends_at_us
        if record.ends_at_us:
            state.wait_until(record.ends_at_us, job_id)


def _held(state: ClusterState, record: r.Held) -> None:
    for job, ranges in _runs(state, record):
        size = count(ranges)
        _demand(contains_all(job.pending, ranges), job, "held")
        job.pending = subtract(job.pending, ranges)
        job.held = unite(job.held, ranges)
        job.held_by_admin = job.held_by_admin or record.by_admin
        job.revision += 1
        found = state.classes[job.cls]
        found.pending -= size
        found.held += size
        refresh_waiting(state, job)


def _unheld(state: ClusterState, record: r.Unheld) -> None:
    for job, ranges in _runs(state, record):
        size = count(ranges)
        _demand(contains_all(job.held, ranges), job, "released")
        job.held = subtract(job.held, ranges)
        job.pending = unite(job.pending, ranges)
        job.held_by_admin = job.held_by_admin and bool(job.held)
        job.revision += 1
        found = state.classes[job.cls]
        found.held -= size
        found.pending += size
        refresh_waiting(state, job)


def _withdrawn(state: ClusterState, record: r.Withdrawn) -> None:
    for job, ranges in _runs(state, record):
        from_pending = subtract(ranges, job.held)
        _demand(contains_all(job.pending, from_pending), job, "withdrawn")
        found = state.classes[job.cls]
        found.pending -= count(from_pending)
        found.held -= count(ranges) - count(from_pending)
        job.pending = subtract(job.pending, ranges)
        job.held = subtract(job.held, ranges)
        job.withdrawn += (Withdrawal(ranges, record.cause, record.by, record.at_us),)
        job.exited += count(ranges)
        job.revision += 1
        _finish(state, job, record.at_us)
        refresh_waiting(state, job)


def contains_all(outer: Ranges, inner: Ranges) -> bool:
    """Return whether every run of ``inner`` lies in ``outer``."""
    return all(contains(outer, first, last) for first, last in inner)


def _demand(holds: bool, job: Job, what: str) -> None:
    if not holds:
        raise IllegalTransitionError(f"elements of job {job.id} cannot be {what} now")


def _place(
    state: ClusterState, job: Job, position: int, hosts: list[int], tasks: list[int]
) -> None:
    """Make a live attempt of one element; pending elements and amounts are the caller's."""
    number = 1
    if job.attempts:
        number = job.attempts.pop(position, 0) + 1
    if job.live is None:
        job.live = {}
    job.live[position] = Attempt(
        number=number, cls=job.cls, hosts=hosts, tasks=tasks, placed_at_us=state.now_us
    )
    first = hosts[0]
    state.on_host.setdefault(first, {})[job.id, position] = None
    state.owed.setdefault(first, {})[job.id, position] = None


def _bulk_placed(state: ClusterState, record: r.BulkPlaced) -> None:
    found = state.classes[record.cls]
    tasks = [found.key.request.tasks_max]
    shares = iter(zip(record.hosts, record.counts, strict=True))
    host, left = next(shares)
    placed = 0
    for job, ranges in _runs(state, record):
        _demand(contains_all(job.pending, ranges), job, "placed")
        for position in positions(ranges):
            if left == 0:
                host, left = next(shares)
            _place(state, job, position, [host], tasks)
            left -= 1
        job.pending = subtract(job.pending, ranges)
        job.revision += 1
        placed += count(ranges)
        refresh_waiting(state, job)
    found.pending -= placed
    found.live += placed
    usage.take_bulk(state, found, record.hosts, record.counts)


def _gang_placed(state: ClusterState, record: r.GangPlaced) -> None:
    job = _job(state, record.job)
    found = state.classes[record.cls]
    position = job.position(record.index)
    _demand(position is not None and contains(job.pending, position, position), job, "placed")
    assert position is not None
    job.pending = subtract(job.pending, ((position, position),))
    _place(state, job, position, list(record.hosts), list(record.tasks))
    job.revision += 1
    found.pending -= 1
    found.live += 1
    refresh_waiting(state, job)
    usage.take_gang(state, found, record.hosts, record.tasks)


def _live(state: ClusterState, job_id: JobId, index: int) -> tuple[Job, int, Attempt]:
    job = _job(state, job_id)
    position = job.position(index)
    attempt = job.live.get(position) if job.live and position is not None else None
    if position is None or attempt is None:
        raise IllegalTransitionError(f"element {index} of job {job_id} is not live")
    return job, position, attempt


def _started(state: ClusterState, record: r.Started) -> None:
    rows = zip(record.jobs, record.indices, record.pids, record.at_us, strict=True)
    for job_id, index, pid, at_us in rows:
        job, position, attempt = _live(state, job_id, index)
        attempt.phase = Phase.RUNNING
        attempt.pid = pid
        attempt.started_at_us = at_us
        state.hosts.failures[attempt.hosts[0]] = 0
        settle_owed(state, job, position, attempt)


def settle_owed(state: ClusterState, job: Job, position: int, attempt: Attempt) -> None:
    """Keep the index of what the hosts must be told."""
    owes = (
        attempt.phase == Phase.STARTING
        or attempt.end_cause != EndCause.NONE
        or attempt.suspended != attempt.suspension_wanted
    )
    owed = state.owed.setdefault(attempt.hosts[0], {})
    if owes:
        owed[job.id, position] = None
    else:
        owed.pop((job.id, position), None)


def _end_decided(state: ClusterState, record: r.EndDecided) -> None:
    for job, position, attempt in _each_live(state, record):
        attempt.end_cause = record.cause
        attempt.end_by = record.by
        attempt.end_force = record.force
        settle_owed(state, job, position, attempt)


def _each_live(
    state: ClusterState, record: r.EndDecided | r.SuspensionAsked | r.SignalAsked
) -> Iterator[tuple[Job, int, Attempt]]:
    for job, ranges in _runs(state, record):
        live = job.live or {}
        for first, last in ranges:
            if last - first + 1 <= len(live):
                places = [place for place in range(first, last + 1) if place in live]
            else:
                places = [place for place in live if first <= place <= last]
            for place in places:
                yield job, place, live[place]


def _release(
    state: ClusterState,
    job: Job,
    position: int,
    attempt: Attempt,
    freed: dict[tuple[int, HostNumber], int],
) -> None:
    """Take a live attempt out of every index and return what it holds.

    Attempts on one host are only counted in ``freed`` by class and host; the caller returns them
    together with `usage.give_back_bulk`.
    """
    assert job.live is not None
    del job.live[position]
    if not job.live:
        job.live = None
    first = attempt.hosts[0]
    state.on_host[first].pop((job.id, position), None)
    state.owed.get(first, {}).pop((job.id, position), None)
    found = state.classes[attempt.cls]
    found.live -= 1
    if attempt.suspended:
        found.suspended -= 1
    if found.key.request.is_serial:
        freed[attempt.cls, first] = freed.get((attempt.cls, first), 0) + 1
    else:
        usage.give_back(state, found, attempt.hosts, attempt.tasks)


def _ended(state: ClusterState, record: r.Ended) -> None:
    rows = zip(
        record.jobs, record.indices, record.attempts, record.outcomes, record.exit_codes,
        record.signals, record.causes, record.hosts, record.started_at_us, record.ended_at_us,
        record.cpu_us, record.max_mem_kib, strict=True,
    )  # fmt: skip
    details = dict(record.details)
    freed: dict[tuple[int, HostNumber], int] = {}
    for place, row in enumerate(rows):
        job_id, index, number, outcome, exit_code, signal, cause, host, started, ended, cpu, mem = (
            row
        )
        job, position, attempt = _live(state, job_id, index)
        _demand(attempt.number == number, job, "ended in another attempt")
        _release(state, job, position, attempt, freed)
        row_ended = Ended(outcome, exit_code, signal, cause, number, host, started, ended, cpu, mem)
        _store_ended(job, position, row_ended)
        if attempt.end_by:
            job.ended_by = job.ended_by if job.ended_by is not None else {}
            job.ended_by[position] = attempt.end_by
        if place in details:
            job.details = job.details if job.details is not None else {}
            job.details[position] = details[place]
        if outcome == Outcome.DONE:
            job.done += 1
        else:
            job.exited += 1
        job.revision += 1
        _finish(state, job, ended)
        refresh_waiting(state, job)
    usage.give_back_bulk(state, freed)


def _store_ended(job: Job, position: int, ended: Ended) -> None:
    if job.array is None:
        job.ended = ended
        return
    if job.chunks is None:
        job.chunks = {}
    chunk = job.chunks.get(position // CHUNK)
    if chunk is None:
        chunk = job.chunks[position // CHUNK] = EndedChunk(
            size=job.size - position // CHUNK * CHUNK
        )
    chunk.store(position % CHUNK, ended)


def _finish(state: ClusterState, job: Job, at_us: int) -> None:
    """Note the end of the whole job when nothing of it is left."""
    if job.pending or job.held or job.live:
        return
    job.finished_at_us = max(at_us, 1, job.submit_at_us)
    job.waits &= ~DOOMED
    user = job.owner.user
    unfinished = state.unfinished[user]
    unfinished.pop(job.id, None)
    if not unfinished:
        del state.unfinished[user]
    if job.waits & WAITS_DEPENDENCY:
        job.waits &= ~WAITS_DEPENDENCY
        _forget_subjects(state, job)
    for host in job.avoid:
        state.avoiders.get(host, {}).pop(job.id, None)
    # The order of the queue is the order of the instants; a report's age may reach back a little.
    last = state.finished[-1][0] if state.finished else 0
    job.finished_at_us = max(job.finished_at_us, last)
    state.finished.append((job.finished_at_us, job.id, state.seq))


def _launch_failed(state: ClusterState, record: r.LaunchFailed) -> None:
    freed: dict[tuple[int, HostNumber], int] = {}
    for job_id, index, host in zip(record.jobs, record.indices, record.hosts, strict=True):
        job, position, attempt = _live(state, job_id, index)
        _release(state, job, position, attempt, freed)
        job.attempts = job.attempts if job.attempts is not None else {}
        job.attempts[position] = attempt.number
        if host not in job.avoid:
            job.avoid = (*job.avoid, host)
        state.avoiders.setdefault(host, {})[job_id] = None
        state.hosts.fault_at_us[host] = state.now_us
        job.pending = unite(job.pending, ((position, position),))
        job.revision += 1
        state.classes[job.cls].pending += 1
        state.hosts.failures[host] += 1
        refresh_waiting(state, job)
    usage.give_back_bulk(state, freed)


def _suspension_asked(state: ClusterState, record: r.SuspensionAsked) -> None:
    for job, position, attempt in _each_live(state, record):
        attempt.suspension_wanted = record.suspended
        attempt.suspended_by_admin = record.suspended and record.by_admin
        settle_owed(state, job, position, attempt)


def _suspension_done(state: ClusterState, record: r.SuspensionDone) -> None:
    for job_id, index in zip(record.jobs, record.indices, strict=True):
        job, position, attempt = _live(state, job_id, index)
        if attempt.suspended != record.suspended:
            attempt.suspended = record.suspended
            state.classes[attempt.cls].suspended += 1 if record.suspended else -1
        settle_owed(state, job, position, attempt)


def _signal_asked(state: ClusterState, record: r.SignalAsked) -> None:
    for _owner, _position, attempt in _each_live(state, record):
        attempt.signals = [*attempt.signals, record.signal]


def _reasons_changed(state: ClusterState, record: r.ReasonsChanged) -> None:
    for cls, reason in zip(record.classes, record.reasons, strict=True):
        found = state.classes.get(cls)
        if found is not None:
            found.reason = reason


def _session_ran(state: ClusterState, record: r.SessionRan) -> None:
    """Changes nothing: it is the recording that replay compares with."""


def _jobs_forgotten(state: ClusterState, record: r.JobsForgotten) -> None:
    gone = set(record.jobs)
    for job_id in record.jobs:
        job = state.jobs.pop(job_id)
        names = state.names[job.owner.user]
        name = state.spec(job).name
        names[name].pop(job_id, None)
        if not names[name]:
            del names[name]
        if not names:
            del state.names[job.owner.user]
        _drop_spec(state, job.spec_id)
        _drop_class(state, job.cls)
    while state.finished and state.finished[0][1] in gone:
        gone.discard(state.finished.popleft()[1])
    if gone:
        for item in [item for item in state.finished if item[1] in gone]:
            state.finished.remove(item)


def _drop_spec(state: ClusterState, spec_id: int) -> None:
    state.spec_uses[spec_id] -= 1
    if state.spec_uses[spec_id] == 0:
        del state.spec_uses[spec_id]
        del state.spec_ids[state.specs.pop(spec_id)]


def _drop_class(state: ClusterState, cls: int) -> None:
    found = state.classes[cls]
    found.jobs -= 1
    if found.jobs == 0:
        del state.classes[cls]
        state.class_ids.pop(found.key, None)


_APPLY: Final[dict[type, Callable[[ClusterState, Any], None]]] = {
    r.ConfigApplied: _config_applied,
    r.HostUp: _host_up,
    r.HostDown: _host_down,
    r.HostsOpened: _hosts_opened,
    r.SpecStored: _spec_stored,
    r.ClassStored: _class_stored,
    r.JobSubmitted: _job_submitted,
    r.KeyUsed: _key_used,
    r.KeysForgotten: _keys_forgotten,
    r.JobsReleased: _jobs_released,
    r.DependencyDoomed: _dependency_doomed,
    r.Held: _held,
    r.Unheld: _unheld,
    r.Withdrawn: _withdrawn,
    r.BulkPlaced: _bulk_placed,
    r.GangPlaced: _gang_placed,
    r.Started: _started,
    r.EndDecided: _end_decided,
    r.Ended: _ended,
    r.LaunchFailed: _launch_failed,
    r.AvoidanceLifted: _avoidance_lifted,
    r.SuspensionAsked: _suspension_asked,
    r.SuspensionDone: _suspension_done,
    r.SignalAsked: _signal_asked,
    r.ReasonsChanged: _reasons_changed,
    r.SessionRan: _session_ran,
    r.JobsForgotten: _jobs_forgotten,
}
