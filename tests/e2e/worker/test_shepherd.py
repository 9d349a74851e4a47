import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from other_user import NOBODY
from worker_rig import MODES, Shepherd, alive, open_shepherd, wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may take on other user ids")


@pytest.fixture(params=MODES)
def shepherd(request: pytest.FixtureRequest) -> Iterator[Shepherd]:
    with open_shepherd(request.param) as one:
        yield one


def test_a_job_runs_and_its_end_is_told_until_it_is_forgotten(shepherd: Shepherd) -> None:
    shepherd.spawn("/bin/true\n")
    started = shepherd.expect("started", 1, 0, 1)
    assert started[4] > 1
    end = shepherd.ended()
    assert (end["code"], end["signal"], end["cause"]) == (0, 0, 0)
    assert end["mem"] > 0
    shepherd.connect()
    assert shepherd.expect("present", 1, 0, 1)[4] == "note of 1"
    assert shepherd.ended()["code"] == 0
    shepherd.order(["forget", 1, 0, 1, True])
    shepherd.connect()
    assert [e for e in shepherd.events if e[0] == "present"] == []
    names = {path.name.split(".")[0] for path in shepherd.runs.iterdir()}
    assert names <= {"", "free"}


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 3\n", 3),
        ("exit 3", 3),
        ("false", 1),
        ("trap 'exit 9' EXIT; true", 9),
        ("/no/such/program\n", 127),
        ("no-such-program a b\n", 127),
        ("/etc/passwd\n", 126),
        ("if true\n", 2),
        ("kill -9 $$; true\n", 137),
        ("sh -c 'kill -TERM $$'\n", 143),
        ("#!/bin/sh\nexit 4\n", 4),
        ("#!/bin/bash -e\nfalse\nexit 0\n", 1),
        ("#!/no/such/interpreter\n", 127),
        ("\n#!/no/such/interpreter\nexit 5\n", 5),
        ("#!/bin/sh\r\nexit 6\r\n", 6),
        ("exit 7\r\n", 7),
        ("", 0),
        ("\n\n", 0),
        ("set -- a b; exit $#", 2),
        ("exit $#", 0),
        ("exec sh -c 'exit 8'", 8),
    ],
)
def test_exit_codes_are_those_of_the_script(script: str, code: int) -> None:
    with open_shepherd(MODES[0]) as shepherd:
        shepherd.spawn(script)
        assert shepherd.ended()["code"] == code


def test_binary_junk_is_the_jobs_own_fault(shepherd: Shepherd) -> None:
    shepherd.spawn(bytes(range(256)) * 40)
    end = shepherd.ended()
    assert end["code"] > 0
    assert not end["host_fault"]


def test_the_script_knows_its_path_and_its_arguments(shepherd: Shepherd) -> None:
    for job, head in ((1, ""), (2, "#!/bin/sh\n")):
        shepherd.spawn(f'{head}echo "$0|$#|$1|$2"\n', job=job, args=("a b", "c"))
        assert shepherd.ended(job)["code"] == 0
        path, *rest = shepherd.read(job).decode().strip().split("|")
        assert Path(path).parent == shepherd.scripts
        assert rest == ["2", "a b", "c"]


def test_output_is_kept_when_no_file_is_named_and_goes_with_the_order_to_forget(
    shepherd: Shepherd,
) -> None:
    shepherd.spawn("echo out; echo err >&2")
    shepherd.ended()
    assert shepherd.read() == b"out\nerr\n"
    shepherd.order(["forget", 1, 0, 1, True])
    assert shepherd.read() == b"out\nerr\n"
    assert not (shepherd.runs / "1.0.1").exists()
    shepherd.spawn("echo out", job=2)
    shepherd.ended(2)
    shepherd.order(["forget", 2, 0, 1, False])
    assert shepherd.read(2) == b""


def test_streams_go_to_the_files_that_were_named(shepherd: Shepherd) -> None:
    (shepherd.root / "in").write_text("hello\n")
    shepherd.spawn("cat; echo err >&2", source="in", output=("out", True), error=("err", False))
    assert shepherd.ended()["report"] is True
    shepherd.spawn("echo again; echo joined >&2", job=2, output=("out", True))
    shepherd.ended(2)
    assert shepherd.text("out") == "hello\nagain\njoined\n"
    assert shepherd.text("err") == "err\n"
    shepherd.spawn("echo new", job=3, output=("out", False))
    shepherd.ended(3)
    assert shepherd.text("out") == "new\n"


