"""The allocators on their own, against every split of a few tasks over a few hosts."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xce.model.request import ClassKey, Request
from xce.sched.place.capacity import Capacity, most_tasks, tasks_on_hosts
from xce.sched.place.parallel import spread_tasks
from xce.sched.shape import Shape, ShapeKey
from xce.state.cluster import RequestClass
from xce.state.hosts import HostTable

MANY = settings(max_examples=400, derandomize=True, deadline=None)
hosts = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4)
spans = st.sampled_from([(False, 0), (True, 0), (False, 1), (False, 2), (False, 3)])


def shape(one_host: bool, ptile: int) -> Shape:
    wanted = Request(tasks_min=1, tasks_max=20, one_host=one_host, ptile=ptile)
    found = RequestClass(1, ClassKey(wanted, "normal", "alice"), "")
    found.compile(HostTable())
    return Shape(ShapeKey(wanted, (), ()), found)


def is_allowed(sizes: list[int], one_host: bool, ptile: int) -> bool:
    """Return whether ``span[]`` lets tasks lie like this, in rank order."""
    if one_host:
        return len(sizes) == 1
    return not ptile or (all(size == ptile for size in sizes[:-1]) and sizes[-1] <= ptile)


def possible(rows: list[tuple[int, int]], one_host: bool, ptile: int) -> set[int]:
    """Return every number of tasks for which there is a split; ``rows``: later, costs of first."""
    found = set()
    for order in itertools.permutations(range(len(rows))):
        for depth in range(1, len(rows) + 1):
            room = [rows[place][0] for place in order[:depth]]
            room[0] -= rows[order[0]][1]
            for sizes in itertools.product(*(range(1, most + 1) for most in room)):
                if is_allowed(list(sizes), one_host, ptile):
                    found.add(sum(sizes))
    return found


@MANY
@given(rows=hosts, span=spans)
def test_the_largest_count_is_the_largest_for_which_there_is_a_split(
    rows: list[tuple[int, int]], span: tuple[bool, int]
) -> None:
    later = np.asarray([most for most, _ in rows], np.int64)
    first = np.maximum(later - np.asarray([cost for _, cost in rows]), 0)
    wanted, room = shape(*span), Capacity(later, first)
    counts = possible(rows, *span)

    most = most_tasks(wanted, room)

    assert counts == set(range(1, most + 1)), "every smaller count has a split too"
    for tasks in counts:
        numbers, sizes = spread_tasks(wanted, room, np.arange(len(rows)), tasks)
        assert sum(sizes) == tasks
        assert is_allowed(sizes.tolist(), *span)
        assert len(set(numbers.tolist())) == len(numbers)
        assert (sizes >= 1).all()
        assert (sizes <= later[numbers]).all()
        assert sizes[0] <= first[numbers[0]]


def test_tasks_on_hosts_is_the_least_over_resources():
    free = np.asarray([[4, 4, 4, -2], [9, 2, 5, 9]])
    mask = np.asarray([True, True, False, True])
    most = tasks_on_hosts(free, mask, np.asarray([1, 2]), np.asarray([0, 1]))
    assert most.tolist() == [4, 0, 0, 0]


def test_an_amount_for_the_host_alone_must_be_there_too():
    free = np.asarray([[4, 4], [2, 0]])
    most = tasks_on_hosts(free, np.ones(2, bool), np.asarray([1, 0]), np.asarray([0, 1]))
    assert most.tolist() == [4, 0]


def test_what_is_not_needed_may_be_overdrawn():
    free = np.asarray([[4], [-7]])
    most = tasks_on_hosts(free, np.ones(1, bool), np.asarray([1, 0]), np.asarray([0, 0]))
    assert most.tolist() == [4]
