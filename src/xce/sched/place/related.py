"""All parts of a request whose relations must hold: domain by domain, all or nothing.

First domains are chosen and the parts that must lie in them placed at once, the widest domain
first, the best fit first, a few of them at each step. Where that finds nothing every choice of
domains is tried in turn, with an exact search (`xce.sched.place.search`) inside each, within bounds
that are counts; `Trail.is_cut` says that one was hit. Domains that could not hold what must lie in
them are never tried (`xce.sched.place.narrow`).
"""

import copy
from collections.abc import Iterator, Sequence
from itertools import islice, permutations
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from xce.sched.devices import PLENTY, device_room
from xce.sched.place.capacity import room_on
from xce.sched.place.compound import (
    ORDERS_MAX,
    Candidates,
    Laid,
    alike,
    amounts_with_devices,
    join,
    parts_are_apart,
    search_all,
)
from xce.sched.place.domains import Trail
from xce.sched.place.narrow import Demand, Rooms, bounds_of, good_domains, narrow
from xce.sched.place.search import STEPS_MAX, CutError, Steps
from xce.sched.place.simple import find_simple
from xce.sched.shape import Shape
from xce.sched.ties import Bond, Fabric, Wish
from xce.state.hosts import Column, Flags

WIDTH_MAX: Final = 6
"""Domains that are tried for a relation when parts are placed at once (``search.width``)."""
EXACT_HOSTS: Final = 64
"""On more hosts the exact search has fewer steps, since each costs more and settles less."""
TRIES_MAX: Final = 200
"""Parts that are placed at once in all (``search.steps`` of the first way)."""
MANY_HOSTS: Final = 1_000
"""On more of them fewer parts are placed at once."""
WORK_MAX: Final = 40_000_000
"""Hosts that are looked at while every choice is tried: parts times hosts, for each choice."""
NODES_MIN: Final = 16
NODES_MAX: Final = 20_000
"""Choices of a domain that are tried in all."""


Placed: TypeAlias = dict[int, tuple[Column, Column]]
"""By part: its hosts in rank order, and the tasks on each."""


class Puzzle(NamedTuple):
    """What is to be placed, and what must hold."""

    shapes: tuple[Shape, ...]
    free: Column
    masks: tuple[Flags, ...]
    ranked: tuple[Column, ...]
    wish: Wish


