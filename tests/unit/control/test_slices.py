"""Commands about many jobs: what is decided last, and what is told of several jobs as one."""

import pytest

from xce.control import kill as kill_module
from xce.control.controller import Input
from xce.control.slices import in_runs, runs_of
from xce.model.command import Accepted, KillJobs, ProposePlan, Selection, StopJobs
from xce.model.job import EndCause
from xce.model.record import EndDecided, Withdrawn
from xce.model.refusal import Refusal, RefusalCode
from xce.state.check import check_state
from xce.testing.builders import (
    BOB,
    bulk,
    chosen,
    cluster,
    kill,
    place,
    plan,
    report_started,
    submission,
    submit,
)

ALL = KillJobs("alice", False, Selection(all=True))
IN_RUNS = KillJobs("alice", False, Selection(all=True, in_runs=True))


@pytest.fixture
def controller(monkeypatch):
    monkeypatch.setattr(kill_module, "SLICE", 3)
    return cluster({"h1": 16})


def some_run(controller, count, running):
    """Return jobs of which those at the places in ``running`` run."""
    jobs = [submit(controller) for _ in range(count)]
    for place_ in running:
        place(controller, jobs[place_])
        report_started(controller, jobs[place_])
    return jobs


def ends(controller, before):
    """Return what was ended, entry by entry."""
    found = []
    for entry in controller.entries[before:]:
        found += [(type(r), r.jobs) for r in entry.records if isinstance(r, Withdrawn | EndDecided)]
    return found


def test_a_kill_of_many_ends_what_waits_before_what_runs(controller):
    jobs = some_run(controller, 8, running=(0, 1, 4))
    before = len(controller.entries)
    controller.tell(ALL)
    waiting = [job for job in jobs if job not in (jobs[0], jobs[1], jobs[4])]
    assert ends(controller, before) == [
        (Withdrawn, waiting[:1]),
        (Withdrawn, waiting[1:3]),
        (Withdrawn, waiting[3:]),
        (EndDecided, [jobs[0], jobs[1], jobs[4]]),
    ]
    check_state(controller.state)


def test_what_is_told_of_it_is_in_the_order_of_submission(controller):
    jobs = some_run(controller, 8, running=(0, 1, 4))
    assert [one.job for one in controller.tell(ALL)] == jobs


def test_a_kill_of_a_few_or_of_named_jobs_is_decided_in_order(controller):
    jobs = some_run(controller, 3, running=(0,))
    before = len(controller.entries)
    controller.tell(ALL)
    assert len(controller.entries) == before + 1
    jobs = some_run(controller, 5, running=(0,))
    before = len(controller.entries)
    kill(controller, *jobs)
    assert ends(controller, before)[0] == (Withdrawn, jobs[1:3])
    assert ends(controller, before)[1] == (EndDecided, jobs[:1])


def test_what_starts_while_a_kill_goes_on_is_ended_all_the_same(controller):
    jobs = some_run(controller, 8, running=(0,))
    controller.step([Input(ALL, ticket=9)], controller.now_us)
    assert controller.has_more
    place(controller, jobs[7])
    while controller.has_more:
        controller.step([], controller.now_us)
    live = [controller.job(jobs[number]).live[0] for number in (0, 7)]
    assert [attempt.end_cause for attempt in live] == [EndCause.OWNER] * 2
    assert all(controller.job(job).is_finished for job in jobs[1:7])
    check_state(controller.state)


def test_only_jobs_that_run_are_killed_though_none_waits(controller):
    jobs = some_run(controller, 5, running=range(5))
    assert [one.job for one in controller.tell(ALL)] == jobs
    assert all(controller.job(job).live[0].end_cause == EndCause.OWNER for job in jobs)
    assert not controller.has_more


def test_jobs_that_follow_one_another_are_told_of_as_one_where_that_was_asked_for(controller):
    jobs = some_run(controller, 4, running=(1,))
    submit(controller, owner=BOB)
    jobs += some_run(controller, 3, running=())
    assert controller.tell(IN_RUNS) == (
        Accepted(jobs[0], text="killed", last_job=jobs[3]),
        Accepted(jobs[4], text="killed", last_job=jobs[6]),
    )


def test_elements_and_refusals_are_told_of_one_by_one(controller):
    jobs = some_run(controller, 2, running=())
    stopped = StopJobs("alice", False, Selection(all=True, in_runs=True))
    assert controller.tell(stopped) == (Accepted(jobs[0], text="stopped", last_job=jobs[1]),)
    nobody = KillJobs("alice", False, Selection(user="carol", all=True, in_runs=True))
    (refusal,) = controller.tell(nobody)
    assert refusal.code is RefusalCode.UNKNOWN_JOB
    array = submit(controller, submission(elements="1-3"))
    named = KillJobs("alice", False, chosen((array, 2, 2), *jobs))
    assert [one.last_job for one in controller.tell(named)] == [0, 0, 0]


def test_only_what_is_alike_is_told_of_as_one():
    gone = Refusal(RefusalCode.ALREADY_FINISHED, "job 4 has already finished", job=4)
    told = [Accepted(1, text="moved"), Accepted(2, text="moved"), Accepted(3, text="killed"), gone]
    told += [Accepted(5, 1, 2, "killed"), Accepted(6, text="killed"), Accepted(7, text="killed")]
    told += [Accepted(8, text="killed", queue="normal"), Accepted(10, text="killed")]
    told += [Accepted(11, text="killed", last_job=20), Accepted(21, text="killed", last_job=22)]
    assert in_runs(told) == [
        Accepted(1, text="moved", last_job=2),
        *told[2:5],
        Accepted(6, text="killed", last_job=7),
        told[7],
        Accepted(10, text="killed", last_job=22),
    ]


@pytest.mark.parametrize(
    ("jobs", "runs"),
    [([], []), ([3], [(3, 0)]), ([3, 4, 6, 8, 9, 10], [(3, 4), (6, 0), (8, 10)])],
)
def test_runs_of_ids(jobs, runs):
    assert [(one.job, one.last_job) for one in runs_of(jobs, "killed")] == runs


def test_what_has_left_the_state_that_was_asked_for_before_its_turn_is_left_alone(controller):
    jobs = some_run(controller, 4, running=())
    array = submit(controller, submission(elements="1-3"))
    waiting = KillJobs("alice", False, Selection(all=True, state="pend", in_runs=True))
    old = plan(controller, bulk(controller, jobs[3], (array, 2, 2), hosts={"h1": 2}))
    now_us = controller.now_us
    controller.step([Input(waiting, "alice", ticket=901), Input(ProposePlan(old))], now_us)
    told = []
    while controller.has_more:
        now_us += 1
        told += controller.step([], now_us).replies
    (reply,) = told
    assert [(one.job, one.last_job, one.first) for one in reply.results] == [
        (jobs[0], jobs[2], -1), (array, 0, 1), (array, 0, 3),
    ]  # fmt: skip
    assert not any(one.end_cause for one in controller.job(jobs[3]).live.values())
    assert list(controller.job(array).live) == [1]
    check_state(controller.state)
