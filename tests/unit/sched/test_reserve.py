"""Reservations and backfill in sessions on small clusters."""

from msgspec.structs import replace
from sessions import Scheduled

from xce.model.config import HostConfig, QueueConfig
from xce.model.ids import SECOND_US
from xce.model.plan import StartRule
from xce.model.reason import ReasonCode
from xce.model.request import Amount
from xce.sched.session import Session
from xce.testing.builders import (
    BOB,
    cluster,
    kill,
    report_ended,
    report_started,
    request,
    submission,
    submit,
)

MINUTE = 60 * SECOND_US
QUEUES = (
    QueueConfig(name="normal", priority=30, default=True, exclusive=True),
    QueueConfig(name="low", priority=10),
)


def scheduled(hosts=("h1", "h2"), backfill="easy", **settings) -> Scheduled:
    return Scheduled(cluster(hosts, queues=QUEUES, backfill=backfill, **settings))


def job(world: Scheduled, tasks=1, minutes=0, **wanted) -> int:
    owner = {"owner": wanted.pop("owner")} if "owner" in wanted else {}
    given = submission(tasks=tasks, run_limit_us=minutes * MINUTE, **wanted)
    return submit(world.controller, given, **owner)


def kept(world: Scheduled, job_id: int, index: int = 0):
    return world.controller.state.reservations.get(job_id, {}).get(index)


def minutes_to(world: Scheduled, job_id: int, index: int = 0) -> int:
    start_us = kept(world, job_id, index).start_at_us
    return round((start_us - world.controller.now_us) / MINUTE)


def rule(world: Scheduled, job_id: int, index: int = 0) -> StartRule:
    return world.controller.attempt(job_id, index).rule


# --- who gets one --------------------------------------------------------------------------------


def test_the_first_blocked_job_holds_the_earliest_start():
    world = scheduled({"h1": 4, "h2": 4})
    running = [job(world, 4, minutes=30), job(world, 4, minutes=60)]
    wide = job(world, 8, minutes=10)
    world.run()
    assert all(world.is_live(item) for item in running)
    assert minutes_to(world, wide) == 60
    assert sorted(kept(world, wide).hosts) == [0, 1]
    assert kept(world, wide).tasks == [4, 4]


def test_without_backfill_nobody_holds_anything_and_small_jobs_pass():
    world = scheduled({"h1": 4}, backfill="none")
    job(world, 3, minutes=30)
    wide = job(world, 4, minutes=10)
    small = job(world, 1)
    world.run()
    assert kept(world, wide) is None
    assert world.is_live(small)
    assert rule(world, small) is StartRule.TURN


def test_a_queue_may_have_its_own_kind_of_backfill():
    queues = (replace(QUEUES[0], backfill="none"), replace(QUEUES[1], backfill="easy"))
    world = Scheduled(cluster({"h1": 4}, queues=queues))
    job(world, 4, minutes=30)
    first = job(world, 4, minutes=10)
    second = job(world, 4, minutes=10, queue="low")
    world.run()
    assert kept(world, first) is None
    assert minutes_to(world, second) == 30


def test_easy_keeps_one_promise_and_conservative_all():
    for kind, expected in (("easy", [30]), ("conservative", [30, 40, 60])):
        world = scheduled({"h1": 4}, backfill=kind)
        job(world, 4, minutes=30)
        waiting = [job(world, 4, minutes=span) for span in (10, 20, 5)]
        world.run()
        assert [minutes_to(world, item) for item in waiting if kept(world, item)] == expected


def test_the_number_of_promises_can_be_set():
    world = scheduled({"h1": 4}, backfill="conservative", reservations=2)
    job(world, 4, minutes=30)
    waiting = [job(world, 4, minutes=10) for _ in range(3)]
    world.run()
    assert [kept(world, item) is not None for item in waiting] == [True, True, False]