def test_a_directory_instead_of_a_file_gets_a_file_named_after_the_job(
    shepherd: Shepherd,
) -> None:
    place = shepherd.root / "place"
    place.mkdir()
    place.chmod(0o777)
    shepherd.spawn("echo out; echo err >&2", output=("place", True), error=("place/", True))
    shepherd.ended()
    assert shepherd.text("place/1.out") == "out\n"
    assert shepherd.text("place/1.err") == "err\n"
    assert shepherd.read(path=str(place)) == b"out\n"


def test_output_that_cannot_be_opened_is_kept_and_the_job_ends_with_the_reason(
    shepherd: Shepherd,
) -> None:
    shepherd.spawn("echo precious", output=("no/such/directory/out", True))
    end = shepherd.ended()
    assert (end["code"], end["cause"], end["host_fault"]) == (1, 104, False)
    assert "no/such/directory/out: No such file or directory" in end["detail"]
    assert shepherd.read() == b"precious\n"
    assert shepherd.read(path="no/such/directory/out") == b"precious\n"


def test_a_missing_input_or_working_directory_stops_the_job_before_it_runs(
    shepherd: Shepherd,
) -> None:
    shepherd.spawn("touch ran", source="nothing-here")
    end = shepherd.ended()
    assert (end["code"], end["cause"]) == (1, 104)
    assert "nothing-here" in end["detail"]
    shepherd.spawn("touch ran", job=2, cwd="/no/such/place")
    end = shepherd.ended(2)
    assert (end["code"], end["cause"], end["host_fault"]) == (2, 25, False)
    assert "/no/such/place" in end["detail"]
    assert not (shepherd.root / "ran").exists()
    made = shepherd.root / "made" / "here"
    shepherd.root.chmod(0o777)
    shepherd.spawn("pwd", job=3, cwd=str(made), make_cwd=True)
    assert shepherd.ended(3)["code"] == 0
    assert shepherd.read(3) == f"{made}\n".encode()


def test_a_pipe_that_nobody_reads_does_not_stop_the_shepherd(shepherd: Shepherd) -> None:
    os.mkfifo(shepherd.root / "pipe", 0o666)
    (shepherd.root / "pipe").chmod(0o666)
    shepherd.spawn("echo hello", output=("pipe", True))
    assert shepherd.ended()["cause"] == 104


def test_an_environment_that_is_too_large_is_the_jobs_fault(shepherd: Shepherd) -> None:
    shepherd.spawn("true", env={"BIG": "x" * 200_000})
    end = shepherd.ended()
    assert (end["code"], end["cause"], end["host_fault"]) == (126, 103, False)
    shepherd.spawn("/bin/true", job=2)
    assert shepherd.ended(2)["code"] == 0


def test_what_a_job_leaves_behind_is_killed_and_only_then_is_it_over(shepherd: Shepherd) -> None:
    shepherd.spawn(
        "sleep 600 & echo $! > a; setsid sleep 600 & echo $! > b;"
        "(setsid sh -c 'echo $$ > c; exec sleep 600' &); while [ ! -s c ]; do sleep 0.01; done"
    )
    assert shepherd.ended()["code"] == 0
    for name in "abc":
        assert not alive(int(shepherd.text(name)))


def test_a_job_that_leaves_its_session_and_its_environment_is_still_killed(
    shepherd: Shepherd,
) -> None:
    # Seen below the job shell once, by the look that a signal takes, it stays known.
    shepherd.spawn(
        "env -i setsid sh -c 'echo $$ > d; exec sleep 600' & while [ ! -s d ]; do sleep 0.01; done;"
        "touch ready; sleep 600"
    )
    wait_until((shepherd.root / "ready").exists, "the job to begin")
    shepherd.order(["signal", 1, 0, 1, 18, 0, 0, 0])
    shepherd.order(["signal", 1, 0, 1, 15, 14, 3, 0])
    end = shepherd.ended()
    assert (end["code"], end["cause"]) == (143, 14)
    assert not alive(int(shepherd.text("d")))


def test_a_thousand_children_die_with_the_job(shepherd: Shepherd) -> None:
    shepherd.spawn("i=0; while [ $i -lt 300 ]; do sleep 600 & i=$((i+1)); done; touch ready; wait")
    wait_until((shepherd.root / "ready").exists, "the job to begin")
    shepherd.order(["signal", 1, 0, 1, 9, 8, 4, 0])
    end = shepherd.ended()
    assert (end["code"], end["signal"], end["cause"]) == (137, 9, 8)


