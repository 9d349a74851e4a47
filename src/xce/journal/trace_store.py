"""Traced sessions on disk: files of one directory, bounded in all, the oldest dropped first.

A file is a head and then one frame for each session: length and checksum, 4 bytes each, then the
tables as MessagePack, packed with zlib. Names tell the number of the first session. Each frame is
one write, so readers find whole frames; what is damaged ends its file, and is told by name.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from xce.model.errors import XceError
from xce.model.trace import SessionTrace

HEAD: Final = b"XCE-TRACE-1\n"
SUFFIX: Final = ".trace"
FILE_BYTES: Final = 1 << 20
"""A file that is larger is followed by another one."""
TOTAL_BYTES: Final = 64 << 20
FRAME_BYTES_MAX: Final = 16 << 20
"""A longer frame is damage."""
UNPACKED_BYTES_MAX: Final = 64 << 20
_FRAME: Final = struct.Struct("<II")
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(SessionTrace)


class TraceStoreError(XceError):
    """A directory of traces cannot be used; the message says why."""


class TraceWriter:
    """Appends traced sessions to a directory.

    Args:
        directory: Is made when something is written.
        total_bytes: So much is kept in all.
        file_bytes: So large a file may grow.
        mode: Of the directory, when it is made.
        first: Number of the first session; 0: the one behind the last in the directory.
    """

    def __init__(
        self,
        directory: Path,
        *,
        total_bytes: int = TOTAL_BYTES,
        file_bytes: int = FILE_BYTES,
        mode: int = 0o700,
        first: int = 0,
    ) -> None:
        self._directory = directory
        self._total_bytes = total_bytes
        self._file_bytes = file_bytes
        self._mode = mode
        self._path: Path | None = None
        self._size = 0
        self._next = first
        """Number of the next session; 0: not known yet."""

    def write(self, session: SessionTrace) -> int:
        """Append a session and return its number.

        Raises:
            TraceStoreError: It cannot be written.
        """
        try:
            return self._write(session)
        except OSError as error:
            raise TraceStoreError(f"{self._directory}: {error.strerror or error}") from error

    def _write(self, session: SessionTrace) -> int:
        if self._path is None:
            self._directory.mkdir(mode=self._mode, parents=True, exist_ok=True)
        if not self._next:
            self._next = last_number(self._directory) + 1
        number = session.number = self._next
        packed = zlib.compress(_ENCODER.encode(session), 6)
        frame = _FRAME.pack(len(packed), zlib.crc32(packed)) + packed
        if self._path is None or self._size >= self._file_bytes:
            self._drop_oldest()
            self._path = self._directory / f"{number:012d}{SUFFIX}"
            frame = HEAD + frame
            self._size = 0
        with self._path.open("ab", buffering=0) as file:
            file.write(frame)
        self._size += len(frame)
        self._next += 1
        return number

    def _drop_oldest(self) -> None:
        """Remove the oldest files until there is room for one more."""
        sizes = [(path, _size(path)) for path in trace_files(self._directory)]
        total = sum(size for _, size in sizes) + self._file_bytes
        for path, size in sizes:
            if total <= self._total_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size


def open_writer(directory: Path, *, first: int = 1) -> TraceWriter:
    """Return what writes to a directory without traces, the first session as number ``first``.

    Raises:
        TraceStoreError: There are traces, or it cannot be read.
    """
    try:
        if trace_files(directory):
            text = f"{directory}: there are traces already; name an empty directory"
            raise TraceStoreError(text)
    except OSError as error:
        raise TraceStoreError(f"{directory}: {error.strerror}") from error
    return TraceWriter(directory, first=first)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def trace_files(directory: Path) -> list[Path]:
    """Return the files of a directory, the oldest first; none where there is no directory."""
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208 - names are enough
    except FileNotFoundError:
        return []
    return [
        directory / name
        for name in names
        if name.endswith(SUFFIX) and name.removesuffix(SUFFIX).isdecimal()
    ]


def last_number(directory: Path) -> int:
    """Return the number of the last session of a directory; 0: there is none."""
    paths = trace_files(directory)
    if not paths:
        return 0
    # What is damaged had numbers, too: no file is ever written twice.
    first = int(paths[-1].name.removesuffix(SUFFIX))
    return max([first, *(session.number for session in read_file(paths[-1], []))])


def read_file(path: Path, damaged: list[str]) -> Iterator[SessionTrace]:
    """Yield the sessions of a file; what is wrong with it is added to ``damaged``."""
    content = _content(path, damaged)
    if content is None:
        return
    if not content.startswith(HEAD):
        damaged.append(f"{path}: is no file of traces; it is skipped")
        return
    at = len(HEAD)
    while at < len(content):
        session, after = _frame(content, at)
        if session is None:
            again = _content(path, damaged) or b""
            if len(again) > len(content):
                content = again  # a frame was being written
                continue
            damaged.append(f"{path}: damaged at byte {at}; the rest of it is skipped")
            return
        yield session
        at = after


def _content(path: Path, damaged: list[str]) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None  # dropped meanwhile
    except OSError as error:
        damaged.append(f"{path}: {error.strerror}")
        return None


def _frame(content: bytes, at: int) -> tuple[SessionTrace | None, int]:
    """Return the session at a place and where the next one begins; None: it is damaged."""
    if len(content) - at < _FRAME.size:
        return None, at
    size, crc = _FRAME.unpack_from(content, at)
    first = at + _FRAME.size
    packed = content[first : first + size]
    if size > FRAME_BYTES_MAX or len(packed) < size or zlib.crc32(packed) != crc:
        return None, at
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(packed, UNPACKED_BYTES_MAX)
        return (None if unpacker.unconsumed_tail else _DECODER.decode(unpacked)), first + size
    except (zlib.error, msgspec.DecodeError, RecursionError):
        return None, at


def read_traces(directory: Path, damaged: list[str]) -> Iterator[SessionTrace]:
    """Yield the sessions of a directory, the newest first.

    Args:
        directory: Where they are; there need be none.
        damaged: What is wrong is added to it, with the file's name.
    """
    try:
        paths = trace_files(directory)
    except OSError as error:
        damaged.append(f"{directory}: {error.strerror}")
        return
    for path in reversed(paths):
        yield from reversed(list(read_file(path, damaged)))
