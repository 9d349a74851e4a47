"""``cu[balance]`` where hosts are filled, and one takes more tasks than another.

As in `xce.sched.place.even`, but blocks differ: ``span[ptile='!']`` fills hosts of several sizes.
So which shares a domain may have is a matter of which sums its hosts come to. These are kept as
the bits of an integer. Which domains are used, and with which share, is found domain by domain,
with nothing left out.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from xce.sched.place.capacity import Room
from xce.sched.place.shares import Shares, together
from xce.state.hosts import Column, Flags

TRIES_MAX: Final = 400
"""So many counts of tasks are looked at for the largest one."""

_PLAIN: Final = 0
_LAST: Final = 1
_FIRST: Final = 2
"""Which hosts of the attempt are in a domain, as bits: that with the remainder, and the first one.
"""

_Bits: TypeAlias = int
"""Bit n: n tasks are possible."""
_Steps: TypeAlias = npt.NDArray[np.int8]


class _Kind(NamedTuple):
    """Hosts of a domain that are alike."""

    tile: int
    is_whole: bool
    """Whether it may be filled, behind the first host."""
    leads: bool
    """Whether it may be filled as the first host."""
    rest: int
    """As the one with the remainder, it takes so many tasks at most."""


class _Option(NamedTuple):
    """How a domain may be used."""

    rise: int
    """By how much its share is above the lower one."""
    is_first: bool
    """Whether the first host is there."""
    has_rest: bool
    """Whether the host with the remainder is there."""


class _Way(NamedTuple):
    """A domain that is used."""

    domain: int
    share: int
    is_first: bool
    has_rest: bool


class _Sums:
    """To which sums the hosts of a domain come."""

    def __init__(self, room: Room) -> None:
        self.room = room
        is_whole = (room.later >= room.tile) & (room.later > 0)
        leads = (room.first >= room.tile) & (room.first > 0)
        rest = np.minimum(room.later, room.tile - 1).clip(min=0)
        columns = (room.tile, is_whole, leads, rest)
        self.kinds = [_Kind(*row) for row in zip(*(one.tolist() for one in columns), strict=True)]
        """By host."""
        self.count = Counter(self.kinds)
        self.tiles = Counter(kind.tile for kind in self.kinds if kind.is_whole)
        self.mask = (1 << int(room.most.sum()) + 1) - 1
        self._known: dict[tuple[int, ...], _Bits] = {}

    def reach(self, *, is_first: bool, has_rest: bool) -> _Bits:
        """Return the shares that the domain may have."""
        found = 0
        for lead, last in self._ends(is_first=is_first, has_rest=has_rest):
            bits = self._of_whole(lead, last) << (lead.tile if lead else 0)
            found |= bits if last is None else _smeared(bits, last.rest)
        return found & self.mask

    def lay(self, way: _Way) -> tuple[Column, Column]:
        """Return the hosts, the first one first and the one with the remainder last, and tasks."""
        for lead, last in self._ends(is_first=way.is_first, has_rest=way.has_rest):
            share = way.share - (lead.tile if lead else 0)
            bits = self._of_whole(lead, last)
            rests = range(1, last.rest + 1) if last else (0,)
            for rest in rests:
                if share >= rest and bits >> (share - rest) & 1:
                    return self._laid(lead, last, share - rest, rest)
        raise AssertionError("a share that a domain may have cannot be laid")

    def _ends(
        self, *, is_first: bool, has_rest: bool
    ) -> Iterator[tuple[_Kind | None, _Kind | None]]:
        """Yield kinds of the first host and of that with the remainder; None: it is elsewhere."""
        ranked = list(dict.fromkeys(self.kinds))
        most = max((kind.rest for kind in ranked if not kind.is_whole), default=0)
        leads = [kind for kind in ranked if kind.leads] if is_first else [None]
        # Of hosts that nothing fills the one with most room serves for all.
        lasts = [kind for kind in ranked if kind.rest and (kind.is_whole or kind.rest == most)]
        for lead in leads:
            for last in lasts if has_rest else [None]:
                if lead is None or lead != last or self.count[lead] > 1:
                    yield lead, last

    def _of_whole(self, *without: _Kind | None) -> _Bits:
        """Return the sums of hosts that are filled, without a host of each kind."""
        gone = tuple(sorted(kind.tile for kind in without if kind and kind.is_whole))
        if gone not in self._known:
            bits = 1
            for tile, count in (self.tiles - Counter(gone)).items():
                bits = _times(bits, tile, count) & self.mask
            self._known[gone] = bits
        return self._known[gone]

    def _laid(
        self, lead: _Kind | None, last: _Kind | None, whole: int, rest: int
    ) -> tuple[Column, Column]:
        """Lay tasks on hosts that are filled, the best ones of each size, between the ends."""
        left = list(range(len(self.kinds)))
        first = [left.pop(self.kinds.index(lead))] if lead else []
        end = next((place for place in reversed(left) if self.kinds[place] == last), None)
        if end is not None:
            left.remove(end)
        by_tile: dict[int, list[int]] = {}
        for place in left:
            if self.kinds[place].is_whole:
                by_tile.setdefault(self.kinds[place].tile, []).append(place)
        chosen = _chosen(by_tile, whole)
        places = [*first, *chosen, *([] if end is None else [end])]
        sizes = [self.kinds[place].tile for place in (*first, *chosen)]
        sizes += [] if end is None else [rest]
        return self.room.numbers[places], np.asarray(sizes, np.int64)


def _times(bits: _Bits, tile: int, count: int) -> _Bits:
    """Return the sums with up to ``count`` hosts of ``tile`` tasks more."""
    step = 1
    while count:
        taken = min(step, count)
        bits |= bits << taken * tile
        count -= taken
        step *= 2
    return bits


def _smeared(bits: _Bits, most: int) -> _Bits:
    """Return the sums with 1 to ``most`` tasks more."""
    found, width = bits << 1, 1
    while width < most:
        more = min(width, most - width)
        found |= found << more
        width += more
    return found


def _chosen(by_tile: dict[int, list[int]], whole: int) -> list[int]:
    """Return places of hosts that come to ``whole`` tasks, rising; as many of the best size as may
    be.
    """
    behind = [1]
    for tile, places in reversed(by_tile.items()):
        behind.append(_times(behind[-1], tile, len(places)))
    found: list[int] = []
    for (tile, places), bits in zip(by_tile.items(), behind[-2::-1], strict=True):
        most = min(len(places), whole // tile)
        count = next(number for number in range(most, -1, -1) if bits >> whole - number * tile & 1)
        found += places[:count]
        whole -= count * tile
    return sorted(found)


class Uneven(Shares[_Way]):
    """Even shares of the domains of candidate hosts, which have blocks of several sizes.

    Args:
        room: The hosts; each takes one block at most.
        of_host: The domain of each.
        order: The domains that may be used, the preferred one first.
        domains_max: So many of them at most.
    """

    def __init__(self, room: Room, of_host: Column, order: Column, domains_max: int) -> None:
        super().__init__(room, of_host, order, domains_max)
        self._sums = {domain: _Sums(self.rooms[domain]) for domain in self.order}
        self._ways = [
            [
                sums.reach(is_first=is_first, has_rest=has_rest)
                for is_first in (False, True)
                for has_rest in (False, True)
            ]
            for sums in self._sums.values()
        ]
        """By domain, then by which hosts are there: `_PLAIN`, `_LAST`, `_FIRST`, or both."""

    def largest(self, cap: int) -> int:
        """Return the largest number of tasks up to ``cap`` for which `find` finds a way; or 0."""
        best = self._alone(cap)
        counts = self._counts(cap + 2)
        tries = 0
        for size in range(2, self.most + 1):
            for tasks in _promising(counts, size, best, cap):
                if tries == TRIES_MAX:
                    self.is_cut = True
                    return best
                tries += 1
                if self._is_possible(size, tasks):
                    best = tasks
                    break
        return best

    def _lay(self, way: list[_Way]) -> tuple[Column, Column]:
        ranked = sorted(way, key=lambda one: not one.is_first)
        return together([self._sums[one.domain].lay(one) for one in ranked])

    def _counts(self, length: int) -> Column:
        """Return by share how many domains may have it; then, how many that or one task more."""
        counts = np.zeros((2, length), np.int64)
        for ways in self._ways:
            bits = (ways[0] | ways[1] | ways[2] | ways[3]) & ((1 << length) - 1)
            raw = np.frombuffer(bits.to_bytes(length // 8 + 1, "little"), np.uint8)
            is_there = np.unpackbits(raw, bitorder="little")[:length]
            counts[0] += is_there
            is_there[:-1] |= is_there[1:]
            counts[1] += is_there
        return counts

    def _is_possible(self, size: int, tasks: int) -> bool:
        """Return whether `_choose` finds a way, without looking for it.

        With the domains of the two ends set aside, the others only have to be enough: for the lower
        share, for the higher one, and for both together.
        """
        floor, more = divmod(tasks, size)
        if not floor:
            return False
        # By whether the share is the higher one, by domain, and how it may come to be.
        may = np.asarray(
            [
                [[bits >> floor + rise & 1 for bits in ways] for ways in self._ways]
                for rise in (0, 1)
            ]
        ).astype(np.bool_)
        plain = may[:, :, _PLAIN]
        fits = np.stack((*plain, plain.any(axis=0))).astype(np.int64)
        needed = np.asarray([size - more, more, size])
        spare = fits.sum(axis=1) - needed
        ends = [np.asarray([1 - rise, rise, 1]) for rise in ((0, 1) if more else (0,))]
        for rise, end in enumerate(ends):
            one = _is_left(spare - fits.T + end)
            if (one & (may[rise, :, _FIRST] | may[rise, :, _FIRST | _LAST])).any():
                return True
            for last_rise, last_end in enumerate(ends):
                if (needed < end + last_end).any():
                    continue
                both = may[rise, :, None, _FIRST] & may[last_rise, None, :, _LAST]
                np.fill_diagonal(both, val=False)
                left = spare - fits.T[:, None] - fits.T[None] + end + last_end
                if (both & _is_left(left)).any():
                    return True
        return False

    def _choose(self, size: int, tasks: int) -> list[_Way] | None:
        """Return so many domains with even shares, the preferred ones, or None."""
        floor, more = divmod(tasks, size)
        if not floor:
            return None
        # By whether the first host is there, whether the remainder is, and how many domains have
        # the lower and the higher share.
        known = np.zeros((2, 2, size - more + 1, more + 1), np.bool_)
        known[0, 0, 0, 0] = True
        steps: list[tuple[_Steps, list[_Option]]] = []
        for ways in self._ways:
            options = [
                _Option(rise, bool(place & _FIRST), bool(place & _LAST))
                for rise in ((0, 1) if more else (0,))
                for place, bits in enumerate(ways)
                if bits >> floor + rise & 1
            ]
            before, step = known.copy(), np.full(known.shape, -1, np.int8)
            for number, option in enumerate(options):
                _take(known, before, step, number, option)
            steps.append((step, options))
            if known[1, :, -1, -1].any():
                break
        if not known[1, :, -1, -1].any():
            return None
        at = (1, int(not known[1, 0, -1, -1]), size - more, more)
        found: list[_Way] = []
        for domain, (step, options) in reversed([*zip(self.order, steps, strict=False)]):
            number = int(step[at])
            if number >= 0:
                option = options[number]
                found.append(_Way(domain, floor + option.rise, option.is_first, option.has_rest))
                at = (
                    at[0] - option.is_first, at[1] - option.has_rest,
                    at[2] - 1 + option.rise, at[3] - option.rise,
                )  # fmt: skip
        return found[::-1]


def _is_left(left: Column) -> Flags:
    """Return where nothing is short."""
    return np.asarray((left >= 0).all(axis=-1))


def _promising(counts: Column, size: int, best: int, cap: int) -> list[int]:
    """Return counts of tasks above ``best`` for which enough domains may have a share, falling."""
    tasks = np.arange(max(best + 1, size), cap + 1)
    floor, more = tasks // size, tasks % size
    single, double = counts[0], counts[1]
    enough = np.where(more == 0, single[floor] >= size, double[floor] >= size)
    enough &= (single[floor] >= size - more) & (single[floor + 1] >= more)
    found: list[int] = tasks[enough][::-1].tolist()
    return found


def _take(
    known: npt.NDArray[np.bool_],
    before: npt.NDArray[np.bool_],
    step: _Steps,
    number: int,
    option: _Option,
) -> None:
    """Note what a domain more makes possible: ``known`` with it, ``before`` without.

    Args:
        known: Is changed.
        before: What it was without the domain.
        step: Is changed, too: which option is taken; -1: none.
        number: That of the option.
        option: How the domain is used.
    """
    low, high = before.shape[2] - 1 + option.rise, before.shape[3] - option.rise
    for led in (0,) if option.is_first else (0, 1):
        for rest in (0,) if option.has_rest else (0, 1):
            at = (
                led + option.is_first, rest + option.has_rest,
                slice(1 - option.rise, None), slice(option.rise, None),
            )  # fmt: skip
            is_new = before[led, rest, :low, :high] & ~known[at]
            known[at] |= is_new
            step[at][is_new] = number
