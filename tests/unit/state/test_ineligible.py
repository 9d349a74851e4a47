"""How long elements pended while no session would try them."""

import random
import time

import msgspec
import pytest
from pending_times import check_pending_times

from xce.config.values import parse_windows
from xce.model.command import ResolveWindows, SetQueues
from xce.model.config import QueueConfig
from xce.model.ids import HOUR_US, MINUTE_US, SECOND_US
from xce.model.ranges import from_sorted
from xce.state import snapshot
from xce.state.ineligible import alike, ineligible_us, span_at, spans
from xce.testing.builders import (
    cluster,
    kill,
    place,
    report_ended,
    report_started,
    resume,
    run_job,
    stop,
    submission,
    submit,
    switch,
    tick,
)

NIGHT = QueueConfig(name="night", run_windows=parse_windows("20-8"))


@pytest.fixture
def controller():
    made = cluster(queues=[QueueConfig(name="normal", default=True), NIGHT])
    yield made
    check_pending_times(made.entries)


def minutes(controller, job, position=0):
    state = controller.state
    span_us = ineligible_us(state, controller.job(job), position, controller.now_us)
    return round(span_us / MINUTE_US)


def test_a_job_that_only_waits_for_room_is_eligible_all_the_time(controller):
    job = submit(controller)
    tick(controller, after_us=HOUR_US)
    assert minutes(controller, job) == 0
    assert spans(controller.state, controller.job(job), ((0, 0),), controller.now_us) == ()


def test_a_hold_counts_until_it_ends_and_again_with_the_next(controller):
    job = submit(controller, submission(hold=True))
    tick(controller, after_us=10 * MINUTE_US)
    resume(controller, job)
    tick(controller, after_us=20 * MINUTE_US)
    assert minutes(controller, job) == 10
    stop(controller, job)
    tick(controller, after_us=5 * MINUTE_US)
    assert minutes(controller, job) == 15


def test_what_a_job_waits_for_counts_once_however_much_it_is(controller):
    first = submit(controller)
    begins_us = controller.now_us + 10 * MINUTE_US
    job = submit(controller, submission(after=f"done({first})", begin_at_us=begins_us))
    stop(controller, job)
    tick(controller, after_us=20 * MINUTE_US)
    resume(controller, job)
    tick(controller, after_us=20 * MINUTE_US)
    run_job(controller, first)
    tick(controller, after_us=20 * MINUTE_US)
    assert minutes(controller, job) == 40


def test_what_has_started_or_is_over_counts_no_more(controller):
    jobs = [submit(controller, submission(hold=True)) for _ in range(2)]
    tick(controller, after_us=10 * MINUTE_US)
    resume(controller, jobs[0])
    place(controller, jobs[0])
    kill(controller, jobs[1])
    tick(controller, after_us=20 * MINUTE_US)
    assert [minutes(controller, job) for job in jobs] == [10, 10]
    report_started(controller, jobs[0])
    report_ended(controller, jobs[0])
    tick(controller, after_us=20 * MINUTE_US)
    assert minutes(controller, jobs[0]) == 10


