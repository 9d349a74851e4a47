"""The controller's shell: sockets, the journal's thread and the clock around a `Desk`.

One thread decides. Whatever arrives in one turn of the loop is decided in one step; one batch is
being made durable, and what is decided meanwhile is the next. Nothing is told before its commit.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from xce.calendars.windows import Resolver
from xce.control.clock import has_jumped, next_now_us
from xce.control.desk import Batch, Desk
from xce.control.due import next_due_us
from xce.control.effects import owed_keys
from xce.control.liveness import Watch
from xce.control.load import LoadGather
from xce.control.reign import Reign
from xce.control.settle import SettleWindow
from xce.daemon.links import FollowerLink, WorkerLink
from xce.daemon.memory import MemoryGuard, used_mib
from xce.daemon.tail import Tail
from xce.journal.batch import make_batch
from xce.journal.interface import Journal, StoredBatch
from xce.journal.writer import CommitThread
from xce.model.command import Tick
from xce.model.effect import Effect
from xce.model.ids import Epoch, Micros, Seq
from xce.net import message as m
from xce.net.earlier import split_launches
from xce.net.frame import encode_frame
from xce.net.peer import Peer
from xce.state.cluster import ClusterState

TICK_S: Final = 1.0
REPEAT_S: Final = 10.0
"""What a connected worker has been owed for so long is told again."""


class ControllerShell:
    """Runs one controller. Links of peers call `give`; the journal's thread calls back.

    Args:
        desk: Decides and keeps the order.
        journal: Leads; its commit thread is made here.
        epoch: The reign.
        crc: The crc of the last entry in the journal.
        log: Where to write.
        on_fatal: Called when the process must end.
    """

    def __init__(
        self,
        desk: Desk,
        journal: Journal,
        *,
        epoch: Epoch,
        crc: int,
        log: logging.Logger,
        on_fatal: Callable[[BaseException], object],
    ) -> None:
        self.desk = desk
        self.journal = journal
        self.epoch = epoch
        self.log = log
        self.workers: dict[str, WorkerLink] = {}
        self.followers: list[FollowerLink] = []
        self.troubled: list[Peer] = []
        """Who is told when the journal cannot be written."""
        self.history_seq: Seq = 0
        self.on_durable: Callable[[Seq], object] = lambda _: None
        """Called when something became durable: up to which entry all is."""
        self.on_look: Callable[[Micros], object] = lambda _: None
        """Called when something became durable, and at each tick."""
        self.tail = Tail(0, 0)
        self._crc = crc
        self._loop = asyncio.get_running_loop()
        self.reign = Reign(desk, self)
        self.give = self.reign.give
        self._flying: tuple[Batch, StoredBatch] | None = None
        self._last_mono_ns = time.monotonic_ns()
        self._now_us = self.state.now_us
        self._has_jumped = False
        self._commits = CommitThread(
            journal,
            epoch=epoch,
            call_soon=self._loop.call_soon_threadsafe,
            on_durable=self._note_durable,
            on_trouble=self._note_trouble,
            on_fatal=on_fatal,
        )
        self.watch = Watch()
        self.loads = LoadGather()
        self._guard = MemoryGuard(desk, log)
        self._resolver = Resolver()
        table = self.state.hosts
        expected = [name for name, is_up in zip(table.names, table.is_up, strict=True) if is_up]
        self._settling = SettleWindow(expected, self.now_us() + self.state.config.settle_max_us)
        self._tick_timer: asyncio.TimerHandle | None = None
        self._repeat_timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def state(self) -> ClusterState:
        """The state, ahead of what is durable."""
        return self.desk.controller.state

    def start(self) -> None:
        """Begin to commit and to tick."""
        self._commits.start()
        self._tick()
        self._repeat_timer = self._loop.call_later(REPEAT_S, self._repeat)

    def close(self) -> None:
        """Commit what was decided and end."""
        self._is_closed = True
        for timer in (self._tick_timer, self._repeat_timer):
            if timer is not None:
                timer.cancel()
        self._commits.close(timeout_s=10)

    def now_us(self) -> Micros:
        """Return the present instant (decision X-21); never before the last one."""
        mono_ns = time.monotonic_ns()
        elapsed_us = (mono_ns - self._last_mono_ns) // 1_000
        self._last_mono_ns = mono_ns
        last_us, wall_us = self._now_us, time.time_ns() // 1_000
        self._now_us = next_now_us(last_us, elapsed_us=elapsed_us, wall_us=wall_us)
        self._has_jumped |= has_jumped(last_us, self._now_us, elapsed_us=elapsed_us)
        return self._now_us

    def turn_soon(self) -> None:
        """Have what came decided in the next round of the loop."""
        if not self._is_closed:
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        now_us = self.now_us()
        jumped, self._has_jumped = self._has_jumped, False
        self.reign.turn(now_us, has_jumped=jumped)

    def write(self, batch: Batch) -> None:
        """Hand a batch to the journal's thread."""
        stored = make_batch(batch.entries, crc_before=self._crc)
        self._crc = stored.crc
        self._flying = (batch, stored)
        self._commits.submit(stored, batch.blobs)

    def _note_durable(self, seq: Seq) -> None:
        assert self._flying is not None
        batch, stored = self._flying
        assert stored.last == seq
        self._flying = None
        self.tail += Tail(len(batch.entries), len(stored.content))
        if self.followers:
            # First of all, so that whoever gets an answer finds it in his replica.
            frame = encode_frame(m.Batch(stored.first, stored.last, stored.content))
            for link in self.followers:
                link.note_batch(stored.first, stored.last, frame)
        self.reign.tell(batch)
        self.on_durable(seq)
        for link in self.followers:
            link.peer.flush()  # somebody waits for these answers, and the rest here takes a while
        self.on_look(self._now_us)
        self.reign.pump()

    def _note_trouble(self, text: str) -> None:
        if text:
            self.log.error("journal-failed", extra={"why": text})
        else:
            self.log.info("journal-recovered")
        self.reign.set_trouble(text)
        self.troubled = [peer for peer in self.troubled if peer.is_open]
        for peer in self.troubled:
            peer.send(m.JournalTrouble(text))

    def tell_of_trouble(self, peer: Peer) -> None:
        """Tell a peer, now and from now on, that the journal cannot be written."""
        self.troubled.append(peer)
        if self.desk.trouble:
            peer.send(m.JournalTrouble(self.desk.trouble))

    def send_effects(self, host: str, effects: tuple[Effect, ...]) -> None:
        """Tell the worker of a host, if its join is durable."""
        link = self.workers.get(host)
        if link is not None and link.is_joined:
            told, undone = split_launches(effects, link.peer.protocol, host)
            link.peer.send(m.Effects(self.epoch, told))
            if undone is not None:
                self.reign.give(undone, by=f"host {host}", basis="component")

    def _tick(self) -> None:
        windows = self._resolver.due(self.state, self.now_us())
        if windows is not None:
            self.reign.give(windows)
        is_settling = self._settling.is_open(self.workers.keys(), self._now_us)
        self.reign.give(Tick(self.history_seq, is_settling))
        self._cut_silent()
        self._look_at_load()
        self._guard.look(self.state.config.controller_memory_mib, used_mib())
        self.on_look(self._now_us)
        wait_s = min(TICK_S, self.state.config.heartbeat_us / 2_000_000)
        due_us = next_due_us(self.state)
        if due_us:
            wait_s = min(wait_s, max(0.01, (due_us - self._now_us) / 1_000_000))
        self._tick_timer = self._loop.call_later(wait_s, self._tick)

    def note_heard(self, link: WorkerLink, *, is_beat: bool = False) -> None:
        """Note that a worker said something."""
        if self.workers.get(link.host) is link:
            now_us = time.monotonic_ns() // 1_000
            if is_beat:
                self.watch.hear(link.host, now_us, self.state.config.heartbeat_us)
            else:
                self.watch.note(link.host, now_us)

    def _cut_silent(self) -> None:
        """End the connections of workers of which nothing is heard any more."""
        now_us = time.monotonic_ns() // 1_000
        for host in self.watch.silent(now_us, self.state.config.heartbeat_us):
            self.watch.forget(host)
            link = self.workers.get(host)
            if link is not None:
                link.is_silent = True
                link.peer.abort("nothing was heard of it for too long")

    def _look_at_load(self) -> None:
        """Have recorded what has changed of the load of hosts."""
        if not self.desk.trouble:
            seen = self.loads.take(self.state, self._now_us)
            if seen is not None:
                self.reign.give(seen)

    def _repeat(self) -> None:
        """Tell connected workers again what they have been owed for long."""
        numbers = self.state.hosts.number
        for name, link in self.workers.items():
            number = numbers.get(name)
            if number is not None and link.is_stale(owed_keys(self.state, number)):
                self.desk.repeat(number)
        self.reign.pump()
        self._repeat_timer = self._loop.call_later(REPEAT_S, self._repeat)

    def trim(self, before: Seq) -> None:
        """Drop what lies before an entry and is in a snapshot and in the history."""
        self._commits.trim(before)

    def forget_blobs(self, digests: Sequence[str]) -> None:
        """Drop blobs that nothing names."""
        self._commits.forget_blobs(digests)
