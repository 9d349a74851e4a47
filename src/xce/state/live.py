"""Records about live attempts: placed, started, stopped, ended. Used by `xce.state.apply` only."""

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from xce.model import record as r
from xce.model.errors import IllegalTransitionError
from xce.model.host_record import CheckpointsSeen, HostsLeftOut
from xce.model.ids import HostNumber, JobId
from xce.model.job import EndCause, Outcome, Phase, Stop
from xce.model.ranges import contains, count, positions, subtract, unite
from xce.state import usage
from xce.state.cluster import ClusterState
from xce.state.deadline import await_again
from xce.state.index import (
    await_return,
    contains_all,
    demand,
    drop_hold,
    drop_reservation,
    drop_spec,
    each_run,
    finish,
    found_job,
    refresh_soon,
    refresh_waiting,
    settle_owed,
)
from xce.state.ineligible import enter, leave
from xce.state.job import CHUNK, Attempt, Ended, EndedChunk, Job, Requeue
from xce.state.members import drop_member, note_member
from xce.state.shares import note_given_back, note_placed, note_released, note_started

_BY_PEOPLE: Final = frozenset({EndCause.REQUEUE_OWNER, EndCause.REQUEUE_ADMIN})
Freed: TypeAlias = dict[tuple[int, HostNumber, int], int]
"""Single-host attempts that are over, by class, host and what they had returned."""


def _place(
    state: ClusterState,
    job: Job,
    position: int,
    record: r.BulkPlaced | r.GangPlaced,
    hosts: list[int],
    tasks: list[int],
    devices: list[list[int]],
    processors: list[list[int]],
) -> Attempt:
    """Make a live attempt of one element; pending elements and amounts are the caller's."""
    last = job.attempts.pop(position, 0) if job.attempts else 0
    number = record.number if isinstance(record, r.GangPlaced) else 0
    demand(number == 0 or number > last, job, "taken up in an earlier attempt")
    if not number:
        number = last + 1
        if state.is_from_before(job.id, number):
            number = state.attempts_above + 1
    if job.live is None:
        job.live = {}
    attempt = job.live[position] = Attempt(
        number=number,
        cls=record.cls,
        hosts=hosts,
        tasks=tasks,
        placed_at_us=state.now_us,
        rule=record.rule,
        devices=devices,
        processors=processors,
    )
    if job.id in state.reservations:
        drop_reservation(state, job.id, job.index(position))
    if state.holds:
        drop_hold(state, job.id, job.index(position))
    first = hosts[0]
    state.on_host.setdefault(first, {})[job.id, position] = None
    state.owed.setdefault(first, {})[job.id, position] = None
    return attempt


def apply_bulk_placed(state: ClusterState, record: r.BulkPlaced) -> None:
    """Give hosts to elements of one class."""
    found = state.classes[record.cls]
    tasks = [found.key.request.tasks_max]
    shares = iter(zip(record.hosts, record.counts, strict=True))
    host, left = next(shares)
    late: dict[JobId, Job] = {}
    placed = nth = 0
    for job, ranges in each_run(state, record):
        demand(contains_all(job.ready, ranges), job, "placed")
        if job.variants:
            demand(job.of_class(record.cls, ranges) == ranges, job, "placed")
        for position in positions(ranges):
            if left == 0:
                host, left = next(shares)
            devices = [record.devices[nth]] if record.devices else []
            bound = [record.processors[nth]] if record.processors else []
            attempt = _place(state, job, position, record, [host], tasks, devices, bound)
            if devices or bound:
                usage.move_devices(state, found, attempt, 1)
            left -= 1
            nth += 1
        if state.shut:
            leave(state, job, ranges)
        job.pending = subtract(job.pending, ranges)
        job.revision += 1
        placed += count(ranges)
        refresh_soon(state, job, late)
    for job in late.values():
        refresh_waiting(state, job)
    found.pending -= placed
    found.live += placed
    note_placed(state, found, found.key.request.tasks_max * placed)
    usage.take_bulk(state, found, record.hosts, record.counts)


