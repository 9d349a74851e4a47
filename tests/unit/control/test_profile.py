"""Application profiles: defaults of what jobs leave out, ceilings on what they say."""

import pytest
from msgspec.structs import replace

from xce.model.command import SwitchJobs
from xce.model.config import AppConfig, ExitValues, QueueConfig
from xce.model.job import EndCause
from xce.model.refusal import RefusalCode
from xce.state.view import stat_of
from xce.testing.builders import (
    chosen,
    cluster,
    modify,
    place,
    report_ended,
    report_started,
    request,
    submission,
    submit,
    try_submit,
)

MINUTE_US = 60_000_000
APP = AppConfig(
    name="fluid",
    run_limit_us=30 * MINUTE_US,
    estimate_us=5 * MINUTE_US,
    mem_limit_mib=512,
    tasks_max=4,
    rerunnable=True,
    requeue_exit_values=ExitValues((7,)),
    success_exit_values=ExitValues((9,)),
    max_requeues=1,
)
QUEUES = (
    QueueConfig(
        name="normal", default=True, run_limit_us=60 * MINUTE_US,
        requeue_exit_values=ExitValues((5,)), success_exit_values=ExitValues((3,)),
    ),
    QueueConfig(name="short", run_limit_us=10 * MINUTE_US),
)  # fmt: skip


@pytest.fixture
def controller():
    return cluster(queues=QUEUES, applications=(APP,), start_failures_max=0)


def of_app(app="fluid", **members):
    return replace(submission(), app=app, **members)


def facts(controller, job):
    key, spec = (
        controller.state.key(controller.job(job)),
        controller.state.spec(controller.job(job)),
    )
    return key.app, key.run_limit_us, key.estimate_us, spec.mem_limit_kib, spec.rerunnable


def run(controller, job, exit_code):
    place(controller, job)
    report_started(controller, job)
    report_ended(controller, job, exit_code=exit_code)
    return stat_of(controller.state, controller.job(job), 0)


def test_a_profile_says_what_the_submission_leaves_out(controller):
    job = submit(controller, of_app())
    assert facts(controller, job) == ("fluid", 30 * MINUTE_US, 5 * MINUTE_US, 512 << 10, True)
    own = of_app(run_limit_us=MINUTE_US, estimate_us=MINUTE_US, rerunnable=False)
    own = replace(own, spec=replace(own.spec, mem_limit_kib=1024))
    assert facts(controller, submit(controller, own)) == (
        "fluid", MINUTE_US, MINUTE_US, 1024, False,
    )  # fmt: skip


def test_its_run_limit_holds_as_far_as_the_queue_allows(controller):
    job = submit(controller, of_app(queue="short"))
    assert facts(controller, job)[1] == 10 * MINUTE_US


@pytest.mark.parametrize(
    ("given", "code", "lsf"),
    [
        (of_app("none"), RefusalCode.UNKNOWN_APP, "No such application profile"),
        (of_app(run_limit_us=31 * MINUTE_US), RefusalCode.OVER_APP_LIMIT, ""),
        (of_app(request=request(5)), RefusalCode.TOO_MANY_TASKS, "Too many processors requested"),
    ],
)
def test_what_a_profile_does_not_allow_is_refused(controller, given, code, lsf):
    refusal = try_submit(controller, given)[0]
    assert (refusal.code, refusal.lsf) == (code, lsf)


def test_a_memory_limit_above_the_profiles_is_refused(controller):
    given = of_app()
    given = replace(given, spec=replace(given.spec, mem_limit_kib=(512 << 10) + 1))
    assert try_submit(controller, given)[0].code is RefusalCode.OVER_APP_LIMIT


def test_exit_statuses_of_the_profile_count_before_those_of_the_queue(controller):
    assert run(controller, submit(controller, of_app()), 9) == "DONE"
    assert run(controller, submit(controller, of_app()), 3) == "EXIT"
    assert run(controller, submit(controller, of_app()), 5) == "EXIT"
    job = submit(controller, of_app())
    assert [run(controller, job, 7), run(controller, job, 7)] == ["PEND", "PSUSP"]
    assert controller.job(job).requeues[0].cause == EndCause.REQUEUE_EXIT
    assert run(controller, submit(controller), 3) == "DONE"


def test_a_change_of_the_profile_brings_its_defaults(controller):
    job = submit(controller)
    modify(controller, job, app="fluid", run_limit_us=0)
    assert facts(controller, job)[:2] == ("fluid", 30 * MINUTE_US)


def test_a_job_that_is_switched_keeps_to_its_profile(controller):
    job = submit(controller, of_app())
    controller.tell(SwitchJobs("alice", False, chosen(job), "short"), by="alice")
    assert facts(controller, job)[:2] == ("fluid", 10 * MINUTE_US)
    controller.tell(SwitchJobs("alice", False, chosen(job), "normal"), by="alice")
    assert facts(controller, job)[:2] == ("fluid", 30 * MINUTE_US)
