"""Which processors tasks get on a host: spread, packed, balanced, apart, alone."""

import pytest
from processors import layout

from xce.model.processor import numbers_in
from xce.resreq.affinity import bound_to, parse_affinity
from xce.sched.processors import (
    CHOICES_MAX,
    choices,
    cover,
    held_by,
    most_attempts,
    most_tasks,
    place_tasks,
)

TWO = layout(2, 2, 2)
"""Sockets 0-3 and 4-7, of two cores each."""
BIG = layout(2, 4, 1)


def picked(text: str, tasks: int = 1, *, busy: int = 0, found=TWO) -> list[list[int]]:
    """Return what tasks are bound to."""
    wish = parse_affinity(text)
    sets = place_tasks(wish, found, found.all & ~busy, tasks)
    return [numbers_in(bound_to(wish, found, one)) for one in sets]


@pytest.mark.parametrize(
    ("text", "tasks", "expected"),
    [
        ("thread(1)", 3, [[0], [1], [2]]),
        ("core(1)", 2, [[0, 1], [2, 3]]),
        ("core(1)*2", 2, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("socket(1)", 2, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("numa(1)", 1, [[0, 1, 2, 3]]),
        ("core(1):distribute=balance", 2, [[0, 1], [4, 5]]),
        ("thread(1):distribute=balance", 4, [[0], [4], [2], [6]]),
        ("thread(1,exclusive=(core,injob))", 2, [[0], [2]]),
        ("core(1,exclusive=(socket,injob))", 2, [[0, 1], [4, 5]]),
        ("core(2,exclusive=(socket,intask))", 1, [[0, 1, 4, 5]]),
        (
            "core(2,same=socket,exclusive=(socket,alljobs)):cpubind=socket",
            2,
            [[0, 1, 2, 3], [4, 5, 6, 7]],
        ),
        ("thread(1,exclusive=(core)):cpubind=core", 2, [[0, 1], [2, 3]]),
        ("core(1):cpubind=socket", 3, [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]]),
        (
            "core(1,same=socket,exclusive=(socket,injob)):cpubind=socket:membind=localonly",
            2,
            [[0, 1, 2, 3], [4, 5, 6, 7]],
        ),
        ("core(3):cpubind=socket", 1, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        ("core(1):cpubind=thread", 2, [[0, 1], [2, 3]]),
    ],
)
def test_tasks_get_what_they_ask_for(text, tasks, expected):
    assert picked(text, tasks) == expected


def test_packing_takes_the_socket_that_is_just_large_enough():
    busy = 0b0001_0000
    assert picked("core(1):distribute=pack", 3, busy=busy, found=BIG) == [[5], [6], [7]]
    assert picked("core(1):distribute=pack", 4, busy=busy, found=BIG) == [[0], [1], [2], [3]]


def test_packing_into_a_number_of_domains_is_a_must():
    wish = parse_affinity("core(1):distribute=pack(socket=1)")
    assert most_tasks(wish, BIG, BIG.all) == 4
    assert most_tasks(wish, BIG, BIG.all & ~0b0011_0001) == 3
    assert picked("core(1):distribute=pack(socket=1)", 2, busy=0b0011_0001, found=BIG) == [[6], [7]]


def test_a_domain_for_all_jobs_is_held_as_a_whole_and_wants_to_be_idle():
    wish = parse_affinity("thread(1,exclusive=(socket,alljobs))")
    assert numbers_in(held_by(wish, TWO, [1])) == [0, 1, 2, 3]
    assert picked("thread(1,exclusive=(socket,alljobs))", busy=0b10) == [[4]]
    assert picked("thread(1,exclusive=(socket,alljobs))", busy=0b1_0000_0010 | 0b1_0000) == []


def test_a_domain_within_the_job_leaves_the_rest_of_it_to_other_jobs():
    wish = parse_affinity("core(1,exclusive=(socket,injob))")
    assert numbers_in(held_by(wish, TWO, [0b11])) == [0, 1]
    assert most_tasks(wish, TWO, TWO.all) == 2
    assert most_attempts(wish, TWO, TWO.all, 1) == 4


def test_a_core_that_is_partly_in_use_is_not_free():
    assert picked("core(1)", 4, busy=0b100) == [[0, 1], [4, 5], [6, 7]]


def test_of_a_core_of_which_we_have_one_thread_that_one_counts():
    wish = parse_affinity("core(1)")
    found = layout(1, 2, 2)
    allowed = type(found)(found.processors[:3])
    assert most_tasks(wish, allowed, allowed.all) == 2


@pytest.mark.parametrize(
    ("sizes", "demand", "bins"),
    [
        ([4, 4, 4], 4, 3),
        ([2, 2, 2, 2], 4, 2),
        ([3, 3, 2, 2, 2], 4, 2),
        ([3, 2, 2, 1], 4, 2),
        ([1, 1, 1], 4, 0),
        ([2, 1] * 40, 3, 40),
        ([2] * 40, 3, 20),
    ],
)
def test_domains_are_put_together_for_as_many_tasks_as_they_suffice_for(sizes, demand, bins):
    found = cover(sizes, demand)
    assert len(found) == bins
    assert all(sum(sizes[place] for place in some) >= demand for some in found)
    places = [place for some in found for place in some]
    assert len(places) == len(set(places))


def test_ways_to_take_many_of_many_domains_are_found_one_by_one():
    found = layout(16, 8, 1)
    wish = parse_affinity("core(1,same=socket):distribute=pack(core=120)")
    tried = choices(wish, found, found.all)
    assert len(tried) == len(set(tried)) == CHOICES_MAX
    assert {one.bit_count() for one in tried} == {120}
