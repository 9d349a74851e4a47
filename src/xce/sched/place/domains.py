"""``cu[]``: in how many domains of a topology level an attempt may lie, and in which first.

The choice of domains is exact for up to `EXACT_DOMAINS` of them, and for any number as long as
tasks lie in no blocks and the number of hosts is not bounded. Else the sets that promise most are
tried, and `Trail.is_cut` says so.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from xce.model.request import TASKS_MAX, CuWish
from xce.sched.place.capacity import Room
from xce.sched.place.even import Even
from xce.sched.place.search import CutError
from xce.sched.place.shares import together
from xce.sched.place.span import lay, lay_whole, reach
from xce.sched.place.uneven import Uneven
from xce.state.hosts import Column, Flags

EXACT_DOMAINS: Final = 8
"""Up to so many domains every choice among them is tried."""
_PROMISING: Final = 6
"""How many domains are tried as that of the first host, and of the remainder, beyond that."""


class Trail:
    """What a search met on its way."""

    def __init__(self) -> None:
        self.is_cut = False
        """It gave up before it had tried all: that nothing was found proves nothing."""


class Lie(NamedTuple):
    """How an attempt may lie on hosts: the bounds of ``span[]`` and ``cu[]``."""

    hosts_max: int
    is_striped: bool
    wish: CuWish | None
    codes: Column | None
    """By host: the code of its domain, -1: in none; None: each host is a domain of its own."""
    whole_hosts: int = 0
    """Exactly so many hosts, each whole; 0: no such wish."""
    tasks_min: int = 1
    tasks_max: int = TASKS_MAX

    @property
    def is_balanced(self) -> bool:
        """Whether the shares of domains must be even; on one host they are."""
        return self.wish is not None and self.wish.balance and self.hosts_max != 1


def most_tasks(room: Room, lie: Lie, trail: Trail) -> int:
    """Return the largest number of tasks for which `lay_in_domains` finds a placement."""
    if lie.whole_hosts:
        found_whole = _lay_whole(room, lie, trail)
        return 0 if found_whole is None else int(found_whole[1].sum())
    if lie.wish is None or not len(room.numbers):
        return int(reach(room, lie.hosts_max).max(initial=0))
    found = _Domains(room, lie, lie.wish)
    if found.even is not None:
        most = found.even.largest(min(lie.tasks_max, int(room.most.sum())))
        trail.is_cut = trail.is_cut or found.even.is_cut
        return most
    if lie.is_balanced:
        low, high = 0, min(lie.tasks_max, int(room.most.sum()))
        while low < high:
            middle = (low + high + 1) // 2
            if found.balanced(middle) is None:
                high = middle - 1
            else:
                low = middle
        return low
    most = 0
    for chosen in found.sets(0):
        most = max(most, int(reach(room.within(chosen), found.hosts_max).max(initial=0)))
    if not found.is_exact and most < int(reach(room, found.hosts_max).max(initial=0)):
        trail.is_cut = True
    return most


def lay_in_domains(room: Room, lie: Lie, tasks: int) -> tuple[Column, Column] | None:
    """Return hosts in rank order, domain by domain, and the tasks on each; None: none found."""
    if lie.whole_hosts:
        whole = _lay_whole(room, lie, Trail())
        return whole if whole is not None and int(whole[1].sum()) <= tasks else None
    if lie.wish is None:
        return lay(room, tasks, lie.hosts_max, is_striped=lie.is_striped)
    found = _Domains(room, lie, lie.wish)
    if found.even is not None:
        return found.even.find(tasks)
    if lie.is_balanced:
        return found.balanced(tasks)
    for chosen in found.sets(tasks):
        part = room.within(chosen)
        if int(reach(part, found.hosts_max).max(initial=0)) >= tasks:
            return found.lay(chosen, tasks)
    return None


def _lay_whole(room: Room, lie: Lie, trail: Trail) -> tuple[Column, Column] | None:
    """Return whole hosts in rank order, in few enough domains; None: none found."""
    try:
        if lie.wish is None or not len(room.numbers):
            return lay_whole(room, lie.whole_hosts, lie.tasks_min, lie.tasks_max)
        domains = _Domains(room, lie, lie.wish)
        if 0 < domains.hosts_max < lie.whole_hosts:
            return None
        for chosen in domains.sets_of_whole(lie.tasks_min):
            found = domains.lay_whole(chosen)
            if found is not None:
                return found
    except CutError:
        trail.is_cut = True
        return None
    trail.is_cut = trail.is_cut or not domains.is_exact
    return None


class _Domains:
    """The domains of the candidate hosts."""

    def __init__(self, room: Room, lie: Lie, wish: CuWish) -> None:
        self.room, self.lie, self.wish = room, lie, wish
        codes = room.numbers if lie.codes is None else lie.codes[room.numbers]
        _, self.of_host = np.unique(codes, return_inverse=True)
        self.count = int(self.of_host.max(initial=-1)) + 1
        self.usable = self._sums(room.later)
        self.is_wide = self._sums(room.most) >= max(wish.min_slots, 1)
        lowest = np.full(self.count, np.iinfo(np.int64).max)
        np.minimum.at(lowest, self.of_host, room.numbers)
        self.order = self._preferred(lowest)
        """Domains, the preferred one first."""
        self.hosts_max = lie.hosts_max
        self.most = wish.max_domains or self.count
        if lie.codes is None and not lie.is_balanced:
            # Each host is a domain: a bound on domains is one on hosts.
            self.hosts_max = min(lie.hosts_max or self.most, self.most)
            self.most = self.count
        self.is_plain = not self.hosts_max and bool((room.tile == 1).all())
        self.even = self._even() if lie.is_balanced and not self.is_plain else None
        candidates = int(self.is_wide.sum())
        self.is_exact = candidates <= max(self.most, EXACT_DOMAINS) or self.is_plain

    def _even(self) -> Even | Uneven:
        """Return what gives even shares in blocks, or on so many hosts."""
        room, wide = self.room, self.order[self.is_wide[self.order]]
        if bool((room.tile == room.tile[0]).all()):
            return Even(room, self.of_host, wide, self.most, self.hosts_max)
        assert not self.hosts_max, "span[] has two forms"
        return Uneven(room, self.of_host, wide, self.most)

    def _sums(self, values: Column) -> Column:
        sums = np.zeros(self.count, np.int64)
        np.add.at(sums, self.of_host, values)
        return sums

    def _preferred(self, lowest: Column) -> Column:
        match self.wish.pref:
            case "minavail":
                return np.lexsort((lowest, self.usable))
            case "maxavail" | "bestfit":
                return np.lexsort((lowest, -self.usable))
            case _:
                return np.argsort(lowest, kind="stable")

    def sets(self, tasks: int) -> Iterator[Flags]:
        """Yield sets of domains worth trying, as masks of hosts, the preferred ones first."""
        order = self.order[self.is_wide[self.order]]
        if self.wish.pref == "bestfit":
            fitting = order[self.usable[order] >= max(tasks, 1)][::-1]
            for domain in fitting.tolist():
                yield self._mask([domain])
        if len(order) <= self.most:
            yield self._mask(order.tolist())
        elif len(order) <= EXACT_DOMAINS:
            for chosen in combinations(order.tolist(), self.most):
                yield self._mask(list(chosen))
        else:
            yield from self._promising(order)

    def sets_of_whole(self, tasks: int) -> Iterator[Flags]:
        """Yield sets of domains for whole hosts: those with the most of them or of tasks, too."""
        yield from self.sets(tasks)
        order = self.order[self.is_wide[self.order]]
        is_whole = (self.room.first >= self.room.tile) | (self.room.later >= self.room.tile)
        for size in (self._sums(is_whole.astype(np.int64)), self._sums(self.room.most)):
            yield self._mask(order[np.argsort(-size[order], kind="stable")][: self.most].tolist())

    def _promising(self, order: Column) -> Iterator[Flags]:
        """Yield the sets in which the most tasks should fit, each domain with another role."""
        yield self._mask(order[: self.most].tolist())
        room = self.room
        whole = room.later // room.tile * room.tile
        loss = np.full(self.count, np.iinfo(np.int64).max // 2)
        can_lead = room.first >= room.tile
        np.minimum.at(loss, self.of_host[can_lead], (room.later - room.first)[can_lead])
        rest = np.zeros(self.count, np.int64)
        np.maximum.at(rest, self.of_host, room.later - whole)
        size = self._sums(whole)
        by_size = order[np.argsort(-size[order], kind="stable")]
        best = by_size[: self.most]
        # Who leads costs ``loss``, and who is not among the best costs what he displaces.
        least = int(size[best[-1]])
        gain = size - loss - np.where(np.isin(np.arange(self.count), best), size, least)
        leaders = order[np.argsort(-gain[order], kind="stable")]
        lasts = order[np.argsort(-rest[order], kind="stable")]
        leaders = leaders[: 1 if self.is_plain else _PROMISING]
        for leader in leaders.tolist():
            for last in lasts[: 1 if self.is_plain else _PROMISING].tolist():
                fixed = [leader] if self.is_plain or self.most == 1 else [leader, last]
                others = by_size[~np.isin(by_size, fixed)].tolist()
                yield self._mask((list(dict.fromkeys(fixed)) + others)[: self.most])

    def _mask(self, chosen: list[int]) -> Flags:
        return np.isin(self.of_host, chosen)

    def lay(self, chosen: Flags, tasks: int) -> tuple[Column, Column] | None:
        """Lay an attempt into some of the domains, one after the other."""
        found = lay(self._inside(chosen), tasks, self.hosts_max, is_striped=self.lie.is_striped)
        return None if found is None else self._together(*found)

    def lay_whole(self, chosen: Flags) -> tuple[Column, Column] | None:
        """Lay an attempt on whole hosts in some of the domains."""
        lie = self.lie
        found = lay_whole(self._inside(chosen), lie.whole_hosts, lie.tasks_min, lie.tasks_max)
        return None if found is None else self._together(*found)

    def _inside(self, chosen: Flags) -> Room:
        """Return the hosts in some of the domains, one domain after the other."""
        place = np.empty(self.count, np.int64)
        place[self.order] = np.arange(self.count)
        inside = np.flatnonzero(chosen)
        inside = inside[np.argsort(place[self.of_host[inside]], kind="stable")]
        return self.room.within(inside)

    def _together(self, numbers: Column, sizes: Column) -> tuple[Column, Column]:
        """Let the ranks of a domain stand together: the first host's first, the last one's last."""
        place = np.zeros(int(self.room.numbers.max()) + 1, np.int64)
        place[self.room.numbers] = self.of_host
        domains = place[numbers]
        _, begins, codes = np.unique(domains, return_index=True, return_inverse=True)
        key = begins[codes]
        if domains[-1] != domains[0]:
            key[domains == domains[-1]] = len(numbers)
        order = np.argsort(key, kind="stable")
        return numbers[order], sizes[order]

    def balanced(self, tasks: int) -> tuple[Column, Column] | None:
        """Lay an attempt into as few domains as possible with shares that differ by one at most."""
        order = self.order[self.is_wide[self.order]].tolist()
        leads = np.zeros(self.count, np.int64)
        np.maximum.at(
            leads,
            self.of_host,
            self.usable[self.of_host]
            - (self.room.later - self.room.first)
            - np.where(self.room.first > 0, 0, self.usable[self.of_host]),
        )
        leads, usable = leads[order], self.usable[order]
        for size in range(1, min(self.most, len(order), tasks) + 1):
            floor, more = divmod(tasks, size)
            found = self._leader(leads, usable, size, floor, more)
            if found is not None:
                place, own = found
                others = order[:place] + order[place + 1 :]
                shares = self._shares(others, size - 1, floor, more - (own > floor))
                return self._lay_shares([(order[place], own), *shares])
        return None

    @staticmethod
    def _leader(
        leads: Column, usable: Column, size: int, floor: int, more: int
    ) -> tuple[int, int] | None:
        """Return the place of the first domain that may lead, and its share, or None.

        ``leads`` and ``usable`` are by place: what fits there with the first host, and without.
        """
        is_wide, is_even = usable > floor, usable >= floor
        wide, even = is_wide.sum() - is_wide, is_even.sum() - is_even  # of the others
        may: list[Flags] = []
        for own in (floor + 1, floor) if more else (floor,):
            rest = more - (own > floor)
            may.append((leads >= own) & (wide >= rest) & (even >= size - 1) & (rest < size))
        places = np.flatnonzero(np.any(may, axis=0))
        if not len(places):
            return None
        place = int(places[0])
        return place, floor + 1 if more and may[0][place] else floor

    def _shares(self, order: list[int], size: int, floor: int, more: int) -> list[tuple[int, int]]:
        """Return ``size`` domains, ``more`` of them with a task more than ``floor``."""
        wide = [domain for domain in order if self.usable[domain] > floor][:more]
        shares = dict.fromkeys(wide, floor + 1)
        even = [domain for domain in order if self.usable[domain] >= floor and domain not in shares]
        shares |= dict.fromkeys(even[: size - more], floor)
        return [(domain, shares[domain]) for domain in order if domain in shares]

    def _lay_shares(self, shares: list[tuple[int, int]]) -> tuple[Column, Column] | None:
        columns: list[tuple[Column, Column]] = []
        for place, (domain, share) in enumerate(shares):
            room = self.room.within(self.of_host == domain)
            found = lay(
                room if place == 0 else room.beyond_the_first(),
                share,
                0,
                is_striped=self.lie.is_striped,
            )
            if found is None:
                return None
            columns.append(found)
        return together(columns)
