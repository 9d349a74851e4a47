"""The journal as the rest of XCE sees it; `xce.journal.sqlite` and `xce.journal.postgres` do it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from xce.journal.snapshot import Snapshot
from xce.model.errors import XceError
from xce.model.ids import Epoch, Seq

Blob: TypeAlias = tuple[str, bytes]
"""``(hash, content)``."""


class JournalHeldError(XceError):
    """Another process leads this journal; the message names it."""


class JournalTroubleError(XceError):
    """The storage fails for now (full disk, I/O error); the same bytes may go through later."""


class JournalRefusedError(XceError):
    """The storage does not take us as we are configured; trying again does not help."""


class EpochLostError(XceError):
    """This reign is over, or may be: this process must end."""


class JournalOrderError(XceError):
    """A batch does not follow the last stored one: a fault of the one who appends."""


class StoredBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of one commit: one row of the journal, one frame to followers."""

    first: Seq
    last: Seq
    crc_before: int
    """The crc of entry ``first - 1``; 0 when there is none."""
    crc: int
    """The crc of entry ``last``."""
    content: bytes
    epoch: Epoch = 0
    """The reign in which it was written; set by the journal when it stores."""


class Append(msgspec.Struct, frozen=True):
    """A batch with the blobs that its entries are the first to name."""

    batch: StoredBatch
    blobs: Sequence[Blob] = ()


class JournalReader(Protocol):
    """What may be read at any time, also beside a leader; it takes snapshots of that, too."""

    def first_seq(self) -> Seq:
        """Return the number of the first stored entry; 0 when there is none."""
        ...

    def stored_seq(self) -> Seq:
        """Return the number of the last stored entry as of now; 0 when there is none."""
        ...

    def tail_bytes(self, after: Seq) -> int:
        """Return how large the batches are together that are stored behind an entry."""
        ...

    def read(self, from_seq: Seq) -> Iterator[StoredBatch]:
        """Yield the stored batches in order, beginning with the one that holds ``from_seq``."""
        ...

    def archived(self, from_seq: Seq) -> Iterator[StoredBatch]:
        """Yield the batches that were trimmed, in order, from the one that holds ``from_seq`` on.

        One of them may still be in the journal, too.
        """
        ...

    def blob(self, digest: str) -> bytes | None:
        """Return the content of a blob, or None when it is not there."""
        ...

    def blob_digests(self) -> Sequence[str]:
        """Return the hashes of all stored blobs, sorted."""
        ...

    def load_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot that is whole, or None."""
        ...

    def snapshot_seqs(self) -> Sequence[Seq]:
        """Return the numbers of all stored snapshots, the newest first."""
        ...

    def open_snapshot(self, seq: Seq) -> Snapshot:
        """Return a snapshot; its parts are checked when they are read.

        Raises:
            CorruptJournalError: It is gone, or its table of contents is damaged.
        """
        ...

    def lead_epoch(self) -> Epoch:
        """Return the number of the present or last reign."""
        ...

    def check_storage(self) -> None:
        """Check what lies below the rows.

        Raises:
            CorruptJournalError: Something is damaged; the message says what.
        """
        ...

    def store_snapshot(self, seq: Seq, crc: int, parts: Iterable[bytes]) -> None:
        """Store the snapshot of the state right behind entry ``seq``, whose crc is ``crc``."""
        ...

    def place(self) -> str:
        """Return the name of the storage, for messages."""
        ...

    def close(self) -> None:
        """Give everything back, the lead included."""
        ...


class Journal(JournalReader, Protocol):
    """The journal with its write side; one leader at a time."""

    last_seq: Seq
    """The last durable entry, kept by `append_all`."""
    last_crc: int

    def lead(self, holder: str) -> Epoch:
        """Begin a reign and return its number, higher than every one before.

        Raises:
            JournalHeldError: Somebody else leads.
            JournalTroubleError: The storage cannot be written.
            JournalRefusedError: The storage will not be written as it is configured.
            CorruptJournalError: The storage is damaged, or of a newer release.
        """
        ...

    def keep_lead(self, on_lost: Callable[[EpochLostError], object]) -> None:
        """Hold on to the lead until `close`.

        Args:
            on_lost: Called once, from another thread, when the lead is lost or cannot be held any
                longer.
        """
        ...

    @property
    def leads_surely(self) -> bool:
        """Whether nobody else can lead at this moment."""
        ...

    def append(self, epoch: Epoch, batch: StoredBatch, blobs: Sequence[Blob] = ()) -> None:
        """Make one batch durable; see `append_all`."""
        ...

    def append_all(self, epoch: Epoch, appends: Sequence[Append]) -> None:
        """Make batches durable in one commit; done when this returns.

        The first must follow the last stored one. One that is stored already, with the same crc,
        counts as done.

        Raises:
            EpochLostError: ``epoch`` does not lead any more.
            JournalOrderError: A batch does not follow.
            JournalTroubleError: Nothing of it was stored; it may be tried again.
        """
        ...

    def trim(self, before: Seq, *, limit: int = 256) -> bool:
        """Move batches that end before entry ``before`` to the archive, at most ``limit`` of them.

        The newest is always kept.

        Returns:
            Whether there is more to move.
        """
        ...

    def forget_blobs(self, digests: Sequence[str]) -> None:
        """Drop blobs that nothing names any more."""
        ...

    @property
    def is_untidy(self) -> bool:
        """Whether `tidy` would do something."""
        ...

    def tidy(self) -> None:
        """Do what may be done in an idle moment, so that later commits are not held up."""
        ...
