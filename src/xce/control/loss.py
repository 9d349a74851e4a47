"""Hosts that are away: when their jobs are unknown, when they are given up, and what that means.

Time alone decides, from what the state knows: since when a host is away. A host that is given up
ends what it had: rerunnable elements pend again, others have ended. Whatever may still run there is
stale, and is ended before the host takes anything new (`xce.control.hosts.decide_join`).
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from xce.control.fates import bears_loss
from xce.model.host_record import HostsLeftOut, HostsLost, HostsOpened, HostsSilent, PartsLeft
from xce.model.ids import NO_HOST, HostNumber, JobId, Micros
from xce.model.job import ENDS_AS_DONE, EndCause, Outcome
from xce.model.record import EndDecided, Ended, Record, Requeued
from xce.model.units import render_span
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job

SLICE: Final = 10_000
"""About so many attempts are given up in one entry; the rest follows with the next tick."""
Place = tuple[JobId, int]


def decide_losses(state: ClusterState, now_us: Micros) -> list[Record]:
    """Return which hosts are away for too long now, and what that means for their attempts."""
    table, config = state.hosts, state.config
    if not table.away:
        return []
    silent: list[HostNumber] = []
    lost: list[HostNumber] = []
    attempts = 0
    for number in table.away:
        away_us = now_us - table.down_at_us[number]
        if away_us >= _grace_us(state, number) and attempts < SLICE:
            lost.append(number)
            attempts += len(state.on_host.get(number, ()))
        elif away_us >= config.silence_us and not table.is_silent[number]:
            silent.append(number)
    records: list[Record] = []
    if silent:
        records.append(HostsSilent(sorted(silent)))
    if lost:
        records.extend(give_up(state, sorted(lost), now_us))
    return records


def _grace_us(state: ClusterState, host: HostNumber) -> Micros:
    """Return how long a host may be away: not shorter than what was launched there was told."""
    grace_us = state.config.host_grace_us
    before_us, long_us = state.long_grace_us
    if long_us <= grace_us:
        return grace_us
    places = each_place(state, state.on_host.get(host, ()))
    is_old = any(attempt.placed_at_us <= before_us for _, _, attempt in places)
    return long_us if is_old else grace_us


def next_loss_us(state: ClusterState) -> Micros:
    """Return the next instant at which a host that is away becomes unknown or lost; 0: none."""
    table, config = state.hosts, state.config
    if not table.away:
        return 0
    return min(
        table.down_at_us[number]
        + (
            _grace_us(state, number)
            if table.is_silent[number]
            else min(config.silence_us, config.host_grace_us)
        )
        for number in table.away
    )


def give_up(
    state: ClusterState, hosts: list[HostNumber], now_us: Micros, *, by: str = ""
) -> list[Record]:
    """Return the records that give hosts up, and what becomes of their attempts.

    Args:
        state: The state.
        hosts: Hosts that are away.
        now_us: The present instant.
        by: The administrator who says so; empty: their grace is over.
    """
    table = state.hosts
    records: list[Record] = [HostsLost(hosts, [table.fences[number] + 1 for number in hosts], by)]
    for number in hosts:
        name = table.names[number]
        if by:
            detail = f"host {name} was declared lost by {by}"
        else:
            away_us = now_us - table.down_at_us[number]
            detail = f"host {name} was lost: it was away for {render_span(away_us)}"
        places = each_place(state, state.on_host.get(number, ()))
        records.extend(end_or_requeue(state, places, EndCause.HOST_LOST, now_us, detail))
    records.extend(end_parts(state, hosts, EndCause.HOST_LOST, now_us))
    if not by:
        records.extend(_quarantine(state, hosts, now_us))
    return records


def _quarantine(state: ClusterState, hosts: list[HostNumber], now_us: Micros) -> list[Record]:
    """Return the closing of hosts that were lost too often."""
    table, config = state.hosts, state.config
    records: list[Record] = []
    for number in hosts:
        horizon_us = now_us - config.losses_window_us
        losses = 1 + sum(at_us > horizon_us for at_us in table.losses_us[number])
        if losses >= config.losses_max and table.is_open[number]:
            comment = (
                f"quarantined: lost {losses} times within {render_span(config.losses_window_us)}"
            )
            records.append(HostsOpened([number], False, comment))
    return records


def each_place(state: ClusterState, places: Iterable[Place]) -> Iterator[tuple[Job, int, Attempt]]:
    """Yield the jobs, positions and attempts of live elements, in order."""
    for job_id, position in sorted(places):
        attempt = state.attempt(job_id, position)
        if attempt is not None:
            yield state.jobs[job_id], position, attempt


def end_or_requeue(
    state: ClusterState,
    places: Iterable[tuple[Job, int, Attempt]],
    cause: EndCause,
    now_us: Micros,
    detail: str = "",
) -> list[Record]:
    """Return what becomes of attempts of which nothing more will be heard.

    What was to be requeued is, whatever the reason; what was to end has ended; of the rest
    rerunnable elements pend again and others have ended for ``cause``.
    """
    ended = Ended([], [], [], [], [], [], [], [], [], [], [], [])
    again = Requeued([], [], [], [])
    for job, position, attempt in places:
        is_open = attempt.end_cause == EndCause.NONE
        if attempt.requeue or (is_open and state.spec_at(job, position).rerunnable):
            if is_open and detail:
                again.details.append((len(again.jobs), detail))
            again.jobs.append(job.id)
            again.indices.append(job.index(position))
            again.causes.append(attempt.end_cause or int(cause))
        else:
            if is_open and detail:
                ended.details.append((len(ended.jobs), detail))
            add_end(ended, job, position, attempt, cause, now_us)
    records: list[Record] = []
    if again.jobs:
        records.append(again)
    if ended.jobs:
        records.append(ended)
    return with_parts(state, records)


def with_parts(state: ClusterState, records: list[Record]) -> list[Record]:
    """Return ends that no first host has told, with what they leave on the attempts' other hosts.

    A host that is away tells when it comes back.
    """
    left = PartsLeft([], [], [], [])
    for record in records:
        if not isinstance(record, Ended | Requeued):
            continue
        for job_id, index in zip(record.jobs, record.indices, strict=True):
            position = state.jobs[job_id].position(index)
            attempt = state.attempt(job_id, position) if position is not None else None
            if attempt is None:
                continue
            for number in dict.fromkeys(attempt.hosts):
                if number != attempt.hosts[0] and state.hosts.is_up[number]:
                    left.hosts.append(number)
                    left.jobs.append(job_id)
                    left.indices.append(index)
                    left.attempts.append(attempt.number)
    return [*records, left] if left.hosts else records


def add_end(
    record: Ended, job: Job, position: int, attempt: Attempt, cause: EndCause, now_us: Micros
) -> None:
    """Add the end of an attempt of which nothing more will be heard."""
    record.jobs.append(job.id)
    record.indices.append(job.index(position))
    record.attempts.append(attempt.number)
    is_done = attempt.end_cause in ENDS_AS_DONE
    record.outcomes.append(int(Outcome.DONE if is_done else Outcome.EXIT))
    record.exit_codes.append(0)
    record.signals.append(0)
    record.causes.append(attempt.end_cause or int(cause))
    record.hosts.append(attempt.hosts[0] if attempt.hosts else NO_HOST)
    record.started_at_us.append(attempt.started_at_us)
    record.ended_at_us.append(max(now_us, attempt.started_at_us))
    record.cpu_us.append(0)
    record.max_mem_kib.append(0)


def end_parts(
    state: ClusterState, hosts: Collection[HostNumber], cause: EndCause, now_us: Micros
) -> list[Record]:
    """Return what becomes of attempts whose first host is there and another one is gone.

    They hold nothing there any more, so that what may still run there is stale when it comes back.
    Where the fates of those that it had there bear that they go on without it. The others are to
    end; they hold the rest until their first host says that nothing of them is left.
    """
    table = state.hosts
    gone = set(hosts)
    if all(table.attempts[number] <= len(state.on_host.get(number, ())) for number in gone):
        return []
    left = HostsLeftOut([], [], [], [])
    found: dict[bool, list[tuple[JobId, int]]] = {True: [], False: []}
    touched = (place for number, places in state.on_host.items() if number not in gone
               for place in places)  # fmt: skip
    for job, position, attempt in each_place(state, touched):
        lost = gone.intersection(attempt.hosts)
        if not lost:
            continue
        index = job.index(position)
        for host in sorted(lost):
            left.hosts.append(host)
            left.jobs.append(job.id)
            left.indices.append(index)
            left.attempts.append(attempt.number)
        if not (attempt.end_cause or bears_loss(state, job, position, lost)):
            found[state.spec_at(job, position).rerunnable].append((job.id, index))
    if not left.jobs:
        return []
    return [
        left,
        *(
            EndDecided(
                [job for job, _ in places], [index for _, index in places],
                [index for _, index in places], cause, "", False, now_us, requeue=requeue,
            )
            for requeue, places in found.items()
            if places
        ),
    ]  # fmt: skip
