"""Shepherds that are killed, come twice, or come after another boot."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_rig import MODES, Shepherd, alive, open_shepherd, wait_until

from xce.worker.shepherd import main

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may take on other user ids")


@pytest.fixture(params=MODES)
def shepherd(request: pytest.FixtureRequest) -> Iterator[Shepherd]:
    with open_shepherd(request.param) as one:
        yield one


def test_a_killed_shepherd_loses_no_job_and_no_result(shepherd: Shepherd) -> None:
    shepherd.spawn("while [ ! -e go ]; do sleep 0.02; done; exit $I", count=8)
    for index in range(8):
        shepherd.expect("started", 1, index, 1)
    shepherd.restart()
    assert len([e for e in shepherd.events if e[0] == "present"]) == 8
    shepherd.kill()
    (shepherd.root / "go").touch()
    time.sleep(0.3)
    shepherd.start()
    for index in range(8):
        end = shepherd.ended(1, index)
        assert (end["code"], end["cause"]) == (index, 0)
        assert end["ended_us"] >= end["started_us"]
    shepherd.restart()
    assert shepherd.ended(1, 5)["code"] == 5


def test_a_shepherd_killed_while_it_starts_jobs_starts_none_twice(shepherd: Shepherd) -> None:
    for round_ in range(6):
        job = round_ + 1
        shepherd.spawn("echo $I >> ran.$XCE; sleep 0.2; exit 0", job=job, count=20,
                       env={"XCE": str(job)})  # fmt: skip
        time.sleep(0.004 * round_)
        shepherd.restart()
        # It may have been killed before it forgot those of the round before.
        present = {tuple(e[1:4]) for e in shepherd.events if e[0] == "present" and e[1] == job}
        for key in present:
            assert shepherd.ended(*key)["code"] == 0
        ran = shepherd.text(f"ran.{job}").split()
        assert sorted(ran) == sorted(str(index) for _, index, _ in present)
        for key in present:
            shepherd.order(["forget", *key, True])


def test_a_status_that_cannot_be_had_ends_the_job_once(shepherd: Shepherd) -> None:
    shepherd.spawn("echo $PPID $$ > pids; exec sleep 600")
    wait_until(lambda: shepherd.text("pids").endswith("\n"), "the job to begin")
    pid = shepherd.expect("started", 1, 0, 1)[4]
    shepherd.kill()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), "the shell to die")
    shepherd.start()
    end = shepherd.ended()
    assert (end["code"], end["cause"]) == (1, 100)
    shepherd.restart()
    assert shepherd.ended()["cause"] == 100


def test_an_adopted_shell_that_is_killed_is_known_by_the_kernel_or_said_to_be_lost(
    shepherd: Shepherd,
) -> None:
    shepherd.spawn("touch ready; sleep 600")
    wait_until((shepherd.root / "ready").exists, "the job to begin")
    pid = shepherd.expect("started", 1, 0, 1)[4]
    shepherd.restart()
    os.kill(pid, signal.SIGKILL)
    end = shepherd.ended()
    assert (end["code"], end["signal"]) == (137, 9) or end["cause"] == 100


def test_what_outlives_an_adopted_shell_is_seen_to_end_by_itself(shepherd: Shepherd) -> None:
    # What ignores the signal goes on until the file is there; nobody else gives the shepherd a
    # reason to look again.
    shepherd.spawn(
        "(trap '' TERM; touch ready; while [ ! -e go ]; do sleep 0.02; done) & touch begun; wait"
    )
    for name in ("begun", "ready"):
        wait_until((shepherd.root / name).exists, "the job to begin")
    shepherd.restart()
    shepherd.order(["signal", 1, 0, 1, 15, 5, 3, 0])
    assert [e for e in shepherd.quiet(0.5) if e[0] == "ended"] == []
    (shepherd.root / "go").touch()
    began = time.monotonic()
    end = shepherd.ended()
    assert end["cause"] == 5
    assert time.monotonic() - began < 5


def test_after_another_boot_what_ran_has_ended_with_the_host(shepherd: Shepherd) -> None:
    shepherd.spawn("sleep 600")
    shepherd.expect("started", 1, 0, 1)
    shepherd.order(["signal", 1, 0, 1, 9, 0, 0, 0])
    shepherd.ended()
    shepherd.kill()
    intent = shepherd.runs / "1.0.1" / "intent"
    first = intent.read_text().splitlines()[0]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    intent.write_text(first.replace(boot, "another-boot") + "\n")
    shepherd.start()
    end = shepherd.ended()
    assert end["cause"] == 101
    assert end["started_us"] == end["ended_us"]


def test_cut_files_in_a_run_directory_count_as_not_there(shepherd: Shepherd) -> None:
    shepherd.spawn("exit 3")
    shepherd.ended()
    shepherd.kill()
    directory = shepherd.runs / "1.0.1"
    mark, pid, _ = (directory / "status").read_text().splitlines()
    (directory / "status").write_text(f"{mark}\n{pid}\n3")
    with (directory / "intent").open("a") as file:
        file.write('["ending", 14')
    (shepherd.runs / "2.0.1").mkdir()
    (shepherd.runs / "2.0.1" / "intent").write_text('{"key": [2, 0')
    os.chown(shepherd.runs / "2.0.1", shepherd.uid, shepherd.gid)
    os.chown(shepherd.runs / "2.0.1" / "intent", shepherd.uid, shepherd.gid)
    (shepherd.runs / "stray").mkdir()
    shepherd.start()
    assert shepherd.ended()["cause"] == 100
    assert not (shepherd.runs / "2.0.1").exists()
    assert [e[1] for e in shepherd.events if e[0] == "present"] == [1]


@pytest.mark.parametrize("shepherd", MODES[:1], indirect=True)
def test_two_shepherds_do_not_mind_one_host(shepherd: Shepherd) -> None:
    command = [
        "/usr/bin/python3", "-I", "-S", str(main.__file__), "--socket",
        str(shepherd.root / "second"), "--runs", str(shepherd.runs), "--kept",
        str(shepherd.kept), "--label", "second",
    ]  # fmt: skip
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1
    assert "another shepherd holds" in second.stderr
    assert shepherd.process is not None
    assert shepherd.process.poll() is None
