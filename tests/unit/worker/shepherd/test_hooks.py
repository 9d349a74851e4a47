"""The steps of an attempt with hooks: which follows which, and how the whole ends."""

import json

import pytest

from xce.worker.shepherd.hooks import CAUSE_OUTPUT, CAUSE_PRE_EXEC, Course, Result

KILLED = Result(130, 2, 14, 5, 9)
STEPS = [["pre", "a", "queue"], ["pre", "b", "job"], ["post", "c", "job"], ["post", "d", "queue"]]


def course(steps=STEPS, limit_us=60_000_000):
    return Course({"steps": steps, "limit_us": limit_us})


def go(made, *results):
    """Take ends of steps; return the commands of those that ran, the job's is empty."""
    ran = []
    for result in results:
        ran.append(made.step.command)
        made.begin(0)
        made.take(result)
    return ran


def test_pre_hooks_the_job_and_post_hooks_run_in_order():
    made = course()
    done = Result(3, 0, 0, 5, 9, "detail")
    assert go(made, Result(0), Result(0), done, Result(0), Result(0)) == ["a", "b", "", "c", "d"]
    assert (made.is_over, made.main, made.post, made.post_detail) == (True, done, 1, "")


@pytest.mark.parametrize("number", [1, 2])
def test_a_pre_hook_that_fails_leads_to_the_post_hooks(number):
    made = course()
    go(made, *[Result(0)] * (number - 1), Result(7, started_us=5))
    assert (made.step.command, made.is_posting) == ("c", True)
    origin = ("queue", "job")[number - 1]
    detail = f"the pre-execution command of the {origin} ended with exit status 7"
    assert made.main == Result(7, 0, CAUSE_PRE_EXEC, 0, 0, detail)


def test_one_that_was_killed_with_the_job_ends_as_the_job_shall():
    made = course()
    go(made, KILLED)
    assert (made.step.command, made.main) == ("c", KILLED._replace(started_us=0))


def test_one_whose_end_nobody_saw_has_failed():
    made = course()
    go(made, Result(1, 0, 100, 0, 0, "lost"))
    assert (made.main.cause, made.main.code) == (CAUSE_PRE_EXEC, 1)
    assert made.main.detail.endswith("of the queue failed: lost")


def test_a_post_hook_that_fails_changes_nothing_of_the_jobs_end():
    made = course()
    go(made, Result(0), Result(0), Result(0), Result(4), Result(0))
    assert (made.main, made.post) == (Result(0), 2)
    assert made.post_detail == "the post-execution command of the job ended with exit status 4"


def test_a_hook_that_takes_too_long_has_failed():
    made = course()
    made.begin(1_000_000)
    assert made.due_us == 61_000_000
    made.is_late = True
    made.take(Result(137, 9))
    assert made.main.detail == "the pre-execution command of the queue took longer than 60 s"
    assert made.main.cause == CAUSE_PRE_EXEC
    assert course(limit_us=0).due_us == 0


def test_the_job_itself_has_no_such_limit():
    made = course([["post", "c", "job"]])
    made.begin(1)
    assert (made.due_us, made.is_posting) == (0, False)
    made.take(KILLED)
    made.begin(1)
    assert (made.due_us, made.is_posting) == (60_000_001, True)


def test_what_was_noted_is_known_to_another_shepherd():
    made = course()
    go(made, Result(0), Result(0), KILLED, Result(4))
    made.begin(77)
    other = course()
    other.recall(json.loads(json.dumps(made.facts())))
    assert (other.step, other.main, other.post, other.post_detail, other.began_us) == (
        made.step, KILLED, 2, made.post_detail, 77,
    )  # fmt: skip


COPIES = [
    ["pre", "in", "file transfer a > b"],
    ["pre", "hook", "job"],
    ["post", "out", "file transfer a < b"],
    ["post", "last", "job"],
]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (66, "what is to be copied is no file that can be read"),
        (68, ("this host does not have the directory of the local file, and no worker of this "
         "cluster runs on the host of the submission: copy within a directory that both see")),
        (69, "the host of the submission could not be reached"),
        (73, "its copy cannot be written"),
        (127, "exit status 127"),
    ],
)  # fmt: skip
def test_a_copy_that_fails_keeps_the_job_from_running_and_is_not_copied_back(code, text):
    made = course(COPIES)
    assert go(made, Result(code), Result(0)) == ["in", "last"]
    assert (made.main.cause, made.main.code) == (CAUSE_OUTPUT, code)
    assert made.main.detail == f"file transfer failed: a > b: {text}"
    assert made.is_over


def test_nothing_is_copied_back_where_the_job_has_not_run():
    made = course(COPIES)
    assert go(made, Result(0), Result(1), Result(0)) == ["in", "hook", "last"]
    made = course(COPIES)
    go(made, Result(0), Result(0))
    made.take(Result(1), has_run=False)
    assert made.step.command == "last"


def test_a_copy_back_that_fails_is_told_and_changes_nothing_of_the_jobs_end():
    made = course(COPIES)
    ran = go(made, Result(0), Result(0), Result(3), Result(73), Result(0))
    assert ran == ["in", "hook", "", "out", "last"]
    assert (made.main, made.post) == (Result(3), 2)
    assert made.post_detail == "file transfer failed: a < b: its copy cannot be written"


def test_a_copy_that_takes_too_long_has_failed():
    made = course(COPIES)
    made.begin(1)
    made.is_late = True
    made.take(Result(137, 9))
    assert made.main.detail == "file transfer failed: a > b: took longer than 60 s"
