"""Choosing domains, against every choice."""

from itertools import combinations, pairwise, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xce.model.request import CuWish
from xce.sched.place import domains
from xce.sched.place.capacity import Room
from xce.sched.place.domains import Lie, Trail, lay_in_domains, most_tasks
from xce.sched.place.span import reach

MANY = settings(max_examples=300, derandomize=True, deadline=None)
PREFS = ("config", "minavail", "maxavail", "bestfit")
Rows = list[tuple[int, int, int]]
rows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 11)), min_size=9, max_size=14
)
few = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=5
)


def room(found: Rows, tile: int = 1) -> Room:
    """Return hosts of ``(tasks, cost of being first, domain)``."""
    later = np.asarray([most for most, _, _ in found])
    first = np.maximum(later - np.asarray([cost for _, cost, _ in found]), 0)
    return Room(np.arange(len(found)), later, first, np.full(len(found), tile))


def lie(found: Rows, wish: CuWish, hosts_max: int = 0) -> Lie:
    return Lie(hosts_max, False, wish, np.asarray([domain for _, _, domain in found]))


def usable(found: Rows, domain: int) -> int:
    return sum(most for most, _, where in found if where == domain)


def check_laid(found: Rows, wish: CuWish, tasks: int, tile: int = 1, hosts_max: int = 0) -> None:
    laid = lay_in_domains(room(found, tile), lie(found, wish, hosts_max), tasks)
    assert laid is not None
    numbers, sizes = laid
    assert int(sizes.sum()) == tasks
    assert len(set(numbers.tolist())) == len(numbers)
    where = [found[number][2] for number in numbers.tolist()]
    changes = sum(one != other for one, other in pairwise(where))
    assert changes + 1 == len(set(where)), "ranks of one domain stand together"
    assert not wish.max_domains or len(set(where)) <= wish.max_domains
    assert all(usable(found, domain) >= wish.min_slots for domain in where)


@MANY
@given(
    found=rows,
    most=st.integers(1, 4),
    least=st.sampled_from([0, 0, 3]),
    pref=st.sampled_from(PREFS),
)
def test_among_many_domains_the_best_choice_is_found(
    found: Rows, most: int, least: int, pref: str
) -> None:
    wish = CuWish("rack", pref, max_domains=most, min_slots=least)
    domains = sorted({where for _, _, where in found if usable(found, where) >= max(least, 1)})
    expected = 0
    for chosen in combinations(domains, min(most, len(domains))):
        mask = np.asarray([where in chosen for _, _, where in found])
        expected = max(expected, int(reach(room(found).within(mask), 0).max(initial=0)))
    trail = Trail()

    assert most_tasks(room(found), lie(found, wish), trail) == expected
    assert not trail.is_cut
    for tasks in {1, expected // 2, expected} - {0}:
        if expected:
            check_laid(found, wish, tasks)


@MANY
@given(found=rows, most=st.integers(1, 4), hosts_max=st.integers(0, 5), tile=st.integers(1, 3))
def test_beyond_the_bound_a_search_says_so_or_is_right(
    found: Rows, most: int, hosts_max: int, tile: int
) -> None:
    wish = CuWish("rack", max_domains=most)
    expected = 0
    for chosen in combinations(range(12), most):
        mask = np.asarray([where in chosen for _, _, where in found])
        part = room(found, tile).within(mask)
        expected = max(expected, int(reach(part, hosts_max).max(initial=0)))
    trail = Trail()

    real = most_tasks(room(found, tile), lie(found, wish, hosts_max), trail)

    assert real <= expected
    assert real == expected or trail.is_cut
    if real:
        check_laid(found, wish, real, tile, hosts_max)


@MANY
@given(found=few, most=st.integers(0, 3), pref=st.sampled_from(PREFS))
def test_even_shares_are_found_whenever_there_are_some(found: Rows, most: int, pref: str) -> None:
    wish = CuWish("rack", pref, max_domains=most, balance=True)
    counts = set()
    later = [size for size, _, _ in found]
    first = room(found).first.tolist()
    for split in product(*(range(size + 1) for size in later)):
        shares: dict[int, int] = {}
        for tasks, (_, _, where) in zip(split, found, strict=True):
            if tasks:
                shares[where] = shares.get(where, 0) + tasks
        if not shares or max(shares.values()) - min(shares.values()) > 1:
            continue
        if most and len(shares) > most:
            continue
        if any(0 < tasks <= lead for tasks, lead in zip(split, first, strict=True)):
            counts.add(sum(split))

    assert most_tasks(room(found), lie(found, wish), Trail()) == max(counts, default=0)
    assert counts == set(range(1, max(counts, default=0) + 1))
    for tasks in counts:
        check_laid(found, wish, tasks)


def test_preferences_choose_among_domains_that_fit() -> None:
    found: Rows = [(4, 0, 0), (2, 0, 1), (3, 0, 2)]
    chosen = {}
    for pref in PREFS:
        wish = CuWish("rack", pref, max_domains=1)
        laid = lay_in_domains(room(found), lie(found, wish), 2)
        assert laid is not None
        chosen[pref] = laid[0].tolist()
    assert chosen == {"config": [0], "minavail": [1], "maxavail": [0], "bestfit": [1]}


def test_even_shares_of_very_many_domains_are_laid_out_once_for_each_number_of_tasks(
    monkeypatch,
) -> None:
    found = [(host % 17 + 1, 0, host // 4) for host in range(1200)]
    wish = CuWish("rack", max_domains=300, balance=True)
    laid = []
    shares = domains._Domains._shares
    monkeypatch.setattr(
        domains._Domains, "_shares", lambda self, *of: (laid.append(of), shares(self, *of))[1]
    )
    most = most_tasks(room(found), lie(found, wish), Trail())
    check_laid(found, wish, most)
    assert len(laid) < 20
