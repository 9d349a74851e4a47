"""Kill, signal, stop, resume: what each does to elements, and whom it refuses."""

import pytest
from msgspec.structs import replace

from xce.control import kill as kill_module
from xce.control.controller import Input
from xce.model.command import Accepted, DeclareHostsLost, KillJobs, Selection, SignalJobs, StopJobs
from xce.model.effect import Launch, SendSignal, SetSuspended, Terminate
from xce.model.job import EndCause
from xce.model.observation import SuspensionSeen
from xce.model.record import EndDecided, Held, SuspensionAsked, Withdrawn
from xce.model.refusal import RefusalCode
from xce.state.check import check_state
from xce.state.view import counts, ended_element, stat_of
from xce.testing.builders import (
    BOB,
    chosen,
    cluster,
    kill,
    leave_host,
    place,
    report,
    report_ended,
    report_started,
    resume,
    run_job,
    stop,
    submission,
    submit,
    tick,
)


@pytest.fixture
def controller():
    return cluster()


def stat(controller, job, position=0):
    return stat_of(controller.state, controller.job(job), position)


def running(controller, **more):
    job = submit(controller, submission(**more))
    place(controller, job)
    report_started(controller, job)
    return job


def signal(controller, number, *jobs, by="alice", is_admin=False):
    return controller.tell(SignalJobs(by, is_admin, chosen(*jobs), number), by=by)


def only(results):
    (result,) = results
    return result


# Kill.


def test_a_pending_job_that_is_killed_ends_at_once(controller):
    job = submit(controller)
    assert only(kill(controller, job)).text == "killed"
    assert stat(controller, job) == "EXIT"
    ended, by = ended_element(controller.job(job), 0)
    assert (ended.cause, by) == (EndCause.OWNER, "alice")


def test_a_held_job_that_is_killed_ends_at_once(controller):
    job = submit(controller, submission(hold=True))
    kill(controller, job)
    assert controller.job(job).is_finished


def test_a_live_job_that_is_killed_is_told_to_its_host_until_it_is_gone(controller):
    job = running(controller)
    kill(controller, job)
    assert controller.effects() == [("h1", Terminate(job, 0, 1, EndCause.OWNER))]
    assert stat(controller, job) == "RUN"
    report_ended(controller, job, exit_code=130, signal=2)
    ended, by = ended_element(controller.job(job), 0)
    assert (ended.cause, by, ended.signal) == (EndCause.OWNER, "alice", 2)


def test_a_job_that_was_killed_before_it_started_is_not_launched_again(controller):
    job = submit(controller)
    place(controller, job)
    kill(controller, job)
    told = [effect for _, effect in controller.effects()]
    assert not any(isinstance(effect, Launch) for effect in told)
    assert any(isinstance(effect, Terminate) for effect in told)


def test_a_job_that_was_killed_is_exit_even_if_its_process_exits_with_0(controller):
    job = running(controller)
    kill(controller, job)
    report_ended(controller, job, exit_code=0)
    assert stat(controller, job) == "EXIT"


def test_the_first_cause_stands_and_a_repeat_leaves_no_entry(controller):
    job = running(controller)
    kill(controller, job)
    entries = len(controller.entries)
    assert only(kill(controller, job, by="root", is_admin=True)).text == "killed"
    assert len(controller.entries) == entries


@pytest.mark.parametrize(("by", "cause"), [("alice", 108), ("root", 109)])
def test_what_is_killed_as_done_is_done_when_it_is_gone_and_starts_nothing_anew(
    controller, by, cause
):
    given = submission(rerunnable=True)
    given = replace(given, spec=replace(given.spec, requeue_codes=(130,)))
    job = submit(controller, given)
    waits = submit(controller, submission(after=f"done({job})"))
    place(controller, job)
    report_started(controller, job)
    kill(controller, job, by=by, is_admin=by == "root", as_done=True)
    assert controller.attempt(job).end_cause == cause
    report_ended(controller, job, exit_code=130)
    assert stat(controller, job) == "DONE"
    assert not controller.job(waits).waits
    check_state(controller.state)


