"""Tasks on the other hosts of a job: they belong to it whatever happens to whoever started them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import Live, is_alive, open_live, pid_in, until
from other_user import IS_ROOT

ON_BOTH = {"tasks": [4, 4], "resreq": ["span[ptile=2]"]}


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with open_live() as cluster:
        cluster.xce("up", "--hosts", "h1,h2,h3", "--slots", "2")
        yield cluster


def submit(live: Live, command: str, **members: object) -> int:
    """Submit a job that finds the cluster's commands."""
    return live.submit(command, env=[f"PATH={live.environ['PATH']}"], **members)


def other_host(live: Live, job: int) -> str:
    """Return the host of a running job that is not its first."""
    return live.row(job)["hosts"][1][0]


def pids_in(live: Live, name: str, count: int) -> list[int]:
    def look() -> list[int] | None:
        pids = [int(word) for word in live.file(name).split()]
        return pids if len(pids) == count else None

    return until(look, f"{count} pids in {name}")


def nothing_left(live: Live, job: int) -> None:
    """Nothing of a job is left on any host: no process, no run directory, no control group."""
    until(lambda: not live.job_processes(), "no process of a job")
    runs = live.layout.hosts
    until(
        lambda: not [path for path in runs.glob("*/attempts/*") if path.name[0].isdigit()],
        "no run directory",
    )
    assert live.job_groups() == []


def test_blaunch_starts_one_task_for_each_slot_with_its_rank(live: Live) -> None:
    job = submit(live, "blaunch 'echo $XCE_RANK $HOSTNAME $XCE_HOST_TASK_INDEX' > ranks", **ON_BOTH)
    row = live.until_ended(job)
    assert row["stat"] == "DONE", live.output(job)
    first, second = (host for host, _ in row["hosts"])
    assert sorted(live.file("ranks").splitlines()) == [
        f"0 {first} 0", f"1 {first} 1", f"2 {second} 0", f"3 {second} 1",
    ]  # fmt: skip
    nothing_left(live, job)


def test_streams_are_passed_on_byte_by_byte_and_the_exit_code_too(live: Live) -> None:
    (live.home / "in").write_bytes(os.urandom(1_000_000))
    script = (
        "other=$(sed -n 3p $XCE_HOSTFILE)\n"
        "blaunch $other 'cat; echo no >&2; exit 7' < in > out 2> err\n"
        "echo $? > code; cmp in out && echo same > same"
    )
    job = submit(live, script, **ON_BOTH)
    assert live.until_ended(job)["stat"] == "DONE"
    assert (live.file("code"), live.file("same"), live.file("err")) == ("7\n", "same\n", "no\n")


def test_a_role_is_launched_alone_and_when_one_fails_the_others_are_ended(live: Live) -> None:
    script = (
        "xce-launch --role b sh -c 'echo $XCE_ROLE $XCE_ROLE_INDEX; "
        "[ $XCE_ROLE_INDEX = 1 ] && exit 5; sleep 300' > roles; echo $? > code"
    )
    job = submit(live, script, resreq=["1*{a: select[slots>0]} + 2*{b: span[ptile=1]}"])
    assert live.until_ended(job)["stat"] == "DONE"
    assert sorted(live.file("roles").splitlines()) == ["b 0", "b 1"]
    assert live.file("code") == "5\n"
    nothing_left(live, job)


def test_what_tasks_leave_behind_ends_with_the_job(live: Live) -> None:
    left = "setsid sh -c 'echo $$ >> left; exec sleep 300' > /dev/null 2>&1 & sleep 0.2"
    (live.home / "leave.sh").write_text(left)
    job = submit(live, "blaunch -no-shell sh leave.sh; sleep 1", **ON_BOTH)
    pids = pids_in(live, "left", 4)
    assert live.until_ended(job)["stat"] == "DONE"
    until(lambda: not any(map(is_alive, pids)), "all gone")
    nothing_left(live, job)


