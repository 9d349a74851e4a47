"""The journal in SQLite: WAL mode, ``synchronous=FULL``, one row a batch.

One connection writes and belongs to whoever calls `append_all` (the commit thread); another one,
read-only, belongs to the thread that opened the journal. Readers in other processes open their
own with `open_sqlite_reader` and disturb nobody.
"""

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from xce.journal.archive import Archive, read_archive
from xce.journal.interface import (
    Append,
    EpochLostError,
    JournalOrderError,
    JournalTroubleError,
    StoredBatch,
)
from xce.journal.lock import DirectoryLock
from xce.journal.snapshot import (
    Snapshot,
    load_snapshot,
    open_snapshot,
    store_snapshot,
    stored_snapshots,
    sync_directory,
)
from xce.journal.sqlite_tables import (
    check_pages,
    check_schema,
    connect_reading,
    create_schema,
    errors_named,
)
from xce.journal.wal import LogRoom, check_log_was_read_to_its_end
from xce.model.errors import CorruptJournalError, XceError
from xce.model.ids import Epoch, Seq

DATABASE: Final = "journal.db"
LOCK: Final = "lock"
SNAPSHOTS: Final = "snapshots"
BLOB_DIGEST_BYTES: Final = 16

LOG_PAGES_IDLE: Final = 256
"""So many pages in SQLite's log are moved to the database when there is nothing else to do."""
LOG_PAGES_MAX: Final = 16_384
"""So many (64 MiB) are moved at once, also under load."""

# One statement, so that a commit of one batch is one call: each call gives up the interpreter
# lock and must wait to get it back.
_APPEND: Final = (
    "INSERT INTO batches (last, first, epoch, crc_before, crc, content)"
    " SELECT ?1, ?2, ?3, ?4, ?5, ?6"
    " WHERE ?3 = (SELECT epoch FROM lead)"
    " AND ?2 = 1 + coalesce((SELECT max(last) FROM batches), 0)"
)
# What is stored under a hash is the same, unless it was damaged: then this mends it.
_STORE_BLOB: Final = (
    "INSERT INTO blobs VALUES (?, ?) ON CONFLICT (hash)"
    " DO UPDATE SET content = excluded.content WHERE content IS NOT excluded.content"
)
_ROW: Final = "SELECT first, last, crc_before, crc, content, epoch FROM batches"
_PAGE_ROWS: Final = 64


