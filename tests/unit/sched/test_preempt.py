"""Preemption: who gives way, for whom the room is held, and how it ends."""

import pytest
from msgspec.structs import replace
from sessions import Scheduled

from xce.model.config import HostConfig, QueueConfig
from xce.model.effect import SetSuspended, Terminate
from xce.model.ids import SECOND_US
from xce.model.job import EndCause
from xce.model.observation import SuspensionSeen
from xce.model.plan import StartRule
from xce.model.reason import ReasonCode
from xce.model.request import Amount
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import stat_of
from xce.testing.builders import (
    cluster,
    kill,
    modify,
    report,
    report_ended,
    report_started,
    request,
    submission,
    submit,
)

URGENT = QueueConfig(name="urgent", priority=50, preempt=("low", "lower"), exclusive=True)
NORMAL = QueueConfig(name="normal", priority=30, default=True)
LOW = QueueConfig(name="low", priority=20, preemption="requeue")
LOWER = QueueConfig(name="lower", priority=10, preemption="kill")


def scheduled(hosts, *, low="requeue", **settings) -> Scheduled:
    queues = [URGENT, NORMAL, replace(LOW, preemption=low), LOWER]
    return Scheduled(cluster(hosts, queues=queues, **settings))


def job(world, tasks=1, queue="low", *, start=True, **wanted):
    found = submit(world.controller, submission(tasks=tasks, queue=queue, **wanted))
    world.run()
    if start and world.is_live(found) and not world.controller.job(found).array:
        report_started(world.controller, found)
    return found


def stat(world, found):
    return stat_of(world.controller.state, world.controller.job(found), 0)


def holds(world):
    state = world.controller.state
    assert digest(load(dump(state))) == digest(state)
    return state.holds


def victims(world, found):
    return [victim.job for victim in holds(world)[found, 0].victims]


def effects(world):
    return [effect for _, effect in world.controller.effects()]


# --- who gives way -------------------------------------------------------------------------------


def test_a_job_of_a_lower_queue_is_requeued_and_its_room_held():
    world = scheduled({"h1": 4})
    low = job(world, 4)
    urgent = job(world, 2, "urgent")
    assert victims(world, urgent) == [low]
    assert world.reason(urgent).code is ReasonCode.PREEMPTING
    (effect,) = effects(world)
    assert isinstance(effect, Terminate)
    assert effect.cause == EndCause.PREEMPT
    # Nobody else gets the room.
    other = job(world, 2, "normal")
    assert not world.is_live(other)
    report_ended(world.controller, low, exit_code=143, cause=EndCause.PREEMPT)
    assert stat(world, low) == "PEND"
    world.run()
    assert world.is_live(urgent)
    assert world.controller.attempt(urgent).rule is StartRule.PREEMPT
    assert holds(world) == {}
    assert world.is_live(other)
    assert not world.is_live(low)


def test_a_job_that_ends_well_before_it_gives_way_is_done():
    world = scheduled({"h1": 4})
    low = job(world, 4)
    job(world, 2, "urgent")
    report_ended(world.controller, low, exit_code=0)
    assert stat(world, low) == "DONE"


def test_a_killed_one_ends_with_the_cause():
    world = scheduled({"h1": 4})
    lower = job(world, 4, "lower")
    urgent = job(world, 4, "urgent")
    report_ended(world.controller, lower, exit_code=143)
    assert stat(world, lower) == "EXIT"
    assert world.controller.job(lower).ended.cause == EndCause.PREEMPT
    assert world.controller.job(lower).ended_by == {0: f"job {urgent}"}
    world.run()
    assert world.is_live(urgent)


def test_the_lowest_queue_gives_way_first_then_who_ran_shortest():
    world = scheduled({"h1": 4})
    old = job(world, 1)
    lowest = job(world, 1, "lower")
    young = job(world, 2)
    first = job(world, 1, "urgent")
    assert victims(world, first) == [lowest]
    second = job(world, 2, "urgent")
    assert victims(world, second) == [young]
    third = job(world, 1, "urgent")
    assert victims(world, third) == [old]


