"""A peer: one end of a connection that carries frames. asyncio and uvloop alike.

A `asyncio.Protocol`, not streams: what arrived together is handed over together, what is sent in
one turn of the loop leaves in one write.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, cast

from xce.net.frame import FrameReader, WireError, encode_frame
from xce.net.message import FRAME_MAX, Message

WRITE_HIGH_BYTES: Final = 1024 * 1024
"""A peer with so many unsent bytes is not ``writable``."""
DRAIN_LOOK_S: Final = 0.002
"""So long after a write it is looked at whether it went through at once."""
BUFFER_MAX_BYTES: Final = 2 * FRAME_MAX
"""A peer with so many unsent bytes does not read what it is sent: it is cut off."""

OnMessages: TypeAlias = Callable[[list[Message]], object]
"""Takes what arrived together, in order."""
OnLost: TypeAlias = Callable[[str], object]
"""Takes the reason for which the connection ended."""


class Identity(NamedTuple):
    """What is known of the other end, and how; not what it says of itself."""

    how: str = ""
    """``local``: a process of this machine, of our own user or root. ``key``: it has proved that it
    has the private key. ``plain``: nothing is known. Empty: not found out yet."""
    key: str = ""
    """The fingerprint of its key; empty: it has shown none."""
    address: str = ""
    """Where it is, for people."""


class Peer(asyncio.Protocol):
    """One connection. The callbacks may be replaced at any time; no message is ever dropped.

    Args:
        on_messages: What comes in. A `WireError` that it raises ends the connection.
        on_lost: Called once, when the connection has ended.
        on_open: Called when the connection stands.
        buffer_max_bytes: With more unsent bytes the connection is cut.
        frame_max: Longest frame taken in.
    """

    pid: int = 0
    """The process at the other end, as the kernel says; 0: not known."""
    uid: int = -1
    gid: int = -1
    identity: Identity = Identity()
    protocol: int = 0
    """What both ends speak; 0: not settled yet."""

    def __init__(
        self,
        on_messages: OnMessages,
        on_lost: OnLost,
        *,
        on_open: Callable[["Peer"], object] | None = None,
        buffer_max_bytes: int = BUFFER_MAX_BYTES,
        frame_max: int = FRAME_MAX,
    ) -> None:
        self.on_messages = on_messages
        self.on_lost = on_lost
        self.on_writable: Callable[[], object] | None = None
        """Called when unsent bytes have become few again, and soon after a write when they never
        became many: whoever stopped because a window was full goes on from here."""
        self.writable = asyncio.Event()
        """Set while few bytes are unsent; for ``await peer.writable.wait()``."""
        self.close_reason = ""
        """Why the connection ended or is ending; empty while it stands."""
        self._on_open = on_open
        self._buffer_max_bytes = buffer_max_bytes
        self._reader = FrameReader(frame_max)
        self._transport: asyncio.Transport | None = None
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._is_flush_due = False
        self._is_look_due = False
        self._is_lost = False

    @property
    def is_open(self) -> bool:
        """Whether what is sent now may arrive."""
        return self._transport is not None and not self.close_reason

    @property
    def buffered_bytes(self) -> int:
        """Bytes that were sent here and not yet taken by the system."""
        if self._transport is None:
            return self._outgoing_bytes
        return self._outgoing_bytes + self._transport.get_write_buffer_size()

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of a connection that stands or stood."""
        assert self._transport is not None
        return self._transport

    def set_frame_max(self, frame_max: int) -> None:
        """Take frames up to that long from now on."""
        self._reader.frame_max = frame_max

    def send(self, message: Message) -> None:
        """Send a message; into the void when the connection has ended (``on_lost`` tells).

        Raises:
            WireError: It is too long for a frame.
        """
        if self.is_open:
            self.send_raw(encode_frame(message))

    def send_raw(self, frame: bytes) -> None:
        """Send a frame, or several joined, that was encoded before."""
        transport = self._transport
        if transport is None or self.close_reason:
            return
        self._outgoing.append(frame)
        self._outgoing_bytes += len(frame)
        if self.buffered_bytes > self._buffer_max_bytes:
            self.abort(f"too slow: {self.buffered_bytes} bytes wait to be read by the other side")
            return
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write now what was sent in this turn of the loop."""
        self._is_flush_due = False
        if not self._outgoing or self._transport is None:
            return
        frames = self._outgoing
        content = frames[0] if len(frames) == 1 else b"".join(frames)
        self._outgoing = []
        self._outgoing_bytes = 0
        if not self._transport.is_closing():
            self._transport.write(content)
            if self.on_writable is not None and not self._is_look_due:
                # A reader quick enough takes it all before the loop sees a full buffer; then
                # nothing is ever "writable again", and who filled a window would wait for ever.
                self._is_look_due = True
                loop = asyncio.get_running_loop()
                loop.call_later(DRAIN_LOOK_S, self._look_whether_drained)

    def _look_whether_drained(self) -> None:
        self._is_look_due = False
        if self.on_writable is not None and self.is_open and self.writable.is_set():
            self.on_writable()

    def close(self, reason: str = "closed here") -> None:
        """End the connection behind what was sent; ``on_lost`` follows."""
        if self._transport is None or self.close_reason:
            return
        self.flush()
        self.close_reason = reason
        self._transport.close()

    def abort(self, reason: str) -> None:
        """End the connection at once, unsent bytes are dropped; ``on_lost`` follows."""
        if self._transport is None or self._is_lost:
            return
        self.close_reason = self.close_reason or reason
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self._transport.abort()

    def pause_reading(self) -> None:
        """Take nothing in for now; the other side's buffer fills."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take in again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # What follows is called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self.writable.set()
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Take in bytes."""
        if self.close_reason:
            return
        try:
            messages = self._reader.feed(data)
            if messages:
                self.on_messages(messages)
        except WireError as error:
            self.abort(str(error))

    def eof_received(self) -> bool:
        """Take the other side's end as the end of the connection."""
        self.close_reason = self.close_reason or "closed by the other side"
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._is_lost = True
        if not self.close_reason:
            self.close_reason = f"connection lost: {exc}" if exc else "closed by the other side"
        self._outgoing.clear()
        self._outgoing_bytes = 0
        # Whoever waits to write must find out that nobody reads any more.
        self.writable.set()
        self.on_lost(self.close_reason)

    def pause_writing(self) -> None:
        """Note that much is unsent."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """Note that little is unsent."""
        self.writable.set()
        if self.on_writable is not None:
            self.on_writable()
