"""Reports of hosts: what counts, and what is old news."""

import pytest

from xce.model.command import SetHostsOpen
from xce.model.host_record import AvoidanceLifted, HostsOpened
from xce.model.ids import MINUTE_US, SECOND_US
from xce.model.job import EndCause, Outcome
from xce.model.observation import AttemptEnded, AttemptStarted, Reported
from xce.model.record import LaunchFailed
from xce.state.check import check_state
from xce.state.view import ended_element, stat_of
from xce.testing.builders import (
    ALICE,
    cluster,
    kill,
    place,
    report,
    report_ended,
    report_started,
    resume,
    submission,
    submit,
    tick,
)


@pytest.fixture
def controller():
    return cluster()


def placed(controller, **more):
    job = submit(controller, submission(**more))
    place(controller, job)
    return job


def end(controller, job):
    return ended_element(controller.job(job), 0)[0]


def test_a_start_and_an_end_give_their_instants_by_their_ages(controller):
    job = placed(controller)
    report(controller, "h1", AttemptStarted(job, 0, 1, pid=7, age_us=400))
    started_us = controller.now_us - 400
    assert controller.attempt(job).started_at_us == started_us
    assert controller.attempt(job).pid == 7
    controller.now_us += 5 * SECOND_US
    report(controller, "h1", AttemptEnded(job, 0, 1, started_age_us=9, ended_age_us=100))
    assert end(controller, job).started_at_us == started_us
    assert end(controller, job).ended_at_us == controller.now_us - 100


def test_a_start_and_an_end_in_one_batch_are_both_taken(controller):
    job = placed(controller)
    report(controller, "h1", AttemptStarted(job, 0, 1, age_us=0), AttemptEnded(job, 0, 1))
    assert end(controller, job).started_at_us == controller.now_us
    assert stat_of(controller.state, controller.job(job), 0) == "DONE"


def test_an_age_never_puts_a_start_before_the_placement_or_an_end_before_the_start(controller):
    job = placed(controller)
    report(controller, "h1", AttemptStarted(job, 0, 1, age_us=999_999_999))
    attempt = controller.attempt(job)
    assert attempt.started_at_us == attempt.placed_at_us
    report(controller, "h1", AttemptEnded(job, 0, 1, ended_age_us=999_999_999))
    assert end(controller, job).ended_at_us == end(controller, job).started_at_us


@pytest.mark.parametrize(
    ("exit_code", "signal", "cause", "outcome"),
    [
        (0, 0, EndCause.NONE, Outcome.DONE),
        (3, 0, EndCause.NONE, Outcome.EXIT),
        (137, 9, EndCause.NONE, Outcome.EXIT),
        (0, 0, EndCause.RUNLIMIT, Outcome.EXIT),
        (0, 0, EndCause.STATUS_LOST, Outcome.EXIT),
    ],
)
def test_only_a_clean_end_is_done(controller, exit_code, signal, cause, outcome):
    job = placed(controller)
    report_started(controller, job)
    report_ended(controller, job, exit_code=exit_code, signal=signal, cause=cause, detail="why")
    found = end(controller, job)
    assert (found.outcome, found.exit_code, found.signal, found.cause) == (
        outcome, exit_code, signal, cause,
    )  # fmt: skip
    assert found.cpu_us == 3_000
    assert found.max_mem_kib == 1_024
    assert controller.job(job).details == {0: "why"}


def test_news_of_an_unknown_host_job_or_attempt_leave_no_entry(controller):
    job = placed(controller)
    before = len(controller.entries)
    report(controller, "h9", AttemptStarted(job, 0, 1))
    report(controller, "h2", AttemptStarted(job, 0, 1))
    report(controller, "h1", AttemptStarted(job, 0, 2), AttemptEnded(job, 0, 2))
    report(controller, "h1", AttemptStarted(job, 5, 1), AttemptEnded(99, 0, 1))
    assert len(controller.entries) == before


