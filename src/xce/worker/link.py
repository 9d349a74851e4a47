"""The worker's connection to its shepherd, which it starts when there is none."""

import asyncio
import contextlib
import logging
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol, cast

import msgspec

from xce.model.effect import Launch
from xce.worker.action import (
    Ended,
    Event,
    Greeting,
    Key,
    Listed,
    Listing,
    Present,
)
from xce.worker.clock import boot_us, clock_us
from xce.worker.order import OrderFrame, encode_orders, for_earlier
from xce.worker.shepherd.loop import ORDERS

PROTOCOL: Final = 1
_HEAD: Final = struct.Struct(">I")
_DECODER: Final = msgspec.json.Decoder(list[Event])
_NOTES: Final = msgspec.json.Decoder(Launch)
_RETRY_FIRST_S: Final = 0.01
_RETRY_MAX_S: Final = 1.0
_MIND_S: Final = 1.0
_START_S: Final = 15.0
"""After so long a shepherd that was started and does not listen is started again."""


class ShepherdOptions(NamedTuple):
    """How a shepherd is started."""

    socket: Path
    runs: Path
    kept: Path
    label: str
    log_file: Path
    use_cgroups: bool = True
    idle_s: float = 60.0
    new_privileges: bool = False
    """Whether jobs may gain privileges by set-id programs such as sudo."""


class ShepherdList(NamedTuple):
    """What a shepherd said first."""

    greeting: Greeting
    listed: list[Listing]


OnList = Callable[[ShepherdList], object]
OnEvents = Callable[[list[Event]], object]


class Shepherding(Protocol):
    """What a worker asks of a shepherd, real or not."""

    @property
    def is_ready(self) -> bool:
        """Whether orders reach a shepherd."""
        ...

    @property
    def orders(self) -> int:
        """Which orders it knows: `xce.worker.shepherd.loop.ORDERS`."""
        ...

    def send(self, frame: OrderFrame) -> None:
        """Send orders; into the void while there is no shepherd."""
        ...

    async def run(self) -> None:
        """Stay with a shepherd until cancelled."""
        ...


