"""Words and reasons of jobs and elements."""

import pytest

from xce.model.config import QueueConfig
from xce.model.dependency import COUNTS, Condition
from xce.model.dependency import Test as Asked
from xce.model.ids import MINUTE_US
from xce.model.observation import SuspensionSeen
from xce.model.reason import ReasonCode
from xce.state.view import counts, ended_element, pend_reason, probe, stat_of
from xce.testing.builders import (
    cluster,
    kill,
    place,
    report,
    report_ended,
    report_started,
    run_job,
    stop,
    submission,
    submit,
    tick,
)


@pytest.fixture
def controller():
    queues = (
        QueueConfig(name="normal", default=True),
        QueueConfig(name="asleep", active=False),
    )
    return cluster(queues=queues)


def test_each_element_has_its_own_word(controller):
    job = submit(controller, submission(elements="1-8"))
    place(controller, job, 1, 2, 3, 4)
    for index in (2, 3, 4):
        report_started(controller, job, index)
    report(controller, "h1", SuspensionSeen(job, 2, 1, suspended=True))
    report_ended(controller, job, 3)
    report_ended(controller, job, 4, exit_code=1)
    stop(controller, (job, 5, 5))
    kill(controller, (job, 6, 6))
    words = [stat_of(controller.state, controller.job(job), place) for place in range(8)]
    assert words == ["RUN", "USUSP", "DONE", "EXIT", "PSUSP", "EXIT", "PEND", "PEND"]
    assert counts(controller.job(job)) == {
        "pend": 2, "psusp": 1, "run": 1, "ususp": 1, "ssusp": 0, "done": 1, "exit": 2,
    }  # fmt: skip


def test_the_end_of_an_element_says_on_whose_word(controller):
    job = submit(controller, submission(elements="1-3"))
    kill(controller, (job, 2, 3))
    ended, by = ended_element(controller.job(job), 1)
    assert (by, ended.attempt, ended.started_at_us) == ("alice", 0, 0)
    assert ended_element(controller.job(job), 0) is None


def reason(controller, job, **more):
    return pend_reason(controller.state, controller.job(job), **more)


def test_what_differs_inside_a_class_is_read_off_the_job(controller):
    first = submit(controller)
    assert reason(controller, first).code is ReasonCode.NEW
    assert reason(controller, first, held=True).code is ReasonCode.HELD
    later = submit(controller, submission(begin_at_us=controller.now_us + MINUTE_US))
    assert reason(controller, later).code is ReasonCode.BEGIN_TIME
    after = submit(controller, submission(after=f"done({first})"))
    assert reason(controller, after).code is ReasonCode.DEPENDENCY
    limited = submit(controller, submission(elements="1-3", limit=1))
    place(controller, limited, 1)
    found = reason(controller, limited)
    assert (found.code, found.needed) == (ReasonCode.ARRAY_LIMIT, 1)
    asleep = submit(controller, submission(queue="asleep"))
    found = reason(controller, asleep)
    assert (found.code, found.resource) == (ReasonCode.QUEUE_CLOSED, "asleep")


def asked(controller, test, job, index=-1, op="", code=0):
    condition = Condition(test, (), op, code, "word" if test is Asked.EXTERNAL else "")
    return probe(controller.state, condition, job, index)


def test_a_job_that_left_is_false_for_ever(controller):
    job = submit(controller)
    run_job(controller, job)
    tick(controller, after_us=10**11)
    assert asked(controller, Asked.DONE, job) == (False, True)


def test_an_element_that_is_not_there_is_false_for_ever(controller):
    job = submit(controller, submission(elements="1-3"))
    assert asked(controller, Asked.DONE, job, 9) == (False, True)


@pytest.mark.parametrize("test", [test for test in Asked if test not in COUNTS])
def test_nothing_is_final_about_a_job_that_pends(controller, test):
    for job in (submit(controller), submit(controller, submission(elements="1-2"))):
        assert asked(controller, test, job) == (False, False)


@pytest.mark.parametrize(
    ("test", "done", "failed"),
    [
        (Asked.DONE, True, False),
        (Asked.POST_DONE, True, False),
        (Asked.ENDED, True, True),
        (Asked.STARTED, True, True),
        (Asked.EXIT, False, True),
        (Asked.POST_ERR, False, False),
    ],
)
def test_an_end_settles_every_test(controller, test, done, failed):
    good, bad = submit(controller), submit(controller)
    run_job(controller, good)
    run_job(controller, bad, exit_code=1)
    assert asked(controller, test, good) == (done, True)
    assert asked(controller, test, bad) == (failed, True)
    array = submit(controller, submission(elements="1-2"))
    place(controller, array)
    for index in (1, 2):
        report_ended(controller, array, index, exit_code=1)
    assert asked(controller, test, array) == (failed, True)


def test_started_needs_every_element_to_run(controller):
    job = submit(controller, submission(elements="1-2"))
    place(controller, job)
    report_started(controller, job, 1)
    assert asked(controller, Asked.STARTED, job, 1) == (True, False)
    assert asked(controller, Asked.STARTED, job) == (False, False)
    report_started(controller, job, 2)
    assert asked(controller, Asked.STARTED, job) == (True, False)
