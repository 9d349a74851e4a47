"""The short way to withdraw jobs of which nothing was ever said but that they pend.

By far the most frequent of those that are withdrawn, and a command may be about a million of them.
It leaves the state as the general way does (tested).
"""

from collections.abc import Iterator

from xce.model.ids import JobId, Micros
from xce.model.ranges import EMPTY, ZERO, Ranges
from xce.model.record import Withdrawn
from xce.state.cluster import ClusterState, RequestClass
from xce.state.index import each_run, found_job
from xce.state.ineligible import leave
from xce.state.job import Job, Withdrawal


def end_untouched(
    state: ClusterState, record: Withdrawn, said: tuple[Withdrawal, ...]
) -> Iterator[tuple[Job, Ranges]]:
    """End the jobs of a record that are such; yield each other one, with its positions, in turn.

    Who stands in the ``waiting`` of its class waits for nothing but room: no instant, no other job.

    Args:
        state: The state.
        record: What is withdrawn.
        said: What is kept of it with each job.
    """
    if state.holds:
        yield from each_run(state, record)
        return
    jobs, reservations = state.jobs, state.reservations
    finished, seq, shut = state.finished, state.seq, state.shut
    found: RequestClass | None = None
    waiting: dict[JobId, None] = {}
    unfinished: dict[JobId, None] = {}
    ended, at_us = 0, _first_instant(state, record.at_us)
    for job_id, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
        job = jobs.get(job_id) or found_job(state, job_id)
        if found is None or job.cls != found.cls:
            _settle(state, found, ended)
            ended = 0
            found = state.classes[job.cls]
            waiting, unfinished = found.waiting, state.unfinished.get(job.owner.user, {})
        if job_id not in waiting or job.array is not None or job.avoid or job_id in reservations:
            _settle(state, found, ended)
            ended = 0
            yield job, ZERO if job.array is None else job.positions(first, last)
            at_us = _first_instant(state, record.at_us)
            continue
        del waiting[job_id], unfinished[job_id]
        ended += 1
        if shut:
            leave(state, job, ZERO)
        job.pending = EMPTY
        job.withdrawn = said
        job.exited += 1
        job.revision += 1
        job.waiting_since_us = 0
        if at_us < job.submit_at_us:  # noqa: PLR1730 - a call costs a tenth of it all
            at_us = job.submit_at_us
        job.finished_at_us = at_us
        finished.append((at_us, job_id, seq))
    _settle(state, found, ended)


def _first_instant(state: ClusterState, at_us: Micros) -> Micros:
    """Return when a job may have ended: those that are over stand in the order of their ends."""
    finished = state.finished
    return max(at_us, 1, finished[-1][0] if finished else 0)


def _settle(state: ClusterState, found: RequestClass | None, ended: int) -> None:
    """Note of a class, and of its owner, that so many of its jobs have ended."""
    if found is None or not ended:
        return
    found.pending -= ended
    if not found.has_waiting:
        del state.waiting[found.cls]
    user = found.key.user
    if not state.unfinished[user]:
        del state.unfinished[user]