def test_what_was_killed_as_done_is_done_too_where_its_host_is_lost(controller):
    job, forced = running(controller), running(controller)
    for one in (job, forced):
        kill(controller, one, as_done=True)
    leave_host(controller, "h1")
    tick(controller, after_us=controller.state.config.silence_us)
    kill(controller, forced, force=True)
    controller.tell(DeclareHostsLost("root", ("h1",), is_admin=True), by="root")
    assert (stat(controller, job), stat(controller, forced)) == ("DONE", "EXIT")
    check_state(controller.state)


def test_what_pends_is_not_done_by_a_kill_as_done(controller):
    job = submit(controller)
    kill(controller, job, as_done=True)
    assert stat(controller, job) == "EXIT"
    assert controller.job(job).withdrawn[0].cause == EndCause.OWNER


def test_force_adds_to_a_kill(controller):
    job = running(controller)
    kill(controller, job)
    kill(controller, job, force=True)
    assert controller.effects() == [("h1", Terminate(job, 0, 1, EndCause.FORCE_OWNER, force=True))]


def test_an_administrator_kills_as_one(controller):
    job = submit(controller)
    kill(controller, job, by="root", is_admin=True)
    assert ended_element(controller.job(job), 0)[0].cause == EndCause.ADMIN


def test_some_elements_of_an_array_are_killed(controller):
    job = submit(controller, submission(elements="1-10"))
    place(controller, job, 1, 2)
    kill(controller, (job, 2, 5))
    found = counts(controller.job(job))
    assert (found["pend"], found["run"], found["exit"]) == (5, 2, 3)
    assert [effect.index for _, effect in controller.effects()] == [2]
    check_state(controller.state)


def test_an_element_that_is_named_twice_is_killed_once(controller):
    job = submit(controller, submission(elements="1-10"))
    results = kill(controller, (job, 2, 5), (job, 4, 6), job)
    assert [result.text for result in results] == ["killed"] * 3
    records = [r for r in controller.entries[-1].records if isinstance(r, Withdrawn)]
    assert len(records) == 1
    check_state(controller.state)


@pytest.mark.parametrize("act", [kill, stop, resume])
def test_what_does_not_exist_or_is_not_ones_own_or_is_over_is_refused(controller, act):
    mine, theirs = submit(controller), submit(controller, owner=BOB)
    run_job(controller, mine)
    results = act(controller, 77, theirs, mine)
    assert [result.code for result in results] == [
        RefusalCode.UNKNOWN_JOB,
        RefusalCode.NOT_YOURS,
        RefusalCode.ALREADY_FINISHED,
    ]
    assert [result.lsf for result in results] == [
        "No matching job found",
        "User permission denied",
        "Job has already finished",
    ]


def test_an_element_that_is_over_or_is_not_there_is_refused(controller):
    job = submit(controller, submission(elements="1-3"))
    kill(controller, (job, 2, 2))
    results = kill(controller, (job, 2, 2), (job, 8, 9))
    assert [result.code for result in results] == [
        RefusalCode.ALREADY_FINISHED,
        RefusalCode.UNKNOWN_JOB,
    ]
    assert "element 2" in results[0].text


def test_a_command_about_many_jobs_is_decided_in_slices(controller, monkeypatch):
    monkeypatch.setattr(kill_module, "SLICE", 3)
    for _ in range(7):
        submit(controller)
    before = len(controller.entries)
    command = KillJobs("alice", False, Selection(all=True))
    results = controller.tell(command)
    assert len(results) == 7
    assert len(controller.entries) - before == 3
    assert not controller.has_more
    check_state(controller.state)


def test_jobs_that_ended_between_two_slices_are_refused(controller, monkeypatch):
    monkeypatch.setattr(kill_module, "SLICE", 1)
    first, second = submit(controller), submit(controller)

    many = Input(StopJobs("alice", False, Selection(all=True)), ticket=901)
    one = Input(KillJobs("alice", False, chosen(second)), ticket=902)
    replies = {}
    now_us = controller.now_us
    inputs = [many, one]
    while inputs or controller.has_more:
        now_us += 1
        for reply in controller.step(inputs, now_us).replies:
            replies[reply.ticket] = reply.results
        inputs = []
    assert [type(result) for result in replies[901]] == [Accepted, Accepted]
    assert stat(controller, first) == "PSUSP"
    assert controller.job(second).is_finished


# Signals.


