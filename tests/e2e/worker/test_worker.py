import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from worker_controller import Host, me, open_host
from worker_rig import alive, wait_until

from xce.model.effect import SendSignal, SetLimits, SetSuspended, Terminate
from xce.model.job import EndCause, Files, Owner
from xce.model.processor import Binding, render_list
from xce.worker.processors import find_processors

OPTIONS = ((), ("--no-cgroups",)) if os.geteuid() == 0 else ((),)


@pytest.fixture(params=OPTIONS, ids=lambda given: "-".join(given) or "default")
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    with open_host(*request.param) as one:
        yield one


def test_a_job_runs_and_its_run_directory_goes_when_its_end_is_acknowledged(host: Host) -> None:
    host.launch("/bin/true")
    end = host.controller.end_of(1)
    assert (end.exit_code, end.cause, end.host_fault) == (0, EndCause.NONE, False)
    assert end.started_age_us >= end.ended_age_us >= 0
    assert host.controller.start_of(1).pid > 1
    runs = host.layout.host("h1") / "attempts"
    wait_until(lambda: not (runs / "1.0.1").exists(), "the run directory to go")
    joined = host.controller.joins[0]
    assert joined.cpus == len(os.sched_getaffinity(0))
    assert joined.mem_mib > 100
    assert joined.isolation.startswith("root: setuid" if os.geteuid() == 0 else "user: ")


def test_the_environment_is_the_submitters_with_lsfs_and_our_variables(host: Host) -> None:
    host.launch(
        "env | sort; cat $LSB_DJOB_HOSTFILE", job=12, indices=(3,), array_end=9, array_step=2,
        files=Files(output="out.%J.%I"), hosts=(("h1", 2), ("h2", 1)),
        spec={"name": "arr"},
    )  # fmt: skip
    host.controller.end_of(12, 3)
    lines = host.text("out.12.3").splitlines()
    for line in (
        "MINE=yes", "LSB_JOBID=12", "LSB_JOBINDEX=3", "LSB_BATCH_JID=12[3]", "LSB_HOSTS=h1 h1 h2",
        "LSB_JOBNAME=arr[3]", "LSB_OUTPUTFILE=out.12.3", "XCE_NTASKS=3", "LS_EXEC_T=START",
        f"USER={me().user}", f"PWD={host.work}", "LSB_JOBINDEX_END=9", "h2",
    ):  # fmt: skip
        assert line in lines
    assert any(line.startswith("LS_JOBPID=") for line in lines)
    assert any(line.startswith("XCE_ATTEMPT_MARK=12.3.1.") for line in lines)


def test_the_job_report_stands_behind_the_output_before_the_end_is_told(host: Host) -> None:
    host.launch("echo hello; exit 3\n", files=Files(output="out", error="err"))
    host.controller.end_of(1)
    text = host.text("out")
    assert text.startswith("hello\n\n" + "-" * 60 + "\nSender: LSF System <")
    assert "\nExited with exit code 3.\n\nResource usage summary:\n" in text
    assert "# LSBATCH: User input\necho hello; exit 3\n---" in text
    assert text.endswith("Read file <err> for stderr output of this job.\n\n")
    host.launch("echo hello", job=2, files=Files(output="/dev/null"))
    assert host.controller.end_of(2).exit_code == 0


def test_a_script_with_carriage_returns_runs(host: Host) -> None:
    host.launch("#!/bin/sh\r\necho a\r\nexit 4\r\n")
    assert host.controller.end_of(1).exit_code == 4
    assert host.controller.read(1).content == b"a\n"


def test_a_spooled_input_is_read(host: Host) -> None:
    digest = host.controller.blob(b"spooled\n")
    host.launch("cat", files=Files(input="name", input_blob=digest))
    assert host.controller.end_of(1).exit_code == 0
    assert host.controller.read(1).content == b"spooled\n"


def test_output_is_read_while_it_is_written_and_after(host: Host) -> None:
    host.launch("echo first; while [ ! -e go ]; do sleep 0.02; done; echo last",
                files=Files(output="out.%J"))  # fmt: skip
    cwd = str(host.work)
    wait_until(
        lambda: host.controller.read(1, path="out.%J", cwd=cwd).content == b"first\n", "output"
    )
    (host.work / "go").touch()
    host.controller.end_of(1)
    chunk = host.controller.read(1, path="out.%J", cwd=cwd)
    assert chunk.content.startswith(b"first\nlast\n")
    assert chunk.size == len(chunk.content)
    assert "No such file" in host.controller.read(9, path="nothing", cwd=cwd).error
    assert host.controller.read(9).content == b""


