"""Counted work of sessions with many blocked requests: what changes is touched, not what waits."""

import numpy as np
import pytest
from sessions import Scheduled

from xce.model.config import HostConfig, QueueConfig
from xce.model.reason import HostCode
from xce.sched.counts import Counts
from xce.sched.ground import Ground
from xce.sched.passed import Passed
from xce.sched.session import run_session
from xce.testing.builders import cluster, report_ended, request, submission, submit

HOSTS, BLOCKED = 20, 200


def blocked_world(**queue: bool) -> Scheduled:
    """A full cluster on which many different requests wait."""
    hosts = [HostConfig(name=f"h{n}", slots=1, mem_mib=900) for n in range(HOSTS)]
    world = Scheduled(cluster(hosts, queues=[QueueConfig(name="normal", default=True, **queue)]))
    submit(world.controller, *[submission()] * HOSTS)
    world.run()
    submit(world.controller, *[submission(mem_mib=n) for n in range(1, BLOCKED + 1)])
    for _ in range(3):
        world.run()
    return world


def session(world: Scheduled) -> Counts:
    """Run a session that remembers, and have its plan taken."""
    world.hear()
    counts, state = Counts(), world.controller.state
    plan = run_session(state, now_us=world.controller.now_us, memory=world.memory, counts=counts)
    assert plan == run_session(state, now_us=world.controller.now_us)
    world.propose(plan)
    return counts


def test_when_a_host_frees_who_is_in_front_is_tried_and_the_others_are_passed_over() -> None:
    world = blocked_world()
    report_ended(world.controller, 1)
    assert session(world) == Counts(classes=1, tries=1, host_rows=HOSTS, runs=1)
    assert session(world).classes == 0


def test_each_host_that_frees_costs_one_try() -> None:
    world = blocked_world()
    for job in range(1, 6):
        report_ended(world.controller, job)
    assert session(world) == Counts(classes=5, tries=5, host_rows=5 * HOSTS, runs=5)


def test_where_much_is_given_out_the_others_are_tried_one_by_one() -> None:
    world = blocked_world()
    for job in range(1, HOSTS + 1):
        report_ended(world.controller, job)
    world.run()
    assert sum(bool(job.live) for job in world.controller.state.jobs.values()) == HOSTS


def test_backfill_preemption_and_shares_take_the_long_way() -> None:
    for queue in ({"backfill": "easy"}, {"policy": "fairshare"}):
        assert not Passed().may(cluster({"h1": 1}, **queue).state)
    assert Passed().may(cluster({"h1": 1}).state)


def test_a_cluster_with_other_hosts_is_counted_anew() -> None:
    world = blocked_world()
    rows = len(world.memory.passed.rows)
    assert rows == BLOCKED
    ground = Ground(np.zeros((2, HOSTS + 1), np.int64), np.zeros(HOSTS + 1, np.bool_))
    turns = world.memory.passed.open(world.controller.state, ground, None, None)
    assert not turns.classes
    assert not world.memory.passed.rows


def test_who_is_passed_over_hears_of_hosts_that_an_exclusive_job_took() -> None:
    world = blocked_world(exclusive=True)
    waiting = max(world.controller.state.jobs)
    report_ended(world.controller, 1)
    alone = submit(world.controller, submission(asks=request(exclusive=True), priority=99))
    assert session(world).runs == 1
    assert world.controller.job(alone).live
    assert world.host_codes(waiting) == {HostCode.TAKEN: 1, HostCode.SLOTS_BUSY: HOSTS - 1}
    assert session(world).classes == 0
    report_ended(world.controller, alone)
    assert session(world) == Counts(classes=1, tries=1, host_rows=HOSTS, runs=1)
    assert world.host_codes(waiting) == {HostCode.SLOTS_BUSY: HOSTS}


@pytest.mark.parametrize("counters", [100, 130, 300])
def test_hosts_may_have_any_number_of_resources(counters: int) -> None:
    world = Scheduled(
        cluster(
            [HostConfig(name="h1", slots=1, mem_mib=900)],
            counters=[f"r{n}" for n in range(counters)],
        )
    )
    submit(world.controller)
    world.run()
    submit(world.controller, *[submission(mem_mib=n) for n in range(1, BLOCKED + 1)])
    for _ in range(3):
        world.run()
    assert len(world.memory.passed.rows) == BLOCKED
    report_ended(world.controller, 1)
    assert session(world).runs == 1
