"""Long thoughts, in a copy of this process: the state as it is at this very entry, at no cost.

A copy lives for one question. It computes and writes its answers into a pipe; it has no descriptor
but that, so it holds no connection open, and an alarm ends it whatever happens. The price is the
copying of page tables, some milliseconds for each gigabyte; hence few copies at a time.
"""

import asyncio
import contextlib
import gc
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from xce.model.errors import XceError

COPIES_MAX: Final = 2
WAITING_MAX: Final = 64
"""So many questions may wait for a copy."""
ANSWER_S: Final = 15.0
"""How long a copy may think."""
_HEAD: Final = 4
_FAULT: Final = b"!"
_PART: Final = b"."

Work = Callable[[], Iterator[bytes]]
"""What a copy does; each part of the answer is sent as it comes."""


class CopyError(XceError):
    """A copy could not be made, or failed."""


class Copies:
    """Has questions answered by copies of this process."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(COPIES_MAX)
        self._waiting = 0

    async def ask(self, work: Work, *, timeout_s: float = ANSWER_S) -> list[bytes]:
        """Return the parts of an answer; those that came in time, if it takes too long.

        Raises:
            CopyError: There are too many questions, or the copy failed.
        """
        if self._waiting >= WAITING_MAX:
            raise CopyError("too many such questions at a time; ask again later")
        self._waiting += 1
        try:
            async with self._room:
                return await _ask(work, timeout_s)
        finally:
            self._waiting -= 1


async def _ask(work: Work, timeout_s: float) -> list[bytes]:
    reading, writing = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise CopyError(f"no copy of the process could be made: {error.strerror}") from error
    if pid == 0:
        _think(work, writing, timeout_s)
    os.close(writing)
    os.set_blocking(reading, False)
    try:
        content = await _read(reading, timeout_s)
    finally:
        os.close(reading)
        _reap(pid)
    return list(_parts(content))


def _reap(pid: int) -> None:
    """End a copy that is done, or not wanted any more."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


async def _read(reading: int, timeout_s: float) -> bytes:
    """Return what comes until the copy is done, or time is up."""
    loop = asyncio.get_running_loop()
    content = bytearray()
    done = asyncio.Event()

    def take() -> None:
        with contextlib.suppress(BlockingIOError):
            part = os.read(reading, 1 << 16)
            content.extend(part)
            if not part:
                done.set()

    loop.add_reader(reading, take)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await done.wait()
    finally:
        loop.remove_reader(reading)
    return bytes(content)


def _parts(content: bytes) -> Iterator[bytes]:
    """Yield the whole parts of what a copy wrote.

    Raises:
        CopyError: It failed.
    """
    place = 0
    while place + _HEAD < len(content):
        size = int.from_bytes(content[place : place + _HEAD])
        part = content[place + _HEAD : place + _HEAD + size]
        if len(part) < size:
            return
        if part[:1] == _FAULT:
            raise CopyError(part[1:].decode(errors="replace"))
        yield part[1:]
        place += _HEAD + size


def _think(work: Work, writing: int, timeout_s: float) -> NoReturn:
    """Live as a copy."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, timeout_s + 1)
        # Pages that nobody writes are not copied.
        gc.disable()
        gc.freeze()
        os.closerange(3, writing)
        os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
        os.nice(5)
        try:
            for part in work():
                _write(writing, _PART + part)
        except Exception:  # noqa: BLE001 - whatever it is, it is told
            _write(writing, _FAULT + traceback.format_exc().encode())
    finally:
        os._exit(0)


def _write(writing: int, part: bytes) -> None:
    content = len(part).to_bytes(_HEAD) + part
    while content:
        content = content[os.write(writing, content) :]
