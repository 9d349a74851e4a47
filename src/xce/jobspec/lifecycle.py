"""Do the commands of roles and the relations of their lives make sense? What does not is named."""

from collections.abc import Iterator
from typing import Final

from xce.jobspec.document import Spec
from xce.jobspec.validate import title
from xce.model.relation import LIFECYCLE, Relation, RelationKind

TOLERATE: Final = "tolerate"
RESTART_MEMBER: Final = "restart-member"
FAIL_TOGETHER: Final = "fail-together"


def check_lifecycle(spec: Spec) -> None:
    """Report everything about roles that run commands of their own that can never hold."""
    for number, relation in enumerate(spec.relations):
        if relation.kind in LIFECYCLE and not spec.roles:
            spec.relation_place(number).problem(
                f"{title(number, relation)} needs roles: give them under 'roles'"
            )
    if not spec.runs_by_roles:
        return
    _check_commands(spec)
    _check_places(spec)
    _check_fates(spec)
    _check_waits(spec)


def _of_kind(spec: Spec, kind: RelationKind) -> Iterator[tuple[int, Relation]]:
    for number, relation in enumerate(spec.relations):
        if relation.kind is kind:
            yield number, relation


def _sources(spec: Spec, kind: RelationKind) -> dict[str, int]:
    """Return the roles from which relations of a kind go, with the number of the first."""
    found: dict[str, int] = {}
    for number, relation in _of_kind(spec, kind):
        for name in relation.source:
            found.setdefault(name, number)
    return found


def _check_commands(spec: Spec) -> None:
    """Report a role without anything to run."""
    if not {"command", "script"}.isdisjoint(spec.fields):
        return
    for number, role in enumerate(spec.roles):
        if not role.command:
            spec.role_place(number).problem(
                f"role {role.name!r} has no command, and the job has none for it to run"
            )


def _check_places(spec: Spec) -> None:
    """Report roles that would be two things at once, and a job of which nothing is left."""
    sidecars = _sources(spec, RelationKind.SIDECAR_OF)
    inits = _sources(spec, RelationKind.INIT_OF)
    for number, relation in _of_kind(spec, RelationKind.SIDECAR_OF):
        place = spec.relation_place(number)
        for name in relation.target:
            if name in sidecars:
                place.problem(
                    f"{title(number, relation)} makes a sidecar of {name!r}, which is a sidecar "
                    f"itself by relation {sidecars[name] + 1}"
                )
        for name in relation.source:
            if name in inits:
                place.problem(
                    f"{title(number, relation)} wants {name!r} to end behind its parents, and "
                    f"relation {inits[name] + 1} (init-of) before them: they contradict each other"
                )
            if sidecars[name] != number:
                place.problem(
                    f"{title(number, relation)}: {name!r} is a sidecar by relation "
                    f"{sidecars[name] + 1} already; name all its parents there"
                )
        if relation.param("restart") == "never" and relation.param("restarts_max"):
            place.problem(f"{title(number, relation)} never restarts, so it has no restarts_max")
    if all(role.name in sidecars or role.name in inits for role in spec.roles):
        spec.role_place(0).problem(
            "every role is the init or the sidecar of another: nothing is left whose end is the "
            "job's"
        )
    for number, role in enumerate(spec.roles):
        if role.ready is not None and role.name in inits:
            spec.role_place(number).problem(
                f"role {role.name!r} has a readiness probe, and relation {inits[role.name] + 1} "
                "(init-of) waits for its end"
            )


def _check_fates(spec: Spec) -> None:
    """Report fates that contradict each other."""
    seen: dict[str, int] = {}
    inits = _sources(spec, RelationKind.INIT_OF)
    for number, relation in _of_kind(spec, RelationKind.FATE):
        place = spec.relation_place(number)
        policy = relation.param("policy", FAIL_TOGETHER)
        for key in ("restarts_max", "back_off"):
            if policy != RESTART_MEMBER and relation.param(key):
                place.problem(f"{title(number, relation)}: only {RESTART_MEMBER} has a {key}")
        for name in relation.subjects:
            if name in seen:
                place.problem(
                    f"{title(number, relation)} and relation {seen[name] + 1} give {name!r} two "
                    "fates"
                )
            seen.setdefault(name, number)
            if policy == TOLERATE and name in inits:
                place.problem(
                    f"{title(number, relation)} tolerates that {name!r} fails, and relation "
                    f"{inits[name] + 1} (init-of) needs its success: they contradict each other"
                )


def _check_waits(spec: Spec) -> None:
    """Report waits for what never comes."""
    sidecars = _sources(spec, RelationKind.SIDECAR_OF)
    inits = _sources(spec, RelationKind.INIT_OF)
    for number, relation in _of_kind(spec, RelationKind.AFTER):
        for name in relation.target:
            if name in sidecars:
                spec.relation_place(number).problem(
                    f"{title(number, relation)} waits for the end of {name!r}, which relation "
                    f"{sidecars[name] + 1} (sidecar-of) puts behind its parents'"
                )
    for number, relation in _of_kind(spec, RelationKind.READY_AFTER):
        for name in relation.target:
            if name in inits:
                spec.relation_place(number).problem(
                    f"{title(number, relation)} waits until {name!r} is ready, which runs to its "
                    f"end by relation {inits[name] + 1} (init-of); use kind: after"
                )
