"""The state again: the last snapshot and every entry behind it."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from xce.journal.codec import FIRST_CRC, CorruptEntryError, decode_batch
from xce.journal.interface import JournalReader, StoredBatch
from xce.model.entry import Entry
from xce.model.errors import CorruptJournalError
from xce.model.ids import Seq

State = TypeVar("State")


def recover(
    journal: JournalReader,
    *,
    restore: Callable[[Iterator[bytes]], State],
    empty: Callable[[], State],
    apply_entry: Callable[[State, Entry], object],
) -> tuple[State, Seq, int]:
    """Return the state at the end of the journal, the last entry's number and its crc.

    Args:
        journal: Where to read.
        restore: Makes a state of a snapshot's parts, which are read one by one.
        empty: Makes the state before the first entry.
        apply_entry: Applies an entry to a state.

    Raises:
        CorruptJournalError: An entry is damaged, missing or unknown; the message names the file
            and the entry.
    """
    snapshot = journal.load_snapshot()
    if snapshot is None:
        state, seq, crc = empty(), 0, FIRST_CRC
    else:
        state, seq, crc = restore(snapshot.parts()), snapshot.seq, snapshot.crc
        stored = journal.stored_seq()
        if stored < seq:
            raise CorruptJournalError(
                f"{journal.place()}: ends at entry {stored}, but there is a snapshot of entry {seq}"
                f" ({snapshot.directory}): entries are missing; restore the file from a copy"
            )
    for entries, last_crc in read_entries(journal, seq, crc):
        for entry in entries:
            apply_entry(state, entry)
        seq, crc = entries[-1].seq, last_crc
    return state, seq, crc


def read_entries(journal: JournalReader, seq: Seq, crc: int) -> Iterator[tuple[list[Entry], int]]:
    """Yield the entries behind ``seq``, a batch at a time, with the crc of the last of each.

    Raises:
        CorruptJournalError: As `recover`.
    """
    place = journal.place()
    batches = journal.read(seq + 1)
    while True:
        try:
            batch = next(batches, None)
        except CorruptJournalError as error:
            raise CorruptEntryError(seq + 1, f"cannot be read: {error}", place=place) from error
        if batch is None:
            return
        entries, crc = check_batch(batch, after_seq=seq, after_crc=crc, place=place)
        seq = batch.last
        yield entries, crc


def check_batch(
    batch: StoredBatch, *, after_seq: Seq, after_crc: int, place: str
) -> tuple[list[Entry], int]:
    """Return a batch's entries behind ``after_seq`` and the crc of the last.

    Raises:
        CorruptEntryError: The batch does not follow that entry, or one in it is damaged.
    """
    if batch.first > after_seq + 1:
        missing = f"missing: the journal goes on with entry {batch.first}"
        if after_seq == 0:
            missing += ", and there is no usable snapshot of what came before"
        raise CorruptEntryError(after_seq + 1, missing, place=place)
    try:
        entries, crc = decode_batch(
            batch.content, previous_crc=batch.crc_before, expected_seq=batch.first
        )
    except CorruptEntryError as error:
        raise CorruptEntryError(error.seq, error.why, place=place) from error
    last = entries[-1].seq
    if last != batch.last or crc != batch.crc:
        why = f"the batch should end with entry {batch.last}, crc {batch.crc:08x}; found {crc:08x}"
        raise CorruptEntryError(last, why, place=place)
    if batch.first == after_seq + 1:
        if batch.crc_before != after_crc:
            why = f"does not follow: crc before {batch.crc_before:08x}, expected {after_crc:08x}"
            raise CorruptEntryError(batch.first, why, place=place)
        return entries, crc
    # Begun in the middle: the chain inside the batch is checked already, from its own start.
    return entries[after_seq + 1 - batch.first :], crc
