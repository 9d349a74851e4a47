"""Free amounts over time, host by host: what a reservation and a backfilled start must respect.

A timeline begins with what is free now. What runs comes free at its expected end; what is reserved
is taken at its start and comes back at its end. Between two starts of reservations amounts only
grow, so what is free *throughout* an interval is the elementwise minimum of what is free at its
beginning and at each such start inside it. A request fits at an instant exactly when its placement
is found on that minimum, by the same allocators that place it now: along every resource of every
host, and every pool. So an earliest start is exact as far as the expected ends are: no earlier
instant would do, and one placement holds from the start to the end.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from xce.model.ids import Micros
from xce.sched.ground import Ground
from xce.sched.running import FAR, Releases
from xce.state.hosts import Column

_NEVER: Final[Micros] = 2 * FAR - 1
"""Nothing is planned at or behind it."""
_AMOUNTS: Final = 3
"""The place of amounts behind the instants and the host."""
VIEWS_BYTES_MAX: Final = 1 << 26
"""So much of what is free at other instants is kept."""


def _end(start_us: Micros, span_us: Micros) -> Micros:
    """Return when what runs for a span ends: behind everything where no end is known."""
    return _NEVER if span_us >= FAR else min(start_us + span_us, _NEVER)


class View(NamedTuple):
    """What is free at an instant, or throughout an interval."""

    ground: Ground
    pools: dict[str, int]


class Piece(NamedTuple):
    """What an attempt holds."""

    numbers: Column
    """Hosts, each once."""
    amounts: Column
    """Along resources and ``numbers``."""
    pools: Mapping[str, int]
    exclusive: bool


class Timeline:
    """What is free from now on. ``now`` is the caller's: what he takes of it is taken here too."""

    def __init__(self, now_us: Micros, now: View, totals: Column, releases: Releases) -> None:
        """Begin with what runs.

        Args:
            now_us: The instant of the session.
            now: What is free now; the same object throughout.
            totals: Amounts of each host, along resources and hosts.
            releases: What is expected to come free; pools in the order of ``now.pools``.
        """
        self.now_us = now_us
        self._totals = totals
        self._starts = [now_us]
        """Now, and the instants at which reservations start; rising."""
        self._free = [now]
        """What is free at each of these."""
        at_us = _planned(releases.at_us, now_us)
        instants = at_us[None], releases.at_us[None], releases.numbers[None]
        rows = np.concatenate((*instants, releases.amounts, releases.pools))
        self._rows = _rows_of(rows, len(releases.amounts))
        self._kept: list[tuple[Micros, int]] = []
        """When reservations start, and how many slots each takes."""
        self._fresh: list[Column] = []
        """Rows that are still to be sorted in, as `_Rows.whole`."""
        self._is_sorted = False
        self._windows: list[View] = []
        self._views: dict[Micros, View] = {}
        """What is free at other instants, as far as it was asked for; until that may change."""

    @property
    def has_reservations(self) -> bool:
        """Whether anything is reserved."""
        return len(self._starts) > 1

    def reach(self, span_us: Micros) -> Micros:
        """Return the last start of a reservation within a span from now; now: there is none.

        Spans of equal reach see the same window.
        """
        return self._starts[self._inside(span_us) - 1]

    def _inside(self, span_us: Micros) -> int:
        return bisect_left(self._starts, _end(self.now_us, span_us))

    def window(self, span_us: Micros) -> View:
        """Return what is free from now on for so long."""
        size = self._inside(span_us)
        if size == 1:
            return self._free[0]
        if not self._windows:
            self._windows = [self._free[0]]
        while len(self._windows) < size:
            more = self._free[len(self._windows)]
            self._windows.append(_least(self._windows[-1], more))
        return self._windows[size - 1]

    def take(self, piece: Piece, span_us: Micros) -> None:
        """Give out what starts now."""
        end_us = _end(self.now_us, span_us)
        self._occupy(piece, self.now_us, end_us, end_us)

    def note(self, piece: Piece, span_us: Micros) -> None:
        """Note when something comes free that was given out before."""
        end_us = min(self.now_us + span_us, FAR)
        self._views.clear()
        self._fresh.append(self._release(piece, end_us, end_us))

    def reserve(self, piece: Piece, start_us: Micros, told_us: Micros, span_us: Micros) -> None:
        """Keep amounts from a later instant on.

        Args:
            piece: What is kept; it is free then, and for so long.
            start_us: As `earliest` gave it.
            told_us: As `earliest` gave it.
            span_us: For how long.
        """
        place = bisect_left(self._starts, start_us)
        if place == len(self._starts) or self._starts[place] != start_us:
            self._free.insert(place, self._view_at(start_us))
            self._starts.insert(place, start_us)
        end_us = _end(start_us, span_us)
        self._occupy(piece, start_us, end_us, min(told_us + span_us, end_us))
        self._kept.append((start_us, int(self._held(piece)[0].sum())))

    def earliest(
        self, span_us: Micros, slots: int, fits: Callable[[View], bool]
    ) -> tuple[Micros, Micros] | None:
        """Return the first instant after now from which a request fits for ``span_us``, or None.

        Args:
            span_us: For how long it runs.
            slots: The fewest slots that it takes; only spares useless looks.
            fits: Whether it fits on what is free throughout; monotone. Of the calls that say so
                the last is about the instant that is returned.

        Returns:
            The instant for `reserve`, and as people are told.
        """
        instants, told = self._instants(slots, span_us)
        if not len(instants):
            return None
        edges = self._groups(instants, span_us)
        for low, high in pairwise(edges):
            found = self._first(instants, low, high - 1, span_us, fits)
            if found is not None:
                return int(instants[found]), int(told[found])
        return None

    def view(self, start_us: Micros, span_us: Micros) -> View:
        """Return what is free throughout an interval that begins at a later instant."""
        view = self._view_at(start_us)
        first = bisect_right(self._starts, start_us)
        for more in self._free[first : bisect_left(self._starts, _end(start_us, span_us))]:
            view = _least(view, more)
        return view

    def _groups(self, instants: Column, span_us: Micros) -> list[int]:
        """Return where instants begin whose intervals hold other starts of reservations than the
        one before, and their number. In a group all hold the same, so what is free grows.
        """
        if len(self._starts) == 1:
            return [0, len(instants)]
        starts = np.asarray(self._starts, np.int64)
        before = starts.searchsorted(instants, "right")
        ends = instants + span_us if span_us < FAR else instants * 0 + _NEVER
        inside = starts.searchsorted(ends, "left")
        is_new = (before[1:] != before[:-1]) | (inside[1:] != inside[:-1])
        return [0, *(is_new.nonzero()[0] + 1).tolist(), len(instants)]

    def _first(
        self,
        instants: Column,
        low: int,
        high: int,
        span_us: Micros,
        fits: Callable[[View], bool],
    ) -> int | None:
        """Return the first place in ``low..high`` that fits, where all later ones fit too."""

        def holds(place: int) -> bool:
            return fits(self.view(int(instants[place]), span_us))

        if holds(low):
            return low
        if low == high or not holds(high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if holds(middle):
                high = middle
            else:
                low = middle
        return high

    def _instants(self, slots: int, span_us: Micros) -> tuple[Column, Column]:
        """Return the instants at which something comes free and enough slots stay free in all."""
        rows = self._sorted()
        if not len(rows.at_us):
            return rows.at_us, rows.told_us
        slots_now = int(np.maximum(self._free[0].ground.free[0], 0).sum())
        is_first = np.empty(len(rows.at_us), np.bool_)
        is_first[0] = True
        np.not_equal(rows.at_us[1:], rows.at_us[:-1], out=is_first[1:])
        is_first &= (rows.at_us > self.now_us) & (rows.at_us < _NEVER)
        instants, told = rows.whole[:2, is_first]
        if slots_now >= slots and not self._kept:
            return instants, told  # and more comes free only
        at_us, sums = self._slots_over_time(rows)
        is_short = sums < slots - slots_now
        is_short[:-1] &= at_us[1:] != at_us[:-1]
        short = at_us[is_short]
        if not len(short):
            return instants, told
        short = np.append(short, _NEVER + FAR)
        usable = short[short.searchsorted(instants, "left")] >= instants + span_us
        return instants[usable], told[usable]

    def _slots_over_time(self, rows: "_Rows") -> tuple[Column, Column]:
        """Return instants, rising, and how many slots more than now are free behind each."""
        if not self._kept:
            return rows.at_us, rows.amounts[0].cumsum()
        kept_at = np.asarray([at_us for at_us, _ in self._kept], np.int64)
        kept = np.asarray([-size for _, size in self._kept], np.int64)
        at_us = np.concatenate((rows.at_us, kept_at))
        order = at_us.argsort(kind="stable")
        return at_us[order], np.concatenate((rows.amounts[0], kept))[order].cumsum()

    def _sorted(self) -> "_Rows":
        """Return all rows by their instant."""
        if self._fresh or not self._is_sorted:
            rows = self._rows.whole
            if self._fresh:
                rows = np.concatenate((rows, *self._fresh), axis=1)
            order = np.lexsort(rows[1::-1])
            self._rows = _rows_of(rows.take(order, axis=1), len(self._totals))
            self._fresh, self._is_sorted = [], True
        return self._rows

    def _view_at(self, at_us: Micros) -> View:
        """Return what is free at an instant."""
        known = self._views.get(at_us)
        if known is not None:
            return known
        rows, place = self._sorted(), bisect_right(self._starts, at_us) - 1
        base = self._free[place]
        low = int(rows.at_us.searchsorted(self._starts[place], "right"))
        high = int(rows.at_us.searchsorted(at_us, "right"))
        free = base.ground.free.copy()
        np.add.at(free.T, rows.numbers[low:high], rows.amounts[:, low:high].T)
        pools = dict(base.pools)
        if pools:
            more = rows.pools[:, low:high].sum(axis=1).tolist()
            pools = {
                name: value + extra
                for (name, value), extra in zip(pools.items(), more, strict=True)
            }
        ground = base.ground
        empty = free[0] >= self._totals[0]
        view = View(Ground(free, empty, ground.where, ground.word_row, pools=pools), pools)
        if len(self._views) * free.nbytes >= VIEWS_BYTES_MAX:
            self._views.clear()
        self._views[at_us] = view
        return view

    def _held(self, piece: Piece) -> Column:
        """Return what an attempt keeps others from: all slots of hosts that it has for itself."""
        if not piece.exclusive:
            return piece.amounts
        amounts = piece.amounts.copy()
        amounts[0] = self._totals[0, piece.numbers]
        return amounts

    def _occupy(self, piece: Piece, start_us: Micros, end_us: Micros, told_us: Micros) -> None:
        self._windows.clear()
        self._views = {at_us: view for at_us, view in self._views.items() if at_us < start_us}
        first = bisect_left(self._starts, start_us)
        for ground, pools in self._free[first : bisect_left(self._starts, end_us)]:
            ground.take(piece.numbers, piece.amounts, exclusive=piece.exclusive)
            for name, value in piece.pools.items():
                pools[name] = pools.get(name, 0) - value
        self._fresh.append(self._release(piece, end_us, told_us))

    def _release(self, piece: Piece, end_us: Micros, told_us: Micros) -> Column:
        names, behind = self._free[0].pools, _AMOUNTS + len(self._totals)
        rows = np.zeros((behind + len(names), len(piece.numbers)), np.int64)
        rows[0], rows[1], rows[2] = end_us, told_us, piece.numbers
        rows[_AMOUNTS:behind] = self._held(piece)
        if piece.pools:
            rows[behind:, 0] = [piece.pools.get(name, 0) for name in names]
        return rows


class _Rows(NamedTuple):
    """What comes free, as `Releases`, with the instant for planning and the one that is told."""

    whole: Column
    """All columns one below the other; the others are parts of it, in this order."""
    at_us: Column
    told_us: Column
    numbers: Column
    amounts: Column
    pools: Column


def _rows_of(rows: Column, resources: int) -> _Rows:
    behind = _AMOUNTS + resources
    return _Rows(rows, rows[0], rows[1], rows[2], rows[_AMOUNTS:behind], rows[behind:])


def _planned(expected_us: Column, now_us: Micros) -> Column:
    """Return instants after now. What is overdue ends any moment, in the order of its instants."""
    overdue = expected_us <= now_us
    if not overdue.any():
        return expected_us
    places = overdue.nonzero()[0]
    places = places[expected_us[places].argsort(kind="stable")]
    late_us = expected_us[places]
    rank = np.zeros(len(places), np.int64)
    (late_us[1:] != late_us[:-1]).cumsum(out=rank[1:])
    planned = expected_us.copy()
    planned[places] = now_us + 1 + rank
    return planned


def _least(one: View, other: View) -> View:
    """Return what is free in both."""
    pools = {name: min(value, other.pools[name]) for name, value in one.pools.items()}
    return View(one.ground.least(other.ground, pools), pools)
