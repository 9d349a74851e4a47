"""Jobs that must be over at an instant: ``-t``."""

import pytest
from msgspec.structs import replace

from xce.control.due import next_due_us
from xce.model.command import RequeueJobs
from xce.model.effect import Terminate
from xce.model.ids import MINUTE_US, SECOND_US
from xce.model.job import EndCause
from xce.model.record import EndDecided, Withdrawn
from xce.model.refusal import Refusal
from xce.state.apply import apply
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import ended_element, stat_of
from xce.testing.builders import (
    chosen,
    cluster,
    kill,
    modify,
    place,
    replayed,
    report_ended,
    report_started,
    run_job,
    stop,
    submit,
    switch,
    tick,
    try_submit,
)
from xce.testing.values import submission as plain


@pytest.fixture
def controller():
    return cluster()


def submission(deadline_us=0, **more):
    """One that must be over at an instant."""
    found = plain(**more)
    return replace(found, spec=replace(found.spec, deadline_us=deadline_us))


def in_minutes(controller, minutes):
    return controller.now_us + minutes * MINUTE_US


def running(controller, **more):
    job = submit(controller, submission(**more))
    place(controller, job)
    report_started(controller, job)
    return job


def cause(controller, job, position=0):
    ended = ended_element(controller.job(job), position)
    return ended[0].cause if ended is not None else None


def stat(controller, job, position=0):
    return stat_of(controller.state, controller.job(job), position)


def told(controller):
    """What the hosts were told last: why, and whether by force."""
    sent = [effect for _, effect in controller.effects() if isinstance(effect, Terminate)]
    return [(effect.cause, effect.force) for effect in sent]


def test_a_job_that_pends_at_its_deadline_ends_with_it(controller):
    ends_us = in_minutes(controller, 5)
    job = submit(controller, submission(deadline_us=ends_us))
    assert next_due_us(controller.state) == ends_us
    tick(controller, after_us=5 * MINUTE_US - SECOND_US)
    assert stat(controller, job) == "PEND"
    tick(controller)
    assert cause(controller, job) == EndCause.DEADLINE
    assert next_due_us(controller.state) == 0
    check_state(controller.state)


def test_a_held_job_ends_at_its_deadline_too(controller):
    job = submit(controller, submission(hold=True, deadline_us=in_minutes(controller, 5)))
    tick(controller, after_us=5 * MINUTE_US)
    assert cause(controller, job) == EndCause.DEADLINE


def test_a_job_whose_run_limit_does_not_fit_any_more_is_not_started(controller):
    limits = {"deadline_us": in_minutes(controller, 5), "run_limit_us": 3 * MINUTE_US}
    job, runs = submit(controller, submission(**limits)), running(controller, **limits)
    tick(controller, after_us=2 * MINUTE_US - SECOND_US)
    assert stat(controller, job) == "PEND"
    tick(controller)
    assert cause(controller, job) == EndCause.DEADLINE
    assert stat(controller, runs) == "RUN"
    # Nothing comes by the time at which only what waits would be late.
    assert next_due_us(controller.state) == limits["deadline_us"]
    tick(controller, after_us=3 * MINUTE_US)
    assert controller.attempt(runs).end_cause == EndCause.DEADLINE
    check_state(controller.state)


def test_a_plan_starts_nothing_that_is_late(controller):
    limits = {"deadline_us": in_minutes(controller, 5), "run_limit_us": 9 * MINUTE_US}
    job = submit(controller, submission(**limits))
    wide = submit(controller, submission(tasks=2, **limits))
    for one in (job, wide):
        place(controller, one)
        assert stat(controller, one) == "PEND"
    tick(controller)
    assert cause(controller, job) == cause(controller, wide) == EndCause.DEADLINE


def test_what_runs_at_its_deadline_is_told_to_end_once(controller):
    job = running(controller, deadline_us=in_minutes(controller, 5))
    tick(controller, after_us=5 * MINUTE_US)
    (record,) = controller.entries[-1].records
    assert isinstance(record, EndDecided)
    assert (record.cause, record.force, record.requeue) == (EndCause.DEADLINE, False, False)
    assert told(controller) == [(EndCause.DEADLINE, False)]
    assert next_due_us(controller.state) == 0
    before = len(controller.entries)
    tick(controller, after_us=MINUTE_US)
    assert len(controller.entries) == before
    report_ended(controller, job, exit_code=140, signal=12)
    assert cause(controller, job) == EndCause.DEADLINE
    check_state(controller.state)


def test_a_suspended_job_ends_at_its_deadline(controller):
    job = running(controller, deadline_us=in_minutes(controller, 5))
    stop(controller, job)
    tick(controller, after_us=5 * MINUTE_US)
    assert controller.attempt(job).end_cause == EndCause.DEADLINE


def test_a_job_that_ended_in_time_is_left_alone(controller):
    job = submit(controller, submission(deadline_us=in_minutes(controller, 5)))
    run_job(controller, job)
    assert next_due_us(controller.state) == 0
    before = len(controller.entries)
    tick(controller, after_us=6 * MINUTE_US)
    assert len(controller.entries) == before


