"""Hosts that fail under real jobs: worker stopped as if cut off, given up, and back again."""

import os
import signal
from pathlib import Path

import pytest
from live import Live, is_alive, open_live, pid_in, until

SETTINGS = "heartbeat_s: 0.5\nhost_grace_s: 7\n"
MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
NOTE = "echo $XCE_ATTEMPT,$LSB_RESTART >> ran.$XCE_JOBID; echo $$ > pid.$XCE_JOBID.$XCE_ATTEMPT; "


def start(live: Live, *, rerunnable: bool) -> tuple[int, int]:
    """Return a job that runs on h1, and its process."""
    job = live.submit(f"{NOTE} sleep 300", hosts="h1 others", rerunnable=rerunnable)
    row = live.until_stat(job, "run")
    assert row["hosts"] == [["h1", 1]]
    return job, pid_in(live, f"pid.{job}.1")


def stop_worker(live: Live, host: str) -> int:
    """Stop the worker of a host; return its pid."""
    pid = live.daemons()[f"worker-{host}"].pid
    os.kill(pid, signal.SIGSTOP)
    return pid


def stands_still(pid: int) -> bool:
    """Whether a process is frozen with its control group, or stopped."""
    content = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    group = Path(f"/proc/{pid}/cgroup").read_text().rpartition("::")[2].strip()
    places = (Path(f"{mount}{group}/cgroup.events") for mount in MOUNTS)
    return content == "T" or any(p.is_file() and "frozen 1" in p.read_text() for p in places)


def status_of(live: Live, host: str) -> str:
    with live.api() as api:
        hosts = api.call("GET", "/hosts")["hosts"]
    return next(row["status"] for row in hosts if row["name"] == host)


@pytest.mark.timeout(240)
def test_a_host_that_is_cut_off_is_given_up_and_ends_stale_copies_when_it_is_back():
    with open_live() as live:
        live.configure(SETTINGS)
        live.xce("up", "--hosts", "h[1-2]", "--slots", "4", "--mem", "1G")
        again, first_pid = start(live, rerunnable=True)
        once, _ = start(live, rerunnable=False)
        worker = stop_worker(live, "h1")
        live.until_stat(again, "unkwn", patience_s=15)
        assert "UNKWN" in live.run("bjobs", str(again), str(once)).stdout
        assert status_of(live, "h1") == "unavail"
        row = live.until_ended(once, patience_s=30)
        assert row["cause"] == "TERM_HOST_LOST"
        row = live.until_stat(again, "run", patience_s=30)
        assert (row["attempt"], row["hosts"]) == (2, [["h2", 1]])
        assert row["requeued"].startswith("TERM_HOST_LOST")
        second_pid = pid_in(live, f"pid.{again}.2")
        assert live.file(f"ran.{again}") == "1,\n2,Y\n"
        assert is_alive(first_pid), "nobody asked that it ends by itself"
        os.kill(worker, signal.SIGCONT)
        until(lambda: not is_alive(first_pid), "the stale copy is ended")
        until(lambda: status_of(live, "h1") == "ok", "h1 takes work again")
        assert is_alive(second_pid)
        assert live.row(again)["attempt"] == 2
        declare_lost(live, again)
        drain(live)


def declare_lost(live: Live, job: int) -> None:
    """Give a host up by hand, before its grace is over."""
    refused = live.xceadmin("hosts", "lost", "h2", "--yes", status=1)
    assert "h2 is connected" in refused
    worker = stop_worker(live, "h2")
    until(lambda: status_of(live, "h2") == "unavail", "h2 is away")
    live.xceadmin("hosts", "lost", "h2", "--yes")
    row = until(lambda: (r := live.row(job))["attempt"] == 3 and r, "it is started anew")
    assert row["hosts"] == [["h1", 1]]
    os.kill(worker, signal.SIGCONT)
    until(lambda: status_of(live, "h2") == "ok", "h2 takes work again")
    live.act("kill", job, force=True)
    live.until_ended(job)


def drain(live: Live) -> None:
    """Let a host run empty, and see a job requeued by hand."""
    job = live.submit("while [ ! -e go ]; do sleep 0.1; done", hosts="h1 others")
    live.until_stat(job, "run")
    assert "still busy: h1" in live.xceadmin("hosts", "drain", "h1", "--wait", "0.1", status=1)
    (live.home / "go").touch()
    assert live.xceadmin("hosts", "drain", "h1", "--wait") == "h1: draining\n"
    assert status_of(live, "h1") == "closed_Adm"
    assert live.until_ended(job)["stat"] == "DONE"
    assert live.run("brequeue", "-d", str(job)).stdout == f"Job <{job}> is being requeued\n"
    row = live.until_ended(job)
    assert (row["stat"], row["attempt"], row["hosts"]) == ("DONE", 2, [["h2", 1]])


@pytest.mark.timeout(180)
def test_a_rerunnable_job_is_gone_before_it_is_started_elsewhere_where_that_is_asked_for():
    with open_live() as live:
        live.configure(f"{SETTINGS}self_fence: true\nfence_after_s: 5\n")
        live.xce("up", "--hosts", "h[1-2]", "--slots", "4", "--mem", "1G")
        again, first_pid = start(live, rerunnable=True)
        once, once_pid = start(live, rerunnable=False)
        worker = stop_worker(live, "h1")
        until(lambda: stands_still(first_pid), "it is frozen by its lease", patience_s=15)
        assert not (live.home / f"pid.{again}.2").exists(), "and nowhere else meanwhile"
        until(lambda: not is_alive(first_pid), "it is killed by its lease", patience_s=15)
        assert is_alive(once_pid), "only rerunnable jobs end by themselves"
        pid_in(live, f"pid.{again}.2")
        assert live.row(again)["attempt"] == 2
        os.kill(worker, signal.SIGCONT)
        until(lambda: not is_alive(once_pid), "what was given up is ended")
        assert live.row(again)["attempt"] == 2
        assert live.row(once)["cause"] == "TERM_HOST_LOST"
