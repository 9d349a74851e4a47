"""`Reported` to records: what is late, repeated or of an old attempt is dropped."""

from xce.control.checkpoint import seen_checkpoints
from xce.control.exit_values import start_anew, success_codes
from xce.control.hooks import tries_again
from xce.control.strangers import decide_gone
from xce.model.host_record import HostsOpened, StaleGone
from xce.model.ids import HostNumber, Index, JobId, Micros
from xce.model.job import ENDS_AS_DONE, EndCause, Outcome, Phase
from xce.model.observation import AttemptEnded, AttemptStarted, Reported, SuspensionSeen
from xce.model.record import (
    Ended,
    LaunchFailed,
    Record,
    Requeued,
    Started,
    SuspensionDone,
)
from xce.state.cluster import ClusterState
from xce.state.job import Attempt


def decide_reported(state: ClusterState, seen: Reported, now_us: Micros) -> list[Record]:
    """Return what a worker's batch means, in the order starts, suspensions, checkpoints, ends."""
    number = state.hosts.number.get(seen.host)
    if number is None:
        return []
    records: list[Record] = []
    begun: dict[tuple[JobId, Index], Micros] = {}
    if seen.started:
        started = _started(state, number, seen.started, now_us)
        if started is not None:
            records.append(started)
            begun = dict(
                zip(zip(started.jobs, started.indices, strict=True), started.at_us, strict=True)
            )
    if seen.suspended:
        records.extend(_suspended(state, number, seen.suspended))
    if seen.checkpoints:
        records.extend(
            seen_checkpoints(
                [
                    (item, _current(state, number, item.job, item.index, item.attempt))
                    for item in seen.checkpoints
                ]
            )
        )
    if seen.ended:
        records.extend(_ended(state, number, seen.ended, begun, now_us))
    if number in state.hosts.stale:
        records.extend(_stale_gone(state, number, seen))
    if number in state.hosts.strange:
        records.extend(decide_gone(state, number, seen))
    return records


def _stale_gone(state: ClusterState, host: HostNumber, seen: Reported) -> list[Record]:
    """Return which attempts that were given up are gone now."""
    said = (*seen.gone, *((item.job, item.index, item.attempt) for item in seen.ended))
    stale = state.hosts.stale[host]
    gone = [key for key in dict.fromkeys(said) if key in stale]
    if not gone:
        return []
    return [
        StaleGone(
            host, [job for job, _, _ in gone], [index for _, index, _ in gone],
            [attempt for _, _, attempt in gone],
        )
    ]  # fmt: skip


def _current(
    state: ClusterState, host: HostNumber, job_id: JobId, index: Index, number: int
) -> Attempt | None:
    """Return the live attempt that a report is about, or None when it is old news."""
    job = state.jobs.get(job_id)
    if job is None or job.live is None:
        return None
    position = job.position(index)
    attempt = job.live.get(position) if position is not None else None
    if attempt is None or attempt.number != number or attempt.hosts[0] != host:
        return None
    return attempt


def _started(
    state: ClusterState, host: HostNumber, items: tuple[AttemptStarted, ...], now_us: Micros
) -> Started | None:
    rows: dict[tuple[JobId, Index], tuple[int, Micros]] = {}
    for item in items:
        attempt = _current(state, host, item.job, item.index, item.attempt)
        if attempt is not None and attempt.phase == Phase.STARTING:
            at_us = max(attempt.placed_at_us, now_us - item.age_us)
            rows.setdefault((item.job, item.index), (item.pid, at_us))
    if not rows:
        return None
    return Started(
        jobs=[job for job, _ in rows],
        indices=[index for _, index in rows],
        pids=[pid for pid, _ in rows.values()],
        at_us=[at_us for _, at_us in rows.values()],
    )


def _suspended(
    state: ClusterState, host: HostNumber, items: tuple[SuspensionSeen, ...]
) -> list[Record]:
    rows: dict[bool, dict[tuple[JobId, Index], None]] = {True: {}, False: {}}
    for item in items:
        attempt = _current(state, host, item.job, item.index, item.attempt)
        if attempt is None:
            continue
        rows[not item.suspended].pop((item.job, item.index), None)
        rows[item.suspended][item.job, item.index] = None
    return [
        SuspensionDone([job for job, _ in keys], [index for _, index in keys], suspended)
        for suspended, keys in rows.items()
        if keys
    ]


def _note_used(
    record: Ended | Requeued,
    attempt: Attempt,
    item: AttemptEnded,
    begun: dict[tuple[JobId, Index], Micros],
    now_us: Micros,
) -> None:
    """Add to the columns how an attempt ended, when it ran and what it used.

    Args:
        record: The columns.
        attempt: The attempt.
        item: What its host has told.
        begun: When those began whose start was reported in the same batch.
        now_us: The present instant.
    """
    started_us = attempt.started_at_us or begun.get((item.job, item.index), 0)
    if not started_us and item.started_age_us:
        started_us = max(attempt.placed_at_us, now_us - item.started_age_us)
    record.exit_codes.append(item.exit_code & 0xFF)
    record.signals.append(item.signal & 0x7F)
    record.started_at_us.append(started_us)
    record.ended_at_us.append(max(started_us, attempt.placed_at_us, now_us - item.ended_age_us))
    record.cpu_us.append(item.user_us + item.system_us)
    record.max_mem_kib.append(item.max_mem_kib)


