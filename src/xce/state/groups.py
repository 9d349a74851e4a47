"""Job groups: those that somebody made, those that jobs name, and what their limits leave."""

from collections.abc import Iterable
from typing import Final

from xce.model.group import GroupsDeleted, GroupsSet, above
from xce.state.cluster import ClusterState

UNBOUNDED: Final = 1 << 60


def apply_groups_set(state: ClusterState, record: GroupsSet) -> None:
    """Let groups be there."""
    state.groups.update(zip(record.names, record.groups, strict=True))


def apply_groups_deleted(state: ClusterState, record: GroupsDeleted) -> None:
    """Let groups be there no more."""
    for name in record.names:
        state.groups.pop(name, None)


def named_groups(state: ClusterState) -> dict[str, str]:
    """Return the groups that unfinished jobs name, and those above, each with a job's owner."""
    found: dict[str, str] = {}
    for item in state.classes.values():
        if item.key.group and (item.pending or item.held or item.live):
            for name in above(item.key.group):
                found.setdefault(name, item.key.user)
    return found


class GroupRooms:
    """How many more elements the limits of groups let run, while some are given room.

    Args:
        state: The state.
    """

    def __init__(self, state: ClusterState) -> None:
        self._left = {name: g.limit for name, g in state.groups.items() if g.limit >= 0}
        if self._left:
            for found in state.classes.values():
                if found.key.group and found.live:
                    self.take(found.key.group, found.live)

    def room(self, group: str) -> int:
        """Return how many more elements of a group may run."""
        rooms = (self._left[name] for name in self._bounds(group))
        return max(0, min(rooms, default=UNBOUNDED))

    def full(self, group: str) -> str:
        """Return the group whose limit is reached for another one; empty: none."""
        return next((name for name in self._bounds(group) if self._left[name] <= 0), "")

    def take(self, group: str, count: int) -> None:
        """Let elements of a group run."""
        for name in self._bounds(group):
            self._left[name] -= count

    def _bounds(self, group: str) -> Iterable[str]:
        if not group or not self._left:
            return ()
        return [name for name in above(group) if name in self._left]


def has_limits(state: ClusterState) -> bool:
    """Return whether any group has a limit."""
    return any(group.limit >= 0 for group in state.groups.values())
