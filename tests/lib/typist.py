"""Somebody at a terminal: a command with a pseudo-terminal of its own, typed at and read from."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping
from pathlib import Path

PATIENCE_S = 60.0


class Typist:
    """Runs a command at a terminal of its own.

    Args:
        words: The command line.
        environ: Its environment.
        cwd: Where it runs.
        rows: Of the window.
        columns: Of the window.
    """

    def __init__(
        self, words: list[str], environ: Mapping[str, str], cwd: Path,
        *, rows: int = 24, columns: int = 80,
    ) -> None:  # fmt: skip
        self.said = b""
        self._seen = 0
        program = next(
            f"{place}/{words[0]}"
            for place in environ["PATH"].split(":")
            if os.access(f"{place}/{words[0]}", os.X_OK)
        )
        near, far = pty.openpty()
        set_window(near, rows, columns)
        read, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(write)
            os.read(read, 1)
            os.chdir(cwd)
            os.setsid()
            fcntl.ioctl(far, termios.TIOCSCTTY, 0)
            for fd in range(3):
                os.dup2(far, fd)
            os.execve(program, words, dict(environ))
        os.close(far)
        os.close(read)
        os.close(write)
        self.near = near

    def type(self, text: str) -> None:
        """Type."""
        os.write(self.near, text.encode())

    def until(self, text: str, *, patience_s: float = PATIENCE_S) -> str:
        """Read until ``text`` comes; return what came since the last time."""
        deadline = time.monotonic() + patience_s
        wanted = text.encode()
        while wanted not in self.said[self._seen :]:
            assert time.monotonic() < deadline, f"in vain waited for {text!r}: {self.said!r}"
            if not self._read():
                break
        place = self.said.find(wanted, self._seen)
        assert place >= 0, f"never said {text!r}: {self.said!r}"
        found = self.said[self._seen : place + len(wanted)]
        self._seen = place + len(wanted)
        return found.decode(errors="replace")

    def resize(self, rows: int, columns: int) -> None:
        """Make the window another size; the kernel tells the command."""
        set_window(self.near, rows, columns)

    def settings(self) -> list[object]:
        """Return how the terminal is set."""
        return termios.tcgetattr(self.near)

    def signal(self, number: signal.Signals) -> None:
        """Signal the command."""
        os.kill(self.pid, number)

    def wait(self, *, patience_s: float = PATIENCE_S) -> int:
        """Return the command's exit status; 128 + n when signal n ended it."""
        deadline = time.monotonic() + patience_s
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                while self._read(0):
                    pass
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            assert time.monotonic() < deadline, f"it does not end: {self.said!r}"
            self._read(0.05)

    def close(self) -> None:
        """End the command if it has not ended."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        if self.near >= 0:
            os.close(self.near)
            self.near = -1

    def _read(self, patience_s: float = 0.5) -> bool:
        """Read what there is; False: nothing came, or nothing will."""
        ready, _, _ = select.select([self.near], [], [], patience_s)
        if not ready:
            return patience_s > 0.1
        try:
            content = os.read(self.near, 65_536)
        except OSError:
            return False
        self.said += content
        return bool(content)


def set_window(fd: int, rows: int, columns: int) -> None:
    """Set the size of a terminal's window."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
