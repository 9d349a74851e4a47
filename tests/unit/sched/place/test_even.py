"""Even shares of domains in blocks, on filled hosts or so many, against every way."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xce.sched.place import uneven as filling
from xce.sched.place.capacity import Room
from xce.sched.place.even import Even
from xce.sched.place.shares import DOMAINS_MAX
from xce.sched.place.uneven import Uneven

MANY = settings(max_examples=300, derandomize=True, deadline=None)
Rows = list[tuple[int, int, int]]
rows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5
)


def room_of(found: Rows, tiles: list[int]) -> tuple[Room, np.ndarray]:
    """Return the room of hosts of ``(tasks, cost of being first, domain)``, and their domains."""
    later = np.asarray([most for most, _, _ in found])
    first = np.maximum(later - np.asarray([cost for _, cost, _ in found]), 0)
    names = [domain for _, _, domain in found]
    of_host = np.unique(names, return_inverse=True)[1]
    return Room(np.arange(len(found)), later, first, np.asarray(tiles)), of_host


def even(found: Rows, tile: int, domains_max: int, hosts_max: int) -> Even:
    """Return what is asked about hosts with blocks of one size."""
    room, of_host = room_of(found, [tile] * len(found))
    return Even(room, of_host, np.arange(of_host.max() + 1), domains_max, hosts_max)


def uneven(found: Rows, tiles: list[int], domains_max: int) -> Uneven:
    """Return what is asked about hosts that are filled."""
    room, of_host = room_of(found, tiles)
    return Uneven(room, of_host, np.arange(of_host.max() + 1), domains_max)


def is_right(
    found: Rows,
    tiles: list[int],
    domains_max: int,
    hosts_max: int,
    tasks: tuple[int, ...],
) -> bool:
    """Return whether tasks may lie on hosts so, with some host the first."""
    used = [host for host, size in enumerate(tasks) if size]
    odd = [host for host in used if tasks[host] % tiles[host]]
    shares: dict[int, int] = {}
    for host in used:
        shares[found[host][2]] = shares.get(found[host][2], 0) + tasks[host]
    leads = [host for host in used if tasks[host] <= max(found[host][0] - found[host][1], 0)]
    return (
        bool(set(leads) - set(odd) if len(used) > 1 else leads)
        and len(odd) <= 1
        and max(shares.values()) - min(shares.values()) <= 1
        and len(shares) <= domains_max
        and not 0 < hosts_max < len(used)
    )


def check(
    asked: Even | Uneven,
    found: Rows,
    tiles: list[int],
    domains_max: int,
    hosts_max: int,
    cap: int,
) -> None:
    """All counts for which there is a way are found, and each way is right."""
    counts = {
        sum(tasks)
        for tasks in product(*(range(most + 1) for most, _, _ in found))
        if any(tasks) and is_right(found, tiles, domains_max, hosts_max, tasks)
    }
    assert asked.largest(cap) == max((count for count in counts if count <= cap), default=0)
    for tasks in range(1, 13):
        laid = asked.find(tasks)
        assert (laid is not None) == (tasks in counts)
        if laid is not None:
            numbers, sizes = (column.tolist() for column in laid)
            on_hosts = [0] * len(found)
            for number, size in zip(numbers, sizes, strict=True):
                on_hosts[number] = size
            assert is_right(found, tiles, domains_max, hosts_max, tuple(on_hosts))
            assert len(numbers) == 1 or sizes[0] % tiles[numbers[0]] == 0


@MANY
@given(rows, st.integers(1, 3), st.integers(1, 3), st.integers(0, 4), st.integers(1, 14))
def test_what_is_found_is_right_and_the_largest_there_is(found, tile, domains_max, hosts_max, cap):
    asked = even(found, tile, domains_max, hosts_max)
    check(asked, found, [tile] * len(found), domains_max, hosts_max, cap)


@MANY
@given(
    rows,
    st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=5, max_size=5),
    st.integers(1, 3),
    st.integers(1, 14),
)
def test_filled_hosts_come_to_every_sum_that_there_is(found, more, domains_max, cap):
    tiles = [max(most, 1) + up for (most, _, _), up in zip(found, more, strict=False)]
    check(uneven(found, tiles, domains_max), found, tiles, domains_max, 0, cap)


def test_of_very_many_domains_the_largest_are_looked_at():
    asked = even([(1 + host % 3, 0, host) for host in range(DOMAINS_MAX + 9)], 1, 99, 2)
    assert asked.is_cut
    assert len(asked.order) == DOMAINS_MAX
    assert asked.largest(99) == 6


def test_many_domains_and_any_number_of_tasks_take_few_looks(monkeypatch):
    rooms = [(host * 7 % 17, host % 3, host % 40) for host in range(320)]
    asked = even(rooms, 1, 40, 40)
    looks = []
    choose = asked._choose
    monkeypatch.setattr(asked, "_choose", lambda *of: (looks.append(of), choose(*of))[1])
    most = asked.largest(100_000)
    assert most == 567
    assert asked.find(most) is not None
    assert asked.find(most + 1) is None
    assert len(looks) < 300


@MANY
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 4)), min_size=2, max_size=12
    ),
    st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=12, max_size=12),
    st.integers(1, 5),
)
def test_whether_there_is_a_way_is_known_without_looking_for_it(found, more, size):
    asked = uneven(
        found, [max(most, 1) + up for (most, _, _), up in zip(found, more, strict=False)], 5
    )
    for tasks in range(size, 1 + sum(most for most, _, _ in found)):
        assert asked._is_possible(size, tasks) == (asked._choose(size, tasks) is not None)


def test_filled_hosts_of_many_sizes_in_many_domains_are_laid_soon(monkeypatch):
    found = [(2 + host * 7 % 31, 0, host % 40) for host in range(1_200)]
    asked = uneven(found, [most for most, _, _ in found], 40)
    looks = []
    is_possible = asked._is_possible
    monkeypatch.setattr(asked, "_is_possible", lambda *of: (looks.append(of), is_possible(*of))[1])
    most = asked.largest(sum(most for most, _, _ in found))
    numbers, sizes = asked.find(most)
    assert (len(set(numbers.tolist())), int(sizes.sum())) == (len(numbers), most)
    assert not asked.is_cut
    assert len(looks) < 200


def test_a_largest_number_that_takes_too_many_looks_is_not_the_last_word(monkeypatch):
    monkeypatch.setattr(filling, "TRIES_MAX", 1)
    # No two domains come to shares that differ by a task at most, though each has a share alone.
    asked = uneven([(3, 3, 0), (5, 0, 1), (3, 3, 2)], [3, 5, 3], 2)
    monkeypatch.setattr(asked, "_is_possible", lambda *_: False)
    assert (asked.largest(11), asked.is_cut) == (5, True)
