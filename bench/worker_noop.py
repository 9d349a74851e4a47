"""CPU of a no-op job in worker, shepherd and job processes, with a controller of twenty lines.

    .venv/bin/python bench/worker_noop.py [--jobs 3000] [--slots 16] [--script '/bin/true']

Prints one line of JSON: CPU ms a job in the worker, in the shepherd, and in what they started.
"""

import argparse
import asyncio
import getpass
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from xce.daemon.paths import open_layout
from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.model.observation import HostJoined, Reported
from xce.net import message as m
from xce.net.unix import open_unix_server

TICK = os.sysconf("SC_CLK_TCK")


def cpu_ms(pid: int, *, children: bool = False) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    first = 13 if children else 11
    if not children:
        # Nanoseconds, where stat has ticks of 10 ms.
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6
    return (int(fields[first]) + int(fields[first + 1])) * 1000 / TICK


class Controller:
    def __init__(self, jobs: int, slots: int, script: bytes) -> None:
        self.jobs, self.slots = jobs, slots
        self.started = self.ended = 0
        self.free = 0
        self.blobs = {hashlib.blake2b(b, digest_size=16).hexdigest(): b for b in (script, ENV)}
        self.spec = JobSpec(
            command="noop",
            script=next(iter(self.blobs)),
            env=list(self.blobs)[1],
            cwd="/tmp",
            umask=0o022,
        )
        self.owner = Owner(getpass.getuser(), os.getuid(), os.getgid())
        self.joined = asyncio.Event()
        self.done = asyncio.Event()
        self.peer = None
        self.messages = 0

    def accept(self, peer, hello):
        self.peer = peer
        peer.on_messages = self.hear
        peer.on_lost = self.lose
        return m.Welcome(m.PROTOCOL, 1, "bench", "0", 0)

    def lose(self, _):
        self.peer = None

    def hear(self, messages):
        for message in messages:
            self.messages += 1
            if isinstance(message, m.FetchBlobs):
                self.peer.send(
                    m.Blobs(message.id, tuple((h, self.blobs[h]) for h in message.hashes))
                )
            elif isinstance(message.observation, HostJoined):
                self.isolation = message.observation.isolation
                self.joined.set()
            elif isinstance(message.observation, Reported):
                for one in message.observation.ended:
                    assert (one.exit_code, one.cause) == (0, 0), one
                self.peer.send(m.ReportsTaken(message.observation.number))
                count = len(message.observation.ended)
                self.ended += count
                self.launch(count)
        if self.ended == self.jobs:
            self.done.set()

    def launch(self, count):
        count = min(count, self.jobs - self.started)
        if count:
            first = self.started + 1
            self.started += count
            indices = list(range(first, first + count))
            self.peer.send(
                m.Effects(
                    1,
                    (
                        Launch(
                            self.job,
                            indices,
                            [1] * count,
                            self.spec,
                            self.owner,
                            "normal",
                            "default",
                            "bench",
                            (("h1", 1),),
                            1,
                            0,
                            0,
                            600_000_000,
                            10_000_000,
                            "",
                            self.jobs,
                            1,
                        ),
                    ),
                )
            )


ENV = b"\0".join(f"{k}={v}".encode() for k, v in os.environ.items())


def shepherd_pid(log: Path) -> int:
    lines = log.read_text().splitlines()
    return next(json.loads(line)["pid"] for line in lines if "shepherd-started" in line)


async def measure(options) -> None:
    directory = Path(tempfile.mkdtemp(prefix="xce-bench-"))
    layout = open_layout(directory)
    controller = Controller(options.warm, options.slots, options.script.encode())
    controller.job = 1
    await open_unix_server(layout.controller_socket, 0o600, controller.accept)
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-m", "xce.daemon.worker", "--dir", str(directory), "--host", "h1"),
        *(["--no-cgroups"] if options.no_cgroups else []),
        stderr=None if options.show_log else asyncio.subprocess.DEVNULL,
    )
    try:
        await asyncio.wait_for(controller.joined.wait(), 20)
        shepherd = shepherd_pid(layout.log_file("shepherd-h1"))
        controller.launch(options.slots)
        await asyncio.wait_for(controller.done.wait(), 60)
        controller.done.clear()
        controller.job, controller.jobs = 2, options.jobs
        controller.started = controller.ended = 0
        before = cpu_ms(worker.pid), cpu_ms(shepherd), cpu_ms(shepherd, children=True)
        controller.messages = 0
        began = time.monotonic()
        controller.launch(options.slots)
        await asyncio.wait_for(controller.done.wait(), 300)
        wall = time.monotonic() - began
        await asyncio.sleep(0.2)
        after = cpu_ms(worker.pid), cpu_ms(shepherd), cpu_ms(shepherd, children=True)
        spent = [(b - a) / options.jobs for a, b in zip(before, after, strict=True)]
        print(
            json.dumps(
                {
                    "bench": "worker-noop",
                    "jobs": options.jobs,
                    "slots": options.slots,
                    "isolation": controller.isolation,
                    "jobs_per_s": round(options.jobs / wall),
                    "reports": controller.messages,
                    "worker_ms": round(spent[0], 3),
                    "shepherd_ms": round(spent[1], 3),
                    "processes_ms": round(spent[2], 3),
                    "all_ms": round(sum(spent), 3),
                }
            )
        )
        os.kill(shepherd, signal.SIGTERM)
    finally:
        worker.terminate()
        await worker.wait()
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--warm", type=int, default=200)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--script", default="/bin/true")
    parser.add_argument("--no-cgroups", action="store_true")
    parser.add_argument("--show-log", action="store_true")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
