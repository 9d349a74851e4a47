"""Jobs that are made to pend again by ``brequeue``."""

import pytest

from xce.control import requeue as requeue_module
from xce.model.command import RequeueJobs, Selection
from xce.model.config import GrantConfig
from xce.model.effect import Terminate
from xce.model.job import EndCause
from xce.model.record import JobsMoved, Reopened
from xce.model.refusal import RefusalCode
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import stat_of
from xce.testing.builders import (
    chosen,
    cluster,
    kill,
    place,
    replayed,
    report_ended,
    report_started,
    run_job,
    stop,
    submission,
    submit,
    tick,
)

ALL = ("RUN", "USUSP", "SSUSP", "DONE", "EXIT", "PEND")


@pytest.fixture
def controller():
    return cluster()


def requeue(controller, *jobs, states=ALL[:3], hold=False, by="alice", selection=None):
    wanted = selection or chosen(*jobs)
    return controller.tell(RequeueJobs(by, by == "root", wanted, states, hold), by=by)


def stat(controller, job, position=0):
    return stat_of(controller.state, controller.job(job), position)


def texts(results):
    return [getattr(item, "lsf", "") or item.text for item in results]


def test_a_running_job_ends_and_pends_again_behind_the_others(controller):
    first, second = submit(controller), submit(controller)
    place(controller, first)
    report_started(controller, first)
    assert texts(requeue(controller, first)) == ["requeued"]
    (effect,) = [effect for _, effect in controller.effects()]
    assert isinstance(effect, Terminate)
    assert effect.cause == EndCause.REQUEUE_OWNER
    assert stat(controller, first) == "RUN"
    assert texts(requeue(controller, first)) == ["Job has already been requeued"]
    report_ended(controller, first, exit_code=0)
    assert stat(controller, first) == "PEND"
    assert controller.job(first).place > controller.job(second).place
    assert controller.job(first).requeues[0].by == "alice"
    place(controller, first)
    assert controller.attempt(first).number == 2
    check_state(controller.state)


def test_later_requeued_jobs_stand_behind_earlier_ones_and_before_new_ones(controller):
    jobs = [submit(controller) for _ in range(3)]
    for job in jobs:
        requeue(controller, job, states=("PEND",))
    later = submit(controller)
    places = [controller.job(job).place for job in (*jobs, later)]
    assert places == sorted(places)


def test_a_kill_that_follows_wins(controller):
    job = submit(controller)
    place(controller, job)
    requeue(controller, job)
    kill(controller, job)
    report_ended(controller, job, signal=2)
    assert stat(controller, job) == "EXIT"


def test_an_administrator_is_named_as_such(controller):
    job = submit(controller)
    place(controller, job)
    requeue(controller, job, by="root")
    assert controller.attempt(job).end_cause == EndCause.REQUEUE_ADMIN


def test_with_hold_it_waits_for_bresume(controller):
    running, pending, done = submit(controller), submit(controller), submit(controller)
    run_job(controller, done)
    place(controller, running)
    requeue(controller, running, pending, done, states=ALL, hold=True)
    assert [stat(controller, job) for job in (pending, done)] == ["PSUSP", "PSUSP"]
    report_ended(controller, running, signal=2)
    assert stat(controller, running) == "PSUSP"
    check_state(controller.state)


def test_what_has_ended_is_opened_again_only_where_it_is_asked_for(controller):
    done, failed = submit(controller), submit(controller)
    run_job(controller, done)
    run_job(controller, failed, exit_code=3)
    assert texts(requeue(controller, done)) == ["Job has already finished"]
    assert texts(requeue(controller, done, failed, states=("EXIT",))) == [
        "Job has already finished", "requeued",
    ]  # fmt: skip
    assert stat(controller, failed) == "PEND"
    assert isinstance(controller.entries[-1].records[0], Reopened)
    assert isinstance(controller.entries[-1].records[1], JobsMoved)
    assert (controller.job(failed).exited, controller.job(failed).is_finished) == (0, False)
    check_state(controller.state)
    run_job(controller, failed)
    assert controller.job(failed).ended.attempt == 2
    assert digest(replayed(controller.entries)) == digest(controller.state)