def test_stop_resume_signals_and_kill_reach_the_tasks(live: Live) -> None:
    (live.home / "wait.sh").write_text(
        "trap 'echo usr1 >> heard' USR1; echo $$ >> waiting; while :; do sleep 0.1; done"
    )
    job = submit(live, "xce-launch sh wait.sh", **ON_BOTH)
    pids = pids_in(live, "waiting", 4)
    live.act("stop", job)
    live.until_stat(job, "ususp")

    def ticks() -> list[str]:
        stats = [Path(f"/proc/{pid}/stat").read_text() for pid in pids]
        return [text.rpartition(")")[2].split()[11] for text in stats]

    def stand_still() -> bool:
        before = ticks()
        time.sleep(0.5)
        return before == ticks()

    until(stand_still, "all are stopped")
    live.act("resume", job)
    live.until_stat(job, "run")
    live.act("signal", job, signal=int(signal.SIGUSR1))
    until(lambda: live.file("heard").count("usr1") == 4, "each heard it")
    live.act("kill", job)
    row = live.until_ended(job)
    assert row["cause"] == "TERM_OWNER"
    assert not any(map(is_alive, pids))
    nothing_left(live, job)


def test_what_a_job_uses_on_all_its_hosts_is_told_while_it_runs(live: Live) -> None:
    (live.home / "hold.sh").write_text(
        "x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo $$ >> holding; sleep 300"
    )
    job = submit(live, "xce-launch sh hold.sh", **ON_BOTH)
    pids = pids_in(live, "holding", 4)
    asked = ("ids", str(job)), ("usage", "1")
    use = until(lambda: live.rows(*asked)[0]["usage"], "its hosts say it")
    assert use["mem_mib"] > 4 * 19
    assert use["threads"] >= 8
    assert use["unknown"] == []
    assert len(set(use["pids"]) & set(pids)) == 2, "those of its first host"
    long = live.run("bjobs", "-l", str(job)).stdout
    assert "Resource usage collected. The CPU time used is " in long
    assert "NTHREAD: " in long
    assert "AVG MEM: " in long
    wide = live.run("bjobs", "-W", str(job)).stdout.splitlines()[1].split()
    assert int(wide[-6]) > 4 * 19, "MEM"
    assert len(wide[-4].split(",")) >= 4, "PIDS"
    worker = live.victims("worker")[f"worker-{other_host(live, job)}"]
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        # What it has said just now counts for two seconds more.
        until(lambda: (live.rows(*asked)[0]["usage"] or {}).get("unknown"), "one says nothing")
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    live.act("kill", job)
    live.until_ended(job)
    assert live.rows(*asked)[0]["usage"] is None


@pytest.mark.long
def test_limits_hold_for_tasks_everywhere_and_cpu_time_counts_together(live: Live) -> None:
    limits = {"cpu_limit_s": 4, "stack_limit_kib": 4096, "core_limit_kib": 0}
    job = submit(live, "blaunch 'ulimit -S -t; ulimit -S -s' > soft", limits=limits, **ON_BOTH)
    assert live.until_ended(job)["stat"] == "DONE", live.output(job)
    assert sorted(live.file("soft").split()) == ["4"] * 4 + ["4096"] * 4
    # Four tasks on two hosts: together they have used it long before one of them has.
    (live.home / "busy.sh").write_text("while :; do :; done")
    job = submit(live, "xce-launch sh busy.sh", limits=limits, **ON_BOTH)
    row = live.until_ended(job)
    assert row["cause"] == "TERM_CPULIMIT", row
    assert 3.5 < row["cpu_s"] < 14
    nothing_left(live, job)


def test_a_launcher_that_is_killed_takes_its_tasks_with_it(live: Live) -> None:
    script = (
        "xce-launch sh -c 'echo $$ >> alone; exec sleep 300' & echo $! > launcher; wait; sleep 1"
    )
    job = submit(live, script, **ON_BOTH)
    pids = pids_in(live, "alone", 4)
    os.kill(pid_in(live, "launcher"), signal.SIGKILL)
    until(lambda: not any(map(is_alive, pids)), "its tasks are gone")
    assert live.until_ended(job)["stat"] == "DONE"
    nothing_left(live, job)