def test_only_those_whose_room_is_needed_give_way():
    world = scheduled({"h1": 2, "h2": 4})
    job(world, asks=request(2, hosts=["h1"]))
    needed = job(world, asks=request(4, hosts=["h2"]))
    urgent = job(world, asks=request(3, one_host=True), queue="urgent")
    assert victims(world, urgent) == [needed]


def test_nobody_gives_way_in_vain():
    world = scheduled({"h1": 2, "h2": 2})
    low = job(world, 1)
    job(world, 3, "normal")
    urgent = job(world, 4, "urgent")
    assert holds(world) == {}
    assert stat(world, low) == "RUN"
    assert world.reason(urgent).code is ReasonCode.HOSTS


def test_who_is_not_of_a_named_queue_does_not_give_way():
    world = scheduled({"h1": 1})
    job(world, 1, "normal")
    job(world, 1, "urgent")
    assert holds(world) == {}


def test_room_of_every_resource_and_pool_counts():
    hosts = [HostConfig(name="h1", slots=8, mem_mib=100)]
    world = scheduled(hosts, pools={"seats": 2})
    job(world, asks=request(1, mem_mib=10))
    hog = job(world, asks=request(1, mem_mib=80))
    urgent = job(world, asks=request(1, mem_mib=50), queue="urgent")
    assert victims(world, urgent) == [hog]
    sits = job(world, asks=request(1, amounts=[Amount("seats", 2)]))
    wants = job(world, asks=request(1, amounts=[Amount("seats", 1)]), queue="urgent")
    assert sits in victims(world, wants)


def test_an_exclusive_job_empties_its_host():
    world = scheduled({"h1": 4, "h2": 4})
    ones = [job(world, 1) for _ in range(2)]
    urgent = job(world, asks=request(1, exclusive=True), queue="urgent")
    (victim,) = victims(world, urgent)
    assert victim in ones
    report_ended(world.controller, victim, exit_code=143)
    world.run()
    assert world.is_live(urgent)


def test_elements_of_an_array_preempt_one_by_one():
    world = scheduled({"h1": 4})
    low = [job(world, 1) for _ in range(4)]
    urgent = submit(world.controller, submission(elements="1-3", queue="urgent"))
    world.run()
    assert len(holds(world)) == 3
    for item in low[1:]:
        report_ended(world.controller, item, exit_code=143)
    world.run()
    assert len(world.controller.job(urgent).live) == 3
    assert world.is_live(low[0])


# --- suspension ----------------------------------------------------------------------------------


def test_a_suspended_one_gives_its_slots_keeps_the_rest_and_goes_on_later():
    hosts = [HostConfig(name="h1", slots=4, mem_mib=100)]
    world = scheduled(hosts, low="suspend")
    low = job(world, asks=request(4, mem_mib=20))
    urgent = job(world, asks=request(2, mem_mib=5), queue="urgent")
    assert effects(world) == [SetSuspended(low, 0, 1, True)]
    assert not world.is_live(urgent)
    report(world.controller, "h1", SuspensionSeen(low, 0, 1, suspended=True))
    assert stat(world, low) == "SSUSP"
    world.run()
    assert world.is_live(urgent)
    used = world.controller.state.hosts.used[:, 0].tolist()
    assert used == [2, 90]
    holds(world)
    report_started(world.controller, urgent)
    report_ended(world.controller, urgent)
    world.run()
    assert effects(world) == [SetSuspended(low, 0, 1, False)]
    assert world.controller.state.hosts.used[:, 0].tolist() == [4, 80]
    report(world.controller, "h1", SuspensionSeen(low, 0, 1, suspended=False))
    assert stat(world, low) == "RUN"


def test_memory_is_not_given_by_a_suspended_one():
    hosts = [HostConfig(name="h1", slots=4, mem_mib=100)]
    world = scheduled(hosts, low="suspend")
    job(world, asks=request(1, mem_mib=80))
    job(world, asks=request(1, mem_mib=50), queue="urgent")
    assert holds(world) == {}


def test_a_suspended_one_goes_on_before_others_of_its_queue_start():
    world = scheduled({"h1": 2}, low="suspend")
    low = job(world, 2)
    urgent = job(world, 2, "urgent")
    report(world.controller, "h1", SuspensionSeen(low, 0, 1, suspended=True))
    world.run()
    report_started(world.controller, urgent)
    pending = job(world, 2)
    report_ended(world.controller, urgent)
    world.run()
    assert not world.is_live(pending)
    assert not world.controller.attempt(low).shall_stop


