"""Even shares of domains in blocks or on so many hosts, against every way."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xce.sched.place.capacity import Room
from xce.sched.place.even import DOMAINS_MAX, Even

MANY = settings(max_examples=300, derandomize=True, deadline=None)
Rows = list[tuple[int, int, int]]
rows = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5
)


def even(found: Rows, tile: int, domains_max: int, hosts_max: int) -> Even:
    """Return what is asked about hosts of ``(tasks, cost of being first, domain)``."""
    later = np.asarray([most for most, _, _ in found])
    first = np.maximum(later - np.asarray([cost for _, cost, _ in found]), 0)
    names = [domain for _, _, domain in found]
    of_host = np.unique(names, return_inverse=True)[1]
    room = Room(np.arange(len(found)), later, first, np.full(len(found), tile))
    return Even(room, of_host, np.arange(of_host.max() + 1), domains_max, hosts_max)


def is_right(
    found: Rows, tile: int, domains_max: int, hosts_max: int, tasks: tuple[int, ...]
) -> bool:
    """Return whether tasks may lie on hosts so, with some host the first."""
    used = [host for host, size in enumerate(tasks) if size]
    odd = [host for host in used if tasks[host] % tile]
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


@MANY
@given(rows, st.integers(1, 3), st.integers(1, 3), st.integers(0, 4), st.integers(1, 14))
def test_what_is_found_is_right_and_the_largest_there_is(found, tile, domains_max, hosts_max, cap):
    counts = {
        sum(tasks)
        for tasks in product(*(range(most + 1) for most, _, _ in found))
        if any(tasks) and is_right(found, tile, domains_max, hosts_max, tasks)
    }
    asked = even(found, tile, domains_max, hosts_max)
    assert asked.largest(cap) == max((count for count in counts if count <= cap), default=0)
    for tasks in range(1, 13):
        laid = asked.find(tasks)
        assert (laid is not None) == (tasks in counts)
        if laid is not None:
            numbers, sizes = (column.tolist() for column in laid)
            on_hosts = [0] * len(found)
            for number, size in zip(numbers, sizes, strict=True):
                on_hosts[number] = size
            assert is_right(found, tile, domains_max, hosts_max, tuple(on_hosts))
            assert len(numbers) == 1 or sizes[0] % tile == 0


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
