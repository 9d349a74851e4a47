"""``cu[balance]`` where tasks lie in blocks or on so many hosts at most.

Shares of domains differ by one task at most; blocks are of one size everywhere, and one host, not
the first, may have a remainder. So of the domains that are used all but one have whole blocks.
Which ones are used is found by their cost in hosts, domain by domain, with nothing left out.
"""

from typing import Final, NamedTuple

import numpy as np

from xce.sched.place.capacity import Room
from xce.sched.place.span import lay, reach
from xce.state.hosts import Column

DOMAINS_MAX: Final = 64
"""So many domains are looked at, those with most room."""


class Taken(NamedTuple):
    """A domain that is used."""

    domain: int
    share: int
    is_first: bool


class _Way(NamedTuple):
    """Some domains, and what they cost in hosts."""

    hosts: int
    taken: tuple[Taken, ...]


class Even:
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
        self.hosts_max, self.tile = hosts_max, int(room.tile[0])
        self.is_cut = len(order) > DOMAINS_MAX
        if self.is_cut:
            sums = np.zeros(int(of_host.max()) + 1, np.int64)
            np.add.at(sums, of_host, room.most)
            best = order[np.argsort(-sums[order], kind="stable")][:DOMAINS_MAX]
            order = order[np.isin(order, best)]
        self.order: list[int] = order.tolist()
        self.rooms = {domain: room.within(of_host == domain) for domain in self.order}
        self.most = min(domains_max, len(self.order), hosts_max or len(self.order))
        self._needed: dict[tuple[int, int, bool], int] = {}

    def largest(self, cap: int) -> int:
        """Return the largest number of tasks up to ``cap`` for which `find` finds a way; or 0."""
        alone = (int(reach(room, self.hosts_max).max(initial=0)) for room in self.rooms.values())
        best = min(cap, max(alone, default=0))
        for size in range(2, self.most + 1):
            step = size * self.tile
            for more in (0, 1, -1) if self.tile > 1 else range(size):
                best = max(best, self._largest_of(size, step, more, cap))
        return best

    def _largest_of(self, size: int, step: int, more: int, cap: int) -> int:
        """Return the largest number of tasks that is ``more`` above a multiple of ``step``."""
        low, high = 1, (cap - more) // step
        if high < 1:
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            if self._choose(size, middle * step + more) is None:
                high = middle - 1
            else:
                low = middle
        tasks = low * step + more
        return tasks if low > 1 or self._choose(size, tasks) is not None else 0

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

    def _choose(self, size: int, tasks: int) -> _Way | None:
        """Return so many domains with even shares, on as few hosts as there is a way to."""
        floor, more = divmod(tasks, size)
        if not floor or not self._may_be(floor, more, size):
            return None
        shares = ((floor, size - more), (floor + 1, more))
        ways: dict[tuple[int, int, bool], _Way] = {(0, 0, False): _Way(0, ())}
        for domain in self.order:
            for (low, high, is_led), way in list(ways.items()):
                for place, (share, most) in enumerate(shares):
                    counts = [low, high]
                    counts[place] += 1
                    if counts[place] > most:
                        continue
                    for is_first in (False,) if is_led else (True, False):
                        hosts = self._hosts(domain, share, is_first=is_first)
                        key = (counts[0], counts[1], is_led or is_first)
                        total = way.hosts + hosts
                        if hosts and (key not in ways or total < ways[key].hosts):
                            taken = (*way.taken, Taken(domain, share, is_first))
                            ways[key] = _Way(total, taken)
        found = ways.get((size - more, more, True))
        if found is None or (self.hosts_max and found.hosts > self.hosts_max):
            return None
        return found

    def _may_be(self, floor: int, more: int, size: int) -> bool:
        """Return whether all domains but one have whole blocks."""
        if self.tile == 1:
            return True
        if floor % self.tile == 0:
            return more <= 1
        return (floor + 1) % self.tile == 0 and size - more == 1

    def _room(self, domain: int, *, is_first: bool) -> Room:
        """Return the hosts of a domain, for the first ranks or others; a first host is whole."""
        room = self.rooms[domain]
        if not is_first:
            return room.beyond_the_first()
        return room._replace(first=room.first // room.tile * room.tile)

    def _hosts(self, domain: int, share: int, *, is_first: bool) -> int:
        """Return how many hosts a share takes in a domain at least; 0: it does not fit."""
        key = (domain, share, is_first)
        if key not in self._needed:
            room = self._room(domain, is_first=is_first)
            low, high = 1, len(room.numbers)
            if int(reach(room, high).max(initial=0)) < share:
                low = high = 0
            while low < high:
                middle = (low + high) // 2
                if int(reach(room, middle).max(initial=0)) >= share:
                    high = middle
                else:
                    low = middle + 1
            self._needed[key] = low
        return self._needed[key]

    def _lay(self, way: _Way) -> tuple[Column, Column] | None:
        columns: list[tuple[Column, Column]] = []
        for domain, share, is_first in sorted(way.taken, key=lambda one: not one.is_first):
            hosts = self._hosts(domain, share, is_first=is_first) if self.hosts_max else 0
            found = lay(self._room(domain, is_first=is_first), share, hosts)
            if found is None:
                return None
            columns.append(found)
        return (
            np.concatenate([numbers for numbers, _ in columns]),
            np.concatenate([sizes for _, sizes in columns]),
        )
