"""The exact search for compound requests, on its own."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xce.sched.place.search import CutError, Part, Steps, search

MANY = settings(max_examples=300, derandomize=True, deadline=None)
amount = st.tuples(st.integers(1, 2), st.integers(0, 2))
none = st.just((0, 0))


@st.composite
def parts(draw: st.DrawFn, hosts: int) -> Part:
    tasks = draw(st.integers(1, 4))
    tile = draw(st.sampled_from([1, 1, 2, 3]))
    ceiling = draw(st.sampled_from([9, 9, tile]))
    return Part(
        tasks,
        draw(amount),
        draw(st.one_of(none, st.tuples(st.just(0), st.integers(0, 2)))),
        draw(st.one_of(none, st.tuples(st.just(0), st.integers(0, 3)))),
        draw(st.sampled_from([0, 0, 1, 2])),
        (tile,) * hosts,
        tuple(draw(st.sampled_from([0, ceiling, ceiling])) for _ in range(hosts)),
    )


def lies(part: Part, hosts: int) -> list[tuple[tuple[int, ...], int]]:
    """Return every way to lay a part: tasks by host, and which host leads."""
    found = []
    for sizes in itertools.product(range(part.tasks + 1), repeat=hosts):
        used = [row for row, size in enumerate(sizes) if size]
        odd = [row for row in used if sizes[row] % part.tiles[row]]
        if sum(sizes) != part.tasks or len(odd) > 1:
            continue
        if any(size > most for size, most in zip(sizes, part.ceilings, strict=True)):
            continue
        if part.hosts_max and len(used) > part.hosts_max:
            continue
        found += [(sizes, row) for row in used if row not in odd or len(used) == 1]
    return found


@MANY
@given(data=st.data())
def test_it_finds_a_placement_exactly_when_there_is_one(data: st.DataObject) -> None:
    free = data.draw(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), min_size=1, max_size=3)
    )
    asked = [data.draw(parts(len(free))) for _ in range(data.draw(st.integers(1, 3)))]
    hosts_max = data.draw(st.sampled_from([0, 0, 1, 2]))

    def fits(choice: tuple[tuple[tuple[int, ...], int], ...]) -> bool:
        used = set()
        for row, have in enumerate(free):
            taken = [0, 0]
            for part, (sizes, lead) in zip(asked, choice, strict=True):
                if sizes[row]:
                    used.add(row)
                    for at in range(2):
                        taken[at] += part.each[at] * sizes[row] + part.once[at]
                        taken[at] += part.lead[at] if lead == row else 0
            if any(want > most for want, most in zip(taken, have, strict=True)):
                return False
        return not hosts_max or len(used) <= hosts_max

    ways = [lies(part, len(free)) for part in asked]
    is_possible = any(fits(choice) for choice in itertools.product(*ways))

    shares = search(asked, free, hosts_max, Steps())

    assert (shares is not None) == is_possible
    if shares is None:
        return
    choice = []
    for place, part in enumerate(asked):
        own = [share for share in shares if share.part == place]
        sizes = [0] * len(free)
        for share in own:
            sizes[share.row] += share.tasks
        leads = [share.row for share in own if share.leads]
        odd = [row for row, size in enumerate(sizes) if size % part.tiles[row]]
        others = [share.row for share in own if share.row not in odd or len(own) == 1]
        choice.append((tuple(sizes), (leads or others)[0]))
        assert len(leads) == (1 if part.has_lead else 0)
        assert choice[-1] in ways[place]
    assert fits(tuple(choice))


def test_the_bound_is_told() -> None:
    part = Part(9, (1,), (0,), (0,), 0, (1,) * 9, (1,) * 9)
    assert search([part], [(1,)] * 9, 0, Steps(9)) is not None
    with pytest.raises(CutError):
        search([part], [(1,)] * 9, 0, Steps(8))
