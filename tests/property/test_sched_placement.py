"""Placement against brute force: whenever a placement exists it is found, as large as it may be.

Small clusters with work on them; one request. The oracle tries every split of tasks over hosts.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from xce.model.config import HostConfig, QueueConfig
from xce.model.reason import ReasonCode
from xce.model.request import Amount, HostChoice, Request
from xce.sched.score import level
from xce.sched.session import run_session
from xce.testing.builders import (
    RecordedController,
    bulk,
    cluster,
    kill,
    propose,
    submission,
    submit,
)
from xce.testing.recorded import accept_plan

MANY = settings(max_examples=300, derandomize=True, deadline=None)
QUEUE = QueueConfig(name="normal", priority=30, default=True, exclusive=True)
NAMES = ("h1", "h2", "h3", "h4")

sizes = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 9), st.integers(0, 4)), min_size=2, max_size=4
)
loads = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5)
amounts = st.lists(
    st.builds(
        Amount,
        st.sampled_from(["mem", "lic", "seats"]),
        st.integers(1, 3),
        st.sampled_from(["task", "host", "job"]),
    ),
    max_size=4,
    unique_by=lambda amount: (amount.resource, amount.per),
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    low = draw(st.integers(1, 7))
    high = draw(st.one_of(st.just(low), st.integers(low, 9)))
    span = draw(st.sampled_from(["", "", "one", "ptile", "ptile"]))
    named = draw(st.sampled_from([0, 0, 1, 2]))
    hosts = draw(st.permutations(NAMES[:2]))[:named]
    return Request(
        tasks_min=low,
        tasks_max=high,
        amounts=tuple(sorted(draw(amounts))),
        one_host=span == "one",
        ptile=draw(st.integers(1, 4)) if span == "ptile" else 0,
        hosts=tuple(HostChoice(name, draw(st.integers(0, 2))) for name in hosts),
        other_hosts=bool(hosts) and draw(st.booleans()),
        exclusive=draw(st.sampled_from([False, False, True])),
        order=draw(
            st.sampled_from(
                ["", "slots", "-slots", "-mem:slots", "!slots", "!-slots", "!mem:-slots"]
            )
        ),
        select=draw(st.sampled_from(["", "", "mem > 2", "hname != 'h1'"])),
    )


def build(shape: list[tuple[int, int, int]], load: list[tuple[int, int]]) -> RecordedController:
    """Return a cluster of these ``(slots, mem, lic)`` with some work on it."""
    hosts = [
        HostConfig(name=NAMES[place], slots=slots, mem_mib=mem, counters={"lic": lic})
        for place, (slots, mem, lic) in enumerate(shape)
    ]
    controller = cluster(hosts, counters=["lic"], pools={"seats": 5}, queues=[QUEUE])
    for place, mem in load:
        job = submit(controller, submission(mem_mib=mem))
        propose(controller, bulk(controller, job, hosts={NAMES[place % len(hosts)]: 1}))
        if not controller.job(job).live:
            kill(controller, job)
    return controller


def splits(shape: Request, hosts: int) -> Iterator[list[int]]:
    """Yield every way to lie on hosts that ``span[]`` allows, whatever is free."""
    for tasks in itertools.product(range(5), repeat=hosts):
        used = [size for size in tasks if size]
        if not shape.tasks_min <= sum(used) <= shape.tasks_max:
            continue
        if shape.one_host and len(used) != 1:
            continue
        if shape.ptile:
            rest = sorted(used)[1:] if sum(used) % shape.ptile else used
            if any(size != shape.ptile for size in rest) or max(used) > shape.ptile:
                continue
        yield list(tasks)


def largest(controller: RecordedController, shape: Request) -> int:
    """Return the most tasks with which one attempt fits now; 0: none does."""
    state = controller.state
    best = 0
    for tasks in splits(shape, state.hosts.count):
        if sum(tasks) <= best or not pools_hold(controller, shape, sum(tasks)):
            continue
        used = [place for place, size in enumerate(tasks) if size]
        full = [p for p in used if not shape.ptile or tasks[p] == shape.ptile or len(used) == 1]
        if any(hosts_hold(controller, shape, tasks, first) for first in full):
            best = sum(tasks)
    return best


def pools_hold(controller: RecordedController, shape: Request, tasks: int) -> bool:
    needed = sum(
        item.value * (tasks if item.per == "task" else 1)
        for item in shape.amounts
        if item.resource == "seats"
    )
    return needed <= controller.state.pools.free("seats")


def hosts_hold(
    controller: RecordedController, shape: Request, tasks: list[int], first: int
) -> bool:
    """Return whether every host can take its share, ``first`` carrying the job's own amounts."""
    table = controller.state.hosts
    named = [choice.host for choice in shape.hosts]
    for place, size in enumerate(tasks):
        if not size:
            continue
        name = table.names[place]
        free = {
            row: int(table.total[at, place] - table.used[at, place])
            for row, at in table.row.items()
        }
        if named and not shape.other_hosts and name not in named:
            return False
        if shape.select == "mem > 2" and free["mem"] <= 2:
            return False
        if shape.select.startswith("hname") and name == "h1":
            return False
        if (shape.exclusive and table.attempts[place]) or table.exclusive[place]:
            return False
        wanted = dict.fromkeys(free, 0)
        wanted["slots"] = size
        for item in shape.amounts:
            times = {"task": size, "host": 1, "job": int(place == first)}[item.per]
            if item.resource in wanted:
                wanted[item.resource] += item.value * times
        if any(wanted[row] > max(free[row], 0) for row in free):
            return False
    return True


