"""Entries as the batch that the journal stores: encoded once, with the chain it goes on from."""

from collections.abc import Sequence

from xce.journal.codec import encode_batch
from xce.journal.interface import StoredBatch
from xce.model.entry import Entry


def make_batch(entries: Sequence[Entry], *, crc_before: int) -> StoredBatch:
    """Return the batch of ``entries`` (one or more, in order), to be stored and sent as it is.

    Args:
        entries: What one commit makes true.
        crc_before: The crc of the entry before the first of these; 0 when there is none.
    """
    content, crc = encode_batch(entries, crc_before)
    return StoredBatch(
        first=entries[0].seq,
        last=entries[-1].seq,
        crc_before=crc_before,
        crc=crc,
        content=content,
    )
