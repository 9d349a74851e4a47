"""A crash run: clients submit and jobs run while daemons are killed; then everything is counted.

Each job writes what it did to a file of its own, so what ran is known without the cluster. Clients
keep every id that was acknowledged to them, under the name that they chose for it.
"""

import collections
import contextlib
import random
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import NamedTuple

from crash_checks import (
    Killed,
    Wanted,
    check_history,
    check_journal,
    check_ledger,
    check_rest_is_clean,
    check_rows,
)
from live import KINDS, Live, Row, until, wait_for_ends

from xce.client.rest import PREFIX, Api, ProblemError, UnreachableError, make_key, render_json
from xce.daemon.processes import ProcessId, send_signal, wait_for_end


class Plan(NamedTuple):
    """How large a run is."""

    seed: int
    elements: int
    """How many elements are submitted, about."""
    clients: int = 4
    hosts: str = "h[1-3]"
    slots: int = 8
    pause_s: tuple[float, float] = (0.1, 0.4)
    """Between two kills."""
    think_s: float = 0.15
    """Longest pause of a client between two requests."""
    patience_s: float = 240.0


class Client(threading.Thread):
    """Submits jobs one request after another, and keeps what was acknowledged."""

    def __init__(self, live: Live, number: int, plan: Plan, elements: int, end: float) -> None:
        super().__init__(name=f"client-{number}", daemon=True)
        self.live = live
        self.rng = random.Random(f"{plan.seed}-{number}")
        self.number = number
        self.think_s = plan.think_s
        self.left = elements
        self.end = end
        self.wanted: list[Wanted] = []
        self.names: set[str] = set()
        """Every name that was ever sent."""
        self.resent = 0
        self.fault: BaseException | None = None
        self.api: Api = live.api(wait_s=120)
        self._last = 0

    def run(self) -> None:
        """Submit until all elements are submitted."""
        try:
            while self.left > 0 and time.monotonic() < self.end:
                self._request()
                time.sleep(self.rng.uniform(0, self.think_s))
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self.fault = error

    def _request(self) -> None:
        jobs = [self._job() for _ in range(self.rng.choice((1, 1, 1, 4, 12)))]
        bodies = [body for body, _ in jobs]
        document = {"jobs": bodies} if len(jobs) > 1 else bodies[0]
        key = make_key()
        if self.rng.randrange(8) == 0:
            self._send_and_leave(document, key)
        answer = self.api.call("POST", "/jobs", document=document, key=key)
        ids = [int(result["jobid"]) for result in answer["results"]]
        if self.rng.randrange(10) == 0:
            again = self.api.call("POST", "/jobs", document=document, key=key)
            assert [int(result["jobid"]) for result in again["results"]] == ids
            self.resent += 1
        acknowledged = [
            wanted._replace(job=job) for job, (_, wanted) in zip(ids, jobs, strict=True)
        ]
        self.wanted += acknowledged
        if self.rng.randrange(4) == 0:
            row = self.api.call("GET", f"/jobs/{ids[-1]}")  # what was acknowledged is known
            assert row["jobid"] == ids[-1]
        for wanted in acknowledged:
            if wanted.is_killed:
                body = {"action": "kill", "select": {"jobs": [str(wanted.job)]}}
                self.api.call("POST", "/jobs/actions", document=body)

    def _job(self) -> tuple[Row, Wanted]:
        """Return a submission and what will have to be known of it."""
        rng, live = self.rng, self.live
        self._last += 1
        name = f"c{self.number}-{self._last}"
        self.names.add(name)
        code = rng.choice((0, 0, 0, 0, 3))
        kind = rng.choice(("array", "single", "script", "parallel", "dependent", "killed"))
        size = 0
        members: Row = {"name": name}
        dependency = ""
        if kind == "array":
            size = rng.randint(2, 25)
            members["array"] = f"1-{size}" + rng.choice(("", "%3"))
        elif kind == "parallel":
            members["tasks"] = [2, rng.choice((2, 4))]
            members["resreq"] = rng.choice(([], ["span[hosts=1]"], ["span[ptile=1]"]))
        elif kind == "dependent" and self.wanted:
            dependency = f"{rng.choice(('ended', 'done', 'exit'))}({rng.choice(self.wanted).job})"
            members["dependency"] = dependency
        elif kind == "killed":
            code = 0
        sleep_s = 600.0 if kind == "killed" else rng.choice((0, 0, 0, 0.05, 0.3, 1.0))
        if rng.randrange(3) == 0:
            members["output"] = "out/%J.%I"
            members["output_append"] = True
        if kind == "script":
            # Nothing but a program and plain words: the job shell runs it without a fork.
            body = live.submission(f"{live.home}/record {sleep_s} {code}", **members)
        else:
            body = live.submission(_record(live.home, sleep_s, code), **members)
        self.left -= size or 1
        has_output = "output" in members
        return body, Wanted(0, name, size, code, dependency, kind == "killed", has_output)

    def _send_and_leave(self, document: object, key: str) -> None:
        """Send the request, or a part of it, and leave without hearing what came of it."""
        body = render_json(document).encode()
        head = f"POST {PREFIX}/jobs HTTP/1.1\r\nHost: xce\r\nIdempotency-Key: {key}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        text = head.encode() + body
        if self.rng.randrange(2):
            text = text[: self.rng.randrange(len(text))]
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.live.layout.api_socket))
            connection.sendall(text)
            if self.rng.randrange(2):
                time.sleep(0.01)
        self.resent += 1


