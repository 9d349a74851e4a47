"""How long elements pended while no session would try them."""

import msgspec
import pytest
from pending_times import check_pending_times

from xce.config.values import parse_windows
from xce.model.command import ResolveWindows, SetQueues
from xce.model.config import QueueConfig
from xce.model.ids import HOUR_US, MINUTE_US, SECOND_US
from xce.state import snapshot
from xce.state.ineligible import alike, ineligible_us, spans
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
    assert [*alike(found, ((0, 5),))] == [((2, 2), (4, 4)), ((1, 1),), ((0, 0), (3, 3), (5, 5))]


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
