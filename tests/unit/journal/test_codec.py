import msgspec
import pytest

from xce.journal.codec import (
    FIRST_CRC,
    CorruptEntryError,
    decode_batch,
    encode_batch,
    known_record_tags,
    stored_crcs,
)
from xce.model.entry import Cause, Entry
from xce.model.errors import CorruptJournalError
from xce.model.host_record import HostDown
from xce.model.record import JobsForgotten


def entries(first: int, last: int) -> list[Entry]:
    cause = Cause("kill-jobs", "ann", "owner")
    return [
        Entry(seq, 1_000_000 + seq, cause, (JobsForgotten([seq, 2 * seq]), HostDown(seq % 7)))
        for seq in range(first, last + 1)
    ]


def test_what_was_encoded_is_decoded() -> None:
    written = entries(1, 5)
    content, crc = encode_batch(written, FIRST_CRC)
    assert decode_batch(content, previous_crc=FIRST_CRC, expected_seq=1) == (written, crc)
    assert stored_crcs(content)[-1] == crc


def test_batches_chain_so_that_one_split_in_two_is_the_same_bytes() -> None:
    whole, whole_crc = encode_batch(entries(1, 6), FIRST_CRC)
    left, left_crc = encode_batch(entries(1, 2), FIRST_CRC)
    right, right_crc = encode_batch(entries(3, 6), left_crc)
    assert left + right == whole
    assert right_crc == whole_crc


def test_a_batch_that_follows_another_one_is_refused() -> None:
    content, _ = encode_batch(entries(3, 4), 17)
    with pytest.raises(CorruptEntryError, match="entry 3: checksum mismatch") as caught:
        decode_batch(content, previous_crc=18, expected_seq=3)
    assert caught.value.seq == 3


def test_without_the_crc_before_the_rest_of_the_chain_is_checked() -> None:
    written = entries(3, 5)
    content, crc = encode_batch(written, 17)
    assert decode_batch(content, previous_crc=None, expected_seq=3) == (written, crc)
    damaged = bytearray(content)
    damaged[-1] ^= 1
    with pytest.raises(CorruptEntryError, match="entry 5"):
        decode_batch(bytes(damaged), previous_crc=None, expected_seq=3)


def test_an_entry_that_was_left_out_is_named() -> None:
    first, crc = encode_batch(entries(1, 1), FIRST_CRC)
    last, _ = encode_batch(entries(3, 3), crc)
    with pytest.raises(
        CorruptEntryError, match="entry 2: out of order: it says that it is entry 3"
    ):
        decode_batch(first + last, previous_crc=FIRST_CRC, expected_seq=1)


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_cut_batch_names_the_entry_that_is_cut(cut: int) -> None:
    content, _ = encode_batch(entries(1, 3), FIRST_CRC)
    with pytest.raises(CorruptEntryError, match="entry 3: cut"):
        decode_batch(content[:-cut], previous_crc=FIRST_CRC, expected_seq=1)


def test_a_cut_right_behind_a_head_is_found() -> None:
    content, _ = encode_batch(entries(1, 1), FIRST_CRC)
    with pytest.raises(CorruptEntryError, match="entry 1: cut: 4 bytes where a head of 8 belongs"):
        decode_batch(content[:4], previous_crc=FIRST_CRC, expected_seq=1)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(CorruptJournalError, match="entry 9: the batch is empty"):
        decode_batch(b"", previous_crc=1, expected_seq=9)


class RecordOfTomorrow(msgspec.Struct, frozen=True, tag="job-teleported", array_like=True):
    job: int


def test_a_record_of_a_later_release_is_named_with_what_this_one_knows() -> None:
    entry = Entry(4, 0, Cause("x"), (HostDown(1), RecordOfTomorrow(1)))  # type: ignore[arg-type]
    content, _ = encode_batch([entry], 5)
    with pytest.raises(CorruptEntryError) as caught:
        decode_batch(content, previous_crc=5, expected_seq=4)
    text = str(caught.value)
    assert text.startswith("entry 4: records of a kind that this release (")
    assert "does not know: job-teleported; use the release that wrote the journal" in text
    assert "host-down" in text


def test_an_entry_with_wrong_types_is_refused_though_its_checksum_is_right() -> None:
    entry = Entry("four", 0, Cause("x"), ())  # type: ignore[arg-type]
    content, _ = encode_batch([entry], 5)
    with pytest.raises(CorruptEntryError, match="entry 4: cannot be read: Expected `int`"):
        decode_batch(content, previous_crc=5, expected_seq=4)


def test_a_field_that_a_later_release_added_is_passed_over() -> None:
    class HostDownOfTomorrow(msgspec.Struct, frozen=True, tag="host-down", array_like=True):
        host: int
        silent: bool
        why: str

    entry = Entry(1, 0, Cause("x"), (HostDownOfTomorrow(3, True, "fire"),))  # type: ignore[arg-type]
    content, _ = encode_batch([entry], FIRST_CRC)
    decoded, _ = decode_batch(content, previous_crc=FIRST_CRC, expected_seq=1)
    assert decoded[0].records == (HostDown(3, silent=True),)


def test_all_record_tags_are_known() -> None:
    assert {"host-down", "job-submitted", "ended"} <= set(known_record_tags())
