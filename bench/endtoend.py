"""The walking cluster's bars, measured from outside on a real cluster. One JSON line each.

python bench/endtoend.py [noop array bulk single pending commands ...]
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import VENV, Cluster, report, submission
from sqlite_floor import commit_rate


def _children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def noop(count=10_000, rounds=3):
    """No-op jobs end to end: CPU ms a job in all, jobs/s, the ratio to xargs."""
    rows = []
    for _ in range(rounds):
        before, start = _children_cpu(), time.monotonic()
        subprocess.run("seq 3000 | xargs -P2 -n1 /bin/true", shell=True, check=False)
        floor_rate = 3000 / (time.monotonic() - start)
        floor_cpu = (_children_cpu() - before) / 3000 * 1000
        with Cluster() as cluster:
            cluster.call("POST", "/jobs", submission(name="warm", array="1-200"))
            cluster.wait_array(1, 200)
            time.sleep(0.5)
            cpu0, start = cluster.cpu_s(), time.monotonic()
            job = cluster.call("POST", "/jobs", submission(name="noop", array=f"1-{count}"))
            end = cluster.wait_array(job["results"][0]["jobid"], count)
            wall = end - start
            time.sleep(0.5)
            cpu1 = cluster.cpu_s()
        used = {kind: (cpu1[kind] - cpu0.get(kind, 0)) / count * 1000 for kind in cpu1}
        rows.append((sum(used.values()), count / wall, used, floor_rate, floor_cpu))
    rows.sort(key=lambda row: row[0])
    total, rate, used, floor_rate, floor_cpu = rows[len(rows) // 2]
    report(
        "noop",
        jobs=count,
        cpu_ms_per_job=round(total, 3),
        by_process={k: round(v, 3) for k, v in used.items()},
        core_ms=round(used.get("controller", 0) + used.get("scheduler", 0), 3),
        jobs_per_s=round(rate, 1),
        two_core_bound=round(2000 / total, 1),
        share_of_bound=round(rate / (2000 / total), 3),
        xargs_per_s=round(floor_rate, 1),
        xargs_cpu_ms=round(floor_cpu, 3),
        ratio_to_xargs=round(rate / floor_rate, 3),
        all_rounds=[[round(r[0], 3), round(r[1], 1)] for r in rows],
        bar="<= 2.5 ms, core <= 0.3 ms, share >= 0.8",
    )


def array(count=1_000_000):
    """A large array acknowledged durably."""
    with Cluster() as cluster:
        cluster.call("POST", "/jobs", submission(hold=True))
        times = []
        connection = cluster.connect()
        for _ in range(9):
            body = json.dumps(submission(array=f"1-{count}", hold=True)).encode()
            start = time.monotonic()
            connection.request("POST", "/xce/v1/jobs", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            times.append(time.monotonic() - start)
            assert answer.status == 201
    report("array", elements=count, ack_ms=round(statistics.median(times) * 1000, 2), bar="< 50 ms")


def bulk(count=100_000):
    """Separate jobs by one bulk submit."""
    with Cluster() as cluster:
        line = json.dumps(submission(hold=True, name="bulk")).encode()
        body = b"\n".join([line] * count)
        start = time.monotonic()
        answer = cluster.call("POST", "/jobs", body, kind="application/x-ndjson")
        wall = time.monotonic() - start
        assert len(answer["results"]) == count
    report("bulk", jobs=count, per_s=round(count / wall), bar=">= 20,000/s")


def single(count=2_000):
    """Single submits on one keep-alive connection against the bare commit rate."""
    rows = []
    for _ in range(3):
        with Cluster() as cluster:
            floor = commit_rate(cluster.dir, 1_000)
            connection = cluster.connect()
            connection.connect()
            sock = connection.sock
            sock.settimeout(None)  # with a timeout each call costs the client one more
            body = json.dumps(submission(hold=True)).encode()
            request = (
                b"POST /xce/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            for _ in range(200):
                _round_trip(sock, request)
            start = time.monotonic()
            for _ in range(count):
                _round_trip(sock, request)
            rate = count / (time.monotonic() - start)
            floor = (floor + commit_rate(cluster.dir, 1_000)) / 2
        rows.append((rate / floor, rate, floor))
    rows.sort()
    ratio, rate, floor = rows[1]
    report(
        "single",
        submits_per_s=round(rate),
        sqlite_full_per_s=round(floor),
        ratio=round(ratio, 3),
        bar=">= 0.3",
    )


def _round_trip(sock, request):
    sock.sendall(request)
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536)
    head, _, rest = data.partition(b"\r\n\r\n")
    assert b" 201 " in head[:20], data
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(rest) < length:
        rest += sock.recv(65536)


def pending(count=100_000):
    """Many pending separate jobs: memory, list, cancel, restart to first dispatch.

    Sessions on 100 hosts are measured by ``bench/session.py``: 100 workers do not fit here.
    """
    with Cluster() as cluster:
        base_kib = cluster.memory_kib("controller")
        cluster.call("POST", "/jobs", submission(command="sleep 3600", array="1-64"))
        lines = b"\n".join(
            json.dumps(submission(name=f"job{n}", command=f"echo {n}")).encode()
            for n in range(count)
        )
        start = time.monotonic()
        cluster.call("POST", "/jobs", lines, kind="application/x-ndjson")
        report("pending-submit", jobs=count, per_s=round(count / (time.monotonic() - start)))
        time.sleep(2)
        used_kib = cluster.memory_kib("controller") - base_kib
        report("pending-memory", kib_per_job=round(used_kib / count, 2), bar="< 2 KiB")
        env = {**os.environ, "XCE_DIR": str(cluster.dir)}
        bjobs = cluster.launcher("bjobs")
        times = []
        for _ in range(3):
            start = time.monotonic()
            done = subprocess.run([bjobs, "-u", "all"], env=env, capture_output=True, check=True)
            times.append(time.monotonic() - start)
            assert done.stdout.count(b"\n") >= count
        report("pending-list", seconds=round(statistics.median(times), 3), bar="< 2 s")
        start = time.monotonic()
        subprocess.run([bjobs, "77"], env=env, capture_output=True, check=True)
        report("pending-one", seconds=round(time.monotonic() - start, 3))
        _restart(cluster)
        start = time.monotonic()
        cluster.call(
            "POST", "/jobs/actions", {"action": "kill", "select": {"user": "all", "all": True}}
        )
        report("pending-cancel", seconds=round(time.monotonic() - start, 3), bar="< 1 s")


def _restart(cluster):
    """Kill the controller and everything else; from `xce up` to the first dispatch."""
    for pid, kind in cluster.processes().items():
        if kind != "shepherd":
            os.kill(pid, 9)
    time.sleep(0.5)
    start = time.monotonic()
    cluster.up()
    up = time.monotonic()
    cluster.call(
        "POST", "/jobs/actions", {"action": "kill", "force": True, "select": {"jobs": ["1[1]"]}}
    )
    for _ in range(3000):
        row = cluster.call("GET", "/jobs?ids=2&fields=stat")["jobs"][0]
        if row["stat"] != "PEND":
            break
        time.sleep(0.01)
    report(
        "pending-restart",
        up_s=round(up - start, 3),
        first_dispatch_s=round(time.monotonic() - start, 3),
        bar="< 5 s",
    )


def commands(runs=20):
    """CPU of the commands against the bare interpreter's start."""

    def cpu_ms(argv, env):
        for _ in range(3):
            subprocess.run(argv, env=env, capture_output=True, check=False)
        rows = []
        for _ in range(runs):
            before = _children_cpu()
            subprocess.run(argv, env=env, capture_output=True, check=False)
            rows.append((_children_cpu() - before) * 1000)
        return statistics.median(rows)

    with Cluster(hosts=1) as cluster:
        env = {**os.environ, "XCE_DIR": str(cluster.dir)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        cluster.call("POST", "/jobs", submission(hold=True))
        real = subprocess.run(
            [VENV / "python", "-c", "import sys;print(sys.executable)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        bare = cpu_ms([real, "-c", "pass"], env)
        for name, argv in (("bsub -h", ["bsub", "-h"]), ("bjobs ID", ["bjobs", "1"])):
            used = cpu_ms([cluster.launcher(argv[0]), *argv[1:]], env)
            report(
                "command",
                command=name,
                cpu_ms=round(used, 2),
                bare_ms=round(bare, 2),
                ratio=round(used / bare, 2),
                bar="<= 2.2",
            )


ALL = {
    "noop": noop,
    "array": array,
    "bulk": bulk,
    "single": single,
    "pending": pending,
    "commands": commands,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        ALL[name]()
