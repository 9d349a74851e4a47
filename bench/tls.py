"""What TLS costs: no-op jobs on four workers over unix sockets, and on four that enrolled.

python bench/tls.py        one JSON line; rounds of both kinds take turns, medians are compared
"""

import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import VENV, Cluster, report, submission


class TlsCluster(Cluster):
    """The same cluster, whose workers come over TCP with TLS 1.3, each with its own key."""

    def up(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        names = [f"bench{number}" for number in range(1, self.hosts + 1)]
        self._run("xceadmin", "init", "--listen", address, "--hosts", ",".join(names))
        text = f"- {{names: 'bench[1-{self.hosts}]', slots: {self.slots}, mem: 64G}}\n"
        (self.dir / "config" / "hosts.yaml").write_text(text)
        self._run("xce", "up")
        self.workers = []
        for name in names:
            token = self.dir / f"{name}.token"
            self._run("xceadmin", "keys", "token", name, "--out", str(token))
            words = ["worker", "--dir", str(self.dir / f"on-{name}"), "--enrol", str(token)]
            with (self.dir / f"{name}.log").open("wb") as log:
                self.workers.append(
                    subprocess.Popen(
                        [VENV / "xce", *words, "--connect", address], stdout=log, stderr=log
                    )
                )
        while sum(row["status"] == "ok" for row in self.call("GET", "/hosts")["hosts"]) < len(
            names
        ):
            time.sleep(0.05)

    def __exit__(self, *_):
        self.call(
            "POST", "/jobs/actions", {"action": "kill", "select": {"user": "all", "all": True}}
        )
        for worker in self.workers:
            worker.terminate()
            worker.wait(30)
        super().__exit__()

    def _run(self, program, *words):
        subprocess.run(
            [VENV / program, *words, "--dir", str(self.dir)],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip


def measure(kind, count):
    """Return jobs/s and CPU ms a job of one round."""
    with kind() as cluster:
        cluster.call("POST", "/jobs", submission(name="warm", array="1-200"))
        cluster.wait_array(1, 200)
        time.sleep(0.5)
        cpu0, start = cluster.cpu_s(), time.monotonic()
        job = cluster.call("POST", "/jobs", submission(name="noop", array=f"1-{count}"))
        wall = cluster.wait_array(job["results"][0]["jobid"], count) - start
        time.sleep(0.5)
        cpu1 = cluster.cpu_s()
    return count / wall, sum(cpu1[name] - cpu0.get(name, 0) for name in cpu1) / count * 1000


def main(count=6_000, rounds=5):
    """Measure and report."""
    local, tls = [], []
    for _ in range(rounds):
        local.append(measure(Cluster, count))
        tls.append(measure(TlsCluster, count))
    rate, cpu = (statistics.median(column) for column in zip(*local, strict=True))
    tls_rate, tls_cpu = (statistics.median(column) for column in zip(*tls, strict=True))
    report(
        "tls",
        jobs=count,
        local_per_s=round(rate, 1),
        tls_per_s=round(tls_rate, 1),
        loss_percent=round((1 - tls_rate / rate) * 100, 1),
        local_cpu_ms=round(cpu, 3),
        tls_cpu_ms=round(tls_cpu, 3),
        all_rounds=[[round(a[0], 1), round(b[0], 1)] for a, b in zip(local, tls, strict=True)],
        bar="< 15 % fewer jobs/s",
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
