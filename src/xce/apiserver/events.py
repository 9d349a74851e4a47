"""What watchers are told: records as events about runs of elements."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from xce.model import host_record as h
from xce.model import record as r
from xce.model.entry import Entry
from xce.model.ids import HostNumber, Index, JobId, Micros, Seq
from xce.model.job import Outcome
from xce.model.ranges import contains
from xce.state.cluster import ClusterState
from xce.state.view import stat_of


class JobEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Elements of a job came into a state."""

    seq: int
    at: float
    jobid: int
    index: int
    """0: the job is no array."""
    stat: str
    user: str
    last: int = 0
    """Of a run of elements: the last index."""
    ending: bool = False
    exit_code: int = 0
    host: str = ""


_STAT = {
    r.Unheld: "PEND",
    r.Held: "PSUSP",
    r.Withdrawn: "EXIT",
    r.BulkPlaced: "RUN",
}
"""Of records that name runs."""


def render_events(state: ClusterState, entries: Sequence[Entry]) -> list[JobEvent]:
    """Return what entries, which were applied to ``state``, tell about jobs."""
    found: list[JobEvent] = []
    for entry in entries:
        for record in entry.records:
            for job_id, first, last, stat, more in _changes(state, record):
                job = state.jobs.get(job_id)
                if job is not None:
                    found.append(
                        _event(entry.seq, entry.at_us, job.owner.user,
                               (job_id, first, last, stat), more)
                    )  # fmt: skip
    return found


def _event(
    seq: Seq,
    at_us: Micros,
    user: str,
    what: tuple[JobId, Index, Index, str],
    more: dict[str, Any],
) -> JobEvent:
    job_id, first, last, stat = what
    return JobEvent(
        seq=seq,
        at=at_us / 1_000_000,
        jobid=job_id,
        index=first,
        stat=stat,
        user=user,
        last=last if last != first else 0,
        **more,
    )


_Change = tuple[JobId, Index, Index, str, dict[str, Any]]


def _changes(state: ClusterState, record: r.Record) -> Iterator[_Change]:
    match record:
        case r.JobSubmitted():
            yield _submitted(record)
        case r.Held() | r.Unheld() | r.Withdrawn() | r.BulkPlaced():
            stat = _STAT[type(record)]
            for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
                yield job, first, last, stat, {}
        case r.EndDecided():
            for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
                yield job, first, last, "RUN", {"ending": True}
        case r.Ended():
            yield from _ended(state, record)
        case _:
            yield from _single_changes(state, record)


def _single_changes(state: ClusterState, record: r.Record) -> Iterator[_Change]:
    """Yield the changes of records that name elements one by one."""
    match record:
        case r.GangPlaced():
            host = state.hosts.names[record.hosts[0]]
            yield record.job, record.index, record.index, "RUN", {"host": host}
        case r.Started():
            for job, index in zip(record.jobs, record.indices, strict=True):
                yield job, index, index, "RUN", {}
        case r.SuspensionDone():
            for job, index in zip(record.jobs, record.indices, strict=True):
                stat = _stopped_word(state, job, index) if record.suspended else "RUN"
                yield job, index, index, stat, {}
        case r.LaunchFailed() | r.Requeued() | r.Reopened():
            for job, index in zip(record.jobs, record.indices, strict=True):
                yield job, index, index, _waiting_word(state, job, index), {}
        case _:
            yield from _host_changes(state, record)


def _host_changes(state: ClusterState, record: r.Record) -> Iterator[_Change]:
    """Yield the changes of records that name hosts."""
    match record:
        case h.HostsSilent():
            for number in record.hosts:
                yield from _on_host(state, number)
        case h.HostDown() | h.HostUp():
            yield from _on_host(state, record.host)
        case h.HostsLeftOut():
            for job, index in zip(record.jobs, record.indices, strict=True):
                yield job, index, index, _live_word(state, job, index), {}
        case _:
            return


def _waiting_word(state: ClusterState, job_id: JobId, index: Index) -> str:
    """Return the STAT word of an element that pends again, unless that is over already."""
    job = state.jobs.get(job_id)
    position = job.position(index) if job is not None else None
    is_held = job is not None and position is not None and contains(job.held, position, position)
    return "PSUSP" if is_held else "PEND"


def _on_host(state: ClusterState, host: HostNumber) -> Iterator[_Change]:
    """Yield how the attempts of a host are that went away or came back."""
    for job_id, position in state.on_host.get(host, ()):
        job = state.jobs[job_id]
        index = job.index(position)
        yield job_id, index, index, stat_of(state, job, position), {}


def _live_word(state: ClusterState, job_id: JobId, index: Index) -> str:
    """Return the STAT word of an element that has an attempt."""
    job = state.jobs.get(job_id)
    position = job.position(index) if job is not None else None
    return stat_of(state, job, position) if job is not None and position is not None else "RUN"


def _stopped_word(state: ClusterState, job_id: JobId, index: Index) -> str:
    """Return the STAT word of an attempt that was suspended."""
    attempt = state.attempt_of(job_id, index)
    return "SSUSP" if attempt is not None and attempt.is_stopped_by_system else "USUSP"


def _submitted(record: r.JobSubmitted) -> _Change:
    stat = "PSUSP" if record.hold else "PEND"
    if record.array is None:
        return record.job, 0, 0, stat, {}
    runs = record.array.runs
    return record.job, runs[0][0], runs[-1][1], stat, {}


def _ended(state: ClusterState, record: r.Ended) -> Iterator[_Change]:
    names = state.hosts.names
    rows = zip(
        record.jobs,
        record.indices,
        record.outcomes,
        record.exit_codes,
        record.hosts,
        strict=True,
    )
    for job, index, outcome, exit_code, host in rows:
        stat = "DONE" if outcome == Outcome.DONE else "EXIT"
        more = {"exit_code": exit_code, "host": names[host] if host >= 0 else ""}
        yield job, index, index, stat, more
