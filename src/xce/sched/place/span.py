"""How the tasks of one attempt lie on hosts: in blocks, tiles, stripes, on so many hosts at most.

Every ``span[]`` is one rule with other numbers. A host takes whole blocks of ``tile`` tasks (1:
any number; ``ptile=n`` and ``block=n``: n), at most what it has room for (``ptile`` and
``stripe=n`` bound it); one host, the last, may have a remainder. The first host carries what the
job needs once, and is never the one with the remainder unless it is the only one.

All of it is exact: `reach` says for each host how many tasks fit if it is the first, and `lay`
finds a placement for every count up to that. (Where blocks differ between hosts *and* the number
of hosts is bounded, which only ``ptile='!'`` with a bound does, a count may be missed.)
"""

from typing import Final

import numpy as np

from xce.sched.place.capacity import Room
from xce.sched.place.search import CutError
from xce.state.hosts import Column, Flags

CHOICES_MAX: Final = 50_000
"""So much, hosts times how many are wanted, is looked at for whole hosts with the right sum."""


def reach(room: Room, hosts_max: int) -> Column:
    """Return how many tasks one attempt can have at most when each host is its first.

    Every smaller count fits with the same first host too.

    Args:
        room: The hosts.
        hosts_max: How many hosts may be used; 0: any number.
    """
    size = len(room.numbers)
    if hosts_max == 1 or size <= 1:
        return room.first
    others = min(hosts_max or size, size) - 1
    if not room.is_tiled and others == size - 1:
        most = room.first + (int(room.later.sum()) - room.later)
        return np.where(room.first > 0, most, 0)
    whole, whole_first = _whole(room), room.first // room.tile * room.tile
    rest = room.later - whole
    if others == size - 1:
        blocks = int(whole.sum()) - whole
        remainder = _largest_other(rest)
    else:
        blocks, remainder = _best_others(whole, rest, others)
    return np.maximum(room.first, np.where(whole_first > 0, whole_first + blocks + remainder, 0))


def _largest_other(values: Column) -> Column:
    """Return for each place the largest of the other values; there are at least two."""
    best, ordered = int(values.argmax()), np.sort(values)
    found = np.full_like(values, ordered[-1])
    found[best] = ordered[-2]
    return found


def _best_others(whole: Column, rest: Column, others: int) -> tuple[Column, Column]:
    """Return for each host the tasks in blocks on the ``others`` best other hosts, and the largest
    remainder beside them.
    """
    order = np.lexsort((-rest, -whole))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    is_among = place <= others
    total = int(whole[order[: others + 1]].sum())
    without_last = total - int(whole[order[others]])
    blocks = np.where(is_among, total - whole, without_last)
    remainder = np.full_like(rest, rest[order[:others]].max(initial=0))
    remainder[order[: others + 1]] = _largest_other(rest[order[: others + 1]])
    return blocks, remainder


def lay(
    room: Room, tasks: int, hosts_max: int, *, is_striped: bool = False
) -> tuple[Column, Column] | None:
    """Return hosts in rank order and the tasks on each; None: it does not fit.

    Args:
        room: The hosts; the best ones are used.
        tasks: At least 1.
        hosts_max: How many hosts may be used; 0: any number.
        is_striped: Spread over as many hosts as possible instead of as few as the ranks give.
    """
    fits = (reach(room, hosts_max) >= tasks).nonzero()[0]
    if not len(fits):
        return None
    first = int(fits[0])
    others = (room.later > 0).nonzero()[0]
    others = others[others != first]
    limit = (hosts_max or len(room.numbers)) - 1

    def lay_on(choice: Column) -> tuple[Column, Column] | None:
        if is_striped:
            return _stripe(room, tasks, first, choice[:limit])
        return _fill(room, tasks, first, choice, limit)

    found = lay_on(others)
    if found is None:
        found = lay_on(others[np.lexsort((-_rest(room)[others], -_whole(room)[others]))])
    return found


def lay_whole(room: Room, count: int, least: int, most: int) -> tuple[Column, Column] | None:
    """Return ``count`` hosts in rank order, each with all that it takes; None: it does not fit.

    The best hosts count. Where these have fewer than ``least`` tasks together, or more than
    ``most``, the largest or the smallest ones, else any that do.

    Raises:
        CutError: There are too many choices.
    """
    leads = np.flatnonzero((room.first >= room.tile) & (room.first > 0))
    is_other = (room.later >= room.tile) & (room.later > 0)
    everyone = np.arange(len(room.numbers))
    largest, smallest = (np.argsort(way * room.tile, kind="stable") for way in (-1, 1))
    sums: list[int] = []
    for order in (everyone, largest, smallest):
        first = order[np.isin(order, leads)][:1]
        others = order[is_other[order] & ~np.isin(order, first)]
        chosen = np.concatenate((first, others))[:count]
        if not len(first) or len(chosen) < count:
            return None
        sums.append(int(room.tile[chosen].sum()))
        if least <= sums[-1] <= most:
            return room.numbers[chosen], room.tile[chosen]
    if max(sums) < least or min(sums) > most:
        return None
    found = _whole_between(room.tile.tolist(), leads, is_other, (count, least, most))
    return None if found is None else (room.numbers[found], room.tile[found])


