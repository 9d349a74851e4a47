"""Pre- and post-execution commands: in order, whatever becomes of the job, of shepherd and host."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest
from worker_rig import MODES, open_shepherd, wait_until

HOOKS = [
    ["pre", "echo a $CLEAN >> ran", "queue"],
    ["pre", "echo b $CLEAN >> ran", "job"],
    ["post", "echo c $LSB_JOBEXIT_STAT >> ran", "job"],
    ["post", "echo d $LSB_JOBEXIT_STAT >> ran", "queue"],
]
OUTER = {"PATH": "/usr/bin:/bin", "CLEAN": "outer"}


@pytest.fixture(params=MODES)
def shepherd(request):
    with open_shepherd(request.param) as made:
        made.root.chmod(0o777)
        yield made


def spawn(shepherd, script, hooks=HOOKS, limit_us=20_000_000, **more):
    shepherd.spawn(script, hooks=hooks, hook_limit_us=limit_us, outer=OUTER, **more)


def log(shepherd):
    return shepherd.text("ran").splitlines()


def test_they_run_around_the_job_and_the_outer_ones_in_a_clean_environment(shepherd):
    spawn(shepherd, "echo main >> ran; exit 3", limit_us=0)
    started = shepherd.expect("started", 1)
    over = shepherd.expect("over", 1)
    end = shepherd.ended()
    assert log(shepherd) == ["a outer", "b", "main", "c 768", "d 768"]
    assert (end["code"], end["cause"], end["post"], end["detail"]) == (3, 0, 1, "")
    assert end["started_us"] == started[5]
    assert over[1:] == [1, 0, 1]


def test_a_pre_hook_that_fails_keeps_the_job_from_running(shepherd):
    spawn(shepherd, "echo main >> ran", [["pre", "exit 7", "job"], HOOKS[2]])
    end = shepherd.ended()
    assert log(shepherd) == ["c 1792"]
    assert (end["code"], end["cause"], end["started_us"], end["post"]) == (7, 28, 0, 1)
    assert not [event for event in shepherd.events if event[0] == "started"]


def test_post_hooks_run_after_a_kill_and_what_is_decided_then_does_not_reach_them(shepherd):
    spawn(shepherd, "echo main >> ran; exec sleep 100", [["post", "sleep 1; echo c >> ran", "job"]])
    shepherd.expect("started", 1)
    wait_until(lambda: log(shepherd), "the job runs")
    shepherd.order(["signal", 1, 0, 1, 15, 14, 3, 0])
    shepherd.expect("over", 1)
    for number, step in ((2, 2), (9, 4)):
        shepherd.order(["signal", 1, 0, 1, number, 15, step, 0])
    end = shepherd.ended()
    assert log(shepherd) == ["main", "c"]
    assert (end["cause"], end["post"]) == (14, 1)


def test_post_hooks_are_told_why_the_job_ended_and_whether_it_waits_again(shepherd):
    told = "echo $LSB_JOBEXIT_STAT:$LSB_JOBEXIT_INFO:$LSB_JOBPEND >> ran; echo $LSB_JOBPIDS > pids"
    spawn(shepherd, "exit 7", [["post", told, "job"]], requeue_codes=[7])
    started = shepherd.expect("started", 1)
    shepherd.ended()
    assert shepherd.text("pids").split() == [str(started[4])]
    spawn(shepherd, "exec sleep 100", [["post", told, "job"]], job=2)
    shepherd.expect("started", 2)
    shepherd.order(["signal", 2, 0, 1, 12, 0, 0, 1])
    shepherd.ended(2)
    assert log(shepherd) == ["1792::Y", "35840:SIGNAL 12 USR2:"]


def test_a_kill_while_a_pre_hook_runs_ends_it(shepherd):
    spawn(shepherd, "echo main >> ran", [["pre", "echo a >> ran; exec sleep 100", "job"], HOOKS[3]])
    wait_until(lambda: log(shepherd), "the pre hook runs")
    shepherd.order(["signal", 1, 0, 1, 9, 14, 4, 0])
    end = shepherd.ended()
    assert log(shepherd)[0] == "a"
    assert "main" not in log(shepherd)
    assert log(shepherd)[1].startswith("d ")
    assert (end["cause"], end["started_us"], end["post"]) == (14, 0, 1)


def test_a_hook_that_takes_too_long_is_killed(shepherd):
    spawn(shepherd, "echo main >> ran", [["post", "exec sleep 100", "job"], HOOKS[3]], 1_500_000)
    end = shepherd.ended()
    assert log(shepherd) == ["main", "d 0"]
    assert (end["code"], end["cause"], end["post"]) == (0, 0, 2)
    assert "took longer than" in end["detail"]


@pytest.mark.parametrize("place", range(5))
def test_a_shepherd_that_is_killed_in_any_step_loses_none_and_repeats_none(shepherd, place):
    """Each step waits for a file, so that the shepherd dies while it runs."""
    gate = "while [ ! -e go ]; do sleep 0.02; done; "
    hooks = [list(hook) for hook in HOOKS]
    script = "echo main >> ran; exit 3"
    if place == 2:
        script = f"echo main >> ran; {gate} exit 3"
    else:
        hook = hooks[place if place < 2 else place - 1]
        hook[1] = f"{hook[1]}; {gate}"
    spawn(shepherd, script, hooks)
    wait_until(lambda: len(log(shepherd)) == place + 1, "the step runs")
    shepherd.restart()
    (present,) = [event for event in shepherd.events if event[0] == "present"]
    assert bool(present[5]) == (place >= 2)
    assert present[17] == (place > 2)
    (shepherd.root / "go").touch()
    end = shepherd.ended()
    assert log(shepherd) == ["a outer", "b", "main", "c 768", "d 768"]
    assert (end["code"], end["cause"], end["post"]) == (3, 0, 1)


def test_the_end_is_told_again_by_another_shepherd_and_no_hook_runs_twice(shepherd):
    spawn(shepherd, "echo main >> ran; exit 3")
    first = shepherd.ended()
    shepherd.restart()
    again = shepherd.ended()
    names = ("code", "cause", "post", "detail", "report")
    assert [again[name] for name in names] == [first[name] for name in names]
    assert len(log(shepherd)) == 5


@pytest.mark.parametrize("place", [1, 2, 3])
def test_after_a_restart_of_the_host_the_post_hooks_run(shepherd, place):
    """The run directory is made one of another boot, and everything of the job is killed."""
    hooks = [list(hook) for hook in HOOKS]
    script = "echo main >> ran; exec sleep 100" if place == 2 else "echo main >> ran"
    if place != 2:
        hook = hooks[place if place < 2 else place - 1]
        hook[1] = f"{hook[1]}; [ -e again ] || exec sleep 100"
    spawn(shepherd, script, hooks)
    wait_until(lambda: len(log(shepherd)) == place + 1, "the step runs")
    shepherd.kill()
    (shepherd.root / "again").touch()
    kill_all(shepherd)
    intent = shepherd.runs / "1.0.1" / "intent"
    lines = intent.read_text().splitlines()
    first = {**json.loads(lines[0]), "boot": "another"}
    intent.write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")
    shepherd.start()
    end = shepherd.ended()
    words = [line.split()[0] for line in log(shepherd)]
    ran = ["a", "b", "main"][: place + 1]
    assert words == [*ran, *(["c"] if place == 3 else []), *(["d"] if place == 3 else ["c", "d"])]
    assert end["cause"] == (0 if place == 3 else 101)
    assert end["post"] == (2 if place == 3 else 1)


def test_what_hooks_use_is_counted(shepherd):
    burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
    spawn(shepherd, "true", [["pre", burn, "job"], ["post", burn, "job"]])
    end = shepherd.ended()
    assert end["user_us"] > 20_000


def kill_all(shepherd):
    """Kill what the job has started."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and str(shepherd.root).encode() in environ_of(entry):
                os.kill(int(entry.name), signal.SIGKILL)
    time.sleep(0.1)


def environ_of(entry):
    content = (entry / "environ").read_bytes()
    return content if b"XCE_" in content else b""
