"""``-G``: the group of a queue's shares that a user asks to be counted in."""

from collections.abc import Sequence

from xce.model.config import QueueConfig, ShareConfig
from xce.model.refusal import Refusal, RefusalCode


def check_user_group(queue: QueueConfig, user: str, group: str) -> Refusal | None:
    """Return why a user cannot be counted in a group of a queue; None: there he is counted.

    Shares are a tree in which a user stands once: whoever names a group he is in changes nothing,
    and whoever names another one is told so.
    """
    if not group:
        return None
    path = _path_of(queue.fairshare, user)
    if path is None:
        path = _path_of(queue.fairshare, "default") or ()
    if group in path:
        return None
    if not _has_group(queue.fairshare, group):
        return Refusal(
            RefusalCode.BAD_REQUEST,
            f"-G {group}: the shares of queue {queue.name} have no such group",
            lsf="Bad user group name",
        )
    where = " in ".join(reversed(path)) or "no group"
    return Refusal(
        RefusalCode.DENIED,
        f"-G {group}: in queue {queue.name} user {user} is counted in {where}",
        lsf="User not in the specified user group",
    )


def _path_of(nodes: Sequence[ShareConfig], user: str) -> tuple[str, ...] | None:
    """Return the groups around a user, the outer one first; None: he is not named."""
    for node in nodes:
        if not node.members:
            if node.name == user:
                return ()
            continue
        below = _path_of(node.members, user)
        if below is not None:
            return (node.name, *below)
    return None


def _has_group(nodes: Sequence[ShareConfig], group: str) -> bool:
    return any(
        node.members and (node.name == group or _has_group(node.members, group)) for node in nodes
    )
