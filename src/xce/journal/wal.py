"""SQLite's write-ahead log: room ahead of what is written, and whether it was read to its end.

A commit that makes the log longer has to make the new length durable, too: that doubles the time
it takes. So the file is always a little longer than what is in it; zeros are no frames.

Did SQLite leave something out that was durable?

After a crash SQLite reads its write-ahead log up to the first frame whose checksum is wrong and
takes it for the torn end of an unfinished commit. That is right for the last commit only: every
commit is synced before the next one begins, so a bad frame with a whole later commit behind it is
damage, and what lies behind it was promised to somebody. SQLite would drop it silently.

Source: https://sqlite.org/fileformat2.html#the_write_ahead_log and
https://sqlite.org/walformat.html#the_wal_index_file_format (``mxFrame`` at offset 16).
"""

import contextlib
import os
import struct
from pathlib import Path
from typing import Final

from xce.model.errors import CorruptJournalError

_WAL_HEAD: Final = struct.Struct(">8I")
_FRAME_HEAD: Final = struct.Struct(">6I")
_INDEX_HEAD_BYTES: Final = 48
_MAGICS: Final = (0x377F0682, 0x377F0683)
ROOM_BYTES: Final = 1024 * 1024


class LogRoom:
    """Keeps the log longer than what is in it. For the thread that writes.

    SQLite begins at the front again when everything was moved to the database, so this costs
    something only until the log is as long as it ever gets.
    """

    def __init__(self, log: Path) -> None:
        self._file = os.open(log, os.O_WRONLY | os.O_CLOEXEC)
        self._size = 0
        self.keep()

    def keep(self) -> None:
        """Add room when the last commit has used up what there was."""
        size = os.fstat(self._file).st_size
        if size <= self._size:
            return
        # In vain on a full disk: then a commit takes longer, or fails as it would have.
        with contextlib.suppress(OSError):
            size += os.pwrite(self._file, bytes(ROOM_BYTES), size)
        self._size = size

    def close(self) -> None:
        """End."""
        os.close(self._file)


def check_log_was_read_to_its_end(database: Path) -> None:
    """Check the log beside ``database``, which a connection has open and has just read.

    While somebody writes there is nothing to judge: a leader has checked before it wrote.

    Raises:
        CorruptJournalError: There are commits behind the place where SQLite stopped.
    """
    log = database.with_name(database.name + "-wal")
    index = database.with_name(database.name + "-shm")
    if not log.exists() or not index.exists():
        return
    before = _index_head(index)
    if len(before) < _INDEX_HEAD_BYTES:
        return
    (frames_read,) = struct.unpack_from("=I", before, 16)
    commits = _commits_behind(log, frames_read)
    if commits and _index_head(index) == before:
        raise CorruptJournalError(
            f"{log}: damaged at frame {frames_read + 1}: {commits} later commits cannot be read; "
            "do not delete anything: restore the file from a copy, or move this file away to go on "
            "with what was stored before it (what it held is then lost)"
        )


def _index_head(index: Path) -> bytes:
    with index.open("rb") as file:
        return file.read(_INDEX_HEAD_BYTES)


def _commits_behind(log: Path, frames_read: int) -> int:
    """Count commits of the log's present generation behind the frame after ``frames_read``.

    The frame right behind may be the torn end; frames of the same torn commit may be whole, its
    commit frame included. So only what follows a first commit frame counts.
    """
    with log.open("rb") as file:
        head = file.read(_WAL_HEAD.size)
        if len(head) < _WAL_HEAD.size:
            return 0
        magic, _, page_size, _, *salts = _WAL_HEAD.unpack(head)[:6]
        if magic not in _MAGICS:
            return 0
        commits = 0
        number = frames_read
        while True:
            file.seek(_WAL_HEAD.size + number * (_FRAME_HEAD.size + page_size))
            frame = file.read(_FRAME_HEAD.size)
            if len(frame) < _FRAME_HEAD.size:
                break
            _, size_after_commit, *frame_salts = _FRAME_HEAD.unpack(frame)[:4]
            if frame_salts == salts and size_after_commit:
                commits += 1
            number += 1
    return max(commits - 1, 0)