def test_what_cannot_be_started_says_whose_fault_it_is(host: Host) -> None:
    host.launch("true", job=1, spec={"cwd": "/no/such/place"})
    host.launch("true", job=2, spec={"script": "0" * 32})
    host.launch("true", job=3, owner=Owner("nobody-knows", 54321, 54321))
    host.launch("true", job=4, files=Files(output="no/dir/out"))
    assert host.controller.end_of(1).cause is EndCause.CWD_NOTEXIST
    two = host.controller.end_of(2)
    assert (two.cause, two.host_fault) == (EndCause.START_FAILED, False)
    assert "not stored any more" in two.detail
    three = host.controller.end_of(3)
    assert three.host_fault
    assert "54321" in three.detail
    four = host.controller.end_of(4)
    assert (four.cause, four.exit_code) == (EndCause.OUTPUT, 1)


def test_a_full_array_runs_with_few_reports(host: Host) -> None:
    host.launch("exit $LSB_JOBINDEX", indices=tuple(range(1, 65)), array_end=64)
    for index in range(1, 65):
        assert host.controller.end_of(1, index).exit_code == index
    assert len(host.controller.ended) == 64


def test_a_killed_worker_leaves_the_jobs_alone_and_the_next_one_takes_over(host: Host) -> None:
    host.controller.takes = False
    host.launch("exit 3", job=1)
    host.launch("while [ ! -e go ]; do sleep 0.02; done; exit 4", job=2)
    host.controller.end_of(1)
    host.controller.start_of(2)
    host.kill_worker()
    host.controller.ended.clear()
    host.controller.takes = True
    host.start_worker()
    joined = host.controller.joins[-1]
    assert [(one.job, one.running) for one in joined.attempts] == [(2, True)]
    assert joined.unreported == ((1, 0, 1),)
    assert host.controller.end_of(1).exit_code == 3
    host.kill_worker()
    (host.work / "go").touch()
    time.sleep(0.2)
    host.start_worker()
    assert host.controller.end_of(2).exit_code == 4
    # What a worker had no answer to when it was killed is told again.
    assert {(end.job, end.exit_code) for end in host.controller.ended} == {(1, 3), (2, 4)}


def test_a_killed_shepherd_is_replaced_and_nothing_is_lost_or_run_twice(host: Host) -> None:
    host.launch("echo $LSB_JOBINDEX >> ran; while [ ! -e go ]; do sleep 0.02; done",
                indices=tuple(range(1, 11)))  # fmt: skip
    time.sleep(0.03)
    old = host.kill_shepherd()
    wait_until(lambda: host.shepherd_pid() not in (0, old), "a new shepherd")
    for index in range(1, 11):
        host.controller.start_of(1, index)
    host.launch("exit 5", job=2)
    assert host.controller.end_of(2).exit_code == 5
    host.kill_shepherd()
    (host.work / "go").touch()
    for index in range(1, 11):
        assert host.controller.end_of(1, index).exit_code == 0
    assert sorted(map(int, host.text("ran").split())) == list(range(1, 11))
    assert len({(one.job, one.index) for one in host.controller.ended}) == 11


def test_both_killed_are_as_the_shepherd_killed(host: Host) -> None:
    host.launch("while [ ! -e go ]; do sleep 0.02; done; exit 6")
    host.controller.start_of(1)
    host.kill_shepherd()
    host.kill_worker()
    (host.work / "go").touch()
    time.sleep(0.2)
    host.start_worker()
    assert host.controller.end_of(1).exit_code == 6


def test_without_a_controller_jobs_run_on_and_are_reported_when_it_is_back(host: Host) -> None:
    host.launch("while [ ! -e go ]; do sleep 0.02; done; exit 7")
    host.controller.start_of(1)
    host.controller.shut()
    (host.work / "go").touch()
    time.sleep(0.2)
    host.controller.epoch = 2
    host.controller.open()
    assert host.controller.end_of(1).exit_code == 7
    host.controller.epoch = 1
    host.launch("touch deposed", job=2)
    host.controller.epoch = 2
    host.launch("exit 0", job=3)
    host.controller.end_of(3)
    assert not (host.work / "deposed").exists()