def test_a_suspended_one_that_is_killed_leaves_nothing_behind():
    world = scheduled({"h1": 2}, low="suspend")
    low = job(world, 2)
    urgent = job(world, 2, "urgent")
    report(world.controller, "h1", SuspensionSeen(low, 0, 1, suspended=True))
    world.run()
    kill(world.controller, low)
    report_ended(world.controller, low, signal=9)
    report_ended(world.controller, urgent)
    world.run()
    assert not world.controller.state.hosts.used.any()


# --- ends ----------------------------------------------------------------------------------------


def test_the_room_is_free_again_when_who_it_is_held_for_is_killed():
    world = scheduled({"h1": 4})
    low = job(world, 4)
    urgent = job(world, 4, "urgent")
    kill(world.controller, urgent)
    assert holds(world) == {}
    report_ended(world.controller, low, exit_code=143)
    world.run()
    assert world.is_live(low)


def test_a_suspension_is_taken_back_when_it_is_in_vain():
    world = scheduled({"h1": 4}, low="suspend")
    low = job(world, 4)
    urgent = job(world, 4, "urgent")
    kill(world.controller, urgent)
    world.run()
    assert not world.controller.attempt(low).shall_stop


def test_a_user_may_kill_who_is_to_be_requeued():
    world = scheduled({"h1": 4})
    low = job(world, 4)
    job(world, 4, "urgent")
    kill(world.controller, low)
    report_ended(world.controller, low, signal=15)
    assert stat(world, low) == "EXIT"
    assert world.controller.job(low).ended.cause == EndCause.OWNER


@pytest.mark.parametrize("most", [1, 2])
def test_nobody_gives_way_more_often_than_allowed(most):
    world = scheduled({"h1": 1}, preemptions_max=most)
    low = job(world)
    for _ in range(most):
        urgent = job(world, 1, "urgent")
        report_ended(world.controller, low, exit_code=143)
        world.run()
        report_ended(world.controller, urgent)
        world.run()
        assert world.is_live(low)
        report_started(world.controller, low)
    job(world, 1, "urgent")
    assert holds(world) == {}
    assert stat(world, low) == "RUN"


def test_a_stale_preemption_does_not_hold():
    world = scheduled({"h1": 4})
    low = job(world, 4)
    submit(world.controller, submission(tasks=4, queue="urgent"))
    plan = world.plan()
    assert plan.preemptions
    report_ended(world.controller, low)
    assert world.propose(plan) == 1
    assert holds(world) == {}
    world.run()


@pytest.mark.parametrize("free", [0, 1])
def test_elements_of_several_classes_hold_no_more_room_than_the_limit_of_their_array(free):
    world = scheduled({"h1": 3})
    lows = [job(world) for _ in range(3 - free)]
    urgent = submit(world.controller, submission(elements="1-2", limit=1, queue="urgent"))
    modify(world.controller, urgent, (2, 2), run_limit_us=60 * SECOND_US)
    # One of them starts or is waited for. The other may not run beside it: nobody gives way for it.
    assert world.propose(world.plan()) == 1
    assert len(world.controller.job(urgent).live or ()) == free
    assert len(holds(world)) == len(effects(world)) - free == 1 - free
    check_state(world.controller.state)
    world.run()
    assert len(holds(world)) == 1 - free
    assert sum(world.is_live(low) for low in lows) == len(lows)


def test_a_queue_that_is_not_lower_never_gives_way_even_if_it_is_named():
    queues = [NORMAL, replace(LOW, priority=30), replace(URGENT, priority=30)]
    world = Scheduled(cluster({"h1": 1}, queues=queues))
    job(world)
    job(world, 1, "urgent")
    assert holds(world) == {}


def test_a_stream_of_urgent_jobs_never_preempts_its_own():
    world = scheduled({"h1": 2})
    lows = [job(world) for _ in range(2)]
    for _ in range(6):
        job(world, 1, "urgent")
    assert len(holds(world)) == 2
    for item in lows:
        report_ended(world.controller, item, exit_code=143)
    world.run()
    assert holds(world) == {}
    assert world.plan().preemptions == ()
