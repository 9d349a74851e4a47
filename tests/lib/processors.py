"""Hosts with processors for tests, and what brute force finds on them."""

import itertools
from collections.abc import Sequence

from xce.model.processor import LEVELS, Layout, Processor, layout_of, numbers_in
from xce.resreq.ast import Affinity

Numbers = frozenset[int]


def host_of(
    sockets: int = 2, cores: int = 2, threads: int = 2, *, numa: int = 0
) -> tuple[Processor, ...]:
    """Return the processors of a host, numbered core by core; ``numa``: domains in all, 0: one for
    each socket.
    """
    count = sockets * cores
    return tuple(
        Processor(
            core * threads + thread,
            core,
            core // cores,
            core * (numa or sockets) // count,
        )
        for core in range(count)
        for thread in range(threads)
    )


def layout(sockets: int = 2, cores: int = 2, threads: int = 2, *, numa: int = 0) -> Layout:
    """Return how the processors of `host_of` lie."""
    return layout_of(host_of(sockets, cores, threads, numa=numa))


def most_by_force(wish: Affinity, found: Layout, free: int) -> int:
    """Return how many tasks fit on a host, by trying everything."""
    there = frozenset(numbers_in(free))
    ways = _ways(wish, found, there)
    own = _domains(found, wish.exclusive) if _keeps_others_out(wish) else []
    narrow = _domains(found, wish.distribute_level) if wish.distribute_count else []
    seen: set[tuple[Numbers, Numbers]] = set()
    best = 0

    def place(used: Numbers, taken: Numbers, count: int) -> None:
        nonlocal best
        best = max(best, count)
        if (used, taken) in seen:
            return
        seen.add((used, taken))
        for way in ways:
            mine = frozenset(at for at, domain in enumerate(own) if domain & way)
            now = used | way
            touched = sum(1 for domain in narrow if domain & now)
            if not way & used and not mine & taken and touched <= (wish.distribute_count or 0):
                place(now, taken | mine, count + 1)

    place(frozenset(), frozenset(), 0)
    return best


def _keeps_others_out(wish: Affinity) -> bool:
    return bool(wish.exclusive) and wish.scope != "intask"


def _domains(found: Layout, level: str) -> list[Numbers]:
    domains: dict[int, set[int]] = {}
    for item in found.processors:
        domains.setdefault(item.place(level), set()).add(item.number)
    return [frozenset(domains[place]) for place in sorted(domains)]


def _ways(wish: Affinity, found: Layout, free: Numbers) -> list[Numbers]:
    """Return all sets of processors that a task may have."""
    units = [unit for unit in _domains(found, wish.unit) if unit <= free]
    rooms = _domains(found, wish.same) if wish.same else [frozenset(numbers_in(found.all))]
    groups = [
        frozenset().union(*some)
        for some in itertools.combinations(units, wish.count)
        if any(frozenset().union(*some) <= room for room in rooms)
    ]
    ways = {
        frozenset().union(*some)
        for some in itertools.combinations(groups, wish.repeat)
        if sum(map(len, some)) == len(frozenset().union(*some))
    }
    return [way for way in sorted(ways, key=sorted) if _may_have(wish, found, free, units, way)]


def _may_have(
    wish: Affinity, found: Layout, free: Numbers, units: Sequence[Numbers], way: Numbers
) -> bool:
    if not wish.exclusive:
        return True
    domains = [domain for domain in _domains(found, wish.exclusive) if domain & way]
    if wish.scope == "intask":
        if LEVELS.index(wish.exclusive) >= LEVELS.index(wish.unit):
            return True
        mine = [unit for unit in units if unit <= way]
        return all(sum(1 for unit in mine if unit <= domain) <= 1 for domain in domains)
    return wish.scope == "injob" or all(domain <= free for domain in domains)


def fit_by_force(wants: Sequence[tuple[Affinity, int]], found: Layout, free: int) -> bool:
    """Return whether tasks of several parts fit on a host together, by trying everything.

    Args:
        wants: What each task of a part wants, and how many tasks it has.
        found: The host.
        free: Processors that nobody has.
    """
    there = frozenset(numbers_in(free))
    tasks = [place for place, (_, count) in enumerate(wants) for _ in range(count)]
    ways = [_ways(wish, found, there) for wish, _ in wants]
    seen: set[tuple[object, ...]] = set()

    def place(done: int, used: Numbers, closed: Numbers, own: Numbers, touched: Numbers) -> bool:
        if done == len(tasks):
            return True
        part = tasks[done]
        if done and tasks[done - 1] != part:
            own = touched = frozenset()
        state = (done, used, closed, own, touched)
        if state in seen:
            return False
        seen.add(state)
        wish = wants[part][0]
        for way in ways[part]:
            if way & (used | closed | own):
                continue
            around = _around(found, wish.exclusive, way) if _keeps_others_out(wish) else frozenset()
            if around & used or around & touched:
                continue
            narrow = _domains(found, wish.distribute_level) if wish.distribute_count else []
            if sum(1 for one in narrow if one & (touched | way)) > (wish.distribute_count or 0):
                continue
            if place(
                done + 1,
                used | way,
                closed | around,
                own | around,
                touched | way,
            ):
                return True
        return False

    return place(0, frozenset(), frozenset(), frozenset(), frozenset())


def _around(found: Layout, level: str, way: Numbers) -> Numbers:
    return frozenset().union(*(domain for domain in _domains(found, level) if domain & way))
