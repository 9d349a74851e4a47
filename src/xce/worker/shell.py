"""The worker: the host state machine between the controller and the shepherd.

Everything goes in batches: effects that came together become one frame of orders, news that came
together become one report. A report leaves at once when none is under way, else it gathers for at
most 2 ms or until one is acknowledged. There is one timer, for what is due next.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from xce.model.device import Device
from xce.model.effect import Launch
from xce.model.ids import Micros
from xce.model.observation import HostJoined, Reported
from xce.model.processor import Processor
from xce.model.task import EndFile, ReadFile, TaskFault, WriteFile
from xce.net import message as m
from xce.net.destination import Destination
from xce.net.handshake import make_hello
from xce.net.leader import LeaderClient
from xce.net.peer import Peer
from xce.worker import streams
from xce.worker.accounts import Accounts, NoAccountError
from xce.worker.action import (
    Action,
    Answer,
    Checkpoint,
    Ended,
    Event,
    Forget,
    Greeting,
    Key,
    Lead,
    Lease,
    Led,
    Listed,
    News,
    Present,
    Report,
    SetLimit,
    Signal,
    Spawn,
    SpawnPart,
    Suspend,
    Warn,
)
from xce.worker.asks import Asks
from xce.worker.beat import Beat
from xce.worker.checkpoints import checkpoint_order, warning_order
from xce.worker.clock import boot_us, clock_us
from xce.worker.core import HostState
from xce.worker.dates import render_date
from xce.worker.file_desk import FileDesk
from xce.worker.hollow import HollowOptions, HollowShepherd
from xce.worker.launch_desk import LaunchDesk, LaunchDoor
from xce.worker.launcher import Launcher, Prepared
from xce.worker.link import Shepherding, ShepherdLink, ShepherdList, ShepherdOptions
from xce.worker.load import LoadMeter
from xce.worker.order import AppendOrder, OrderFrame
from xce.worker.part_desk import PartDesk
from xce.worker.remote import Remote
from xce.worker.report import Around, render_report
from xce.worker.store import Store

WINDOW: Final = 4
"""Most reports under way at once."""
GATHER_S: Final = 0.002
HOUSEKEEPING_S: Final = 30.0
SWEEP_S: Final = 3600.0


class WorkerOptions(NamedTuple):
    """What a worker is told."""

    host: str
    directory: Path
    """The host's own: run directories, scripts, kept output."""
    controllers: tuple[Destination, ...]
    """Where controllers listen, one of which leads."""
    shepherd: ShepherdOptions | HollowOptions
    """How jobs are run, or simulated."""
    version: str
    cpus: int
    mem_mib: int
    retention_s: float
    on_controllers: Callable[[tuple[bytes, ...]], object] = lambda _: None
    """Keeps the certificates that controllers of the cluster have now."""
    devices: tuple[Device, ...] = ()
    """The GPUs that were found."""
    attributes: tuple[tuple[str, int], ...] = ()
    """What the host is made of, in thousandths."""
    processors: tuple[Processor, ...] = ()
    """The processors that jobs may be bound to."""
    door: LaunchDoor | None = None
    """Where processes of jobs ask for tasks on other hosts; None: nowhere."""