def test_elements_count_apart(controller):
    job = submit(controller, submission(elements="1-6"))
    stop(controller, (job, 2, 3))
    tick(controller, after_us=10 * MINUTE_US)
    stop(controller, (job, 5, 5))
    tick(controller, after_us=10 * MINUTE_US)
    resume(controller, (job, 3, 3))
    place(controller, job, 1)
    tick(controller, after_us=10 * MINUTE_US)
    assert [minutes(controller, job, at) for at in range(6)] == [0, 30, 20, 0, 20, 0]
    found = spans(controller.state, controller.job(job), ((0, 5),), controller.now_us)
    assert [*alike(found, ((0, 5),))] == [((0, 0), (3, 3), (5, 5)), ((1, 1),), ((2, 2), (4, 4))]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_becomes_of_elements_in_whatever_order_each_has_its_own_time(controller, seed):
    dice = random.Random(seed)
    job = submit(controller, submission(elements="1-12", hold=dice.random() < 0.5))
    for _ in range(40):
        first = dice.randint(1, 12)
        chosen = (job, first, dice.randint(first, 12))
        match dice.randint(0, 5):
            case 0 | 1:
                stop(controller, chosen)
            case 2 | 3:
                resume(controller, chosen)
            case 4:
                is_active = dice.random() < 0.7
                controller.tell(SetQueues("root", ("normal",), is_active=is_active, is_admin=True))
            case _:
                if dice.random() < 0.2:
                    kill(controller, chosen)
        tick(controller, after_us=dice.choice((0, MINUTE_US)))
    whole = ((0, 11),)
    found = spans(controller.state, controller.job(job), whole, controller.now_us)
    assert sorted(alike(found, whole)) == sorted(
        from_sorted(at for at in range(12) if span_at(found, at) == span_us)
        for span_us in {span_at(found, at) for at in range(12)}
    )


def test_elements_that_are_released_one_by_one_cost_no_more_the_more_they_are():
    controller = cluster()
    job = submit(controller, submission(elements="1-1500", hold=True))
    order = list(range(1, 1501))
    random.Random(1).shuffle(order)
    began = time.process_time()
    for number in order:
        controller.now_us += SECOND_US
        resume(controller, (job, number, number))
    found = spans(controller.state, controller.job(job), ((0, 1499),), controller.now_us)
    assert len([*alike(found, ((0, 1499),))]) == 1500
    told = [span_at(found, number - 1) for number in order]
    assert told == sorted(told)
    assert time.process_time() - began < 10


def test_time_counts_while_the_queue_starts_nothing(controller):
    before = submit(controller)
    controller.tell(SetQueues("root", ("normal",), is_active=False, is_admin=True))
    tick(controller, after_us=10 * MINUTE_US)
    job = submit(controller)
    tick(controller, after_us=10 * MINUTE_US)
    controller.tell(SetQueues("root", ("normal",), is_active=True, is_admin=True))
    after = submit(controller)
    tick(controller, after_us=10 * MINUTE_US)
    jobs = [before, job, after]
    assert [minutes(controller, one) for one in jobs] == [20, 10, 0]
    kill(controller, *jobs)
    assert [minutes(controller, one) for one in jobs] == [20, 10, 0]


def test_time_counts_while_run_windows_are_closed_and_moves_with_the_queue(controller):
    opens_us = controller.now_us + HOUR_US
    controller.tell(ResolveWindows((("night", ((opens_us, opens_us + HOUR_US),)),)))
    job = submit(controller, submission(queue="night"))
    moved = submit(controller, submission(queue="night"))
    tick(controller, after_us=30 * MINUTE_US)
    switch(controller, "normal", moved)
    tick(controller, after_us=30 * MINUTE_US)
    tick(controller, after_us=30 * MINUTE_US)
    assert [minutes(controller, one) for one in (job, moved)] == [60, 30]
    tick(controller, after_us=30 * MINUTE_US)
    tick(controller, after_us=10 * MINUTE_US)
    assert minutes(controller, job) == 70


def test_a_snapshot_keeps_it_and_an_old_one_has_it_unknown(controller):
    job = submit(controller, submission(hold=True))
    controller.tell(SetQueues("root", ("normal",), is_active=False, is_admin=True))
    tick(controller, after_us=10 * MINUTE_US)
    parts = snapshot.dump(controller.state)
    loaded = snapshot.load(parts)
    now_us = controller.now_us
    assert round(ineligible_us(loaded, loaded.jobs[job], 0, now_us) / SECOND_US) == 600
    head = msgspec.msgpack.decode(parts[0])
    old = snapshot.load([msgspec.msgpack.encode(head[:-2]), *parts[1:]])
    assert ineligible_us(old, old.jobs[job], 0, now_us) is None
    assert old.timed_from == job + 1
    assert old.shut["normal"].since_us == controller.state.now_us
