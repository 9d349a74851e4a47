"""Live sessions give GPUs out as the policy of the trace simulator does, with the same mix."""

from itertools import groupby
from random import Random

import pytest
from msgspec.structs import replace
from sessions import Scheduled

from xce.model.config import HostConfig
from xce.model.device import WHOLE, Device, GpuWish
from xce.model.job import Submission
from xce.model.request import Request
from xce.sched.columns import HostFacts
from xce.sched.gpu_mix import mix_of
from xce.sim.gpu_log import Node, Task
from xce.sim.gpu_trace import Cluster
from xce.testing.builders import cluster, request, submission, submit

MODELS = ("NVIDIA A100", "Tesla V100", "Tesla T4")


def draw_nodes(rng: Random) -> list[Node]:
    """Return hosts of all models; few have the last one."""
    models = [*MODELS, *rng.choices(MODELS, (5, 5, 1), k=rng.randint(3, 7))]
    return [
        Node(f"h{place:02}", rng.randint(8, 40), 1 << 20, rng.choice((2, 4, 8)), model)
        for place, model in enumerate(models)
    ]


def draw_tasks(rng: Random) -> list[Task]:
    """Return tasks, alike ones often one after the other."""
    found = []
    for _ in range(rng.randint(8, 20)):
        milli = rng.choice((100, 250, 500, 900, WHOLE, WHOLE, WHOLE))
        gpus = rng.choice((1, 1, 1, 2, 4, 8)) if milli == WHOLE else 1
        models = (rng.choice(MODELS),) if rng.random() < 0.3 else ()
        found += [Task(rng.randint(1, 6) * gpus, 0, gpus, milli, models)] * rng.choice((1, 1, 2, 6))
    return found


def asks_of(task: Task) -> Request:
    """Return the request of a job that is such a task."""
    model = task.models[0] if task.models else ""
    wish = GpuWish(task.gpus, task.milli, "host", model.split()[-1] if model else "")
    return replace(request(task.cpu_milli, one_host=True), gpu=wish)


def hosts_of(nodes: list[Node]) -> list[HostConfig]:
    """Return them as a configuration has them."""
    return [
        HostConfig(
            name=node.name,
            slots=node.cpu_milli,
            mem_mib=node.mem_mib,
            gpus=tuple(Device(index, model=node.model) for index in range(node.gpus)),
        )
        for node in nodes
    ]


def left_of(found: Scheduled, nodes: list[Node]) -> tuple[list[int], list[list[int]]]:
    """Return the free slots of hosts, and what is free of their GPUs."""
    table = found.controller.state.hosts
    free = table.total - table.used
    rows = free[table.device_row : table.device_row + table.devices.width].T.tolist()
    return free[0].tolist(), [row[: node.gpus] for row, node in zip(rows, nodes, strict=True)]


@pytest.mark.parametrize("as_arrays", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_a_session_places_the_tasks_of_a_trace_as_the_trace_simulator_does(
    seed: int, as_arrays: bool
):
    rng = Random(seed)
    nodes, tasks = draw_nodes(rng), draw_tasks(rng)
    found = Scheduled(cluster(hosts_of(nodes)))
    for task, run in groupby(tasks):
        size = len(list(run))
        if as_arrays and size > 1:
            submit(found.controller, submission(asks=asks_of(task), elements=f"1-{size}"))
        else:
            for _ in range(size):
                submit(found.controller, submission(asks=asks_of(task)))
    found.run()
    simulated = Cluster(nodes, tasks, "default", Random(0), "trace")
    for task in tasks:
        simulated.place(task)
    slots, devices = left_of(found, nodes)
    assert slots == simulated.hosts.cpu.tolist()
    widths = [node.gpus for node in nodes]
    left = [
        row[:width] for row, width in zip(simulated.hosts.devices.tolist(), widths, strict=True)
    ]
    assert devices == left


def facts_of(found: Scheduled) -> HostFacts:
    state = found.controller.state
    return HostFacts(state.hosts, state.config)


def with_gpus(tasks: int, wish: GpuWish, **options: object) -> Submission:
    return submission(asks=replace(request(tasks, **options), gpu=wish))


def test_a_mix_has_prices_and_is_another_one_when_gpus_are_closed():
    hosts = [
        HostConfig(name=name, slots=8, gpus=tuple(Device(i, model=model) for i in range(size)))
        for name, size, model in (("h1", 6, "NVIDIA A100"), ("h2", 2, "Tesla T4"))
    ]
    found = Scheduled(cluster(hosts))
    submit(found.controller, with_gpus(1, GpuWish(1, model="T4")))
    submit(found.controller, with_gpus(3, GpuWish(1)))
    facts = facts_of(found)
    facts.mix = mix = mix_of(found.controller.state, facts)
    assert mix.prices.tolist() == [0, 1000]
    assert mix_of(found.controller.state, facts) is mix
    found.controller.state.hosts.devices.set_open(0, [0, 1, 2, 3], is_open=False, comment="")
    now = mix_of(found.controller.state, facts)
    assert now is not mix
    # A quarter of what is asked for wants half of the GPUs.
    assert now.prices.tolist() == [0, 500]


@pytest.mark.parametrize(
    ("asked", "alone"),
    [
        (with_gpus(4, GpuWish(2, per="host"), one_host=True), (4, 2)),
        (with_gpus(4, GpuWish(1), one_host=True), (4, 4)),
        (with_gpus(8, GpuWish(1), ptile=4), (4, 4)),
        (with_gpus(8, GpuWish(2, per="host"), ptile=4), (4, 2)),
        (with_gpus(3, GpuWish(1)), (1, 1)),
    ],
)
def test_what_comes_together_on_a_host_counts_as_one_task(
    asked: Submission, alone: tuple[int, int]
):
    gpus = tuple(Device(index, model="A100") for index in range(4))
    found = Scheduled(cluster([HostConfig(name="h1", slots=4, gpus=gpus)]))
    submit(found.controller, asked)
    mix = mix_of(found.controller.state, facts_of(found))
    size = asked.request.tasks_min // alone[0]
    assert mix.is_of({(*alone, WHOLE, frozenset({0})): size}, 1, (4,))