def _record(home: Path, sleep_s: float | str, code: int | str) -> str:
    """Return the text of a job that writes down that it began and that it came to its end."""
    file = f"{home}/ledger/$LSB_JOBID.$LSB_JOBINDEX"
    begin = f'echo "b $LSB_JOBID $LSB_JOBINDEX $XCE_ATTEMPT" >>{file}'
    end = f'echo "e $LSB_JOBID $LSB_JOBINDEX $XCE_ATTEMPT" >>{file}'
    pause = f"sleep {sleep_s}; " if sleep_s else ""
    return f"{begin}; {pause}{end}; exit {code}"


class Killer:
    """Kills one daemon after the other, and sees to it that a node manager runs."""

    def __init__(self, live: Live, plan: Plan) -> None:
        self._live = live
        self._rng = random.Random(plan.seed)
        self._pause_s = plan.pause_s
        self._ups: list[subprocess.Popen[bytes]] = []
        self._held: list[tuple[float, ProcessId]] = []
        self.stops = 0
        self._left = 4
        """Kills until the cluster may take a breath."""
        self.killed: list[Killed] = []

    def step(self) -> None:
        """Wait a while, then kill something that runs."""
        time.sleep(self._rng.uniform(*self._pause_s))
        self._let_go()
        self._see_to_manager()
        if not self._left:
            # On a slow machine daemons would be killed before they are up, and nothing happens.
            self._left = self._rng.randint(4, 14)
            self._let_go(all_of_them=True)
            until(self._is_whole, "the cluster is whole again", patience_s=120, pause_s=0.1)
        self._left -= 1
        kind = self._rng.choice(KINDS)
        names = self._live.victims(kind)
        if not names:
            return
        # Now and then all of a kind together, or one that only stands still for a while.
        chosen = dict([self._rng.choice(sorted(names.items()))])
        if self._rng.randrange(7) == 0:
            self._hold(*chosen.values(), until_s=time.monotonic() + self._rng.uniform(0.2, 1.5))
            return
        if self._rng.randrange(6) == 0:
            chosen = names
        at = time.time()
        for process in chosen.values():
            send_signal(process, signal.SIGKILL)
        self.killed += [Killed(at, kind, name) for name in chosen]
        if kind == "node-manager":
            wait_for_end(list(chosen.values()), timeout_s=5)
            self._see_to_manager()

    def close(self) -> None:
        """Leave a whole cluster behind."""
        self._let_go(all_of_them=True)
        for process in self._ups:
            process.wait(timeout=90)
        # A new node manager does not wait before it starts what was killed often.
        manager = self._live.victims("node-manager")
        for process_id in manager.values():
            send_signal(process_id, signal.SIGKILL)
        wait_for_end(list(manager.values()), timeout_s=5)
        self._live.xce("up")

    def _hold(self, process: ProcessId, *, until_s: float) -> None:
        """Let a process stand still."""
        send_signal(process, signal.SIGSTOP)
        self._held.append((until_s, process))
        self.stops += 1

    def _let_go(self, *, all_of_them: bool = False) -> None:
        """Let those go on that have stood still long enough."""
        due = [one for one in self._held if all_of_them or one[0] <= time.monotonic()]
        for one in due:
            self._held.remove(one)
            send_signal(one[1], signal.SIGCONT)

    def _is_whole(self) -> bool:
        """Whether the cluster answers and every host has joined."""
        self._see_to_manager()
        try:
            with self._live.api(wait_s=0) as api:
                hosts = api.call("GET", "/hosts")["hosts"]
        except (UnreachableError, ProblemError):
            return False
        return all(host["status"] not in ("unavail", "unreach") for host in hosts)

    def _see_to_manager(self) -> None:
        """Run `xce up` where no node manager runs and none is being started."""
        self._ups = [process for process in self._ups if process.poll() is None]
        if not self._ups and not self._live.victims("node-manager"):
            self._ups.append(self._live.start_up())


