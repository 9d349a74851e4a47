"""``span[gtile='!']`` against brute force: all GPUs of each host but of the last one."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement import QUEUE

from xce.model.config import HostConfig
from xce.model.device import Device, GpuWish
from xce.model.reason import ReasonCode
from xce.model.request import Amount, CuWish, Request
from xce.sched.session import run_session
from xce.testing.builders import RecordedController, cluster, submission, submit
from xce.testing.recorded import accept_plan

SHARE = settings(max_examples=200, derandomize=True, deadline=None)
LONG = settings(max_examples=5_000, deadline=None)
RACKS = ("r1", "r2")

hosts = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from(RACKS)), min_size=1, max_size=4
)
busy = st.lists(st.integers(0, 3), max_size=3)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    low = draw(st.integers(1, 8))
    return Request(
        low,
        draw(st.one_of(st.just(low), st.integers(low, 10))),
        amounts=draw(st.sampled_from([(), (), (Amount("mem", 2, "job"),)])),
        gpu=GpuWish(draw(st.sampled_from([1, 1, 2]))),
        gtile=-1,
        cu=draw(st.sampled_from([None, None, CuWish("rack", max_domains=1)])),
    )


def build(shape: list[tuple[int, int, str]], load: list[int]) -> RecordedController:
    """Return a cluster with hosts of so many slots and GPUs, on which some GPUs are in use."""
    controller = cluster(
        [
            HostConfig(
                name=f"h{place}",
                slots=slots,
                mem_mib=place % 3,
                gpus=tuple(map(Device, range(gpus))),
                labels={"rack": rack},
            )
            for place, (slots, gpus, rack) in enumerate(shape)
        ],
        queues=[QUEUE],
        levels=("rack",),
    )
    for _ in load:
        submit(controller, submission(asks=Request(gpu=GpuWish())))
        accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    return controller


def largest(
    controller: RecordedController, shape: list[tuple[int, int, str]], wanted: Request
) -> int:
    """Return the most tasks that can be laid on hosts now."""
    table = controller.state.hosts
    free = table.total - table.used
    count = wanted.gpu.count if wanted.gpu is not None else 1
    rooms = []
    for place in range(table.count):
        rows = free[table.device_row : table.device_row + shape[place][1], place]
        rooms.append(min(int(free[0, place]), int((rows >= 1000).sum()) // count))
    tiles = [gpus // count for _, gpus, _ in shape]
    best = 0
    for tasks in itertools.product(*(range(room + 1) for room in rooms)):
        used = [place for place, size in enumerate(tasks) if size]
        full = [place for place in used if tasks[place] == tiles[place]]
        racks = {shape[place][2] for place in used}
        leads = used if len(used) == 1 else full
        if wanted.amounts:
            leads = [place for place in leads if free[1, place] >= 2]
        if (
            wanted.tasks_min <= sum(tasks) <= wanted.tasks_max
            and len(used) - len(full) <= 1
            and leads
            and not (wanted.cu is not None and len(racks) > 1)
        ):
            best = max(best, sum(tasks))
    return best


def check_found(shape: list[tuple[int, int, str]], load: list[int], wanted: Request) -> None:
    """As many tasks start as brute force finds room for."""
    controller = build(shape, load)
    expected = largest(controller, shape, wanted)
    job = submit(controller, submission(asks=wanted))
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    live = controller.job(job).live
    assert (sum(live[0].tasks) if live else 0) == expected
    if not live:
        reason = controller.state.classes[controller.job(job).cls].reason
        assert reason.code not in (ReasonCode.NEW, ReasonCode.SEARCH)
        assert reason.unsatisfiable != (largest(build(shape, []), shape, wanted) > 0)


@SHARE
@given(hosts, busy, requests())
def test_hosts_are_used_with_all_their_gpus(shape, load, wanted):
    check_found(shape, load, wanted)


@pytest.mark.long
@pytest.mark.timeout(7200)
@LONG
@given(hosts, busy, requests())
def test_long_hosts_are_used_with_all_their_gpus(shape, load, wanted):
    check_found(shape, load, wanted)