def test_elements_of_an_array_get_promises_one_by_one():
    world = scheduled({"h1": 2}, backfill="conservative", reservations=3)
    job(world, 2, minutes=30)
    array = job(world, 1, minutes=10, elements="1-5")
    world.run()
    assert [minutes_to(world, array, index) for index in (1, 2, 3)] == [30, 30, 40]
    assert kept(world, array, 4) is None


def test_what_can_never_run_holds_nothing():
    world = scheduled({"h1": 4})
    job(world, 4, minutes=30)
    hopeless = job(world, 9, minutes=10)
    wide = job(world, 4, minutes=10)
    world.run()
    assert kept(world, hopeless) is None
    assert minutes_to(world, wide) == 30


def test_behind_what_has_no_run_limit_the_instant_is_not_known_and_the_room_is_kept():
    world = scheduled({"h1": 4})
    endless = job(world, 2)
    wide = job(world, 4, minutes=10)
    small = job(world, 1, minutes=1)
    endless_too = job(world, 1)
    world.run()
    assert kept(world, wide).start_at_us == 0
    assert world.is_live(small)
    assert not world.is_live(endless_too)
    assert world.reason(endless_too).code is ReasonCode.RESERVED
    for item in (endless, small):
        report_ended(world.controller, item)
    world.run()
    assert rule(world, wide) is StartRule.RESERVED


# --- who may pass --------------------------------------------------------------------------------


def test_the_classic_picture():
    world = scheduled({f"h{number}": 8 for number in range(1, 6)})
    first = job(world, 24, minutes=60)
    second = job(world, 40, minutes=60)
    short = job(world, 8, minutes=30)
    long = job(world, 8, minutes=90)
    world.run()
    assert world.is_live(first)
    assert world.is_live(short)
    assert not world.is_live(long)
    assert rule(world, short) is StartRule.BACKFILL
    assert world.reason(second).code is ReasonCode.HOSTS
    assert world.reason(long).code is ReasonCode.RESERVED
    assert world.reason(long).detail == str(second)
    assert world.memory.look_at_us > 0
    assert minutes_to(world, second) == 60


def test_slots_that_the_promise_leaves_over_may_be_used_for_as_long_as_one_likes():
    world = scheduled({"h1": 4, "h2": 4})
    job(world, 4, minutes=60)
    wide = job(world, 6, minutes=60)
    beside = job(world, 2)
    too_many = job(world, 1)
    world.run()
    assert sum(kept(world, wide).tasks) == 6
    assert world.is_live(beside)
    assert not world.is_live(too_many)


def test_backfill_looks_at_every_resource_of_every_host():
    hosts = [
        HostConfig(name="h1", slots=4, mem_mib=100),
        HostConfig(name="h2", slots=4, mem_mib=10),
    ]
    world = scheduled(hosts)
    job(world, asks=request(1, mem_mib=60), minutes=60)
    big = job(world, asks=request(1, mem_mib=90), minutes=10)
    eats_memory = job(world, asks=request(1, mem_mib=20), minutes=90)
    world.run()
    assert minutes_to(world, big) == 60
    assert not world.is_live(eats_memory)
    little = job(world, asks=request(1, mem_mib=10), minutes=90)
    world.run()
    assert world.is_live(little)


def test_a_pool_is_kept_too():
    world = scheduled({"h1": 8}, pools={"seats": 3})
    job(world, asks=request(1, amounts=[Amount("seats", 2)]), minutes=60)
    wants_all = job(world, asks=request(1, amounts=[Amount("seats", 3)]), minutes=10)
    long = job(world, asks=request(1, amounts=[Amount("seats", 1)]), minutes=90)
    short = job(world, asks=request(1, amounts=[Amount("seats", 1)]), minutes=30)
    world.run()
    assert minutes_to(world, wants_all) == 60
    assert not world.is_live(long)
    assert world.is_live(short)


