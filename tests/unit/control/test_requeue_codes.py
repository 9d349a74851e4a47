"""Jobs that are started anew for their exit status."""

import pytest
from msgspec.structs import replace

from xce.model.command import RequeueJobs, SetHostsOpen
from xce.model.config import ExitValues, QueueConfig
from xce.model.job import REQUEUES_MAX, EndCause
from xce.model.record import Requeued
from xce.state.check import check_state
from xce.state.snapshot import digest
from xce.state.view import stat_of
from xce.testing.builders import (
    chosen,
    cluster,
    kill,
    modify,
    place,
    replayed,
    report_ended,
    report_started,
    resume,
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


def test_what_it_used_is_in_the_record(controller):
    job = submit_with(controller, 99)
    run(controller, job, 99)
    ((used,),) = (
        [record for record in entry.records if isinstance(record, Requeued)]
        for entry in controller.entries[-1:]
    )
    assert (used.exit_codes, used.signals) == ([99], [0])
    assert (used.cpu_us, used.max_mem_kib) == ([3_000], [1_024])
    (begun_us,), (ended_us,) = used.started_at_us, used.ended_at_us
    assert 0 < begun_us <= ended_us == controller.now_us - 5


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
    assert run(controller, job, 1) == "PSUSP"


def test_a_change_of_the_codes_counts_from_then_on(controller):
    job = submit_with(controller, 1)
    modify(controller, job, requeue_codes=())
    assert run(controller, job, 1) == "EXIT"


def queue(**more):
    return (QueueConfig(name="normal", priority=30, default=True, **more),)


def test_where_the_job_names_none_its_queue_does():
    controller = cluster(queues=queue(requeue_exit_values=ExitValues((5,))))
    assert run(controller, submit_with(controller), 5) == "PEND"
    assert run(controller, submit_with(controller, 3), 5) == "EXIT"


def test_a_job_that_was_started_anew_too_often_is_held_until_somebody_resumes_it():
    controller = cluster(queues=queue(requeue_exit_values=ExitValues((5,)), max_requeues=2))
    job = submit_with(controller)
    assert [run(controller, job, 5) for _ in range(3)] == ["PEND", "PEND", "PSUSP"]
    detail = controller.job(job).requeues[0].detail
    assert detail == "exit code 5, 2 times before: held until it is resumed"
    resume(controller, job)
    assert run(controller, job, 5) == "PSUSP"
    check_state(controller.state)
    assert digest(replayed(controller.entries)) == digest(controller.state)


def test_whoever_requeues_it_has_its_starts_counted_anew():
    controller = cluster(queues=queue(requeue_exit_values=ExitValues((5,)), max_requeues=1))
    job = submit_with(controller)
    assert [run(controller, job, 5), run(controller, job, 4)] == ["PEND", "EXIT"]
    controller.tell(RequeueJobs("alice", False, chosen(job), ("EXIT",)), by="alice")
    assert [run(controller, job, 5), run(controller, job, 5)] == ["PEND", "PSUSP"]


def test_exit_statuses_of_success_let_a_job_be_done_unless_it_is_started_anew_for_them():
    values = {"success_exit_values": ExitValues((3, 5)), "requeue_exit_values": ExitValues((5,))}
    controller = cluster(queues=queue(**values))
    job = submit_with(controller)
    assert [run(controller, job, 5), run(controller, job, 3)] == ["PEND", "DONE"]
    assert controller.job(job).ended.exit_code == 3


def test_a_limit_that_was_hit_is_no_success_whatever_the_exit_status():
    controller = cluster(queues=queue(success_exit_values=ExitValues((140,))))
    assert run(controller, submit_with(controller), 140, cause=EndCause.RUNLIMIT) == "EXIT"


def test_an_excluded_host_is_not_used_again_and_no_administrator_opens_it_for_the_job():
    controller = cluster(queues=queue(requeue_exit_values=ExitValues((5, 7), (7,))))
    job = submit_with(controller)
    run(controller, job, 5)
    assert controller.job(job).avoid == ()
    run(controller, job, 7)
    host = controller.job(job).requeues[0].host
    assert controller.job(job).avoid == (host,)
    name = controller.state.hosts.names[host]
    for is_open in (False, True):
        controller.tell(SetHostsOpen("root", (name,), is_open, is_admin=True), by="root")
    assert controller.job(job).avoid == (host,)
    check_state(controller.state)
    assert digest(replayed(controller.entries)) == digest(controller.state)
