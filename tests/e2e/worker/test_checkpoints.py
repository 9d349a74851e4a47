"""Programs that write checkpoints, beside jobs of a real shepherd."""

import os
import time
from pathlib import Path

import pytest
from worker_rig import MODES, alive, open_shepherd, wait_until

ECHO = 'echo "$*" > args; echo "$LSB_CHKPNT_DIR" > data; echo said'


@pytest.fixture(params=MODES)
def shepherd(request):
    with open_shepherd(request.param) as made:
        made.root.chmod(0o777)
        yield made


def program(shepherd, text):
    path = shepherd.root / "echkpnt.test"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def ask(shepherd, text, count=0, *, ends=False, limit_us=20_000_000, job=1):
    root = shepherd.root
    asked = {
        "argv": [program(shepherd, text), "-d", f"{root}/ck/1"],
        "env": {"PATH": "/usr/bin:/bin", "LSB_CHKPNT_DIR": f"{root}/ck/1"},
        "cwd": str(root), "umask": 0o022, "ends": ends, "limit_us": limit_us,
    }  # fmt: skip
    shepherd.order(["checkpoint", job, 0, 1, count, asked])


def outcome(shepherd):
    return shepherd.expect("checkpointed", 1)[5]


def test_it_runs_beside_the_job_in_its_directory_and_is_told_the_process_group(shepherd):
    shepherd.spawn("touch go; exec sleep 100")
    pid = shepherd.expect("started", 1)[4]
    ask(shepherd, ECHO, count=1)
    assert outcome(shepherd) == [1, False, True, ""]
    assert shepherd.text("args").split() == ["-d", f"{shepherd.root}/ck/1", str(pid)]
    assert shepherd.text("data").strip() == f"{shepherd.root}/ck/1"
    assert shepherd.text("ck/1/echkpnt.out") == "said\n"
    ask(shepherd, ECHO, count=1)  # the same request once more changes nothing
    ask(shepherd, "exit 3", count=2)
    number, _, is_good, detail = outcome(shepherd)
    assert (number, is_good) == (2, False)
    assert detail.endswith("echkpnt.test ended with exit status 3")
    shepherd.order(["signal", 1, 0, 1, 9, 14, 4, 0])
    assert shepherd.ended()["cause"] == 14


def test_a_program_that_ends_the_job_itself_is_waited_for_and_is_why_it_ended(shepherd):
    shepherd.spawn("exec sleep 100")
    shepherd.expect("started", 1)
    ask(shepherd, "for pid; do :; done; kill -9 -$pid; sleep 0.3; echo x > late", ends=True)
    assert outcome(shepherd) == [1, True, True, ""]
    assert shepherd.text("late") == "x\n"
    end = shepherd.ended()
    assert (end["cause"], end["signal"]) == (13, 9)


def test_one_that_takes_too_long_is_killed_and_then_the_next_is_written(shepherd):
    shepherd.spawn("exec sleep 100")
    shepherd.expect("started", 1)
    ask(shepherd, "[ -e begun ] || { touch begun; exec sleep 100; }", limit_us=2_000_000)
    wait_until((shepherd.root / "begun").exists, "the program runs")
    ask(shepherd, "[ -e begun ] || { touch begun; exec sleep 100; }")  # due meanwhile: not again
    ask(shepherd, "[ -e begun ] || { touch begun; exec sleep 100; }", count=1)
    number, _, is_good, detail = outcome(shepherd)
    assert (number, is_good) == (1, False)
    assert detail.endswith("took too long")
    assert outcome(shepherd) == [2, False, True, ""]
    shepherd.order(["signal", 1, 0, 1, 9, 14, 4, 0])
    shepherd.ended()


def test_nothing_is_written_into_a_directory_of_another_user(shepherd):
    if os.geteuid():
        pytest.skip("only root makes directories of others")
    (shepherd.root / "ck" / "1").mkdir(parents=True)
    os.chown(shepherd.root / "ck" / "1", 65_000, 65_000)
    (shepherd.root / "ck" / "1").chmod(0o777)
    shepherd.spawn("exec sleep 100")
    shepherd.expect("started", 1)
    ask(shepherd, ECHO, count=1)
    assert outcome(shepherd) == [
        1, False, False, "the checkpoint directory cannot be made, or is another user's"
    ]  # fmt: skip
    assert not (shepherd.root / "ck" / "1" / "echkpnt.out").exists()
    shepherd.order(["signal", 1, 0, 1, 9, 14, 4, 0])
    shepherd.ended()


