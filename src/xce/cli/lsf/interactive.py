"""``bsub -I``, ``-Ip``, ``-Is``: the caller's terminal, and the job at its other end.

What the job writes comes over one connection, in this process; what is typed goes over another, in
a child. Both say from where on, so that a connection which is lost is taken up again. With a
pseudo-terminal every key goes to the job; without, an interrupt is sent to it as a signal, and a
stop stops it and this command.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from xce.client.cluster import open_api
from xce.client.json_text import parse_json
from xce.client.rest import Api, ProblemError, UnreachableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from xce.cli.lsf.front import Context

MODES = ("-I", "-Ip", "-Is")
_HEAD = 13
"""Bytes before the content of a frame: its kind, its place, its length."""
_TYPED_MAX = 1 << 14
_PAUSE_S = 0.05
_LATER = frozenset(("unreachable-host", "wrong-state"))
"""What the cluster says while a host, or the job on it, is just coming back."""
_ENDING = (signal.SIGHUP, signal.SIGTERM)
_SENT = (signal.SIGINT, signal.SIGQUIT)


def window(environ_kind: str, mode: str) -> dict[str, Any]:
    """Return what a submission says of the terminal; ``environ_kind`` is ``TERM``."""
    found: dict[str, Any] = {"mode": mode[1:]}
    rows, columns = _size()
    if rows and columns:
        found.update(rows=rows, columns=columns)
    if environ_kind:
        found["kind"] = environ_kind
    return found


def _size() -> tuple[int, int]:
    """Return rows and columns of the window; zeros: there is none."""
    for fd in (1, 0, 2):
        try:
            columns, rows = os.get_terminal_size(fd)
        except OSError:
            continue
        return rows, columns
    return 0, 0


class Session:
    """One interactive job, as its submitter sees it."""

    def __init__(self, context: Context, job: int, mode: str, *, takes_input: bool) -> None:
        """Args: the command; the job; ``-I``, ``-Ip`` or ``-Is``; whether stdin goes to it.

        From here on a signal is meant for the job: an interrupt before it starts ends it.
        """
        self.context = context
        self.job = job
        self.is_tty = mode != "-I"
        self.takes_input = takes_input
        self.offset = 0
        self.has_started = False
        self._child = 0
        self._saved: list[Any] | None = None
        self._signals: list[int] = []
        self._is_handling = False
        self._api = self._open()
        self._control: Api | None = None
        self._lifeline = -1
        for number in (*_SENT, *_ENDING, signal.SIGTSTP):
            signal.signal(number, self._heed)

    def run(self) -> None:
        """Be at the job's terminal until it writes no more."""
        self.context.err("<<Waiting for dispatch ...>>")
        self.context.flush()
        try:
            self._follow()
        finally:
            self._restore()
            self._end_child()
            if self._control is not None:
                self._control.close()
            for number in (*_SENT, *_ENDING, signal.SIGTSTP, signal.SIGWINCH):
                signal.signal(number, signal.SIG_DFL)

    def _open(self) -> Api:
        return open_api(self.context.environ, wait_s=self.context.wait_s())

    def _follow(self) -> None:
        """Write what comes, over as many connections as it takes."""
        api = self._api
        while True:
            came = False
            try:
                path, query = f"/jobs/{self.job}/terminal", [("offset", str(self.offset))]
                for kind, place, content in read_frames(api.stream(path, query)):
                    came = True
                    if kind == b"E":
                        api.close()
                        return
                    self._take(kind, place, content)
            except UnreachableError:
                api.close()
                if not came:
                    raise
            except ProblemError:
                api.close()
                raise
            time.sleep(_PAUSE_S)

    def _take(self, kind: bytes, place: int, content: bytes) -> None:
        if kind == b"O":
            fresh = content[max(0, self.offset - place) :]
            while fresh:
                fresh = fresh[os.write(1, fresh) :]
            self.offset = max(self.offset, place + len(content))
        elif kind == b"S" and not self.has_started:
            self.has_started = True
            start = parse_json(content.decode())
            self.context.err(f"<<Starting on {start['host']}>>")
            if self.is_tty:
                self._make_raw()
                signal.signal(signal.SIGWINCH, self._heed)
                self._send_size()
            if self.takes_input:
                self._start_typing()

    def _start_typing(self) -> None:
        """Send what is typed from a child, which ends when this process does."""
        here, there = os.pipe()
        self._child = os.fork()
        if self._child:
            os.close(here)
            self._lifeline = there
            return
        os.close(there)
        # The cluster must see it when this process's connections end.
        for api in (self._api, self._control):
            if api is not None:
                api.close()
        os._exit(type_at(self._open, self.job, lifeline=here))

    # The caller's own terminal.

    def _make_raw(self) -> None:
        """Let every key through to the job."""
        import termios  # noqa: PLC0415 - of this way alone

        if not os.isatty(0):
            return
        self._saved = termios.tcgetattr(0)
        mode = termios.tcgetattr(0)
        mode[0] &= ~(termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON)
        mode[1] &= ~termios.OPOST
        mode[2] = mode[2] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(0, termios.TCSADRAIN, mode)

    def _restore(self) -> None:
        if self._saved is not None:
            import termios  # noqa: PLC0415

            with contextlib.suppress(OSError, termios.error):  # it is gone
                termios.tcsetattr(0, termios.TCSADRAIN, self._saved)
            self._saved = None

    def _end_child(self) -> None:
        if self._child:
            with contextlib.suppress(OSError):  # it was over first
                os.kill(self._child, signal.SIGKILL)
                os.waitpid(self._child, 0)
            self._child = 0

    # Signals.

    def _heed(self, number: int, _: object) -> None:
        """Handle a signal, one after the other: each asks the cluster for something."""
        self._signals.append(number)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._signals:
                self._handle(self._signals.pop(0))
        finally:
            self._is_handling = False

    def _handle(self, number: int) -> None:
        if number == signal.SIGWINCH:
            self._send_size()
        elif number in _ENDING or not self.has_started:
            self._act("kill")
            self._restore()
            self._end_child()
            os._exit(128 + number)
        elif number == signal.SIGTSTP:
            self._act("stop")
            self._restore()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._act("resume")
            if self.is_tty:
                self._make_raw()
        else:
            self._act("signal", signal=number)

    def _act(self, action: str, **fields: object) -> None:
        body = {"action": action, "select": {"jobs": [str(self.job)]}, **fields}
        self._ask("/jobs/actions", (), body)

    def _send_size(self) -> None:
        rows, columns = _size()
        if rows and columns:
            query = (("rows", str(rows)), ("columns", str(columns)))
            self._ask(f"/jobs/{self.job}/terminal", query, None)

    def _ask(self, path: str, query: tuple[tuple[str, str], ...], body: object) -> None:
        """Ask the cluster over a connection of its own; the job may be over meanwhile."""
        if self._control is None:
            self._control = self._open()
        try:
            self._control.call("POST", path, query, body)
        except (ProblemError, UnreachableError):
            self._control.close()


