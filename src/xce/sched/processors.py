"""The allocator of processors: which ones the tasks of an attempt get on a host.

``affinity[]`` wants of each task some groups of equal units (threads, cores, sockets, NUMA
domains), each group in one domain where ``same=`` says so. Groups are alike, so how many there is
room for is a sum over domains, and any order of taking finds as many. Two wishes need more: units
of a task apart from each other (those domains first that have most left), and domains that tasks
have for themselves (a covering of bins; exact up to `_EXACT_MAX` domains that do not suffice
alone, beyond that the best fit).

All of it looks at one host at a time, as sets of processors. Along hosts it is asked once for each
layout and set that is free; see `xce.sched.processor_room`.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Final

from xce.model.processor import LEVELS, Layout
from xce.resreq.ast import Affinity

_RANK: Final = {level: place for place, level in enumerate(LEVELS)}
_EXACT_MAX: Final = 12
CHOICES_MAX: Final = 256
"""Most choices of domains that ``distribute=pack(level=n)`` tries on a host."""
Pool = list[int]
"""Units from which groups are taken, in the order of taking."""


@functools.lru_cache(maxsize=65536)
def most_tasks(wish: Affinity, layout: Layout, free: int) -> int:
    """Return how many tasks of an attempt find their processors in ``free``."""
    if wish.distribute_count or is_exclusive(wish):
        return len(place_tasks(wish, layout, free, free.bit_count()))
    free &= layout.all
    rooms = (units_in(layout, wish.unit, domain & free) for domain in pools_of(wish, layout))
    return sum(len(units) // wish.count for units in rooms) // wish.repeat


@functools.lru_cache(maxsize=65536)
def most_attempts(wish: Affinity, layout: Layout, free: int, tasks: int) -> int:
    """Return how many attempts of so many tasks find theirs, one after the other."""
    if not wish.distribute_count and not is_exclusive(wish):
        return most_tasks(wish, layout, free) // tasks
    count = 0
    while True:
        picked = place_tasks(wish, layout, free, tasks)
        if len(picked) < tasks:
            return count
        free &= ~held_by(wish, layout, picked)
        count += 1


def held_by(wish: Affinity, layout: Layout, tasks: Sequence[int]) -> int:
    """Return what an attempt keeps others from: its units, or whole domains for itself."""
    mask = functools.reduce(int.__or__, tasks, 0)
    is_wide = is_exclusive(wish) and wish.scope in ("alljobs", "")
    return layout.around(mask, wish.exclusive) if is_wide else mask


def is_exclusive(wish: Affinity) -> bool:
    """Return whether a wish for domains says more than that units are not shared."""
    return bool(wish.exclusive) and _RANK[wish.exclusive] < _RANK[wish.unit]


def place_tasks(wish: Affinity, layout: Layout, free: int, tasks: int) -> list[int]:
    """Return the units of each of at most so many tasks, as many tasks as there is room for.

    Args:
        wish: What each task wants.
        layout: The host.
        free: Processors that nobody has.
        tasks: How many are wanted.
    """
    free &= layout.all
    if not wish.distribute_count:
        return _place(wish, layout, free, free, tasks)
    best: list[int] = []
    for within in choices(wish, layout, free):
        found = _place(wish, layout, free, free & within, tasks)
        if len(found) > len(best):
            best = found
        if len(best) >= tasks:
            break
    return best


def count_choices(wish: Affinity, layout: Layout) -> int:
    """Return how many sets of domains `choices` has at most; 0: it does not matter."""
    domains = len(layout.domains[wish.distribute_level]) if wish.distribute_count else 0
    most = math.comb(domains, min(wish.distribute_count, domains)) if domains else 0
    return min(most, CHOICES_MAX)


def choices(wish: Affinity, layout: Layout, free: int) -> list[int]:
    """Return the sets of domains that ``pack(level=n)`` allows, those with least free first."""
    domains = layout.domains[wish.distribute_level]
    size = min(wish.distribute_count, len(domains))
    if math.comb(len(domains), size) > CHOICES_MAX:
        return _grouped_choices(wish, layout, free, size)
    some = [
        functools.reduce(int.__or__, chosen, 0) for chosen in itertools.combinations(domains, size)
    ]
    return sorted(some, key=lambda choice: (choice & free).bit_count())


def _grouped_choices(wish: Affinity, layout: Layout, free: int, size: int) -> list[int]:
    """Return the fullest domains, so many of each group that are alike for ``same=`` and the like.

    What is fuller can take whatever another one of its group could.
    """
    level = wish.distribute_level
    around = [one for one in (wish.same, wish.exclusive) if one and _RANK[one] < _RANK[level]]
    groups: dict[tuple[int, ...], Pool] = {}
    for domain in sorted(layout.domains[level], key=lambda one: -(one & free).bit_count()):
        key = tuple(layout.around(domain, one) for one in around)
        groups.setdefault(key, []).append(domain)
    found = []
    for split in itertools.islice(_splits([*map(len, groups.values())], size), CHOICES_MAX):
        parts = zip(groups.values(), split, strict=True)
        chosen = itertools.chain.from_iterable(group[:most] for group, most in parts)
        found.append(functools.reduce(int.__or__, chosen, 0))
    return sorted(found, key=lambda choice: (choice & free).bit_count())


def _splits(sizes: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to take ``total`` in all of groups of these sizes, most of the first first."""
    if not sizes:
        yield ()
        return
    least = max(0, total - sum(sizes[1:]))
    for most in range(min(sizes[0], total), least - 1, -1):
        for others in _splits(sizes[1:], total - most):
            yield (most, *others)


