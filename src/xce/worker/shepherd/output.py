"""A job's output files, opened in the way that a stranger's path demands: never waiting."""

import base64
import contextlib
import os
import stat
from collections.abc import Sequence
from typing import Any, Final

from xce.worker.shepherd import rundir
from xce.worker.shepherd.attempts import Attempt, printable
from xce.worker.shepherd.spawn import As, Ids

_READ_MAX: Final = 4 * 1024 * 1024


def append_text(path: str, content: bytes) -> None:
    """Add text to a regular file that is there; anything else is left alone.

    Raises:
        OSError: It is not there, may not be written, or there is no room.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = os.open(path, flags)
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            while content:
                content = content[os.write(fd, content) :]
    finally:
        os.close(fd)


def read_text(
    path: str, inside: str, ids: list[Any], kept: Sequence[str], offset: int, limit: int
) -> list[Any]:
    """Return a piece as `read_output`, in base 64, with its size and why it cannot be read."""
    owner = Ids(ids[0], ids[1], tuple(ids[2]))
    content, size, error = read_output(path, inside, owner, kept, offset, limit)
    return [base64.b64encode(content).decode(), size, printable(error)]


def read_output(
    path: str, inside: str, ids: Ids, kept: Sequence[str], offset: int, limit: int
) -> tuple[bytes, int, str]:
    """Return a piece of a job's output, the size of the whole, and why it cannot be read.

    Args:
        path: The file, as the job's user sees it; empty: what we keep.
        inside: Name of the file, should ``path`` be a directory.
        ids: The job's user.
        kept: Where what we keep may be; it is read when ``path`` cannot be.
        offset: Where the piece begins.
        limit: Its size at most.
    """
    error = ""
    try:
        if path:
            with As(ids):
                return *read_piece(path, offset, limit, inside=inside), ""
    except OSError as trouble:
        error = f"cannot read {path}: {trouble.strerror}"
    for place in kept:
        with contextlib.suppress(OSError):
            return *read_piece(place, offset, limit, flags=os.O_NOFOLLOW), ""
    return b"", 0, error


def read_piece(
    path: str, offset: int, limit: int, *, flags: int = 0, inside: str = ""
) -> tuple[bytes, int]:
    """Return a piece of a regular file and the file's size now.

    In a directory the file ``inside`` is meant.

    Raises:
        OSError: It cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | flags)
    try:
        found = os.fstat(fd)
        if inside and stat.S_ISDIR(found.st_mode):
            return read_piece(f"{path}/{inside}", offset, limit, flags=flags)
        if not stat.S_ISREG(found.st_mode):
            return b"", 0
        return os.pread(fd, max(0, min(limit, _READ_MAX)), max(0, offset)), found.st_size
    finally:
        os.close(fd)


def add_report(attempt: Attempt, text: str) -> None:
    """Add the job's report to its output file, once, as the job's user."""
    if attempt.report and not attempt.reported:
        attempt.reported = True
        rundir.note(attempt.path, ["reported"])
        with contextlib.suppress(OSError), As(attempt.ids):
            append_text(attempt.report, text.encode("utf-8", "surrogateescape"))
