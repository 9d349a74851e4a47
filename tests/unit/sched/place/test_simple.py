"""Placing one attempt of a simple request."""

from random import Random

import numpy as np
import pytest

from xce.model.config import HostConfig
from xce.model.request import Amount
from xce.sched.place import spot
from xce.sched.place.capacity import room_on
from xce.sched.place.domains import Trail
from xce.sched.place.simple import find_simple
from xce.sched.session import run_session
from xce.sched.shape import Shape
from xce.state.hosts import Column, Flags
from xce.testing.builders import cluster, request, submission, submit


def through_the_general_search(
    shape: Shape, free: Column, left: Flags, ranked: Column, tasks_max: int
) -> tuple[Column, Column] | None:
    return find_simple(shape, room_on(shape, free, left, ranked), tasks_max, Trail())


@pytest.mark.parametrize("seed", range(25))
def test_what_may_lie_anywhere_lies_as_the_general_search_would_lay_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(seed)
    hosts = [
        HostConfig(name=f"h{number:02d}", slots=rng.randint(1, 6), mem_mib=rng.randint(0, 40))
        for number in range(rng.randint(1, 12))
    ]
    asks = []
    for _ in range(12):
        amounts = [
            Amount("mem", rng.randint(1, 9), per)
            for per in ("task", "host", "job")
            if rng.random() < 0.3
        ]
        least = rng.randint(1, 9)
        tasks = (least, least + rng.choice((0, 0, 3, 20)))
        asks.append(submission(asks=request(tasks, amounts=amounts[:1])))
    controller = cluster(hosts)
    submit(controller, *asks)
    plan = run_session(controller.state, now_us=controller.now_us)
    assert plan.gangs or plan.bulk or plan.reasons
    monkeypatch.setattr(spot, "find_loose", through_the_general_search)
    assert run_session(controller.state, now_us=controller.now_us) == plan


def test_only_as_many_hosts_as_tasks_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    whole = np.cumsum

    def counting(values: Column) -> Column:
        seen.append(len(values))
        return whole(values)

    controller = cluster({f"h{number:04d}": 2 for number in range(500)})
    submit(controller, *[submission(asks=request(tasks)) for tasks in (3, 7, 12)])
    monkeypatch.setattr("xce.sched.place.simple.np.cumsum", counting)
    plan = run_session(controller.state, now_us=controller.now_us)
    assert [len(gang.hosts) for gang in plan.gangs] == [2, 4, 6]
    assert seen == [3, 7, 12]