def apply_gang_placed(state: ClusterState, record: r.GangPlaced) -> None:
    """Give hosts to a parallel job or element."""
    job = found_job(state, record.job)
    found = state.classes[record.cls]
    position = job.position(record.index)
    demand(position is not None and contains(job.ready, position, position), job, "placed")
    assert position is not None
    leave(state, job, ((position, position),))
    job.pending = subtract(job.pending, ((position, position),))
    attempt = _place(
        state, job, position, record, list(record.hosts), list(record.tasks),
        [list(devices) for devices in record.devices],
        [list(words) for words in record.processors],
    )  # fmt: skip
    attempt.signals_before, attempt.is_adopted = record.signals, record.number > 0
    attempt.parts, attempt.alternative = list(record.parts), record.alternative
    attempt.alone = list(record.alone)
    attempt.proofs, attempt.topology = record.proofs, record.topology
    if found.key.request.constraints:
        note_member(state, found.key.request, job.id, position)
    job.revision += 1
    found.pending -= 1
    found.live += 1
    refresh_waiting(state, job)
    note_placed(state, found, sum(record.tasks))
    usage.take_gang(state, found, attempt)


def _live(state: ClusterState, job_id: JobId, index: int) -> tuple[Job, int, Attempt]:
    job = found_job(state, job_id)
    position = job.position(index)
    attempt = job.live.get(position) if job.live and position is not None else None
    if position is None or attempt is None:
        raise IllegalTransitionError(f"element {index} of job {job_id} is not live")
    return job, position, attempt


def apply_started(state: ClusterState, record: r.Started) -> None:
    """Let attempts run."""
    rows = zip(record.jobs, record.indices, record.pids, record.at_us, strict=True)
    for job_id, index, pid, at_us in rows:
        job, position, attempt = _live(state, job_id, index)
        attempt.phase = Phase.RUNNING
        attempt.pid = pid
        note_started(state, attempt, at_us)
        attempt.started_at_us = at_us
        state.hosts.failures[attempt.hosts[0]] = 0
        settle_owed(state, job, position, attempt)
        await_return(state, job, position, attempt)


def apply_hosts_left_out(state: ClusterState, record: HostsLeftOut) -> None:
    """Let attempts have a host no more."""
    rows = zip(record.hosts, record.jobs, record.indices, record.attempts, strict=True)
    for host, job_id, index, number in rows:
        job, _, attempt = _live(state, job_id, index)
        is_other = host in attempt.hosts and attempt.hosts[0] != host
        demand(attempt.number == number and is_other, job, "left without a host")
        note_given_back(state, attempt, usage.leave_out(state, attempt, host))
        job.revision += 1


def apply_amounts_returned(state: ClusterState, record: r.AmountsReturned) -> None:
    """Take back amounts whose duration is over."""
    for job_id, index, stage in zip(record.jobs, record.indices, record.stages, strict=True):
        job, position, attempt = _live(state, job_id, index)
        demand(attempt.returned < stage, job, "relieved of amounts")
        usage.return_amounts(state, state.classes[attempt.cls], attempt, stage)
        await_return(state, job, position, attempt)


def apply_end_decided(state: ClusterState, record: r.EndDecided) -> None:
    """Note that attempts shall end."""
    for job, position, attempt in _each_live(state, record):
        attempt.end_cause = record.cause
        attempt.end_by = record.by
        attempt.end_force = record.force
        attempt.requeue, attempt.hold = record.requeue, record.hold
        if record.requeue and record.cause is EndCause.PREEMPT:
            _count_preemption(job, position)
        settle_owed(state, job, position, attempt)


def _count_preemption(job: Job, position: int) -> None:
    job.preempted = job.preempted if job.preempted is not None else {}
    job.preempted[position] = job.preempted.get(position, 0) + 1


def _each_live(
    state: ClusterState,
    record: r.EndDecided | r.SuspensionAsked | r.SignalAsked | r.StopsChanged,
) -> Iterator[tuple[Job, int, Attempt]]:
    for job, ranges in each_run(state, record):
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
    freed: Freed,
) -> None:
    """Take a live attempt out of every index and return what it holds.

    Attempts on one host are only counted in ``freed`` by class, host and stage; the caller returns
    them together with `usage.give_back_bulk`.
    """
    assert job.live is not None
    del job.live[position]
    if not job.live:
        job.live = None
    first = attempt.hosts[0]
    state.on_host[first].pop((job.id, position), None)
    state.owed.get(first, {}).pop((job.id, position), None)
    state.stopped.pop((job.id, position), None)
    found = state.classes[attempt.cls]
    found.live -= 1
    if attempt.gave_slots:
        # They are given back with the rest.
        usage.move_slots(state, attempt, 1)
    if attempt.started_at_us and attempt.returned < len(found.forms[attempt.alternative].offsets):
        state.returns_gone += 1
    note_released(state, attempt)
    if attempt.spec_id:
        drop_spec(state, attempt.spec_id)
    if found.key.request.constraints:
        drop_member(state, found.key.request, job.id, position)
    if attempt.suspended:
        found.suspended -= 1
    if found.key.request.is_serial:
        usage.move_devices(state, found, attempt, -1)
        key = (attempt.cls, first, attempt.returned)
        freed[key] = freed.get(key, 0) + 1
    else:
        usage.give_back(state, found, attempt)