def test_its_owner_may_kill_what_ends_for_its_deadline(controller):
    job = running(controller, deadline_us=in_minutes(controller, 5))
    tick(controller, after_us=5 * MINUTE_US)
    kill(controller, job)
    assert controller.attempt(job).end_cause == EndCause.OWNER
    before = len(controller.entries)
    kill(controller, job)
    assert len(controller.entries) == before


def test_who_is_killed_before_the_deadline_ends_for_that(controller):
    job = running(controller, deadline_us=in_minutes(controller, 5))
    kill(controller, job)
    tick(controller, after_us=5 * MINUTE_US)
    assert controller.attempt(job).end_cause == EndCause.OWNER


def test_elements_of_an_array_end_as_far_as_they_have_come(controller):
    deadline_us = in_minutes(controller, 5)
    job = submit(controller, submission(elements="1-4", deadline_us=deadline_us))
    place(controller, job, 1, 2)
    report_started(controller, job, 1)
    report_started(controller, job, 2)
    report_ended(controller, job, 1)
    tick(controller, after_us=5 * MINUTE_US)
    ends, decided = controller.entries[-1].records
    assert isinstance(ends, Withdrawn)
    assert isinstance(decided, EndDecided)
    assert (ends.firsts, ends.lasts) == ([3], [4])
    assert (decided.firsts, decided.lasts) == ([2], [2])
    check_state(controller.state)


def test_what_waits_again_too_late_ends(controller):
    job = running(controller, deadline_us=in_minutes(controller, 5))
    controller.tell(RequeueJobs("alice", False, chosen(job), ("RUN",), False), by="alice")
    tick(controller, after_us=6 * MINUTE_US)
    assert controller.attempt(job).end_cause == EndCause.REQUEUE_OWNER
    report_ended(controller, job, exit_code=130, signal=2)
    assert stat(controller, job) == "PEND"
    tick(controller)
    assert cause(controller, job) == EndCause.DEADLINE
    assert next_due_us(controller.state) == 0


def test_what_could_not_be_started_in_time_ends(controller):
    job = submit(controller, submission(deadline_us=in_minutes(controller, 5)))
    place(controller, job)
    tick(controller, after_us=4 * MINUTE_US)
    report_ended(controller, job, host_fault=True)
    tick(controller, after_us=MINUTE_US)
    assert cause(controller, job) == EndCause.DEADLINE


@pytest.mark.parametrize("after_min", [1, 6])
def test_an_ended_job_that_is_opened_again_has_its_deadline(controller, after_min):
    job = submit(controller, submission(deadline_us=in_minutes(controller, 5)))
    run_job(controller, job)
    controller.now_us += after_min * MINUTE_US
    controller.tell(RequeueJobs("alice", False, chosen(job), ("DONE",), False), by="alice")
    assert stat(controller, job) == "PEND"
    tick(controller, after_us=5 * MINUTE_US)
    assert cause(controller, job) == EndCause.DEADLINE


def test_another_deadline_counts_in_place_of_the_first(controller):
    job = submit(controller, submission(deadline_us=in_minutes(controller, 5)))
    modify(controller, job, deadline_us=in_minutes(controller, 9))
    tick(controller, after_us=6 * MINUTE_US)
    assert stat(controller, job) == "PEND"
    modify(controller, job, deadline_us=in_minutes(controller, 1))
    tick(controller, after_us=MINUTE_US)
    assert cause(controller, job) == EndCause.DEADLINE


def test_a_deadline_can_be_taken_away(controller):
    job = submit(controller, submission(deadline_us=in_minutes(controller, 5)))
    modify(controller, job, deadline_us=0)
    assert next_due_us(controller.state) == 0
    assert not controller.state.deadlines
    tick(controller, after_us=9 * MINUTE_US)
    assert stat(controller, job) == "PEND"


def test_a_longer_run_limit_makes_a_job_late_sooner(controller):
    job = submit(controller, submission(deadline_us=in_minutes(controller, 5)))
    modify(controller, job, run_limit_us=4 * MINUTE_US)
    tick(controller, after_us=MINUTE_US)
    assert cause(controller, job) == EndCause.DEADLINE


def test_what_runs_keeps_its_deadline_when_the_rest_of_its_array_gets_another(controller):
    first_us = in_minutes(controller, 5)
    job = submit(controller, submission(elements="1-2", deadline_us=first_us))
    place(controller, job, 1)
    report_started(controller, job, 1)
    modify(controller, job, deadline_us=first_us + 4 * MINUTE_US)
    tick(controller, after_us=5 * MINUTE_US)
    assert controller.attempt(job, 1).end_cause == EndCause.DEADLINE
    assert stat(controller, job, 1) == "PEND"
    tick(controller, after_us=4 * MINUTE_US)
    assert cause(controller, job, 1) == EndCause.DEADLINE
    check_state(controller.state)


