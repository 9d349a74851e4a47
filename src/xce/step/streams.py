"""Where the output of tasks goes: a file of their own, or the job's output, each line named."""

import contextlib
import os
from typing import Final, NamedTuple

LINE_MAX: Final = 64 * 1024
"""A longer line is written in pieces."""


class Sink:
    """One stream of one task.

    Args:
        fd: Where it goes.
        label: What stands before each line; empty: what comes is written as it is.
    """

    def __init__(self, fd: int, label: str = "") -> None:
        self._fd = fd
        self._label = label.encode()
        self._rest = b""

    @property
    def fd(self) -> int:
        """Where it goes."""
        return self._fd

    def write(self, content: bytes) -> None:
        """Take what the task wrote; where there is no room any more it is lost."""
        if not self._label:
            self._put(content)
            return
        *lines, rest = (self._rest + content).split(b"\n")
        if len(rest) > LINE_MAX:
            lines.append(rest)
            rest = b""
        self._rest = rest
        if lines:
            self._put(b"".join(self._label + line + b"\n" for line in lines))

    def close(self) -> None:
        """Write what is left of the last line."""
        rest, self._rest = self._rest, b""
        if rest:
            self._put(self._label + rest + b"\n")

    def _put(self, content: bytes) -> None:
        with contextlib.suppress(OSError):
            while content:
                content = content[os.write(self._fd, content) :]


class Sinks(NamedTuple):
    """Both streams of one task."""

    output: Sink
    error: Sink

    def close(self) -> None:
        """Write what is left, and close what is the task's own."""
        for sink in (self.output, self.error):
            sink.close()
        for fd in {self.output.fd, self.error.fd} - {1, 2}:
            os.close(fd)


def open_sinks(output: str, error: str, *, cwd: str, label: str) -> Sinks:
    """Return where the streams of a task go.

    Args:
        output: Path of its output; empty: with the job's.
        error: Path of its errors; empty: with its output.
        cwd: What paths are relative to.
        label: What stands before lines in the job's output.

    Raises:
        OSError: A file cannot be opened.
    """
    out = Sink(_open(output, cwd)) if output else Sink(1, label)
    try:
        if error:
            return Sinks(out, Sink(_open(error, cwd)))
    except OSError:
        if output:
            os.close(out.fd)
        raise
    return Sinks(out, Sink(out.fd) if output else Sink(2, label))


def _open(path: str, cwd: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
    return os.open(os.path.join(cwd, path), flags, 0o666)  # noqa: PTH118
