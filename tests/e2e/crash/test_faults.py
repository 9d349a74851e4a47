"""One fault at a time, against a live cluster."""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import KINDS, Live, open_live, until
from other_user import IS_ROOT

from xce.client.rest import PREFIX, make_key, render_json
from xce.daemon.components import command_line
from xce.daemon.processes import send_signal, wait_for_end


@pytest.fixture
def live() -> Iterator[Live]:
    with open_live() as live:
        live.configure("kill_interval_s: 1\n")
        yield live


@pytest.fixture(scope="module")
def calm() -> Iterator[Live]:
    """Return a cluster that is up, for faults that leave it as it was."""
    with open_live() as live:
        up(live)
        yield live


def wait_for(name: str) -> str:
    """Return a script's line that waits until a file is there."""
    return f"until [ -e {name} ]; do sleep 0.05; done"


def up(live: Live) -> None:
    live.xce("up", "--hosts", "h[1-2]", "--slots", "4")


def kill_all(live: Live) -> None:
    """Kill every daemon and every shepherd, as a machine's owner in a rage does it."""
    for kind in ("node-manager", *KINDS):
        live.kill(kind)
    assert live.daemons() == {}
    assert live.shepherds() == {}


def shell_of(live: Live, job: int) -> int:
    """Return the pid of a job's shell."""
    pids = pids_of(live, job)
    # The one that is no other's child: numbers of processes begin again when they are used up.
    (shell,) = [pid for pid in pids if parent_of(pid) not in pids]
    return shell


def pids_of(live: Live, job: int) -> set[int]:
    """Return the pids of a job's processes."""
    mine = f"/attempts/{job}.0."
    found = set()
    for process in live.job_processes():
        with contextlib.suppress(OSError):
            if mine in Path(f"/proc/{process.pid}/environ").read_text(errors="replace"):
                found.add(process.pid)
    return found


