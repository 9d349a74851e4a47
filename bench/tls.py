"""What TLS costs: the no-op benchmark over unix sockets, and with everything over the network.

python bench/tls.py [JOBS [ROUNDS]]     JSON lines; rounds of both kinds take turns

In the second kind the workers come over TCP with TLS 1.3, each with its own key, and whoever submits
and waits does so over HTTPS with a token. On a machine that does other things as well the CPU time
of the cluster's processes for a job says more than jobs per second. ``tls-rest`` is about single
requests on one connection, of which the apiserver does nothing else.
"""

import http.client
import json
import socket
import ssl
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import VENV, Cluster, report, submission

REQUESTS = 1_500


def free_address():
    """Return an address of this machine where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class TlsCluster(Cluster):
    """The same cluster, with workers and users that come over TLS."""

    def up(self):
        address, self.api = free_address(), free_address()
        names = [f"bench{number}" for number in range(1, self.hosts + 1)]
        self._run("xceadmin", "init", "--listen", address, "--hosts", ",".join(names))
        text = f"- {{names: 'bench[1-{self.hosts}]', slots: {self.slots}, mem: 64G}}\n"
        (self.dir / "config" / "hosts.yaml").write_text(text)
        with (self.dir / "config" / "xce.yaml").open("a") as file:
            file.write(f"api: {{listen: '{self.api}', access_s: 1h}}\n")
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


class User:
    """Somebody with one connection to the apiserver that stays open."""

    def __init__(self, cluster):
        self.headers = {"Content-Type": "application/json"}
        self.connection = cluster.connect()
        if isinstance(cluster, TlsCluster):
            token = cluster.call("POST", "/login", {"way": "unix"})["access_token"]
            self.headers["Authorization"] = f"Bearer {token}"
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            host, _, port = cluster.api.partition(":")
            self.connection = http.client.HTTPSConnection(host, int(port), context=context)

    def call(self, method, path, body=None):
        """Return the decoded answer of one request."""
        content = None if body is None else json.dumps(body).encode()
        self.connection.request(method, f"/xce/v1{path}", content, self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text)

    def run_array(self, count):
        """Submit an array and wait for its end."""
        job = self.call("POST", "/jobs", submission(name="noop", array=f"1-{count}"))
        path = f"/arrays?ids={job['results'][0]['jobid']}&finished=1"
        while True:
            row = self.call("GET", path)["arrays"][0]
            if row["done"] + row["exit"] >= count:
                return
            time.sleep(0.02)


def of_requests(cluster, user, send):
    """Return requests per second, and the CPU ms that the apiserver spends on one."""
    before, start = cluster.cpu_s()["apiserver"], time.monotonic()
    for number in range(REQUESTS):
        send(user, number)
    wall = time.monotonic() - start
    return REQUESTS / wall, (cluster.cpu_s()["apiserver"] - before) / REQUESTS * 1000


def measure(kind, count):
    """Return jobs/s and CPU ms a job of one round, then requests/s and CPU ms of reads, submits."""
    with kind() as cluster:
        user = User(cluster)
        user.run_array(200)
        time.sleep(0.5)
        cpu0, start = cluster.cpu_s(), time.monotonic()
        user.run_array(count)
        wall = time.monotonic() - start
        time.sleep(0.5)
        cpu1 = cluster.cpu_s()
        cpu = {name: (cpu1[name] - cpu0.get(name, 0)) / count * 1000 for name in cpu1}
        job = user.call("POST", "/jobs", submission(hold=True))["results"][0]["jobid"]
        reads = of_requests(cluster, user, lambda user, _: user.call("GET", f"/jobs/{job}"))
        submits = of_requests(
            cluster, user, lambda user, _: user.call("POST", "/jobs", submission(hold=True))
        )
    return {
        "per_s": count / wall, "cpu_ms": sum(cpu.values()),
        **{f"{name}_ms": cpu.get(name, 0.0) for name in ("controller", "worker", "apiserver")},
        "read_per_s": reads[0], "read_cpu_ms": reads[1],
        "submit_per_s": submits[0], "submit_cpu_ms": submits[1],
    }  # fmt: skip


def middle(rounds, name):
    """Return the median of a figure."""
    return statistics.median(one[name] for one in rounds)


def main(count=6_000, rounds=5):
    """Measure and report."""
    local, tls = [], []
    for _ in range(rounds):
        local.append(measure(Cluster, count))
        tls.append(measure(TlsCluster, count))

    def pair(name, digits=3):
        return [round(middle(kind, name), digits) for kind in (local, tls)]

    def more(name):
        return round((middle(tls, name) / middle(local, name) - 1) * 100, 1)

    report(
        "tls",
        jobs=count,
        per_s=pair("per_s", 1),
        loss_percent=round((1 - middle(tls, "per_s") / middle(local, "per_s")) * 100, 1),
        cpu_ms=pair("cpu_ms"),
        cpu_more_percent=more("cpu_ms"),
        controller_ms=pair("controller_ms"),
        worker_ms=pair("worker_ms"),
        apiserver_ms=pair("apiserver_ms"),
        all_rounds=[
            [
                round(a["per_s"], 1),
                round(b["per_s"], 1),
                round(a["cpu_ms"], 3),
                round(b["cpu_ms"], 3),
            ]
            for a, b in zip(local, tls, strict=True)
        ],
        bar="< 15 % fewer jobs/s",
    )
    for what in ("read", "submit"):
        report(
            "tls-rest",
            what=what,
            per_s=pair(f"{what}_per_s", 0),
            cpu_ms=pair(f"{what}_cpu_ms"),
            cpu_more_percent=more(f"{what}_cpu_ms"),
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
