"""Reading the audit: from the history store, and of what that has not got yet, from the journal."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from xce.journal.audit import OF_USERS, AuditRow, rows_of
from xce.journal.history_schema import HistoryError, check_schema
from xce.journal.interface import JournalReader
from xce.journal.recover import check_batch
from xce.journal.whole import read_whole
from xce.model.ids import Seq
from xce.model.record import ConfigApplied


def read_audit(reader: JournalReader, history: Path) -> Iterator[AuditRow]:
    """Yield what is known about users, oldest first.

    Args:
        reader: The journal with its archive.
        history: The history store's file; it may be missing.

    Raises:
        CorruptJournalError: An entry is damaged; what was before it was given.
        HistoryError: The history store cannot be read.
    """
    seq = 0
    hosts: tuple[str, ...] = ()
    if history.exists():
        try:
            uri = f"{history.resolve().as_uri()}?mode=ro"
            with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=10.0)) as connection:
                check_schema(connection, history)
                (seq,) = connection.execute("SELECT seq FROM cursor").fetchone()
                names = connection.execute("SELECT name FROM hosts ORDER BY number")
                hosts = tuple(name for (name,) in names)
                yield from _stored(connection, seq)
        except sqlite3.Error as error:
            raise HistoryError(f"{history}: {error}") from error
    yield from _written(reader, seq, hosts)


def _stored(connection: sqlite3.Connection, last: Seq) -> Iterator[AuditRow]:
    tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'audit'").fetchone()
    if tables is None:
        return  # Of an earlier release, which kept none.
    for row in connection.execute(
        "SELECT seq, at_us, user, action, about, basis, origin, result, count FROM audit "
        "WHERE seq <= ? ORDER BY number",
        (last,),
    ):
        seq, at_us, *rest = row
        yield AuditRow(seq, at_us / 1_000_000, *rest)


def _written(reader: JournalReader, last: Seq, hosts: tuple[str, ...]) -> Iterator[AuditRow]:
    after: tuple[Seq, int] | None = None
    for batch in read_whole(reader, last + 1):
        seq, crc = after or (batch.first - 1, batch.crc_before)
        entries, crc = check_batch(batch, after_seq=seq, after_crc=crc, place=reader.place())
        after = (batch.last, crc)
        for entry in entries:
            for record in entry.records:
                if isinstance(record, ConfigApplied):
                    hosts = record.hosts
            if entry.seq > last and entry.cause.kind in OF_USERS:
                yield from rows_of(entry, hosts)