class Result(NamedTuple):
    """What a run came to, for people."""

    jobs: int
    elements: int
    kills: dict[str, int]
    stops: int
    resent: int
    took_s: float


def crash_run(live: Live, plan: Plan) -> Result:
    """Run and check; the cluster is down afterwards.

    Raises:
        AssertionError: A promise was broken; the text says which and about which job.
    """
    began = time.monotonic()
    for name in ("ledger", "out"):
        (live.home / name).mkdir()
        (live.home / name).chmod(0o777)
    _write_program(live.home)
    live.configure("kill_interval_s: 1\n")
    live.xce("up", "--hosts", plan.hosts, "--slots", str(plan.slots))
    end = time.monotonic() + plan.patience_s
    share = -(-plan.elements // plan.clients)
    clients = [Client(live, number, plan, share, end) for number in range(plan.clients)]
    for client in clients:
        client.start()
    killer = Killer(live, plan)
    while any(client.is_alive() for client in clients) and time.monotonic() < end:
        killer.step()
    for _ in range(10):
        killer.step()
    killer.close()
    for client in clients:
        client.join(timeout=60)
        if client.fault is not None:
            raise AssertionError(f"{client.name} failed") from client.fault
        assert client.left <= 0, f"{client.name} could not submit all"
    wanted = {one.job: one for client in clients for one in client.wanted}
    assert len(wanted) == sum(len(client.wanted) for client in clients), "an id was given twice"
    wait_for_ends(live, max(30.0, end - time.monotonic()))
    sent = {name for client in clients for name in client.names}
    ends = check_rows(live, wanted, sent)
    check_ledger(live.home / "ledger", wanted, ends, killer.killed)
    check_history(live, wanted, ends)
    check_rest_is_clean(live)
    live.xce("down")
    check_journal(live, wanted)
    return Result(
        len(wanted),
        len(ends),
        dict(collections.Counter(one.kind for one in killer.killed)),
        killer.stops,
        sum(client.resent for client in clients),
        time.monotonic() - began,
    )


def _write_program(home: Path) -> None:
    """Write the program of the jobs that run without a shell of their own."""
    program = home / "record"
    program.write_text(f"#!/bin/sh\n{_record(home, '$1', '$2')}\n")
    program.chmod(0o755)
