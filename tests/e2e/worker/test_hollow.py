"""Hollow hosts: fifty of them in two processes, real connections, simulated jobs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from live import Live, open_live, until

HOSTS = 50
NOT_WORKERS = "controller,history,scheduler,apiserver"


class Cluster:
    """A cluster whose hosts are all hollow."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        live.configure(f'- names: "a-[1-{HOSTS // 2}],b-[1-{HOSTS // 2}]"\n  slots: 4\n  mem: 1G\n',
                       "hosts.yaml")  # fmt: skip
        live.configure("mode: test\nheartbeat_s: 1\nhost_grace_s: 30\n")
        live.xce("up", "--only", NOT_WORKERS, "--timeout", "60")
        for prefix in ("a-", "b-"):
            self.start(prefix)
        self.until_joined(HOSTS)

    def start(self, prefix: str) -> None:
        words = ["worker", "--hollow", str(HOSTS // 2), "--hollow-prefix", prefix]
        with self.live.layout.log_file(f"hollow-{prefix}").open("ab") as log:
            self.processes[prefix] = subprocess.Popen(
                [sys.executable, "-m", "xce.cli.xce.main", *words],
                env=self.live.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def joined(self) -> int:
        with self.live.api() as api:
            hosts = api.call("GET", "/hosts")["hosts"]
        return sum(host["status"] not in {"unavail", "unreach"} for host in hosts)

    def until_joined(self, count: int) -> None:
        until(lambda: self.joined() == count, f"{count} hosts are there")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with open_live() as live:
        made = Cluster(live)
        try:
            yield made
        finally:
            for process in made.processes.values():
                process.terminate()
                process.wait(20)


def counts(live: Live, job: int) -> tuple[int, int, int]:
    with live.api() as api:
        query = [("ids", str(job)), ("finished", "1")]
        (row,) = api.call("GET", "/arrays", query)["arrays"]
    return row["done"], row["exit"], row["run"]


def rows_of(live: Live, job: int) -> list[dict[str, Any]]:
    return live.rows(("ids", str(job)))


def test_an_array_runs_through_and_codes_are_the_jobs_own(cluster: Cluster) -> None:
    live = cluster.live
    array = live.submit("x", array="1-500", env=["XCE_HOLLOW_S=0.01-0.2"])
    bad = live.submit("x", env=["XCE_HOLLOW_S=0", "XCE_HOLLOW_EXIT=7"])
    until(lambda: counts(live, array)[0] == 500, "all elements are done")
    assert live.until_ended(bad)["exit_code"] == 7
    hosts = {name for row in live.rows(("ids", str(array))) for name, _ in row["hosts"]}
    assert len(hosts) == HOSTS


def test_jobs_are_killed_stopped_and_have_run_limits(cluster: Cluster) -> None:
    live = cluster.live
    killed, stopped, limited = (
        live.submit("x", env=["XCE_HOLLOW_S=1000"], **more) for more in ({}, {}, {"run_limit_s": 1})
    )
    for job in (killed, stopped):
        live.until_stat(job, "run")
    live.act("kill", killed)
    live.act("stop", stopped)
    assert live.until_ended(killed)["cause"] == "TERM_OWNER"
    live.until_stat(stopped, "ususp")
    live.act("resume", stopped)
    live.until_stat(stopped, "run")
    assert live.until_ended(limited)["cause"] == "TERM_RUNLIMIT"


def test_a_controller_that_dies_finds_its_jobs_again(cluster: Cluster) -> None:
    live = cluster.live
    array = live.submit("x", array=f"1-{4 * HOSTS}", env=["XCE_HOLLOW_S=2-6"])
    # The first may be over before the last one runs.
    until(lambda: counts(live, array)[0] + counts(live, array)[2] >= 4 * HOSTS, "all have begun")
    dead = live.kill("controller", signal.SIGKILL)
    live.until_replaced("controller", dead)
    cluster.until_joined(HOSTS)
    until(lambda: counts(live, array)[0] == 4 * HOSTS, "all are done")


def test_hosts_whose_process_was_killed_were_restarted(cluster: Cluster) -> None:
    live = cluster.live
    array = live.submit(
        "x", array=f"1-{4 * HOSTS}", env=["XCE_HOLLOW_S=2-5"], rerunnable=True
    )  # fmt: skip
    # What is on its way to a host counts as running, and comes again to the next process.
    until(lambda: all(row["pid"] for row in rows_of(live, array)), "all have been started")
    process = cluster.processes["a-"]
    # `xce worker` has become the daemon: it is the process that was started.
    os.kill(process.pid, signal.SIGKILL)
    process.wait(20)
    cluster.start("a-")
    cluster.until_joined(HOSTS)
    until(lambda: counts(live, array)[0] == 4 * HOSTS, "all are done, some the second time")
    assert {row["attempt"] for row in rows_of(live, array)} == {1, 2}


def test_down_ends_them_all(cluster: Cluster) -> None:
    cluster.live.xce("down")
    assert [process.wait(20) for process in cluster.processes.values()] == [0, 0]


def test_they_are_refused_where_people_work() -> None:
    with open_live() as live:
        live.configure('- names: "a-[1-2]"\n', "hosts.yaml")
        live.xce("up", "--only", NOT_WORKERS, "--timeout", "60")
        said = live.xce("worker", "--hollow", "2", "--hollow-prefix", "a-", status=1)
        assert "hollow hosts are refused: the cluster is in mode production" in said
        for words, why in (
            (["--hollow-prefix", "a1"], "no digit"),
            (["--hollow-seconds", "soon"], "is no time"),
            (["--host", "a-1"], "goes without --host"),
        ):
            assert why in live.xce("worker", "--hollow", "2", *words, status=1)
