"""Jobs that are started anew for their exit status."""

import pytest
from msgspec.structs import replace

from xce.model.job import REQUEUES_MAX, EndCause
from xce.state.check import check_state
from xce.state.snapshot import digest
from xce.state.view import stat_of
from xce.testing.builders import (
    cluster,
    kill,
    modify,
    place,
    replayed,
    report_ended,
    report_started,
    submission,
    submit,
)


@pytest.fixture
def controller():
    return cluster(start_failures_max=0)


def submit_with(controller, *codes):
    given = submission()
    return submit(controller, replace(given, spec=replace(given.spec, requeue_codes=codes)))


def run(controller, job, exit_code, **more):
    place(controller, job)
    report_started(controller, job)
    report_ended(controller, job, exit_code=exit_code, **more)
    return stat_of(controller.state, controller.job(job), 0)


def test_an_exit_status_that_was_named_starts_the_job_anew(controller):
    job = submit_with(controller, 3, 99)
    assert run(controller, job, 99) == "PEND"
    requeue = controller.job(job).requeues[0]
    assert (requeue.cause, requeue.attempt, requeue.has_run) == (EndCause.REQUEUE_EXIT, 1, True)
    assert run(controller, job, 3) == "PEND"
    assert run(controller, job, 4) == "EXIT"
    assert controller.job(job).ended.attempt == 3
    check_state(controller.state)
    assert digest(replayed(controller.entries)) == digest(controller.state)


def test_one_that_was_killed_or_ran_into_a_limit_is_not_started_anew(controller):
    job = submit_with(controller, 130)
    place(controller, job)
    report_started(controller, job)
    kill(controller, job)
    report_ended(controller, job, exit_code=130, signal=2)
    assert stat_of(controller.state, controller.job(job), 0) == "EXIT"
    job = submit_with(controller, 140)
    assert run(controller, job, 140, cause=EndCause.RUNLIMIT) == "EXIT"


def test_it_is_not_started_anew_for_ever(controller):
    job = submit_with(controller, 1)
    for _ in range(REQUEUES_MAX):
        assert run(controller, job, 1) == "PEND"
    assert run(controller, job, 1) == "EXIT"


def test_a_change_of_the_codes_counts_from_then_on(controller):
    job = submit_with(controller, 1)
    modify(controller, job, requeue_codes=())
    assert run(controller, job, 1) == "EXIT"
