"""Entries to bytes and back: the form in which the journal stores them and followers get them.

A batch's content is its entries one behind the other, each as

    [u32 length of the payload][u32 crc][payload: an `Entry` in MessagePack]

big-endian. The crc is CRC-32 of the payload, continued from the crc of the entry before (0 before
the first entry ever), so that an entry that was altered, cut, left out, repeated or moved is found.
"""

import importlib.metadata
import struct
import typing
from collections.abc import Iterable
from typing import Final
from zlib import crc32

import msgspec

from xce.model.entry import Entry
from xce.model.errors import CorruptJournalError
from xce.model.ids import Seq
from xce.model.record import Record

FIRST_CRC: Final = 0
"""The crc before the first entry."""

_HEAD: Final = struct.Struct(">II")
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(Entry)
_ANY_DECODER: Final = msgspec.msgpack.Decoder()


class CorruptEntryError(CorruptJournalError):
    """An entry that cannot be read.

    ``seq`` is the entry's number, 0 where it cannot be told. ``why`` is the message without it.
    """

    def __init__(self, seq: Seq, why: str, *, place: str = "") -> None:
        name = f"entry {seq}" if seq else "an entry"
        super().__init__(f"{place}: {name}: {why}" if place else f"{name}: {why}")
        self.seq = seq
        self.why = why


def encode_batch(entries: Iterable[Entry], previous_crc: int) -> tuple[bytes, int]:
    """Return the content of a batch and the crc of its last entry.

    Equal entries give equal bytes.

    Args:
        entries: In order, one or more.
        previous_crc: The crc of the entry before the first of these.
    """
    encode = _ENCODER.encode
    pack = _HEAD.pack
    crc = previous_crc
    pieces: list[bytes] = []
    for entry in entries:
        payload = encode(entry)
        crc = crc32(payload, crc)
        pieces.append(pack(len(payload), crc))
        pieces.append(payload)
    return b"".join(pieces), crc


def decode_batch(
    content: bytes, *, previous_crc: int | None, expected_seq: Seq | None
) -> tuple[list[Entry], int]:
    """Return the entries that a batch holds and the crc of the last.

    Args:
        content: As `encode_batch` gave it.
        previous_crc: The crc of the entry before; None: not known, and then the first entry's crc
            is taken as it is, and only those behind it are checked.
        expected_seq: The number of the first entry; None: not known.

    Raises:
        CorruptEntryError: An entry is cut, altered, out of order or of a kind that this release
            does not know; it names the entry.
    """
    entries: list[Entry] = []
    crc = previous_crc
    for payload, stored_crc in _split(content, expected_seq, entries):
        if crc is None:
            crc = stored_crc
        else:
            crc = crc32(payload, crc)
            if crc != stored_crc:
                raise CorruptEntryError(
                    _next_seq(entries, expected_seq),
                    f"checksum mismatch: expected {crc:08x}, found {stored_crc:08x}",
                )
        try:
            entry = _DECODER.decode(payload)
        except msgspec.DecodeError as error:
            seq = _next_seq(entries, expected_seq)
            raise CorruptEntryError(seq, _why_undecodable(payload, error)) from error
        seq = _next_seq(entries, expected_seq)
        if seq and entry.seq != seq:
            raise CorruptEntryError(seq, f"out of order: it says that it is entry {entry.seq}")
        entries.append(entry)
    if crc is None or not entries:
        raise CorruptEntryError(expected_seq or 0, "the batch is empty")
    return entries, crc


def stored_crcs(content: bytes) -> list[int]:
    """Return the crc that each entry of a batch carries, unchecked."""
    return [crc for _, crc in _split(content, None, [])]


def _split(
    content: bytes, expected_seq: Seq | None, entries: list[Entry]
) -> Iterable[tuple[memoryview, int]]:
    """Yield each payload with its stored crc; ``entries`` is only asked how far reading came."""
    view = memoryview(content)
    unpack = _HEAD.unpack_from
    size = len(view)
    at = 0
    while at < size:
        if at + 8 > size:
            seq = _next_seq(entries, expected_seq)
            raise CorruptEntryError(seq, f"cut: {size - at} bytes where a head of 8 belongs")
        length, stored_crc = unpack(view, at)
        end = at + 8 + length
        if end > size:
            seq = _next_seq(entries, expected_seq)
            raise CorruptEntryError(seq, f"cut: {length} bytes promised, {size - at - 8} there")
        yield view[at + 8 : end], stored_crc
        at = end


def _next_seq(entries: list[Entry], expected_seq: Seq | None) -> Seq:
    """Return the number that the entry behind ``entries`` must have, or 0."""
    if entries:
        return entries[-1].seq + 1
    return expected_seq or 0


def known_record_tags() -> tuple[str, ...]:
    """Return the tags of all records that this release can read, sorted."""
    return tuple(sorted(str(kind.__struct_config__.tag) for kind in typing.get_args(Record)))


def _why_undecodable(payload: memoryview, error: msgspec.DecodeError) -> str:
    """Say what is wrong with a payload whose checksum is right."""
    try:
        records = _ANY_DECODER.decode(payload)[3]
        tags = {record[0] for record in records}
        unknown = sorted(str(tag) for tag in tags - set(known_record_tags()))
    except (msgspec.DecodeError, LookupError, TypeError):
        unknown = []
    if not unknown:
        return f"cannot be read: {error}"
    known = known_record_tags()
    return (
        f"records of a kind that this release ({importlib.metadata.version('xce')}) does not know: "
        f"{', '.join(unknown)}; use the release that wrote the journal, or a later one "
        f"(this one knows {len(known)} kinds: {', '.join(known)})"
    )
