"""What keeps a class from starting wherever there is room: run windows, limits of job groups."""

from xce.model.ids import Micros
from xce.model.reason import Reason, ReasonCode
from xce.sched.running import lateness
from xce.state.cluster import ClusterState, RequestClass
from xce.state.groups import GroupRooms

BY_GATE = frozenset({ReasonCode.DEADLINE, ReasonCode.JOB_GROUP_LIMIT})
"""Reasons that a gate gives: nothing is tried on hosts then."""


class Gate:
    """Asked before something is tried on hosts, and told of what starts.

    Args:
        state: The state.
        now_us: The instant of the session.
    """

    def __init__(self, state: ClusterState, now_us: Micros) -> None:
        self._state = state
        self._now_us = now_us
        self._groups = GroupRooms(state)

    def refuse(self, found: RequestClass) -> Reason | None:
        """Return why nothing of a class may start now; None: something may."""
        late = lateness(self._state, found, self._now_us)
        if late is not None or not found.key.group:
            return late
        full = self._groups.full(found.key.group)
        if not full:
            return None
        return Reason(
            ReasonCode.JOB_GROUP_LIMIT, resource=full, needed=self._state.groups[full].limit
        )

    def most(self, found: RequestClass, wanted: int) -> int:
        """Return how many of ``wanted`` elements of a class may start."""
        return min(wanted, self._groups.room(found.key.group)) if found.key.group else wanted

    def take(self, found: RequestClass, count: int) -> None:
        """Note that elements of a class start."""
        if found.key.group:
            self._groups.take(found.key.group, count)