def test_a_job_that_runs_gets_no_other_deadline(controller):
    job = running(controller, deadline_us=in_minutes(controller, 5))
    refusal = modify(controller, job, deadline_us=in_minutes(controller, 9))
    assert isinstance(refusal, Refusal)
    assert "its deadline_at cannot be changed any more" in refusal.text


def test_elements_have_no_deadline_of_their_own(controller):
    job = submit(controller, submission(elements="1-4"))
    refusal = modify(controller, job, (2, 2), deadline_us=in_minutes(controller, 9))
    assert isinstance(refusal, Refusal)
    assert "no deadline_at of their own" in refusal.text


def test_a_job_that_was_switched_has_its_deadline(controller):
    job = submit(controller, submission(deadline_us=in_minutes(controller, 5)))
    switch(controller, "night", job)
    tick(controller, after_us=5 * MINUTE_US)
    assert cause(controller, job) == EndCause.DEADLINE


PAST = "Job termination time cannot be in the past"
ORDER = "Start time is later than termination time"


@pytest.mark.parametrize(
    ("begins_min", "ends_min", "said"), [(0, -1, PAST), (0, 0, PAST), (9, 5, ORDER), (5, 5, ORDER)]
)
def test_a_deadline_that_cannot_be_kept_is_refused(controller, begins_min, ends_min, said):
    times = {"deadline_us": in_minutes(controller, ends_min)}
    if begins_min:
        times["begin_at_us"] = in_minutes(controller, begins_min)
    (refused,) = try_submit(controller, submission(**times))
    assert refused.lsf == said
    job = submit(controller)
    refusal = modify(controller, job, **times)
    assert isinstance(refusal, Refusal)
    assert refusal.lsf == said


def test_a_begin_time_behind_the_deadline_is_refused(controller):
    job = submit(controller, submission(deadline_us=in_minutes(controller, 5)))
    refusal = modify(controller, job, begin_at_us=in_minutes(controller, 6))
    assert isinstance(refusal, Refusal)
    assert refusal.lsf == ORDER


def test_a_job_can_be_changed_in_other_things_when_its_begin_has_come(controller):
    times = {"begin_at_us": in_minutes(controller, 1), "deadline_us": in_minutes(controller, 5)}
    job = submit(controller, submission(**times))
    tick(controller, after_us=2 * MINUTE_US)
    assert not isinstance(modify(controller, job, priority=4), Refusal)


def test_a_begin_time_and_a_deadline_are_both_kept(controller):
    times = {"begin_at_us": in_minutes(controller, 4), "deadline_us": in_minutes(controller, 5)}
    job = submit(controller, submission(**times, run_limit_us=3 * MINUTE_US))
    other = submit(controller, submission(**times))
    tick(controller, after_us=4 * MINUTE_US)
    assert cause(controller, job) == EndCause.DEADLINE
    assert not controller.job(other).waits
    tick(controller, after_us=MINUTE_US)
    assert cause(controller, other) == EndCause.DEADLINE


@pytest.mark.parametrize("share", [0, 0.3, 0.6, 0.9, 1])
def test_deadlines_are_known_after_a_restart(controller, share):
    deadline_us = in_minutes(controller, 5)
    job = submit(controller, submission(elements="1-3", deadline_us=deadline_us))
    submit(controller, submission(deadline_us=deadline_us, run_limit_us=MINUTE_US))
    place(controller, job, 1)
    report_started(controller, job, 1)
    modify(controller, job, deadline_us=deadline_us + MINUTE_US)
    cut = int(len(controller.entries) * share)
    state = load(dump(replayed(controller.entries[:cut])))
    for entry in controller.entries[cut:]:
        apply(state, entry)
    assert digest(state) == digest(controller.state)
    assert sorted(set(state.due)) == sorted(set(controller.state.due))
    assert state.deadlines == controller.state.deadlines
    check_state(state)


def test_a_job_that_waits_again_and_again_is_awaited_once(controller):
    job = submit(controller, submission(in_minutes(controller, 5), run_limit_us=MINUTE_US))
    for host in ("h1", "h2"):
        place(controller, job, host=host)
        report_ended(controller, job, host_fault=True)
        controller.now_us += MINUTE_US // 2
    assert len(controller.state.due) == 2
    tick(controller, after_us=3 * MINUTE_US)
    assert cause(controller, job) == EndCause.DEADLINE
    assert not controller.state.due
    assert not controller.state.awaited


def test_a_job_that_ran_when_it_would_have_been_late_is_awaited_when_it_waits_again(controller):
    job = running(
        controller,
        deadline_us=in_minutes(controller, 9),
        run_limit_us=8 * MINUTE_US,
        rerunnable=True,
    )
    tick(controller, after_us=2 * MINUTE_US)
    report_ended(controller, job, exit_code=1, cause=EndCause.HOST_RESTARTED)
    assert stat(controller, job) == "PEND"
    tick(controller)
    assert cause(controller, job) == EndCause.DEADLINE
    check_state(controller.state)
