"""The controller process of a world: a `Desk` between the virtual network, disk and clock.

It does what `xce.daemon.controller_shell` does with sockets: nothing is told before its commit.
"""

from collections.abc import Callable
from random import Random
from typing import cast, get_args

from xce.calendars.windows import Resolver
from xce.control.clock import has_jumped, next_now_us
from xce.control.controller import Controller, Reply
from xce.control.desk import Batch, Desk
from xce.control.due import next_due_us
from xce.control.liveness import Watch
from xce.control.load import LoadGather
from xce.control.reign import Reign
from xce.control.settle import SettleWindow
from xce.journal.backup import is_restored
from xce.journal.batch import make_batch
from xce.journal.interface import StoredBatch
from xce.journal.recover import recover
from xce.model.command import ApplyConfig, EnrolHost, Tick, TrustKey
from xce.model.config import ClusterConfig
from xce.model.effect import Effect
from xce.model.ids import SECOND_US, Micros
from xce.model.observation import HostDisconnected, HostJoined, ReignBegan, Reported
from xce.net import message as m
from xce.net.allowlist import Gate
from xce.net.follow import FollowerFeed
from xce.net.task_relays import TaskRelays
from xce.sim.disk import Disk
from xce.sim.loop import Loop, Process
from xce.sim.network import Network, Wire
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import load

TICK_US = SECOND_US
REPEAT_US = 3 * SECOND_US
RETRY_US = SECOND_US // 2
_MESSAGES = frozenset(get_args(m.Message))


class _Line:
    """A connection, for what is relayed."""

    is_open = True
    protocol = m.PROTOCOL

    def __init__(self, wire: Wire, end: "Leader") -> None:
        self._wire, self._end = wire, end

    def send(self, message: m.Message) -> None:
        """Send a message to its other side."""
        self._wire.send(self._end, message)