def apply_ended(state: ClusterState, record: r.Ended) -> None:
    """Let attempts be over."""
    rows = zip(
        record.jobs, record.indices, record.attempts, record.outcomes, record.exit_codes,
        record.signals, record.causes, record.hosts, record.started_at_us, record.ended_at_us,
        record.cpu_us, record.max_mem_kib, strict=True,
    )  # fmt: skip
    details, posts = dict(record.details), dict(record.posts)
    freed: Freed = {}
    late: dict[JobId, Job] = {}
    for place, row in enumerate(rows):
        job_id, index, number, outcome, exit_code, signal, cause, host, started, ended, cpu, mem = (
            row
        )
        job, position, attempt = _live(state, job_id, index)
        demand(attempt.number == number, job, "ended in another attempt")
        _release(state, job, position, attempt, freed)
        row_ended = Ended(outcome, exit_code, signal, cause, number, host, started, ended, cpu, mem)
        _store_ended(job, position, row_ended)
        if attempt.end_by:
            job.ended_by = job.ended_by if job.ended_by is not None else {}
            job.ended_by[position] = attempt.end_by
        if place in posts:
            job.post_stats = job.post_stats if job.post_stats is not None else {}
            job.post_stats[position] = posts[place]
        if place in details:
            job.details = job.details if job.details is not None else {}
            job.details[position] = details[place]
        if outcome == Outcome.DONE:
            job.done += 1
        else:
            job.exited += 1
        job.revision += 1
        finish(state, job, ended)
        refresh_soon(state, job, late)
    for job in late.values():
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


def apply_launch_failed(state: ClusterState, record: r.LaunchFailed) -> None:
    """Let elements pend again that a host could not start."""
    freed: Freed = {}
    for job_id, index, host in zip(record.jobs, record.indices, record.hosts, strict=True):
        job, position, attempt = _live(state, job_id, index)
        _release(state, job, position, attempt, freed)
        job.attempts = job.attempts if job.attempts is not None else {}
        job.attempts[position] = attempt.number
        _avoid(state, job, [host])
        job.pending = unite(job.pending, ((position, position),))
        enter(state, job, ((position, position),))
        job.revision += 1
        state.classes[job.form_at(position)[0]].pending += 1
        state.hosts.failures[host] += 1
        await_again(state, job, position)
        refresh_waiting(state, job)
    usage.give_back_bulk(state, freed)


def apply_requeued(state: ClusterState, record: r.Requeued) -> None:
    """Let elements pend again, or be held, whose attempts are gone or given up."""
    freed: Freed = {}
    causes = record.causes or [int(EndCause.PREEMPT)] * len(record.jobs)
    details = dict(record.details)
    held, elsewhere = frozenset(record.held), frozenset(record.elsewhere)
    avoided = frozenset(record.avoided)
    rows = zip(record.jobs, record.indices, causes, strict=True)
    for place, (job_id, index, cause) in enumerate(rows):
        job, position, attempt = _live(state, job_id, index)
        _release(state, job, position, attempt, freed)
        job.attempts = job.attempts if job.attempts is not None else {}
        job.attempts[position] = attempt.number
        requeue = Requeue(
            cause, attempt.number, attempt.hosts[0], state.now_us, attempt.end_by,
            details.get(place, ""), has_run=attempt.started_at_us != 0,
        )  # fmt: skip
        if place in elsewhere:
            _exclude(state, job, attempt.hosts)
        if place in avoided:
            _avoid(state, job, attempt.hosts)
        wait_again(state, job, position, requeue, hold=attempt.hold or place in held)
    usage.give_back_bulk(state, freed)