def _place(wish: Affinity, layout: Layout, free: int, within: int, tasks: int) -> list[int]:
    """Place tasks on units in ``within``; domains for them alone must be idle in ``free``."""
    if not is_exclusive(wish):
        return _place_plain(wish, layout, within, tasks)
    if wish.scope == "intask":
        return _place_apart(wish, layout, within, tasks)
    return _place_alone(wish, layout, free, within, tasks)


def units_in(layout: Layout, unit: str, mask: int) -> Pool:
    """Return the units that lie wholly in a set of processors."""
    return [domain for domain in layout.domains[unit] if domain & mask == domain]


def pools_of(wish: Affinity, layout: Layout) -> Sequence[int]:
    """Return the domains of which a group must not leave one."""
    return layout.domains[wish.same] if wish.same else (layout.all,)


def _place_plain(wish: Affinity, layout: Layout, within: int, tasks: int) -> list[int]:
    wanted = tasks * wish.repeat
    pools = [
        _ordered(wish, layout, units_in(layout, wish.unit, domain & within), wanted)
        for domain in pools_of(wish, layout)
    ]
    groups = _take_groups(wish, pools, wanted)
    return [
        functools.reduce(int.__or__, groups[first : first + wish.repeat])
        for first in range(0, len(groups) - wish.repeat + 1, wish.repeat)
    ]