def test_a_kill_of_the_job_takes_the_program_with_it(shepherd):
    shepherd.spawn("exec sleep 100")
    shepherd.expect("started", 1)
    ask(shepherd, "touch begun; exec sleep 100", ends=True)
    wait_until((shepherd.root / "begun").exists, "the program runs")
    shepherd.order(["signal", 1, 0, 1, 9, 14, 4, 0])
    assert outcome(shepherd)[2] is False
    assert shepherd.ended()["cause"] == 14


def test_a_shepherd_that_is_killed_meanwhile_says_that_nobody_saw_the_end(shepherd):
    shepherd.spawn("exec sleep 100")
    shepherd.expect("started", 1)
    ask(shepherd, "touch begun; exec sleep 1", count=7)
    wait_until((shepherd.root / "begun").exists, "the program runs")
    shepherd.restart()
    present = shepherd.expect("present", 1)
    assert present[9] == 7
    assert present[18] > 0
    assert present[19] == [1, False, False, "the process that waited for it was killed"]
    shepherd.order(["signal", 1, 0, 1, 9, 14, 4, 0])
    shepherd.ended()


def test_a_shepherd_that_comes_new_ends_the_program_of_the_one_before(shepherd):
    shepherd.spawn("exec sleep 100")
    shepherd.expect("started", 1)
    gate = "until [ -e go ]; do sleep 0.05; done"
    ask(shepherd, f"touch begun; {gate}; touch late", count=1)
    wait_until((shepherd.root / "begun").exists, "the program runs")
    shepherd.restart()
    assert shepherd.expect("present", 1)[19][2] is False
    ask(shepherd, "touch go; sleep 1; [ ! -e late ]", count=2)
    assert outcome(shepherd) == [2, False, True, ""]
    shepherd.order(["signal", 1, 0, 1, 9, 14, 4, 0])
    shepherd.ended()


def test_each_one_that_waits_is_written_whatever_signals_come_between(shepherd):
    shepherd.spawn("trap '' USR1; touch up; while :; do sleep 0.1; done")
    wait_until((shepherd.root / "up").exists, "the job to begin")
    text = "[ -e begun ] || { touch begun; sleep 0.7; }"
    ask(shepherd, text, count=1)
    wait_until((shepherd.root / "begun").exists, "the program runs")
    ask(shepherd, text, count=2)
    shepherd.order(["signal", 1, 0, 1, 10, 0, 0, 3])
    for _ in range(2):
        ask(shepherd, text, count=4, ends=True)
    assert [outcome(shepherd)[:3] for _ in range(3)] == [
        [1, False, True], [2, False, True], [3, True, True],
    ]  # fmt: skip
    shepherd.order(["signal", 1, 0, 1, 9, 14, 4, 0])
    shepherd.ended()


def test_one_does_not_outlive_the_lease_of_its_job_and_nobody_is_woken_for_it_any_more(shepherd):
    shepherd.spawn("while [ ! -e over ]; do sleep 0.05; done; exit 4")
    pid = shepherd.expect("started", 1)[4]
    ask(shepherd, "touch begun; exec sleep 100", count=1)
    wait_until((shepherd.root / "begun").exists, "the program runs")
    (shepherd.root / "over").touch()
    wait_until(lambda: not alive(pid), "the job to end")
    shepherd.order(["lease", [[1, 0, 1, time.monotonic_ns() // 1000 + 400_000]]])
    assert outcome(shepherd)[2] is False
    end = shepherd.ended()
    assert (end["code"], end["cause"]) == (4, 0)
    before = turns(shepherd)
    shepherd.quiet(0.5)
    assert turns(shepherd) - before < 50


def turns(shepherd):
    """Return how often the shepherd has waited for something."""
    status = Path(f"/proc/{shepherd.process.pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
