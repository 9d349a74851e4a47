"""The state run forward on an expected course."""

import pytest

from xce.advice.forecast import Forecast, forecast
from xce.advice.trials import find_start
from xce.model.command import ProposePlan
from xce.model.config import QueueConfig
from xce.model.ids import MINUTE_US, JobId
from xce.sched.session import run_session
from xce.state.snapshot import dump, load
from xce.testing.builders import (
    RecordedController,
    cluster,
    leave_host,
    report_started,
    stop,
    submission,
    submit,
)


def run(controller: RecordedController) -> None:
    plan = run_session(controller.state, now_us=controller.now_us)
    controller.tell(ProposePlan(plan), by="scheduler")
    for job in list(controller.state.jobs.values()):
        for position, attempt in list((job.live or {}).items()):
            if not attempt.started_at_us:
                report_started(controller, job.id, job.index(position))


def foresee(controller: RecordedController, job: JobId, **options: int) -> Forecast:
    return forecast(load(dump(controller.state)), (job, 0), controller.now_us, **options)


def minutes(controller: RecordedController, found: Forecast) -> float:
    return round((found.at_us - controller.now_us) / MINUTE_US, 1)


def test_a_line_of_jobs_is_followed() -> None:
    controller = cluster({"h1": 2})
    for _ in range(6):
        last = submit(controller, submission(tasks=2, run_limit_us=10 * MINUTE_US))
    run(controller)
    found = foresee(controller, last)
    assert minutes(controller, found) == 50.0
    assert found.ends == 5


def test_what_is_followed_is_bounded() -> None:
    controller = cluster({"h1": 2})
    for _ in range(6):
        last = submit(controller, submission(tasks=2, run_limit_us=10 * MINUTE_US))
    run(controller)
    found = foresee(controller, last, steps_max=3)
    assert (found.at_us, found.is_cut) == (0, True)
    assert found.until_us > controller.now_us + 20 * MINUTE_US


def test_with_much_work_ends_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = cluster({"h1": 2})
    for _ in range(20):
        last = submit(controller, submission(tasks=2, run_limit_us=10 * MINUTE_US))
    run(controller)
    exact = minutes(controller, foresee(controller, last))
    monkeypatch.setattr("xce.advice.forecast._EXACT_WORK", 0)
    about = minutes(controller, foresee(controller, last))
    assert exact == 190.0
    assert exact <= about <= exact * 2.2


def test_a_host_that_is_away_and_who_is_suspended_end_nothing() -> None:
    controller = cluster({"h1": 2, "h2": 2})
    job = submit(controller, submission(tasks=2, run_limit_us=MINUTE_US))
    other = submit(controller, submission(tasks=2, run_limit_us=MINUTE_US))
    run(controller)
    stop(controller, job)
    first = controller.state.hosts.names[controller.attempt(other).hosts[0]]
    leave_host(controller, first)
    waiting = submit(controller, submission(tasks=2))
    run(controller)
    found = foresee(controller, waiting)
    assert (found.at_us, found.is_cut) == (0, False)


def test_a_requeued_victim_stands_in_line_again() -> None:
    low = QueueConfig(name="low", priority=10, default=True, preemption="requeue")
    high = QueueConfig(name="high", priority=50, preempt=("low",))
    controller = cluster({"h1": 2}, queues=[low, high])
    victim = submit(controller, submission(tasks=2, run_limit_us=30 * MINUTE_US))
    run(controller)
    urgent = submit(controller, submission(tasks=2, queue="high", run_limit_us=5 * MINUTE_US))
    later = submit(controller, submission(tasks=2))
    run(controller)
    assert minutes(controller, foresee(controller, urgent)) == 0.0
    assert minutes(controller, foresee(controller, later)) == 35.0
    assert victim


def test_a_dependency_is_satisfied_by_a_good_end() -> None:
    controller = cluster({"h1": 2})
    first = submit(controller, submission(run_limit_us=7 * MINUTE_US))
    run(controller)
    after = submit(controller, submission(after=f"done({first})"))
    never = submit(controller, submission(after=f"exit({first})"))
    assert minutes(controller, foresee(controller, after)) == 7.0
    assert foresee(controller, never).at_us == 0


def test_the_host_of_an_element_is_found_in_a_bulk_start() -> None:
    controller = cluster({"h1": 2, "h2": 2})
    single = submit(controller, submission())
    many = submit(controller, submission(name="a", elements="1-5:2"))
    plan = run_session(controller.state, now_us=controller.now_us)
    placed = [find_start(plan, controller.state, (many, index)) for index in (1, 3, 5)]
    controller.tell(ProposePlan(plan), by="scheduler")
    for index, start in zip((1, 3, 5), placed, strict=True):
        assert start is not None
        attempt = controller.attempt(many, index)
        assert start.hosts == (controller.state.hosts.names[attempt.hosts[0]],)
    assert find_start(plan, controller.state, (single, 0)) is not None
    assert find_start(plan, controller.state, (many + 1, 0)) is None