def test_a_repeated_report_is_taken_once(controller):
    job = placed(controller)
    report_started(controller, job)
    before = len(controller.entries)
    report_started(controller, job)
    assert len(controller.entries) == before
    twice = AttemptEnded(job, 0, 1)
    report(controller, "h1", twice, twice)
    after = len(controller.entries)
    report(controller, "h1", twice)
    assert len(controller.entries) == after
    check_state(controller.state)


def test_a_report_without_news_is_still_answered(controller):
    assert controller.tell(Reported("h1", 4)) == ()


# Starts that fail through the host's fault.


def fail(controller, job, host="h1", **more):
    number = controller.attempt(job).number
    report(
        controller, host,
        AttemptEnded(job, 0, number, host_fault=True, detail="no space", **more),
    )  # fmt: skip


def test_a_job_that_a_host_could_not_start_pends_again_and_avoids_it(controller):
    job = placed(controller)
    fail(controller, job)
    assert stat_of(controller.state, controller.job(job), 0) == "PEND"
    assert controller.job(job).avoid == (0,)
    assert not controller.state.hosts.used.any()
    place(controller, job, host="h2")
    assert controller.attempt(job).number == 2
    check_state(controller.state)


def test_a_job_that_is_to_end_does_not_pend_again(controller):
    job = placed(controller)
    kill(controller, job)
    fail(controller, job)
    assert controller.job(job).is_finished
    assert end(controller, job).cause == EndCause.OWNER


def test_a_host_is_closed_after_some_failed_starts_one_after_another(controller):
    for number in range(3):
        job = placed(controller)
        if number == 1:
            continue
        fail(controller, job)
    assert controller.state.hosts.is_open[0]
    job = placed(controller)
    fail(controller, job)
    assert not controller.state.hosts.is_open[0]
    assert "no space" in controller.state.hosts.comments[0]


def test_a_host_that_is_closed_already_keeps_its_comment(controller):
    jobs = [placed(controller) for _ in range(4)]
    controller.tell(SetHostsOpen("root", ("h1",), False, "repair", is_admin=True))
    for job in jobs:
        fail(controller, job)
    assert controller.state.hosts.comments[0] == "repair"


def test_a_start_that_works_forgives_the_ones_before(controller):
    for _ in range(2):
        fail(controller, placed(controller))
    report_started(controller, placed(controller))
    fail(controller, placed(controller))
    assert controller.state.hosts.is_open[0]


def test_avoidance_ends_some_time_after_the_hosts_last_fault(controller):
    job = placed(controller)
    fail(controller, job)
    tick(controller, after_us=4 * MINUTE_US)
    assert controller.job(job).avoid == (0,)
    tick(controller, after_us=2 * MINUTE_US)
    assert isinstance(controller.entries[-1].records[0], AvoidanceLifted)
    assert controller.job(job).avoid == ()
    check_state(controller.state)


def test_avoidance_ends_when_the_host_is_opened(controller):
    job = placed(controller)
    fail(controller, job)
    controller.tell(SetHostsOpen("root", ("h1",), False, is_admin=True))
    assert controller.job(job).avoid == (0,)
    controller.tell(SetHostsOpen("root", ("h1",), True, is_admin=True))
    assert isinstance(controller.entries[-1].records[0], HostsOpened)
    assert controller.job(job).avoid == ()
    check_state(controller.state)


def test_several_failed_starts_are_one_record(controller):
    job = submit(controller, submission(elements="1-2"), owner=ALICE)
    place(controller, job)
    report(
        controller,
        "h1",
        *(AttemptEnded(job, index, 1, host_fault=True, detail="x") for index in (1, 2)),
    )
    (record,) = [r for r in controller.entries[-1].records if isinstance(r, LaunchFailed)]
    assert record.indices == [1, 2]
    resume(controller, job)
    check_state(controller.state)
