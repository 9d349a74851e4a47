"""Requests for checkpoints, and what hosts say became of them."""

from collections.abc import Sequence
from typing import Final

from xce.control.kill import Fresh, Runs, each_meant
from xce.control.selection import Selected
from xce.control.slices import Results
from xce.model.command import Accepted, SignalJobs
from xce.model.host_record import CheckpointsSeen
from xce.model.ids import Index, JobId
from xce.model.job import Phase
from xce.model.observation import CheckpointSeen
from xce.model.ranges import Ranges, positions
from xce.model.record import Record, SignalAsked
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job

_FAULT_MAX: Final = 512
_UNKNOWN: Final = "nobody knows why"


def decide_checkpoint(
    state: ClusterState, command: SignalJobs, items: Sequence[Selected]
) -> tuple[list[Record], Results]:
    """Return the requests for checkpoints of attempts that run."""
    results: Results = []
    asked, fresh = Runs(), Fresh()
    for item, job, _, live in each_meant(state, items, results):
        text, lsf = _why_not(state, job, live)
        if text:
            refusal = Refusal(
                RefusalCode.WRONG_STATE, text, lsf=lsf, job=job.id, first=item.first, last=item.last
            )
            results.append(refusal)
            continue
        asked.add(job, fresh.take(job, live))
        results.append(Accepted(item.job, item.first, item.last, "checkpointed"))
    if not asked.jobs:
        return [], results
    return [SignalAsked(asked.jobs, asked.firsts, asked.lasts, command.signal, command.by)], results


def _why_not(state: ClusterState, job: Job, live: Ranges) -> tuple[str, str]:
    """Return why no checkpoint can be written now, in our words and LSF's; empty: it can."""
    specs = [state.spec_at(job, place) for place in positions(live)] or [state.spec(job)]
    if any(spec.checkpoints is None for spec in specs):
        return f"job {job.id} was submitted without -k", "Job is not checkpointable"
    attempts = [job.live[place] for place in positions(live)] if job.live else []
    if not attempts or any(attempt.phase != Phase.RUNNING for attempt in attempts):
        return f"job {job.id} does not run yet", "Job has not started yet"
    if any(attempt.suspended or attempt.shall_stop for attempt in attempts):
        return f"job {job.id} is suspended: what is stopped writes no checkpoint", ""
    return "", ""


def seen_checkpoints(
    items: Sequence[tuple[CheckpointSeen, Attempt | None]],
) -> list[Record]:
    """Return what is new of what a host says.

    Args:
        items: What it says, each with the live attempt that it is about; None: it is old news.
    """
    newest: dict[tuple[JobId, Index], int] = {}
    record = CheckpointsSeen([], [], [], [])
    for item, attempt in items:
        place = item.job, item.index
        if attempt is None or item.number <= newest.get(place, attempt.checkpoints):
            continue
        newest[place] = item.number
        record.jobs.append(item.job)
        record.indices.append(item.index)
        record.numbers.append(item.number)
        record.faults.append("" if item.is_good else item.detail[:_FAULT_MAX] or _UNKNOWN)
    return [record] if record.jobs else []