def test_cpu_and_memory_of_tasks_are_the_jobs(live: Live) -> None:
    burn = (
        "import time; x = b'x' * 50_000_000\nwhile time.process_time() < 0.6: pass\ntime.sleep(3)"
    )
    (live.home / "burn.py").write_text(burn)
    python = sys.executable if os.geteuid() == 0 else "python3"
    job = submit(live, f"xce-launch {python} burn.py", **ON_BOTH)
    row = live.until_ended(job)
    assert row["stat"] == "DONE"
    assert row["cpu_s"] >= 4 * 0.5
    assert row["max_mem_mib"] >= 4 * 45


@pytest.mark.parametrize("kind", ["worker", "controller"])
def test_tasks_and_their_output_outlive_daemons(live: Live, kind: str) -> None:
    (live.home / f"{kind}.sh").write_text(
        f"echo ${{XCE_RANK}} before; echo $$ >> up.{kind}; while [ ! -e go.{kind} ]; do sleep 0.1; "
        "done; echo $XCE_RANK after; exit $XCE_RANK"
    )
    job = submit(
        live,
        f"xce-launch --keep-going sh {kind}.sh > said.{kind}; echo $? > code.{kind}",
        **ON_BOTH,
    )
    pids = pids_in(live, f"up.{kind}", 4)
    dead = live.kill(kind)
    live.until_replaced(kind, dead)
    assert all(map(is_alive, pids))
    (live.home / f"go.{kind}").touch()
    assert live.until_ended(job)["stat"] == "DONE"
    lines = sorted(live.file(f"said.{kind}").splitlines())
    assert lines == sorted(f"{rank} {word}" for rank in range(4) for word in ("after", "before"))
    assert live.file(f"code.{kind}") == "3\n"
    nothing_left(live, job)


def test_a_shepherd_that_is_killed_loses_its_tasks_and_says_so(live: Live) -> None:
    script = "xce-launch sh -c 'echo $$ >> lost; exec sleep 300' 2> why; echo $? > lost-code"
    job = submit(live, script, **ON_BOTH)
    pids = pids_in(live, "lost", 4)
    other = other_host(live, job)
    os.kill(live.shepherds()[other].pid, signal.SIGKILL)
    assert live.until_ended(job)["stat"] == "DONE"
    assert f"host {other}: " in live.file("why")
    assert live.file("lost-code") == "255\n"
    until(lambda: not any(map(is_alive, pids)), "all gone")
    nothing_left(live, job)


def test_tasks_are_started_on_the_jobs_own_hosts_and_from_its_first_only(live: Live) -> None:
    script = (
        "blaunch -z nowhere true 2> stranger; echo $? >> stranger\n"
        "other=$(sed -n 3p $XCE_HOSTFILE); first=$(sed -n 1p $XCE_HOSTFILE)\n"
        "XCE_LAUNCH_KEY=wrong blaunch $other true 2> wrong; echo $? >> wrong\n"
        "blaunch $other blaunch $first true 2> second; echo $? >> second"
    )
    job = submit(live, script, **ON_BOTH)
    assert live.until_ended(job)["stat"] == "DONE"
    assert "nowhere is not a host of this job" in live.file("stranger")
    assert live.file("wrong").endswith("not the key of the attempt\n255\n")
    assert live.file("second").endswith("first host only\n255\n")


@pytest.mark.skipif(not IS_ROOT, reason="needs root, to be somebody else")
def test_the_key_of_another_users_job_is_of_no_use(live: Live) -> None:
    job = submit(live, "env -0 > stolen.new; mv stolen.new stolen; sleep 300", **ON_BOTH)
    until((live.home / "stolen").exists, "the job's environment")
    stolen = dict(item.split("=", 1) for item in live.file("stolen").split("\0") if item)
    words = live.words_as(65534, ["blaunch", other_host(live, job), "touch", "mine"])
    done = subprocess.run(
        words, env=stolen, cwd=live.home, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 255
    assert "the job is not yours" in done.stderr
    assert not (live.home / "mine").exists()
    live.act("kill", job)
    live.until_ended(job)