def parent_of(pid: int) -> int:
    """Return the pid of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_second_controller_is_refused_and_the_first_goes_on(calm: Live) -> None:
    live = calm
    words = command_line(["-m", "xce.daemon.controller", "--dir", str(live.root)])
    second = live.run(*words, status=1)
    assert "another controller" in second.stderr or "held" in second.stderr, second.stderr
    assert str(live.layout.journal) in second.stderr
    assert live.until_ended(live.submit("true"))["stat"] == "DONE"


def test_a_damaged_entry_stops_the_start_and_is_named(live: Live) -> None:
    up(live)
    for _ in range(6):
        live.until_ended(live.submit("true"))
    live.xce("down")
    file = live.layout.journal_file
    with contextlib.closing(sqlite3.connect(file)) as journal, journal:
        rows = journal.execute("SELECT first, last, content FROM batches ORDER BY first").fetchall()
        first, _, content = rows[len(rows) // 2]
        broken = bytearray(content)
        broken[-3] ^= 0x55
        journal.execute("UPDATE batches SET content = ? WHERE first = ?", (bytes(broken), first))
    said = live.xce("up", status=1)
    assert "controller does not start" in said
    assert str(file) in said
    verified = live.xceadmin("journal", "verify", status=1)
    damaged = int(verified.split("DAMAGED at seq ")[1].split(":")[0])
    assert damaged >= first
    assert f"entry {damaged}" in said, said
    assert f"last good seq: {damaged - 1}" in verified
    exported = live.xceadmin("journal", "export", "--from", "1", status=None)
    seqs = [json.loads(line)["seq"] for line in exported.splitlines() if line.startswith("{")]
    assert seqs == list(range(1, damaged))


@pytest.mark.parametrize("sent", ["all of it", "all but the last byte", "the head", "half"])
def test_a_client_that_left_mid_submit_and_comes_again_has_one_job(calm: Live, sent: str) -> None:
    live, name = calm, f"once {sent}"
    body = render_json(live.submission("true", name=name)).encode()
    for number in range(5):
        key = make_key()
        head = f"POST {PREFIX}/jobs HTTP/1.1\r\nHost: xce\r\nIdempotency-Key: {key}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        whole = head.encode() + body
        size = {"all of it": len(whole), "the head": len(head), "half": len(whole) // 2}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(live.layout.api_socket))
            connection.sendall(whole[: size.get(sent, len(whole) - 1)])
            time.sleep(0.002 * number)
        with live.api() as api:
            answers = [
                api.call("POST", "/jobs", document=json.loads(body), key=key) for _ in range(2)
            ]
        assert answers[0]["results"] == answers[1]["results"]
    jobs = live.rows(("user", "all"), ("finished", "1"), ("name", name))
    assert len({row["jobid"] for row in jobs}) == 5, jobs


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "node-manager"])
def test_a_daemon_that_stands_still_for_a_while_delays_and_loses_nothing(
    calm: Live, kind: str
) -> None:
    live = calm
    before = live.submit(f"{wait_for(kind)}; exit 3")
    live.until_stat(before, "run")
    stopped = live.kill(kind, signal.SIGSTOP)
    assert stopped
    (live.home / kind).touch()
    words = ["bsub", "-o", "out.%J", "echo $LSB_JOBID"]
    submits = [
        subprocess.Popen(
            words, env=live.environ, cwd=live.home, stdout=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL,
        )
        for _ in range(3)
    ]  # fmt: skip
    time.sleep(1.5)
    for process in stopped:
        send_signal(process, signal.SIGCONT)
    jobs = []
    for submit in submits:
        said, _ = submit.communicate(timeout=60)
        assert submit.returncode == 0
        jobs.append(int(said.split("<")[1].split(">")[0]))
    for job in jobs:
        assert live.until_ended(job)["stat"] == "DONE"
        until(lambda job=job: live.file(f"out.{job}").startswith(f"{job}\n"), "its output")  # type: ignore[misc]
    row = live.until_ended(before)
    assert (row["stat"], row["exit_code"]) == ("EXIT", 3)
    assert set(live.victims(kind).values()) == set(stopped), "nobody gave it up"


def test_jobs_never_notice_that_everything_was_killed(live: Live) -> None:
    up(live)
    short = live.submit("echo short >mine; exit 5", output="short.%J")
    live.until_ended(short)
    ends_alone = live.submit(f"{wait_for('down')}; echo alone; exit 6", output="alone.%J")
    by_signal = live.submit(f"{wait_for('down')}; sh -c 'kill -9 $$'")
    goes_on = live.submit(f"{wait_for('again')}; echo went on; exit 7")
    array = live.submit(f"{wait_for('down')}; exit $((LSB_JOBINDEX + 10))", array="1-3")
    jobs = (ends_alone, by_signal, goes_on)
    for job in jobs:
        live.until_stat(job, "run")
    until(lambda: live.row(array)["elements"]["run"] == 3, "the whole array runs")
    waits = live.submit("exit 0", dependency=f"exit({goes_on},7) && ended({array})")
    kill_all(live)
    (live.home / "down").touch()
    until(lambda: "alone" in live.file(f"alone.{ends_alone}"), "a job ends while all is down")
    until(lambda: not pids_of(live, ends_alone), "it is over")
    ended = time.time()
    time.sleep(1)
    up_again = time.monotonic()
    live.xce("up")
    (live.home / "again").touch()
    for job, code in ((ends_alone, 6), (by_signal, 137), (goes_on, 7)):
        row = live.until_ended(job)
        assert (row["stat"], row["exit_code"], row["cause"]) == ("EXIT", code, ""), row
        assert row["attempt"] == 1
    for index in (1, 2, 3):
        row = until(
            lambda index=index: (it := live.row(array, index))["stat"] == "EXIT" and it,  # type: ignore[misc]
            "the element's end is known",
        )
        assert (row["stat"], row["exit_code"]) == ("EXIT", 10 + index), row
    assert live.output(goes_on) == b"went on\n"
    assert live.until_ended(waits)["stat"] == "DONE"
    assert live.row(short)["exit_code"] == 5
    # It ended while nobody looked, and that is when it ended.
    assert live.row(ends_alone)["end_at"] < ended + 0.5
    until(lambda: "exit code 6" in live.file(f"alone.{ends_alone}"), "the report comes later")
    assert live.file(f"alone.{ends_alone}").count("Resource usage summary") == 1
    assert time.monotonic() - up_again < 60


def test_a_job_whose_worker_and_shepherd_were_killed_ends_by_its_status_file(live: Live) -> None:
    up(live)
    jobs = live.submit_all(
        [
            live.submission(f"{wait_for('go')}; exit {code}", output="/dev/null")
            for code in (0, 9, 255)
        ]
    )
    for job in jobs:
        live.until_stat(job, "run")
    (live.home / "go").touch()
    for kind in ("worker", "shepherd", "worker", "shepherd"):
        live.kill(kind)
        time.sleep(0.1)
    for job, code in zip(jobs, (0, 9, 255), strict=True):
        row = live.until_ended(job)
        assert (row["exit_code"], row["cause"], row["attempt"]) == (code, "", 1), row


def test_a_status_that_nobody_has_ends_the_job_once(live: Live) -> None:
    up(live)
    job = live.submit("sleep 60")
    bystander = live.submit(f"{wait_for('go')}; exit 4")
    live.until_stat(job, "run")
    live.until_stat(bystander, "run")
    kill_all(live)
    os.kill(shell_of(live, job), signal.SIGKILL)
    live.xce("up")
    (live.home / "go").touch()
    row = live.until_ended(job)
    assert (row["stat"], row["cause"]) == ("EXIT", "TERM_STATUS_LOST"), row
    assert live.until_ended(bystander)["exit_code"] == 4
    until(lambda: not live.job_processes(), "what the job started is ended with it")
    assert live.row(job)["cause"] == "TERM_STATUS_LOST"


def test_a_host_that_was_started_anew_ends_what_ran_there_and_takes_new_work(live: Live) -> None:
    if not IS_ROOT:
        pytest.skip("another boot id needs a mount namespace")
    up(live)
    ran = live.submit_all([live.submission("sleep 60") for _ in range(3)])
    done = live.submit("exit 3")
    live.until_ended(done)
    for job in ran:
        live.until_stat(job, "run")
    waits = live.submit("echo after", dependency=f"ended({ran[0]})")
    late = live.submit(f"{wait_for('go')}; exit 9")
    live.until_stat(late, "run")
    kill_all(live)
    (live.home / "go").touch()
    until(lambda: not pids_of(live, late), "its status is on disk, and was never reported")
    left = live.job_processes()
    for process in left:
        send_signal(process, signal.SIGKILL)
    wait_for_end(left, timeout_s=10)
    other = live.home / "boot_id"
    other.write_text("11111111-2222-3333-4444-555555555555\n")
    mount = f"mount --bind {other} /proc/sys/kernel/random/boot_id"
    booted = live.run(
        "unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh",
        sys.executable, "-m", "xce.cli.xce.main", "up", status=None,
    )  # fmt: skip
    if "mount" in booted.stderr and booted.returncode != 0:
        pytest.skip(f"no mount namespace here: {booted.stderr.strip()}")
    assert booted.returncode == 0, booted.stdout + booted.stderr
    for job in ran:
        row = live.until_ended(job)
        assert (row["stat"], row["cause"]) == ("EXIT", "TERM_HOST_RESTARTED"), row
        assert row["end_at"] >= row["start_at"] > 0
    assert live.until_ended(late)["stat"] == "EXIT"
    assert live.until_ended(waits)["stat"] == "DONE"
    assert live.row(done)["exit_code"] == 3
    assert live.until_ended(live.submit("true"))["stat"] == "DONE"


def test_what_left_the_state_is_known_for_ever(live: Live) -> None:
    live.configure("clean_period_s: 1\n")
    up(live)
    job = live.submit("exit 3", name="gone")
    array = live.submit("exit $((LSB_JOBINDEX % 2))", array="1-6")
    live.until_ended(job)
    until(lambda: not live.rows(("user", "all"), ("finished", "1")), "both left the state")
    kill_all(live)
    live.xce("up")
    assert live.row(job)["exit_code"] == 3
    assert [live.row(array, index)["stat"] for index in (1, 2)] == ["EXIT", "DONE"]
    said = live.run("bjobs", "-noheader", "-o", "jobid stat exit_code job_name", str(job)).stdout
    assert said.split() == [str(job), "EXIT", "3", "gone"]


def test_a_snapshot_that_is_killed_leaves_the_last_one(live: Live) -> None:
    up(live)
    live.until_ended(live.submit("true"))
    words = command_line(["-m", "xce.daemon.snapshot", "--dir", str(live.root)])
    live.run(*words)
    live.submit_all([live.submission("true", array="1-100") for _ in range(5)])
    for delay_s in (0.1, 0.15, 0.2, 0.25, 0.3):
        snapshot = subprocess.Popen(words)
        time.sleep(delay_s)
        snapshot.kill()
        snapshot.wait()
    until(lambda: not live.rows(("user", "all")), "all jobs end")
    kill_all(live)
    live.xce("up")
    assert len(live.rows(("user", "all"), ("finished", "1"))) == 501
    live.run(*words)
    live.xce("down")
    assert "snapshot" in live.xceadmin("journal", "verify")