class Leader(Process):
    """One reign. Made again after each crash, from what the disk has."""

    def __init__(
        self,
        loop: Loop,
        network: Network,
        disk: Disk,
        rng: Random,
        *,
        config: ClusterConfig,
        wall_us: Callable[[], Micros],
        controller: type[Controller] = Controller,
        first_keys: tuple[tuple[str, bytes], ...] = (),
    ) -> None:
        super().__init__(loop)
        self.disk = disk
        self.network = network
        self._rng = rng
        self._wall_us = wall_us
        self.epoch = disk.lead()
        state, _, self._crc = recover(disk, restore=load, empty=ClusterState, apply_entry=apply)
        self.recovered_seq = state.seq
        self.desk = Desk(controller(state))
        self._now_us = state.now_us
        self._has_jumped = False
        self._mono_us = loop.now_us
        self.reign = Reign(self.desk, self)
        self.give = self.reign.give
        self._resolver = Resolver()
        self.workers: dict[str, Wire] = {}
        self.feeds: dict[Wire, FollowerFeed] = {}
        self._watch = Watch()
        self._loads = LoadGather()
        self._silent: dict[Wire, None] = {}
        """Connections that were cut since nothing was heard on them."""
        self._joined: dict[Wire, None] = {}
        """Connections of workers whose join is durable."""
        self._gates: dict[Wire, Gate] = {}
        self._trust_change = -1
        """`TrustTable.change` when keys were last looked at."""
        self._expires_us: Micros = 0
        """When the next key expires; 0: never."""
        self._relays = TaskRelays()
        self._lines: dict[Wire, _Line] = {}
        self.refused = 0
        """Messages that were not allowed."""
        table = self.state.hosts
        expected = [name for name, is_up in zip(table.names, table.is_up, strict=True) if is_up]
        self._settling = SettleWindow(expected, self.now_us() + self.state.config.settle_max_us)
        self._settle(config, first_keys)
        self.after(TICK_US, self._tick)
        self.after(REPEAT_US, self._repeat)
        network.listener, network.listening = self.accept, self

    @property
    def state(self) -> ClusterState:
        """The state, ahead of what is durable."""
        return self.desk.controller.state

    def _settle(self, config: ClusterConfig, first_keys: tuple[tuple[str, bytes], ...]) -> None:
        trust = self.state.trust
        if not (trust.keys or trust.revoked):
            for host, certificate in first_keys:
                command = TrustKey("root", certificate, "worker", host)
                self.give(command, by="root", basis="admin")
        self.give(ApplyConfig("root", config, is_admin=True), by="root", basis="admin")
        begins = ReignBegan(is_restored=is_restored(self.disk))
        self.give(begins, by="controller", basis="component")

    def kill(self) -> None:
        """Die at once."""
        self.is_alive = False
        if self.network.listening is self:
            self.network.listener = self.network.listening = None
        self.network.cut_all(self)
        self.disk.crash(self.epoch)

    @property
    def leads_surely(self) -> bool:
        """Whether nobody else can lead now: its lease has not run out."""
        return self.disk.epoch == self.epoch

    def now_us(self) -> Micros:
        """Return the present instant (decision X-21)."""
        elapsed_us = self.loop.now_us - self._mono_us
        self._mono_us = self.loop.now_us
        last_us = self._now_us
        self._now_us = next_now_us(last_us, elapsed_us=elapsed_us, wall_us=self._wall_us())
        self._has_jumped |= has_jumped(last_us, self._now_us, elapsed_us=elapsed_us)
        return self._now_us

    def turn_soon(self) -> None:
        """Have what came decided a little later."""
        self.after(self._rng.randrange(200), self._turn)

    def _turn(self) -> None:
        self.seam("turn")
        now_us = self.now_us()
        jumped, self._has_jumped = self._has_jumped, False
        self.reign.turn(now_us, has_jumped=jumped)

    def write(self, batch: Batch) -> None:
        """Give a batch to the virtual disk."""
        self.seam("decided")
        stored = make_batch(batch.entries, crc_before=self._crc)
        self._crc = stored.crc
        self._write(batch, stored)

    def _write(self, batch: Batch, stored: StoredBatch) -> None:
        def end(is_stored: bool) -> None:
            if not self.is_alive:
                return
            if not is_stored:
                self.reign.set_trouble("no space left on the virtual disk")
                self.seam("trouble told")
                self.after(RETRY_US, self._write, batch, stored)
                return
            self.seam("durable")
            if self.desk.trouble:
                self.desk.set_trouble("")
            for wire, feed in list(self.feeds.items()):
                if feed.takes_live(stored.first, stored.last, 0):
                    wire.send(self, m.Batch(stored.first, stored.last, stored.content))
                else:
                    self._send_stored(wire, feed)
                self.seam("follower told")
            self.reign.tell(batch)
            self._relays.settle(self.desk.durable_seq)
            self.look_at_keys()
            self.reign.pump()

        self.disk.write(self.epoch, stored, batch.blobs, end, self.kill)
        self.seam("written")

    def send_effects(self, host: str, effects: tuple[Effect, ...]) -> None:
        """Tell the worker of a host, if its join is durable."""
        link = self.workers.get(host)
        if link is not None and link in self._joined:
            link.send(self, m.Effects(self.epoch, effects))
            self.seam("effects told")

    def _send_stored(self, wire: Wire, feed: FollowerFeed) -> None:
        for message in feed.next_messages(0):
            wire.send(self, message)

    def look_at_keys(self) -> None:
        """End the connections whose keys are not trusted any more."""
        now_us, trust = self.now_us(), self.state.trust
        if trust.change == self._trust_change and not 0 < self._expires_us <= now_us:
            return
        self._trust_change = trust.change
        later = (key.expires_at_us for key in trust.keys.values() if key.expires_at_us > now_us)
        self._expires_us = min(later, default=0)
        for wire, gate in list(self._gates.items()):
            if wire.key and self.refuse_key(wire, gate.role, gate.name, now_us):
                wire.close(self)
                self.lose(wire)

    def refuse_key(self, wire: Wire, role: str, name: str, now_us: Micros) -> str:
        """Return why a peer is not wanted; who has no key is on the same machine."""
        if not wire.key:
            return ""
        return self.state.trust.refuse(wire.key, role, name, now_us)

    def _tick(self) -> None:
        self.seam("tick")
        self.look_at_keys()
        windows = self._resolver.due(self.state, self.now_us())
        if windows is not None:
            self.reign.give(windows)
        stored_seq = max(0, self.desk.durable_seq - self._rng.randrange(40))
        is_settling = self._settling.is_open(self.workers.keys(), self._now_us)
        self.reign.give(Tick(stored_seq, is_settling))
        self._cut_silent()
        seen = None if self.desk.trouble else self._loads.take(self.state, self._now_us)
        if seen is not None:
            self.give(seen)
        due_us = next_due_us(self.state)
        span_us = min(TICK_US, self.state.config.heartbeat_us // 2)
        if due_us:
            span_us = min(span_us, max(10_000, due_us - self._now_us))
        self.after(span_us, self._tick)

    def _cut_silent(self) -> None:
        for name in self._watch.silent(self.loop.now_us, self.state.config.heartbeat_us):
            self._watch.forget(name)
            wire = self.workers.get(name)
            if wire is not None:
                self._silent[wire] = None
                wire.close(self)
                self.lose(wire)

    def _repeat(self) -> None:
        for name in self.workers:
            number = self.state.hosts.number.get(name)
            if number is not None:
                self.desk.repeat(number)
        self.reign.pump()
        self.after(REPEAT_US, self._repeat)

    # Connections.

    def enrol(self, command: EnrolHost, on_reply: Callable[[Reply], object]) -> None:
        """Have the key of a host trusted that has a token; its connection dies with us."""

        def answer(reply: Reply) -> None:
            if self.is_alive:
                on_reply(reply)

        self.give(command, by=f"token {command.token}", basis="token", on_reply=answer)

    def accept(self, wire: Wire, role: str, name: str) -> bool:
        """Take a connection, or not."""
        if self.refuse_key(wire, role, name, self.now_us()):
            return False
        self._gates[wire] = Gate(role, name)
        self.seam("accepted")
        if role == "worker":
            earlier = self.workers.get(name)
            self.workers[name] = wire
            self._watch.forget(name)
            if earlier is not None:
                earlier.close(self)
                self._drop_line(earlier)
        cluster = self.state.config.cluster_name
        beat_us = self.state.config.heartbeat_us
        wire.send(
            self,
            m.Welcome(m.PROTOCOL, self.epoch, cluster, "sim", self.desk.durable_seq, beat_us),
        )
        self.seam("welcomed")
        return True

    def hear(self, wire: Wire, message: object) -> None:
        """Take a message."""
        gate = self._gates.get(wire)
        if gate is None:
            return
        if type(message) not in _MESSAGES or gate.refuse(cast("m.Message", message)):
            self.refused += 1
            wire.cut()
            return
        self.seam("heard")
        role, name = gate.role, gate.name
        if role == "worker" and self.workers.get(name) is wire:
            self._note_sign(name, message)
        match message:
            case m.Ping(number, load):
                if load:
                    self._loads.hear(name, load)
                if self.leads_surely:
                    wire.send(self, m.Pong(number, self.state.config.heartbeat_us))
            case m.Ask():
                self._ask(wire, role, message)
            case m.Follow():
                feed = self.feeds[wire] = FollowerFeed(self.disk, message, epoch=self.epoch)
                self._send_stored(wire, feed)
            case m.Observe(observation=Reported() as seen):
                self._report(wire, name, seen)
            case m.Observe(observation=HostJoined() as seen):
                self._join(wire, name, seen)
            case m.TaskAsk() | m.TaskPiece():
                self._relay(wire, name, message)
            case _:
                raise AssertionError(f"a controller is told {message!r}")

    def _note_sign(self, name: str, message: object) -> None:
        """Note that a worker lives."""
        if isinstance(message, m.Ping):
            self._watch.hear(name, self.loop.now_us, self.state.config.heartbeat_us)
        else:
            self._watch.note(name, self.loop.now_us)

    def _ask(self, wire: Wire, role: str, ask: m.Ask) -> None:
        def answer(reply: Reply) -> None:
            wire.send(self, m.Answer(ask.id, reply.seq, reply.results))
            self.seam("answered")

        by = "scheduler" if role == "scheduler" else ask.by
        self.give(ask.command, by=by, basis=ask.basis or "component", on_reply=answer)

    def _relay(self, wire: Wire, name: str, message: m.TaskAsk | m.TaskPiece) -> None:
        """Pass on what the worker of one host asks of that of another, or the answer."""
        line = self._line(wire)
        if isinstance(message, m.TaskPiece):
            self._relays.answer(line, message)
        else:
            asked = self.workers.get(message.host)
            worker = self._line(asked) if asked is not None and asked in self._joined else None
            self._relays.ask(
                line, message, self.state, by=name, worker=worker,
                durable_seq=self.desk.durable_seq,
            )  # fmt: skip
        self.seam("task passed on")

    def _line(self, wire: Wire) -> _Line:
        return self._lines.setdefault(wire, _Line(wire, self))

    def _drop_line(self, wire: Wire) -> None:
        line = self._lines.pop(wire, None)
        if line is not None:
            line.is_open = False
            self._relays.drop(line)

    def _join(self, wire: Wire, name: str, seen: HostJoined) -> None:
        def joined(reply: Reply) -> None:
            assert not reply.results, f"host {name} is refused"
            if wire in self._gates:
                self._joined[wire] = None
            self.seam("joins told")

        self.give(seen, by=f"host {name}", basis="component", on_reply=joined)

    def _report(self, wire: Wire, name: str, seen: Reported) -> None:
        def taken(_: Reply) -> None:
            wire.send(self, m.ReportsTaken(seen.number))

        self.give(seen, by=f"host {name}", basis="component", on_reply=taken)

    def lose(self, wire: Wire) -> None:
        """Learn that a connection has ended."""
        gate = self._gates.pop(wire, None)
        self._drop_line(wire)
        if gate is None:
            return  # it was never taken
        role, name = gate.role, gate.name
        self.feeds.pop(wire, None)
        self._joined.pop(wire, None)
        if role == "worker" and self.workers.get(name) is wire:
            del self.workers[name]
            self._watch.forget(name)
            self._loads.forget(name)
            is_silent = self._silent.pop(wire, 0) is None
            self.give(HostDisconnected(name, is_silent), by=f"host {name}", basis="component")
