"""Which jobs a command is about: named ones with their refusals, or all that match."""

import msgspec

from xce.control.dependency import matches
from xce.model.command import Selection
from xce.model.ids import Index, JobId
from xce.model.ranges import Ranges, unite
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.job import Job


class Selected(msgspec.Struct, frozen=True):
    """One job that a command is about."""

    job: JobId
    positions: Ranges | None
    """None: the whole job."""
    first: Index = -1
    last: Index = -1
    """The index run as asked for; -1: the whole job."""


def select(
    state: ClusterState,
    selection: Selection,
    *,
    by: str,
    is_admin: bool,
    with_finished: bool = False,
) -> list[Selected | Refusal]:
    """Return what a selection names, in the order asked for, else in order of submission.

    A job that does not exist, has ended (unless ``with_finished``) or is somebody else's is a
    refusal when it was named; when it only matched a filter it is left out.
    """
    if not selection.jobs:
        matching = _matching(state, selection, by, is_admin=is_admin, with_finished=with_finished)
        found = [Selected(job.id, None) for job in matching]
        if selection.newest:
            found = found[-1:]
        return list(found) or [
            Refusal(RefusalCode.UNKNOWN_JOB, "no job matches", lsf="No matching job found")
        ]
    results: list[Selected | Refusal] = []
    for job_id, runs in selection.jobs:
        job = state.jobs.get(job_id)
        refusal = _refuse(job, job_id, by, is_admin=is_admin, with_finished=with_finished)
        if refusal is not None or job is None:
            results.append(refusal or _unknown(job_id))
        elif not runs:
            results.append(Selected(job_id, None))
        else:
            results.extend(_element_run(job, first, last) for first, last in runs)
    return results


def _unknown(job_id: JobId) -> Refusal:
    return Refusal(
        RefusalCode.UNKNOWN_JOB,
        f"no job has the id {job_id}",
        lsf="No matching job found",
        job=job_id,
    )


def _refuse(
    job: Job | None, job_id: JobId, by: str, *, is_admin: bool, with_finished: bool
) -> Refusal | None:
    if job is None:
        return _unknown(job_id)
    if job.owner.user != by and not is_admin:
        return Refusal(
            RefusalCode.NOT_YOURS,
            f"job {job_id} belongs to {job.owner.user}",
            lsf="User permission denied",
            job=job_id,
        )
    if job.is_finished and not with_finished:
        return Refusal(
            RefusalCode.ALREADY_FINISHED,
            f"job {job_id} has already finished",
            lsf="Job has already finished",
            job=job_id,
        )
    return None


def _element_run(job: Job, first: Index, last: Index) -> Selected | Refusal:
    positions = job.positions(first, last)
    if not positions:
        text = f"job {job.id} has no element {first}" + (f"-{last}" if last != first else "")
        return Refusal(
            RefusalCode.UNKNOWN_JOB,
            text,
            lsf="No matching job found",
            job=job.id,
            first=first,
            last=last,
        )
    return Selected(job.id, positions, first, last)


def _matching(
    state: ClusterState,
    selection: Selection,
    by: str,
    *,
    is_admin: bool,
    with_finished: bool,
) -> list[Job]:
    """Return the jobs that match every filter and that ``by`` may touch."""
    users = [selection.user] if selection.user else sorted(state.names)
    if not is_admin:
        users = [user for user in users if user == by]
    if with_finished:
        ids = sorted(
            job for user in users for named in state.names.get(user, {}).values() for job in named
        )
    else:
        ids = [job for user in users for job in state.unfinished.get(user, ())]
    jobs = [state.jobs[job] for job in ids]
    if selection.host:
        number = state.hosts.number.get(selection.host)
        there = {job for job, _ in state.on_host.get(number, ())} if number is not None else set()
        jobs = [job for job in jobs if job.id in there]
    if selection.queue:
        jobs = [job for job in jobs if state.key(job).queue == selection.queue]
    if selection.name:
        jobs = [job for job in jobs if matches(state.spec(job).name, selection.name)]
    return sorted(jobs, key=lambda job: job.id) if len(users) > 1 else jobs


def live_positions(job: Job, positions: Ranges | None) -> list[int]:
    """Return the positions of the live attempts that are meant, in rising order."""
    live = job.live or {}
    if positions is None:
        return sorted(live)
    return sorted(p for p in live if any(first <= p <= last for first, last in positions))


def index_runs(job: Job, positions: Ranges) -> list[tuple[Index, Index]]:
    """Return runs of positions as runs of indices."""
    return [(job.index(first), job.index(last)) for first, last in positions]


def whole(job: Job) -> Ranges:
    """Return all positions of ``job``."""
    return ((0, job.size - 1),)


def waiting_positions(job: Job) -> Ranges:
    """Return the positions that pend or are held."""
    return unite(job.pending, job.held)