class SqliteReader:
    """The read side: any number of processes may have one, beside a leader too."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self._directory = directory
        self._database = directory / DATABASE
        self._reading = connection
        self._checked_snapshot: Snapshot | None = None

    def place(self) -> str:
        """Return the path of the database file."""
        return str(self._database)

    def first_seq(self) -> Seq:
        """Return the number of the first stored entry; 0 when there is none."""
        rows = self._rows("SELECT first FROM batches ORDER BY last LIMIT 1")
        return int(rows[0][0]) if rows else 0

    def stored_seq(self) -> Seq:
        """Return the number of the last stored entry as of now; 0 when there is none."""
        rows = self._rows("SELECT max(last) FROM batches")
        return int(rows[0][0] or 0)

    def tail_bytes(self, after: Seq) -> int:
        """Return how large the batches are together that are stored behind an entry."""
        rows = self._rows("SELECT total(length(content)) FROM batches WHERE last > ?", after)
        return int(rows[0][0])

    def read(self, from_seq: Seq) -> Iterator[StoredBatch]:
        """Yield the stored batches in order, beginning with the one that holds ``from_seq``.

        What is stored meanwhile is also found. No lock is held between rows.
        """
        while True:
            rows = self._rows(f"{_ROW} WHERE last >= ? ORDER BY last LIMIT {_PAGE_ROWS}", from_seq)
            for row in rows:
                yield self._batch(row)
            if not rows:
                return
            from_seq = int(rows[-1][1]) + 1

    def archived(self, from_seq: Seq) -> Iterator[StoredBatch]:
        """Yield the batches that were trimmed, in order, from the one that holds ``from_seq``."""
        return read_archive(self._directory, from_seq)

    def blob(self, digest: str) -> bytes | None:
        """Return the content of a blob, or None when it is not there.

        Raises:
            CorruptJournalError: The stored content does not match its hash.
        """
        rows = self._rows("SELECT content FROM blobs WHERE hash = ?", digest)
        if not rows:
            return None
        content = bytes(rows[0][0])
        if hashlib.blake2b(content, digest_size=BLOB_DIGEST_BYTES).hexdigest() != digest:
            raise CorruptJournalError(f"{self._database}: blob {digest} does not match its hash")
        return content

    def blob_digests(self) -> list[str]:
        """Return the hashes of all stored blobs."""
        return [row[0] for row in self._rows("SELECT hash FROM blobs ORDER BY hash")]

    def load_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot that is whole, or None; what is damaged is warned of."""
        known = self._checked_snapshot
        root = self._directory / SNAPSHOTS
        if known is not None and known.directory.exists():
            newest = max((int(p.name) for p in root.iterdir() if p.name.isdecimal()), default=0)
            if newest == known.seq:
                return known
        self._checked_snapshot = load_snapshot(root)
        return self._checked_snapshot

    def snapshot_seqs(self) -> list[Seq]:
        """Return the numbers of all stored snapshots, the newest first."""
        return stored_snapshots(self._directory / SNAPSHOTS)

    def open_snapshot(self, seq: Seq) -> Snapshot:
        """Return a snapshot; its parts are checked when they are read.

        Raises:
            SnapshotDamagedError: It is gone, or its table of contents is damaged.
        """
        return open_snapshot(self._directory / SNAPSHOTS / str(seq))

    def lead_epoch(self) -> Epoch:
        """Return the number of the present or last reign."""
        return int(self._rows("SELECT epoch FROM lead")[0][0])

    def store_snapshot(self, seq: Seq, crc: int, parts: Iterable[bytes]) -> None:
        """Store the snapshot of the state right behind entry ``seq``; keep the newest two."""
        store_snapshot(self._directory / SNAPSHOTS, seq, crc, parts)

    def check_storage(self) -> None:
        """Check what lies below the rows: the file's pages and SQLite's log.

        Costs: reads all stored batches once.

        Raises:
            CorruptJournalError: Something is damaged; the message says what.
        """
        with errors_named(self._database):
            check_pages(self._reading, self._database)
        check_log_was_read_to_its_end(self._database)

    def close(self) -> None:
        """Close the connection."""
        self._reading.close()

    def _batch(self, row: tuple[Any, ...]) -> StoredBatch:
        first, last, crc_before, crc, content, epoch = row
        # SQLite gives back whatever type a damaged row claims to hold.
        numbers_are_whole = all(isinstance(number, int) for number in (first, crc_before, crc))
        if not numbers_are_whole or not isinstance(content, bytes):
            raise CorruptJournalError(f"{self._database}: the batch that ends with entry {last}")
        return StoredBatch(
            first=first, last=last, crc_before=crc_before, crc=crc, content=content, epoch=epoch
        )

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with errors_named(self._database):
            return self._reading.execute(statement, values).fetchall()


