"""``cu[balance]``: even shares of domains, whatever blocks the tasks lie in.

Shares of domains differ by one task at most, and as few domains are used as may be.
"""

from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar

import numpy as np

from xce.sched.place.capacity import Room
from xce.sched.place.span import lay, reach
from xce.state.hosts import Column

DOMAINS_MAX: Final = 64
"""So many domains are looked at, those with most room."""

_Use = TypeVar("_Use")


class Shares(ABC, Generic[_Use]):
    """Even shares of the domains of candidate hosts; a ``_Use`` is a domain that is used.

    Args:
        room: The hosts.
        of_host: The domain of each.
        order: The domains that may be used, the preferred one first.
        domains_max: So many of them at most.
    """

    hosts_max: int = 0
    """On so many hosts at most; 0: any number."""

    def __init__(self, room: Room, of_host: Column, order: Column, domains_max: int) -> None:
        order, self.is_cut = _widest(room, of_host, order)
        self.order: list[int] = order.tolist()
        self.rooms = {domain: room.within(of_host == domain) for domain in self.order}
        self.most = min(domains_max, len(self.order))

    @abstractmethod
    def largest(self, cap: int) -> int:
        """Return the largest number of tasks up to ``cap`` for which `find` finds a way; or 0."""

    def find(self, tasks: int) -> tuple[Column, Column] | None:
        """Return hosts in rank order, domain by domain, and the tasks on each; None: none found."""
        for domain in self.order:
            found = lay(self.rooms[domain], tasks, self.hosts_max)
            if found is not None:
                return found
        for size in range(2, min(self.most, tasks) + 1):
            way = self._choose(size, tasks)
            if way is not None:
                return self._lay(way)
        return None

    @abstractmethod
    def _choose(self, size: int, tasks: int) -> list[_Use] | None:
        """Return so many domains with even shares, or None."""

    @abstractmethod
    def _lay(self, way: list[_Use]) -> tuple[Column, Column] | None:
        """Return hosts and tasks as `find` does."""

    def _alone(self, cap: int) -> int:
        """Return how many tasks one domain alone may have, up to ``cap``."""
        alone = (int(reach(room, self.hosts_max).max(initial=0)) for room in self.rooms.values())
        return min(cap, max(alone, default=0))


def together(columns: list[tuple[Column, Column]]) -> tuple[Column, Column]:
    """Return hosts and tasks of several domains as one."""
    return (
        np.concatenate([numbers for numbers, _ in columns]),
        np.concatenate([sizes for _, sizes in columns]),
    )


def _widest(room: Room, of_host: Column, order: Column) -> tuple[Column, bool]:
    """Return the domains that are looked at, in order, and whether there are more."""
    if len(order) <= DOMAINS_MAX:
        return order, False
    sums = np.zeros(int(of_host.max()) + 1, np.int64)
    np.add.at(sums, of_host, room.most)
    best = order[np.argsort(-sums[order], kind="stable")][:DOMAINS_MAX]
    return order[np.isin(order, best)], True
