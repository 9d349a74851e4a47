"""Sets of positions as runs behave as sets of integers do."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from xce.model.ranges import (
    EMPTY,
    contains,
    count,
    from_sorted,
    intersect,
    positions,
    subtract,
    take_first,
    unite,
)
from xce.testing.strategies import ranges


def elements(found):
    return set(positions(found))


def check_normal(found):
    """Runs are sorted, not empty, and do not touch."""
    for first, last in found:
        assert first <= last
    for (_, last), (first, _) in itertools.pairwise(found):
        assert last + 1 < first


many = st.tuples(st.integers(0, 3), st.integers(1, 3)).map(
    lambda one: tuple((at * 4 + one[0], at * 4 + one[0] + one[1] - 1) for at in range(40))
)


@given(many, st.sets(st.integers(-3, 165), max_size=12).map(lambda one: from_sorted(sorted(one))))
def test_a_few_runs_are_looked_up_among_many(a, b):
    for one, other in ((a, b), (b, a), (a, EMPTY), (EMPTY, a)):
        for result, expected in (
            (subtract(one, other), elements(one) - elements(other)),
            (intersect(one, other), elements(one) & elements(other)),
        ):
            assert elements(result) == expected
            check_normal(result)
    for first, last in ((0, 0), (5, 6), (7, 9), *b):
        assert contains(a, first, last) == (set(range(first, last + 1)) <= elements(a))


@given(ranges(), ranges())
def test_operations_are_those_of_sets(a, b):
    for result, expected in (
        (unite(a, b), elements(a) | elements(b)),
        (subtract(a, b), elements(a) - elements(b)),
        (intersect(a, b), elements(a) & elements(b)),
    ):
        check_normal(result)
        assert elements(result) == expected
        assert count(result) == len(expected)


@given(ranges(), st.integers(0, 50))
def test_the_first_elements_and_the_rest_are_the_whole(a, wanted):
    taken, rest = take_first(a, wanted)
    check_normal(taken)
    check_normal(rest)
    assert count(taken) == min(wanted, count(a))
    assert unite(taken, rest) == a
    assert not intersect(taken, rest)
    if taken and rest:
        assert taken[-1][1] < rest[0][0]


@given(ranges(), st.integers(0, 40), st.integers(0, 10))
def test_a_run_is_contained_when_each_of_its_elements_is(a, first, more):
    wanted = set(range(first, first + more + 1))
    assert contains(a, first, first + more) == (wanted <= elements(a))


@given(st.sets(st.integers(0, 60)))
def test_positions_come_back_in_rising_order(found):
    assert list(positions(from_sorted(sorted(found)))) == sorted(found)


def test_nothing_taken_from_nothing_is_nothing():
    assert take_first(EMPTY, 3) == (EMPTY, EMPTY)
    assert subtract(EMPTY, ((0, 3),)) == EMPTY
