"""The record that lets ended elements pend again. Used by `xce.state.apply` only."""

from xce.model import record as r
from xce.model.ids import JobId
from xce.model.job import Outcome
from xce.state.cluster import ClusterState
from xce.state.deadline import await_deadlines
from xce.state.index import await_delay, demand, found_job
from xce.state.job import CHUNK, Ended, Job, Requeue
from xce.state.live import wait_again


def apply_reopened(state: ClusterState, record: r.Reopened) -> None:
    """Let elements that had ended pend again, or be held."""
    back: dict[JobId, None] = {}
    for job_id, index in zip(record.jobs, record.indices, strict=True):
        job = found_job(state, job_id)
        position = job.position(index)
        ended = job.ended_at(position) if position is not None else None
        demand(ended is not None, job, "opened again")
        assert ended is not None
        assert position is not None
        if job.is_finished:
            back[job_id] = None
            job.finished_at_us = 0
        _forget_end(job, position, ended)
        requeue = Requeue(
            record.cause, ended.attempt, ended.host, state.now_us, record.by,
            has_run=ended.started_at_us != 0,
        )  # fmt: skip
        wait_again(state, job, position, requeue, hold=record.hold)
    if back:
        _unfinish(state, back)


def _forget_end(job: Job, position: int, ended: Ended) -> None:
    if job.array is None:
        job.ended = None
    else:
        assert job.chunks is not None
        chunk = job.chunks[position // CHUNK]
        chunk.erase(position % CHUNK)
        if not chunk.count:
            del job.chunks[position // CHUNK]
            job.chunks = job.chunks or None
    if ended.outcome == Outcome.DONE:
        job.done -= 1
    else:
        job.exited -= 1
    for notes in (job.details, job.ended_by, job.post_stats):
        if notes is not None:
            notes.pop(position, None)
    job.attempts = job.attempts if job.attempts is not None else {}
    job.attempts[position] = ended.attempt


def _unfinish(state: ClusterState, back: dict[JobId, None]) -> None:
    """Put finished jobs back among the unfinished ones."""
    kept = [item for item in state.finished if item[1] not in back]
    state.finished.clear()
    state.finished.extend(kept)
    users: dict[str, None] = {}
    for job_id in back:
        job = state.jobs[job_id]
        state.unfinished.setdefault(job.owner.user, {})[job_id] = None
        users[job.owner.user] = None
        for host in job.retried:
            state.avoiders.setdefault(host, {})[job_id] = None
        await_delay(state, job)
        await_deadlines(state, job)
    for user in users:
        # Whoever reads it takes it for the order of submission.
        state.unfinished[user] = dict.fromkeys(sorted(state.unfinished[user]))
