"""What is not over at its deadline (``-t``): it ends, or never starts."""

from collections.abc import Iterable

from xce.control.selection import index_runs, waiting_positions
from xce.model.ids import Index, JobId, Micros
from xce.model.job import EndCause, Submission
from xce.model.ranges import Ranges, from_sorted
from xce.model.record import EndDecided, Record, Withdrawn
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.index import last_start_us
from xce.state.job import Job

Columns = tuple[list[JobId], list[Index], list[Index]]


def check_deadline(submission: Submission, now_us: Micros) -> Refusal | None:
    """Return why a job cannot have the deadline that it asks for; None: it can."""
    deadline_us = submission.spec.deadline_us
    if not deadline_us:
        return None
    if deadline_us <= now_us:
        text, lsf = "its deadline is over already", "Job termination time cannot be in the past"
    elif submission.begin_at_us >= deadline_us:
        text = "it may begin only when it has to be over"
        lsf = "Start time is later than termination time"
    elif now_us + submission.spec.run_limit_asked_us > deadline_us:
        text, lsf = "its run limit ends behind its deadline: give it less, or no -W", ""
    else:
        return None
    return Refusal(RefusalCode.BAD_REQUEST, text, lsf=lsf)


def is_late(state: ClusterState, job: Job, now_us: Micros) -> bool:
    """Return whether something of a job has to end now, or can be started no more."""
    deadline_us = state.spec(job).deadline_us
    if not deadline_us or last_start_us(state, job) > now_us:
        return False
    return bool(waiting_positions(job) or (deadline_us <= now_us and _open(job)))


def end_late(state: ClusterState, jobs: Iterable[JobId], now_us: Micros) -> list[Record]:
    """Return the end of what waits of late jobs, and of what lives where the deadline is over."""
    waiting: Columns = ([], [], [])
    live: Columns = ([], [], [])
    for job_id in jobs:
        job = state.jobs[job_id]
        _add(waiting, job, waiting_positions(job))
        if state.spec(job).deadline_us <= now_us:
            _add(live, job, _open(job))
    records: list[Record] = []
    if waiting[0]:
        records.append(Withdrawn(*waiting, EndCause.DEADLINE, "", now_us))
    if live[0]:
        records.append(EndDecided(*live, EndCause.DEADLINE, "", force=False, at_us=now_us))
    return records


def _add(columns: Columns, job: Job, positions: Ranges) -> None:
    for run in index_runs(job, positions):
        for column, value in zip(columns, (job.id, *run), strict=True):
            column.append(value)


def _open(job: Job) -> Ranges:
    """Return the live elements of which nobody has decided that they end for good."""
    live = job.live or {}
    is_open = (p for p in sorted(live) if not live[p].end_cause or live[p].requeue)
    return from_sorted(is_open)
