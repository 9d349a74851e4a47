"""The shepherd's loop: one thread, one worker at a time, everything in batches.

A frame is a 4-byte big-endian length and JSON. The shepherd speaks first: ``hello``, what is
``present``, ``listed``; then lists of events. A worker sends ``{"orders": [...], "bases": {...}}``.
A worker that connects takes the place of the one before. Without a worker and without anything that
runs, the shepherd leaves after a while; a new one finds all that matters in the run directories.
"""

import argparse
import contextlib
import ctypes
import fcntl
import gc
import json
import os
import select
import signal
import socket
import struct
import time
from typing import Any, Final

from xce.worker.shepherd import cgroups
from xce.worker.shepherd.boot_clock import BootAlarm, boot_us
from xce.worker.shepherd.herd import Herd, clock_us
from xce.worker.shepherd.log import write_log
from xce.worker.shepherd.spawn import STATUS_FD

PROTOCOL: Final = 1
ORDERS: Final = 3
"""Counts what orders say; where it is another number, the worker replaces us once nothing runs."""
FRAME_MAX: Final = 256 * 1024 * 1024
_HEAD: Final = struct.Struct(">I")
_LOCK_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 2.0
"""Between two looks at whether the socket is there still."""
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_PEER: Final = struct.Struct("3i")


class AlreadyRunsError(Exception):
    """Another shepherd minds this host's jobs."""


