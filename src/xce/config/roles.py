"""``roles.yaml``: roles, who has which, and where."""

from collections.abc import Iterable
from typing import Any, Final

from xce.config.document import Key, Place, Table, each_item, each_pair, read_mapping, scalar_text
from xce.config.names import QUEUE_NAME, USER_NAME
from xce.config.report import render_allowed
from xce.config.values import read_line, read_name
from xce.model.errors import TextError
from xce.model.permission import BUILT_IN_ROLES, NOT_BUILT, PERMISSIONS, expand_permission

ROLES_MAX: Final = 1_000
GRANTS_MAX: Final = 10_000
NAMES_MAX: Final = 10_000
GROUP_MAX: Final = 128


def read_permission(place: Place) -> str:
    """Read ``job:kill``, ``job:*`` or ``*``."""
    text = scalar_text(place)
    resource, _, verb = text.partition(":")
    is_later = verb == "*" and any(name.startswith(f"{resource}:") for name in NOT_BUILT)
    if text in NOT_BUILT or (is_later and not expand_permission(text)):
        raise TextError(f"{text!r} is not built yet in this release; remove it")
    if not expand_permission(text):
        every = sorted({f"{name.partition(':')[0]}:*" for name in PERMISSIONS})
        raise TextError(
            f"{text[:60]!r} is no permission; {render_allowed(text, ['*', *PERMISSIONS, *every])}"
        )
    return text


def _read_permissions(place: Place) -> tuple[str, ...]:
    found = []
    for item in each_item(place, "permissions"):
        try:
            found.append(read_permission(item))
        except TextError as error:
            item.problem(error.message)
    return tuple(dict.fromkeys(found))


def _read_names(place: Place, *, noun: str) -> tuple[str, ...]:
    """Read names of users or groups; a name may stand once."""
    found: dict[str, None] = {}
    for item in each_item(place, f"{noun}s"):
        try:
            name = scalar_text(item)
        except TextError as error:
            item.problem(error.message)
            continue
        bare = name.removeprefix("oidc:") if noun == "group" else name
        is_name = USER_NAME.fullmatch(name) if noun == "user" else _is_group(bare)
        if not is_name:
            item.problem(f"{name[:60]!r} is no name of a {noun}")
        elif name in found:
            item.problem(f"{noun} {name!r} stands twice")
        found[name] = None
        if len(found) > NAMES_MAX:
            place.problem(f"more than {NAMES_MAX} {noun}s in one grant")
            break
    return tuple(found)


def _is_group(text: str) -> bool:
    return 0 < len(text) <= GROUP_MAX and text.isprintable() and text.strip() == text


ROLE: Final = Table(
    noun="a role",
    keys={
        "name": Key("name", read_name(QUEUE_NAME, "a role", ())),
        "permissions": Key("permissions", _read_permissions),
    },
    required=("name", "permissions"),
)
GRANT: Final = Table(
    noun="a grant",
    keys={
        "role": Key("role", read_line(64)),
        "users": Key("users", lambda place: _read_names(place, noun="user")),
        "groups": Key("groups", lambda place: _read_names(place, noun="group")),
        "queue": Key("queue", read_line(64)),
        "project": Key("project", read_line(256)),
    },
    required=("role",),
)


def read_roles(place: Place | None, queues: Iterable[str]) -> dict[str, Any]:
    """Return the fields of the configuration that ``roles.yaml`` gives.

    Args:
        place: The top of the file; None: it is not there.
        queues: The queues that there are.
    """
    fields: dict[str, Any] = {}
    if place is None:
        return fields
    grants: Place | None = None
    for key, value in each_pair(place, "the keys of roles.yaml"):
        if key == "everyone":
            fields["everyone"] = _read_permissions(value)
        elif key == "roles":
            fields["roles"] = _read_roles(value)
        elif key == "grants":
            grants = value
        else:
            known = ("everyone", "roles", "grants")
            value.problem(f"roles.yaml has no key {key!r}; {render_allowed(key, known)}")
    if grants is not None:
        names = [*BUILT_IN_ROLES, *(role["name"] for role in fields.get("roles", ()))]
        fields["grants"] = _read_grants(grants, names, list(queues))
    return fields


def _read_roles(place: Place) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for item in each_item(place, "roles"):
        if len(found) >= ROLES_MAX:
            place.problem(f"more than {ROLES_MAX} roles")
            break
        role = read_mapping(item, ROLE)
        if "name" not in role or "permissions" not in role:
            continue
        if role["name"] in found:
            item.problem(f"role {role['name']!r} is defined twice")
        if role["name"] in BUILT_IN_ROLES:
            item.problem(f"role {role['name']!r} is built in; take another name")
        found[role["name"]] = role
    return list(found.values())


def _read_grants(place: Place, roles: list[str], queues: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for item in each_item(place, "grants"):
        if len(found) >= GRANTS_MAX:
            place.problem(f"more than {GRANTS_MAX} grants")
            break
        grant = read_mapping(item, GRANT)
        role, queue = grant.get("role"), grant.get("queue")
        if role is not None and role not in roles:
            item.problem(f"role {role!r} is not defined; {render_allowed(role, roles)}")
        if grant.get("project") == "":
            item.problem("has an empty project: name one, or leave the key out for all of them")
        if queue is not None and queue not in queues:
            item.problem(f"queue {queue!r} is not defined; {render_allowed(queue, queues)}")
        if not grant.get("users") and not grant.get("groups"):
            item.problem("is a grant to nobody: give users or groups")
        if role is not None:
            found.append(grant)
    return found
