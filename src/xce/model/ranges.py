"""Sets of element positions as sorted, disjoint, non-touching runs ``((first, last), ...)``.

Immutable: an operation returns a new tuple. A million untouched elements are one run.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]

EMPTY: Final[Ranges] = ()
ZERO: Final[Ranges] = ((0, 0),)
"""The only element of a job that is no array."""
_FEW: Final = 8
"""Runs are looked up, one by one, in a set that has more than so many times as many."""
_LAST: Final = itemgetter(1)


def count(ranges: Ranges) -> int:
    """Return how many elements there are."""
    if len(ranges) == 1:
        # By far the most frequent; a hundred thousand of these are counted in one command.
        return ranges[0][1] - ranges[0][0] + 1
    return sum(last - first + 1 for first, last in ranges)


def contains(ranges: Ranges, first: int, last: int) -> bool:
    """Return whether every element of ``first..last`` is there."""
    if len(ranges) > _FEW:
        place = bisect_left(ranges, first, key=_LAST)
        return place < len(ranges) and ranges[place][0] <= first and last <= ranges[place][1]
    return any(lo <= first and last <= hi for lo, hi in ranges)


def take_first(ranges: Ranges, wanted: int) -> tuple[Ranges, Ranges]:
    """Return the first ``wanted`` elements (fewer when there are fewer), and the rest."""
    taken: list[tuple[int, int]] = []
    for place, (lo, hi) in enumerate(ranges):
        size = hi - lo + 1
        if wanted < size:
            if wanted > 0:
                taken.append((lo, lo + wanted - 1))
                return tuple(taken), ((lo + wanted, hi), *ranges[place + 1 :])
            return tuple(taken), ranges[place:]
        taken.append((lo, hi))
        wanted -= size
    return ranges, EMPTY


def unite(a: Ranges, b: Ranges) -> Ranges:
    """Return the elements of ``a`` or ``b``."""
    if not a:
        return b
    if not b:
        return a
    return from_runs((*a, *b))


def subtract(a: Ranges, b: Ranges) -> Ranges:
    """Return the elements of ``a`` that are not in ``b``."""
    if not a or not b:
        return a
    if a == b:
        return EMPTY
    if len(b) > _FEW * len(a):
        b = intersect(a, b)
    result: list[tuple[int, int]] = []
    cuts = iter(b)
    cut = next(cuts, None)
    for lo, hi in a:
        start = lo
        while cut is not None and cut[1] < start:
            cut = next(cuts, None)
        while cut is not None and cut[0] <= hi:
            if cut[0] > start:
                result.append((start, cut[0] - 1))
            start = cut[1] + 1
            if start > hi:
                break
            cut = next(cuts, None)
        if start <= hi:
            result.append((start, hi))
    return tuple(result)


def intersect(a: Ranges, b: Ranges) -> Ranges:
    """Return the elements that are in both."""
    if len(a) > _FEW * len(b):
        return _look_up(b, a)
    if len(b) > _FEW * len(a):
        return _look_up(a, b)
    result: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        lo, hi = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if lo <= hi:
            result.append((lo, hi))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(result)


def _look_up(few: Ranges, many: Ranges) -> Ranges:
    """Return the elements that are in both."""
    result: list[tuple[int, int]] = []
    for first, last in few:
        place = bisect_left(many, first, key=_LAST)
        while place < len(many) and many[place][0] <= last:
            lo, hi = many[place]
            result.append((max(lo, first), min(hi, last)))
            place += 1
    return tuple(result)


def from_sorted(positions: Iterable[int]) -> Ranges:
    """Return the set of ``positions``, which come in rising order."""
    result: list[tuple[int, int]] = []
    for position in positions:
        if result and position == result[-1][1] + 1:
            result[-1] = (result[-1][0], position)
        else:
            result.append((position, position))
    return tuple(result)


def from_runs(runs: Iterable[tuple[int, int]]) -> Ranges:
    """Return the elements of runs that come in any order and may touch or overlap each other."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return tuple(result)


def positions(ranges: Ranges) -> Iterator[int]:
    """Yield every element in rising order."""
    for first, last in ranges:
        yield from range(first, last + 1)
