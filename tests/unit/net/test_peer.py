"""A peer with a transport that keeps what it is told."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from xce.net.frame import WireError, encode_frame
from xce.net.message import Batch, Message, Ping, Pong
from xce.net.peer import DRAIN_LOOK_S, Peer


class Wire(asyncio.Transport):
    """A transport whose other side reads only when told."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.unread = 0
        self.told: list[str] = []
        self._peer = peer
        self._closing = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.unread

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.told.append(f"high {high}")

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        self.told.append("close")
        self._peer.connection_lost(None)

    def abort(self) -> None:
        self._closing = True
        self.told.append("abort")
        self._peer.connection_lost(None)

    def pause_reading(self) -> None:
        self.told.append("pause")

    def resume_reading(self) -> None:
        self.told.append("resume")


class Story:
    def __init__(self, **settings: Any) -> None:
        self.received: list[list[Message]] = []
        self.lost: list[str] = []
        self.peer = Peer(self.received.append, self.lost.append, **settings)
        self.wire = Wire(self.peer)
        self.peer.connection_made(self.wire)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def test_what_is_sent_in_one_turn_leaves_in_one_write() -> None:
    async def story() -> None:
        told = Story()
        told.peer.send(Ping(1))
        told.peer.send(Ping(2))
        told.peer.send_raw(encode_frame(Ping(3)))
        assert told.wire.written == []
        assert told.peer.buffered_bytes == 3 * len(encode_frame(Ping(1)))
        await asyncio.sleep(0)
        assert told.wire.written == [b"".join(encode_frame(Ping(n)) for n in (1, 2, 3))]
        assert told.peer.buffered_bytes == 0
        told.peer.send(Ping(4))
        await asyncio.sleep(0)
        assert told.wire.written[1:] == [encode_frame(Ping(4))]

    run(story())


def test_flushing_writes_at_once() -> None:
    async def story() -> None:
        told = Story()
        told.peer.send(Ping(1))
        told.peer.flush()
        assert len(told.wire.written) == 1
        await asyncio.sleep(0)
        assert len(told.wire.written) == 1

    run(story())


def test_what_arrives_together_is_handed_over_together() -> None:
    async def story() -> None:
        told = Story()
        told.peer.data_received(encode_frame(Ping(1)) + encode_frame(Pong(2)))
        told.peer.data_received(encode_frame(Ping(3))[:5])
        told.peer.data_received(encode_frame(Ping(3))[5:])
        assert told.received == [[Ping(1), Pong(2)], [Ping(3)]]

    run(story())


def test_a_malformed_frame_ends_the_connection_and_says_why() -> None:
    async def story() -> None:
        told = Story()
        told.peer.data_received(b"\x00\x00\x00\x01\xc1")
        assert told.lost == [told.peer.close_reason]
        assert "a frame that is no message" in told.lost[0]
        assert told.wire.told[-1] == "abort"
        told.peer.data_received(encode_frame(Ping(1)))
        assert told.received == []

    run(story())


def test_what_the_owner_refuses_ends_the_connection() -> None:
    def refuse(messages: list[Message]) -> None:
        raise WireError(f"a {type(messages[0]).__name__} is not expected here")

    async def story() -> None:
        told = Story()
        told.peer.on_messages = refuse
        told.peer.data_received(encode_frame(Ping(1)))
        assert told.lost == ["a Ping is not expected here"]

    run(story())


def test_a_peer_that_does_not_read_is_cut_off() -> None:
    async def story() -> None:
        told = Story(buffer_max_bytes=1000)
        told.peer.send(Batch(1, 1, bytes(500)))
        told.wire.unread = 600
        told.peer.send(Batch(2, 2, bytes(500)))
        assert "too slow: 1" in told.lost[0]
        assert not told.peer.is_open
        assert told.peer.buffered_bytes == 600
        await asyncio.sleep(0)
        assert told.wire.written == []

    run(story())


def test_back_pressure_is_an_event_and_a_callback() -> None:
    async def story() -> None:
        told = Story()
        calls: list[str] = []
        told.peer.on_writable = lambda: calls.append("writable")
        assert told.wire.told == ["high 1048576"]
        assert told.peer.writable.is_set()
        told.peer.pause_writing()
        assert not told.peer.writable.is_set()
        told.peer.resume_writing()
        assert told.peer.writable.is_set()
        assert calls == ["writable"]

    run(story())


def test_after_a_write_that_went_through_at_once_more_is_asked_for() -> None:
    async def story() -> None:
        told = Story()
        asked = asyncio.Event()
        told.peer.on_writable = asked.set
        told.peer.send(Ping(1))
        await asyncio.wait_for(asked.wait(), 1)
        asked.clear()
        told.peer.send(Ping(1))
        told.peer.pause_writing()
        await asyncio.sleep(3 * DRAIN_LOOK_S)
        assert not asked.is_set()
        told.peer.resume_writing()
        assert asked.is_set()

    run(story())


def test_whoever_waits_to_write_is_woken_when_the_connection_ends() -> None:
    async def story() -> None:
        told = Story()
        told.peer.pause_writing()
        told.peer.connection_lost(ConnectionResetError("reset"))
        await asyncio.wait_for(told.peer.writable.wait(), 1)
        assert told.lost == ["connection lost: reset"]

    run(story())


def test_closing_sends_what_was_sent_before() -> None:
    async def story() -> None:
        told = Story()
        told.peer.send(Ping(1))
        told.peer.close("enough")
        assert told.wire.written == [encode_frame(Ping(1))]
        assert told.lost == ["enough"]
        told.peer.close("twice")
        told.peer.send(Ping(2))
        await asyncio.sleep(0)
        assert len(told.wire.written) == 1
        assert told.lost == ["enough"]

    run(story())


def test_the_other_sides_end_is_the_reason() -> None:
    async def story() -> None:
        told = Story()
        assert told.peer.eof_received() is False
        told.peer.connection_lost(None)
        assert told.lost == ["closed by the other side"]

    run(story())


def test_reading_can_be_paused_but_not_on_a_closed_connection() -> None:
    async def story() -> None:
        told = Story()
        told.peer.pause_reading()
        told.peer.resume_reading()
        told.peer.close()
        told.peer.pause_reading()
        told.peer.resume_reading()
        assert [word for word in told.wire.told if word in {"pause", "resume"}] == [
            "pause",
            "resume",
        ]

    run(story())


def test_before_the_connection_stands_nothing_is_sent() -> None:
    peer = Peer(print, print)
    peer.send(Ping(1))
    peer.flush()
    peer.close()
    peer.abort("never")
    peer.pause_reading()
    peer.resume_reading()
    assert not peer.is_open
    assert peer.buffered_bytes == 0


def test_a_frame_limit_can_be_lifted() -> None:
    async def story() -> None:
        told = Story(frame_max=20)
        told.peer.set_frame_max(1000)
        told.peer.data_received(encode_frame(Batch(1, 1, bytes(500))))
        assert len(told.received) == 1

    run(story())


def test_too_long_a_message_is_the_senders_fault() -> None:
    async def story() -> None:
        told = Story()
        with pytest.raises(WireError, match="larger than a frame"):
            told.peer.send(Batch(1, 1, bytes(64 * 1024 * 1024)))
        assert told.peer.is_open

    run(story())
