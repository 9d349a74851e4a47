"""The read side of the journal in PostgreSQL: any number of processes may have one."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from xce.journal.interface import StoredBatch
from xce.journal.postgres_line import QUIET_S, Connection, Line, LoopThread, PostgresTarget
from xce.journal.postgres_tables import HAS_TABLES, ROW, SCHEMA_VERSION, WHO_LEADS
from xce.journal.snapshot import (
    KEPT,
    Manifest,
    Snapshot,
    SnapshotDamagedError,
    check_snapshot,
    digest_part,
    make_manifest,
    parse_manifest,
)
from xce.model.errors import CorruptJournalError
from xce.model.ids import Epoch, Seq

READ_S: Final = 10.0
SNAPSHOT_S: Final = 600.0
BLOB_DIGEST_BYTES: Final = 16
_PAGE_ROWS: Final = 64


class RowSnapshot(Snapshot, frozen=True, kw_only=True):
    """A snapshot whose parts are rows."""

    fetch: Callable[[int], bytes | None]

    def part(self, number: int) -> bytes:
        """Return part ``number``, counted from 0.

        Raises:
            SnapshotDamagedError: It is gone or altered.
        """
        content = self.fetch(number)
        if content is None or digest_part(content) != self.manifest.parts[number]:
            what = "is gone" if content is None else "does not match its digest"
            raise SnapshotDamagedError(f"{self.directory}: part {number} {what}")
        return content


class PostgresReader:
    """The read side."""

    def __init__(self, target: PostgresTarget, *, name: str = "xce reader") -> None:
        self._target = target
        self._thread = LoopThread()
        self._reading = Line(self._thread, target, name, quiet_s=QUIET_S)
        self._checked_snapshot: RowSnapshot | None = None

    def place(self) -> str:
        """Return the database's name."""
        return self._target.dsn

    def check_schema(self) -> None:
        """Check that there is a journal which this release can read.

        Raises:
            CorruptJournalError: There is none, or it is of a newer release.
        """

        async def look(connection: Connection) -> int | None:
            if not await connection.fetchval(HAS_TABLES):
                return None
            return int(await connection.fetchval("SELECT max(version) FROM xce_schema") or 0)

        found = self._reading.call(look, timeout_s=READ_S)
        if found is None:
            raise CorruptJournalError(f"{self.place()}: there is no journal")
        check_version(found, self.place())

    def first_seq(self) -> Seq:
        """Return the number of the first stored entry; 0 when there is none."""
        rows = self._rows("SELECT first FROM xce_batches ORDER BY last LIMIT 1")
        return int(rows[0][0]) if rows else 0

    def stored_seq(self) -> Seq:
        """Return the number of the last stored entry as of now; 0 when there is none."""
        return int(self._rows("SELECT max(last) FROM xce_batches")[0][0] or 0)

    def tail_bytes(self, after: Seq) -> int:
        """Return how large the batches are together that are stored behind an entry."""
        statement = "SELECT sum(octet_length(content)) FROM xce_batches WHERE last > $1"
        return int(self._rows(statement, after)[0][0] or 0)

    def read(self, from_seq: Seq) -> Iterator[StoredBatch]:
        """Yield the stored batches in order, beginning with the one that holds ``from_seq``."""
        return self._read("xce_batches", from_seq)

    def archived(self, from_seq: Seq) -> Iterator[StoredBatch]:
        """Yield the batches that were trimmed, in order, from the one that holds ``from_seq``."""
        return self._read("xce_archive", from_seq)

    def lead_epoch(self) -> Epoch:
        """Return the number of the present or last reign."""
        return int(self._rows("SELECT epoch FROM xce_lead")[0][0])

    def holder(self) -> str:
        """Return who leads; empty: nobody does now."""
        found = self._rows(WHO_LEADS)[0]
        return str(found["holder"]) if found["holds"] else ""

    def blob(self, digest: str) -> bytes | None:
        """Return the content of a blob, or None when it is not there.

        Raises:
            CorruptJournalError: The stored content does not match its hash.
        """
        rows = self._rows("SELECT content FROM xce_blobs WHERE hash = $1", digest)
        if not rows:
            return None
        content = bytes(rows[0][0])
        if hashlib.blake2b(content, digest_size=BLOB_DIGEST_BYTES).hexdigest() != digest:
            raise CorruptJournalError(f"{self.place()}: blob {digest} does not match its hash")
        return content

    def blob_digests(self) -> list[str]:
        """Return the hashes of all stored blobs."""
        return sorted(row[0] for row in self._rows("SELECT hash FROM xce_blobs"))

    def snapshot_seqs(self) -> list[Seq]:
        """Return the numbers of all stored snapshots, the newest first."""
        rows = self._rows("SELECT seq FROM xce_snapshots ORDER BY seq DESC")
        return [int(row[0]) for row in rows]

    def load_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot that is whole, or None."""
        for seq in self.snapshot_seqs():
            known = self._checked_snapshot
            if known is not None and known.seq == seq:
                return known
            try:
                snapshot = self.open_snapshot(seq)
                check_snapshot(snapshot)
            except SnapshotDamagedError:
                continue
            self._checked_snapshot = snapshot
            return snapshot
        return None

    def open_snapshot(self, seq: Seq) -> RowSnapshot:
        """Return a snapshot; its parts are checked when they are read.

        Raises:
            SnapshotDamagedError: It is gone, or its manifest is damaged.
        """
        place = f"{self.place()}: snapshot {seq}"
        rows = self._rows("SELECT manifest FROM xce_snapshots WHERE seq = $1", seq)
        if not rows:
            raise SnapshotDamagedError(f"{place}: is gone")
        manifest = parse_manifest(bytes(rows[0][0]), place=place, seq=seq)

        def fetch(number: int) -> bytes | None:
            statement = "SELECT content FROM xce_snapshot_parts WHERE seq = $1 AND number = $2"
            found = self._rows(statement, seq, number)
            return bytes(found[0][0]) if found else None

        return RowSnapshot(directory=Path(place), manifest=manifest, fetch=fetch)

    def store_snapshot(self, seq: Seq, crc: int, parts: Iterable[bytes]) -> None:
        """Store the snapshot of the state right behind entry ``seq``; keep the newest two."""
        pieces = iter(parts)

        async def store(connection: Connection) -> None:
            digests = []
            async with connection.transaction():
                await connection.execute("DELETE FROM xce_snapshot_parts WHERE seq = $1", seq)
                await connection.execute("DELETE FROM xce_snapshots WHERE seq = $1", seq)
                for number, part in enumerate(pieces):
                    digests.append(digest_part(part))
                    await connection.execute(
                        "INSERT INTO xce_snapshot_parts VALUES ($1, $2, $3)", seq, number, part
                    )
                manifest: Manifest = make_manifest(seq, crc, digests)
                await connection.execute(
                    "INSERT INTO xce_snapshots VALUES ($1, $2)", seq, msgspec.json.encode(manifest)
                )
                old = "(SELECT seq FROM xce_snapshots ORDER BY seq DESC OFFSET $1)"
                for table in ("xce_snapshot_parts", "xce_snapshots"):
                    await connection.execute(f"DELETE FROM {table} WHERE seq IN {old}", KEPT)

        self._reading.call(store, timeout_s=SNAPSHOT_S)

    def check_storage(self) -> None:
        """Nothing lies below the rows that we could check: it is the database's."""

    def close(self) -> None:
        """End the connections."""
        self._reading.close()
        self._thread.close()

    def _read(self, table: str, from_seq: Seq) -> Iterator[StoredBatch]:
        statement = f"{ROW} FROM {table} WHERE last >= $1 ORDER BY last LIMIT {_PAGE_ROWS}"
        while True:
            rows = self._rows(statement, from_seq)
            for row in rows:
                yield StoredBatch(
                    first=row["first"],
                    last=row["last"],
                    crc_before=row["crc_before"],
                    crc=row["crc"],
                    content=bytes(row["content"]),
                    epoch=row["epoch"],
                )
            if not rows:
                return
            from_seq = int(rows[-1]["last"]) + 1

    def _rows(self, statement: str, *values: object) -> list[Any]:
        async def fetch(connection: Connection) -> list[Any]:
            rows: list[Any] = await connection.fetch(statement, *values)
            return rows

        return self._reading.call(fetch, timeout_s=READ_S)


def open_postgres_reader(target: PostgresTarget) -> PostgresReader:
    """Open the journal for reading, beside running controllers or without any.

    Raises:
        CorruptJournalError: There is none, or it is of a newer release.
        JournalTroubleError: The database is away.
        JournalRefusedError: The database does not want us.
    """
    reader = PostgresReader(target)
    try:
        reader.check_schema()
    except BaseException:
        reader.close()
        raise
    return reader


def check_version(found: int, place: str) -> None:
    """Check that this release can read tables of version ``found``.

    Raises:
        CorruptJournalError: It cannot.
    """
    if found > SCHEMA_VERSION or not found:
        raise CorruptJournalError(
            f"{place}: written by a newer release (schema {found}, this release knows "
            f"{SCHEMA_VERSION}): use that release or a later one"
        )
