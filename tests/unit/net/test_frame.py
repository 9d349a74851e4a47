import contextlib

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from xce.net.frame import FrameReader, WireError, encode_frame
from xce.net.message import FRAME_MAX, Batch, Hello, Message, Ping, Pong, SnapshotPart

MESSAGES: list[Message] = [
    Ping(1),
    Hello(1, "worker", "h1", "0.1.0"),
    Batch(1, 2, b"\x00\xff" * 5000),
    Pong(2**63),
]


def test_a_frame_is_a_length_and_a_message() -> None:
    assert encode_frame(Pong(7)) == b"\x00\x00\x00\x08" + b"\x93\xa4pong\x07\x00"


def test_frames_that_come_together_are_read_together() -> None:
    assert FrameReader().feed(b"".join(map(encode_frame, MESSAGES))) == MESSAGES


@given(st.lists(st.integers(1, 4000), max_size=20))
def test_frames_are_read_however_the_bytes_are_cut(sizes: list[int]) -> None:
    content = b"".join(map(encode_frame, MESSAGES))
    reader = FrameReader()
    found: list[Message] = []
    at = 0
    for size in sizes:
        found += reader.feed(content[at : at + size])
        at += size
    found += reader.feed(content[at:]) if at < len(content) else []
    assert found == MESSAGES
    assert reader.rest_bytes == 0


def test_byte_by_byte() -> None:
    reader = FrameReader()
    content = encode_frame(MESSAGES[0]) + encode_frame(MESSAGES[1])
    found = [
        message for place in range(len(content)) for message in reader.feed(content[place:][:1])
    ]
    assert found == MESSAGES[:2]


def test_a_large_frame_in_pieces_is_not_looked_at_before_it_is_whole() -> None:
    part = SnapshotPart(1, 0, 1, bytes(8_000_000))
    content = encode_frame(part)
    reader = FrameReader()
    pieces = [content[at : at + 65536] for at in range(0, len(content), 65536)]
    for piece in pieces[:-1]:
        assert reader.feed(piece) == []
    assert reader.feed(pieces[-1] + encode_frame(Ping(1))) == [part, Ping(1)]


def test_a_frame_that_is_too_long_is_refused_by_its_head() -> None:
    reader = FrameReader()
    with pytest.raises(WireError, match=f"a frame of {FRAME_MAX + 1} bytes; at most {FRAME_MAX}"):
        reader.feed((FRAME_MAX + 1).to_bytes(4, "big"))


def test_a_text_protocol_is_refused_at_once() -> None:
    with pytest.raises(WireError, match="a frame of 1195725856 bytes"):
        FrameReader().feed(b"GET / HTTP/1.1\r\n")


def test_a_reader_may_take_less() -> None:
    with pytest.raises(WireError, match="at most 100 are allowed"):
        FrameReader(100).feed(encode_frame(Batch(1, 1, bytes(200))))


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(WireError, match="Batch of .* is larger than a frame may be"):
        encode_frame(Batch(1, 1, bytes(FRAME_MAX)))


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "truncated"),
        (b"\xc1", "malformed"),
        (b"\x01", "Expected `array`, got `int`"),
        (msgspec.msgpack.encode(["steal", 1]), "Invalid value 'steal'"),
        (msgspec.msgpack.encode(["ping", "x"]), "Expected `int`, got `str`"),
        (msgspec.msgpack.encode(["ping"]), "length"),
        (msgspec.msgpack.encode(["ping", 1]) + b"\x00", "trailing"),
        (b"\x92\xa4ping\xa1\xff", "Expected `int`"),
        (b"\x95\xa5hello\x01\xa1\xff\xa1x\xa1x", "utf-8"),
        (b"\x91" * 100_000, "recursion|Expected"),
    ],
)
def test_what_is_no_message_is_a_wire_error(payload: bytes, why: str) -> None:
    with pytest.raises(WireError, match=f"(?i)a frame that is no message: .*({why})"):
        FrameReader().feed(len(payload).to_bytes(4, "big") + payload)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(content: bytes) -> None:
    reader = FrameReader(1000)
    with contextlib.suppress(WireError):
        reader.feed(content)


@given(st.data())
def test_no_changed_frame_raises_anything_else(data: st.DataObject) -> None:
    content = bytearray(b"".join(map(encode_frame, MESSAGES[:2])))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(WireError):
        FrameReader().feed(bytes(content))


def test_a_field_that_a_later_release_added_is_passed_over() -> None:
    payload = msgspec.msgpack.encode(["pong", 5, 0, "added later"])
    assert FrameReader().feed(len(payload).to_bytes(4, "big") + payload) == [Pong(5)]
