"""What is told of an attempt, and what is still to come of it."""

from xce.net.bounds import DETAIL_MAX
from xce.worker.shepherd.attempts import Attempt
from xce.worker.shepherd.hooks import Course, Result
from xce.worker.shepherd.spawn import Ids


def test_the_word_about_an_end_is_short_enough_for_the_controller():
    attempt = Attempt((1, 0, 1), "/run", ids=Ids(0, 0, ()), note="", mark="m")
    name = "d/" * 2000
    steps = [["post", "x", f"file transfer {name}{i} < b"] for i in range(100)]
    attempt.course = Course({"steps": steps, "limit_us": 0})
    for code in (0, *[66] * len(steps)):
        attempt.course.take(Result(code))
    detail = attempt.ended()[10]
    assert detail.startswith("file transfer failed: d/d/")
    assert len(detail) <= DETAIL_MAX


def test_a_kill_between_a_pre_hook_and_its_job_keeps_the_job_from_being_started():
    attempt = Attempt((1, 0, 1), "/run", ids=Ids(0, 0, ()), note="", mark="m")
    assert attempt.has_more
    attempt.leave(code=0, signal=0, now_us=1)
    assert not attempt.has_more
    attempt.course = Course({"steps": [["pre", "x", "queue"], ["post", "y", "job"]], "limit_us": 0})
    assert attempt.has_more
    # So is it killed, and this is what its shepherd goes on with.
    attempt.course.take(Result(0, cause=102))
    assert attempt.course.is_posting
    assert not attempt.has_more
