"""The page about the protocol is what the code does, and recorded peers are still understood."""

import os
from pathlib import Path

import msgspec
import pytest
from protocol_page import PAGE, SINCE, render_page

from xce.net.allowlist import Gate
from xce.net.frame import FrameReader, WireError, encode_frame
from xce.net.handshake import choose_protocol
from xce.net.message import PROTOCOL, PROTOCOL_OLDEST, Hello, Message

RECORDED = Path(__file__).resolve().parents[1] / "data" / "protocol"


def test_the_page_is_made_from_the_code():
    page = render_page()
    if os.environ.get("XCE_GOLDEN") == "write":
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "run this test with XCE_GOLDEN=write, and look at the change"


@pytest.mark.parametrize("protocol", range(PROTOCOL_OLDEST, PROTOCOL + 1))
@pytest.mark.parametrize("role", ["worker", "apiserver", "scheduler", "history", "admin"])
def test_what_a_peer_of_each_release_said_is_understood_and_allowed(protocol, role):
    """These bytes were written by the release that spoke that protocol."""
    content = (RECORDED / str(protocol) / f"{role}.bin").read_bytes()
    hello, *messages = FrameReader().feed(content)
    assert isinstance(hello, Hello)
    assert (hello.protocol, hello.role) == (protocol, role)
    assert choose_protocol(hello) == protocol
    assert messages
    gate = Gate(role, hello.name)
    for message in messages:
        assert gate.refuse(message) == "", message


def test_every_protocol_that_is_understood_is_recorded():
    recorded = sorted(int(path.name) for path in RECORDED.iterdir())
    assert recorded[-1] == PROTOCOL
    assert PROTOCOL_OLDEST in recorded


def test_no_recorded_peer_said_what_its_protocol_had_not():
    for path in RECORDED.rglob("*.bin"):
        for message in FrameReader().feed(path.read_bytes()):
            assert SINCE.get(type(message), 1) <= int(path.parent.name)


def test_a_longer_array_of_a_later_release_is_read_and_a_shorter_one_too():
    array = ["hello", 3, "worker", "h1", "9.0", 2, "of a later release", {"more": 1}]
    frame = msgspec.msgpack.encode(array)
    (hello,) = FrameReader().feed(len(frame).to_bytes(4, "big") + frame)
    assert hello == Hello(3, "worker", "h1", "9.0", 2)
    (old,) = FrameReader().feed((RECORDED / "1/worker.bin").read_bytes()[:28])
    assert old.oldest == 0


def test_the_length_is_in_network_byte_order():
    content = encode_frame(Hello(2, "worker", "h1", "1", 1))
    assert int.from_bytes(content[:4], "big") == len(content) - 4
    with pytest.raises(WireError):
        FrameReader().feed(content[3::-1] + content[4:])


def test_kinds_with_a_first_protocol_are_messages():
    assert set(SINCE) <= set(Message.__args__)
