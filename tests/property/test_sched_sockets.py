"""GPUs of each socket (``gtile``) against brute force: what fits is found, and as asked."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement import QUEUE
from processors import host_of

from xce.model.config import HostConfig
from xce.model.device import Device, GpuWish
from xce.model.reason import ReasonCode
from xce.model.request import Request
from xce.sched.certify_devices import find_device_faults
from xce.sched.session import run_session
from xce.testing.builders import RecordedController, cluster, submission, submit
from xce.testing.recorded import accept_plan

SHARE = settings(max_examples=200, derandomize=True, deadline=None)
LONG = settings(max_examples=10_000, deadline=None)
gpus = st.lists(
    st.tuples(st.integers(-1, 3), st.sampled_from([-1, 0, 0, 1])), min_size=1, max_size=6
)
"""Of each: its NUMA domain, two of which are a socket, and its NVLink domain."""
hosts = st.lists(gpus, min_size=1, max_size=2)
busy = st.lists(st.integers(1, 2), max_size=3)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    tasks = draw(st.integers(1, 4))
    wish = GpuWish(
        draw(st.integers(1, 3)),
        per=draw(st.sampled_from(["task", "task", "host", "job"])),
        tile=draw(st.sampled_from([-1, 1, 1, 2, 3])),
    )
    most = draw(st.one_of(st.just(tasks), st.integers(tasks, 5)))
    return Request(tasks, most, gpu=wish, one_host=draw(st.booleans()))


def build(shape: list[list[tuple[int, int]]], load: list[int]) -> RecordedController:
    """Return a cluster whose first host has two sockets of two NUMA domains each; of the other one
    nobody knows the processors.
    """
    controller = cluster(
        [
            HostConfig(
                name=f"h{place}",
                slots=5,
                gpus=tuple(
                    Device(index, numa=numa, link=link) for index, (numa, link) in enumerate(some)
                ),
                processors=None if place else host_of(2, 2, 1, numa=4),
            )
            for place, some in enumerate(shape)
        ],
        queues=[QUEUE],
    )
    for count in load:
        submit(controller, submission(asks=Request(gpu=GpuWish(count))))
        accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    return controller


def can_give(tile: int, there: list[int], free: list[int], wanted: int) -> bool:
    """Return whether any choice of free GPUs, told by their sockets, is as ``gtile`` says."""
    for some in itertools.combinations(free, wanted):
        counts = [some.count(one) for one in sorted({*there} - {-1})]
        if -1 in some:
            continue
        if tile < 0 and counts and max(counts) - min(counts) <= 1:
            return True
        odd = [size for size in counts if size not in (0, tile)]
        if tile > 0 and max(counts, default=0) <= tile and len(odd) <= 1:
            return True
    return False


def largest(controller: RecordedController, wanted: Request) -> int:
    """Return the most tasks that can be laid on hosts now."""
    table, wish = controller.state.hosts, wanted.gpu
    assert wish is not None
    sockets = [
        [device.numa if device.numa < 0 or place else device.numa // 2 for device in host.devices]
        for place, host in enumerate(table.devices.hosts)
    ]
    rows = (table.total - table.used)[table.device_row :]
    free = [
        [one for place, one in enumerate(mine) if rows[place, number] >= 1000]
        for number, mine in enumerate(sockets)
    ]
    slots = (table.total - table.used)[0]
    best = 0
    for tasks in itertools.product(*(range(int(size) + 1) for size in slots)):
        used = [number for number, size in enumerate(tasks) if size]
        if not wanted.tasks_min <= sum(tasks) <= wanted.tasks_max:
            continue
        if wanted.one_host and len(used) > 1:
            continue
        for first in used:
            if all(
                can_give(
                    wish.tile, sockets[number], free[number],
                    wish.items(tasks[number], is_first=number == first),
                )
                or not wish.items(tasks[number], is_first=number == first)
                for number in used
            ):  # fmt: skip
                best = max(best, sum(tasks))
    return best


def check_found(shape: list[list[tuple[int, int]]], load: list[int], wanted: Request) -> None:
    """As many tasks start as brute force finds room for, and the certifier lets them pass."""
    controller = build(shape, load)
    expected = largest(controller, wanted)
    job = submit(controller, submission(asks=wanted))
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    live = controller.job(job).live
    assert (sum(live[0].tasks) if live else 0) == expected
    if live:
        columns = live[0].hosts, live[0].tasks, (), live[0].devices
        assert find_device_faults((wanted,), *columns, controller.state.hosts) == []
        return
    reason = controller.state.classes[controller.job(job).cls].reason
    assert reason.code not in (ReasonCode.NEW, ReasonCode.SEARCH)
    assert reason.unsatisfiable != (largest(build(shape, []), wanted) > 0)


@SHARE
@given(hosts, busy, requests())
def test_gpus_of_each_socket_are_found_whenever_there_are_any(shape, load, wanted):
    check_found(shape, load, wanted)


@pytest.mark.long
@pytest.mark.timeout(7200)
@LONG
@given(hosts, busy, requests())
def test_long_gpus_of_each_socket_are_found(shape, load, wanted):
    check_found(shape, load, wanted)
