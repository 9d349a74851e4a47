"""Jobs that run longer, or have run shorter, than those of their queue shall."""

import pytest

from xce.apiserver.exceptions import exceptions_of
from xce.apiserver.rows import Listing
from xce.model.config import QueueConfig
from xce.model.ids import MINUTE_US, SECOND_US
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
    assert exceptions_of(QUEUE, start_s, end_s, 100.0) == found


def test_without_a_queue_or_its_word_nothing_is_unusual():
    assert exceptions_of(None, 1.0, 2.0, 3.0) == ()
    assert exceptions_of(QueueConfig(name="q"), 1.0, 1.1, 1e9) == ()


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
