"""A journal with its archive as one: from its first batch to its last, and by time."""

from collections.abc import Iterator

import msgspec

from xce.journal.codec import decode_batch, split_batch
from xce.journal.interface import JournalReader, StoredBatch
from xce.journal.recover import check_batch
from xce.journal.snapshot import Snapshot, check_snapshot
from xce.model.entry import Entry
from xce.model.errors import CorruptJournalError, XceError
from xce.model.ids import Micros, Seq


class TooEarlyError(XceError):
    """Nothing is kept from which that state could be made; the message says from when on it is."""


def read_whole(reader: JournalReader, from_seq: Seq) -> Iterator[StoredBatch]:
    """Yield all batches there are, the archived ones first, from the one that holds an entry."""
    for batch in reader.archived(from_seq):
        yield batch
        from_seq = batch.last + 1
    yield from reader.read(from_seq)


def whole_first_seq(reader: JournalReader) -> Seq:
    """Return the first entry that is kept anywhere; 0: none is."""
    first = next(read_whole(reader, 1), None)
    return first.first if first is not None else 0


def read_whole_entries(reader: JournalReader, seq: Seq, crc: int) -> Iterator[Entry]:
    """Yield all entries behind ``seq``, whose crc is ``crc``, checked one against the other.

    Raises:
        CorruptJournalError: An entry is damaged or missing.
    """
    for batch in read_whole(reader, seq + 1):
        entries, crc = check_batch(batch, after_seq=seq, after_crc=crc, place=reader.place())
        seq = batch.last
        yield from entries


def find_seq(reader: JournalReader, at_us: Micros) -> Seq:
    """Return the last entry at or before an instant; 0: all that is kept is later.

    Costs: reads some twenty batches of a million.
    """
    low, high = whole_first_seq(reader) - 1, reader.stored_seq()
    if low < 0:
        return 0
    begin = low
    while low < high:
        middle = (low + high + 1) // 2
        batch = next(read_whole(reader, middle))
        entries, _ = decode_batch(batch.content, previous_crc=None, expected_seq=None)
        if entries[0].at_us > at_us:
            high = batch.first - 1
        elif entries[-1].at_us <= at_us:
            low = batch.last
        else:
            return max(entry.seq for entry in entries if entry.at_us <= at_us)
    return low if low > begin else 0


def find_snapshot(reader: JournalReader, upto: Seq) -> Snapshot | None:
    """Return the newest whole snapshot at or before entry ``upto``; None: begin with nothing.

    Raises:
        TooEarlyError: There is none, and the first entries are gone.
    """
    seqs = reader.snapshot_seqs()
    for seq in seqs:
        if seq <= upto:
            try:
                snapshot = reader.open_snapshot(seq)
                check_snapshot(snapshot)
            except CorruptJournalError:
                continue
            return snapshot
    first = whole_first_seq(reader)
    if first > 1:
        raise TooEarlyError(
            f"{reader.place()}: entry {upto} is too early: the earliest state that can be made "
            f"again is that of entry {min(seqs, default=first)}"
        )
    return None


def cut_batch(batch: StoredBatch, upto: Seq) -> StoredBatch:
    """Return a batch without what lies behind entry ``upto``, which it holds."""
    if batch.last <= upto:
        return batch
    content, crc = split_batch(batch.content, upto + 1 - batch.first)
    return msgspec.structs.replace(batch, last=upto, crc=crc, content=content)