class ShepherdLink(asyncio.Protocol):
    """Keeps a connection to the shepherd.

    Args:
        options: How to start one.
        on_list: Called with all that a shepherd has, first of all on each connection.
        on_events: Called with news, and with answers.
        log: Where to tell.
        is_idle: Whether nothing runs here, so that a shepherd of another release may be replaced.
    """

    def __init__(
        self,
        options: ShepherdOptions,
        on_list: OnList,
        on_events: OnEvents,
        log: logging.Logger,
        is_idle: Callable[[], bool],
    ) -> None:
        self._is_idle = is_idle
        self._options = options
        self._on_list = on_list
        self._on_events = on_events
        self._log = log
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._greeting: Greeting | None = None
        self._early: list[Event] = []
        self._is_listed = False
        self._lost = asyncio.Event()
        self._pid = self._started_pid = 0
        self._started_at = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether orders reach a shepherd."""
        return self._is_listed

    @property
    def orders(self) -> int:
        """Which orders the shepherd knows."""
        return self._greeting.orders if self._greeting is not None else 0

    @property
    def _is_other(self) -> bool:
        """Whether the shepherd is one of another release that was there before.

        While a release is put in place of the one that runs here, we start its shepherds.
        """
        if self._greeting is None or self._pid == self._started_pid:
            return False
        return self._greeting.orders != ORDERS

    def send(self, frame: OrderFrame) -> None:
        """Send orders; into the void while there is no shepherd: its next list settles it."""
        if self._transport is not None and self._is_listed:
            if self._greeting is not None and not self._greeting.freezes:
                asleep_us = boot_us() - clock_us()
                frame = OrderFrame(for_earlier(frame.orders, asleep_us), frame.bases)
            content = encode_orders(frame)
            self._transport.write(_HEAD.pack(len(content)) + content)

    async def run(self) -> None:
        """Stay connected until cancelled."""
        loop = asyncio.get_running_loop()
        retry_s = _RETRY_FIRST_S
        while True:
            self._lost = asyncio.Event()
            try:
                await loop.create_unix_connection(lambda: self, str(self._options.socket))
            except OSError:
                self._start_if_none()
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, _RETRY_MAX_S)
                continue
            connected_at = loop.time()
            try:
                await self._mind()
            finally:
                if self._transport is not None:
                    self._transport.abort()
            self._log.warning("shepherd-lost", extra={"pid": self._pid})
            if loop.time() - connected_at >= _RETRY_MAX_S:
                retry_s = _RETRY_FIRST_S
                continue
            # One that leaves at once, again and again, must not be chased.
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, _RETRY_MAX_S)

    async def _mind(self) -> None:
        """Wait until the connection is lost; meanwhile let nobody hold the shepherd up.

        While it starts a job it has the user's ids for a moment, and he could stop it then. One of
        another release does not know all that this one orders.
        """
        while not self._lost.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_MIND_S):
                    await self._lost.wait()
            if self._pid and is_stopped(self._pid):
                self._log.warning("shepherd-was-stopped", extra={"pid": self._pid})
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(self._pid, signal.SIGCONT)
            if self._is_listed and self._is_other and self._is_idle():
                self._log.info("shepherd-replaced", extra={"pid": self._pid})
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(self._pid, signal.SIGTERM)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; the shepherd speaks first."""
        self._transport = cast("asyncio.Transport", transport)
        self._received.clear()
        self._early = []
        self._greeting = None
        self._is_listed = False

    def data_received(self, data: bytes) -> None:
        """Take in what the shepherd says."""
        received = self._received
        received += data
        at = 0
        events: list[Event] = []
        while len(received) - at >= _HEAD.size:
            (length,) = _HEAD.unpack_from(received, at)
            end = at + _HEAD.size + length
            if len(received) < end:
                break
            events += _DECODER.decode(received[at + _HEAD.size : end])
            at = end
        del received[:at]
        if not self._is_listed:
            events = self._take_list(events)
        if events:
            self._on_events(events)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; `run` begins again."""
        self._transport = None
        self._is_listed = False
        self._lost.set()

    def _take_list(self, events: list[Event]) -> list[Event]:
        """Gather the shepherd's list; return what came behind it."""
        for position, event in enumerate(events):
            if isinstance(event, Greeting):
                self._greeting = event
                self._pid = event.pid
                if event.protocol != PROTOCOL:
                    self._log.error("shepherd-strange", extra={"protocol": event.protocol})
            elif isinstance(event, Listed):
                assert self._greeting is not None
                self._is_listed = True
                self._log.info("shepherd-found", extra={"pid": self._pid})
                self._on_list(ShepherdList(self._greeting, self._gather()))
                return events[position + 1 :]
            else:
                self._early.append(event)
        return []

    def _gather(self) -> list[Listing]:
        present: dict[Key, Present] = {}
        ends: dict[Key, Ended] = {}
        for event in self._early:
            if isinstance(event, Present):
                present[event.key] = event
            elif isinstance(event, Ended):
                ends[event.key] = event
        self._early = []
        listed = []
        for key, one in sorted(present.items(), key=lambda item: item[0]):
            try:
                listed.append(Listing(one, _NOTES.decode(one.note), ends.get(key)))
            except msgspec.DecodeError as error:
                # Of a later release, perhaps: it runs on, and whoever knows it may come back.
                self._log.error("note-unreadable", extra={"attempt": key, "why": str(error)})
        return listed

    def _start_if_none(self) -> None:
        """Start a shepherd, unless one that we started is still on its way."""
        if self._pid and self._is_gone():
            self._pid = 0
        if self._pid and time.monotonic() - self._started_at < _START_S:
            return
        self._started_at = time.monotonic()
        self._pid = self._started_pid = start_shepherd(self._options)
        self._log.info("shepherd-started", extra={"pid": self._pid})

    def _is_gone(self) -> bool:
        with contextlib.suppress(ChildProcessError):
            pid, _ = os.waitpid(self._pid, os.WNOHANG)
            return pid == self._pid
        return True


def is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[:1] == ["T"]


def start_shepherd(options: ShepherdOptions) -> int:
    """Start a shepherd in a session of its own; it outlives us. Return its pid."""
    main = Path(__file__).parent / "shepherd" / "main.py"
    arguments = [
        sys.executable, "-I", "-S", str(main), "--socket", str(options.socket),
        "--runs", str(options.runs), "--kept", str(options.kept), "--label", options.label,
        "--idle-seconds", str(options.idle_s),
    ]  # fmt: skip
    if not options.use_cgroups:
        arguments.append("--no-cgroups")
    if options.new_privileges:
        arguments.append("--new-privileges")
    log = os.open(options.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        return os.posix_spawn(
            sys.executable,
            arguments,
            {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            file_actions=(
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ),
            setsid=True,
            setsigmask=(),
        )
    finally:
        os.close(log)
        os.close(null)
