"""``cu[balance]`` where tasks lie in blocks or on so many hosts at most.

Shares of domains differ by one task at most; blocks are of one size everywhere, and one host, not
the first, may have a remainder. So of the domains that are used all but one have whole blocks.
Which ones are used is found by their cost in hosts, domain by domain, with nothing left out.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from xce.sched.place.capacity import Room
from xce.sched.place.shares import Shares, together
from xce.sched.place.span import lay, reach
from xce.state.hosts import Column

_FAR: Final = 1 << 40
"""More hosts than there are."""


Counts: TypeAlias = npt.NDArray[np.int64]
Steps: TypeAlias = npt.NDArray[np.int8]


class Taken(NamedTuple):
    """A domain that is used."""

    domain: int
    share: int
    is_first: bool


class Even(Shares[Taken]):
    """Even shares of the domains of candidate hosts.

    Args:
        room: The hosts; blocks are of one size.
        of_host: The domain of each.
        order: The domains that may be used, the preferred one first.
        domains_max: So many of them at most.
        hosts_max: On so many hosts at most; 0: any number.
    """

    def __init__(
        self, room: Room, of_host: Column, order: Column, domains_max: int, hosts_max: int
    ) -> None:
        super().__init__(room, of_host, order, min(domains_max, hosts_max or domains_max))
        self.hosts_max, self.tile = hosts_max, int(room.tile[0])
        self._blocks = {
            domain: int(found.first.max(initial=0)) // self.tile
            for domain, found in self.rooms.items()
        }
        """By domain: how many blocks fit on a first host at most."""
        self._known: dict[tuple[int, int, int, bool], int] = {}

    def largest(self, cap: int) -> int:
        """Return the largest number of tasks up to ``cap`` for which `find` finds a way; or 0."""
        best = self._alone(cap)
        for size in range(2, self.most + 1):
            if self.tile == 1:
                best = max(best, self._largest_of(size, 1, 0, best, cap))
                continue
            for more in (0, 1, -1):
                best = max(best, self._largest_of(size, size * self.tile, more, best, cap))
        return best

    def _largest_of(self, size: int, step: int, more: int, best: int, cap: int) -> int:
        """Return the largest number of tasks that is ``more`` above a multiple of ``step``, if it
        is above ``best``, or 0. One that has a way has one for each smaller multiple.
        """
        low = max((best - more) // step + 1, size if step == 1 else 1)
        high = (cap - more) // step
        if high < low or self._choose(size, low * step + more) is None:
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            if self._choose(size, middle * step + more) is None:
                high = middle - 1
            else:
                low = middle
        return low * step + more

    def _choose(self, size: int, tasks: int) -> list[Taken] | None:
        """Return so many domains with even shares, on as few hosts as there is a way to."""
        floor, more = divmod(tasks, size)
        if not floor or not self._may_be(floor, more, size):
            return None
        options = [
            (rise, is_first) for rise in ((0, 1) if more else (0,)) for is_first in (True, False)
        ]
        # Along options and domains.
        costs = np.asarray(
            [
                [self._hosts(domain, floor + rise, is_first=is_first) for domain in self.order]
                for rise, is_first in options
            ],
            np.int64,
        )
        costs[costs == 0] = _FAR
        if self._is_too_much(costs.min(axis=0), size):
            return None
        # By whether there is a first one, and how many domains have the lower and higher share.
        hosts = np.full((2, size - more + 1, more + 1), _FAR, np.int64)
        hosts[0, 0, 0] = 0
        steps = []
        for column in costs.T.tolist():
            before, step = hosts.copy(), np.full(hosts.shape, -1, np.int8)
            for place, cost in enumerate(column):
                if cost < _FAR:
                    _take(hosts, before, step, (place, *options[place]), cost)
            steps.append(step)
        if hosts[1, -1, -1] >= _FAR or 0 < self.hosts_max < hosts[1, -1, -1]:
            return None
        at, taken = (1, size - more, more), list[Taken]()
        for domain, step in zip(reversed(self.order), reversed(steps), strict=True):
            place = int(step[at])
            if place >= 0:
                rise, is_first = options[place]
                taken.append(Taken(domain, floor + rise, is_first))
                at = at[0] - is_first, at[1] - 1 + rise, at[2] - rise
        return taken[::-1]

    def _is_too_much(self, least: Column, size: int) -> bool:
        """Return whether so many domains are not there, or take too many hosts in any case."""
        cheapest = np.sort(least)[:size]
        return bool(cheapest[-1] >= _FAR or 0 < self.hosts_max < cheapest.sum())

    def _may_be(self, floor: int, more: int, size: int) -> bool:
        """Return whether all domains but one have whole blocks."""
        if self.tile == 1:
            return True
        if floor % self.tile == 0:
            return more <= 1
        return (floor + 1) % self.tile == 0 and size - more == 1

    def _room(self, domain: int, share: int, *, is_first: bool) -> Room:
        """Return the hosts of a domain, for the first ranks or others.

        A first host has some of the blocks of the share, and never the remainder.
        """
        room = self.rooms[domain]
        if not is_first:
            return room.beyond_the_first()
        most = self._most_blocks(domain, share)
        return room._replace(first=np.minimum(room.first // self.tile, most) * self.tile)

    def _most_blocks(self, domain: int, share: int) -> int:
        """Return how many blocks of a share a first host may have."""
        most = self._blocks[domain]
        return min(most, share // self.tile) if share % self.tile else most

    def _hosts(self, domain: int, share: int, *, is_first: bool) -> int:
        """Return how many hosts a share takes in a domain at least; 0: it does not fit.

        Where hosts are not counted it is 1.
        """
        count = len(self.rooms[domain].numbers)
        low, high = 1, min(count, self.hosts_max or count)
        if self._reach(domain, share, high, is_first=is_first) < share:
            return 0
        while low < high and self.hosts_max:
            middle = (low + high) // 2
            if self._reach(domain, share, middle, is_first=is_first) >= share:
                high = middle
            else:
                low = middle + 1
        return low

    def _reach(self, domain: int, share: int, hosts: int, *, is_first: bool) -> int:
        """Return how many tasks a domain can have on so many hosts, if that is to be a share."""
        key = (domain, self._most_blocks(domain, share) if is_first else 0, hosts, is_first)
        if key not in self._known:
            room = self._room(domain, share, is_first=is_first)
            self._known[key] = int(reach(room, hosts).max(initial=0))
        return self._known[key]

    def _lay(self, way: list[Taken]) -> tuple[Column, Column] | None:
        columns: list[tuple[Column, Column]] = []
        for domain, share, is_first in sorted(way, key=lambda one: not one.is_first):
            hosts = self._hosts(domain, share, is_first=is_first) if self.hosts_max else 0
            found = lay(self._room(domain, share, is_first=is_first), share, hosts)
            if found is None:
                return None
            columns.append(found)
        return together(columns)


def _take(
    hosts: Counts, before: Counts, step: Steps, option: tuple[int, int, bool], cost: int
) -> None:
    """Note where a domain more is better than what is known: ``hosts`` with it, ``before`` without.

    Args:
        hosts: Is changed.
        before: What it was without the domain.
        step: Is changed, too: which option is taken; -1: none.
        option: Its number, whether the share is the higher one, and whether the domain is first.
        cost: In hosts.
    """
    place, rise, is_first = option
    low, high = before.shape[1] - 1 + rise, before.shape[2] - rise
    for led in (0,) if is_first else (0, 1):
        ways = before[led, :low, :high] + cost
        at = (led + is_first, slice(1 - rise, None), slice(rise, None))
        better = ways < hosts[at]
        hosts[at][better] = ways[better]
        step[at][better] = place
