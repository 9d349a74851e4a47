"""The last word of a step: who ended the job, left in the job's own directory."""

import os
from collections.abc import Iterator

import pytest
from worker_rig import MODES, Shepherd, open_shepherd, wait_until

from xce.worker.shepherd.rundir import SAID_MAX


@pytest.fixture(params=MODES)
def shepherd(request: pytest.FixtureRequest) -> Iterator[Shepherd]:
    with open_shepherd(request.param) as one:
        yield one


def test_a_step_says_who_ended_it(shepherd: Shepherd) -> None:
    shepherd.spawn("printf 'a did it\\nmore' >$XCE_JOB_HOST_DIR/said; exit 3", says=True)
    end = shepherd.ended()
    assert (end["code"], end["cause"], end["detail"]) == (3, 0, "a did it")
    shepherd.connect()
    assert shepherd.ended()["detail"] == "a did it"


def test_the_word_is_there_still_after_the_shepherd_was_killed(shepherd: Shepherd) -> None:
    shepherd.spawn(
        "printf 'b did it' >$XCE_JOB_HOST_DIR/said; touch up; while [ ! -e go ]; do sleep 0.05; "
        "done; exit 4",
        says=True,
    )
    shepherd.expect("started", 1, 0, 1)
    wait_until((shepherd.root / "up").exists, "the job runs")
    shepherd.restart()
    (shepherd.root / "go").touch()
    end = shepherd.ended()
    assert (end["code"], end["detail"]) == (4, "b did it")


def test_only_a_step_has_a_last_word(shepherd: Shepherd) -> None:
    shepherd.spawn("echo no >$XCE_JOB_HOST_DIR/said")
    assert shepherd.ended()["detail"] == ""


def test_a_word_is_one_line_of_some_length_whatever_the_job_makes_of_it(shepherd: Shepherd) -> None:
    shepherd.spawn(
        "head -c 100000 /dev/zero | tr '\\0' x >$XCE_JOB_HOST_DIR/said", job=1, says=True
    )
    assert shepherd.ended(1)["detail"] == "x" * SAID_MAX
    shepherd.spawn("printf 'a\\033[2Jb\\377' >$XCE_JOB_HOST_DIR/said", job=2, says=True)
    assert shepherd.ended(2)["detail"] == "a[2Jb\N{REPLACEMENT CHARACTER}"
    shepherd.spawn("mkfifo $XCE_JOB_HOST_DIR/said", job=3, says=True)
    assert shepherd.ended(3)["detail"] == ""
    shepherd.spawn("ln -s /etc/shadow $XCE_JOB_HOST_DIR/said", job=4, says=True)
    assert shepherd.ended(4)["detail"] == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take on other user ids")
def test_a_word_is_read_as_the_jobs_user(shepherd: Shepherd) -> None:
    secret = shepherd.root / "secret"
    secret.mkdir(mode=0o700)
    (secret / "said").write_text("secret")
    shepherd.spawn(
        f"cd /; rmdir $XCE_JOB_HOST_DIR; ln -s {secret} $XCE_JOB_HOST_DIR",
        says=True,
        **({"uid": 65534, "gid": 65534} if shepherd.uid == 0 else {}),
    )
    assert shepherd.ended()["detail"] == ""
