"""A job's output files, opened in the way that a stranger's path demands: never waiting."""

import os
import stat
from typing import Final

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
