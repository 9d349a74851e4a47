"""Batches for tests that need a journal."""

from collections.abc import Iterator
from pathlib import Path

from xce.journal.codec import FIRST_CRC, encode_batch
from xce.journal.interface import StoredBatch
from xce.journal.sqlite import SqliteJournal
from xce.model.entry import Cause, Entry
from xce.model.record import JobsForgotten

CAUSE = Cause("kill-jobs", "ann", "owner")


def entry(seq: int, *, padding: int = 0) -> Entry:
    return Entry(seq, 1_000_000 + seq, CAUSE, (JobsForgotten([seq, *range(padding)]),))


def batch(first: int, last: int, crc_before: int, *, padding: int = 0) -> StoredBatch:
    content, crc = encode_batch(
        [entry(seq, padding=padding) for seq in range(first, last + 1)], crc_before
    )
    return StoredBatch(first=first, last=last, crc_before=crc_before, crc=crc, content=content)


def batches(*sizes: int, first: int = 1, crc: int = FIRST_CRC) -> Iterator[StoredBatch]:
    for size in sizes:
        made = batch(first, first + size - 1, crc)
        yield made
        first, crc = made.last + 1, made.crc


def filled(directory: Path, *sizes: int) -> None:
    """Make a journal with batches of these sizes and close it."""
    journal = SqliteJournal(directory)
    epoch = journal.lead("test")
    for made in batches(*sizes, first=journal.last_seq + 1, crc=journal.last_crc):
        journal.append(epoch, made)
    journal.close()
