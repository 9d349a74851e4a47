"""What time alone brings: begin times, deadlines, doomed jobs, and what may be forgotten."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final, TypeVar

from xce.control.loss import decide_losses, next_loss_us
from xce.control.selection import index_runs, waiting_positions, whole
from xce.control.trace import decide_expired
from xce.control.windows import decide_moves, next_move_us
from xce.model.command import Tick
from xce.model.host_record import AvoidanceLifted
from xce.model.ids import Index, JobId, Micros
from xce.model.job import EndCause
from xce.model.ranges import Ranges, from_runs
from xce.model.record import (
    AmountsReturned,
    EndDecided,
    JobsForgotten,
    JobsReleased,
    KeysForgotten,
    Record,
    Withdrawn,
)
from xce.model.record_waiting import DelaysPassed
from xce.state.cluster import ClusterState
from xce.state.deadline import late_waiting, overdue
from xce.state.index import next_wait_us
from xce.state.ineligible import spans as ineligible_spans
from xce.state.job import DOOMED, WAITS_BEGIN, Job

SLICE: Final = 10_000
"""Most jobs that one tick releases, ends or forgets."""
_JOB: Final[Callable[[tuple[Micros, JobId]], JobId]] = itemgetter(1)
_Entry = TypeVar("_Entry", tuple[Micros, JobId], tuple[Micros, JobId, int, int])


def decide_tick(state: ClusterState, tick: Tick, now_us: Micros) -> list[Record]:
    """Return what became due; nothing when nothing did."""
    records: list[Record] = []
    begun: list[JobId] = []
    doomed: dict[JobId, Ranges] = {}
    waited: dict[JobId, Micros] = {}
    late = _late_jobs(state, now_us)
    for job_id in _due_jobs(state, now_us):
        if len(begun) + len(doomed) + len(waited) >= SLICE:
            break
        job = state.jobs.get(job_id)
        if job is None or job.is_finished or job_id in late:
            # What else is due of one that is late comes with the next tick.
            continue
        if job.waits & WAITS_BEGIN and job.begin_at_us <= now_us:
            begun.append(job_id)
        elif runs := _doomed_elements(job, now_us):
            doomed[job_id] = runs
        elif 0 < (delay_us := next_wait_us(state, job)) <= now_us - job.submit_at_us:
            waited[job_id] = delay_us
    if begun:
        records.append(JobsReleased(sorted(set(begun)), from_dependency=False))
    if waited:
        records.append(DelaysPassed(sorted(waited), [waited[job] for job in sorted(waited)]))
    returned = _amounts_returned(state, now_us)
    if returned is not None:
        records.append(returned)
    if doomed:
        records.append(withdraw_elements(state, dict(sorted(doomed.items())), now_us))
    if late:
        records.extend(_end_late(state, late, now_us))
    records.extend(_decide_beside(state, tick, now_us))
    return records


def _decide_beside(state: ClusterState, tick: Tick, now_us: Micros) -> list[Record]:
    """Return what became due beside instants of jobs."""
    records: list[Record] = []
    if state.avoiders:
        records.extend(_lift_avoidance(state, now_us))
    if state.hosts.away and not tick.is_settling:
        records.extend(decide_losses(state, now_us))
    if state.windows:
        records.extend(decide_moves(state, state.windows, now_us))
    if state.traces:
        records.extend(decide_expired(state, now_us))
    records.extend(_forget(state, tick, now_us))
    return records


def _lift_avoidance(state: ClusterState, now_us: Micros) -> list[Record]:
    """Return which hosts are tried again on which starts failed long ago."""
    retry_us, faults_us = state.config.start_retry_us, state.hosts.fault_at_us
    lifted = [host for host in sorted(state.avoiders) if faults_us[host] + retry_us <= now_us]
    return [AvoidanceLifted(lifted)] if lifted else []


def next_due_us(state: ClusterState) -> Micros:
    """Return the next instant at which a tick brings something to plan with; 0: none."""
    instants = [heap[0][0] for heap in (state.due, state.returns) if heap]
    instants.extend(at_us for at_us in (next_move_us(state), next_loss_us(state)) if at_us)
    return min(instants, default=0)


def _amounts_returned(state: ClusterState, now_us: Micros) -> AmountsReturned | None:
    """Return which amounts with a duration come back now, all in one record (decision X-27)."""
    stages: dict[tuple[JobId, int], int] = {}
    for _, job_id, position, number in _due_entries(state.returns, now_us):
        attempt = state.attempt(job_id, position)
        if attempt is None or attempt.number != number:
            continue
        offsets = state.classes[attempt.cls].forms[attempt.alternative].offsets
        stage = bisect_right(offsets, now_us - attempt.started_at_us)
        if stage > attempt.returned:
            stages[job_id, position] = stage
        if len(stages) >= SLICE:
            break
    if not stages:
        return None
    places = sorted(stages)
    return AmountsReturned(
        [job_id for job_id, _ in places],
        [state.jobs[job_id].index(position) for job_id, position in places],
        [stages[place] for place in places],
    )


def _late_jobs(state: ClusterState, now_us: Micros) -> dict[JobId, tuple[Ranges, Ranges]]:
    """Return the elements of jobs that wait too late for their deadline, and that outlive it."""
    found: dict[JobId, tuple[Ranges, Ranges]] = {}
    for job_id in _due_jobs(state, now_us) if state.deadlines else ():
        job = state.jobs.get(job_id)
        if job is None or job.is_finished or job_id in found:
            continue
        elements = late_waiting(state, job, now_us), overdue(state, job, now_us)
        if any(elements):
            found[job_id] = elements
        if len(found) >= SLICE:
            break
    return dict(sorted(found.items()))


def _end_late(
    state: ClusterState, late: Mapping[JobId, tuple[Ranges, Ranges]], now_us: Micros
) -> list[Record]:
    """Return the end of what cannot be over at its deadline, or is not."""
    records: list[Record] = []
    waiting = {job_id: found[0] for job_id, found in late.items() if found[0]}
    if waiting:
        records.append(withdraw_elements(state, waiting, now_us, EndCause.DEADLINE))
    alive = {job_id: found[1] for job_id, found in late.items() if found[1]}
    if alive:
        columns = _columns(state, alive)
        records.append(EndDecided(*columns, EndCause.DEADLINE, "", force=False, at_us=now_us))
    return records


def _due_jobs(state: ClusterState, now_us: Micros) -> Iterator[JobId]:
    """Return the jobs whose instant has come, as they are asked for."""
    return map(_JOB, _due_entries(state.due, now_us))


def _due_entries(heap: Sequence[_Entry], now_us: Micros) -> Iterable[_Entry]:
    """Return the entries of a heap whose instant has come, without taking them out of it."""
    return _walk(heap, now_us) if heap and heap[0][0] <= now_us else ()


def _walk(heap: Sequence[_Entry], now_us: Micros) -> Iterator[_Entry]:
    places = [0]
    while places:
        place = places.pop()
        if place < len(heap) and heap[place][0] <= now_us:
            yield heap[place]
            places.extend((2 * place + 1, 2 * place + 2))


def withdraw_orphans(state: ClusterState, jobs: list[JobId], now_us: Micros) -> Withdrawn:
    """Return the end of jobs whose dependency can never be satisfied (decision X-13)."""
    found = {job_id: waiting_positions(state.jobs[job_id]) for job_id in jobs}
    return withdraw_elements(state, found, now_us)


def _doomed_elements(job: Job, now_us: Micros) -> Ranges:
    """Return the elements of a job whose time to wait in vain is over."""
    if job.waits & DOOMED and 0 < job.doomed_until_us <= now_us:
        return waiting_positions(job)
    return from_runs(run for until_us, runs in job.dooms if 0 < until_us <= now_us for run in runs)


def withdraw_elements(
    state: ClusterState,
    elements: Mapping[JobId, Ranges],
    now_us: Micros,
    cause: EndCause = EndCause.ORPHAN_SYSTEM,
) -> Withdrawn:
    """Return the end of elements that wait in vain (decision X-13)."""
    return Withdrawn(*_columns(state, elements), cause, "", now_us)


def _columns(
    state: ClusterState, elements: Mapping[JobId, Ranges]
) -> tuple[list[int], list[int], list[int]]:
    """Return elements as the columns of a record."""
    columns: tuple[list[int], list[int], list[int]] = ([], [], [])
    for job_id, positions in elements.items():
        for first, last in index_runs(state.jobs[job_id], positions):
            for column, value in zip(columns, (job_id, first, last), strict=True):
                column.append(value)
    return columns


def _ineligible(state: ClusterState, job: Job) -> Iterator[tuple[JobId, Index, Index, Micros]]:
    """Yield for how long elements of a job were ineligible while they pended."""
    for first, last, span_us in ineligible_spans(state, job, whole(job), state.now_us) or ():
        yield job.id, job.index(first), job.index(last), span_us


def _forget(state: ClusterState, tick: Tick, now_us: Micros) -> list[Record]:
    """Return which ended jobs leave the state (decision X-19) and which keys count no more."""
    records: list[Record] = []
    gone: list[JobId] = []
    spans: list[tuple[JobId, Index, Index, Micros]] = []
    for at_us, job_id, seq in state.finished:
        if at_us + state.config.clean_period_us > now_us or seq > tick.history_seq:
            break
        if job_id not in state.dependents:
            gone.append(job_id)
            spans += _ineligible(state, state.jobs[job_id])
        if max(len(gone), len(spans)) >= SLICE:
            break
    if gone:
        records.append(JobsForgotten(gone, spans, max(1, state.timed_from)))
    oldest = next(iter(state.keys.values()), None)
    limit_us = now_us - state.config.key_window_us
    # A step of a minute, so that a busy cluster does not write one record a tick.
    if oldest is not None and oldest.at_us < limit_us - 60_000_000:
        records.append(KeysForgotten(limit_us))
    return records