def test_a_signal_is_numbered_and_told_once_more_with_each_new_one(controller):
    job = running(controller)
    signal(controller, 10, job)
    assert controller.effects() == [("h1", SendSignal(job, 0, 1, 1, 10))]
    signal(controller, 12, job)
    assert controller.effects() == [
        ("h1", SendSignal(job, 0, 1, 1, 10)),
        ("h1", SendSignal(job, 0, 1, 2, 12)),
    ]


def test_a_signal_to_a_job_that_is_starting_waits_for_its_start(controller):
    job = submit(controller)
    place(controller, job)
    signal(controller, 10, job)
    assert not any(isinstance(effect, SendSignal) for _, effect in controller.effects())
    report_started(controller, job)
    assert controller.effects() == [("h1", SendSignal(job, 0, 1, 1, 10))]


def test_a_signal_that_ends_withdraws_a_pending_job(controller):
    job = submit(controller)
    assert only(signal(controller, 15, job)).text == "signaled"
    assert stat(controller, job) == "EXIT"


def test_any_other_signal_to_a_pending_job_reaches_nobody(controller):
    job = submit(controller)
    found = only(signal(controller, 10, job))
    assert (found.code, found.lsf) == (RefusalCode.WRONG_STATE, "Job has not started yet")


def test_who_signals_his_own_job_is_its_owner_even_as_administrator(controller):
    job = submit(controller)
    signal(controller, 9, job, is_admin=True)
    assert ended_element(controller.job(job), 0)[0].cause == EndCause.OWNER


# Stop and resume.


def test_a_pending_job_that_is_stopped_is_psusp_until_it_is_resumed(controller):
    job = submit(controller)
    stop(controller, job)
    assert stat(controller, job) == "PSUSP"
    assert isinstance(controller.entries[-1].records[0], Held)
    resume(controller, job)
    assert stat(controller, job) == "PEND"


def test_a_live_job_is_ususp_when_its_host_says_so(controller):
    job = running(controller)
    stop(controller, job)
    assert controller.effects() == [("h1", SetSuspended(job, 0, 1, suspended=True))]
    assert stat(controller, job) == "RUN"
    report(controller, "h1", SuspensionSeen(job, 0, 1, suspended=True))
    assert stat(controller, job) == "USUSP"
    resume(controller, job)
    assert controller.effects() == [("h1", SetSuspended(job, 0, 1, suspended=False))]
    report(controller, "h1", SuspensionSeen(job, 0, 1, suspended=False))
    assert stat(controller, job) == "RUN"
    check_state(controller.state)


def test_a_stop_that_is_reported_after_it_was_taken_back_is_undone_at_once(controller):
    job = running(controller)
    stop(controller, job)
    resume(controller, job)
    report(controller, "h1", SuspensionSeen(job, 0, 1, suspended=True))
    assert controller.effects() == [("h1", SetSuspended(job, 0, 1, suspended=False))]


def test_a_job_that_ends_while_it_is_stopped_leaves_nothing_behind(controller):
    job = running(controller)
    stop(controller, job)
    report(controller, "h1", SuspensionSeen(job, 0, 1, suspended=True))
    report_ended(controller, job)
    check_state(controller.state)
    assert not controller.state.hosts.used.any()


def test_only_an_administrator_resumes_what_an_administrator_stopped(controller):
    pending, live = submit(controller), running(controller)
    stop(controller, pending, live, by="root", is_admin=True)
    for result in resume(controller, pending, live):
        assert result.code == RefusalCode.NOT_YOURS
    for result in resume(controller, pending, live, by="root", is_admin=True):
        assert result.text == "resumed"
    assert stat(controller, pending) == "PEND"


def test_waiting_and_live_elements_are_stopped_together(controller):
    job = submit(controller, submission(elements="1-4"))
    place(controller, job, 1)
    stop(controller, job)
    kinds = [type(record) for record in controller.entries[-1].records]
    assert kinds == [Held, SuspensionAsked]
    assert counts(controller.job(job))["psusp"] == 3


def test_end_decisions_name_only_what_lives(controller):
    job = submit(controller, submission(elements="1-4"))
    place(controller, job, 2, 3)
    kill(controller, (job, 1, 4))
    decided = [r for r in controller.entries[-1].records if isinstance(r, EndDecided)]
    assert [(r.firsts, r.lasts) for r in decided] == [([2], [3])]
