"""What may be allowed to a user: permissions by name, the roles that are built in, who asks."""

import enum
from typing import Final

import msgspec


class Permission(enum.StrEnum):
    """``resource:verb``; names in ``roles.yaml`` and in problem documents, never renamed."""

    CLUSTER_VIEW = "cluster:view"
    """See hosts and queues."""
    QUEUE_SUBMIT = "queue:submit"
    PROJECT_SUBMIT = "project:submit"
    """Submit jobs in a project; asked for as soon as ``roles.yaml`` names it somewhere."""
    QUEUE_OPEN = "queue:open"
    """Let it take new jobs."""
    QUEUE_CLOSE = "queue:close"
    QUEUE_ACTIVATE = "queue:activate"
    """Let its jobs start."""
    QUEUE_INACTIVATE = "queue:inactivate"
    JOB_VIEW = "job:view"
    """Know that a job exists: lists, details, why it waits, what happens to it."""
    JOB_OUTPUT = "job:output"
    """Read its script and what it writes."""
    JOB_ATTACH = "job:attach"
    """Be at the terminal of an interactive job."""
    JOB_KILL = "job:kill"
    JOB_SIGNAL = "job:signal"
    JOB_STOP = "job:stop"
    JOB_RESUME = "job:resume"
    JOB_MOVE = "job:move"
    """To the top or the bottom of its queue."""
    JOB_REQUEUE = "job:requeue"
    JOB_FORCE = "job:force"
    """Have a job start at once, out of its turn, where one says; its owner has it not for that."""
    JOB_MODIFY = "job:modify"
    """Switch it to another queue, change its limits and what it asks for. What runs, and which
    files it uses, is its owner's alone to change."""
    JOB_TRACE = "job:trace"
    """Have sessions tell what they decide about it, and read that."""
    HOST_OPEN = "host:open"
    HOST_CLOSE = "host:close"
    CONFIG_APPLY = "config:apply"
    """Put the configuration files in effect."""
    HOST_LOST = "host:lost"
    """Give up hosts that are away, and with them what ran there."""
    TOKEN_REVOKE = "token:revoke"
    """End other users' logins."""
    RBAC_VIEW = "rbac:view"
    """Ask what other users may do."""


PERMISSIONS: Final = tuple(str(item) for item in Permission)
NOT_BUILT: Final = frozenset(["app:use", "app:view", "project:view"])
"""Permissions of later releases; refused by name."""
EVERYONE: Final = (
    Permission.CLUSTER_VIEW.value, Permission.JOB_VIEW.value, Permission.QUEUE_SUBMIT.value
)  # fmt: skip
"""What every user may do who was identified, unless ``roles.yaml`` says otherwise."""
_VIEWER: Final = ("cluster:view", "job:view", "job:output", "rbac:view")
BUILT_IN_ROLES: Final[dict[str, tuple[str, ...]]] = {
    "viewer": _VIEWER,
    "operator": (
        *_VIEWER, "job:kill", "job:signal", "job:stop", "job:resume", "job:move",
        "job:requeue", "job:modify", "job:trace", "host:*", "queue:open", "queue:close",
        "queue:activate", "queue:inactivate",
    ),
    "admin": ("*",),
}  # fmt: skip


class Actor(msgspec.Struct, frozen=True):
    """Who asks, as far as permissions go."""

    user: str
    groups: tuple[str, ...] = ()
    is_admin: bool = False
    """Root, or the user who runs the cluster."""


def expand_permission(text: str) -> tuple[Permission, ...]:
    """Return what ``*``, ``job:*`` or ``job:kill`` stands for; nothing: there is no such one."""
    if text == "*":
        return tuple(Permission)
    resource, _, verb = text.partition(":")
    if verb == "*":
        return tuple(item for item in Permission if item.startswith(f"{resource}:"))
    return (Permission(text),) if text in PERMISSIONS else ()


class Denial(msgspec.Struct, frozen=True, array_like=True):
    """Something that a user was denied."""

    user: str
    """Empty: nobody was identified, or it is about several."""
    permission: str
    """The permission that was missing, or ``login``."""
    about: str
    origin: str
    count: int = 1
    first_at_us: int = 0