def type_at(open_again: Callable[[], Api], job: int, *, lifeline: int) -> int:
    """Send what is typed to a job until nothing more is; return the exit status of this process.

    ``lifeline`` is a descriptor that ends with the process that reads what the job writes.
    """
    for number in (*_SENT, *_ENDING, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGWINCH, signal.SIG_DFL)
    api = open_again()
    place, is_over, ends = 0, False, False
    path = f"/jobs/{job}/terminal"
    while not is_over and not ends:
        if lifeline in select.select([0, lifeline], [], [])[0]:
            return 1
        try:
            typed = os.read(0, _TYPED_MAX)
        except OSError:
            typed = b""
        ends = not typed
        while (typed or ends) and not is_over:
            query = [("place", str(place)), *([("end", "1")] if ends else [])]
            try:
                answer = api.request("POST", path, query, typed).value()
            except (UnreachableError, ValueError):
                return 1
            if answer.get("code") in _LATER:
                if select.select([lifeline], [], [], _PAUSE_S)[0]:
                    return 1
                continue
            if "taken" not in answer:
                return 1
            taken = max(0, int(answer["taken"]) - place)
            place, typed, is_over = place + taken, typed[taken:], bool(answer["is_over"])
            if not typed:
                break
            if not taken:
                time.sleep(_PAUSE_S)
    return 0


def read_frames(parts: Iterator[bytes]) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield kind, place and content of each frame, however they are cut."""
    received = bytearray()
    for part in parts:
        received += part
        at = 0
        while len(received) - at >= _HEAD:
            place = int.from_bytes(received[at + 1 : at + 9], "big")
            end = at + _HEAD + int.from_bytes(received[at + 9 : at + _HEAD], "big")
            if len(received) < end:
                break
            yield bytes(received[at : at + 1]), place, bytes(received[at + _HEAD : end])
            at = end
        del received[:at]
