"""Jobs are suspended for the load of their hosts, one by one, and go on again."""

import pytest
from sessions import Scheduled

from xce.control.load import LOOK_US, LoadGather
from xce.model.config import HostConfig, QueueConfig
from xce.model.effect import SetSuspended
from xce.model.ids import SECOND_US
from xce.model.job import Stop
from xce.model.load import INDICES, UNKNOWN
from xce.model.observation import LoadSeen, SuspensionSeen
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import stop_word
from xce.testing.builders import (
    cluster,
    leave_host,
    report,
    report_started,
    request,
    submission,
    submit,
)

NORMAL = QueueConfig(
    name="normal", priority=30, default=True, load_stop={"r1m": 5_000}, load_sched={"r1m": 2_000}
)
LOW = QueueConfig(name="low", priority=10, load_stop={"r1m": 5_000, "mem": 100_000})
QUIET = QueueConfig(name="quiet", priority=5)


def sample(**values: float) -> tuple[int, ...]:
    return tuple(round(values[name] * 1000) if name in values else UNKNOWN for name in INDICES)


@pytest.fixture
def world():
    hosts = [HostConfig(name=name, slots=8) for name in ("h1", "h2")]
    return Scheduled(cluster(hosts, queues=[NORMAL, LOW, QUIET]))


def running(world: Scheduled, queue: str, host: str = "h1") -> int:
    job = submit(world.controller, submission(queue=queue, asks=request(hosts=[host])))
    world.run()
    report_started(world.controller, job)
    return job


def measure(world: Scheduled, *, answers: bool = True, **load_of: float) -> list[int]:
    """Let h1 measure a load; return which jobs it told to stop, negative: to go on."""
    world.controller.tell(LoadSeen(("h1",), (sample(**load_of),)))
    return told(world, answers=answers)


def told(world: Scheduled, *, answers: bool = True) -> list[int]:
    state = world.controller.state
    found = []
    for job_id, job in state.jobs.items():
        attempt = (job.live or {}).get(0)
        if attempt is None or attempt.suspended == attempt.shall_stop:
            continue
        found.append(job_id if attempt.shall_stop else -job_id)
        if answers:
            seen = SuspensionSeen(job_id, 0, attempt.number, attempt.shall_stop)
            report(world.controller, "h1", seen)
    check_state(state)
    assert digest(load(dump(state))) == digest(state)
    return found


def test_the_last_job_of_the_lowest_queue_is_suspended_first_and_goes_on_last(world):
    high, first, second, quiet = (
        running(world, queue) for queue in ("normal", "low", "low", "quiet")
    )
    assert measure(world, r1m=5) == []
    assert measure(world, r1m=5.1) == [second]
    assert measure(world, r1m=9) == [first]
    assert measure(world, r1m=9) == [high]
    assert measure(world, r1m=9) == []
    attempt = world.controller.attempt(high, 0)
    assert (attempt.stops, stop_word(attempt)) == (Stop.LOAD, "load")
    assert world.controller.attempt(quiet, 0).stops == Stop.NONE
    # Of its queue nothing would start yet, so it does not go on either.
    assert measure(world, r1m=3) == [-first]
    assert measure(world, r1m=1) == [-high]
    assert measure(world, r1m=1) == [-second]


def test_what_one_suspension_brings_is_waited_for(world):
    first, second = running(world, "low"), running(world, "low")
    assert measure(world, r1m=9, answers=False) == [second]
    assert measure(world, r1m=9) == [second]
    assert measure(world, r1m=9) == [first]


def test_a_size_that_falls_short_suspends_and_what_is_not_known_does_not(world):
    job = running(world, "low")
    assert measure(world, mem=100) == []
    assert measure(world, mem=99) == [job]
    leave_host(world.controller, "h1")
    world.controller.tell(LoadSeen((), ()))
    assert world.controller.attempt(job, 0).stops == Stop.NONE


def test_a_parallel_job_is_suspended_where_any_of_its_hosts_is_busy(world):
    job = submit(world.controller, submission(queue="low", asks=request(16)))
    world.run()
    report_started(world.controller, job)
    world.controller.tell(LoadSeen(("h2",), (sample(r1m=9),)))
    assert world.controller.attempt(job, 0).stops == Stop.LOAD


def test_another_gives_way_for_who_cannot_be_told(world):
    first = running(world, "low", "h2")
    wide = submit(world.controller, submission(queue="low", asks=request(9)))
    world.run()
    report_started(world.controller, wide)
    assert world.controller.attempt(wide, 0).hosts[0] == world.controller.state.hosts.number["h1"]
    busy = LoadSeen(("h2",), (sample(r1m=9),))
    world.controller.tell(busy)
    assert world.controller.attempt(wide, 0).stops == Stop.LOAD
    # It is not confirmed, and its host is away: that is waited for no longer.
    leave_host(world.controller, "h1")
    world.controller.tell(busy)
    assert world.controller.attempt(first, 0).stops == Stop.LOAD


def test_who_cannot_be_told_is_not_chosen(world):
    first = running(world, "low", "h2")
    wide = submit(world.controller, submission(queue="low", asks=request(9)))
    world.run()
    report_started(world.controller, wide)
    leave_host(world.controller, "h1")
    world.controller.tell(LoadSeen(("h2",), (sample(r1m=9),)))
    assert world.controller.attempt(wide, 0).stops == Stop.NONE
    assert world.controller.attempt(first, 0).stops == Stop.LOAD


def test_another_word_to_stop_stays_when_the_load_falls(world):
    job = running(world, "low")
    measure(world, r1m=9)
    world.controller.attempt(job, 0).stops |= Stop.WINDOW
    measure(world, r1m=1)
    assert world.controller.attempt(job, 0).stops == Stop.WINDOW


def test_a_steady_load_is_looked_at_again_only_where_it_matters(world):
    gather, state = LoadGather(), world.controller.state
    running(world, "low")
    now_us = world.controller.now_us + 100 * SECOND_US
    assert gather.take(state, now_us) is None
    measure(world, r1m=9)
    look = gather.take(state, now_us)
    assert look == LoadSeen((), ())
    assert gather.take(state, now_us + SECOND_US) is None
    assert gather.take(state, now_us + LOOK_US) == look


def test_hosts_are_told_to_suspend_what_the_load_stops(world):
    job = running(world, "low")
    measure(world, r1m=9, answers=False)
    ((host, effect),) = world.controller.effects()
    number = world.controller.attempt(job, 0).number
    assert (host, effect) == ("h1", SetSuspended(job, 0, number, True))