def _avoid(state: ClusterState, job: Job, hosts: list[HostNumber]) -> None:
    """Let a job not use hosts for a while."""
    job.avoid = tuple(dict.fromkeys((*job.avoid, *hosts)))
    for host in hosts:
        if host not in job.excluded:
            state.avoiders.setdefault(host, {})[job.id] = None
        state.hosts.fault_at_us[host] = state.now_us


def _exclude(state: ClusterState, job: Job, hosts: list[HostNumber]) -> None:
    """Let a job not use hosts again; nothing but its end lifts that."""
    job.excluded = tuple(dict.fromkeys((*job.excluded, *hosts)))
    job.avoid = tuple(dict.fromkeys((*job.avoid, *hosts)))
    for host in hosts:
        state.avoiders.get(host, {}).pop(job.id, None)


def wait_again(
    state: ClusterState, job: Job, position: int, requeue: Requeue, *, hold: bool
) -> None:
    """Let an element pend again, or be held."""
    job.requeues = job.requeues if job.requeues is not None else {}
    before = job.requeues.get(position)
    if before is not None:
        asked = requeue.cause in _BY_PEOPLE
        requeue = msgspec.structs.replace(
            requeue,
            has_run=requeue.has_run or before.has_run,
            times=0 if asked else before.times,
            pre_times=0 if asked else before.pre_times,
        )
    if requeue.cause == EndCause.REQUEUE_EXIT:
        requeue = msgspec.structs.replace(requeue, times=requeue.times + 1)
    if requeue.cause == EndCause.REQUEUE_PRE_EXEC:
        requeue = msgspec.structs.replace(requeue, pre_times=requeue.pre_times + 1)
    job.requeues[position] = requeue
    found = state.classes[job.form_at(position)[0]]
    if hold:
        job.held = unite(job.held, ((position, position),))
        found.held += 1
    else:
        job.pending = unite(job.pending, ((position, position),))
        found.pending += 1
    enter(state, job, ((position, position),))
    job.revision += 1
    await_again(state, job, position)
    refresh_waiting(state, job)


def apply_suspension_asked(state: ClusterState, record: r.SuspensionAsked) -> None:
    """Note that attempts shall stop or go on."""
    for job, position, attempt in _each_live(state, record):
        attempt.suspension_wanted = record.suspended
        attempt.suspended_by_admin = record.suspended and record.by_admin
        settle_owed(state, job, position, attempt)


def apply_suspension_done(state: ClusterState, record: r.SuspensionDone) -> None:
    """Note that attempts stopped or went on."""
    for job_id, index in zip(record.jobs, record.indices, strict=True):
        job, position, attempt = _live(state, job_id, index)
        if attempt.suspended != record.suspended:
            attempt.suspended = record.suspended
            state.classes[attempt.cls].suspended += 1 if record.suspended else -1
        if record.suspended and attempt.stops & Stop.PREEMPTED and not attempt.gave_slots:
            attempt.gave_slots = True
            usage.move_slots(state, attempt, -1)
        settle_owed(state, job, position, attempt)


def apply_stops_changed(state: ClusterState, record: r.StopsChanged) -> None:
    """Note that the cluster suspends attempts or lets them go on."""
    for job, position, attempt in _each_live(state, record):
        if record.stop is Stop.PREEMPTED:
            if record.is_on:
                _count_preemption(job, position)
            elif attempt.gave_slots:
                attempt.gave_slots = False
                usage.move_slots(state, attempt, 1)
        attempt.stops = (
            attempt.stops | record.stop if record.is_on else attempt.stops & ~record.stop
        )
        if attempt.stops:
            state.stopped[job.id, position] = None
        else:
            state.stopped.pop((job.id, position), None)
        settle_owed(state, job, position, attempt)


def apply_checkpoints_seen(state: ClusterState, record: CheckpointsSeen) -> None:
    """Note which checkpoints of attempts are known."""
    for job_id, index, number in zip(record.jobs, record.indices, record.numbers, strict=True):
        _, _, attempt = _live(state, job_id, index)
        attempt.checkpoints = number


def apply_signal_asked(state: ClusterState, record: r.SignalAsked) -> None:
    """Note a signal to attempts."""
    for _owner, _position, attempt in _each_live(state, record):
        attempt.signals = [*attempt.signals, record.signal]