def _take_groups(wish: Affinity, pools: list[Pool], wanted: int) -> list[int]:
    """Return at most so many groups; each is taken of one pool."""
    size, found = wish.count, list[int]()
    if wish.distribute == "pack":
        fitting = [pool for pool in pools if len(pool) // size >= wanted]
        pools = [min(fitting, key=len)] if fitting else sorted(pools, key=len, reverse=True)
    while len(found) < wanted:
        fitting = [pool for pool in pools if len(pool) >= size]
        if not fitting:
            break
        pool = max(fitting, key=len) if wish.distribute == "balance" else fitting[0]
        # Balance takes one group at a time, the others all that a pool has.
        some = 1 if wish.distribute == "balance" else min(wanted - len(found), len(pool) // size)
        for _ in range(some):
            found.append(functools.reduce(int.__or__, pool[:size]))
            del pool[:size]
    return found


def _ordered(wish: Affinity, layout: Layout, units: Pool, wanted: int) -> Pool:
    """Return units in the order of taking: as they lie, in few sockets, or over all of them."""
    if wish.distribute not in ("pack", "balance") or len(units) < 2:
        return units
    blocks = _blocks(units, layout.domains["socket"])
    if wish.distribute == "pack":
        needed = wanted * wish.count
        fitting = [block for block in blocks if len(block) >= needed]
        first = [min(fitting, key=len)] if fitting else []
        others = [block for block in blocks if block not in first]
        return [*itertools.chain(*first, *sorted(others, key=len, reverse=True))]
    if wish.unit == "thread":
        blocks = [_dealt(_blocks(block, layout.domains["core"])) for block in blocks]
    return _dealt(blocks)


def _blocks(units: Pool, domains: Sequence[int]) -> list[Pool]:
    """Return units by domain; one that lies in none of them is alone."""
    blocks: dict[int, Pool] = {}
    for unit in units:
        domain = next((item for item in domains if item & unit == unit), unit)
        blocks.setdefault(domain, []).append(unit)
    return list(blocks.values())


def _dealt(blocks: list[Pool]) -> Pool:
    """Return one unit of each block, the fullest first, then the next of each."""
    blocks = sorted(blocks, key=len, reverse=True)
    rounds = itertools.zip_longest(*blocks, fillvalue=0)
    return [unit for one in rounds for unit in one if unit]


def _place_apart(wish: Affinity, layout: Layout, within: int, tasks: int) -> list[int]:
    """Place tasks no two of whose units share a domain; see `_RANK` for what is wider."""
    size, found = wish.count * wish.repeat, list[int]()
    for pool in pools_of(wish, layout):
        left = [
            units_in(layout, wish.unit, domain & pool & within)
            for domain in _own_domains(wish, layout)
        ]
        while len(found) < tasks:
            left = sorted(filter(None, left), key=len, reverse=True)
            if len(left) < size:
                break
            found.append(functools.reduce(int.__or__, (units.pop(0) for units in left[:size])))
    return found


def _place_alone(wish: Affinity, layout: Layout, free: int, within: int, tasks: int) -> list[int]:
    """Place tasks each of which has domains that no other one uses."""
    every = _own_domains(wish, layout)
    domains = [item for item in every if wish.scope == "injob" or item & free == item]
    # A socket may have several NUMA domains, or one NUMA domain several sockets.
    is_around = bool(wish.same) and not all(
        any(own & room == room for own in every) for room in layout.domains[wish.same]
    )
    found: list[int] = []
    for pool in pools_of(wish, layout) if is_around else (layout.all,):
        mine = [domain for domain in domains if domain & pool == domain]
        groups = [_groups_in(wish, layout, domain & within, is_around=is_around) for domain in mine]
        demand = wish.repeat if wish.same and not is_around else wish.count * wish.repeat
        for some in cover([len(item) for item in groups], demand):
            if len(found) >= tasks:
                return found
            units = itertools.chain.from_iterable(groups[place] for place in some)
            found.append(functools.reduce(int.__or__, itertools.islice(units, demand)))
    return found


def _own_domains(wish: Affinity, layout: Layout) -> list[int]:
    """Return the domains of ``exclusive=``; those that a single unit takes up are one."""
    found: list[int] = []
    for domain in layout.domains[wish.exclusive]:
        mask = domain | layout.around(domain, wish.unit)
        for other in [item for item in found if item & mask]:
            found.remove(other)
            mask |= other
        found.append(mask)
    return found


def _groups_in(wish: Affinity, layout: Layout, mask: int, *, is_around: bool) -> Pool:
    """Return what a domain of a task's own has: whole groups where ``same=`` is not wider, else
    single units.
    """
    if not wish.same or is_around:
        return units_in(layout, wish.unit, mask)
    pools = [units_in(layout, wish.unit, domain & mask) for domain in layout.domains[wish.same]]
    return [
        functools.reduce(int.__or__, pool[first : first + wish.count])
        for pool in pools
        for first in range(0, len(pool) - wish.count + 1, wish.count)
    ]


def cover(sizes: Sequence[int], demand: int) -> list[list[int]]:
    """Return disjoint sets of places whose sizes come to ``demand`` each, as many as there are."""
    order = sorted((place for place, size in enumerate(sizes) if size), key=lambda at: sizes[at])
    bins = [[place] for place in order if sizes[place] >= demand]
    rest = [place for place in order if sizes[place] < demand]
    values = tuple(sorted((sizes[place] for place in rest), reverse=True))
    some = _cover_exactly(values, demand) if len(rest) <= _EXACT_MAX else _cover(values, demand)
    for wanted in some:
        mine = []
        for value in wanted:
            place = next(place for place in rest if sizes[place] == value)
            rest.remove(place)
            mine.append(place)
        bins.append(mine)
    return bins


@functools.lru_cache(maxsize=16384)
def _cover_exactly(values: tuple[int, ...], demand: int) -> tuple[tuple[int, ...], ...]:
    """Return as many bins as there can be, each as values; ``values`` are falling.

    The largest value is in some bin of a best covering, if there is any bin at all.
    """
    bound = sum(values) // demand
    best: tuple[tuple[int, ...], ...] = ()
    if not bound:
        return best
    for others in _completions(values[1:], demand - values[0]):
        rest = list(values[1:])
        for value in others:
            rest.remove(value)
        found = ((values[0], *others), *_cover_exactly(tuple(rest), demand))
        if len(found) > len(best):
            best = found
        if len(best) == bound:
            break
    return best


def _completions(values: tuple[int, ...], missing: int) -> list[tuple[int, ...]]:
    """Return the sets of values that come to what is missing, none of which could be left out."""
    if missing <= 0:
        return [()]
    found: list[tuple[int, ...]] = []
    for place, value in enumerate(values):
        if place and values[place - 1] == value:
            continue
        found += [(value, *more) for more in _completions(values[place + 1 :], missing - value)]
    # Values fall, so each set has its smallest one last: without that it must be too little.
    return [some for some in found if sum(some) - some[-1] < missing]


def _cover(values: tuple[int, ...], demand: int) -> list[list[int]]:
    """Return bins by best fit: the smallest value that suffices, else the largest there is."""
    left, bins = list(values), list[list[int]]()
    while sum(left) >= demand:
        mine: list[int] = []
        while (missing := demand - sum(mine)) > 0:
            fitting = [value for value in left if value >= missing]
            value = fitting[-1] if fitting else left[0]
            left.remove(value)
            mine.append(value)
        bins.append(mine)
    return bins