class _Ends:
    """Columns of `Ended` as they grow."""

    def __init__(self, state: ClusterState, begun: dict[tuple[JobId, Index], Micros]) -> None:
        self._state = state
        self.record = Ended([], [], [], [], [], [], [], [], [], [], [], [])
        self.seen: set[tuple[JobId, Index]] = set()
        self._begun = begun

    def success(self, attempt: Attempt) -> tuple[int, ...]:
        """Return the exit statuses beside 0 with which an attempt's job is done."""
        return success_codes(self._state, self._state.classes[attempt.cls].key)

    def _gone(self, attempt: Attempt) -> str:
        """Return which hosts of an attempt are away, for people; empty: none is any more."""
        hosts = self._state.hosts
        lost = [one for one in attempt.hosts if not hosts.is_up[one]]
        away = [hosts.names[one] for one in dict.fromkeys((*attempt.left_out, *lost))]
        return f"lost: {', '.join(away)}" if away else ""

    def add(self, host: HostNumber, attempt: Attempt, item: AttemptEnded, now_us: Micros) -> None:
        record = self.record
        cause = attempt.end_cause or int(item.cause)
        if attempt.requeue and attempt.end_cause == EndCause.PREEMPT:
            # It ended well before it could give way.
            cause = EndCause.NONE
        is_well = item.exit_code == 0 or item.exit_code in self.success(attempt)
        clean = is_well and item.signal == 0 and cause == EndCause.NONE
        is_done = clean or attempt.end_cause in ENDS_AS_DONE
        if item.post:
            record.posts.append((len(record.jobs), item.post))
        detail = item.detail or (self._gone(attempt) if cause == EndCause.HOST_LOST else "")
        if detail:
            record.details.append((len(record.jobs), detail))
        record.jobs.append(item.job)
        record.indices.append(item.index)
        record.attempts.append(item.attempt)
        record.outcomes.append(int(Outcome.DONE if is_done else Outcome.EXIT))
        record.causes.append(cause)
        record.hosts.append(host)
        _note_used(record, attempt, item, self._begun, now_us)


def _requeue_cause(state: ClusterState, attempt: Attempt, item: AttemptEnded) -> EndCause:
    """Return for what reason an attempt that is over is requeued; NONE: it has ended."""
    if attempt.requeue:
        ended_well = not (item.exit_code or item.signal or item.cause)
        cause = EndCause(attempt.end_cause)
        return EndCause.NONE if ended_well and cause is EndCause.PREEMPT else cause
    is_host = item.cause in (EndCause.HOST_RESTARTED, EndCause.HOST_LOST)
    if attempt.end_cause == EndCause.NONE and is_host:
        job = state.jobs[item.job]
        rerunnable = state.spec_at(job, job.position(item.index) or 0).rerunnable
        return item.cause if rerunnable else EndCause.NONE
    return EndCause.NONE


class _Again:
    """Columns of `Requeued` as they grow."""

    def __init__(self, state: ClusterState, begun: dict[tuple[JobId, Index], Micros]) -> None:
        self._state = state
        self._begun = begun
        self.record = Requeued([], [], [])

    def take(self, attempt: Attempt, item: AttemptEnded, now_us: Micros) -> bool:
        """Have an attempt that is over requeued; False: it has ended."""
        record, state = self.record, self._state
        cause = _requeue_cause(state, attempt, item)
        by_itself = attempt.end_cause == EndCause.NONE and item.cause == EndCause.NONE
        may_fail = attempt.end_cause == EndCause.NONE and not attempt.requeue
        if not cause and may_fail and tries_again(state, item, attempt):
            cause, place = EndCause.REQUEUE_PRE_EXEC, len(record.jobs)
            record.details.append((place, item.detail))
            record.avoided.append(place)
        if not cause and by_itself and not attempt.requeue:
            job = state.jobs[item.job]
            again = start_anew(state, job, item.index, attempt, item.exit_code)
            if again is not None:
                cause, place = EndCause.REQUEUE_EXIT, len(record.jobs)
                record.details.append((place, again.detail))
                if again.is_held:
                    record.held.append(place)
                if again.is_elsewhere:
                    record.elsewhere.append(place)
        if cause:
            record.jobs.append(item.job)
            record.indices.append(item.index)
            record.causes.append(int(cause))
            _note_used(record, attempt, item, self._begun, now_us)
        return bool(cause)


def _ended(
    state: ClusterState,
    host: HostNumber,
    items: tuple[AttemptEnded, ...],
    begun: dict[tuple[JobId, Index], Micros],
    now_us: Micros,
) -> list[Record]:
    ends, again = _Ends(state, begun), _Again(state, begun)
    failed: dict[tuple[JobId, Index], str] = {}
    for item in items:
        place = (item.job, item.index)
        attempt = _current(state, host, item.job, item.index, item.attempt)
        if attempt is None or place in ends.seen or place in failed:
            continue
        if item.host_fault and attempt.end_cause == EndCause.NONE:
            failed[place] = item.detail
            continue
        ends.seen.add(place)
        if not again.take(attempt, item, now_us):
            ends.add(host, attempt, item, now_us)
    records: list[Record] = []
    if ends.record.jobs:
        records.append(ends.record)
    if again.record.jobs:
        records.append(again.record)
    if failed:
        detail = next(iter(failed.values()))
        records.append(
            LaunchFailed(
                [job for job, _ in failed], [index for _, index in failed], [host] * len(failed),
                detail,
            )
        )  # fmt: skip
        failures = state.hosts.failures[host] + len(failed)
        if state.hosts.is_open[host] and failures >= state.config.start_failures_max:
            comment = f"closed after failed starts: {detail}"
            records.append(HostsOpened([host], False, comment))
    return records
