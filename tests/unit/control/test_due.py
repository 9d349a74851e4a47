"""What time alone brings."""

import pytest

from xce.control import due as due_module
from xce.control.due import next_due_us
from xce.model.ids import HOUR_US, MINUTE_US, SECOND_US
from xce.model.reason import ReasonCode
from xce.model.record import JobsForgotten, JobsReleased, KeysForgotten
from xce.state.check import check_state
from xce.state.view import pend_reason
from xce.testing.builders import cluster, kill, resume, run_job, submission, submit, tick


@pytest.fixture
def controller():
    return cluster()


def test_a_tick_that_changes_nothing_leaves_no_entry(controller):
    submit(controller)
    before = len(controller.entries)
    tick(controller, after_us=HOUR_US)
    assert len(controller.entries) == before
    assert next_due_us(controller.state) == 0


def test_a_begin_time_is_waited_for(controller):
    begins_us = controller.now_us + MINUTE_US
    job = submit(controller, submission(begin_at_us=begins_us))
    reason = pend_reason(controller.state, controller.job(job))
    assert (reason.code, reason.at_us) == (ReasonCode.BEGIN_TIME, begins_us)
    assert next_due_us(controller.state) == begins_us
    tick(controller, after_us=50 * SECOND_US)
    assert controller.job(job).waits
    tick(controller, after_us=10 * SECOND_US)
    assert controller.entries[-1].records == (JobsReleased([job], from_dependency=False),)
    assert not controller.job(job).waits
    assert next_due_us(controller.state) == 0
    check_state(controller.state)


def test_begin_times_that_have_come_are_one_record(controller):
    now_us = controller.now_us
    jobs = [
        submit(controller, submission(begin_at_us=now_us + more * SECOND_US))
        for more in (9, 3, 7, 30)
    ]
    tick(controller, after_us=20 * SECOND_US)
    assert controller.entries[-1].records == (JobsReleased(jobs[:3], from_dependency=False),)


def test_a_tick_releases_so_many_jobs_at_most(controller, monkeypatch):
    monkeypatch.setattr(due_module, "SLICE", 3)
    begins_us = controller.now_us + SECOND_US
    jobs = [submit(controller, submission(begin_at_us=begins_us)) for _ in range(7)]
    kill(controller, jobs[0])
    released = []
    for _ in range(2):
        tick(controller, after_us=2 * SECOND_US)
        (record,) = controller.entries[-1].records
        assert len(record.jobs) <= 3
        released += record.jobs
    assert sorted(released) == jobs[1:]
    assert next_due_us(controller.state) == 0


def test_a_begin_time_and_a_dependency_are_both_waited_for(controller):
    first = submit(controller)
    begins_us = controller.now_us + MINUTE_US
    job = submit(controller, submission(after=f"done({first})", begin_at_us=begins_us))
    run_job(controller, first)
    assert pend_reason(controller.state, controller.job(job)).code is ReasonCode.BEGIN_TIME
    tick(controller, after_us=2 * MINUTE_US)
    assert not controller.job(job).waits


def test_a_job_that_was_killed_before_its_begin_time_is_not_waited_for(controller):
    job = submit(controller, submission(begin_at_us=controller.now_us + MINUTE_US))
    kill(controller, job)
    assert next_due_us(controller.state) == 0
    before = len(controller.entries)
    tick(controller, after_us=2 * MINUTE_US)
    assert len(controller.entries) == before


def test_an_ended_job_is_forgotten_after_the_clean_period(controller):
    job = submit(controller)
    run_job(controller, job)
    tick(controller, after_us=59 * MINUTE_US)
    assert job in controller.state.jobs
    tick(controller, after_us=2 * MINUTE_US)
    assert controller.entries[-1].records == (JobsForgotten([job], [], 1),)
    state = controller.state
    for left in (state.jobs, state.specs, state.classes, state.names, state.finished):
        assert not left
    check_state(state)


def test_so_much_is_said_of_the_waiting_of_ended_jobs_in_one_record_at_most(
    controller, monkeypatch
):
    monkeypatch.setattr(due_module, "SLICE", 3)
    jobs = [submit(controller, submission(elements="1-2", hold=True)) for _ in range(5)]
    for job in jobs:
        tick(controller, after_us=SECOND_US)
        resume(controller, (job, 2, 2))
    kill(controller, *jobs)
    told = []
    for _ in range(3):
        tick(controller, after_us=2 * HOUR_US)
        (record,) = controller.entries[-1].records
        assert [row[0] for row in record.ineligible] == [job for job in record.jobs for _ in "ab"]
        told.append(record.jobs)
    assert told == [jobs[:2], jobs[2:4], jobs[4:]]


def test_an_ended_job_is_not_forgotten_before_the_history_has_it(controller):
    job = submit(controller)
    run_job(controller, job)
    tick(controller, after_us=2 * HOUR_US, history_seq=controller.state.seq - 1)
    assert job in controller.state.jobs
    tick(controller)
    assert job not in controller.state.jobs


def test_what_other_jobs_share_stays(controller):
    first, second = submit(controller), submit(controller)
    run_job(controller, first)
    tick(controller, after_us=2 * HOUR_US)
    assert list(controller.state.jobs) == [second]
    assert len(controller.state.specs) == len(controller.state.classes) == 1


def test_keys_are_forgotten_after_the_window_at_most_once_a_minute(controller):
    submit(controller, key="a")
    controller.now_us += 10 * SECOND_US
    submit(controller, key="b")
    tick(controller, after_us=HOUR_US + 30 * SECOND_US)
    assert len(controller.state.keys) == 2
    tick(controller, after_us=MINUTE_US)
    assert isinstance(controller.entries[-1].records[-1], KeysForgotten)
    assert not controller.state.keys
