"""Terminals of interactive jobs: pseudo-terminals, or two pipes; their far ends are kept here.

What a job writes is kept until somebody has asked for what lies behind it, and a little longer, so
that a reader who lost an answer may ask again. While nobody reads, the job waits as it would at a
stopped terminal. What is typed comes with its place in the whole, so that a repeat changes nothing.

A terminal for which nobody has asked for `LEASE_US` is lost, and so is one that was hung up: it is
closed, and the worker is told, time and again until it ends the job.
"""

import base64
import contextlib
import fcntl
import os
import pty
import select
import struct
import termios
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from xce.worker.shepherd.rundir import Key

Event = list[Any]
UNREAD_MAX: Final = 256 * 1024
"""So much may wait to be read before the job has to."""
KEPT_MAX: Final = 256 * 1024
"""So much of what was read can be read again."""
TYPED_MAX: Final = 64 * 1024
"""So much may wait for the job to take it."""
LEASE_US: Final = 120_000_000
WAIT_US_MAX: Final = 20_000_000
TELL_US: Final = 1_000_000
"""Between two times that a loss is told."""
END_OF_INPUT: Final = b"\x04"
_PIECE: Final = 64 * 1024


class Ends(NamedTuple):
    """What the job's shell is connected to."""

    input: int
    output: int
    path: str
    """Of the terminal; empty: they are pipes."""

    def close(self) -> None:
        """Close them: the job has its own."""
        for fd in {self.input, self.output}:
            os.close(fd)


class _Waiting(NamedTuple):
    number: int
    offset: int
    limit: int
    until_us: int


