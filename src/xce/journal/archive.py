"""Batches that were trimmed, for replay and time travel: a SQLite file beside the journal.

Each batch is compressed by itself. A batch is here, synced, before it leaves the journal, so that
one which a crash caught between the two is in both.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from xce.journal.interface import JournalTroubleError, StoredBatch
from xce.journal.snapshot import sync_directory
from xce.model.errors import CorruptJournalError
from xce.model.ids import Seq

ARCHIVE: Final = "archive.db"
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS batches (last INTEGER PRIMARY KEY, first INTEGER NOT NULL,"
    " epoch INTEGER NOT NULL, crc_before INTEGER NOT NULL, crc INTEGER NOT NULL,"
    " content BLOB NOT NULL)"
)
_PAGE_ROWS: Final = 64
_LEVEL: Final = 1
"""Of compression: entries shrink to a quarter, at the speed of the disk."""


class Archive:
    """The write side; belongs to the thread that trims."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / ARCHIVE
        try:
            if not self._path.exists():
                _make(self._path)
            self._connection = _open(self._path)
        except (OSError, sqlite3.Error) as error:
            raise JournalTroubleError(f"{self._path}: {error}") from error

    def store(self, batches: Iterable[StoredBatch]) -> None:
        """Keep batches; ones that are here already stay.

        Raises:
            JournalTroubleError: They were not stored.
        """
        connection = self._connection
        rows = [
            (
                batch.last,
                batch.first,
                batch.epoch,
                batch.crc_before,
                batch.crc,
                zlib.compress(batch.content, _LEVEL),
            )
            for batch in batches
        ]
        try:
            connection.execute("BEGIN IMMEDIATE")
            statement = "INSERT OR IGNORE INTO batches VALUES (?, ?, ?, ?, ?, ?)"
            connection.executemany(statement, rows)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise JournalTroubleError(f"{self._path}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _make(path: Path) -> None:
    """Make an archive under another name: who reads this one must find it whole, or not at all."""
    fresh = path.with_name(f"{ARCHIVE}.new")
    for ending in ("", "-journal", "-wal", "-shm"):
        fresh.with_name(fresh.name + ending).unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    _open(fresh).close()
    fresh.rename(path)
    sync_directory(path.parent)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(_TABLE)
    return connection


def read_archive(directory: Path, from_seq: Seq) -> Iterator[StoredBatch]:
    """Yield the batches that were trimmed, in order, beginning with the one that holds an entry.

    Raises:
        CorruptJournalError: The file is damaged.
    """
    path = directory / ARCHIVE
    if not path.exists():
        return
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=10.0
        )
    except sqlite3.Error as error:
        raise CorruptJournalError(f"{path}: {error}") from error
    try:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            return  # a crash left it so, of a release that made it in its place
        statement = (
            "SELECT first, last, crc_before, crc, content, epoch FROM batches"
            f" WHERE last >= ? ORDER BY last LIMIT {_PAGE_ROWS}"
        )
        while rows := connection.execute(statement, (from_seq,)).fetchall():
            for first, last, crc_before, crc, content, epoch in rows:
                yield StoredBatch(
                    first=first,
                    last=last,
                    crc_before=crc_before,
                    crc=crc,
                    content=zlib.decompress(content),
                    epoch=epoch,
                )
            from_seq = int(rows[-1][1]) + 1
    except (sqlite3.Error, zlib.error) as error:
        raise CorruptJournalError(f"{path}: {error}") from error
    finally:
        connection.close()
