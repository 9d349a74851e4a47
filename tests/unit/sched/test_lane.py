"""The short way of plain attempts gives the plans of the long one."""

from random import Random
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from msgspec.structs import replace

from xce.model.command import ProposePlan
from xce.model.config import HostConfig, QueueConfig
from xce.model.ids import SECOND_US
from xce.model.job import Submission
from xce.model.plan import Plan
from xce.model.request import Request
from xce.sched.counts import Counts
from xce.sched.lane import OPENED_FROM, Lane
from xce.sched.session import Session, run_session
from xce.sched.shape import Shape
from xce.sched.waiting import Memory
from xce.testing.builders import (
    RecordedController,
    cluster,
    report_ended,
    request,
    submission,
    submit,
)


def plan_of(controller: RecordedController, *, may_hurry: bool) -> tuple[Plan, Counts]:
    counts = Counts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "may_hurry", may_hurry)
        plan = run_session(
            controller.state, now_us=controller.now_us, memory=Memory(), counts=counts
        )
    return plan, counts


def draw_request(rng: Random) -> Request:
    kind = rng.random()
    if kind < 0.35:
        tasks: int | tuple[int, int] = 1
    elif kind < 0.8:
        tasks = rng.randint(2, 20)
    else:
        tasks = (rng.randint(1, 4), rng.randint(5, 12))
    wanted = request(tasks, **({"mem_mib": rng.randint(1, 30)} if rng.random() < 0.5 else {}))
    match rng.randrange(20):
        case 0 | 1:
            return request(tasks, ptile=2)
        case 2:
            return replace(wanted, order="-slots")
        case 3:
            return replace(wanted, select="mem > 12")
        case 4:
            return replace(wanted, exclusive=True)
        case _:
            return wanted


def draw_jobs(rng: Random) -> list[Submission]:
    jobs: list[Submission] = []
    for _ in range(rng.randint(10, 120)):
        job = submission(
            asks=draw_request(rng),
            run_limit_us=rng.randint(1, 9) * SECOND_US,
            elements="1-7" if rng.random() < 0.1 else "",
        )
        jobs += [job] * rng.choice((1, 1, 1, 2, 3))
    return jobs


@pytest.mark.parametrize("seed", range(12))
def test_the_short_way_gives_the_same_plan(seed):
    rng = Random(seed)
    hosts = [
        HostConfig(name=f"h{number}", slots=rng.randint(0, 9), mem_mib=rng.choice((10, 20, 100)))
        for number in range(rng.randint(1, 60))
    ]
    controller = cluster(hosts, queues=[QueueConfig(name="q", default=True, exclusive=True)])
    submit(controller, *draw_jobs(rng))
    for _ in range(3):
        plan, counts = plan_of(controller, may_hurry=True)
        as_ever, all_counts = plan_of(controller, may_hurry=False)
        assert plan == as_ever
        assert counts.runs == all_counts.runs
        assert counts.host_rows <= all_counts.host_rows
        controller.tell(ProposePlan(plan), by="scheduler")
        live = [
            (job.id, job.index(position))
            for job in controller.state.jobs.values()
            for position in (job.live or {})
        ]
        for job_id, index in rng.sample(live, len(live) // 2):
            report_ended(controller, job_id, index)


def test_many_differing_parallel_jobs_start_without_a_look_at_all_hosts():
    controller = cluster([HostConfig(name=f"h{number:03}", slots=8) for number in range(200)])
    jobs = [
        submission(asks=request(2 + number % 7), run_limit_us=(number + 1) * SECOND_US)
        for number in range(300)
    ]
    submit(controller, *jobs)
    plan, counts = plan_of(controller, may_hurry=True)
    assert len(plan.gangs) > 250
    # The first ones, and those who did not fit at the end, look at all of them.
    lying = 300 - len(plan.gangs)
    assert counts.host_rows <= 200 * (2 * OPENED_FROM + 2 * lying + 20)


def test_a_lane_follows_what_is_given_out_and_what_comes_back():
    free = np.array([[4, 0, 4, 2]], np.int64)
    lane = Lane(free, np.array([True, True, True, False]))
    one = cast("Shape", SimpleNamespace(plain_rows=((0, 1, 0),), tasks_min=1, tasks_max=1))

    def best(host: int, slots: int) -> int | None:
        free[0, host] = slots
        lane.note(host, slots)
        found = lane.find(one, free)
        return None if found is None else found[0][0]

    assert best(0, 4) == 0
    assert best(0, 1) == 2
    assert best(2, 0) == 0
    assert best(1, 3) == 1
    assert best(3, 9) == 1, "not one of its hosts"
    assert best(1, 0) == 0
    assert best(0, -2) is None
