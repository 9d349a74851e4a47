"""What is not over at its deadline ends, and what can no more be over by then never starts."""

import pytest
from msgspec.structs import replace

from xce.control.due import next_due_us
from xce.model.command import RequeueJobs
from xce.model.ids import MINUTE_US
from xce.model.job import EndCause, Outcome
from xce.model.refusal import Refusal
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import stat_of
from xce.testing.builders import (
    chosen,
    cluster,
    place,
    replayed,
    report_ended,
    report_started,
    stop,
    submission,
    submit,
    tick,
    try_submit,
)


@pytest.fixture
def controller():
    return cluster()


def submit_until(controller, after_us, *, asked_us=0, **more):
    given = submission(run_limit_us=asked_us, **more)
    spec = replace(
        given.spec, deadline_us=controller.now_us + after_us, run_limit_asked_us=asked_us
    )
    return submit(controller, replace(given, spec=spec))


def deadline_of(controller, job):
    return controller.state.spec(controller.job(job)).deadline_us


def tick_until(controller, at_us):
    tick(controller, after_us=at_us - controller.now_us)


def end_of(controller, job, position=0):
    found = controller.job(job)
    return stat_of(controller.state, found, position), found.withdrawn[0].cause


def same_when_replayed(controller):
    check_state(controller.state)
    assert digest(replayed(controller.entries)) == digest(controller.state)


@pytest.mark.parametrize("more", [{}, {"hold": True}, {"after": "done(1)"}])
def test_what_waits_for_anything_never_starts_behind_its_deadline(controller, more):
    submit(controller)
    job = submit_until(controller, MINUTE_US, **more)
    deadline_us = deadline_of(controller, job)
    assert next_due_us(controller.state) == deadline_us
    tick_until(controller, deadline_us - 10_000)
    assert not controller.job(job).is_finished
    tick_until(controller, deadline_us)
    assert end_of(controller, job) == ("EXIT", EndCause.DEADLINE)
    assert next_due_us(controller.state) == 0
    same_when_replayed(controller)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_what_runs_is_ended_at_its_deadline_also_when_it_is_suspended(controller, is_stopped):
    job = submit_until(controller, MINUTE_US)
    place(controller, job)
    report_started(controller, job)
    if is_stopped:
        stop(controller, job)
    tick_until(controller, deadline_of(controller, job))
    attempt = controller.job(job).live[0]
    assert (attempt.end_cause, attempt.end_force) == (EndCause.DEADLINE, False)
    before = len(controller.entries)
    tick(controller, after_us=MINUTE_US)
    assert (len(controller.entries), next_due_us(controller.state)) == (before, 0)
    report_ended(controller, job, signal=12)
    assert controller.job(job).ended.outcome == Outcome.EXIT
    same_when_replayed(controller)


def test_a_run_limit_that_does_not_fit_any_more_ends_what_waits_and_not_what_runs(controller):
    job = submit_until(controller, 3 * MINUTE_US, asked_us=2 * MINUTE_US, elements="1-3")
    place(controller, job, 1)
    report_started(controller, job, 1)
    deadline_us = deadline_of(controller, job)
    tick_until(controller, deadline_us - 2 * MINUTE_US)
    found = controller.job(job)
    assert [stat_of(controller.state, found, p) for p in range(3)] == ["RUN", "EXIT", "EXIT"]
    assert found.live[0].end_cause == EndCause.NONE
    assert next_due_us(controller.state) == deadline_us
    tick_until(controller, deadline_us)
    assert found.live[0].end_cause == EndCause.DEADLINE
    same_when_replayed(controller)


def test_a_state_that_was_loaded_knows_the_deadline(controller):
    job = submit_until(controller, MINUTE_US)
    loaded = load(dump(controller.state))
    assert next_due_us(loaded) == deadline_of(controller, job)


def test_what_pends_again_behind_its_deadline_ends(controller):
    job = submit_until(controller, MINUTE_US)
    place(controller, job)
    report_started(controller, job)
    report_ended(controller, job, exit_code=1)
    tick(controller, after_us=2 * MINUTE_US)
    controller.tell(RequeueJobs("alice", is_admin=False, selection=chosen(job), states=("EXIT",)))
    assert stat_of(controller.state, controller.job(job), 0) == "PEND"
    assert 0 < next_due_us(controller.state) <= controller.now_us
    tick(controller, after_us=1)
    assert end_of(controller, job) == ("EXIT", EndCause.DEADLINE)
    same_when_replayed(controller)


@pytest.mark.parametrize(
    ("after_us", "begins_us", "asked_us", "lsf"),
    [
        (0, 0, 0, "Job termination time cannot be in the past"),
        (MINUTE_US, MINUTE_US, 0, "Start time is later than termination time"),
        (MINUTE_US, 0, 2 * MINUTE_US, ""),
    ],
)
def test_a_deadline_that_cannot_be_kept_is_refused(controller, after_us, begins_us, asked_us, lsf):
    now_us = controller.now_us
    given = submission(begin_at_us=begins_us and now_us + begins_us)
    given = replace(
        given, spec=replace(given.spec, deadline_us=now_us + after_us, run_limit_asked_us=asked_us)
    )
    (refusal,) = try_submit(controller, given)
    assert isinstance(refusal, Refusal)
    assert refusal.lsf == lsf
