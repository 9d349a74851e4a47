"""What a jobspec may say and this release does not do yet: one table, from which rows go."""

from collections.abc import Callable
from typing import Final, NamedTuple

from xce.jobspec.document import Spec
from xce.model.relation import LIFECYCLE, LaunchType, Role


class RoleRow(NamedTuple):
    """Something of roles that is refused by name."""

    what: str
    is_asked: Callable[[Role], bool]


KINDS: Final = LIFECYCLE
"""Kinds of relations that nobody enforces yet."""
ROLES: Final = (
    RoleRow("an attached role", lambda role: bool(role.attach)),
    RoleRow("env of a role", lambda role: bool(role.env)),
    RoleRow("cwd of a role", lambda role: bool(role.cwd)),
    RoleRow("a readiness probe", lambda role: role.ready is not None),
)
HAS_ROLE_COMMANDS: Final = False
"""Whether roles run commands of their own, beside the one that is the job's."""


def find_unbuilt(spec: Spec) -> tuple[str, str]:
    """Return what a jobspec says that is not built yet, and where; two empty texts: nothing."""
    for number, relation in enumerate(spec.relations):
        if relation.kind in KINDS:
            return f"a relation of kind {relation.kind.value}", spec.relation_place(number).key
    launches = [role.launch for role in spec.roles]
    if len(set(launches)) > 1:
        number = next(n for n, kind in enumerate(launches) if kind is not LaunchType.SCRIPT)
        return "a launch type that the other roles have not", spec.role_place(number).key
    for number, role in enumerate(spec.roles):
        for row in ROLES:
            if row.is_asked(role):
                return row.what, spec.role_place(number).key
        if role.command and not HAS_ROLE_COMMANDS and (number or "command" in spec.fields):
            return "a command of its own for a role", spec.role_place(number).key
    return "", ""