class Terminal:
    """The far end of one job's streams.

    Args:
        key: Whose they are.
        reading: What the job writes comes here.
        writing: What it is to read goes here.
        is_tty: Whether both are one pseudo-terminal.
        now_us: The monotonic clock.
        unwatch: Is told of each end before it is closed.
    """

    def __init__(
        self, key: Key, reading: int, writing: int, *, is_tty: bool, now_us: int,
        unwatch: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        self.key = key
        self._unwatch = unwatch
        self.reading = reading
        """-1: nothing more will come."""
        self.writing = writing
        """-1: nothing more is taken."""
        self.is_tty = is_tty
        self.asked_us = now_us
        self.told_us = -TELL_US
        self.is_lost = False
        self._kept = bytearray()
        self._base = 0
        """Place of the first byte that is kept."""
        self._read_to = 0
        """Everything before was read by whoever asks."""
        self._typed = bytearray()
        self.taken = 0
        """Place behind the last byte of what was typed."""
        self._has_ended_input = False
        self.waiting: _Waiting | None = None

    @property
    def end(self) -> int:
        """Place behind the last byte that came."""
        return self._base + len(self._kept)

    @property
    def is_drained(self) -> bool:
        """Whether nothing more comes and all was read."""
        return self.reading < 0 and self._read_to >= self.end

    def wanted(self) -> tuple[int, int]:
        """Return what to watch the reading and the writing end for."""
        is_full = self.end - self._read_to >= UNREAD_MAX
        return 0 if is_full else select.EPOLLIN, select.EPOLLOUT if self._typed else 0

    def receive(self) -> None:
        """Take what the job wrote."""
        try:
            content = os.read(self.reading, _PIECE)
        except BlockingIOError:
            return
        except OSError:  # EIO: everybody has closed the terminal
            content = b""
        if not content:
            self.close_reading()
        self._kept += content

    def type(self, offset: int, content: bytes, *, is_end: bool) -> None:
        """Take what was typed, as far as there is room and it is new."""
        fresh = content[max(0, self.taken - offset) :] if offset <= self.taken else b""
        fresh = fresh[: max(0, TYPED_MAX - len(self._typed))]
        self._typed += fresh
        self.taken += len(fresh)
        if is_end and self.taken >= offset + len(content) and not self._has_ended_input:
            self._has_ended_input = True
            if self.is_tty:
                self._typed += END_OF_INPUT
        self.transmit()

    def transmit(self) -> None:
        """Hand on what was typed."""
        try:
            while self._typed and self.writing >= 0:
                del self._typed[: os.write(self.writing, self._typed)]
        except BlockingIOError:
            return
        except OSError:
            self._typed.clear()
            self.close_writing()
        if self._has_ended_input and not self._typed and not self.is_tty:
            self.close_writing()

    def resize(self, rows: int, columns: int) -> None:
        """Say how large the window is; the kernel tells the job."""
        if self.is_tty and self.reading >= 0 and rows > 0 and columns > 0:
            set_size(self.reading, rows, columns)

    def has_news(self, offset: int) -> bool:
        """Whether there is something to say to who has everything before ``offset``."""
        return self.end > offset or self.reading < 0

    def piece(self, offset: int, limit: int) -> tuple[int, bytes]:
        """Return what is kept from ``offset`` on, and where that begins."""
        start = max(offset, self._base)
        first = start - self._base
        return start, bytes(self._kept[first : first + max(0, limit)])

    def answer(self, number: int, offset: int, limit: int, error: str = "") -> Event:
        """Return the event with what lies from ``offset`` on."""
        start, piece = self.piece(offset, limit)
        is_over = self.reading < 0 and start + len(piece) >= self.end
        text = base64.b64encode(piece).decode()
        return ["terminal", number, start, text, self.taken, is_over, error]

    def note_read(self, offset: int) -> None:
        """Note that everything before ``offset`` is where it belongs."""
        self._read_to = max(self._read_to, min(offset, self.end))
        surplus = self._read_to - self._base - KEPT_MAX
        if surplus > 0:
            del self._kept[:surplus]
            self._base += surplus

    def close_reading(self) -> None:
        """Let nothing more come."""
        if self.reading >= 0:
            if self.writing == self.reading:
                self.writing = -1
            self._close(self.reading)
            self.reading = -1

    def close_writing(self) -> None:
        """Take nothing more; a terminal is closed as a whole."""
        if self.writing >= 0 and self.writing != self.reading:
            self._close(self.writing)
        self.writing = -1

    def lose(self) -> None:
        """Hang up."""
        self.is_lost = True
        self.close_writing()
        self.close_reading()

    def _close(self, fd: int) -> None:
        if self._unwatch is not None:
            self._unwatch(fd)
        os.close(fd)


class Terminals:
    """All terminals of a host; ``epoll`` is readable when something is to be done."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self._all: dict[Key, Terminal] = {}
        self._watched: dict[int, tuple[Terminal, int]] = {}
        self.events: list[Event] = []

    def open(
        self, key: Key, mode: str, window: list[int], uid: int, gid: int, now_us: int
    ) -> Ends:  # fmt: skip
        """Return what an interactive job's shell is connected to.

        Args:
            key: The attempt.
            mode: ``I``: pipes; else a pseudo-terminal.
            window: Rows and columns; 0: not known.
            uid: Whose it is.
            gid: Whose it is.
            now_us: The monotonic clock.

        Raises:
            OSError: The host has no more of them.
        """
        if mode == "I":
            source, typed = os.pipe2(os.O_CLOEXEC)
            written, sink = os.pipe2(os.O_CLOEXEC)
            ends = Ends(source, sink, "")
            own = self._terminal(key, written, typed, is_tty=False, now_us=now_us)
        else:
            near, far = pty.openpty()
            os.set_inheritable(near, False)
            os.set_inheritable(far, False)
            ends = Ends(far, far, os.ttyname(far))
            own = self._terminal(key, near, near, is_tty=True, now_us=now_us)
            own.resize(*window)
        for fd in {ends.input, ends.output}:
            if uid != os.geteuid():
                os.fchown(fd, uid, gid)
        for fd in {own.reading, own.writing}:
            os.set_blocking(fd, False)
        self.drop(key)
        self._all[key] = own
        return ends

    def _terminal(
        self, key: Key, reading: int, writing: int, *, is_tty: bool, now_us: int
    ) -> Terminal:
        return Terminal(key, reading, writing, is_tty=is_tty, now_us=now_us, unwatch=self._stop)

    def __contains__(self, key: Key) -> bool:
        """Return whether an attempt has a terminal here."""
        return key in self._all

    def start(self, key: Key) -> None:
        """Begin to read: the job has its end."""
        self._watch(self._all[key])

    def drop(self, key: Key) -> None:
        """Forget a terminal."""
        terminal = self._all.pop(key, None)
        if terminal is not None:
            self._forget(terminal)

    def take(self, now_us: int, number: int, key: list[int], fields: list[Any]) -> None:
        """Carry out an order about a terminal; the answer is among the events, now or later."""
        offset, limit, wait_us, place, typed, is_end, rows, columns, hangs_up = fields
        terminal = self._all.get((key[0], key[1], key[2]))
        if terminal is None:
            self.events.append(["terminal", number, offset, "", 0, True, "there is no terminal"])
            return
        terminal.asked_us = now_us
        if hangs_up:
            self._lose(terminal)
        terminal.resize(rows, columns)
        if terminal.writing >= 0 and (typed or is_end):
            terminal.type(place, base64.b64decode(typed), is_end=is_end)
        if limit:
            terminal.note_read(offset)
            if terminal.waiting is not None:
                self._answer(terminal)
            until_us = now_us + min(wait_us, WAIT_US_MAX)
            terminal.waiting = _Waiting(number, offset, limit, until_us)
            if terminal.has_news(offset) or not wait_us:
                self._answer(terminal)
        else:
            self.events.append(terminal.answer(number, offset, 0))
        self._watch(terminal)

    def serve(self) -> None:
        """Move what can be moved."""
        for fd, mask in self.epoll.poll(0):
            if fd not in self._watched:
                continue  # what came before in this round has let it go
            terminal, _ = self._watched[fd]
            if mask & select.EPOLLOUT:
                terminal.transmit()
            if mask & ~select.EPOLLOUT and fd == terminal.reading:
                terminal.receive()
            elif mask & select.EPOLLERR and fd == terminal.writing:
                terminal.close_writing()
            waiting = terminal.waiting
            if waiting is not None and terminal.has_news(waiting.offset):
                self._answer(terminal)
            self._watch(terminal)

    def look(self, now_us: int, running: Collection[Key]) -> list[Event]:
        """Return what is to be told: answers, and which terminals are lost.

        Args:
            now_us: The monotonic clock.
            running: The attempts that are not over; terminals of others go when all was read.
        """
        for terminal in list(self._all.values()):
            if terminal.waiting is not None and terminal.waiting.until_us <= now_us:
                self._answer(terminal)
            if terminal.asked_us + LEASE_US <= now_us and not terminal.is_lost:
                self._lose(terminal)
            if terminal.key not in running:
                if terminal.is_drained or terminal.is_lost:
                    self.drop(terminal.key)
            elif terminal.is_lost and terminal.told_us + TELL_US <= now_us:
                terminal.told_us = now_us
                self.events.append(["terminal-lost", *terminal.key])
        told, self.events = self.events, []
        return told

    def miss(self, key: Key) -> None:
        """Count the terminal of an attempt as lost: another shepherd had it."""
        own = Terminal(key, -1, -1, is_tty=False, now_us=0)
        own.is_lost = True
        self._all[key] = own

    def next_due_us(self) -> int:
        """Return when `look` has something to do; 0: never."""
        due = [one.waiting.until_us for one in self._all.values() if one.waiting is not None]
        due += [
            one.told_us + TELL_US if one.is_lost else one.asked_us + LEASE_US
            for one in self._all.values()
        ]
        return min(due, default=0)

    def _answer(self, terminal: Terminal) -> None:
        waiting = terminal.waiting
        if waiting is not None:
            terminal.waiting = None
            self.events.append(terminal.answer(waiting.number, waiting.offset, waiting.limit))

    def _lose(self, terminal: Terminal) -> None:
        self._unwatch(terminal)
        terminal.lose()
        self._answer(terminal)

    def _forget(self, terminal: Terminal) -> None:
        self._unwatch(terminal)
        terminal.close_writing()
        terminal.close_reading()
        self._answer(terminal)

    def _watch(self, terminal: Terminal) -> None:
        """Watch the ends of a terminal for what is of use now."""
        reads, writes = terminal.wanted()
        wanted: dict[int, int] = {}
        if terminal.reading >= 0:
            wanted[terminal.reading] = reads
        if terminal.writing >= 0:
            wanted[terminal.writing] = wanted.get(terminal.writing, 0) | writes
        for fd, (owner, _) in list(self._watched.items()):
            if owner is terminal and not wanted.get(fd):
                self._stop(fd)
        for fd, mask in wanted.items():
            if not mask:
                continue
            known = self._watched.get(fd)
            if known is None:
                self.epoll.register(fd, mask)
            elif known[1] != mask:
                self.epoll.modify(fd, mask)
            self._watched[fd] = (terminal, mask)

    def _unwatch(self, terminal: Terminal) -> None:
        for fd, (owner, _) in list(self._watched.items()):
            if owner is terminal:
                self._stop(fd)

    def _stop(self, fd: int) -> None:
        """Watch an end no more.

        It is open still: the kernel wakes whoever has started a program before that has closed its
        copies, and an end that is closed while a copy lives could never be taken out again.
        """
        if self._watched.pop(fd, None) is not None:
            self.epoll.unregister(fd)


def set_size(fd: int, rows: int, columns: int) -> None:
    """Set the size of a terminal's window."""
    size = struct.pack("HHHH", min(rows, 65_535), min(columns, 65_535), 0, 0)
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, size)
