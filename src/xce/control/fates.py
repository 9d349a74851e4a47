"""Which jobs go on when they lose a host: those whose fates bear the end of what they had there.

What ends there is known to the step that runs on the job's first host (decision 0017). Here only
the allocation is decided on, by roles: none is done without of which a failure ends the job.
"""

from collections.abc import Collection

from xce.model.ids import HostNumber
from xce.model.job import JobSpec, Phase
from xce.model.relation import RelationKind
from xce.state.cluster import ClusterState
from xce.state.job import Job


def tolerated_roles(spec: JobSpec) -> frozenset[str]:
    """Return the roles of which a task that has failed for good does not end the job."""
    fates = [one for one in spec.relations if one.kind is RelationKind.FATE]
    beside = [one for one in spec.relations if one.kind is RelationKind.SIDECAR_OF]
    found = {name for relation in beside for name in relation.source}
    for relation in fates:
        if relation.param("policy") == "tolerate":
            found.update(relation.subjects)
        else:
            found.difference_update(relation.subjects)
    return frozenset(found)


def bears_loss(state: ClusterState, job: Job, position: int, lost: Collection[HostNumber]) -> bool:
    """Return whether a live element goes on without hosts of which none is its first.

    Not before it runs: until then all of it starts, or nothing.
    """
    spec, attempt = state.spec_at(job, position), state.attempt(job.id, position)
    if attempt is None or not spec.runs_by_roles or attempt.phase != Phase.RUNNING:
        return False
    parts = state.classes[attempt.cls].forms[attempt.alternative].request.parts
    first = next((role.name for role in spec.roles if not role.attach), "")
    there = {
        parts[attempt.parts[place]].name if parts and attempt.parts else first
        for place, host in enumerate(attempt.hosts)
        if host in lost
    }
    there |= {role.name for role in spec.roles if not there.isdisjoint(role.attach)}
    return there <= tolerated_roles(spec)
