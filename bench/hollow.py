"""A thousand hollow hosts: joins, failover with 100,000 pending, and 1,000,000 pending jobs.

    python bench/hollow.py [join failover million ...] [--jobs N]

One JSON line each. Hosts are real connections in a few processes; jobs are simulated.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "lib"))
sys.path.insert(0, str(Path(__file__).parent))
from cluster import VENV, Cluster, report, submission
from postgres import find_binaries, open_postgres

from xce.config.site import LEASE_S

HOSTS, PROCESSES, SLOTS = 1_000, 4, 16
NOT_WORKERS = "controller,history,scheduler,apiserver"
BULK = 50_000
LONG = ["PATH=/usr/bin:/bin", "XCE_HOLLOW_S=100000"]


class HollowCluster(Cluster):
    """All daemons but workers, and hollow hosts in a few processes of this one's."""

    def __init__(self, hosts: int = HOSTS, slots: int = SLOTS):
        super().__init__(hosts=hosts, slots=slots)
        self._hollow: dict[str, subprocess.Popen] = {}
        self.size = hosts // PROCESSES
        self.prefixes = [f"{chr(97 + number)}-" for number in range(PROCESSES)]
        config = self.dir / "config"
        config.mkdir()
        names = ",".join(f"{prefix}[1-{self.size}]" for prefix in self.prefixes)
        (config / "hosts.yaml").write_text(f'- names: "{names}"\n  slots: {slots}\n  mem: 64G\n')
        (config / "xce.yaml").write_text("mode: test\n")

    def up(self):
        words = ["up", "--dir", self.dir, "--only", NOT_WORKERS]
        subprocess.run([VENV / "xce", *words], check=True, capture_output=True, timeout=120)

    def join(self) -> float:
        """Start the hosts; return the seconds until all were there."""
        began = time.monotonic()
        for prefix in self.prefixes:
            with (self.dir / "log" / f"hollow-{prefix}.log").open("ab") as log:
                self._hollow[prefix] = subprocess.Popen(
                    [
                        VENV / "xce", "worker", "--dir", self.dir,
                        "--hollow", str(self.size), "--hollow-prefix", prefix,
                    ],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip
        self.until_joined()
        return time.monotonic() - began

    def until_joined(self):
        while sum(row["status"] == "unavail" for row in self.call("GET", "/hosts")["hosts"]):
            time.sleep(0.05)

    def __exit__(self, *given):
        for process in self._hollow.values():
            process.terminate()
        for process in self._hollow.values():
            process.wait(60)
        super().__exit__(*given)

    def fill(self):
        """Let every slot have a job that does not end by itself; return the job's id."""
        count = self.hosts * self.slots
        job = self.call("POST", "/jobs", submission(array=f"1-{count}", env=LONG))
        job = job["results"][0]["jobid"]
        while self.call("GET", f"/arrays?ids={job}")["arrays"][0]["run"] < count:
            time.sleep(0.1)
        return job

    def submit(self, count: int) -> int:
        """Submit separate jobs; return the first one's id."""
        first = 0
        for done in range(0, count, BULK):
            lines = b"\n".join(
                json.dumps(submission(name=f"job{n}", command=f"echo {n}", env=LONG)).encode()
                for n in range(done, min(done + BULK, count))
            )
            answer = self.call("POST", "/jobs", lines, kind="application/x-ndjson")
            first = first or answer["results"][0]["jobid"]
        return first

    def free_one(self, filler: int, index: int):
        """End one element of what fills the hosts."""
        self.call(
            "POST", "/jobs/actions",
            {"action": "kill", "force": True, "select": {"jobs": [f"{filler}[{index}]"]}},
        )  # fmt: skip

    def until_dispatched(self, job: int) -> float:
        """Return the instant at which a job is not pending any more."""
        while self.call("GET", f"/jobs?ids={job}&fields=stat")["jobs"][0]["stat"] == "PEND":
            time.sleep(0.01)
        return time.monotonic()


def join():
    """A thousand hosts join; what they and the controller take then."""
    with HollowCluster() as cluster:
        seconds = cluster.join()
        time.sleep(2)
        before, began = cluster.cpu_s(), time.monotonic()
        time.sleep(10)
        idle = cluster.cpu_s()
        share = (idle["controller"] - before["controller"]) / (time.monotonic() - began)
        report(
            "hollow-join",
            hosts=HOSTS,
            processes=PROCESSES,
            seconds=round(seconds, 2),
            controller_mib=cluster.memory_kib("controller") // 1024,
            workers_mib=cluster.memory_kib("worker") // 1024,
            idle_controller_percent=round(100 * share, 1),
        )


def million(count=1_000_000):
    """Many separate jobs pend on a thousand full hosts."""
    with HollowCluster() as cluster:
        cluster.join()
        filler = cluster.fill()
        began = time.monotonic()
        first = cluster.submit(count)
        report("million-submit", jobs=count, per_s=round(count / (time.monotonic() - began)))
        time.sleep(5)
        memory = {
            kind: cluster.memory_kib(kind) // 1024
            for kind in ("controller", "scheduler", "apiserver", "history")
        }
        report("million-memory", jobs=count, controller_gib=round(memory["controller"] / 1024, 3),
               mib=memory, bar="< 2 GiB")  # fmt: skip
        began = time.monotonic()
        cluster.free_one(filler, 1)
        report("million-dispatch", seconds=round(cluster.until_dispatched(first) - began, 3))
        restart(cluster, filler, first + 1)
        time.sleep(10)
        before, began = cluster.cpu_s(), time.monotonic()
        told = bkill_all(cluster)
        seconds = time.monotonic() - began
        assert told >= count, told
        report("million-cancel", jobs=count, seconds=round(seconds, 2),
               **spent(before, cluster.cpu_s()), bar="< 5 s")  # fmt: skip


def bkill_all(cluster) -> int:
    """Kill all jobs as a user does; return of how many ``bkill`` has told."""
    command = [cluster.launcher("bkill"), "-u", "all", "0"]
    env = {**os.environ, "XCE_DIR": str(cluster.dir)}
    done = subprocess.run(command, env=env, capture_output=True, check=True, timeout=300)
    return done.stdout.count(b"\n")


def spent(before, after):
    """Return the CPU seconds of each kind of daemon, which a busy machine changes less than time,
    and how busy it was.
    """
    used = {kind: round(after[kind] - before.get(kind, 0), 2) for kind in after}
    return {"cpu_s": {kind: s for kind, s in used.items() if s}, "load": os.getloadavg()[0]}


def restart(cluster, filler, job):
    """Kill everything but the hosts; from `xce up` to the first dispatch."""
    for pid, kind in cluster.processes().items():
        if kind != "worker":
            os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    began = time.monotonic()
    cluster.up()
    up = time.monotonic()
    cluster.free_one(filler, 2)
    seconds = cluster.until_dispatched(job) - began
    report("million-restart", up_s=round(up - began, 2), first_dispatch_s=round(seconds, 2),
           **spent({}, cluster.cpu_s()), bar="< 15 s")  # fmt: skip


class Second:
    """A second controller with its scheduler, in a directory of its own; it stands by."""

    def __init__(self, cluster: HollowCluster, config: str):
        self.dir = cluster.dir / "second"
        shutil.copytree(cluster.dir / "config", self.dir / "config")
        (self.dir / "config" / "xce.yaml").write_text(config)
        (self.dir / "log").mkdir()
        self._processes = [self._start(name) for name in ("controller", "scheduler")]

    def _start(self, name: str) -> subprocess.Popen:
        with (self.dir / "log" / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [VENV / "python", "-m", f"xce.daemon.{name}", "--dir", self.dir],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def events(self, name: str) -> list[str]:
        """Return what a log says of the controller."""
        lines = (self.dir / "log" / "controller.log").read_text().splitlines()
        return [line for line in lines if f'"event": "{name}"' in line]

    def until(self, name: str):
        while not self.events(name):
            time.sleep(0.01)

    def close(self):
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(60)


def failover(count=100_000):
    """A controller and its scheduler are killed; the one that stood by goes on."""
    if find_binaries() is None:
        print("failover: there is no PostgreSQL here", file=sys.stderr)
        return
    with open_postgres() as server:
        times = []
        for number in range(3):
            dsn = server.make_database(f"bench{number}")
            journal = f"journal: {{postgres: '{dsn}', lease_s: {LEASE_S}}}\n"
            times.append(_fail_over(journal, count))
        seconds = statistics.median(whole for whole, _ in times)
        report(
            "hollow-failover", jobs=count, hosts=HOSTS, lease_s=LEASE_S,
            first_dispatch_s=round(seconds, 2), leads_s=[round(lead, 2) for _, lead in times],
            all_s=[round(whole, 2) for whole, _ in times], bar="< 5 s",
        )  # fmt: skip


def _fail_over(journal: str, count: int) -> tuple[float, float]:
    """Return the seconds from the leader's death to the first dispatch, and to the next reign."""
    cluster = HollowCluster()
    sockets = [cluster.dir / "run/peer/c.sock", cluster.dir / "second/run/peer/c.sock"]
    config = f"mode: test\n{journal}controllers: [{sockets[0]}, {sockets[1]}]\n"
    (cluster.dir / "config" / "xce.yaml").write_text(config)
    with cluster:
        cluster.join()
        filler = cluster.fill()
        first = cluster.submit(count)
        second = Second(cluster, config)
        try:
            second.until("standby-warm")
            time.sleep(5)
            # The node manager first: it would start the dead ones again.
            for kind in ("node_manager", "controller", "scheduler"):
                for pid, found in cluster.processes().items():
                    if found == kind and "second" not in _command_line(pid):
                        os.kill(pid, signal.SIGKILL)
            began = time.monotonic()
            while not second.events("controller-started"):
                time.sleep(0.01)
            lead = time.monotonic() - began
            cluster.free_one(filler, 1)
            return cluster.until_dispatched(first) - began, lead
        finally:
            second.close()


def _command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


ALL = {"join": join, "failover": failover, "million": million}

if __name__ == "__main__":
    words = sys.argv[1:]
    more = {}
    if "--jobs" in words:
        place = words.index("--jobs")
        more = {"count": int(words[place + 1])}
        del words[place : place + 2]
    for name in words or ALL:
        ALL[name](**(more if name != "join" else {}))