@MANY
@given(shape=sizes, load=loads, wanted=requests())
def test_a_parallel_job_starts_whenever_it_can_and_as_large_as_it_can(
    shape: list[tuple[int, int, int]], load: list[tuple[int, int]], wanted: Request
) -> None:
    controller = build(shape, load)
    expected = largest(controller, wanted)
    job = submit(controller, submission(asks=wanted))

    plan = run_session(controller.state, now_us=controller.now_us)
    accept_plan(controller, plan)

    live = controller.job(job).live
    assert (sum(live[0].tasks) if live else 0) == expected
    if not live:
        reason = controller.state.classes[controller.job(job).cls].reason
        assert reason.code is not ReasonCode.NEW
        assert sum(item.hosts for item in reason.host_reasons) <= controller.state.hosts.count


@MANY
@given(shape=sizes, load=loads, wanted=requests())
def test_a_job_is_called_unsatisfiable_exactly_when_an_idle_cluster_has_no_place_for_it(
    shape: list[tuple[int, int, int]], load: list[tuple[int, int]], wanted: Request
) -> None:
    possible = largest(build(shape, []), wanted) > 0
    controller = build(shape, load)
    job = submit(controller, submission(asks=wanted))

    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))

    if not controller.job(job).live:
        reason = controller.state.classes[controller.job(job).cls].reason
        assert reason.unsatisfiable != possible


@MANY
@given(shape=sizes, load=loads, wanted=requests(), size=st.integers(1, 12))
def test_as_many_serial_elements_start_as_fit(
    shape: list[tuple[int, int, int]], load: list[tuple[int, int]], wanted: Request, size: int
) -> None:
    wanted = replace(wanted, tasks_min=1, tasks_max=1, ptile=0)
    controller = build(shape, load)
    twin = build(shape, load)
    expected = 0
    for _ in range(size):
        # One by one: an attempt of its own job each time, wherever the oracle says that one fits.
        if not largest(twin, wanted):
            break
        job = submit(twin, submission(asks=wanted))
        accept_plan(twin, run_session(twin.state, now_us=twin.now_us))
        expected += len(twin.job(job).live or {})
    array = submit(controller, submission(asks=wanted, elements=f"1-{size}"))

    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))

    assert len(controller.job(array).live or {}) == expected
    if (not wanted.order or wanted.order.startswith("!")) and not wanted.select:
        assert (controller.state.hosts.used == twin.state.hosts.used).all()


@MANY
@given(
    hosts=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=6),
    slots=st.integers(1, 5),
    wanted=st.integers(1, 40),
)
def test_levelling_is_the_same_as_placing_one_by_one(
    hosts: list[tuple[int, int]], slots: int, wanted: int
) -> None:
    free = np.asarray([size for size, _ in hosts], np.int64)
    room = np.asarray([most for _, most in hosts], np.int64)
    wanted = min(wanted, int(room.sum()))
    if wanted == 0:
        return
    left, shares = free.copy(), np.zeros_like(room)
    for _ in range(wanted):
        open_now = np.flatnonzero(shares < room)
        best = open_now[np.argmax(left[open_now])]
        shares[best] += 1
        left[best] -= slots

    assert level(free, room, wanted, slots).tolist() == shares.tolist()
