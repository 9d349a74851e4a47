"""Processors of ``affinity[]`` on small hosts: against brute force, and for the certifier."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from processors import host_of, most_by_force

from xce.model.processor import LEVELS, Processor, layout_of, numbers_in, words_of
from xce.resreq.affinity import bound_to, find_gap, parse_affinity
from xce.sched.certify_processors import find_processor_faults
from xce.sched.processors import held_by, most_attempts, most_tasks, place_tasks
from xce.state.hosts import HostTable
from xce.testing.builders import request

FEW = settings(max_examples=400, derandomize=True, deadline=None)
SHAPES = ((1, 2, 2), (2, 2, 2), (2, 3, 1), (4, 2, 1), (2, 2, 1), (1, 4, 2), (3, 1, 2))


@st.composite
def hosts(draw: st.DrawFn) -> tuple[Processor, ...]:
    """Draw a small host, some of whose processors we may not use."""
    sockets, cores, threads = draw(st.sampled_from(SHAPES))
    # A NUMA domain may be the host, a socket, or a part of one.
    numa = draw(st.sampled_from([0, 1, sockets * 2 if cores % 2 == 0 else 0]))
    whole = host_of(sockets, cores, threads, numa=numa)
    missing = draw(st.sets(st.integers(0, len(whole) - 1), max_size=2))
    return tuple(item for item in whole if item.number not in missing) or whole[:1]


@st.composite
def wishes(draw: st.DrawFn) -> str:
    """Draw what may stand between the brackets."""
    unit = draw(st.sampled_from(LEVELS))
    levels = st.sampled_from(LEVELS[: LEVELS.index(unit) + 1])
    inside = [str(draw(st.sampled_from([1, 1, 2, 2, 3])))]
    if draw(st.booleans()):
        inside.append(f"same={draw(levels)}")
    if draw(st.booleans()):
        scope = draw(st.sampled_from(["", ",injob", ",alljobs", ",intask"]))
        inside.append(f"exclusive=({draw(levels)}{scope})")
    text = f"{unit}({','.join(inside)})" + draw(st.sampled_from(["", "", "", "*2"]))
    spread = draw(st.sampled_from(["", "any", "pack", "balance", "pack(numa=1)", "pack(n)"]))
    if spread == "pack(n)":
        spread = f"pack({draw(levels)}={draw(st.integers(1, 3))})"
    return text + (f":distribute={spread}" if spread else "")


@given(hosts(), wishes(), st.integers(0, 2**12 - 1))
@FEW
def test_as_many_tasks_find_processors_as_there_is_any_way_for(processors, text, busy):
    check_most(processors, text, busy)


@given(hosts(), wishes(), st.integers(0, 2**12 - 1))
@FEW
def test_of_many_choices_of_domains_those_that_are_tried_suffice(processors, text, busy):
    wish = parse_affinity(text)
    # Where a host has domains of different sizes the fullest may be the wrong ones.
    assume(not wish.exclusive and len(processors) % 2 == 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xce.sched.processors.CHOICES_MAX", 4)
        most_tasks.cache_clear()
        check_most(processors, text, busy)
    most_tasks.cache_clear()


def check_most(processors, text, busy):
    """As many tasks are placed as brute force finds room for."""
    assume(find_gap(text) is None)
    wish, found = parse_affinity(text), layout_of(processors)
    free = found.all & ~busy
    most = most_by_force(wish, found, free)
    assert most_tasks(wish, found, free) == most
    for tasks in range(1, most + 1):
        assert len(place_tasks(wish, found, free, tasks)) == tasks


@given(hosts(), wishes(), st.integers(0, 2**12 - 1), st.integers(1, 3))
@FEW
def test_what_is_picked_is_free_and_as_asked(processors, text, busy, tasks):
    assume(find_gap(text) is None)
    wish, found = parse_affinity(text), layout_of(processors)
    free = found.all & ~busy
    picked = place_tasks(wish, found, free, tasks)
    assume(len(picked) == tasks)
    held = held_by(wish, found, picked)
    assert held & free == held
    words = [word for mask in (held, *picked) for word in words_of(mask, 1)]
    asked = request(tasks, affinity=text)
    assert find_processor_faults((asked,), [0], [tasks], (), [words], table_of(processors)) == []


@given(hosts(), wishes(), st.integers(1, 3))
@FEW
def test_attempts_one_after_the_other_fit_as_often_as_was_said(processors, text, tasks):
    assume(find_gap(text) is None)
    wish, found = parse_affinity(text), layout_of(processors)
    free, count = found.all, 0
    while len(picked := place_tasks(wish, found, free, tasks)) == tasks:
        free &= ~held_by(wish, found, picked)
        count += 1
    assert most_attempts(wish, found, found.all, tasks) == count


def table_of(processors: tuple[Processor, ...]) -> HostTable:
    table = HostTable()
    table.add("h1")
    table.processors.reported[0] = processors
    table.join(0)
    return table


@given(hosts(), wishes(), st.sampled_from(LEVELS), st.integers(0, 2**12 - 1))
@FEW
def test_a_task_is_bound_to_whole_domains_around_its_units(processors, text, level, busy):
    """Wider or not, it is bound to what it has, and to nothing of a domain where it has nothing."""
    assume(find_gap(text) is None)
    wish, found = parse_affinity(f"{text}:cpubind={level}"), layout_of(processors)
    for units in place_tasks(wish, found, found.all & ~busy, 2):
        bound = bound_to(wish, found, units)
        assert bound & units == units
        width = level if LEVELS.index(level) < LEVELS.index(wish.unit) else wish.unit
        around = {item.place(width) for item in processors if units >> item.number & 1}
        expected = {item.number for item in processors if item.place(width) in around}
        assert set(numbers_in(bound)) == expected