def find_related(
    whole: Shape,
    fabric: Fabric,
    free: Column,
    places: Candidates,
    wishes: tuple[Wish, Sequence[Sequence[Wish]]],
    trail: Trail,
    steps: Steps | None = None,
) -> Laid | None:
    """Return a placement of all parts for which what is required holds, or None.

    Of what is preferred, the heaviest first, each is met if those before it allow it, at the first
    level at which it can be.

    Args:
        whole: What is placed.
        fabric: What its relations ask.
        free: What is free.
        places: Where the parts may go.
        wishes: What is required; then of each that is preferred its ways, the best one first.
        trail: Hears of a search that gave up.
        steps: The bound, where several searches share it; None: this one has its own.
    """
    if steps is None:
        steps = Steps(STEPS_MAX if len(whole.allowed) <= EXACT_HOSTS else STEPS_MAX // 6)
    required, preferred = wishes
    for masks in alike(whole, places):
        puzzle = Puzzle(whole.inner, free, masks, places.ranked, required)
        laid = _solve(whole, puzzle, trail, steps)
        if laid is None:
            continue
        for ways in preferred:
            for way in ways:
                better = puzzle._replace(wish=puzzle.wish.joined(way))
                found = _solve(whole, better, Trail(), Steps())
                if found is not None:
                    puzzle, laid = better, found
                    break
        return in_rank_order(whole, fabric, laid)
    return None


def _solve(whole: Shape, puzzle: Puzzle, trail: Trail, steps: Steps) -> Laid | None:
    masks = list(puzzle.masks)
    for part, mask in puzzle.wish.masks:
        masks[part] = masks[part] & mask
    puzzle = puzzle._replace(masks=tuple(masks))
    search = _Search(whole, puzzle, trail, steps)
    if not search.is_open:
        return None
    return search.at_once() or search.everything()


class _Search:
    """The search for one placement."""

    def __init__(self, whole: Shape, puzzle: Puzzle, trail: Trail, steps: Steps) -> None:
        self.whole, self.puzzle, self.trail, self.steps = whole, puzzle, trail, steps
        self.shapes = list(puzzle.shapes)
        """Of the parts; one that keeps to a NVLink domain sees no other GPUs."""
        self.links: dict[int, int] = {}
        """By part: the NVLink domain to which it keeps."""
        self.quotas = puzzle.wish.quotas
        self.demands = [
            Demand(shape.tasks_min, shape.per_task, shape.is_single) for shape in self.shapes
        ]
        self.floor = np.maximum(puzzle.free, 0)
        caps = tuple(self._cap(part, puzzle.free, mask) for part, mask in enumerate(puzzle.masks))
        for bond in puzzle.wish.bonds:
            caps = self._within_links(bond, caps) if bond.is_linked else caps
        narrow_first = sorted(puzzle.wish.bonds, key=lambda bond: -bond.width)
        self.by_width = tuple(narrow_first)
        found = narrow(self.demands, Rooms(caps, self.floor), self.by_width, self.quotas)
        self.is_open = found is not None
        self.caps = caps if found is None else found
        self.tightness = [
            (int(cap.sum()) * 1000 // shape.tasks_min, part)
            for part, (cap, shape) in enumerate(zip(self.caps, self.shapes, strict=True))
        ]
        self.order = _nested(puzzle.wish.bonds, self.tightness)
        self.last = {part: number for number, bond in enumerate(self.order) for part in bond.parts}
        """By part: the bond after which nothing more is decided about it."""
        self.tries = 0
        size = max(1, len(self.shapes) * len(self.floor[0]))
        self.nodes = max(NODES_MIN, min(NODES_MAX, WORK_MAX // size // 8))
        self.dead: set[bytes] = set()

    def _cap(self, part: int, free: Column, mask: Flags) -> Column:
        """Return how many tasks of a part each host can take."""
        room = room_on(self.shapes[part], free, mask, self.puzzle.ranked[part])
        cap = np.zeros(len(mask), np.int64)
        cap[room.numbers] = room.most
        return cap

    def _within_links(self, bond: Bond, caps: tuple[Column, ...]) -> tuple[Column, ...]:
        """Return what hosts can take of parts whose GPUs are in one NVLink domain."""
        found = list(caps)
        for part in bond.parts:
            gpu = self.shapes[part].gpu
            if gpu is None:
                continue
            largest = device_room(gpu, self.puzzle.free).largest
            if gpu.wish.per == "task":
                found[part] = np.minimum(found[part], largest // gpu.wish.count)
            else:
                found[part] = np.where(largest >= gpu.wish.count, found[part], 0)
        return tuple(found)

    def _links_of(self, bond: Bond, number: int, free: Column) -> Iterator[None]:
        """Let the parts of a bond keep to one NVLink domain of a host after the other.

        Those with the fewest free GPUs come first. A bond that is about hosts has one way.
        """
        gpus = [(part, gpu) for part in bond.parts if (gpu := self.shapes[part].gpu) is not None]
        if not bond.is_linked or not gpus:
            yield
            return
        before, links = list(self.shapes), dict(self.links)
        counts = device_room(gpus[0][1], free).domains[number]
        for link in np.argsort(counts, kind="stable").tolist():
            if not counts[link]:
                continue
            for part, gpu in gpus:
                self.shapes[part] = copy.copy(before[part])
                self.shapes[part].gpu = gpu._replace(match=gpu.match & (gpu.link == link))
                self.links[part] = link
            yield
            self.shapes, self.links = list(before), dict(links)

    # Parts are placed at once.

    def at_once(self) -> Laid | None:
        """Return a placement found by placing parts as soon as their domains are chosen."""
        masks = [cap > 0 for cap in self.caps]
        given = self.puzzle
        for ranked in (given.ranked, self._tightest_first()):
            self.puzzle = given._replace(ranked=ranked)
            self.shapes, self.links = list(given.shapes), {}
            self.tries = TRIES_MAX if len(self.floor[0]) <= MANY_HOSTS else TRIES_MAX // 4
            found = self._bond(0, masks, given.free, {})
            laid = None if found is None else join(found)
            if laid is not None and parts_are_apart(self.shapes, given.free, laid):
                return self._laid(laid)
        self.puzzle = given
        return None

    def _tightest_first(self) -> tuple[Column, ...]:
        """Return hosts so that those with the least room for all parts together come first."""
        room = np.sum(self.caps, axis=0)
        order = np.argsort(np.where(room > 0, room, PLENTY), kind="stable")
        return (order,) * len(self.caps)

    def _laid(self, laid: Laid) -> Laid:
        return laid._replace(links=tuple(sorted(self.links.items())))

    def _bond(self, number: int, masks: list[Flags], free: Column, placed: Placed) -> Placed | None:
        if number == len(self.order):
            rest = [part for part in range(len(self.shapes)) if part not in placed]
            return self._place(rest, masks, free, placed, None)
        bond = self.order[number]
        for domain in islice(self._candidates(bond, masks, free), WIDTH_MAX):
            inside = bond.codes == domain
            narrower = list(masks)
            for part in bond.parts:
                narrower[part] = masks[part] & inside
            ready = [part for part in bond.parts if self.last[part] == number]
            for _ in self._links_of(bond, domain, free):
                self.tries -= 1
                found = self._place(ready, narrower, free, placed, number + 1)
                if found is not None or self.tries <= 0:
                    return found
        return None

    def _candidates(self, bond: Bond, masks: list[Flags], free: Column) -> Iterator[int]:
        """Yield the domains that could hold the parts of a bond, the best fit first."""
        caps: list[Column] = [np.zeros(0, np.int64)] * len(self.shapes)
        for part in bond.parts:
            caps[part] = self._cap(part, free, masks[part])
        good = good_domains(bond, self.demands, caps, np.maximum(free, 0), self.quotas)
        yield from self._in_order(bond, good, caps)

    def _in_order(self, bond: Bond, good: Flags, caps: Sequence[Column]) -> list[int]:
        over = np.zeros(bond.width, np.int64)
        for part in bond.parts:
            over += bounds_of(part, bond, self.demands[part], caps[part], ())
        domains = np.flatnonzero(good)
        best = np.full(bond.width, len(bond.codes), np.int64)
        first = bond.parts[0]
        ranked = self.puzzle.ranked[first]
        ranked = ranked[(bond.codes[ranked] >= 0) & (caps[first][ranked] > 0)]
        np.minimum.at(best, bond.codes[ranked], np.arange(len(ranked)))
        chosen: list[int] = domains[np.lexsort((best[domains], over[domains]))].tolist()
        return chosen

    def _place(
        self,
        ready: list[int],
        masks: list[Flags],
        free: Column,
        placed: Placed,
        following: int | None,
    ) -> Placed | None:
        """Place parts one after the other, in a few orders, and go on with the next bond."""
        tight = sorted(ready, key=lambda part: self.tightness[part])
        for order in islice(permutations(tight), ORDERS_MAX):
            if self.tries <= 0:
                return None
            found, left = dict(placed), free.copy()
            if all(self._lay(part, masks[part], left, found) for part in order):
                done = found if following is None else self._bond(following, masks, left, found)
                if done is not None:
                    return done
        return None

    def _lay(self, part: int, mask: Flags, left: Column, placed: Placed) -> bool:
        """Place one part on what is left."""
        self.tries -= 1
        shape = self.shapes[part]
        room = room_on(shape, left, mask, self.puzzle.ranked[part])
        for quota in self.quotas:
            if part not in quota.parts:
                continue
            budget = np.full(int(quota.codes.max(initial=-1)) + 1, quota.most, np.int64)
            for other in quota.parts:
                if other in placed:
                    numbers, sizes = placed[other]
                    np.subtract.at(budget, quota.codes[numbers], sizes)
            room = room.within(quota.codes[room.numbers] >= 0)
            most = _within_budget(quota.codes[room.numbers], room.most, budget)
            first = np.minimum(room.first, most)
            room = room._replace(later=np.minimum(room.later, most), first=first)
            room = room.within(most > 0)
        found = find_simple(shape, room, shape.tasks_max, Trail())
        if found is None:
            return False
        amounts = amounts_with_devices(shape, found, left)
        if amounts is None:
            return False
        left[:, found[0]] -= amounts
        placed[part] = found
        return True

    # Every choice is tried.

    def everything(self) -> Laid | None:
        """Return a placement if there is one within the bounds."""
        order = sorted(range(len(self.shapes)), key=lambda part: self.tightness[part])
        # The first way may have ended in the middle of a choice.
        self.shapes, self.links = list(self.puzzle.shapes), {}
        try:
            return self._choose(0, list(self.caps), order)
        except CutError:
            self.trail.is_cut = True
            return None

    def _choose(self, number: int, caps: list[Column], order: list[int]) -> Laid | None:
        if number == len(self.order):
            return self._pack(caps, order)
        bond = self.order[number]
        floor, rest = self.floor, self.order[number + 1 :]
        good = good_domains(bond, self.demands, caps, floor, self.quotas)
        for domain in self._in_order(bond, good, caps):
            self.nodes -= 1
            if self.nodes < 0:
                raise CutError
            inside = bond.codes == domain
            chosen = list(caps)
            for part in bond.parts:
                chosen[part] = np.where(inside, caps[part], 0)
            for _ in self._links_of(bond, domain, self.puzzle.free):
                key = self._signature(number, chosen)
                if key in self.dead:
                    continue
                by_width = sorted(rest, key=lambda item: -item.width)
                rooms = Rooms(tuple(chosen), floor)
                narrowed = narrow(self.demands, rooms, by_width, self.quotas)
                if narrowed is not None:
                    found = self._choose(number + 1, list(narrowed), order)
                    if found is not None:
                        return found
                self.dead.add(key)
        return None

    def _signature(self, number: int, caps: list[Column]) -> bytes:
        """Return bytes that are equal for choices which differ in the names of domains only."""
        used = np.flatnonzero(np.any([cap > 0 for cap in caps], axis=0))
        rows = [np.asarray([number, len(used)], np.int64), self.puzzle.free[:, used].ravel()]
        rows += [cap[used] for cap in caps]
        codes = [bond.codes for bond in self.order] + [quota.codes for quota in self.quotas]
        for shape in self.shapes:
            codes += [column for column in (shape.groups, shape.domains) if column is not None]
            plain = (shape.tiles, shape.ceilings)
            rows += [column[used] for column in plain if column is not None]
            if shape.processors is not None:
                rows.append(shape.processors.codes[used])
            if shape.leads is not None:
                rows.append(shape.leads[used].astype(np.int64))
            if shape.gpu is not None:
                # Its devices differ from host to host in more than is free of them.
                rows.append(used)
        rows.append(np.asarray(sorted(self.links.items()), np.int64).ravel())
        for column in codes:
            _, begins, back = np.unique(column[used], return_index=True, return_inverse=True)
            rows.append(begins[back])
        return b"".join(np.ascontiguousarray(row, np.int64).tobytes() for row in rows)

    def _pack(self, caps: list[Column], order: list[int]) -> Laid | None:
        """Return a placement of parts whose domains are all chosen."""
        masks = tuple(cap > 0 for cap in caps)
        rooms = [
            room_on(shape, self.puzzle.free, mask, ranked)
            for shape, mask, ranked in zip(self.shapes, masks, self.puzzle.ranked, strict=True)
        ]
        if any(
            int(room.most.sum()) < shape.tasks_min
            for room, shape in zip(rooms, self.shapes, strict=True)
        ):
            return None
        own, whole = Trail(), copy.copy(self.whole)
        whole.inner = tuple(self.shapes)
        found = search_all(whole, self.puzzle.free, rooms, order, own, self.steps, self.quotas)
        self.trail.is_cut = self.trail.is_cut or (own.is_cut and found is None)
        if found is None and self.steps.left < 0:
            raise CutError
        return None if found is None else self._laid(found)


def _within_budget(codes: Column, later: Column, budget: Column) -> Column:
    """Return what hosts may take so that none of their domains gets more than its budget.

    Hosts in front take first.
    """
    order = np.argsort(codes, kind="stable")
    sorted_codes, values = codes[order], later[order]
    before = np.cumsum(values) - values
    _, begins, back = np.unique(sorted_codes, return_index=True, return_inverse=True)
    own = before - before[begins][back] if len(values) else before
    allowed = np.clip(budget[sorted_codes] - own, 0, values)
    found = np.empty_like(later)
    found[order] = allowed
    return found


def _nested(bonds: Sequence[Bond], tightness: Sequence[tuple[int, int]]) -> tuple[Bond, ...]:
    """Return bonds so that wide ones come first, each followed by those inside it."""

    def key(bond: Bond) -> tuple[int, int, tuple[int, ...]]:
        return bond.width, min(tightness[part][0] for part in bond.parts), bond.parts

    left = sorted(bonds, key=key)
    order: list[Bond] = []

    def take(bond: Bond) -> None:
        order.append(bond)
        left[:] = [item for item in left if item is not bond]
        for inner in [item for item in left if not set(item.parts).isdisjoint(bond.parts)]:
            if any(item is inner for item in left):
                take(inner)

    while left:
        take(left[0])
    return tuple(order)


def in_rank_order(whole: Shape, fabric: Fabric, laid: Laid) -> Laid:
    """Return a placement whose entries stand domain by domain, role by role in each.

    Where a part's first host carries more than others it stays its first.
    """
    keys: list[Column] = []
    for codes in (*fabric.levels, np.arange(len(whole.allowed))):
        mine = codes[laid.numbers]
        _, begins, back = np.unique(mine, return_index=True, return_inverse=True)
        keys.append(begins[back])
    order = np.lexsort((laid.parts, *reversed(keys)))
    found = Laid(laid.numbers[order], laid.sizes[order], laid.parts[order], laid.links)
    for part, shape in enumerate(whole.inner):
        if (shape.per_first != shape.per_host).any() or shape.gpu is not None:
            before = laid.numbers[laid.parts == part][0]
            if found.numbers[found.parts == part][0] != before:
                return laid
    return found
