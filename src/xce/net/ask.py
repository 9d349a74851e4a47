"""Requests over a connection: who waits for which answer."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from xce.net.frame import WireError
from xce.net.message import (
    Answer,
    Blobs,
    HostUsage,
    KeyList,
    Message,
    OutputChunk,
    PeerList,
    TerminalPiece,
)

REQUEST_S: Final = 60.0


class ConnectionLostError(WireError):
    """The connection ended before the answer came: whether it was done is not known."""


class Sender(Protocol):
    """What requests are sent over; `xce.net.peer.Peer` is one."""

    @property
    def is_open(self) -> bool:
        """Whether what is sent now may arrive."""
        ...

    def send(self, message: Message) -> None:
        """Send a message."""
        ...


class Requests:
    """The open requests of one client; ids are never used twice, also over several connections."""

    def __init__(self) -> None:
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Message]] = {}

    def __len__(self) -> int:
        """Return the number of requests without an answer."""
        return len(self._waiting)

    def start(self, peer: Sender, make: Callable[[int], Message]) -> asyncio.Future[Message]:
        """Send a request and return the future of its answer; cancel that to forget it.

        Args:
            peer: The connection.
            make: Makes the request with the id it is given.

        Raises:
            ConnectionLostError: The connection has ended already.
        """
        if not peer.is_open:
            raise ConnectionLostError("not connected")
        self._last_id += 1
        request_id = self._last_id
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        # One that is cancelled by whoever waits must be forgotten too.
        answer.add_done_callback(lambda _: self._waiting.pop(request_id, None))
        try:
            peer.send(make(request_id))
        except WireError:
            answer.cancel()
            raise
        return answer

    async def request(
        self, peer: Sender, make: Callable[[int], Message], *, timeout_s: float = REQUEST_S
    ) -> Message:
        """Send a request and return its answer.

        Raises:
            ConnectionLostError: The connection ended before the answer came.
            WireError: The request is too long for a frame.
            TimeoutError: No answer came in ``timeout_s``.
        """
        async with asyncio.timeout(timeout_s):
            return await self.start(peer, make)

    def settle(self, message: Message) -> bool:
        """Give an answer to whoever waits for it.

        Returns:
            Whether it is a kind of message that answers; a late one answers nobody.
        """
        if not isinstance(
            message, Answer | Blobs | OutputChunk | HostUsage | TerminalPiece | KeyList | PeerList
        ):
            return False
        waiting = self._waiting.pop(message.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        return True

    def fail_all(self, reason: str) -> None:
        """Tell everybody who waits that the connection has ended."""
        failed = list(self._waiting.values())
        self._waiting.clear()
        for waiting in failed:
            if not waiting.done():
                waiting.set_exception(ConnectionLostError(reason))
                # One that nobody awaits any more shall not be complained about.
                waiting.exception()
