"""Dependencies: who may start after what, and who never can."""

import pytest

from xce.model.ids import SECOND_US
from xce.model.job import EndCause
from xce.model.reason import ReasonCode
from xce.model.record import JobsReleased, Withdrawn
from xce.model.record_waiting import DependencyDoomed
from xce.state.check import check_state
from xce.state.view import ended_element, pend_reason, stat_of
from xce.testing.builders import (
    cluster,
    kill,
    place,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
    tick,
)


@pytest.fixture
def controller():
    return cluster()


def waits(controller, job):
    return pend_reason(controller.state, controller.job(job)).code is ReasonCode.DEPENDENCY


def test_a_release_stands_in_the_entry_that_brought_it(controller):
    first = submit(controller)
    job = submit(controller, submission(after=f"done({first})"))
    assert waits(controller, job)
    run_job(controller, first)
    assert JobsReleased([job], from_dependency=True) in controller.entries[-1].records
    assert not controller.job(job).waits
    check_state(controller.state)


@pytest.mark.parametrize(
    ("after", "exit_code", "released"),
    [
        ("done(1)", 0, True),
        ("done(1)", 1, False),
        ("1", 0, True),
        ("post_done(1)", 0, True),
        ("ended(1)", 1, True),
        ("exit(1)", 1, True),
        ("exit(1)", 0, False),
        ("exit(1, 3)", 3, True),
        ("exit(1, > 3)", 3, False),
        ("exit(1, >= 3)", 3, True),
        ("exit(1, < 3)", 3, False),
        ("exit(1, <= 3)", 3, True),
        ("exit(1, == 4)", 3, False),
        ("exit(1, != 4)", 3, True),
        ("!done(1)", 1, True),
        ("!done(1)", 0, False),
        ("done(1) || exit(1)", 5, True),
        ("done(1) && ended(1)", 0, True),
        ("!(done(1) || exit(1))", 0, False),
    ],
)
def test_a_condition_on_an_end_is_settled_by_it(controller, after, exit_code, released):
    first = submit(controller)
    job = submit(controller, submission(after=after))
    # What is not yet false for ever is not "not done": `!done(1)` holds at once in LSF too.
    if after.startswith("!"):
        assert not controller.job(job).waits
        return
    assert waits(controller, job)
    run_job(controller, first, exit_code=exit_code)
    if released:
        assert stat_of(controller.state, controller.job(job), 0) == "PEND"
        assert not controller.job(job).waits
    else:
        assert stat_of(controller.state, controller.job(job), 0) == "EXIT"


def test_started_is_true_when_the_host_says_so(controller):
    first = submit(controller)
    job = submit(controller, submission(after=f"started({first})"))
    place(controller, first)
    assert waits(controller, job)
    report_started(controller, first)
    assert not controller.job(job).waits


def test_started_is_true_of_a_job_that_was_killed_while_it_pended(controller):
    first = submit(controller)
    job = submit(controller, submission(after=f"started({first})"))
    kill(controller, first)
    assert not controller.job(job).waits


def test_a_condition_on_an_array_is_about_all_of_its_elements(controller):
    first = submit(controller, submission(elements="1-2"))
    job = submit(controller, submission(after=f"done({first})"))
    place(controller, first)
    report_ended(controller, first, 1)
    assert waits(controller, job)
    report_ended(controller, first, 2)
    assert not controller.job(job).waits


def test_one_failed_element_settles_done_of_an_array_early(controller):
    first = submit(controller, submission(elements="1-3"))
    job = submit(controller, submission(after=f"done({first})"))
    place(controller, first, 1)
    report_ended(controller, first, 1, exit_code=1)
    assert controller.job(job).is_finished


def test_exit_of_an_array_needs_every_element_to_match(controller):
    first = submit(controller, submission(elements="1-2"))
    job = submit(controller, submission(after=f"exit({first}, > 1)"))
    place(controller, first)
    report_ended(controller, first, 1, exit_code=2)
    assert waits(controller, job)
    report_ended(controller, first, 2, exit_code=3)
    assert not controller.job(job).waits


def test_ended_and_started_of_an_array(controller):
    first = submit(controller, submission(elements="1-2"))
    started = submit(controller, submission(after=f"started({first})"))
    ended = submit(controller, submission(after=f"ended({first})"))
    place(controller, first)
    report_started(controller, first, 1)
    assert waits(controller, started)
    report_started(controller, first, 2)
    assert not controller.job(started).waits
    report_ended(controller, first, 1)
    kill(controller, first)
    assert waits(controller, ended)
    report_ended(controller, first, 2)
    assert not controller.job(ended).waits


def test_a_condition_may_be_about_one_element(controller):
    first = submit(controller, submission(elements="1-2"))
    job = submit(controller, submission(after=f"done({first}[2])"))
    place(controller, first)
    report_ended(controller, first, 1, exit_code=1)
    assert waits(controller, job)
    report_ended(controller, first, 2)
    assert not controller.job(job).waits


def test_a_job_whose_condition_can_never_hold_ends_as_an_orphan(controller):
    first = submit(controller)
    job = submit(controller, submission(after=f"done({first})"))
    kill(controller, first)
    kinds = [type(record) for record in controller.entries[-1].records]
    assert kinds == [Withdrawn, DependencyDoomed, Withdrawn]
    assert ended_element(controller.job(job), 0)[0].cause == EndCause.ORPHAN_SYSTEM
    check_state(controller.state)


def test_a_chain_of_orphans_ends_in_one_entry(controller):
    first = submit(controller)
    jobs = [first]
    for _ in range(5):
        jobs.append(submit(controller, submission(after=f"done({jobs[-1]})")))
    before = len(controller.entries)
    kill(controller, first)
    assert len(controller.entries) == before + 1
    assert all(controller.job(job).is_finished for job in jobs)
    check_state(controller.state)


def test_a_held_array_becomes_an_orphan_too(controller):
    first = submit(controller)
    job = submit(controller, submission(after=f"done({first})", elements="1-4", hold=True))
    kill(controller, (job, 2, 2))
    kill(controller, first)
    assert controller.job(job).is_finished
    check_state(controller.state)


def test_an_orphan_pends_for_the_grace_with_a_final_reason():
    controller = cluster(orphan_grace_us=10 * SECOND_US)
    first = submit(controller)
    job = submit(controller, submission(after=f"done({first})"))
    kill(controller, first)
    reason = pend_reason(controller.state, controller.job(job))
    assert (reason.code, reason.detail) == (ReasonCode.DEPENDENCY_NEVER, f"done({first})")
    tick(controller, after_us=9 * SECOND_US)
    assert not controller.job(job).is_finished
    tick(controller, after_us=2 * SECOND_US)
    assert controller.job(job).is_finished
    check_state(controller.state)


def test_an_orphan_may_pend_for_ever_as_in_lsf():
    controller = cluster(orphan_grace_us=-1)
    first = submit(controller)
    job = submit(controller, submission(after=f"done({first})"))
    kill(controller, first)
    tick(controller, after_us=10**12)
    assert not controller.job(job).is_finished
    kill(controller, job)
    assert controller.job(job).is_finished
    check_state(controller.state)


def test_a_job_that_others_wait_for_is_not_forgotten(controller):
    first, other = submit(controller), submit(controller)
    job = submit(controller, submission(after=f"done({first}) && done({other})"))
    run_job(controller, first)
    tick(controller, after_us=10**11)
    assert first in controller.state.jobs
    run_job(controller, other)
    run_job(controller, job)
    tick(controller, after_us=10**11)
    assert not controller.state.jobs
    check_state(controller.state)
