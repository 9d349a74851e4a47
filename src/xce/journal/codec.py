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
    seq = expected_seq or 0
    view = memoryview(content)
    unpack, decode = _HEAD.unpack_from, _DECODER.decode
    size = len(content)
    at = 0
    while at < size:
        start = at + _HEAD.size
        if start > size:
            raise CorruptEntryError(seq, f"cut: {size - at} bytes where a head of 8 belongs")
        length, stored_crc = unpack(view, at)
        at = start + length
        if at > size:
            raise CorruptEntryError(seq, f"cut: {length} bytes promised, {size - start} there")
        payload = view[start:at]
        crc = stored_crc if crc is None else crc32(payload, crc)
        if crc != stored_crc:
            why = f"checksum mismatch: expected {crc:08x}, found {stored_crc:08x}"
            raise CorruptEntryError(seq, why)
        try:
            entry = decode(payload)
        except msgspec.DecodeError as error:
            raise CorruptEntryError(seq, _why_undecodable(payload, error)) from error
        if entry.seq != seq and seq:
            raise CorruptEntryError(seq, f"out of order: it says that it is entry {entry.seq}")
        seq = entry.seq + 1
        entries.append(entry)
    if crc is None or not entries:
        raise CorruptEntryError(seq, "the batch is empty")
    return entries, crc


def stored_crcs(content: bytes) -> list[int]:
    """Return the crc that each entry of a batch carries, unchecked; the heads must be whole."""
    crcs = []
    at = 0
    while at < len(content):
        length, crc = _HEAD.unpack_from(content, at)
        crcs.append(crc)
        at += _HEAD.size + length
    return crcs


def split_batch(content: bytes, count: int) -> tuple[bytes, int]:
    """Return the content of the first ``count`` entries of a batch and the crc of their last."""
    at = crc = 0
    for _ in range(count):
        length, crc = _HEAD.unpack_from(content, at)
        at += _HEAD.size + length
    return content[:at], crc


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
