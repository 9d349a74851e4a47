"""Laws of the stored form: whatever is changed in it is found, and the entry is named."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from xce.journal.codec import FIRST_CRC, CorruptEntryError, decode_batch, encode_batch
from xce.model.entry import Cause, Entry
from xce.model.host_record import HostUp
from xce.model.job import EndCause
from xce.model.reason import Reason, ReasonCode
from xce.model.record import (
    Ended,
    Held,
    JobsForgotten,
    ReasonsChanged,
    Record,
    SessionRan,
    Withdrawn,
)

big = st.integers(0, 2**63 - 1)
numbers = st.lists(big, max_size=5)
texts = st.text(max_size=20)
records: st.SearchStrategy[Record] = st.one_of(
    st.builds(JobsForgotten, numbers),
    st.builds(Held, numbers, numbers, numbers, st.booleans()),
    st.builds(Withdrawn, numbers, numbers, numbers, st.sampled_from(EndCause), texts, big),
    st.builds(
        Ended,
        *[numbers] * 12,
        st.lists(st.tuples(big, texts), max_size=2),
    ),
    st.builds(
        HostUp,
        big,
        texts,
        big,
        big,
        texts,
        texts,
        st.dictionaries(texts, st.one_of(big, texts, st.booleans()), max_size=4),
    ),
    st.builds(
        ReasonsChanged,
        numbers,
        st.lists(st.builds(Reason, st.sampled_from(ReasonCode), needed=big), max_size=2),
    ),
    st.builds(SessionRan, big, big, texts, big),
)
causes = st.builds(Cause, texts, texts, texts)


@st.composite
def histories(draw: st.DrawFn) -> list[Entry]:
    first = draw(st.integers(1, 2**60))
    bodies = draw(
        st.lists(
            st.tuples(big, causes, st.lists(records, max_size=3).map(tuple)),
            min_size=1,
            max_size=5,
        )
    )
    return [Entry(first + place, *body) for place, body in enumerate(bodies)]


crcs = st.integers(0, 2**32 - 1)


@given(histories(), crcs)
def test_every_history_comes_back(history: list[Entry], before: int) -> None:
    content, crc = encode_batch(history, before)
    decoded = decode_batch(content, previous_crc=before, expected_seq=history[0].seq)
    assert decoded == (history, crc)
    assert encode_batch(decoded[0], before) == (content, crc)


@given(histories(), crcs, st.data())
@settings(max_examples=200)
def test_every_changed_byte_is_found_and_its_entry_named(
    history: list[Entry], before: int, data: st.DataObject
) -> None:
    content, _ = encode_batch(history, before)
    ends = []
    crc = before
    size = 0
    for entry in history:
        piece, crc = encode_batch([entry], crc)
        size += len(piece)
        ends.append(size)
    place = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[place] ^= data.draw(st.integers(1, 255))
    damaged = next(number for number, end in enumerate(ends) if place < end)
    with pytest.raises(CorruptEntryError) as caught:
        decode_batch(bytes(changed), previous_crc=before, expected_seq=history[0].seq)
    assert caught.value.seq == history[damaged].seq
    assert f"entry {history[damaged].seq}" in str(caught.value)


@given(histories(), crcs, st.data())
def test_every_cut_is_found(history: list[Entry], before: int, data: st.DataObject) -> None:
    content, _ = encode_batch(history, before)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    try:
        entries, _ = decode_batch(cut, previous_crc=before, expected_seq=history[0].seq)
    except CorruptEntryError as error:
        named = error.seq
    else:
        # Cut between two entries: the batch's row says where it ends, the content does not.
        assert entries == history[: len(entries)]
        named = entries[-1].seq + 1
    assert history[0].seq <= named <= history[-1].seq


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    with pytest.raises(CorruptEntryError):
        decode_batch(content, previous_crc=FIRST_CRC, expected_seq=1)


@given(histories(), crcs, st.data())
def test_entries_in_another_order_are_found(
    history: list[Entry], before: int, data: st.DataObject
) -> None:
    pieces = []
    crc = before
    for entry in history:
        piece, crc = encode_batch([entry], crc)
        pieces.append(piece)
    order = data.draw(st.permutations(range(len(pieces))))
    if list(order) == sorted(order):
        return
    moved = b"".join(pieces[place] for place in order)
    with pytest.raises(CorruptEntryError):
        decode_batch(moved, previous_crc=before, expected_seq=history[0].seq)
