"""Run windows: when jobs may start, and what becomes of those that run when one closes."""

import pytest
from sessions import Scheduled

from xce.calendars.windows import Resolver
from xce.config.values import parse_windows
from xce.control.due import next_due_us
from xce.model.command import ResolveWindows
from xce.model.config import QueueConfig
from xce.model.effect import SetSuspended
from xce.model.ids import SECOND_US
from xce.model.observation import SuspensionSeen
from xce.model.reason import ReasonCode
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import counts, pend_reason, stat_of
from xce.testing.builders import (
    cluster,
    report,
    report_started,
    resume,
    stop,
    submission,
    submit,
    tick,
)

HOUR = 3_600 * SECOND_US
NIGHT = QueueConfig(name="night", priority=40, run_windows=parse_windows("20-8"))
NORMAL = QueueConfig(name="normal", priority=30, default=True)


@pytest.fixture
def world():
    return Scheduled(cluster({"h1": 4}, queues=[NIGHT, NORMAL]))


def resolve(world, *intervals):
    """Say when the windows are open: spans in hours from now."""
    now_us = world.controller.now_us
    found = tuple((now_us + int(a * HOUR), now_us + int(b * HOUR)) for a, b in intervals)
    world.controller.tell(ResolveWindows((("night", found),)))
    check(world)


def check(world):
    state = world.controller.state
    check_state(state)
    assert digest(load(dump(state))) == digest(state)


def later(world, hours):
    world.controller.now_us += int(hours * HOUR)
    tick(world.controller)
    check(world)


def job(world, queue="night", hours=0.0):
    return submit(world.controller, submission(queue=queue, run_limit_us=int(hours * HOUR)))


def test_a_queue_is_closed_until_its_windows_are_resolved(world):
    night, day = job(world), job(world, "normal")
    world.run()
    assert (world.is_live(night), world.is_live(day)) == (False, True)
    reason = pend_reason(world.controller.state, world.controller.job(night))
    assert (reason.code, reason.resource, reason.at_us) == (ReasonCode.WINDOW, "night", 0)


def test_jobs_start_when_the_window_opens(world):
    resolve(world, (1, 2))
    night = job(world)
    world.run()
    assert not world.is_live(night)
    state = world.controller.state
    opens_us = pend_reason(state, world.controller.job(night)).at_us
    assert opens_us == next_due_us(state)
    later(world, 1)
    world.hear()
    assert world.memory.is_due
    world.run()
    assert world.is_live(night)


def test_a_job_that_would_not_end_in_time_is_not_started(world):
    resolve(world, (-1, 2))
    long, short, unlimited = job(world, hours=3), job(world, hours=1), job(world)
    world.run()
    assert [world.is_live(item) for item in (long, short, unlimited)] == [False, True, True]
    assert world.reason(long).code is ReasonCode.DEADLINE


def test_what_runs_when_it_closes_is_suspended_until_it_opens_again(world):
    resolve(world, (-1, 1), (5, 6))
    night = job(world)
    world.run()
    report_started(world.controller, night)
    later(world, 1)
    state = world.controller.state
    ((host, effect),) = world.controller.effects()
    assert (host, effect) == ("h1", SetSuspended(night, 0, 1, True))
    report(world.controller, "h1", SuspensionSeen(night, 0, 1, suspended=True))
    check(world)
    assert stat_of(state, world.controller.job(night), 0) == "SSUSP"
    assert counts(world.controller.job(night))["ssusp"] == 1
    later(world, 4)
    ((host, effect),) = world.controller.effects()
    assert effect == SetSuspended(night, 0, 1, False)
    report(world.controller, "h1", SuspensionSeen(night, 0, 1, suspended=False))
    assert stat_of(state, world.controller.job(night), 0) == "RUN"


def test_a_user_neither_resumes_what_a_window_stopped_nor_loses_his_own_stop(world):
    resolve(world, (-1, 1), (5, 6))
    night = job(world)
    world.run()
    report_started(world.controller, night)
    later(world, 1)
    resume(world.controller, night)
    attempt = world.controller.attempt(night)
    assert attempt.shall_stop
    stop(world.controller, night)
    later(world, 4)
    assert attempt.shall_stop
    resume(world.controller, night)
    assert not attempt.shall_stop


def test_a_plan_from_before_the_close_does_not_hold(world):
    resolve(world, (-1, 1))
    night = job(world)
    plan = world.plan()
    later(world, 1)
    assert world.propose(plan) == 1
    assert not world.is_live(night)


def test_a_queue_that_loses_its_windows_lets_its_jobs_go_on(world):
    resolve(world, (-1, 1))
    night = job(world)
    world.run()
    report_started(world.controller, night)
    later(world, 1)
    assert world.controller.attempt(night).shall_stop
    world.controller.tell(ResolveWindows(()))
    check(world)
    assert not world.controller.attempt(night).shall_stop


def test_they_are_resolved_when_the_configuration_changes_and_twice_a_day(world):
    resolver, state = Resolver(), world.controller.state
    command = resolver.due(state, world.controller.now_us)
    assert command is not None
    world.controller.tell(command)
    assert resolver.due(state, world.controller.now_us + HOUR) is None
    assert resolver.due(state, world.controller.now_us + 12 * HOUR) is not None
    opens_us, closes_us = state.windows["night"].intervals[0]
    assert closes_us - opens_us == 12 * HOUR
    check(world)
