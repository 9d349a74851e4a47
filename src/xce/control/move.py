"""`MoveJobs` to records: where a pending job stands in the order of its queue.

A job stands where its id says, or beside the place of another one at an offset. Moving it gives it
a place between two neighbours; nobody else's place changes.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from xce.control.selection import Selected
from xce.model.command import Accepted, MoveJobs
from xce.model.ids import JobId
from xce.model.permission import Actor, Permission
from xce.model.record import JobsMoved, Record
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.job import Job

_STEP: Final = 1 << 40
"""Between neighbours, so that forty times one can be put between two others."""
Place: TypeAlias = tuple[JobId, int]


def decide_move(
    state: ClusterState, command: MoveJobs, items: Sequence[Selected]
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return where jobs stand now, each moved as if the ones before had been moved already."""
    moved: dict[JobId, Place] = {}
    results: list[Accepted | Refusal] = []
    for item in items:
        job = state.jobs.get(item.job)
        if job is None or job.is_finished:
            text, lsf = f"job {item.job} has already finished", "Job has already finished"
            results.append(Refusal(RefusalCode.ALREADY_FINISHED, text, lsf=lsf, job=item.job))
            continue
        refusal = _refuse(state, command, job, item)
        if refusal is not None:
            results.append(refusal)
            continue
        line = _line(state, command, job, moved)
        at = min(command.position - 1, len(line))
        place = _between(line, at if command.to_top else len(line) - at, job)
        if place is None:
            text = f"there is no room left at this place for job {job.id}; move it to another one"
            results.append(Refusal(RefusalCode.WRONG_STATE, text, job=job.id))
            continue
        moved[job.id] = place
        results.append(Accepted(job.id, text="moved", number=at + 1))
    if not moved:
        return [], results
    places = list(moved.values())
    return [JobsMoved(list(moved), [at for at, _ in places], [off for _, off in places])], results


def _refuse(state: ClusterState, command: MoveJobs, job: Job, item: Selected) -> Refusal | None:
    queue = state.queues.get(state.key(job).queue)
    policy = (queue.policy if queue is not None else "") or state.config.policy
    if item.positions is not None:
        return Refusal(
            RefusalCode.NOT_BUILT,
            f"elements of job {job.id} cannot be moved apart from each other: name the job",
            job=job.id,
        )
    if not (job.pending or job.held):
        return Refusal(
            RefusalCode.WRONG_STATE,
            f"job {job.id} has started",
            lsf="Job has already started",
            job=job.id,
        )
    if policy == "fairshare" and (not command.to_top or command.position != 1):
        return Refusal(
            RefusalCode.WRONG_STATE,
            f"queue {state.key(job).queue} is ordered by shares: a job can only be moved to the "
            "top of its user's jobs",
            lsf="Can only move to top under FAIRSHARE or HOST PARTITION policy",
            job=job.id,
        )
    return None


def _line(
    state: ClusterState, command: MoveJobs, job: Job, moved: dict[JobId, Place]
) -> list[Place]:
    """Return the places of the other jobs among which a job is moved, in order."""
    key = state.key(job)
    queue = state.queues.get(key.queue)
    policy = (queue.policy if queue is not None else "") or state.config.policy
    # By shares only a user's own jobs stand in one line.
    actor = Actor(command.by, command.groups, command.is_admin)
    basis = state.rights.basis(actor, Permission.JOB_MOVE, queue=key.queue)
    is_own = not basis or policy == "fairshare"
    users = [key.user] if is_own else sorted(state.unfinished)
    places: list[Place] = []
    for user in users:
        for job_id in state.unfinished.get(user, ()):
            other = state.jobs[job_id]
            wanted = state.key(other)
            if job_id == job.id or not (other.pending or other.held):
                continue
            if (wanted.queue, wanted.priority) == (key.queue, key.priority):
                places.append(moved.get(job_id, other.place[:2]))
    return sorted(places)


def _between(line: list[Place], at: int, job: Job) -> Place | None:
    """Return a place behind the first ``at`` of ``line`` and before the others, or None."""
    if not line:
        return job.id, 0
    if at == len(line):
        beside, offset = line[-1]
        return beside, offset + _STEP
    beside, offset = line[at]
    if at == 0 or line[at - 1][0] != beside:
        return beside, offset - _STEP
    middle = (line[at - 1][1] + offset) // 2
    return (beside, middle) if line[at - 1][1] < middle < offset else None