def _whole_between(
    tiles: list[int], leads: Column, is_other: Flags, wanted: tuple[int, int, int]
) -> Column | None:
    """Return so many hosts with tasks between two bounds, the first one first, or None.

    Raises:
        CutError: There are too many choices.
    """
    count, least, most = wanted
    for lead in leads[np.unique(np.asarray(tiles)[leads], return_index=True)[1]].tolist():
        others = [place for place in np.flatnonzero(is_other).tolist() if place != lead]
        rest = _sum_between(tiles, others, (count - 1, least - tiles[lead], most - tiles[lead]))
        if rest is not None:
            return np.asarray([lead, *rest], np.int64)
    return None


def _sum_between(
    tiles: list[int], places: list[int], wanted: tuple[int, int, int]
) -> list[int] | None:
    """Return so many of some places with a sum between two bounds, the first ones, or None.

    Of each size no more than ``count`` places are looked at.

    Raises:
        CutError: There are too many choices.
    """
    count, least, most = wanted
    if most < 0:
        return None
    seen: dict[int, int] = {}
    some = []
    for place in places:
        seen[tiles[place]] = seen.get(tiles[place], 0) + 1
        if seen[tiles[place]] <= count:
            some.append(place)
    if len(some) * count > CHOICES_MAX:
        raise CutError
    mask = (1 << most + 1) - 1
    # By how many behind each place are taken: the sums that there are, as bits.
    sums = [[1] + [0] * count]
    for place in reversed(some):
        last = sums[-1]
        sums.append(
            [last[0], *(last[n] | last[n - 1] << tiles[place] & mask for n in range(1, count + 1))]
        )
    fitting = sums[-1][count] >> max(least, 0) << max(least, 0)
    if not fitting:
        return None
    total = (fitting & -fitting).bit_length() - 1
    found: list[int] = []
    for place, behind in zip(some, sums[-2::-1], strict=True):
        left = count - len(found)
        if left and total >= tiles[place] and behind[left - 1] >> total - tiles[place] & 1:
            found.append(place)
            total -= tiles[place]
    return found


def _whole(room: Room) -> Column:
    return room.later // room.tile * room.tile


def _rest(room: Room) -> Column:
    return room.later - _whole(room)


def _fill(
    room: Room, tasks: int, first: int, others: Column, limit: int
) -> tuple[Column, Column] | None:
    """Fill the first host and then the others in order, ``limit`` of them at most."""
    if room.first[first] >= tasks:
        return room.numbers[[first]], np.asarray([tasks], np.int64)
    places = np.concatenate(([first], others))
    takes = _whole(room)[places]
    takes[0] = room.first[first] // room.tile[first] * room.tile[first]
    takes = np.clip(tasks - (np.cumsum(takes) - takes), 0, takes)
    last = int(np.flatnonzero(takes)[-1])
    if int((takes > 0).sum()) > limit + 1 and takes[last] < room.tile[places[last]]:
        # A host for the remainder alone is one too many.
        takes[last] = 0
    short = tasks - int(takes.sum())
    if short:
        # Blocks are full everywhere; one more host, or one of the others, has the remainder.
        is_used = takes[1:] > 0
        fits = np.flatnonzero(room.later[others] - takes[1:] >= short)
        used = fits[is_used[fits]]
        unused = fits[~is_used[fits]] if int(is_used.sum()) < limit else fits[:0]
        if not len(used) and not len(unused):
            return None
        chosen = int(used[-1] if len(used) else unused[0]) + 1
        takes[chosen] += short
        order = np.append(np.delete(np.arange(len(places)), chosen), chosen)
        places, takes = places[order], takes[order]
    used = takes > 0
    if int(used.sum()) > limit + 1:
        return None
    return room.numbers[places[used]], takes[used]


def _stripe(room: Room, tasks: int, first: int, others: Column) -> tuple[Column, Column] | None:
    """Give each host one task after the other, round and round."""
    places = np.concatenate(([first], others))
    most = room.later[places]
    most[0] = room.first[first]
    if int(most.sum()) < tasks:
        return None
    low, high = 0, tasks
    # Invariant: ``low`` full rounds give no more than ``tasks``; ``high + 1`` rounds give more.
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(most, middle).sum()) <= tasks:
            low = middle
        else:
            high = middle - 1
    takes = np.minimum(most, low)
    more = np.flatnonzero(most > low)[: tasks - int(takes.sum())]
    takes[more] += 1
    used = takes > 0
    return room.numbers[places[used]], takes[used]