def test_a_job_that_ignores_everything_falls_to_kill(shepherd: Shepherd) -> None:
    shepherd.spawn("trap '' HUP INT TERM USR2; touch ready; while :; do sleep 0.1; done")
    wait_until((shepherd.root / "ready").exists, "the job to begin")
    for number, step in ((12, 1), (2, 2), (15, 3)):
        shepherd.order(["signal", 1, 0, 1, number, 5, step, 0])
    assert [e for e in shepherd.quiet(0.3) if e[0] == "ended"] == []
    shepherd.order(["signal", 1, 0, 1, 9, 5, 4, 0])
    end = shepherd.ended()
    assert (end["signal"], end["cause"]) == (9, 5)


def test_a_job_that_outlives_its_lease_is_killed_though_no_worker_is_there(
    shepherd: Shepherd,
) -> None:
    for job in (1, 2):
        shepherd.spawn("trap '' INT TERM; touch ready.$$; while :; do sleep 0.1; done", job=job)
        shepherd.expect("started", job, 0, 1)
    soon_us = time.monotonic_ns() // 1000 + 1_000_000  # as a worker of an older release says it
    shepherd.order(["lease", [[1, 0, 1, soon_us - 100_000], [2, 0, 1, soon_us]]])
    shepherd.order(["lease", [[2, 0, 1, soon_us]]])
    shepherd.connect()
    end = shepherd.ended(2)
    assert (end["signal"], end["cause"]) == (9, 102)
    assert [e for e in shepherd.quiet(0.3) if e[0] == "ended"] == []
    shepherd.order(["signal", 1, 0, 1, 9, 5, 4, 0])
    shepherd.ended(1)


@pytest.mark.parametrize("number", [1, 2, 10, 12, 14, 15, 36])
def test_a_signal_ends_the_script_and_the_shell_notes_it(number: int) -> None:
    with open_shepherd(MODES[0]) as shepherd:
        shepherd.spawn("#!/bin/sh\ntouch ready\nexec sleep 600\n")
        wait_until((shepherd.root / "ready").exists, "the job to begin")
        time.sleep(0.05)
        shepherd.order(["signal", 1, 0, 1, number, 0, 0, 1])
        assert shepherd.ended()["code"] == 128 + number


def test_a_number_that_is_no_signals_does_nothing(shepherd: Shepherd) -> None:
    shepherd.spawn("exec sleep 600")
    shepherd.expect("started", 1)
    shepherd.order(["signal", 1, 0, 1, 100, 0, 0, 1], ["signal", 1, 0, 1, 1 << 40, 0, 0, 2])
    shepherd.order(["signal", 1, 0, 1, 9, 5, 4, 0])
    assert shepherd.ended()["cause"] == 5


def test_a_users_signal_is_delivered_once(shepherd: Shepherd) -> None:
    shepherd.spawn(
        "trap 'echo got >> got' USR1; touch ready; while [ ! -e stop ]; do sleep 0.05; done"
    )
    wait_until((shepherd.root / "ready").exists, "the job to begin")
    # Two of them that come before the script looks are one to the kernel.
    for count, got in ((1, 1), (1, 1), (2, 2), (1, 2), (2, 2)):
        shepherd.order(["signal", 1, 0, 1, 10, 0, 0, count])
        wait_until(lambda got=got: shepherd.text("got") == "got\n" * got, "the signal")
    shepherd.restart()
    shepherd.order(["signal", 1, 0, 1, 10, 0, 0, 2])
    time.sleep(0.1)
    (shepherd.root / "stop").touch()
    shepherd.ended()
    assert shepherd.text("got") == "got\ngot\n"


def test_a_job_is_stopped_and_goes_on_and_a_stopped_one_can_be_ended(shepherd: Shepherd) -> None:
    shepherd.spawn("touch ready; while :; do echo x >> beat; sleep 0.02; done")
    wait_until((shepherd.root / "ready").exists, "the job to begin")
    shepherd.order(["suspend", 1, 0, 1, True])
    assert shepherd.expect("suspended", 1, 0, 1)[4] is True
    time.sleep(0.1)
    size = len(shepherd.text("beat"))
    time.sleep(0.2)
    assert len(shepherd.text("beat")) == size
    shepherd.order(["suspend", 1, 0, 1, False])
    assert shepherd.expect("suspended", 1, 0, 1)[4] is False
    wait_until(lambda: len(shepherd.text("beat")) > size, "the job to go on")
    shepherd.order(["suspend", 1, 0, 1, True])
    shepherd.order(["signal", 1, 0, 1, 15, 14, 3, 0])
    assert shepherd.ended()["code"] == 143


