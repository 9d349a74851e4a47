"""A follower's link: what it is sent, and when it is asked for more."""

import asyncio
from collections.abc import Callable, Iterator

from journals import batches

from xce.daemon.links import FollowerLink
from xce.journal.interface import StoredBatch
from xce.net.follow import WINDOW_BYTES
from xce.net.message import Batch, CaughtUp, Follow, Message


class Stored:
    """A journal in memory."""

    def __init__(self, *sizes: int) -> None:
        self.stored = list(batches(*sizes))

    def first_seq(self) -> int:
        return self.stored[0].first

    def stored_seq(self) -> int:
        return self.stored[-1].last

    def load_snapshot(self) -> None:
        return None

    def read(self, from_seq: int) -> Iterator[StoredBatch]:
        return (batch for batch in self.stored if batch.last >= from_seq)


class Listening:
    """Stands for a peer."""

    def __init__(self) -> None:
        self.is_open = True
        self.buffered_bytes = 0
        self.on_writable: Callable[[], object] | None = None
        self.sent: list[Message | bytes] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def send_raw(self, frame: bytes) -> None:
        self.sent.append(frame)


def link_of(peer: Listening, source: Stored) -> FollowerLink:
    return FollowerLink(
        peer,  # type: ignore[arg-type]
        source,
        Follow(1, 0),
        epoch=1,
        on_damage=lambda error: None,
    )


def test_a_peer_is_asked_for_more_only_while_it_is_behind() -> None:
    async def story() -> None:
        peer, source = Listening(), Stored(2, 1)
        link = link_of(peer, source)
        assert peer.on_writable is not None
        link.send_stored()
        assert [type(message) for message in peer.sent] == [Batch, Batch, CaughtUp]
        assert peer.on_writable is None
        link.note_batch(4, 4, b"live")
        assert peer.sent[-1] == b"live"
        assert peer.on_writable is None
        # It reads no more: what follows waits in the journal until it does.
        source.stored += batches(1, first=5, crc=source.stored[-1].crc)
        peer.buffered_bytes = WINDOW_BYTES
        link.note_batch(5, 5, b"not sent")
        assert peer.sent[-1] == b"live"
        assert peer.on_writable is not None
        peer.buffered_bytes = 0
        peer.on_writable()
        assert isinstance(peer.sent[-2], Batch)
        assert peer.sent[-2].last == 5
        assert peer.sent[-1] == CaughtUp(5)
        assert peer.on_writable is None

    asyncio.run(story())
