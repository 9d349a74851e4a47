"""All parts of a compound request at once, all or nothing.

Parts may share a host; each lies as its own request says. First they are placed one after the
other, the tightest first, in a few orders. If none of these works, `xce.sched.place.search` tries
everything within its bound. `Trail.is_cut` says that the bound was hit.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, permutations, product
from typing import Final, NamedTuple

import numpy as np

from xce.sched.devices import amounts_of, pick_for_entries, rows_of_devices
from xce.sched.place.capacity import Room, room_on
from xce.sched.place.domains import EXACT_DOMAINS, Trail
from xce.sched.place.search import ROWS_MAX, Cap, CutError, Part, Share, Steps, search
from xce.sched.place.simple import find_simple, lie_of, most_of, pieces_of
from xce.sched.processor_mix import Mix, are_apart
from xce.sched.processor_room import pick_processors
from xce.sched.shape import Shape
from xce.sched.ties import Quota
from xce.state.hosts import Column, Flags

ORDERS_MAX: Final = 6
"""So many orders of the parts are tried before the search."""
VARIANTS_MAX: Final = 64
"""So many choices of groups of hosts and domains for the parts are searched."""


class Laid(NamedTuple):
    """A placement: hosts in rank order, part by part; a host may stand in several entries."""

    numbers: Column
    sizes: Column
    parts: Column
    links: tuple[tuple[int, int], ...] = ()
    """Parts, and the NVLink domain of their host to which they keep."""


class Candidates(NamedTuple):
    """Where the parts may go."""

    masks: tuple[Flags, ...]
    """By part: the hosts on which a share of it is free."""
    ranked: tuple[Column, ...]
    """By part: all host numbers, the best one first."""


def find_compound(
    whole: Shape, free: Column, places: Candidates, trail: Trail, steps: Steps
) -> Laid | None:
    """Return a placement of all parts, or None."""
    for masks in alike(whole, places):
        found = _find(whole, free, Candidates(masks, places.ranked), trail, steps)
        if found is not None:
            return found
    return None


def alike(whole: Shape, places: Candidates) -> Iterator[tuple[Flags, ...]]:
    """Yield the hosts of each part, for each value of what all must have in common."""
    if whole.groups is None:
        yield places.masks
        return
    ranked = places.ranked[0]
    usable = np.logical_or.reduce(places.masks)
    codes = whole.groups[ranked[usable[ranked]]]
    _, begins = np.unique(codes, return_index=True)
    for code in codes[np.sort(begins)].tolist():
        if code >= 0:
            yield tuple(mask & (whole.groups == code) for mask in places.masks)


def _find(
    whole: Shape, free: Column, places: Candidates, trail: Trail, steps: Steps
) -> Laid | None:
    shapes = whole.inner
    rooms = _rooms(shapes, free, places)
    own = Trail()
    if any(
        most_of(shape, room, own) < shape.tasks_min
        for shape, room in zip(shapes, rooms, strict=True)
    ):
        trail.is_cut = trail.is_cut or own.is_cut
        return None
    if _exceeds(shapes, free, places):
        return None
    tightness = [
        int(room.most.sum()) / shape.tasks_min for shape, room in zip(shapes, rooms, strict=True)
    ]
    order = sorted(range(len(shapes)), key=lambda place: (tightness[place], place))
    hosts_max = whole.request.hosts_max
    for attempt in islice(permutations(order), ORDERS_MAX):
        found = _one_by_one(shapes, free, places, rooms, attempt)
        if found is None or 0 < hosts_max < len(np.unique(found.numbers)):
            continue
        if parts_are_apart(shapes, free, found):
            return found
    return search_all(whole, free, rooms, order, trail, steps)


def parts_are_apart(shapes: Sequence[Shape], free: Column, laid: Laid) -> bool:
    """Return whether no part has processors that another one has for itself within the job."""
    wanted = [shape.processors for shape in shapes]
    return are_apart(wanted, free, laid.numbers.tolist(), laid.sizes.tolist(), laid.parts.tolist())


def _exceeds(shapes: Sequence[Shape], free: Column, places: Candidates) -> bool:
    """Return whether all parts together want more than all of their hosts have."""
    usable = np.logical_or.reduce(places.masks)
    wanted: Column = np.add.reduce([shape.per_task * shape.tasks_min for shape in shapes])
    # Of the others some are words of sets of processors, which cannot be added up.
    rows = wanted.nonzero()[0]
    have = np.maximum(free[rows][:, usable], 0).sum(axis=1)
    return bool((wanted[rows] > have).any())


def _rooms(shapes: Sequence[Shape], free: Column, places: Candidates) -> list[Room]:
    return [
        room_on(shape, free, mask, ranked)
        for shape, mask, ranked in zip(shapes, places.masks, places.ranked, strict=True)
    ]


def _one_by_one(
    shapes: Sequence[Shape],
    free: Column,
    places: Candidates,
    rooms: Sequence[Room],
    order: tuple[int, ...],
) -> Laid | None:
    """Place the parts one after the other; ``rooms`` are what each finds if it is the first."""
    left = free.copy()
    columns: dict[int, tuple[Column, Column]] = {}
    for place in order:
        shape, room = shapes[place], rooms[place]
        if columns:
            room = room_on(shape, left, places.masks[place], places.ranked[place])
        found = find_simple(shape, room, shape.tasks_max, Trail())
        if found is None:
            return None
        columns[place] = found
        amounts = amounts_with_devices(shape, found, left)
        if amounts is None:
            return None
        left[:, found[0]] -= amounts
    return join(columns)


def amounts_with_devices(shape: Shape, found: tuple[Column, Column], free: Column) -> Column | None:
    """Return what an attempt takes with its GPUs and processors, along resources and its hosts;
    None: there are not enough.
    """
    amounts = amounts_on(shape, found[1])
    bind(shape, *found, free, amounts)
    if shape.gpu is not None:
        numbers, sizes = found[0].tolist(), found[1].tolist()
        devices = pick_for_entries((shape.gpu,), numbers, sizes, (), free)
        if devices is None:
            return None
        for place, picked in enumerate(devices):
            amounts[:, place] += amounts_of(shape.gpu, picked, len(free))
    return amounts


def bind(
    shape: Shape, numbers: Column, sizes: Column, free: Column, amounts: Column
) -> list[list[int]]:
    """Return the processors of each entry of a simple request, and add what it holds to its
    amounts.
    """
    wanted = shape.processors
    if wanted is None:
        return []
    found = []
    for place, (number, size) in enumerate(zip(numbers.tolist(), sizes.tolist(), strict=True)):
        left = free[wanted.row : wanted.row + wanted.words, number].copy()
        found.append(pick_processors(wanted, number, size, left))
        amounts[wanted.row : wanted.row + wanted.words, place] += found[-1][: wanted.words]
    return found


def amounts_on(shape: Shape, sizes: Column) -> Column:
    """Return what one attempt of a simple request takes, along resources and its hosts."""
    amounts: Column = shape.per_task[:, None] * sizes + shape.per_host[:, None]
    amounts[:, 0] += shape.per_first - shape.per_host
    return amounts


def join(columns: dict[int, tuple[Column, Column]]) -> Laid:
    """Return a placement of parts, one after the other."""
    places = sorted(columns)
    return Laid(
        np.concatenate([columns[place][0] for place in places]),
        np.concatenate([columns[place][1] for place in places]),
        np.repeat(places, [len(columns[place][0]) for place in places]),
    )


def search_all(
    whole: Shape,
    free: Column,
    rooms: list[Room],
    order: list[int],
    trail: Trail,
    steps: Steps,
    quotas: Sequence[Quota] = (),
) -> Laid | None:
    """Search everything within the bounds.

    Args:
        whole: What is placed.
        free: What is free.
        rooms: What each part may use.
        order: The parts, the tightest first.
        trail: Hears of a search that gave up.
        steps: The bound.
        quotas: How many tasks may lie in domains.
    """
    choices = [
        _variants(shape, room, trail) for shape, room in zip(whole.inner, rooms, strict=True)
    ]
    variants = list(islice(product(*choices), VARIANTS_MAX + 1))
    if len(variants) > VARIANTS_MAX:
        trail.is_cut = True
        variants.pop()
    for variant in variants:
        try:
            found = _search_variant(whole, free, list(variant), order, trail, steps, quotas)
        except CutError:
            trail.is_cut = True
            return None
        if found is not None:
            return found
    return None


def _variants(shape: Shape, room: Room, trail: Trail) -> list[Room]:
    """Return the rooms in which a part has nothing but amounts and ``span[]`` to obey."""
    wish = shape.request.cu
    found: list[Room] = []
    for piece in pieces_of(shape.groups, room):
        if wish is None:
            found.append(piece)
            continue
        if shape.domains is None:
            found.append(piece.within(piece.most >= max(wish.min_slots, 1)))
            continue
        _, of_host = np.unique(shape.domains[piece.numbers], return_inverse=True)
        usable = np.zeros(int(of_host.max(initial=-1)) + 1, np.int64)
        np.add.at(usable, of_host, piece.most)
        wide = np.flatnonzero(usable >= max(wish.min_slots, 1))
        wide = wide[np.argsort(-usable[wide], kind="stable")]
        most = min(wish.max_domains or len(wide), len(wide))
        if most < len(wide) and len(wide) > EXACT_DOMAINS:
            trail.is_cut = True
            wide = wide[:EXACT_DOMAINS]
        found += [
            piece.within(np.isin(of_host, chosen))
            for chosen in combinations(wide.tolist(), min(most, len(wide)))
        ]
    return found


def _search_variant(
    whole: Shape,
    free: Column,
    rooms: list[Room],
    order: list[int],
    trail: Trail,
    steps: Steps,
    quotas: Sequence[Quota],
) -> Laid | None:
    numbers = np.unique(np.concatenate([room.numbers[room.most > 0] for room in rooms]))
    if len(numbers) > ROWS_MAX:
        # Hosts that are the best for some part stay.
        best = [room.numbers[: ROWS_MAX // len(rooms)] for room in rooms]
        best += [room.numbers[room.first > room.later] for room in rooms]
        numbers = np.unique(np.concatenate(best))
        trail.is_cut = True
    parts = [_part(whole.inner[place], rooms[place], numbers) for place in order]
    mix = Mix([whole.inner[place].processors for place in order], free)
    parts, free = _with_devices([whole.inner[place] for place in order], parts, free)
    rows = np.flatnonzero(sum(np.abs(np.asarray(part[1:4])).sum(axis=0) for part in parts))
    parts = [
        part._replace(
            each=tuple(part.each[row] for row in rows.tolist()),
            once=tuple(part.once[row] for row in rows.tolist()),
            lead=tuple(part.lead[row] for row in rows.tolist()),
        )
        for part in parts
    ]
    columns = list(map(tuple, free[rows][:, numbers].T.tolist()))
    caps = [
        Cap(
            frozenset(order.index(part) for part in quota.parts),
            tuple(quota.codes[numbers].tolist()),
            quota.most,
        )
        for quota in quotas
    ]

    def fits(row: int, shares: Sequence[Share]) -> bool:
        return mix.fits(int(numbers[row]), [(share.part, share.tasks) for share in shares])

    try:
        shares = search(
            parts, columns, whole.request.hosts_max, steps, caps, fits if mix.matters else None
        )
    finally:
        trail.is_cut = trail.is_cut or mix.is_cut
    if shares is None:
        return None
    return join(
        {
            place: _entries(whole.inner[place], rooms[place], numbers, own)
            for rank, place in enumerate(order)
            for own in [[share for share in shares if share.part == rank]]
        }
    )


def _with_devices(
    shapes: Sequence[Shape], parts: list[Part], free: Column
) -> tuple[list[Part], Column]:
    """Return parts and what is free with rows that stand for the GPUs of hosts."""
    each, column = rows_of_devices([shape.gpu for shape in shapes], free)
    if not len(column):
        return parts, free
    more = [
        part._replace(
            each=part.each + tuple(own.per_task),
            once=part.once + tuple(own.per_host),
            lead=part.lead + tuple(own.per_job),
        )
        for part, own in zip(parts, each, strict=True)
    ]
    return more, np.concatenate((free, column))


def _part(shape: Shape, room: Room, numbers: Column) -> Part:
    """Return a part for the search; ``numbers`` are its hosts, rising."""
    ceilings = np.zeros(len(numbers), np.int64)
    tiles = np.ones(len(numbers), np.int64)
    at = np.searchsorted(numbers, room.numbers).clip(max=len(numbers) - 1)
    inside = numbers[at] == room.numbers
    ceilings[at[inside]], tiles[at[inside]] = room.most[inside], room.tile[inside]
    leads: tuple[bool, ...] = ()
    if shape.leads is not None:
        leads = tuple(shape.leads[numbers].tolist())
    lie = lie_of(shape)
    hosts_max, wish = lie.hosts_max, shape.request.cu
    if wish is not None and shape.domains is None and wish.max_domains:
        hosts_max = min(hosts_max or wish.max_domains, wish.max_domains)
    return Part(
        shape.tasks_min,
        tuple(shape.per_task.tolist()),
        tuple(shape.per_host.tolist()),
        tuple((shape.per_first - shape.per_host).tolist()),
        hosts_max,
        tuple(tiles.tolist()),
        tuple(ceilings.tolist()),
        leads,
    )


def _entries(
    shape: Shape, room: Room, numbers: Column, shares: list[Share]
) -> tuple[Column, Column]:
    """Return the hosts of a part in rank order: the lead first, the remainder last, the rest as
    hosts are ranked, domain by domain.
    """
    rank = {number: place for place, number in enumerate(room.numbers.tolist())}
    tile = dict(zip(room.numbers.tolist(), room.tile.tolist(), strict=True))

    def key(share: Share) -> tuple[bool, bool, int]:
        number = int(numbers[share.row])
        return (not share.leads, share.tasks % tile[number] > 0, rank[number])

    ordered = sorted(shares, key=key)
    found = np.asarray([int(numbers[share.row]) for share in ordered], np.int64)
    sizes = np.asarray([share.tasks for share in ordered], np.int64)
    if shape.domains is not None and shape.request.cu is not None:
        codes = shape.domains[found]
        _, begins, of_host = np.unique(codes, return_index=True, return_inverse=True)
        together = np.argsort(begins[of_host], kind="stable")
        found, sizes = found[together], sizes[together]
    return found, sizes
