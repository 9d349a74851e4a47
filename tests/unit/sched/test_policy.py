"""The hosts that are left, with what is to be said about the others and without."""

import pytest
from msgspec.structs import replace
from sessions import Scheduled

from xce.model.config import HostConfig, QueueConfig
from xce.model.device import Device, GpuWish
from xce.model.processor import made_up
from xce.model.request import Request, Threshold
from xce.sched.counts import Counts
from xce.sched.ground import open_ground
from xce.sched.policy import FIRST_COME, fitting, sift
from xce.sched.waiting import Memory
from xce.testing.builders import cluster, request, submission, submit

QUEUE = QueueConfig(name="normal", priority=30, default=True, exclusive=True)
HOSTS = [
    HostConfig(
        name=f"h{number}",
        slots=4,
        mem_mib=100,
        gpus=tuple(Device(place, model="H100") for place in range(number)),
        processors=made_up({"sockets": 1, "cores": 4, "threads": 1, "numa": 1}),
    )
    for number in range(4)
]


@pytest.mark.parametrize(
    ("asks", "count"),
    [
        (request(9), 4),
        (request(6, mem_mib=90), 2),
        (request(8, ptile=4), 2),
        (replace(request(9), exclusive=True), 2),
        (replace(request(9), thresholds=(Threshold("mem", 90_000),)), 2),
        (replace(request(9), select="mem > 90"), 2),
        (replace(request(9), gpu=GpuWish(1)), 1),
        (replace(request(9), gpu=GpuWish(3)), 1),
        (replace(request(9), affinity="core(4)"), 2),
        (request(9, mem_mib=101), 0),
    ],
)
def test_nothing_changes_when_nobody_asks_why_hosts_are_left_out(asks: Request, count: int) -> None:
    world = Scheduled(cluster(HOSTS, queues=[QUEUE]))
    asked = replace(request(3, mem_mib=15), gpu=GpuWish(1), affinity="core(1)")
    running = submission(asks=asked)
    submit(world.controller, running)
    world.run()
    submit(world.controller, submission(asks=asks))
    state, memory = world.controller.state, Memory()
    facts, ground = memory.open(state, FIRST_COME), open_ground(state, {})
    (found,) = state.waiting.values()
    shape = memory.shape(state, found, ((), 0), Counts())
    left = fitting(shape, ground, facts, FIRST_COME)
    assert left.sum() == count
    assert left.tolist() == sift(shape, ground, facts, FIRST_COME, shape.unit).left.tolist()
