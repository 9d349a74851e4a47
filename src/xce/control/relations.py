"""What relations of a new job name outside of it: names to ids, groups to those of the owner."""

import msgspec

from xce.model.command import SubmitJobs
from xce.model.constraint import Constraint, Near
from xce.model.ids import JobId
from xce.model.refusal import Refusal, RefusalCode
from xce.model.request import Request
from xce.state.cluster import ClusterState
from xce.state.names import jobs_of


def resolve_relations(
    state: ClusterState, command: SubmitJobs, request: Request
) -> Request | Refusal:
    """Return a request whose constraints name jobs by id, and groups with their owner.

    A placement group belongs to its user: another user's group of the same name is another one. Of
    jobs the user's own ones may be named, by id or by name; a name means the newest.
    """
    if not request.constraints:
        return request
    found: list[Constraint] = []
    for constraint in request.constraints:
        if not isinstance(constraint, Near):
            found.append(constraint)
            continue
        kind, _, name = constraint.subject.partition(":")
        if kind == "group":
            # One that was resolved before stays as it is.
            subject = f"group:{name}" if "/" in name else f"group:{command.owner.user}/{name}"
        else:
            job = _job(state, command, name)
            if isinstance(job, Refusal):
                return job
            subject = f"job:{job}"
        found.append(msgspec.structs.replace(constraint, subject=subject))
    return msgspec.structs.replace(request, constraints=tuple(found))


def _job(state: ClusterState, command: SubmitJobs, name: str) -> JobId | Refusal:
    if not name.isdigit():
        known = state.names.get(command.owner.user, {}).get(name)
        if known is None:
            return Refusal(
                RefusalCode.UNKNOWN_JOB,
                f"a relation names job {name!r}, and {command.owner.user} has no job of that name",
            )
        return max(jobs_of(known))
    job = state.jobs.get(int(name))
    if job is None:
        return Refusal(
            RefusalCode.UNKNOWN_JOB, f"a relation names job {name}, which is not known here"
        )
    if job.owner.user != command.owner.user and not command.is_admin:
        return Refusal(
            RefusalCode.NOT_YOURS,
            f"a relation names job {name}, which is not of {command.owner.user}",
        )
    return job.id
