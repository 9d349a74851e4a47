"""How tasks lie on hosts, against every split of a few tasks over a few hosts."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xce.sched.place.capacity import Room, tasks_on_hosts
from xce.sched.place.search import CutError
from xce.sched.place.span import lay, lay_whole, reach

MANY = settings(max_examples=400, derandomize=True, deadline=None)


class Span(NamedTuple):
    tile: int = 1
    ceiling: int = 9
    hosts_max: int = 0
    is_striped: bool = False


hosts = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=4)
spans = st.one_of(
    st.integers(0, 3).map(lambda n: Span(hosts_max=n)),
    st.integers(1, 3).map(lambda n: Span(tile=n, ceiling=n)),
    st.tuples(st.integers(2, 3), st.integers(0, 3)).map(lambda n: Span(tile=n[0], hosts_max=n[1])),
    st.integers(1, 3).map(lambda n: Span(ceiling=n, is_striped=True)),
    st.just(Span(hosts_max=1)),
)


def room(rows: list[tuple[int, int]], span: Span) -> Room:
    later = np.asarray([most for most, _ in rows], np.int64)
    first = np.maximum(later - np.asarray([cost for _, cost in rows]), 0)
    tile = np.full(len(rows), span.tile)
    return Room(
        np.arange(len(rows)), later.clip(max=span.ceiling), first.clip(max=span.ceiling), tile
    )


def is_allowed(sizes: list[int], span: Span) -> bool:
    """Return whether ``span[]`` lets tasks lie like this, in rank order."""
    if span.hosts_max and len(sizes) > span.hosts_max:
        return False
    return not any(size % span.tile for size in sizes[:-1])


def possible(found: Room, span: Span) -> set[int]:
    """Return every number of tasks for which there is a split."""
    counts = set()
    for order in itertools.permutations(range(len(found.numbers))):
        for depth in range(1, len(order) + 1):
            most = [int(found.later[place]) for place in order[:depth]]
            most[0] = int(found.first[order[0]])
            for sizes in itertools.product(*(range(1, size + 1) for size in most)):
                if is_allowed(list(sizes), span):
                    counts.add(sum(sizes))
    return counts


@MANY
@given(rows=hosts, span=spans)
def test_the_largest_count_is_the_largest_for_which_there_is_a_split(
    rows: list[tuple[int, int]], span: Span
) -> None:
    found = room(rows, span)
    counts = possible(found, span)

    most = int(reach(found, span.hosts_max).max())

    assert counts == set(range(1, most + 1)), "every smaller count has a split too"
    assert lay(found, most + 1, span.hosts_max, is_striped=span.is_striped) is None
    for tasks in counts:
        laid = lay(found, tasks, span.hosts_max, is_striped=span.is_striped)
        assert laid is not None
        numbers, sizes = laid
        assert sum(sizes) == tasks
        assert is_allowed(sizes.tolist(), span)
        assert len(set(numbers.tolist())) == len(numbers)
        assert (sizes >= 1).all()
        assert (sizes <= found.later[numbers]).all()
        assert sizes[0] <= found.first[numbers[0]]
        if span.is_striped:
            most_there = found.later[numbers]
            most_there[0] = found.first[numbers[0]]
            unfilled = sizes[sizes < most_there]
            assert sizes.max() - unfilled.min(initial=sizes.max()) <= 1


@MANY
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=4),
)
def test_tiles_may_differ_from_host_to_host(rows: list[tuple[int, int]]) -> None:
    tile = np.asarray([size for _, size in rows])
    later = np.asarray([most for most, _ in rows]).clip(max=tile)
    found = Room(np.arange(len(rows)), later, later, tile)
    counts = set()
    for order in itertools.permutations(range(len(rows))):
        for depth in range(1, len(rows) + 1):
            chosen = list(order[:depth])
            if (later[chosen[:-1]] == tile[chosen[:-1]]).all():
                full = int(tile[chosen[:-1]].sum())
                counts.update(full + size for size in range(1, int(later[chosen[-1]]) + 1))

    most = int(reach(found, 0).max())

    assert counts == set(range(1, most + 1))
    for tasks in counts:
        laid = lay(found, tasks, 0)
        assert laid is not None
        numbers, sizes = laid
        assert sum(sizes) == tasks
        assert (sizes[:-1] == tile[numbers[:-1]]).all()
        assert sizes[-1] <= later[numbers[-1]]


def test_tasks_on_hosts_is_the_least_over_resources():
    free = np.asarray([[4, 4, 4, -2], [9, 2, 5, 9]])
    most = tasks_on_hosts(free, [(0, 1, 0), (1, 2, 1)])
    assert most.tolist() == [4, 0, 2, 0]


def test_hosts_are_looked_at_in_the_order_that_is_asked_for():
    free = np.asarray([[4, 3, 2, -2], [9, 9, 9, 9]])
    most = tasks_on_hosts(free, [(0, 1, 0), (1, 2, 1)], np.asarray([3, 2, 0]))
    assert most.tolist() == [0, 2, 4]


def test_an_amount_for_the_host_alone_must_be_there_too():
    free = np.asarray([[4, 4], [2, 0]])
    most = tasks_on_hosts(free, [(0, 1, 0), (1, 0, 1)])
    assert most.tolist() == [4, 0]


def test_what_is_not_needed_may_be_overdrawn():
    free = np.asarray([[4], [-7]])
    most = tasks_on_hosts(free, [(0, 1, 0)])
    assert most.tolist() == [4]


@MANY
@given(hosts, st.integers(0, 4))
def test_rooms_without_tiles_reach_as_far_as_with_tiles_of_one_task(
    rows: list[tuple[int, int]], hosts_max: int
):
    tiled = room(rows, Span())
    found = reach(tiled._replace(is_tiled=False), hosts_max)
    assert found.tolist() == reach(tiled, hosts_max).tolist()


@MANY
@given(hosts, st.integers(1, 4), st.integers(1, 12), st.integers(0, 9))
def test_whole_hosts_are_found_whenever_so_many_have_enough_and_not_too_much(
    rows: list[tuple[int, int]], count: int, least: int, more: int
) -> None:
    most = least + more if more < 9 else 10_000_000
    later = np.asarray([most for most, _ in rows], np.int64)
    first = np.maximum(later - np.asarray([cost for _, cost in rows]), 0)
    tile = np.maximum(later, 3)
    found = lay_whole(Room(np.arange(len(rows)), later, first, tile), count, least, most)
    whole = [place for place in range(len(rows)) if later[place] >= tile[place]]
    can = [
        chosen
        for chosen in itertools.permutations(whole, count)
        if first[chosen[0]] >= tile[chosen[0]]
        and least <= sum(tile[place] for place in chosen) <= most
    ]
    assert (found is not None) == bool(can)
    if found is not None:
        assert tuple(found[0].tolist()) in can
        assert found[1].tolist() == [int(tile[place]) for place in found[0]]


def test_whole_hosts_with_too_many_choices_are_not_the_last_word() -> None:
    tile = np.asarray([2, 4] * 300, np.int64)
    room = Room(np.arange(len(tile)), tile, tile, tile)
    assert lay_whole(room, 100, 1, 299) is not None
    # Of even sizes no sum is odd.
    with pytest.raises(CutError):
        lay_whole(room, 300, 901, 901)
