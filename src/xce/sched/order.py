"""Order: queue priority, then what the queue's policy says, then submission; total.

Queues of equal priority with first come, first served are one line; each queue with another policy
is a line of its own.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from xce.model.ids import JobId
from xce.sched.fairshare import Shares
from xce.sched.running import expected_span
from xce.state.cluster import ClusterState, RequestClass

Rank: TypeAlias = tuple[int, ...]
"""Smaller goes first; classes of equal rank are merged by the places of their waiting jobs."""
Place: TypeAlias = tuple[JobId, int, JobId]
"""Where a job stands among those of its rank: see `xce.state.job.Job.place`."""
Order: TypeAlias = Callable[[RequestClass, Shares], Rank]
"""The rank of a class in its queue."""


def order_first_come(found: RequestClass, shares: Shares) -> Rank:
    """First come, first served within a class priority."""
    return (-found.key.priority,)


def order_short_first(found: RequestClass, shares: Shares) -> Rank:
    """Who is expected to run shortest goes first, within a class priority."""
    return (-found.key.priority, expected_span(found))


def order_by_shares(found: RequestClass, shares: Shares) -> Rank:
    """Who used least of his share goes first; a user's own jobs by class priority."""
    return (*shares.path(found), -found.key.priority)


ORDERS: Final[dict[str, Order]] = {
    "fcfs": order_first_come,
    "sjf": order_short_first,
    "fairshare": order_by_shares,
}
"""By the name in the configuration (`xce.model.config.ORDERS`)."""


class Line:
    """What the queue of a class says of its order."""

    def __init__(self, state: ClusterState, orders: Mapping[str, Order], shares: Shares) -> None:
        self._shares = shares
        self._lines: dict[str, tuple[Rank, Order, bool]] = {}
        for place, queue in enumerate(state.config.queues, start=1):
            name = queue.policy or state.config.policy
            own = (-queue.priority, 0 if name == "fcfs" else place)
            self._lines[queue.name] = own, orders[name], name == "fairshare"

    def rank(self, found: RequestClass) -> Rank:
        """Return the rank of a class as it is now."""
        line, order, _ = self._lines[found.key.queue]
        return (*line, *order(found, self._shares))

    def is_shared(self, found: RequestClass) -> bool:
        """Return whether shares decide in its queue."""
        return self._lines[found.key.queue][2]
