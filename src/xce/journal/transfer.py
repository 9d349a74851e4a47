"""A whole journal from one place to another: to migrate, to back up, to restore.

A target is empty before, and complete or untouched afterwards: files are made aside and renamed,
a database takes all of it in one transaction.
"""

import hashlib
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from xce.journal.archive import ARCHIVE, Archive
from xce.journal.interface import Blob, JournalReader, StoredBatch
from xce.journal.lock import DirectoryLock
from xce.journal.postgres import PostgresJournal
from xce.journal.postgres_line import PostgresTarget
from xce.journal.snapshot import Snapshot, check_snapshot, store_snapshot
from xce.journal.sqlite import DATABASE, LOCK, SNAPSHOTS, SqliteJournal
from xce.journal.whole import cut_batch, find_snapshot, read_whole
from xce.model.errors import CorruptJournalError, XceError
from xce.model.ids import Epoch, Seq

_GROUP: Final = 64


class NotEmptyError(XceError):
    """There is something in the target already; nothing was changed."""


class Contents(NamedTuple):
    """What a journal holds up to an entry."""

    reader: JournalReader
    upto: Seq
    snapshot: Snapshot | None
    """The newest one that is not behind ``upto``."""
    epoch: Epoch

    @property
    def begins_behind(self) -> Seq:
        """What lies up to here may be in the archive: a controller begins with the snapshot."""
        return self.snapshot.seq if self.snapshot is not None else 0

    def batches(self) -> Iterator[tuple[bool, StoredBatch]]:
        """Yield all batches in order, each with whether it belongs into the archive.

        The last one never does: it says where the journal goes on.
        """
        held: StoredBatch | None = None
        for batch in read_whole(self.reader, 1):
            if batch.first > self.upto:
                break
            if held is not None:
                yield held.last <= self.begins_behind, held
            held = cut_batch(batch, self.upto)
        if held is not None:
            yield False, held

    def blobs(self) -> Iterator[Blob]:
        """Yield all blobs; also such as no entry up to the last one names, which do no harm."""
        for digest in self.reader.blob_digests():
            content = self.reader.blob(digest)
            if content is not None:
                yield digest, content


class Tally(NamedTuple):
    """What a journal holds, so that two can be compared."""

    batches: int
    last_seq: Seq
    blobs: int
    snapshot_seq: Seq
    digest: str
    """Over every byte of all of it."""


def contents_of(reader: JournalReader, *, upto: Seq = 0, epoch: Epoch = 0) -> Contents:
    """Return what a journal holds up to entry ``upto``; 0: all of it.

    Args:
        reader: The journal.
        upto: The last entry.
        epoch: What shall count as the last reign; 0: the journal's own.

    Raises:
        TooEarlyError: The state at that entry cannot be made again.
        CorruptJournalError: There is no such entry.
    """
    last = reader.stored_seq()
    if upto > last:
        raise CorruptJournalError(f"{reader.place()}: ends at entry {last}; {upto} is behind it")
    upto = upto or last
    return Contents(reader, upto, find_snapshot(reader, upto), epoch or reader.lead_epoch())


def tally(contents: Contents) -> Tally:
    """Return what is there, reading all of it."""
    digest = hashlib.blake2b(digest_size=16)
    batches = blobs = 0
    for _, batch in contents.batches():
        batches += 1
        head = (batch.first, batch.last, batch.epoch, batch.crc_before, batch.crc)
        digest.update(repr(head).encode() + batch.content)
    for name, content in contents.blobs():
        blobs += 1
        digest.update(name.encode() + content)
    if contents.snapshot is not None:
        check_snapshot(contents.snapshot)
        digest.update(repr(contents.snapshot.manifest.parts).encode())
    return Tally(batches, contents.upto, blobs, contents.begins_behind, digest.hexdigest())


def fill_sqlite(directory: Path, contents: Contents) -> None:
    """Make a journal of files; ``directory`` holds none yet.

    Raises:
        NotEmptyError: There is one.
        JournalHeldError: A controller leads there.
    """
    if (directory / DATABASE).exists():
        raise NotEmptyError(f"{directory / DATABASE}: there is a journal already")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = DirectoryLock(directory / LOCK)
    try:
        _make_files(directory, contents)
    finally:
        lock.release()


def _make_files(directory: Path, contents: Contents) -> None:
    aside = directory / ".incoming"
    shutil.rmtree(aside, ignore_errors=True)
    journal = SqliteJournal(aside)
    try:
        journal.lead("transfer")
        _fill_files(aside, contents)
    finally:
        journal.close()
    for name in (SNAPSHOTS, ARCHIVE, DATABASE):
        # The database last: without it there is no journal.
        made, final = aside / name, directory / name
        if made.exists():
            if final.is_dir():
                shutil.rmtree(final)
            made.rename(final)
    shutil.rmtree(aside)


def _fill_files(directory: Path, contents: Contents) -> None:
    database = sqlite3.connect(directory / DATABASE, isolation_level=None)
    archive = Archive(directory)
    try:
        database.execute("BEGIN IMMEDIATE")
        for is_archived, group in _groups(contents.batches()):
            if is_archived:
                archive.store(group)
                continue
            rows = [
                (one.last, one.first, one.epoch, one.crc_before, one.crc, one.content)
                for one in group
            ]
            database.executemany("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)", rows)
        database.executemany("INSERT INTO blobs VALUES (?, ?)", contents.blobs())
        database.execute("UPDATE lead SET epoch = ?, holder = 'transfer'", (contents.epoch,))
        database.execute("COMMIT")
        # All of it in the one file: what lies beside it is not renamed.
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        database.close()
        archive.close()
    snapshot = contents.snapshot
    if snapshot is not None:
        store_snapshot(directory / SNAPSHOTS, snapshot.seq, snapshot.crc, snapshot.parts())


def fill_postgres(target: PostgresTarget, contents: Contents) -> None:
    """Make a journal in a database that has none, or an empty one.

    Raises:
        NotEmptyError: There is one, or a controller leads there.
    """
    journal = PostgresJournal(target)
    try:
        journal.make_tables()
        if not journal.fill(_groups(contents.batches()), contents.blobs(), contents.epoch):
            raise NotEmptyError(f"{target.dsn}: there is a journal already")
        snapshot = contents.snapshot
        if snapshot is not None:
            journal.store_snapshot(snapshot.seq, snapshot.crc, snapshot.parts())
    finally:
        journal.close()


def _groups(
    batches: Iterable[tuple[bool, StoredBatch]],
) -> Iterator[tuple[bool, list[StoredBatch]]]:
    """Yield batches some at a time, archived and others apart."""
    group: list[StoredBatch] = []
    kind = False
    for is_archived, batch in batches:
        if group and (is_archived != kind or len(group) >= _GROUP):
            yield kind, group
            group = []
        kind = is_archived
        group.append(batch)
    if group:
        yield kind, group