def test_a_stopped_worker_leaves_shepherd_and_jobs(host: Host) -> None:
    host.launch("while [ ! -e go ]; do sleep 0.02; done; exit 8")
    host.controller.start_of(1)
    assert host.worker is not None
    host.worker.terminate()
    assert host.worker.wait(20) == 0
    assert host.shepherd_pid()
    host.start_worker()
    (host.work / "go").touch()
    assert host.controller.end_of(1).exit_code == 8


def test_a_kill_takes_int_term_and_kill_in_turn(host: Host) -> None:
    host.launch("trap 'echo int >> got' INT; trap 'echo term >> got' TERM; touch ready;"
                "while :; do sleep 0.05; done")  # fmt: skip
    wait_until((host.work / "ready").exists, "the job to begin")
    host.controller.send(Terminate(1, 0, 1, EndCause.OWNER, kill_interval_us=1_000_000))
    end = host.controller.end_of(1)
    assert (end.exit_code, end.signal, end.cause) == (137, 9, EndCause.OWNER)
    assert host.text("got") == "int\nterm\n"


def test_what_outlives_its_script_has_the_same_time_to_end(host: Host) -> None:
    host.launch("sh -c \"trap 'echo term >> got; exit' TERM; touch ready;"
                "while :; do sleep 0.05; done\" &\ntrap 'exit 9' INT\ntouch set\n"
                "wait\n")  # fmt: skip
    for name in ("ready", "set"):
        wait_until((host.work / name).exists, "the job to begin")
    host.controller.send(Terminate(1, 0, 1, EndCause.OWNER, kill_interval_us=1_000_000))
    end = host.controller.end_of(1)
    assert (end.exit_code, end.cause) == (9, EndCause.OWNER)
    assert host.text("got") == "term\n"


def test_a_script_may_signal_itself(host: Host) -> None:
    for job, text, code in (
        (1, "kill -TERM $$; echo still; exit 0\n", 143),
        (2, "trap 'exit 3' TERM; kill -TERM $$; sleep 0.2; echo not\n", 3),
        (3, "trap 'touch heard' USR1; kill -USR1 $$; exit 4\n", 4),
    ):
        host.launch(text, job=job)
        assert host.controller.end_of(job).exit_code == code
    assert (host.work / "heard").exists()


def test_the_run_limit_warns_first_and_counts_run_time_only(host: Host) -> None:
    host.launch("trap 'echo usr2 >> got' USR2; trap 'echo int >> got; exit 5' INT; touch ready;"
                "while :; do sleep 0.05; done", run_limit_us=2_000_000)  # fmt: skip
    wait_until((host.work / "ready").exists, "the job to begin")
    host.controller.send(SetSuspended(1, 0, 1, suspended=True))
    wait_until(lambda: host.controller.suspended, "the job to be suspended")
    time.sleep(2.2)
    assert host.controller.ended == []
    host.controller.send(SetSuspended(1, 0, 1, suspended=False))
    end = host.controller.end_of(1)
    assert (end.exit_code, end.cause) == (5, EndCause.RUNLIMIT)
    assert host.text("got") == "usr2\nint\n"
    assert end.started_age_us - end.ended_age_us >= 4_200_000


def test_a_job_over_its_memory_limit_ends_with_that_cause(host: Host) -> None:
    host.launch(
        "/usr/bin/python3 -c 'import time; x = bytearray(120 << 20); time.sleep(30)'",
        spec={"mem_limit_kib": 40 << 10},
    )
    end = host.controller.end_of(1)
    assert end.cause is EndCause.MEMLIMIT
    assert end.exit_code > 128


