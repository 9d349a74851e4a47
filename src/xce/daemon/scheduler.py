"""The scheduler process: a follower that runs sessions and proposes their plans.

``python -m xce.daemon.scheduler --dir D``

A session runs when something came that can cure a reason, and at the instant at which a reservation
may have moved by time alone; the controller gathers news for at most
2 ms (``session_gather_ms``) before it sends them here. One plan is in flight: the next session runs
on a state that holds the entry which answered the last one.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import sys
import time
from pathlib import Path
from typing import Final

import uvloop

from xce.client.version import VERSION
from xce.daemon.dialling import find_ways, own_controller
from xce.daemon.faults import end_on_fault
from xce.daemon.logs import open_log
from xce.daemon.paths import Layout, find_layout
from xce.daemon.signals import stop_event
from xce.daemon.tracing import Tracing
from xce.daemon.warm import Warm, load_warm
from xce.journal.codec import decode_batch
from xce.journal.interface import JournalHeldError
from xce.journal.lock import DirectoryLock
from xce.model.command import ProposePlan, StopTrace
from xce.model.ids import Seq
from xce.net import message as m
from xce.net.ask import ConnectionLostError, Requests
from xce.net.follow import AskAgain, Began, Came, Follower, IsLive
from xce.net.handshake import make_hello
from xce.net.leader import LeaderClient, tell_changes
from xce.net.peer import Peer
from xce.sched.pace import AT_ONCE, Pace
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import load

SLOW_SESSION_US: Final = 100_000
REFUSED_PAUSE_S: Final = 0.5


class Scheduler:
    """Follows the journal and proposes plans."""

    def __init__(self, log: logging.Logger, traces: Path) -> None:
        self._log = log
        self._tracing = Tracing(traces, log)
        self._state = ClusterState()
        self._memory = Memory()
        self._pace = Pace()
        self._follower = Follower(decode_batch)
        self._requests = Requests()
        self._peer: Peer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._look_timer: asyncio.TimerHandle | None = None
        """Set for the instant at which time alone makes a session worth running."""
        self._may_plan = True
        self._in_flight = False
        self._answer_seq: Seq = 0
        self._planned_seq: Seq = 0
        """The last entry in the view of the last plan."""

    def begin_warm(self, warm: Warm) -> None:
        """Begin with a state from elsewhere; before the first connection."""
        self._state = warm.state
        self._follower = warm.follower()

    def welcome(self, peer: Peer, welcome: m.Welcome, *, may_plan: bool = True) -> None:
        """Begin to follow on a new connection, and to plan when ``may_plan``."""
        self._peer = peer
        self._may_plan = may_plan
        self._in_flight = False
        self._answer_seq = 0
        peer.send(self._follower.follow(welcome.epoch))

    def lose(self, reason: str) -> None:
        """Note that the connection has ended."""
        self._peer = None
        self._requests.fail_all(reason)
        self._log.info("controller-lost", extra={"why": reason})

    def hear(self, messages: list[m.Message]) -> None:
        """Take what came."""
        for message in messages:
            if isinstance(message, m.SnapshotPart | m.Batch | m.CaughtUp):
                self._take(message)
            else:
                self._requests.settle(message)
        self._plan_soon()

    def _take(self, message: m.SnapshotPart | m.Batch | m.CaughtUp) -> None:
        for step in self._follower.take(message):
            match step:
                case Came(entries):
                    for entry in entries:
                        apply(self._state, entry)
                        self._memory.note(entry)
                        self._pace.note(entry)
                case Began(_, parts):
                    self._state = load(parts) if parts else ClusterState()
                    self._memory = Memory()
                    gc.collect()
                    gc.freeze()
                case AskAgain(follow, why):
                    self._log.warning("stream-begins-again", extra={"why": why})
                    if self._peer is not None:
                        self._peer.send(follow)
                case IsLive():
                    pass

    def _plan_soon(self) -> None:
        """Run a session soon when one is worth it and none is under way."""
        if self._timer is not None or self._in_flight:
            return
        if not (self._may_plan and self._follower.is_live):
            return
        if self._state.seq < self._answer_seq:
            return
        if not self._memory.is_due:
            self._look_later()
            return
        wait_us = self._pace.wait_us
        if wait_us and self._pace.refused == AT_ONCE:
            self._log.error("plans-refused", extra={"refused": AT_ONCE, "seq": self._state.seq})
        self._timer = asyncio.get_running_loop().call_later(wait_us / 1_000_000, self._plan)

    def _look_later(self) -> None:
        """Run a session when time alone may have changed something, if it may."""
        if self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None
        if self._memory.look_at_us:
            delay_us = max(self._memory.look_at_us - time.time_ns() // 1_000, 0)
            loop = asyncio.get_running_loop()
            self._look_timer = loop.call_later(delay_us / 1_000_000, self._look)

    def _look(self) -> None:
        self._look_timer = None
        if self._timer is None:
            self._plan()

    def _plan(self) -> None:
        self._timer = None
        peer = self._peer
        if peer is None or self._in_flight or not (self._may_plan and self._follower.is_live):
            return
        began_ns = time.monotonic_ns()
        now_us = max(self._state.now_us, time.time_ns() // 1_000)
        trace = self._tracing.open(self._state, now_us)
        plan = run_session(self._state, now_us=now_us, memory=self._memory, trace=trace)
        took_us = (time.monotonic_ns() - began_ns) // 1_000
        if took_us > SLOW_SESSION_US:
            self._log.info("session-slow", extra={"took_us": took_us, "seq": plan.seq})
        if trace is not None:
            self._end_rules(peer, self._tracing.keep(trace))
        if plan.is_empty:
            self._plan_soon()
            return
        self._in_flight = True
        self._planned_seq = plan.seq
        try:
            answer = self._requests.start(peer, lambda i: m.Ask(i, ProposePlan(plan)))
        except ConnectionLostError:
            self._in_flight = False
            return
        answer.add_done_callback(self._answered)

    def _end_rules(self, peer: Peer, numbers: tuple[int, ...]) -> None:
        """End the rules of what is traced that have had their sessions."""
        if numbers:
            # Should it be lost, they run out in time.
            command = StopTrace("scheduler", is_admin=True, rules=numbers)
            with contextlib.suppress(ConnectionLostError):
                _ = self._requests.start(peer, lambda i: m.Ask(i, command))

    def _answered(self, answer: asyncio.Future[m.Message]) -> None:
        self._in_flight = False
        if answer.cancelled() or answer.exception() is not None:
            return
        message = answer.result()
        if isinstance(message, m.Answer):
            if message.seq <= self._state.seq and message.seq <= self._planned_seq:
                # Nothing of it was written: the journal is in trouble. The plan would be the same.
                self._pause()
                return
            self._answer_seq = message.seq
        self._plan_soon()

    def _pause(self) -> None:
        """Run the next session a while later."""
        self._timer = asyncio.get_running_loop().call_later(REFUSED_PAUSE_S, self._plan)


def make_client(layout: Layout, scheduler: Scheduler, log: logging.Logger) -> LeaderClient:
    """Return the connection that keeps a scheduler warm, and lets it plan for its own controller.

    Beside each controller there is a scheduler. All of them follow whoever leads; only the one on
    the leader's own machine plans, so that there is one at a time. A controller that has just begun
    to lead may be reached over the network before its own socket is dialled again: it is known by
    its key then, or nobody would plan for it.
    """
    own = layout.controller_socket
    ways = find_ways(layout, "scheduler", log)

    def welcome(peer: Peer, welcomed: m.Welcome) -> None:
        key = peer.identity.key
        is_own = client.destination == own or key == own_controller(layout.keys) != ""
        scheduler.welcome(peer, welcomed, may_plan=is_own)

    client = LeaderClient(
        ways.destinations,
        make_hello("scheduler", ways.name or "scheduler", VERSION),
        welcome,
        scheduler.hear,
        scheduler.lose,
        on_refused=tell_changes(log, "connection-refused"),
        on_failed=tell_changes(log, "controller-not-reached"),
        on_controllers=ways.learn,
    )
    return client


async def _run(directory: Path) -> int:
    log = open_log("scheduler")
    stop = stop_event()
    layout = find_layout(directory)
    scheduler = Scheduler(log, layout.traces)
    warm = load_warm(layout, log)
    if warm is not None:
        scheduler.begin_warm(warm)
    faults = end_on_fault(log, "scheduler-failed", stop)
    client = asyncio.create_task(make_client(layout, scheduler, log).run())
    stopped = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({client, stopped}, return_when=asyncio.FIRST_COMPLETED)
    client.cancel()
    if client in done and client.exception() is not None:
        log.error("scheduler-failed", exc_info=client.exception())
        return 1
    return 1 if faults else 0


def main() -> int:
    """Run the scheduler."""
    parser = argparse.ArgumentParser(prog="xce scheduler", description=__doc__)
    parser.add_argument("--dir", required=True, help="the state directory")
    options = parser.parse_args()
    gc.set_threshold(200_000, 20, 100)
    directory = Path(options.dir)
    try:
        lock = DirectoryLock(directory / "scheduler.lock", holder="scheduler")
    except (JournalHeldError, OSError) as error:
        log = open_log("scheduler")
        log.error("scheduler-not-started", extra={"why": str(error)})  # noqa: TRY400 - for people
        return 1
    try:
        return uvloop.run(_run(directory))
    finally:
        lock.release()


if __name__ == "__main__":
    sys.exit(main())