class Shepherd:
    """The loop and its sockets."""

    def __init__(self, herd: Herd, listener: socket.socket, *, isolation: str, boot: str) -> None:
        self._herd = herd
        self._listener = listener
        # It can freeze.
        self._hello = ["hello", PROTOCOL, boot, isolation, os.getpid(), True, ORDERS]
        self._epoll = select.epoll()
        self._worker: socket.socket | None = None
        self._received = bytearray()
        self._unsent = bytearray()
        self._watched: set[int] = set()
        self._stopping = False
        self._looked_at = 0.0
        self._wakeup, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _pass)
        signal.signal(signal.SIGTERM, self._stop)
        self._epoll.register(self._wakeup, select.EPOLLIN)
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        self._epoll.register(herd.terminals.epoll.fileno(), select.EPOLLIN)
        self._epoll.register(herd.tasks.epoll.fileno(), select.EPOLLIN)
        self._alarm = BootAlarm()
        if self._alarm.fd >= 0:
            self._epoll.register(self._alarm.fd, select.EPOLLIN)

    def run(self, *, idle_seconds: float) -> None:
        """Mind the herd until told to stop, or until nobody needs it."""
        alone_since = time.monotonic()
        self._herd.reap()
        while not self._stopping:
            self._watch_adopted()
            ready = self._epoll.poll(self._timeout())
            for fd, mask in ready:
                self._take(fd, mask)
            if any(fd == self._wakeup for fd, _ in ready):
                self._herd.reap()
            self._herd.end_late()
            self._herd.check_leaving()
            self._herd.look()
            self._herd.look_at_streams()
            self._flush()
            self._listen_again()
            if self._worker is not None or not self._herd.is_idle:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since > idle_seconds:
                return

    def _take(self, fd: int, mask: int) -> None:
        """Do what a descriptor is ready for."""
        if fd == self._wakeup:
            _drain(fd)
        elif fd == self._alarm.fd:
            self._alarm.take()
        elif fd == self._listener.fileno():
            self._accept()
        elif self._worker is not None and fd == self._worker.fileno():
            self._serve(mask)
        elif fd == self._herd.terminals.epoll.fileno():
            self._herd.terminals.serve()
        elif fd == self._herd.tasks.epoll.fileno():
            self._herd.tasks.serve()
        elif fd in self._herd.adopted:
            self._epoll.unregister(fd)
            self._watched.discard(fd)
            self._herd.take_adopted(fd)

    def _timeout(self) -> float:
        due_us, lease_us = self._herd.next_due_us(), self._herd.fences.next_due_us()
        self._alarm.set(lease_us)
        left_us = [due_us - clock_us()] if due_us else []
        left_us += [lease_us - boot_us()] if lease_us else []
        return min(5.0, max(0.0, min(left_us, default=5_000_000) / 1e6) + 0.001)

    def _watch_adopted(self) -> None:
        for fd in self._herd.adopted.keys() - self._watched:
            self._epoll.register(fd, select.EPOLLIN)
            self._watched.add(fd)

    def _listen_again(self) -> None:
        """Make the socket anew where somebody has removed it: the next worker looks for it."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        path = self._listener.getsockname()
        if os.path.exists(path):  # noqa: PTH110
            return
        try:
            listener = _listen(path)
        except OSError:
            return  # its directory is gone too; the node manager makes it again
        self._epoll.unregister(self._listener.fileno())
        self._listener.close()
        self._listener = listener
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        write_log("socket-made-again", path=path)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        if _PEER.unpack(peer)[1] not in (0, os.geteuid()):
            connection.close()
            return
        self._drop_worker()
        connection.setblocking(False)
        self._worker = connection
        self._epoll.register(connection.fileno(), select.EPOLLIN)
        told = self._herd.present()
        self._herd.events = [self._hello, *told, ["listed"]]
        write_log("worker-came", attempts=len(told))

    def _serve(self, mask: int) -> None:
        if mask & ~select.EPOLLOUT:
            self._receive()
        if self._worker is not None and mask & select.EPOLLOUT:
            self._send()

    def _receive(self) -> None:
        assert self._worker is not None
        try:
            content = self._worker.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if not content:
            self._drop_worker()
            return
        received = self._received
        received += content
        position = 0
        while len(received) - position >= _HEAD.size:
            (length,) = _HEAD.unpack_from(received, position)
            if length > FRAME_MAX:
                write_log("frame-refused", length=length)
                self._drop_worker()
                return
            if len(received) - position < _HEAD.size + length:
                break
            start = position + _HEAD.size
            frame: dict[str, Any] = json.loads(received[start : start + length])
            position = start + length
            self._herd.take(frame["orders"], frame["bases"])
        del received[:position]

    def _flush(self) -> None:
        """Send what happened to the worker, or forget it where there is none."""
        if self._worker is None:
            self._herd.leave_worker()
            return
        if self._herd.events:
            content = json.dumps(self._herd.events, separators=(",", ":")).encode()
            self._herd.events = []
            self._unsent += _HEAD.pack(len(content)) + content
        if self._unsent:
            self._send()

    def _send(self) -> None:
        assert self._worker is not None
        try:
            sent = self._worker.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop_worker()
            return
        del self._unsent[:sent]
        if len(self._unsent) > FRAME_MAX:
            self._drop_worker()
            return
        wanted = select.EPOLLIN | (select.EPOLLOUT if self._unsent else 0)
        self._epoll.modify(self._worker.fileno(), wanted)

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._epoll.unregister(self._worker.fileno())
            self._worker.close()
            self._worker = None
            write_log("worker-went")
        self._received.clear()
        self._unsent.clear()
        self._herd.leave_worker()

    def _stop(self, *_: object) -> None:
        self._stopping = True


def run(arguments: list[str]) -> int:
    """Run a shepherd; return the exit code of the program."""
    options = _parse(arguments)
    os.umask(0o022)  # modes are said where it matters
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    if null != STATUS_FD:
        # The job shells' status descriptor: nothing of ours may ever have this number.
        os.dup2(null, STATUS_FD, inheritable=False)
    _default_signals()
    control = ctypes.CDLL(None).prctl
    control(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if not options.new_privileges:
        # For us and everything that we start, for ever: no program is more than who starts it.
        control(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    try:
        lock = _lock(f"{options.runs}/.lock")
    except (AlreadyRunsError, OSError) as error:
        write_log("shepherd-refused", reason=str(error))
        return 1
    boot = _boot_id()
    found = cgroups.Found(None, "control groups not wanted")
    if not options.no_cgroups:
        found = cgroups.find_groups(options.label)
    user = "root: setuid, " if os.geteuid() == 0 else "user: "
    isolation = user + (found.text if found.groups else f"sessions and /proc ({found.text})")
    herd = Herd(options.runs, options.kept, boot=boot, groups=found.groups)
    listener = _listen(options.socket)
    shepherd = Shepherd(herd, listener, isolation=isolation, boot=boot)
    herd.load()
    write_log("shepherd-started", isolation=isolation, pid=os.getpid(), adopted=len(herd.adopted))
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    shepherd.run(idle_seconds=options.idle_seconds)
    herd.close()
    write_log("shepherd-left")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(options.socket)  # noqa: PTH108
    os.close(lock)
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="xce-shepherd")
    parser.add_argument("--socket", required=True, help="where the worker connects")
    parser.add_argument("--runs", required=True, help="directory of the run directories")
    parser.add_argument("--kept", required=True, help="directory of output that is kept")
    parser.add_argument("--label", required=True, help="name of the control groups")
    parser.add_argument("--no-cgroups", action="store_true", help="use sessions and /proc only")
    parser.add_argument(
        "--new-privileges", action="store_true", help="jobs may use set-id programs"
    )
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="leave when so long idle")
    return parser.parse_args(arguments)


def _lock(path: str) -> int:
    """Return the lock on a host's run directories, held while we live.

    A child between `vfork` and `exec` of a shepherd that was just killed still holds the lock: once
    we have it, every job shell that was being started can be seen for what it is.

    Raises:
        AlreadyRunsError: Another shepherd holds it.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise AlreadyRunsError(f"another shepherd holds {path}") from error
            time.sleep(0.02)
        else:
            return fd


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.path.exists(path):  # noqa: PTH110
        os.unlink(path)  # noqa: PTH108 - we hold the lock, so it is a dead one's
    listener.bind(path)
    listener.listen(8)
    listener.setblocking(False)
    return listener


def _default_signals() -> None:
    """Let no signal be ignored: jobs would inherit that, and shells cannot undo it."""
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, _pass)
    signal.signal(signal.SIGHUP, _pass)
    signal.signal(signal.SIGINT, _pass)
    signal.signal(signal.SIGPIPE, _pass)


def _pass(*_: object) -> None:
    """Take a signal and do nothing; unlike an ignored one it is not inherited."""


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
        return file.read().strip()


def _drain(fd: int) -> None:
    try:
        os.read(fd, 65_536)
    except BlockingIOError:
        return