def test_a_memory_limit_is_seen_or_held_by_the_kernel(shepherd: Shepherd) -> None:
    shepherd.spawn(
        "/usr/bin/python3 -c 'import time; x = bytearray(120 << 20); time.sleep(30)'",
        limit_kib=40 << 10,
    )
    if shepherd.mode == "cgroups" and "memory" in shepherd.greeting[3]:
        end = shepherd.ended()
        assert end["oom"] is True
    else:
        # The first look may come while it still grows.
        while shepherd.expect("usage", 1, 0, 1)[4] <= 100 << 10:
            pass
        shepherd.order(["signal", 1, 0, 1, 9, 16, 4, 0])
        end = shepherd.ended()
    assert end["mem"] >= 39 << 10


def test_usage_counts_the_whole_tree(shepherd: Shepherd) -> None:
    shepherd.spawn(
        "for i in 1 2; do /usr/bin/python3 -c 'x = bytearray(30 << 20); import time;"
        "time.sleep(2.5); [j for j in range(2000000)]' & done; wait"
    )
    end = shepherd.ended()
    assert end["mem"] > 60 << 10
    assert end["processes"] >= 3
    assert end["user_us"] > 20_000


def test_the_report_is_added_once_and_never_follows_a_file_that_is_gone(
    shepherd: Shepherd,
) -> None:
    shepherd.spawn("echo out", output=("out", True))
    shepherd.ended()
    shepherd.order(["append", 1, 0, 1, "REPORT\n"])
    shepherd.expect("appended", 1, 0, 1)
    shepherd.restart()
    shepherd.order(["append", 1, 0, 1, "REPORT\n"])
    shepherd.expect("appended", 1, 0, 1)
    assert shepherd.text("out") == "out\nREPORT\n"


def test_an_idle_shepherd_leaves_and_what_it_knew_is_written_down() -> None:
    with open_shepherd(MODES[-1], idle_s=0.1) as shepherd:
        shepherd.spawn("exit 5")
        before = shepherd.ended()
        shepherd.disconnect()
        assert shepherd.process is not None
        assert shepherd.process.wait(20) == 0
        shepherd.start()
        after = shepherd.ended()
        assert after == before


@needs_root
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "user"])
def test_root_starts_jobs_as_their_users_and_opens_files_as_them(mode: str) -> None:
    with open_shepherd(mode) as shepherd:
        mine = shepherd.root / "mine"
        mine.mkdir()
        os.chown(mine, NOBODY, NOBODY)
        shepherd.spawn(
            "id -u; id -g; id -G; grep -E '^Cap(Prm|Eff)|^Uid' /proc/self/status; umask;"
            "touch $XCE_JOB_HOST_DIR/x; echo $XCE_JOB_HOST_DIR; ls -l /proc/self/fd >&2",
            uid=NOBODY, gid=NOBODY, groups=[NOBODY, 7], cwd=str(mine), umask=0o027,
            output=("out", True), error=("err", True),
        )  # fmt: skip
        assert shepherd.ended()["code"] == 0
        lines = (mine / "out").read_text().splitlines()
        assert lines[:3] == ["65534", "65534", "65534 7"]
        assert "Uid:\t65534\t65534\t65534\t65534" in lines
        assert "CapPrm:\t0000000000000000" in lines
        assert "0027" in lines
        assert (mine / "out").stat().st_uid == NOBODY
        assert (mine / "out").stat().st_mode & 0o777 == 0o640
        assert " 9 -> " not in (mine / "err").read_text()
        shepherd.spawn("id", job=2, uid=NOBODY, gid=NOBODY, output=("/root/not-for-you", True))
        end = shepherd.ended(2)
        assert end["cause"] == 104
        assert "Permission denied" in end["detail"]
        assert not Path("/root/not-for-you").exists()
        shepherd.spawn("echo kept", job=3, uid=NOBODY, gid=NOBODY)
        shepherd.ended(3)
        assert (shepherd.runs / "3.0.1" / "out").stat().st_uid == NOBODY
        shepherd.order(["forget", 3, 0, 1, True], ["forget", 1, 0, 1, True])
        assert shepherd.read(3) == b"kept\n"
        assert not (shepherd.runs / "1.0.1").exists()