def test_limits_that_are_set_while_a_job_runs_hold(host: Host) -> None:
    host.launch(
        "touch ready; while [ ! -e more ]; do sleep 0.05; done; exec /usr/bin/python3 -c "
        "'import time; x = bytearray(120 << 20); time.sleep(30)'"
    )
    host.launch("trap '' USR2; touch ready2; sleep 60", job=2, run_limit_us=60_000_000)
    wait_until(lambda: (host.work / "ready").exists() and (host.work / "ready2").exists(), "both")
    host.controller.send(SetLimits(1, 0, 1, 0, 40 << 10, 0), SetLimits(2, 0, 1, 1_000, 0, 0))
    assert host.controller.end_of(2).cause is EndCause.RUNLIMIT
    (host.work / "more").touch()
    end = host.controller.end_of(1)
    assert end.cause is EndCause.MEMLIMIT
    assert end.exit_code > 128


def test_a_signal_or_warning_comes_once_also_when_it_is_told_twice(host: Host) -> None:
    host.launch(
        "trap 'echo got >> got' USR1; trap 'echo warned >> warned' URG; touch ready; "
        "while [ ! -e stop ]; do sleep 0.05; done",
        spec={"warning_signal": int(signal.SIGURG), "warning_us": 3_600_000_000},
    )
    wait_until((host.work / "ready").exists, "the job to begin")
    one = SendSignal(1, 0, 1, 1, signal.SIGUSR1)
    limits = SetLimits(1, 0, 1, 600_000_000, 0, 0)
    host.controller.send(one, one, limits, limits)
    wait_until(lambda: host.text("got") and host.text("warned"), "the signals")
    host.kill_worker()
    host.start_worker()
    host.controller.send(one, limits)
    time.sleep(0.2)
    (host.work / "stop").touch()
    host.controller.end_of(1)
    assert (host.text("got"), host.text("warned")) == ("got\n", "warned\n")


WARNS = "touch ready; while [ ! -e stop ]; do sleep 0.05; done; exit 3"


def warn(host: Host, command: str, *, job: int = 1, **launch: Any) -> None:
    """Run a job, and let its warning be due once it runs."""
    spec = {"warning_command": command, "warning_us": 3_600_000_000}
    host.launch(WARNS, job=job, spec=spec, **launch)
    wait_until((host.work / "ready").exists, "the job to begin")
    host.controller.send(SetLimits(job, 0, 1, 600_000_000, 0, 0))


def test_a_warning_command_runs_once_as_the_job_in_its_place(host: Host) -> None:
    command = (
        "env | grep -E '^(MINE|LSB_JOBID|LSB_JOBPGIDS|LS_EXEC_T|USER)=' | sort >> told; "
        "pwd >> told; id -u >> told; touch begun; while [ ! -e more ]; do sleep 0.05; done; "
        "echo over >> told"
    )
    warn(host, command)
    wait_until((host.work / "begun").exists, "the command to begin")
    pid = host.controller.start_of(1).pid
    host.kill_worker()
    host.start_worker()
    host.controller.send(SetLimits(1, 0, 1, 600_000_000, 0, 0))
    # What is sent to the job goes past it.
    host.controller.send(SendSignal(1, 0, 1, 1, signal.SIGCONT))
    time.sleep(0.2)
    (host.work / "more").touch()
    wait_until(lambda: "over" in host.text("told"), "the command to end")
    (host.work / "stop").touch()
    end = host.controller.end_of(1)
    assert (end.exit_code, end.detail) == (3, "")
    assert host.text("told").splitlines() == [
        "LSB_JOBID=1", f"LSB_JOBPGIDS={pid}", "LS_EXEC_T=JOB_CONTROLS", "MINE=yes",
        f"USER={me().user}", str(host.work), str(me().uid), "over",
    ]  # fmt: skip


def test_what_goes_wrong_with_a_warning_command_is_told_with_the_end(host: Host) -> None:
    faults = {
        "exit 7": "it ended with exit status 7",
        "kill -9 $$": "it was ended by signal 9",
        "/no/such/program": "it cannot be run on this host",
        "touch late; sleep 60": "it took too long",
        "true": "",
    }
    for job, command in enumerate(faults, 1):
        warn(host, command, job=job, hook_limit_us=1_000_000)
    warn(host, "touch begun; sleep 60; :", job=9)
    wait_until(lambda: all((host.work / name).exists() for name in ("late", "begun")), "both")
    time.sleep(1.5)
    (host.work / "stop").touch()
    ends = [host.controller.end_of(job) for job in range(1, len(faults) + 1)]
    told = [f"the warning command failed: {fault}" if fault else "" for fault in faults.values()]
    assert [(end.exit_code, end.detail) for end in ends] == [(3, text) for text in told]
    # What is still under way when the job ends goes with it.
    assert host.controller.end_of(9).detail == ""


