"""Where the jobs and groups are that relations of waiting jobs name."""

from collections.abc import Iterator, Mapping

import numpy as np

from xce.model.constraint import Near
from xce.model.ids import HostNumber
from xce.model.request import Request
from xce.state.cluster import ClusterState
from xce.state.hosts import Column


def near_constraints(request: Request) -> Iterator[Near]:
    """Yield what relations of a request ask of jobs and groups outside."""
    for constraint in request.constraints:
        if isinstance(constraint, Near):
            yield constraint


def hosts_of_subjects(state: ClusterState) -> dict[str, Column]:
    """Return the hosts of each job and group that relations of waiting classes name.

    A job that waits itself has none; one that is over, and a group without members, is left out.
    """
    found: dict[str, Column] = {}
    requests = [waiting.key.request for waiting in state.waiting.values()]
    for request in [request for request in requests if request.constraints]:
        for near in near_constraints(request):
            if near.subject not in found:
                numbers = _hosts_of(state, near.subject)
                if numbers is not None:
                    found[near.subject] = numbers
    return found


def _hosts_of(state: ClusterState, subject: str) -> Column | None:
    kind, _, name = subject.partition(":")
    hosts: list[HostNumber] = []
    if kind == "group":
        for owner, position in state.members.get(subject, ()):
            attempt = state.attempt(owner, position)
            # In a sketch of what could be, attempts end that the index still knows.
            hosts += attempt.hosts if attempt is not None else []
        return np.unique(np.asarray(hosts, np.int64)) if hosts else None
    job = state.jobs.get(int(name))
    if job is None or job.is_finished:
        return None
    live = job.live or {}
    for attempt in live.values():
        hosts += attempt.hosts
    return np.unique(np.asarray(hosts, np.int64))


def waited_for(request: Request, where: Mapping[str, Column]) -> str:
    """Return a job that a request must be near to and that has no hosts yet; empty: none."""
    for near in near_constraints(request):
        numbers = where.get(near.subject)
        if near.required and not near.is_apart and numbers is not None and not len(numbers):
            return near.subject
    return ""
