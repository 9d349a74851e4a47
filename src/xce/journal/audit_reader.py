"""Reading the audit: from the history store, and of what that has not got yet, from the journal."""

from collections.abc import Iterator
from typing import Final

from xce.journal.audit import OF_USERS, AuditRow, rows_of
from xce.journal.history_place import HistoryPlace, open_for_reading
from xce.journal.history_store import HistoryStore
from xce.journal.interface import JournalReader
from xce.journal.recover import check_batch
from xce.journal.whole import read_whole
from xce.model.ids import Seq
from xce.model.record import ConfigApplied

_AT_ONCE: Final = 5_000
_ROWS: Final = """SELECT number, seq, at_us, "user", action, about, basis, origin, result, count
FROM audit WHERE number > ? AND seq <= ? ORDER BY number LIMIT ?"""


def read_audit(reader: JournalReader, history: HistoryPlace) -> Iterator[AuditRow]:
    """Yield what is known about users, oldest first.

    Args:
        reader: The journal with its archive.
        history: Where the history store is, if there is one.

    Raises:
        CorruptJournalError: An entry is damaged; what was before it was given.
        HistoryError: The history store cannot be read.
    """
    seq = 0
    hosts: tuple[str, ...] = ()
    store = open_for_reading(history)
    if store is not None:
        try:
            ((seq,),) = store.rows("SELECT seq FROM cursor")
            hosts = tuple(name for (name,) in store.rows("SELECT name FROM hosts ORDER BY number"))
            yield from _stored(store, seq)
        finally:
            store.close()
    yield from _written(reader, seq, hosts)


def _stored(store: HistoryStore, last: Seq) -> Iterator[AuditRow]:
    if not store.has("audit"):
        return  # Of an earlier release, which kept none.
    number = -1
    while rows := store.rows(_ROWS, (number, last, _AT_ONCE)):
        for number, seq, at_us, *rest in rows:  # noqa: B007 - the last one is used
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