def test_a_warning_command_whose_shepherd_is_killed_runs_on_and_is_told_so(host: Host) -> None:
    warn(host, "echo ran >> ran; while [ ! -e more ]; do sleep 0.05; done; echo over >> ran")
    wait_until(lambda: host.text("ran"), "the command to begin")
    killed = host.kill_shepherd()
    wait_until(lambda: host.shepherd_pid() not in (0, killed), "another shepherd")
    host.controller.send(SetLimits(1, 0, 1, 600_000_000, 0, 0))
    (host.work / "more").touch()
    wait_until(lambda: host.text("ran") == "ran\nover\n", "the command to end")
    (host.work / "stop").touch()
    assert host.controller.end_of(1).detail == (
        "nobody saw the warning command end: what waited for it was killed"
    )
    assert host.text("ran") == "ran\nover\n"


def test_a_daemon_that_a_job_leaves_is_gone_when_the_end_is_told(host: Host) -> None:
    host.launch("setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01;"
                "done")  # fmt: skip
    assert host.controller.end_of(1).exit_code == 0
    assert not alive(int(host.text("pid")))


def test_a_launch_that_is_told_again_and_again_runs_once(host: Host) -> None:
    one = host.launch("echo ran >> ran", send=False)
    host.controller.send(one, one)
    host.controller.send(one)
    host.controller.end_of(1)
    host.controller.send(one)
    host.launch("exit 0", job=2)
    host.controller.end_of(2)
    assert host.text("ran") == "ran\n"
    host.controller.send(Terminate(7, 0, 1, EndCause.ADMIN))
    assert host.controller.end_of(7).cause is EndCause.ADMIN
    host.launch("touch late", job=7)
    host.launch("exit 0", job=8)
    host.controller.end_of(8)
    assert not (host.work / "late").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may take on other user ids")
def test_root_runs_jobs_of_other_users_as_them(host: Host) -> None:
    host.root.chmod(0o755)
    host.work.chmod(0o777)
    nobody = Owner("nobody", 65534, 65534)
    for job, head in ((1, ""), (2, "#!/bin/sh\n")):
        host.launch(f"{head}id -un; id -u; cat $LSB_DJOB_HOSTFILE; touch $XCE_JOB_HOST_DIR/x",
                    job=job, owner=nobody, files=Files(output=f"out.{job}"))  # fmt: skip
        assert host.controller.end_of(job).exit_code == 0
        assert host.text(f"out.{job}").startswith("nobody\n65534\nh1\n\n---")
        assert (host.work / f"out.{job}").stat().st_uid == 65534
    host.launch("id -u", job=3, owner=nobody)
    host.controller.end_of(3)
    assert host.controller.read(3).content == b"65534\n"
    host.launch("cat", job=4, owner=nobody, files=Files(input="/etc/shadow"))
    assert host.controller.end_of(4).cause is EndCause.OUTPUT


def test_a_job_is_bound_to_its_processors_and_their_memory(host: Host) -> None:
    last = max(os.sched_getaffinity(0))
    show = "sed -n 's/Cpus_allowed_list:.//p' /proc/self/status"
    host.launch(
        f"{show}; echo $LSB_BIND_CPU_LIST; cat $LSB_AFFINITY_HOSTFILE",
        files=Files(output="out"),
        bindings=[(Binding((str(last),), ("",)),)],
    )
    host.controller.end_of(1)
    assert host.text("out").splitlines()[:3] == [str(last), str(last), f"h1 {last}"]
    # The next one is bound to nothing.
    host.launch(show, job=2, files=Files(output="out2"))
    host.controller.end_of(2)
    assert host.text("out2").splitlines()[0] == render_list(os.sched_getaffinity(0))
    assert host.controller.joins[0].processors == find_processors()


def test_a_job_does_not_start_on_processors_that_are_not_there(host: Host) -> None:
    host.launch("true", bindings=[(Binding(("1023",), ("",)),)])
    end = host.controller.end_of(1)
    assert (end.cause, end.host_fault) == (EndCause.START_FAILED, True)
    assert "processors [1023] are not there" in end.detail