def test_a_directory_that_is_used_again_shows_nothing_of_the_attempt_before(
    shepherd: Shepherd,
) -> None:
    for job in range(1, 5):
        shepherd.spawn(f"echo {job}; exit {job}", job=job)
        assert shepherd.ended(job)["code"] == job
        assert shepherd.read(job) == f"{job}\n".encode()
        shepherd.order(["forget", job, 0, 1, job % 2 == 0])
    assert shepherd.read(1) == b""
    assert shepherd.read(2) == b"2\n"
    shepherd.spawn("exit 0", job=5, note="n" * 5000)
    shepherd.ended(5)
    shepherd.order(["forget", 5, 0, 1, True])
    shepherd.spawn("touch ready; sleep 600", job=6)
    wait_until((shepherd.root / "ready").exists, "the job to begin")
    free = [path.name for path in shepherd.runs.iterdir() if path.name.startswith("free.")]
    assert len(free) <= 1
    pid = shepherd.expect("started", 6, 0, 1)[4]
    shepherd.kill()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), "the shell to die")
    shepherd.start()
    assert shepherd.ended(6)["cause"] == 100


def test_a_jobs_own_files_in_its_directory_go_with_it(shepherd: Shepherd) -> None:
    shepherd.spawn(
        "cd $XCE_JOB_HOST_DIR; mkdir -p a/b; touch a/b/c; ln -s / link; ln -s /etc a/etc"
    )
    shepherd.ended()
    shepherd.order(["forget", 1, 0, 1, True])
    shepherd.connect()
    assert not list(shepherd.runs.glob("*/a"))
    assert Path("/etc/passwd").exists()


def test_no_signal_is_ignored_or_blocked_in_a_job(shepherd: Shepherd) -> None:
    shepherd.spawn("#!/bin/sh\ngrep -E '^Sig(Blk|Ign)' /proc/self/status")
    shepherd.ended()
    blocked, ignored = (int(line.split()[1], 16) for line in shepherd.read().splitlines())
    of_the_c_library = 1 << 31 | 1 << 32  # glibc ignores 32 and 33 in all that it spawns
    assert blocked == 0
    assert ignored & ~of_the_c_library == 0


def test_a_job_may_remove_its_directory_and_can_still_be_ended(shepherd: Shepherd) -> None:
    # No child: one that is started just when the signal is sent would not get it.
    shepherd.spawn("rm -rf $XCE_JOB_HOST_DIR; touch ready; exec sleep 600")
    wait_until((shepherd.root / "ready").exists, "the job to begin")
    shepherd.order(["signal", 1, 0, 1, 15, 14, 3, 0])
    assert shepherd.ended()["cause"] == 14
    shepherd.order(["forget", 1, 0, 1, True], ["nonsense"])
    shepherd.spawn("cd $XCE_JOB_HOST_DIR && echo here", job=2)
    assert shepherd.ended(2)["code"] == 0


@needs_root
def test_without_room_for_a_run_directory_the_host_is_to_blame() -> None:
    with open_shepherd(MODES[0]) as shepherd:
        shepherd.kill()
        command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(shepherd.runs)]
        if subprocess.run(command, check=False).returncode:
            pytest.skip("no tmpfs can be mounted here")
        try:
            shepherd.start()
            (shepherd.runs / "filler").write_bytes(b"x" * 60_000)
            shepherd.spawn("true", note="n" * 8000)
            end = shepherd.ended()
            assert (end["cause"], end["host_fault"]) == (103, True)
            assert "No space left on device" in end["detail"]
            (shepherd.runs / "filler").unlink()
            shepherd.spawn("true", job=2, note="n" * 8000)
            assert shepherd.ended(2)["code"] == 0
            shepherd.kill()
        finally:
            subprocess.run(["umount", "-l", str(shepherd.runs)], check=True)
        shepherd.start()


def test_only_control_groups_hold_what_leaves_session_and_mark_unseen(
    shepherd: Shepherd,
) -> None:
    # The documented limit of the other two ways, see `xce.worker.shepherd.reach`.
    shepherd.spawn(
        "env -i setsid sh -c 'echo $$ > e; exec sleep 600' & while [ ! -s e ]; do sleep 0.01; done"
    )
    assert shepherd.ended()["code"] == 0
    pid = int(shepherd.text("e"))
    escaped = alive(pid)
    if escaped:
        os.kill(pid, signal.SIGKILL)
    assert escaped == (shepherd.mode != "cgroups")
