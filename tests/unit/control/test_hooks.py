"""Pre- and post-execution commands: whose they are, and what comes of one that failed."""

import pytest
from msgspec.structs import replace

from xce.control.effects import owed
from xce.model import dependency
from xce.model.config import AppConfig, QueueConfig
from xce.model.effect import Hook, Launch
from xce.model.job import EndCause, PostStat
from xce.state.check import check_state
from xce.state.snapshot import digest
from xce.state.view import probe, stat_of
from xce.testing.builders import (
    array,
    cluster,
    place,
    replayed,
    report_ended,
    report_started,
    submission,
    submit,
    tick,
)

SECOND_US = 1_000_000
QUEUE = QueueConfig(name="normal", default=True, pre_exec="q-pre", post_exec="q-post")
APP = AppConfig(name="fluid", pre_exec="a-pre", post_exec="a-post")


def with_hooks(pre="j-pre", post="j-post", **members):
    given = replace(submission(), **members)
    return replace(given, spec=replace(given.spec, pre_exec=pre, post_exec=post))


def fail_pre(controller, job, host, exit_code=5):
    place(controller, job, host=host)
    report_ended(
        controller, job, exit_code=exit_code, cause=EndCause.PRE_EXEC_FAIL, detail="it failed"
    )
    return stat_of(controller.state, controller.job(job), 0)


def test_those_of_the_queue_are_the_outermost_and_those_of_the_job_the_innermost():
    controller = cluster(queues=(QUEUE,), applications=(APP,))
    job = submit(controller, with_hooks(app="fluid"))
    place(controller, job)
    (launch,) = [one for one in owed(controller.state, 0) if isinstance(one, Launch)]
    assert launch.hooks == (
        Hook("pre", "q-pre", "queue"), Hook("pre", "a-pre", "application"),
        Hook("pre", "j-pre", "job"), Hook("post", "j-post", "job"),
        Hook("post", "a-post", "application"), Hook("post", "q-post", "queue"),
    )  # fmt: skip
    assert launch.hook_limit_us == 600 * SECOND_US


def test_a_job_whose_pre_hook_failed_is_tried_elsewhere_and_later_here_again():
    controller = cluster()
    job = submit(controller, with_hooks())
    assert fail_pre(controller, job, "h1") == "PEND"
    requeue = controller.job(job).requeues[0]
    assert (requeue.cause, requeue.detail, requeue.has_run, requeue.pre_times) == (
        EndCause.REQUEUE_PRE_EXEC, "it failed", False, 1,
    )  # fmt: skip
    assert controller.job(job).avoid == (0,)
    check_state(controller.state)
    tick(controller, after_us=controller.state.config.start_retry_us + 1)
    assert controller.job(job).avoid == ()
    assert digest(replayed(controller.entries)) == digest(controller.state)


def test_it_ends_when_it_was_tried_often_enough():
    controller = cluster(pre_exec_tries=2)
    job = submit(controller, with_hooks())
    assert [fail_pre(controller, job, host) for host in ("h1", "h2")] == ["PEND", "EXIT"]
    assert controller.job(job).ended.cause == EndCause.PRE_EXEC_FAIL


def test_one_that_ends_with_99_wants_no_other_try():
    controller = cluster()
    job = submit(controller, with_hooks())
    assert fail_pre(controller, job, "h1", 99) == "EXIT"
    assert controller.job(job).ended.exit_code == 99


POSTS = (dependency.Test.POST_DONE, dependency.Test.POST_ERR)


def holds(controller, job):
    """Return whether ``post_done`` and ``post_err`` of a job hold."""
    return tuple(
        probe(controller.state, dependency.Condition(test, ()), job, -1)[0] for test in POSTS
    )


def test_how_post_hooks_ended_is_known_to_dependencies():
    controller = cluster()
    job, other = submit(controller, with_hooks()), submit(controller)
    for one, code in ((job, 3), (other, 0)):
        place(controller, one)
        report_started(controller, one)
        post = PostStat.DONE if one == job else PostStat.NONE
        report_ended(controller, one, exit_code=code, post=post)
    assert controller.job(job).post_stats == {0: PostStat.DONE}
    assert (holds(controller, job), holds(controller, other)) == ((True, False), (True, False))
    assert digest(replayed(controller.entries)) == digest(controller.state)


@pytest.mark.parametrize(("posts", "expected"), [((1, 1), (True, False)), ((1, 2), (False, False)),
                                                 ((2, 2), (False, True))])  # fmt: skip
def test_of_an_array_every_element_counts(posts, expected):
    controller = cluster()
    job = submit(controller, with_hooks(array=array("1-2")))
    for index, post in zip((1, 2), posts, strict=True):
        place(controller, job, index)
        report_started(controller, job, index)
        report_ended(controller, job, index, post=post)
    assert holds(controller, job) == expected