def test_a_host_of_its_own_is_kept_whole():
    world = scheduled({"h1": 4})
    job(world, 1, minutes=60)
    alone = job(world, asks=request(1, exclusive=True), minutes=10)
    long, short = job(world, 1, minutes=90), job(world, 1, minutes=30)
    world.run()
    assert minutes_to(world, alone) == 60
    assert not world.is_live(long)
    assert world.is_live(short)


def test_a_lower_queue_respects_the_promises_of_a_higher_one():
    world = scheduled({"h1": 4})
    job(world, 3, minutes=60)
    wide = job(world, 4, minutes=10)
    low = job(world, 1, minutes=90, queue="low", owner=BOB)
    world.run()
    assert kept(world, wide) is not None
    assert not world.is_live(low)


def test_a_bulk_of_small_jobs_fills_only_what_is_left():
    world = scheduled({"h1": 8})
    job(world, 4, minutes=60)
    job(world, 6, minutes=60)
    array = job(world, 1, minutes=90, elements="1-10")
    world.run()
    assert len(world.controller.job(array).live) == 2


# --- how promises end ----------------------------------------------------------------------------


def test_an_early_end_starts_the_promised_job():
    world = scheduled({"h1": 4})
    running = job(world, 4, minutes=30)
    wide = job(world, 4, minutes=10)
    world.run()
    report_started(world.controller, running)
    report_ended(world.controller, running)
    world.run()
    assert rule(world, wide) is StartRule.RESERVED
    assert world.controller.state.reservations == {}


def test_who_was_held_back_starts_when_the_promised_job_is_killed():
    world = scheduled({"h1": 4})
    job(world, 3, minutes=60)
    wide = job(world, 4, minutes=10)
    long = job(world, 1, minutes=90)
    world.run()
    assert not world.memory.is_due or world.plan().is_empty
    kill(world.controller, wide)
    world.hear()
    assert world.memory.is_due
    world.run()
    assert world.is_live(long)
    assert world.controller.state.reservations == {}


def test_who_would_delay_a_promise_is_looked_at_again_behind_a_start():
    world = scheduled({"h1": 4})
    job(world, 3, minutes=30)
    last = job(world, 1, minutes=30)
    job(world, 4, minutes=10)
    first, second = job(world), job(world, queue="low")
    world.run()
    report_ended(world.controller, last)
    short = job(world, 1, minutes=5)
    world.run()
    assert rule(world, short) is StartRule.BACKFILL
    reasons = world.reason(first).code, world.reason(second).code
    # When the second one's turn came nothing was free any more, also for who remembers nothing.
    assert reasons == (ReasonCode.RESERVED, ReasonCode.HOSTS)


def test_a_promise_that_moves_by_a_moment_is_not_told_again():
    world = scheduled({"h1": 4})
    running = job(world, 4, minutes=30)
    job(world, 4, minutes=10)
    world.run()
    report_started(world.controller, running)
    assert world.plan().reserved == ()


def test_a_promise_that_stays_where_it_is_is_not_sought_there_once_more(monkeypatch):
    asked, find = [], Session._find
    monkeypatch.setattr(Session, "_find", lambda self, *of: asked.append(of[2]) or find(self, *of))
    world = scheduled({"h1": 4, "h2": 4})
    first = job(world, 4, minutes=30)
    job(world, 4, minutes=60)
    wide = job(world, 4, minutes=10)
    world.run()
    before = kept(world, wide)
    report_started(world.controller, first)
    world.plan()
    assert before is not None
    assert kept(world, wide) == before
    assert asked
    assert not any(among is not None for among in asked)


def test_what_is_overdue_is_expected_any_moment():
    world = scheduled({"h1": 4})
    running = job(world, 3, minutes=1)
    wide = job(world, 4, minutes=10)
    world.run()
    report_started(world.controller, running)
    world.controller.now_us += 5 * MINUTE
    small = job(world, 1, minutes=1)
    world.run()
    assert not world.is_live(small)
    assert minutes_to(world, wide) == -4
    assert world.plan().is_empty
