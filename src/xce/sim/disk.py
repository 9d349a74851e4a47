"""A virtual disk under the journal: slow, sometimes full, and it survives every crash.

What is being written when the controller is killed is there afterwards, or it is not; nobody can
know which. It is fenced, as the database is: a write and the check that its writer still leads are
one, so what one who was deposed has on its way is stored before the next reign begins, or never.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from xce.journal.backup import epoch_after
from xce.journal.codec import FIRST_CRC, decode_batch
from xce.journal.interface import Blob, JournalOrderError, StoredBatch
from xce.journal.snapshot import Manifest, PartDigest, Snapshot
from xce.model.entry import Entry
from xce.model.ids import Epoch, Micros, Seq
from xce.sim.coverage import Strikes
from xce.sim.faults import Faults
from xce.sim.loop import Loop

OnStored = Callable[[StoredBatch, list[Entry]], object]
KEPT_BATCHES: Final = 3
SLOW_US_MAX: Final = 1_500_000
LATE_US_MAX: Final = 700_000
"""So long what was said to have failed may take to come through."""


class StoredParts(Snapshot, frozen=True, kw_only=True):
    """A snapshot that lies in no directory."""

    contents: tuple[bytes, ...]

    def part(self, number: int) -> bytes:
        """Return a part."""
        return self.contents[number]

    def parts(self) -> Iterator[bytes]:
        """Yield all parts."""
        yield from self.contents


class Copied(msgspec.Struct, frozen=True):
    """A backup."""

    batches: tuple[StoredBatch, ...]
    archive: tuple[StoredBatch, ...]
    snapshot: StoredParts | None
    blobs: dict[str, bytes]
    epoch: Epoch


class _Write(msgspec.Struct):
    batch: StoredBatch
    blobs: Sequence[Blob]
    on_end: Callable[[bool], object]
    on_fenced: Callable[[], object]
    epoch: Epoch
    is_stored: bool = False
    is_over: bool = False


class Disk:
    """The journal's storage, as `xce.journal.interface.JournalReader` reads it."""

    def __init__(
        self, loop: Loop, rng: Random, faults: Faults, on_stored: OnStored, strikes: Strikes
    ) -> None:
        self.batches: list[StoredBatch] = []
        self.archive: list[StoredBatch] = []
        self.blobs: dict[str, bytes] = {}
        self.epoch: Epoch = 0
        self.is_failing = False
        self.slow_until_us: Micros = 0
        """Until then every commit takes long."""
        self._strikes = strikes
        self._snapshot: StoredParts | None = None
        self._loop = loop
        self._rng = rng
        self._faults = faults
        self._on_stored = on_stored
        self._flying: dict[Epoch, _Write] = {}

    def lead(self) -> Epoch:
        """Begin a reign; what the one before has on its way is stored now, or never."""
        for write in self._flying.values():
            self._decide(write)
        self.epoch += 1
        return self.epoch

    def copy(self) -> Copied:
        """Take a backup of what is stored; who writes goes on meanwhile."""
        return Copied(
            tuple(self.batches), tuple(self.archive), self._snapshot, dict(self.blobs), self.epoch,
        )  # fmt: skip

    def restore(self, copied: Copied) -> None:
        """Be what a backup says; nobody leads, and what was on its way is stored nowhere."""
        for write in self._flying.values():
            write.is_over = True
        self._flying.clear()
        self.batches, self.archive = list(copied.batches), list(copied.archive)
        self._snapshot, self.blobs = copied.snapshot, dict(copied.blobs)
        self.epoch = epoch_after(copied.epoch, self._loop.now_us)

    def write(
        self,
        epoch: Epoch,
        batch: StoredBatch,
        blobs: Sequence[Blob],
        on_end: Callable[[bool], object],
        on_fenced: Callable[[], object],
    ) -> None:
        """Make a batch durable some time later, or fail; ``on_end`` is told which.

        Args:
            epoch: The reign of the one who writes.
            batch: What to store.
            blobs: Of the batch.
            on_end: Told whether it is stored.
            on_fenced: Called instead when another reign has begun.
        """
        assert epoch not in self._flying, "two batches are being written at once"
        write = self._flying[epoch] = _Write(batch, blobs, on_end, on_fenced, epoch)
        span_us: Micros = 30 + self._rng.randrange(self._faults.commit_us_max)
        if self.slow_until_us > self._loop.now_us:
            span_us += self._rng.randrange(SLOW_US_MAX)
        self._loop.after(span_us, self._end, write)

    def _end(self, write: _Write) -> None:
        if write.is_over:
            return
        del self._flying[write.epoch]
        write.is_over = True
        if write.is_stored:
            write.on_end(True)
        elif write.epoch != self.epoch:
            write.on_fenced()
        elif self._is_here(write.batch):
            write.on_end(True)  # an earlier try has come through
        elif self.is_failing:
            write.on_end(False)
        elif self._rng.random() * 1000 < self._faults.late_permille:
            self._strikes.note("late_permille")
            self._loop.after(
                self._rng.choice((0, LATE_US_MAX // 2, LATE_US_MAX)), self._late, write
            )
            write.on_end(False)
        else:
            self.append(write.batch, write.blobs)
            write.on_end(True)

    def _is_here(self, batch: StoredBatch) -> bool:
        return batch.last == self.stored_seq() and batch.crc == self.last_crc

    def _late(self, write: _Write) -> None:
        """Let what was said to have failed come through, unless another reign has begun."""
        follows = write.batch.first == self.stored_seq() + 1
        if write.epoch == self.epoch and follows and not self.is_failing:
            self.append(write.batch, write.blobs)

    def _decide(self, write: _Write) -> None:
        """Store what is on its way, or leave it unstored."""
        can = write.epoch == self.epoch and not (self.is_failing or write.is_stored)
        can = can and not self._is_here(write.batch)
        if can and self._rng.random() < 0.5:
            write.is_stored = True
            self.append(write.batch, write.blobs)

    def crash(self, epoch: Epoch) -> None:
        """Note that a writer was killed: what it was writing is stored, or it is not."""
        write = self._flying.pop(epoch, None)
        if write is not None:
            write.is_over = True
            self._decide(write)

    def append(self, batch: StoredBatch, blobs: Sequence[Blob]) -> None:
        """Store a batch, which must follow."""
        last_seq, last_crc = self.stored_seq(), self.last_crc
        if batch.first != last_seq + 1 or batch.crc_before != last_crc:
            raise JournalOrderError(f"batch {batch.first} does not follow entry {last_seq}")
        entries, _ = decode_batch(batch.content, previous_crc=last_crc, expected_seq=batch.first)
        self.batches.append(msgspec.structs.replace(batch, epoch=self.epoch))
        self.blobs.update(blobs)
        self._on_stored(batch, entries)

    def store_snapshot(self, seq: Seq, crc: int, parts: Iterable[bytes]) -> None:
        """Store a snapshot, and move most of what lies before it to the archive."""
        contents = tuple(parts)
        digests = tuple(PartDigest(len(part), "") for part in contents)
        manifest = Manifest(format=1, seq=seq, crc=crc, parts=digests)
        self._snapshot = StoredParts(
            directory=Path("virtual"), manifest=manifest, contents=contents
        )
        while len(self.batches) > KEPT_BATCHES and self.batches[0].last <= seq:
            self.archive.append(self.batches.pop(0))

    @property
    def last_crc(self) -> int:
        """The crc of the last stored entry."""
        return self.batches[-1].crc if self.batches else FIRST_CRC

    def first_seq(self) -> Seq:
        """Return the first stored entry; 0: none."""
        return self.batches[0].first if self.batches else 0

    def stored_seq(self) -> Seq:
        """Return the last stored entry; 0: none."""
        return self.batches[-1].last if self.batches else 0

    def tail_bytes(self, after: Seq) -> int:
        """Return how large the batches are together that are stored behind an entry."""
        return sum(len(batch.content) for batch in self.batches if batch.last > after)

    def read(self, from_seq: Seq) -> Iterator[StoredBatch]:
        """Yield the batches from the one that holds ``from_seq`` on."""
        for batch in list(self.batches):
            if batch.last >= from_seq:
                yield batch

    def archived(self, from_seq: Seq) -> Iterator[StoredBatch]:
        """Yield the trimmed batches from the one that holds ``from_seq`` on."""
        for batch in list(self.archive):
            if batch.last >= from_seq:
                yield batch

    def blob(self, digest: str) -> bytes | None:
        """Return a blob."""
        return self.blobs.get(digest)

    def blob_digests(self) -> list[str]:
        """Return the hashes of all blobs."""
        return sorted(self.blobs)

    def snapshot_seqs(self) -> list[Seq]:
        """Return which snapshots there are."""
        return [self._snapshot.seq] if self._snapshot is not None else []

    def open_snapshot(self, seq: Seq) -> StoredParts:
        """Return a snapshot."""
        assert self._snapshot is not None
        assert self._snapshot.seq == seq
        return self._snapshot

    def lead_epoch(self) -> Epoch:
        """Return the present reign."""
        return self.epoch

    def check_storage(self) -> None:
        """Nothing lies below."""

    def load_snapshot(self) -> StoredParts | None:
        """Return the newest snapshot."""
        return self._snapshot

    def place(self) -> str:
        """Return the name of the storage."""
        return "virtual disk"

    def close(self) -> None:
        """Nothing is to be given back."""
