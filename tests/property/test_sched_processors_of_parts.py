"""Processors of the parts of a compound request against brute force: what fits is found."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement import QUEUE
from processors import fit_by_force, host_of

from xce.model.config import HostConfig
from xce.model.processor import LEVELS, Processor, join_words
from xce.model.reason import ReasonCode
from xce.model.request import Part, Request
from xce.resreq.affinity import parse_affinity
from xce.resreq.built import ROWS, find_gap
from xce.sched.session import run_session
from xce.testing.builders import RecordedController, cluster, request, submission, submit
from xce.testing.recorded import accept_plan

SHARE = settings(max_examples=300, derandomize=True, deadline=None)
LONG = settings(max_examples=10_000, deadline=None)
SHAPES = ((1, 2, 2), (2, 2, 2), (2, 3, 1), (2, 2, 1), (1, 4, 1), (3, 1, 2))
ANY = "core(1)"


@st.composite
def wishes(draw: st.DrawFn) -> str:
    """Draw what may stand between the brackets of a part; empty: it has none."""
    if draw(st.integers(0, 5)) == 0:
        return ""
    unit = draw(st.sampled_from(["thread", "core", "core", "socket"]))
    levels = st.sampled_from(LEVELS[: LEVELS.index(unit) + 1])
    inside = [str(draw(st.sampled_from([1, 1, 2, 2, 3])))]
    if draw(st.booleans()):
        inside.append(f"same={draw(levels)}")
    if draw(st.integers(0, 2)) == 0:
        scope = draw(st.sampled_from(["", ",injob", ",alljobs", ",intask"]))
        inside.append(f"exclusive=({draw(levels)}{scope})")
    spread = draw(st.sampled_from(["", "", "any", "pack", "balance", "pack(socket=1)"]))
    repeat = draw(st.sampled_from(["", "", "", "*2"]))
    return f"{unit}({','.join(inside)}){repeat}" + (f":distribute={spread}" if spread else "")


@st.composite
def parts(draw: st.DrawFn) -> Request:
    """Draw a request of two or three parts that is not refused."""
    sizes = draw(st.lists(st.integers(1, 2), min_size=2, max_size=3))
    texts = [draw(wishes().filter(lambda text: find_gap(text) is None)) for _ in sizes]
    found = tuple(
        Part(f"part{place}", size, Request(size, size, affinity=text))
        for place, (size, text) in enumerate(zip(sizes, texts, strict=True))
    )
    return Request(sum(sizes), sum(sizes), parts=found)


Host = tuple[Processor, ...]
hosts = st.lists(st.sampled_from(SHAPES).map(lambda shape: host_of(*shape)), min_size=1, max_size=2)


def build(processors: list[Host], slots: list[int], busy: int) -> RecordedController:
    """Return a cluster of hosts on which some processors are out."""
    controller = cluster(
        [
            HostConfig(name=f"h{place}", slots=slots[place], processors=some)
            for place, some in enumerate(processors)
        ],
        queues=[QUEUE],
    )
    for _ in range(busy):
        submit(controller, submission(asks=request(1, affinity=ANY)))
        accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    return controller


def is_possible(controller: RecordedController, wanted: Request) -> bool:
    """Return whether there is any way to place all parts."""
    table = controller.state.hosts
    free = table.total - table.used
    roles = [part.request for part in wanted.parts]
    for split in itertools.product(*(_splits(role.tasks_min, table.count) for role in roles)):
        if all(
            sum(share[number] for share in split) <= free[0, number]
            and _has_processors(controller, number, roles, [share[number] for share in split])
            for number in range(table.count)
        ):
            return True
    return False


def _splits(tasks: int, count: int) -> list[tuple[int, ...]]:
    every = itertools.product(range(tasks + 1), repeat=count)
    return [split for split in every if sum(split) == tasks]


def _has_processors(
    controller: RecordedController, number: int, roles: list[Request], tasks: list[int]
) -> bool:
    table = controller.state.hosts
    rows = (table.total - table.used)[table.word_row :, number]
    wants = [
        (parse_affinity(role.affinity), size)
        for role, size in zip(roles, tasks, strict=True)
        if role.affinity and size
    ]
    layout = table.processors.layout(number)
    return not wants or fit_by_force(wants, layout, join_words(rows.tolist()))


def check_found(processors: list[Host], slots: list[int], busy: int, wanted: Request) -> None:
    """All parts start if and only if brute force finds a way."""
    if any(row.is_asked(wanted) for row in ROWS):
        return
    controller = build(processors, slots, busy)
    expected = is_possible(controller, wanted)
    job = submit(controller, submission(asks=wanted))
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    assert bool(controller.job(job).live) == expected
    if not expected:
        reason = controller.state.classes[controller.job(job).cls].reason
        assert reason.code not in (ReasonCode.NEW, ReasonCode.SEARCH)
        assert reason.unsatisfiable != is_possible(build(processors, slots, 0), wanted)


slot_counts = st.lists(st.integers(1, 6), min_size=2, max_size=2)


@SHARE
@given(hosts, slot_counts, st.integers(0, 3), parts())
def test_all_parts_get_processors_whenever_there_is_a_way(processors, slots, busy, wanted):
    check_found(processors, slots, busy, wanted)


@pytest.mark.long
@pytest.mark.timeout(7200)
@LONG
@given(hosts, slot_counts, st.integers(0, 3), parts())
def test_long_all_parts_get_processors_whenever_there_is_a_way(processors, slots, busy, wanted):
    check_found(processors, slots, busy, wanted)
