"""Looking into a journal from outside, also while a controller runs: check it, print it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from xce.journal.codec import CorruptEntryError, stored_crcs
from xce.journal.interface import JournalReader
from xce.journal.recover import check_batch
from xce.journal.snapshot import SnapshotDamagedError, check_snapshot
from xce.journal.sqlite import open_sqlite_reader
from xce.journal.sqlite_tables import SCHEMA_VERSION
from xce.journal.whole import read_whole
from xce.model.errors import CorruptJournalError
from xce.model.ids import Epoch, Seq

_JSON: Final = msgspec.json.Encoder()


class SnapshotReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one snapshot."""

    seq: Seq
    damage: str
    """Empty: it is whole."""


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """The first place that cannot be read."""

    seq: Seq
    """The entry that is damaged; 0 where it cannot be told."""
    file: str
    text: str


class JournalReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` found."""

    file: str
    schema: int
    first_seq: Seq
    """The first stored entry; 0: none is stored."""
    last_good_seq: Seq
    """Up to here everything is readable and in order."""
    batches: int
    """Good batches, each one commit."""
    entries: int
    records: int
    content_bytes: int
    last_epoch: Epoch
    snapshots: tuple[SnapshotReport, ...]
    """The newest first."""
    damage: Damage | None
    damaged_blobs: tuple[str, ...] = ()
    """Hashes of stored scripts, environments and inputs whose content is not what it was."""

    @property
    def is_good(self) -> bool:
        """Whether all is whole: the entries, joined to a snapshot, and what jobs run."""
        return self.damage is None and not self.damaged_blobs


def verify(directory: Path) -> JournalReport:
    """Check the journal of files in ``directory``; see `verify_journal`.

    Raises:
        CorruptJournalError: There is no journal, or the file cannot be opened as one at all.
        JournalTroubleError: It cannot be read for now (rights, I/O error).
    """
    reader = open_sqlite_reader(directory)
    try:
        return verify_journal(reader)
    finally:
        reader.close()


def verify_journal(reader: JournalReader) -> JournalReport:
    """Read every entry, the archived ones too, and every snapshot, and change nothing.

    Costs: decodes the whole journal once.

    Raises:
        JournalTroubleError: It cannot be read for now.
    """
    return _verify_entries(reader, tuple(_check_snapshots(reader)))


def export(directory: Path, from_seq: Seq = 1, to_seq: Seq = 0) -> Iterator[bytes]:
    """Yield entries of the journal of files in ``directory``; see `export_journal`."""
    reader = open_sqlite_reader(directory)
    try:
        yield from export_journal(reader, from_seq, to_seq)
    finally:
        reader.close()


def export_journal(reader: JournalReader, from_seq: Seq = 1, to_seq: Seq = 0) -> Iterator[bytes]:
    """Yield the entries from ``from_seq`` to ``to_seq`` (0: to the end), each a line of JSON.

    A line ends with a newline. Keys are ``seq``, ``at_us``, ``cause``, ``records`` (each with
    its ``kind``) and ``crc`` (8 hexadecimal digits, chained).

    Raises:
        CorruptJournalError: An entry is damaged; those before it were given.
    """
    after: tuple[Seq, int] | None = None
    for batch in read_whole(reader, max(from_seq, 1)):
        seq, crc = after or (batch.first - 1, batch.crc_before)
        entries, crc = check_batch(batch, after_seq=seq, after_crc=crc, place=reader.place())
        after = (batch.last, crc)
        for entry, entry_crc in zip(entries, stored_crcs(batch.content), strict=True):
            if to_seq and entry.seq > to_seq:
                return
            if entry.seq >= from_seq:
                line = {
                    "seq": entry.seq,
                    "at_us": entry.at_us,
                    "cause": _named(entry.cause),
                    "records": _named(entry.records),
                    "crc": f"{entry_crc:08x}",
                }
                yield _JSON.encode(line) + b"\n"


def _verify_entries(reader: JournalReader, snapshots: tuple[SnapshotReport, ...]) -> JournalReport:
    place = reader.place()
    batches = entry_count = records = size = epoch = 0
    first_seq = seq = crc = 0
    damage = None
    blobs: tuple[str, ...] = ()
    try:
        for batch in read_whole(reader, 1):
            if not batches:
                first_seq, seq, crc = batch.first, batch.first - 1, batch.crc_before
            entries, crc = check_batch(batch, after_seq=seq, after_crc=crc, place=place)
            seq = batch.last
            epoch = batch.epoch
            batches += 1
            entry_count += len(entries)
            records += sum(len(entry.records) for entry in entries)
            size += len(batch.content)
        damage = _damage_beside_entries(reader, seq, snapshots)
        blobs = tuple(_damaged_blobs(reader))
    except CorruptEntryError as error:
        # Entries before the damaged one are good, also those of its own batch.
        seq = max(error.seq - 1, seq)
        damage = Damage(seq=error.seq, file=place, text=str(error))
    except CorruptJournalError as error:
        damage = Damage(seq=seq + 1, file=place, text=str(error))
    return JournalReport(
        file=place,
        schema=SCHEMA_VERSION,
        first_seq=first_seq,
        last_good_seq=seq,
        batches=batches,
        entries=entry_count,
        records=records,
        content_bytes=size,
        last_epoch=epoch,
        snapshots=snapshots,
        damage=damage,
        damaged_blobs=blobs,
    )


def _damaged_blobs(reader: JournalReader) -> Iterator[str]:
    """Yield the hashes whose content does not match; reads every blob once."""
    for digest in reader.blob_digests():
        try:
            reader.blob(digest)
        except CorruptJournalError:
            yield digest


def _damage_beside_entries(
    reader: JournalReader, last: Seq, snapshots: tuple[SnapshotReport, ...]
) -> Damage | None:
    """Check what a row by row reading does not see."""
    reader.check_storage()
    first = reader.first_seq()
    good = [snapshot.seq for snapshot in snapshots if not snapshot.damage]
    newest = max(good, default=0)
    if newest > last:
        text = f"entries are missing: the journal ends at entry {last}, a snapshot is of {newest}"
        return Damage(seq=last + 1, file=reader.place(), text=text)
    if first > newest + 1:
        text = f"the journal begins at entry {first}, and no whole snapshot is of {first - 1} on"
        return Damage(seq=newest + 1, file=reader.place(), text=text)
    return None


def _check_snapshots(reader: JournalReader) -> Iterator[SnapshotReport]:
    for seq in reader.snapshot_seqs():
        try:
            check_snapshot(reader.open_snapshot(seq))
        except SnapshotDamagedError as error:
            yield SnapshotReport(seq=seq, damage=str(error))
        else:
            yield SnapshotReport(seq=seq, damage="")


def _named(value: object) -> object:
    """Return a struct as a mapping with its fields' names, which the stored form leaves out."""
    if isinstance(value, msgspec.Struct):
        tag = type(value).__struct_config__.tag
        fields = {name: _named(getattr(value, name)) for name in value.__struct_fields__}
        return fields if tag is None else {"kind": tag, **fields}
    if isinstance(value, list | tuple):
        return [_named(item) for item in value]
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    return value
