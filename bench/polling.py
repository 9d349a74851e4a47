"""What 200 clients that ask once a second do to the time from submission to start. One JSON line.

python bench/polling.py [CLIENTS] [SAMPLES]

Each client keeps a connection and asks what ``bjobs`` asks. The processes of real clients cost their
own machines; here they would take the two cores that the cluster has.
"""

import asyncio
import contextlib
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import Cluster, report, submission

ASK = (
    b"GET /xce/v1/jobs?limit=20000&fields=stat,user,queue,from_host,hosts,name,submit_at HTTP/1.1\r\n"
    b"Host: x\r\n\r\n"
)
PERIOD_S = 1.0


async def poll(path, number, clients, asked):
    """Ask once a second, the clients spread over it."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    await asyncio.sleep(PERIOD_S * number / clients)
    with contextlib.closing(writer):
        while True:
            writer.write(ASK)
            head = await reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.decode().splitlines():
                name, _, value = line.partition(":")
                if name.lower() == "content-length":
                    length = int(value)
                if name.lower() == "transfer-encoding":
                    length = -1
            if length >= 0:
                await reader.readexactly(length)
            else:
                while (size := int((await reader.readline()).split(b";")[0], 16)) > 0:
                    await reader.readexactly(size + 2)
                await reader.readline()
            asked[0] += 1
            await asyncio.sleep(PERIOD_S)


def latencies(cluster, samples):
    """Return the milliseconds from submission to placement of single jobs, as the cluster has them."""
    found = []
    for _ in range(samples):
        job = cluster.call("POST", "/jobs", submission())["results"][0]["jobid"]
        while True:
            rows = cluster.call("GET", f"/history/jobs?ids={job}")["rows"]
            if rows and rows[0]["stat"] in ("DONE", "EXIT"):
                break
        steps = {step["what"]: step["at"] for step in rows[0]["steps"]}
        found.append((steps["dispatched"] - steps["submitted"]) * 1000)
    return found


async def main():
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    samples = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    with Cluster() as cluster:
        cluster.call("POST", "/jobs", submission(array="1-200", hold=True))
        for _ in range(100):
            cluster.call("POST", "/jobs", submission(hold=True))
        latencies(cluster, 10)
        quiet, polled = [], []
        asked = [0]
        for _ in range(3):
            quiet += await asyncio.to_thread(latencies, cluster, samples // 3)
            tasks = [
                asyncio.create_task(poll(cluster.socket, number, clients, asked))
                for number in range(clients)
            ]
            await asyncio.sleep(1.5)
            before = asked[0], cluster.cpu_s().get("apiserver", 0.0)
            loop = asyncio.get_running_loop()
            start = loop.time()
            polled += await asyncio.to_thread(latencies, cluster, samples // 3)
            seconds = loop.time() - start
            rate = (asked[0] - before[0]) / seconds
            cpu = (cluster.cpu_s().get("apiserver", 0.0) - before[1]) / max(1, asked[0] - before[0])
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    base, loaded = statistics.median(quiet), statistics.median(polled)
    report(
        "polling",
        clients=clients,
        asked_per_s=round(rate, 1),
        apiserver_ms_per_ask=round(cpu * 1000, 2),
        quiet_ms=round(base, 2),
        polled_ms=round(loaded, 2),
        ratio=round(loaded / base, 3),
        bar="< 1.1",
    )


if __name__ == "__main__":
    asyncio.run(main())