class Worker:
    """One host's worker."""

    def __init__(
        self,
        options: WorkerOptions,
        store: Store,
        log: logging.Logger,
        accounts: Accounts | None = None,
    ) -> None:
        self._options = options
        self._store = store
        self._log = log
        self._accounts = accounts or Accounts()
        self._launcher = Launcher(options.host, store, self._accounts, options.door)
        self._state = HostState()
        self._link = self._make_link(options.shepherd)
        self._listed = asyncio.Event()
        self._greeting: Greeting | None = None
        self._peer: Peer | None = None
        self._gather_timer: asyncio.TimerHandle | None = None
        self._due_timer: asyncio.TimerHandle | None = None
        self._due_us: Micros | None = None
        self._beat = Beat(0, 0)
        self._beat_timer: asyncio.TimerHandle | None = None
        is_real = isinstance(options.shepherd, ShepherdOptions)
        self._meter = LoadMeter(clock_us, time.time) if is_real else None
        self._last_id = 0
        self._asked: dict[int, tuple[str, ...]] = {}
        self._asks = Asks(self._link, self._accounts, self._store, self._say)
        self._parts = PartDesk(
            options.host, self._state, self._asks, self._accounts, self._carry_out, self._say,
            clock_us,
        )  # fmt: skip
        self._remote = Remote(self._state, self._carry_out, self._say, clock_us)
        self._files = FileDesk(options.host, self._accounts, self._say)
        self._lookups: set[asyncio.Task[None]] = set()
        self._desk: LaunchDesk | None = None
        if options.door is not None:
            self._desk = LaunchDesk(options.door, self._remote, self._owner_of, log)

    def _owner_of(self, key: Key) -> int | None:
        """Return whose an attempt is that this host leads; None: it has none such."""
        live = self._state.live_of(key)
        if live is None or live.is_part or live.own_end is not None:
            return None
        return live.launch.owner.uid

    def _make_link(self, how: ShepherdOptions | HollowOptions) -> Shepherding:
        if isinstance(how, HollowOptions):
            return HollowShepherd(how, self._take_list, self._take_events)
        return ShepherdLink(how, self._take_list, self._take_events, self._log, self._state.is_idle)

    async def run(self) -> None:
        """Work until cancelled; jobs and shepherd go on."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._link.run())
            tasks.create_task(self._keep_house())
            if self._desk is not None:
                tasks.create_task(self._desk.run())
            # The controller is told of all that lives here, so that must be known first.
            await self._listed.wait()
            hello = make_hello("worker", self._options.host, self._options.version)
            await LeaderClient(
                self._options.controllers,
                hello,
                self._welcome,
                self._hear,
                self._lose,
                on_refused=lambda text: self._log.error("worker-refused", extra={"why": text}),
                on_failed=lambda text: self._log.warning(
                    "controller-unreachable", extra={"why": text}
                ),
            ).run()

    # The controller.

    def _welcome(self, peer: Peer, welcome: m.Welcome) -> None:
        assert self._greeting is not None
        if not self._state.meet(welcome.epoch, boot_us()):
            self._log.error("controller-deposed", extra={"epoch": welcome.epoch})
            peer.abort("a later controller was here before")
            return
        self._peer = peer
        attempts, unreported = self._state.joined()
        options = self._options
        joined = HostJoined(
            host=options.host,
            boot_id=self._greeting.boot_id,
            cpus=options.cpus,
            mem_mib=options.mem_mib,
            attempts=attempts,
            unreported=unreported,
            isolation=self._greeting.isolation,
            version=options.version,
            attributes=dict(options.attributes),
            devices=options.devices,
            processors=options.processors,
        )
        peer.send(m.Observe(joined))
        self._log.info(
            "controller-found", extra={"epoch": welcome.epoch, "attempts": len(attempts)}
        )
        self._asked.clear()
        self._beat = Beat(welcome.beat_us, boot_us())
        self._send_beat(peer)
        self._fetch()
        self._report()

    def _send_beat(self, peer: Peer) -> None:
        """Say that we are here, and give up a controller that does not answer any more."""
        if self._peer is not peer:
            return
        now_us = boot_us()
        if self._beat.is_silent(now_us):
            peer.abort("it does not answer any more")
            return
        number = self._beat.take(now_us)
        if number:
            peer.send(m.Ping(number, self._meter.look() if self._meter is not None else ()))
        if self._beat.next_us():
            self._time_beat(peer)

    def _time_beat(self, peer: Peer) -> None:
        """Send the next beat when it is due."""
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        delay_s = max(0.0, (self._beat.next_us() - boot_us()) / 1e6)
        self._beat_timer = asyncio.get_running_loop().call_later(delay_s, self._send_beat, peer)

    def _lose(self, reason: str) -> None:
        if self._gather_timer is not None:
            self._gather_timer.cancel()
            self._gather_timer = None
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        self._peer = None
        self._remote.leave_controller()
        self._parts.leave_controller()
        self._files.leave_controller()
        self._asks.leave_controller()
        self._state.disconnected()
        self._log.warning("controller-lost", extra={"why": reason})

    def _hear(self, messages: list[m.Message]) -> None:
        now_us = clock_us()
        actions: list[Action] = []
        for message in messages:
            match message:
                case m.Effects(epoch, effects):
                    actions += self._state.take_effects(epoch, effects, now_us)
                case m.ReportsTaken(number):
                    actions += self._state.acknowledged(number, now_us)
                case m.Blobs():
                    self._take_blobs(message)
                case m.ReadOutput() | m.ReadUsage() | m.TerminalAsk() | m.TaskAsk() | m.TaskPiece():
                    self._relay(message)
                case m.Pong(number, beat_us):
                    if self._beat.ask(beat_us) and self._peer is not None:
                        self._time_beat(self._peer)
                    contact_us = self._beat.answered(number)
                    if contact_us:
                        actions += self._state.contact(contact_us)
                case m.ControllerKeys(controllers):
                    self._options.on_controllers(controllers)
                case m.Refused(text):
                    self._log.error("worker-refused", extra={"why": text})
                case _:
                    self._log.warning("message-strange", extra={"kind": type(message).__name__})
        self._carry_out(actions, now_us)
        self._report()

    def _report(self) -> None:
        """Send reports, as many as may be under way."""
        if self._peer is None or not self._state.has_reports:
            return
        if self._state.reports_in_flight == 0:
            self._send_report()
        elif self._gather_timer is None and self._state.reports_in_flight < WINDOW:
            loop = asyncio.get_running_loop()
            self._gather_timer = loop.call_later(GATHER_S, self._gathered)

    def _gathered(self) -> None:
        self._gather_timer = None
        if self._state.reports_in_flight < WINDOW:
            self._send_report()

    def _send_report(self) -> None:
        if self._peer is None:
            return
        batch = self._state.reports(clock_us())
        if batch is not None:
            reported = Reported(self._options.host, *batch)
            self._peer.send(m.Observe(reported))

    def _fetch(self) -> None:
        """Ask for what held launches need and nobody was asked for yet."""
        if self._peer is None:
            return
        asked = {digest for digests in self._asked.values() for digest in digests}
        wanted = tuple(digest for digest in self._launcher.wanted_blobs() if digest not in asked)
        if wanted:
            self._last_id += 1
            self._asked[self._last_id] = wanted
            self._peer.send(m.FetchBlobs(self._last_id, wanted))

    def _take_blobs(self, message: m.Blobs) -> None:
        prepared = Prepared([], [], {})
        now_us = clock_us()
        asked = self._asked.pop(message.id, ())
        self._launcher.take_blobs(asked, message.blobs, message.damaged, prepared, now_us)
        self._send_prepared(prepared, now_us)

    def _relay(
        self, message: m.ReadOutput | m.ReadUsage | m.TerminalAsk | m.TaskAsk | m.TaskPiece
    ) -> None:
        """Do what somebody else asks through the controller, or take what he answers."""
        match message:
            case m.ReadOutput():
                self._asks.read(message)
            case m.ReadUsage():
                self._asks.read_usage(message)
            case m.TerminalAsk():
                self._asks.serve_terminal(message)
            case m.TaskAsk(order=ReadFile() | WriteFile() | EndFile() as order):
                if isinstance(self._options.shepherd, HollowOptions):
                    self._say(m.TaskPiece(message.id, TaskFault.REFUSED, "it has no files"))
                else:
                    self._files.serve(message, order)
            case m.TaskAsk():
                self._parts.serve(message)
            case m.TaskPiece():
                self._remote.take(message)

    def _say(self, message: m.Message) -> bool:
        """Send a message to the controller; False: there is none now."""
        if self._peer is None or not self._peer.is_open:
            return False
        self._peer.send(message)
        return True

    # The shepherd.

    def _take_list(self, found: ShepherdList) -> None:
        now_us = clock_us()
        self._greeting = found.greeting
        # What was held for an earlier shepherd is wanted again where it still is.
        self._launcher.clear()
        self._asks.give_up()
        self._carry_out(self._state.take_list(found.listed, now_us), now_us)
        if not self._listed.is_set():
            self._log.info("isolation-found", extra={"isolation": found.greeting.isolation})
            self._listed.set()
        self._report()

    def _take_events(self, events: list[Event]) -> None:
        now_us = clock_us()
        news: list[News] = []
        for event in events:
            if isinstance(event, Led):
                self._remote.take_led(event)
            elif isinstance(event, Answer):
                self._asks.take(event)
            elif not isinstance(event, Greeting | Present | Listed):
                news.append(event)
        if news:
            self._tell_failures(news)
            self._carry_out(self._state.take_news(news, now_us), now_us)
            self._report()

    def _carry_out(self, actions: Iterable[Action], now_us: Micros) -> None:
        """Pass actions on to the shepherd, in one frame, and set the timer for what is due."""
        prepared = Prepared([], [], {})
        for action in actions:
            match action:
                case Spawn():
                    self._launcher.prepare(action, prepared, now_us)
                case Signal() | Suspend() | SetLimit():
                    if not self._launcher.hold_back(action, prepared, now_us):
                        prepared.orders.append(action)
                case Checkpoint():
                    prepared.orders.append(
                        checkpoint_order(action, self._options.host, self._accounts)
                    )
                case Warn():
                    prepared.orders.append(warning_order(action, self._options.host))
                case Forget() | Lease() | Lead():
                    prepared.orders.append(action)
                case SpawnPart():
                    order = self._parts.part_order(action)
                    prepared.orders += [order] if order is not None else []
                case Report():
                    prepared.orders.append(self._append(action))
        self._send_prepared(prepared, now_us)
        self._fetch()
        self._look_up()
        self._set_timer()
        self._parts.look()
        self._remote.look()

    def _send_prepared(self, prepared: Prepared, now_us: Micros) -> None:
        if prepared.orders:
            self._link.send(OrderFrame(prepared.orders, prepared.bases))
        if prepared.ends:
            self._tell_failures(prepared.ends)
            # What could not be started is over; that may be what something newer waited for.
            self._carry_out(self._state.take_news(prepared.ends, now_us), now_us)
            self._report()

    def _tell_failures(self, news: Iterable[News]) -> None:
        """Write down what could not be started here through this host's fault, once a batch."""
        failed = [one for one in news if isinstance(one, Ended) and one.host_fault]
        if failed:
            first = failed[0]
            self._log.error(
                "start-failed",
                extra={
                    "job": first.job, "index": first.index, "count": len(failed),
                    "why": first.detail,
                },
            )  # fmt: skip

    def _append(self, action: Report) -> AppendOrder:
        """Return the order that adds a job's report to its output."""
        launch, end = action.launch, action.end
        if launch.mails_report:
            return AppendOrder(end.job, end.index, end.attempt, "")
        account = self._accounts.known(launch.owner)
        cwd, _ = streams.working_directory(launch, end.index, self._options.host)
        around = Around(
            script=self._store.load_script(launch.spec.script) or launch.spec.command,
            cwd=cwd,
            home=account.home if account is not None else launch.spec.home,
            now_us=time.time_ns() // 1000 - (clock_us() - action.at_us),
            render_date=render_date,
        )
        text = render_report(launch, end, around)
        return AppendOrder(end.job, end.index, end.attempt, text)

    # Time, and what is slow.

    def _set_timer(self) -> None:
        due_us = self._state.next_due_us()
        if due_us == self._due_us:
            return
        self._due_us = due_us
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None
        if due_us is not None:
            delay_s = max(0.0, (due_us - clock_us()) / 1e6)
            self._due_timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._due_us = None
        now_us = clock_us()
        self._carry_out(self._state.tick(now_us), now_us)

    def _look_up(self) -> None:
        """Look up accounts beside the loop."""
        if self._lookups:
            return
        for launch in self._launcher.wanted_accounts():
            task = asyncio.get_running_loop().create_task(self._load_account(launch))
            self._lookups.add(task)
            task.add_done_callback(self._looked_up)

    async def _load_account(self, launch: Launch) -> None:
        prepared = Prepared([], [], {})
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, self._accounts.load, launch.owner)
        except NoAccountError as error:
            self._launcher.fail_account(launch.owner.uid, str(error), prepared, clock_us())
        else:
            self._launcher.go_on(prepared, clock_us())
        self._send_prepared(prepared, clock_us())

    def _looked_up(self, task: asyncio.Task[None]) -> None:
        self._lookups.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._log.error("lookup-failed", extra={"why": str(task.exception())})
        self._fetch()
        self._look_up()

    async def _keep_house(self) -> None:
        loop = asyncio.get_running_loop()
        sweep_at = loop.time() + 60.0
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            self._tick()
            if loop.time() >= sweep_at:
                sweep_at = loop.time() + SWEEP_S
                await loop.run_in_executor(None, self._sweep)

    def _sweep(self) -> None:
        self._store.sweep(retention_s=self._options.retention_s, log=self._log)
