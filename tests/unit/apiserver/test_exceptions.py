"""Jobs that run longer, have run shorter, or do less than those of their queue shall."""

import msgspec
import pytest

from xce.apiserver.exceptions import exceptions_of
from xce.apiserver.rows import Listing
from xce.apiserver.usage import Told
from xce.model.config import QueueConfig
from xce.model.ids import MINUTE_US, SECOND_US
from xce.model.usage import AttemptUse
from xce.testing.builders import cluster, place, report_ended, report_started, submit, tick

QUEUE = QueueConfig(name="normal", default=True, overrun_us=MINUTE_US, underrun_us=10 * SECOND_US)


@pytest.mark.parametrize(
    ("start_s", "end_s", "found"),
    [
        (None, None, ()),
        (None, 5.0, ()),
        (100.0, None, ()),
        (40.0, None, ()),
        (39.9, None, ("overrun",)),
        (30.0, 90.0, ()),
        (30.0, 90.1, ("overrun",)),
        (50.0, 60.0, ()),
        (50.0, 59.9, ("underrun",)),
    ],
)
def test_a_job_is_judged_by_how_long_it_runs_or_ran(start_s, end_s, found):
    assert exceptions_of(QUEUE, start_s, end_s, 100.0, None) == found


def test_without_a_queue_or_its_word_nothing_is_unusual():
    assert exceptions_of(None, 1.0, 2.0, 3.0, 0.0) == ()
    assert exceptions_of(QueueConfig(name="q"), 1.0, 1.1, 1e9, 0.0) == ()


@pytest.mark.parametrize(
    ("start_s", "end_s", "cpu_s", "found"),
    [
        (None, None, None, ()),
        (41.0, None, 0.0, ()),
        (39.9, None, 6.0, ("overrun", "idle")),
        (39.9, None, 6.1, ("overrun",)),
        (39.9, None, None, ("overrun",)),
        (0.0, 60.0, 5.9, ("idle",)),
        (0.0, 60.0, 6.0, ()),
        (0.0, 59.0, 0.0, ()),
    ],
)
def test_a_job_that_uses_little_cpu_time_is_idle_once_it_has_run_for_a_while(
    start_s, end_s, cpu_s, found
):
    queue = msgspec.structs.replace(QUEUE, idle_milli=100, idle_after_us=MINUTE_US)
    assert exceptions_of(queue, start_s, end_s, 100.0, cpu_s) == found


def test_rows_tell_it_of_what_runs_and_of_what_is_over():
    controller = cluster({"h1": 4}, queues=[QUEUE])
    jobs = [submit(controller) for _ in range(3)]
    for job in jobs[:2]:
        place(controller, job)
        report_started(controller, job)
    report_ended(controller, jobs[1])
    tick(controller, after_us=2 * MINUTE_US)
    listing = Listing(controller.state, {}, now_us=controller.now_us)
    rows = [listing.elements(controller.job(job))[0] for job in jobs]
    assert [row.exceptions for row in rows] == [("overrun",), ("underrun",), ()]


def test_a_running_job_is_idle_by_what_its_host_says():
    queue = QueueConfig(name="normal", default=True, idle_milli=100, idle_after_us=MINUTE_US)
    controller = cluster({"h1": 4}, queues=[queue])
    jobs = [submit(controller) for _ in range(2)]
    for job in jobs:
        place(controller, job)
        report_started(controller, job)
    tick(controller, after_us=2 * MINUTE_US)
    listing = Listing(controller.state, {}, now_us=controller.now_us)
    assert [listing.elements(controller.job(job))[0].exceptions for job in jobs] == [(), ()]
    uses = [
        AttemptUse(job, 0, 1, cpu, 1, 1, 1, 0, 1, 7)
        for job, cpu in zip(jobs, (5, 30 * 10**6), strict=True)
    ]
    listing.usage = {"h1": Told(0.0, {(use.job, 0, 1): use for use in uses})}
    found = [listing.elements(controller.job(job))[0].exceptions for job in jobs]
    assert found == [("idle",), ()]
