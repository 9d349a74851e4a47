"""Processors of several parts of a request on one host.

Parts are placed one after the other in every order (of up to `ORDERED_MAX` on a host), which finds
all that there is where units of one kind are anywhere alike. Where that finds nothing, every way to
give units to tasks is tried within a bound; a hit on it is told.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice, permutations
from typing import Final, NamedTuple, TypeAlias

from xce.model.processor import Layout, join_words, words_of
from xce.resreq.ast import Affinity
from xce.sched.processor_room import ProcessorShape
from xce.sched.processors import (
    choices,
    count_choices,
    held_by,
    is_exclusive,
    place_tasks,
    pools_of,
    units_in,
)
from xce.state.hosts import Column

ORDERS_MAX: Final = 120
"""So many orders of the parts are tried: all of five."""
STEPS_MAX: Final = 20_000
"""Most ways for a task that are looked at in one search for a placement."""
TRIES_MAX: Final = 100_000
"""And most sets of domains that ``pack(level=n)`` tries in the orders of all hosts."""

Wants: TypeAlias = tuple[tuple[int, int], ...]
"""Parts, and how many tasks of each."""
Units: TypeAlias = tuple[list[int], ...]
"""Of each part: the units of each of its tasks."""


class _Ask(NamedTuple):
    wish: Affinity
    tasks: int


class Mix:
    """What is found out in one search for a placement.

    Args:
        shapes: What each part wants; None: any processors.
        free: What is free, along all rows and hosts.
    """

    def __init__(self, shapes: Sequence[ProcessorShape | None], free: Column) -> None:
        self._shapes, self._free = shapes, free
        self._known: dict[tuple[Wants, Layout, int], Units | None] = {}
        self._left, self._tries = STEPS_MAX, TRIES_MAX
        self.is_cut = False
        """The bound was hit."""

    @property
    def matters(self) -> bool:
        """Whether any part wants certain processors."""
        return any(shape is not None for shape in self._shapes)

    def place(self, number: int, wants: Wants) -> Units | None:
        """Return the units of the tasks of some parts on a host; None: they do not fit together.

        Args:
            number: The host.
            wants: The parts, all of which want certain processors.
        """
        found = [(shape, tasks) for part, tasks in wants if (shape := self._shapes[part])]
        if not found:
            return ()
        shape = found[0][0]
        code = int(shape.codes[number])
        if code < 0:
            return None
        layout = shape.layouts[code]
        free = join_words(self._free[shape.row : shape.row + shape.words, number].tolist())
        key = wants, layout, free & layout.all
        if key not in self._known:
            asks = [_Ask(shape.wish, tasks) for shape, tasks in found]
            self._known[key] = self._place(asks, layout, free & layout.all)
        return self._known[key]

    def fits(self, number: int, sizes: Sequence[tuple[int, int]]) -> bool:
        """Return whether tasks of some parts fit on a host together, as far as this matters."""
        wants = tuple((part, tasks) for part, tasks in sizes if self._shapes[part] is not None)
        return len(wants) < 2 or self.place(number, wants) is not None

    def bind(
        self, numbers: Sequence[int], sizes: Sequence[int], parts: Sequence[int]
    ) -> list[list[int]] | None:
        """Return the processors of each entry of a placement, as a record holds them.

        None: they do not fit together.
        """
        found: list[list[int]] = [[] for _ in numbers]
        at: dict[int, list[int]] = {}
        for place, (number, part) in enumerate(zip(numbers, parts, strict=True)):
            if self._shapes[part] is not None:
                at.setdefault(number, []).append(place)
        for number, places in at.items():
            units = self.place(number, tuple((parts[place], sizes[place]) for place in places))
            if units is None:
                return None
            for place, tasks in zip(places, units, strict=True):
                found[place] = _words(self._shapes[parts[place]], number, tasks)
        return found

    def _place(self, asks: Sequence[_Ask], layout: Layout, free: int) -> Units | None:
        cost = sum(count_choices(ask.wish, layout) for ask in asks)
        for order in islice(permutations(range(len(asks))), ORDERS_MAX):
            if cost > self._tries:
                self.is_cut = True
                return None
            self._tries -= cost
            found = _in_order(asks, order, layout, free)
            if found is not None:
                return found
        if len(asks) < 2:
            return None
        if all(map(_is_plain, asks)) and len({ask.wish.unit for ask in asks}) == 1:
            return None
        search = _Search(asks, layout, self._left)
        units = search.run(free)
        self._left = max(0, search.left)
        self.is_cut = self.is_cut or (units is None and search.left < 0)
        return units


def _words(shape: ProcessorShape | None, number: int, tasks: Sequence[int]) -> list[int]:
    assert shape is not None, "no processors are wanted"
    layout = shape.layouts[int(shape.codes[number])]
    held = held_by(shape.wish, layout, tasks)
    return [word for mask in (held, *tasks) for word in words_of(mask, shape.words)]


def _is_plain(ask: _Ask) -> bool:
    """Return whether any units do that nobody has."""
    return not (ask.wish.same or ask.wish.distribute_count or is_exclusive(ask.wish))


def _in_order(
    asks: Sequence[_Ask], order: Sequence[int], layout: Layout, free: int
) -> Units | None:
    found: list[list[int]] = [[] for _ in asks]
    used = 0
    for place in order:
        wish, tasks = asks[place]
        mine = place_tasks(wish, layout, free & ~_barred(wish, layout, used), tasks)
        if len(mine) < tasks:
            return None
        found[place] = mine
        used = functools.reduce(int.__or__, mine, used)
        free &= ~_closed_by(wish, layout, mine)
    return tuple(found)


def are_apart(
    shapes: Sequence[ProcessorShape | None],
    free: Column,
    numbers: Sequence[int],
    sizes: Sequence[int],
    parts: Sequence[int],
) -> bool:
    """Return whether no part has anything of what another one has for itself within the job.

    That is all that is open of a placement whose parts were given processors one after the other.

    Args:
        shapes: What each part wants; None: any processors.
        free: What is free, along all rows and hosts.
        numbers: Hosts of the placement.
        sizes: Tasks of each entry.
        parts: The part of each entry.
    """
    if not any(shape is not None and _keeps_job_out(shape.wish) for shape in shapes):
        return True
    return Mix(shapes, free).bind(numbers, sizes, parts) is not None


def _keeps_job_out(wish: Affinity) -> bool:
    """Return whether tasks have domains of which other tasks of the job, and they alone, get
    nothing.
    """
    return is_exclusive(wish) and wish.scope == "injob"


def _barred(wish: Affinity, layout: Layout, used: int) -> int:
    """Return which processors tasks cannot have beside ``used``, the units of other parts."""
    return layout.around(used, wish.exclusive) if _keeps_job_out(wish) else 0


def _closed_by(wish: Affinity, layout: Layout, tasks: Sequence[int]) -> int:
    """Return what the tasks of other parts cannot have beside some of this one."""
    held = held_by(wish, layout, tasks)
    return layout.around(held, wish.exclusive) if _keeps_job_out(wish) else held


class _Search:
    """Every way to give units to tasks, within a bound."""

    def __init__(self, asks: Sequence[_Ask], layout: Layout, left: int) -> None:
        self.asks, self.layout, self.left = asks, layout, left
        self.dead: set[tuple[int, int, int, int, int]] = set()
        self.knows_used = any(_keeps_job_out(ask.wish) for ask in asks)
        self.found: list[list[int]] = [[] for _ in asks]

    def run(self, free: int) -> Units | None:
        """Return the units of each part; None: there are none, or ``left`` is negative."""
        return tuple(self.found) if self._part(0, free, 0) else None

    def _part(self, place: int, free: int, used: int) -> bool:
        if place == len(self.asks):
            return True
        wish = self.asks[place].wish
        spaces = choices(wish, self.layout, free) if wish.distribute_count else [free]
        return any(self._task(place, 0, free, within, used) for within in spaces)

    def _task(self, place: int, done: int, free: int, within: int, used: int) -> bool:
        wish, tasks = self.asks[place]
        if done == tasks:
            return self._part(place + 1, free, used)
        state = (place, done, free, within & free, used if self.knows_used else 0)
        if state in self.dead:
            return False
        within &= ~_barred(wish, self.layout, used)
        for way in self._ways(wish, free, within & free):
            self.left -= 1
            if self.left < 0:
                return False
            self.found[place].append(way)
            left = free & ~_closed_by(wish, self.layout, [way])
            if self._task(place, done + 1, left, within, used | way):
                return True
            self.found[place].pop()
        self.dead.add(state)
        return False

    def _ways(self, wish: Affinity, free: int, within: int) -> Iterator[int]:
        """Yield the sets of units that a task may have."""
        groups: Callable[[], Iterator[int]] = functools.partial(self._groups, wish, within)
        for some in combinations(groups(), wish.repeat) if wish.repeat > 1 else zip(groups()):
            way = functools.reduce(int.__or__, some)
            if way.bit_count() == sum(map(int.bit_count, some)) and self._may_be(wish, free, way):
                yield way

    def _groups(self, wish: Affinity, within: int) -> Iterator[int]:
        for pool in pools_of(wish, self.layout):
            units = units_in(self.layout, wish.unit, pool & within)
            for some in combinations(units, wish.count):
                yield functools.reduce(int.__or__, some)

    def _may_be(self, wish: Affinity, free: int, way: int) -> bool:
        if not is_exclusive(wish):
            return True
        if wish.scope == "injob":
            return True
        if wish.scope != "intask":
            around = self.layout.around(way, wish.exclusive)
            return around & free == around
        units = [unit for unit in self.layout.domains[wish.unit] if unit & way]
        domains = self.layout.domains[wish.exclusive]
        return all(sum(bool(unit & domain) for unit in units) < 2 for domain in domains)