def test_elements_are_requeued_one_by_one_and_each_once(controller):
    job = submit(controller, submission(elements="1-3"))
    place(controller, job, 1, 2)
    for index in (1, 2):
        report_started(controller, job, index)
    report_ended(controller, job, 1)
    results = requeue(controller, job, (job, 1, 1), (job, 3, 3), states=("DONE", "PEND"))
    assert texts(results) == ["requeued"] * 3
    assert [stat(controller, job, place) for place in range(3)] == ["PEND", "RUN", "PEND"]
    check_state(controller.state)
    assert digest(load(dump(controller.state))) == digest(controller.state)


def test_a_job_that_ended_before_it_started_is_not_opened_again(controller):
    job = submit(controller)
    kill(controller, job)
    assert texts(requeue(controller, job, states=ALL)) == ["Job has already finished"]


def test_suspended_jobs_are_requeued_too(controller):
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    stop(controller, job)
    assert texts(requeue(controller, job, states=("USUSP",)))[0] != "requeued"
    assert texts(requeue(controller, job)) == ["requeued"]


def test_a_filter_takes_finished_jobs_where_they_are_asked_for(controller):
    jobs = [submit(controller, submission(name="a")) for _ in range(3)]
    for job in jobs:
        run_job(controller, job)
    assert texts(requeue(controller, selection=Selection(all=True, user="alice"))) == [
        "No matching job found"
    ]
    selection = Selection(all=True, user="alice", name="a")
    assert len(requeue(controller, selection=selection, states=("DONE",))) == 3
    assert list(controller.state.unfinished["alice"]) == jobs
    assert not controller.state.finished
    check_state(controller.state)


def test_a_job_that_was_opened_again_is_forgotten_only_after_its_second_end(controller):
    job = submit(controller)
    run_job(controller, job)
    requeue(controller, job, states=("DONE",))
    tick(controller, after_us=7_200_000_000)
    assert stat(controller, job) == "PEND"
    run_job(controller, job)
    tick(controller, after_us=7_200_000_000)
    assert job not in controller.state.jobs


def test_not_too_many_elements_that_have_ended_are_opened_again_at_once(controller, monkeypatch):
    monkeypatch.setattr(requeue_module, "REOPENED_MAX", 2)
    job = submit(controller, submission(elements="1-9"))
    for index in range(1, 5):
        place(controller, job, index)
        report_ended(controller, job, index)
    (result,) = requeue(controller, job, states=("DONE",))
    assert "at most 2 are requeued at once" in result.text
    assert texts(requeue(controller, (job, 2, 3), states=("DONE",))) == ["requeued"]
    assert [stat(controller, job, place) for place in range(4)] == ["DONE", "PEND", "PEND", "DONE"]


def test_elements_in_several_chunks_are_found():
    controller = cluster({"h1": 9_000})
    job = submit(controller, submission(elements="1-9000"))
    for index in (1, 4_096, 4_097, 9_000):
        place(controller, job, index)
        report_ended(controller, job, index, exit_code=int(index == 4_097))
    found = controller.job(job)
    assert list(found.ended_places({1}, ((0, 8_999),))) == [0, 4_095, 8_999]
    assert list(found.ended_places({1, 2}, ((4_000, 4_096), (8_998, 8_999)))) == [
        4_095, 4_096, 8_999,
    ]  # fmt: skip


def test_jobs_of_others_are_requeued_with_the_permission_only():
    grant = GrantConfig(role="operator", users=("bob",))
    controller = cluster(grants=(grant,))
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    (denied,) = requeue(controller, job, by="carol")
    assert (denied.code, denied.permission) == (RefusalCode.NOT_YOURS, "job:requeue")
    assert texts(requeue(controller, job, by="bob")) == ["requeued"]
    assert controller.entries[-1].cause.basis == "role operator"
