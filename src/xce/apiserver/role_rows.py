"""Rows about roles: where each of a job's is, and how its relations hold there."""

from itertools import accumulate

import msgspec

from xce.model.constraint import Near
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job
from xce.state.needs import forms_of


class RoleRow(msgspec.Struct, frozen=True):
    """What one role has."""

    role: str
    hosts: tuple[tuple[str, int], ...]
    """In rank order, each with its tasks."""
    ranks: tuple[int, ...]
    """The first rank on each of these hosts."""


class ProofRow(msgspec.Struct, frozen=True):
    """How a relation holds of a placement."""

    relation: int
    """Its number in the jobspec, from 1."""
    kind: str
    """``colocate``, ``spread``, ``near``, ``apart`` (in no domain of a job or group outside) or
    ``exclusive``: what the relation asks of placement."""
    level: str
    domains: tuple[str, ...]
    tasks: int
    """Of a spread: tasks in the fullest domain."""
    met: bool
    """False: it is only preferred, and could not be met."""
    topology: int
    """The version of the configuration in which hosts lay in these domains."""


def role_rows(state: ClusterState, job: Job, attempt: Attempt) -> tuple[RoleRow, ...]:
    """Return where each role of an attempt is; nothing for a job without named roles."""
    names = _names(state, job, attempt)
    if not names:
        return ()
    parts = attempt.parts or [0] * len(attempt.hosts)
    found: list[tuple[list[tuple[str, int]], list[int]]] = [([], []) for _ in names]
    ranks = attempt.ranks or [0, *accumulate(attempt.tasks)][:-1]
    for number, size, part, rank in zip(attempt.hosts, attempt.tasks, parts, ranks, strict=True):
        found[part][0].append((state.hosts.names[number], size))
        found[part][1].append(rank)
    return tuple(
        RoleRow(name, tuple(placed), tuple(firsts))
        for name, (placed, firsts) in zip(names, found, strict=True)
    )


def _names(state: ClusterState, job: Job, attempt: Attempt) -> list[str]:
    form = forms_of(state.classes[attempt.cls].key.request)[attempt.alternative]
    if form.parts:
        return [part.name for part in form.parts]
    return [role.name for role in state.spec(job).roles if not role.attach]


def proof_rows(state: ClusterState, attempt: Attempt) -> tuple[ProofRow, ...]:
    """Return the certificate of an attempt as rows."""
    if not attempt.proofs:
        return ()
    form = forms_of(state.classes[attempt.cls].key.request)[attempt.alternative]
    apart = {one.relation for one in form.constraints if isinstance(one, Near) and one.is_apart}
    return tuple(
        ProofRow(
            proof.relation + 1,
            "apart" if proof.kind == "near" and proof.relation in apart else proof.kind,
            proof.level, proof.domains, proof.tasks, proof.is_met, attempt.topology,
        )
        for proof in attempt.proofs
    )  # fmt: skip