class SqliteJournal(SqliteReader):
    """The write side, for the one process that leads."""

    def __init__(self, directory: Path) -> None:
        self._lock: DirectoryLock | None = None
        self._writing: sqlite3.Connection | None = None
        self._archive: Archive | None = None
        self._room: LogRoom | None = None
        self._log_pages = 0
        self._files: dict[Path, tuple[int, int]] = {}
        self.last_seq: Seq = 0
        self.last_crc = 0
        # Reading begins with `lead`: before it there may be no file to read.
        super().__init__(directory, sqlite3.connect(":memory:"))
        self._reading.close()

    def lead(self, holder: str) -> Epoch:
        """Begin a reign; the lock on the directory is held until `close` or the process's death.

        Raises:
            JournalHeldError: Another process leads; the message names it.
            JournalTroubleError: The file cannot be written (full disk, rights).
            CorruptJournalError: The file is damaged, or of a newer release.
        """
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = DirectoryLock(self._directory / LOCK)
        except OSError as error:
            raise JournalTroubleError(f"{self._directory}: {error.strerror}") from error
        try:
            with errors_named(self._database):
                return self._open_and_begin(holder)
        except BaseException:
            self.close()
            raise

    def keep_lead(self, on_lost: Callable[[EpochLostError], object]) -> None:
        """Nothing is to be done: the lock is held as long as the process lives."""

    @property
    def leads_surely(self) -> bool:
        """Whether the lock is held."""
        return self._lock is not None

    def append(
        self, epoch: Epoch, batch: StoredBatch, blobs: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """Make one batch durable; see `append_all`."""
        self.append_all(epoch, (Append(batch, blobs),))

    def append_all(self, epoch: Epoch, appends: Sequence[Append]) -> None:
        """Make batches durable in one commit; done when this returns.

        One that is stored already, with the same crc, counts as done.

        Raises:
            EpochLostError: ``epoch`` does not lead any more.
            JournalOrderError: A batch does not follow the last stored one.
            JournalTroubleError: It does not count as stored; the same may be tried again.
        """
        connection = self._writer()
        with errors_named(self._database):
            try:
                if len(appends) == 1 and not appends[0].blobs:
                    self._insert(connection, epoch, appends[0].batch, self.last_crc)
                else:
                    connection.execute("BEGIN IMMEDIATE")
                    crc = self.last_crc
                    for append in appends:
                        connection.executemany(_STORE_BLOB, append.blobs)
                        self._insert(connection, epoch, append.batch, crc)
                        crc = append.batch.crc
                    connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        self._check_still_there()
        if self._room is not None:
            self._room.keep()
        for append in appends:
            self._log_pages += 2 + len(append.batch.content) // 4096 + 3 * len(append.blobs)
        last = appends[-1].batch
        if last.last > self.last_seq:
            self.last_seq, self.last_crc = last.last, last.crc
        if self._log_pages > LOG_PAGES_MAX:
            self._move_log(connection)

    def trim(self, before: Seq, *, limit: int = 256) -> bool:
        """Move batches that end before entry ``before`` to the archive, at most ``limit``.

        The newest is always kept: it says where the journal goes on.

        Returns:
            Whether there is more to move.
        """
        connection = self._writer()
        before = min(before, self.last_seq)
        with errors_named(self._database):
            rows = connection.execute(
                f"{_ROW} WHERE last < ? ORDER BY last LIMIT ?", (before, limit)
            ).fetchall()
            if not rows:
                return False
            if self._archive is None:
                self._archive = Archive(self._directory)
            self._archive.store(map(self._batch, rows))
            connection.execute("DELETE FROM batches WHERE last <= ?", (rows[-1][1],))
        self._log_pages += len(rows)
        return len(rows) == limit

    def forget_blobs(self, digests: Sequence[str]) -> None:
        """Drop blobs that nothing names any more."""
        connection = self._writer()
        with errors_named(self._database):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM blobs WHERE hash = ?", [(d,) for d in digests])
            connection.execute("COMMIT")
        self._log_pages += len(digests)

    @property
    def is_untidy(self) -> bool:
        """Whether SQLite's log has grown."""
        return self._log_pages > LOG_PAGES_IDLE

    def tidy(self) -> None:
        """Move SQLite's log into the database when it has grown; for idle moments."""
        if self._writing is not None and self.is_untidy:
            self._move_log(self._writing)

    def close(self) -> None:
        """Close both connections, then give up the lead."""
        super().close()
        if self._writing is not None:
            with contextlib.suppress(sqlite3.Error):
                self._writing.close()
            self._writing = None
        if self._room is not None:
            self._room.close()
            self._room = None
        if self._archive is not None:
            self._archive.close()
            self._archive = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _writer(self) -> sqlite3.Connection:
        if self._writing is None:
            raise XceError(f"{self._database}: not open for writing: `lead` comes first")
        return self._writing

    def _open_and_begin(self, holder: str) -> Epoch:
        is_new = not self._database.exists()
        if not is_new:
            with contextlib.closing(connect_reading(self._database)) as looking:
                # The read makes SQLite recover its log; only then can it be judged.
                check_schema(looking, self._database)
                check_log_was_read_to_its_end(self._database)
        connection = sqlite3.connect(
            self._database, isolation_level=None, check_same_thread=False, timeout=10.0
        )
        self._writing = connection
        if is_new:
            self._database.chmod(0o600)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        create_schema(connection)
        check_schema(connection, self._database)
        check_pages(connection, self._database)
        row = connection.execute(
            "UPDATE lead SET epoch = epoch + 1, holder = ?, at_us = ? RETURNING epoch",
            (f"{holder} pid {os.getpid()}", time.time_ns() // 1000),
        ).fetchone()
        self._move_log(connection)
        sync_directory(self._directory)
        end = connection.execute(
            "SELECT last, crc FROM batches ORDER BY last DESC LIMIT 1"
        ).fetchone()
        self.last_seq, self.last_crc = end or (0, 0)
        self._reading = connect_reading(self._database)
        log = self._database.with_name(f"{DATABASE}-wal")
        self._files = {path: _identity(path) for path in (self._database, log)}
        self._room = LogRoom(log)
        return int(row[0])

    def _check_still_there(self) -> None:
        """Check that what was just stored can be found again by its name.

        Raises:
            JournalTroubleError: Somebody has removed or replaced the files; nothing may be
                acknowledged until they are back.
        """
        for path, identity in self._files.items():
            try:
                if _identity(path) == identity:
                    continue
                fate = "replaced"
            except OSError:
                fate = "removed"
            raise JournalTroubleError(
                f"{path}: was {fate} while the controller uses it; move it back, or save its "
                f"content from /proc/{os.getpid()}/fd as long as this process lives"
            )

    def _insert(
        self, connection: sqlite3.Connection, epoch: Epoch, batch: StoredBatch, crc: int
    ) -> None:
        row = (batch.last, batch.first, epoch, batch.crc_before, batch.crc, batch.content)
        follows = batch.crc_before == crc and batch.last >= batch.first
        if follows and connection.execute(_APPEND, row).rowcount == 1:
            return
        (leading,) = connection.execute("SELECT epoch FROM lead").fetchone()
        if leading != epoch:
            raise EpochLostError(
                f"{self._database}: epoch {epoch} is over, epoch {leading} leads: "
                "another controller took over"
            )
        stored = connection.execute(
            "SELECT first, crc_before, crc FROM batches WHERE last = ?", (batch.last,)
        ).fetchone()
        if stored != (batch.first, batch.crc_before, batch.crc):
            raise JournalOrderError(
                f"{self._database}: batch {batch.first}..{batch.last} (crc {batch.crc_before:08x}) "
                f"does not follow entry {self.last_seq} (crc {self.last_crc:08x})"
            )

    def _move_log(self, connection: sqlite3.Connection) -> None:
        # In vain on a full disk: then the log just stays longer.
        self._log_pages = 0
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def open_sqlite_reader(directory: Path) -> SqliteReader:
    """Open the journal in ``directory`` for reading, beside a running controller or without one.

    Raises:
        CorruptJournalError: There is none, it is damaged, or of a newer release.
    """
    database = directory / DATABASE
    if not database.exists():
        raise CorruptJournalError(f"{database}: there is no journal")
    with errors_named(database):
        connection = connect_reading(database)
        try:
            check_schema(connection, database)
        except BaseException:
            connection.close()
            raise
    return SqliteReader(directory, connection)


def _identity(path: Path) -> tuple[int, int]:
    """Return what tells one file from another of the same name."""
    found = os.stat(path)  # noqa: PTH116 - at each commit: half of what Path takes
    return found.st_dev, found.st_ino
