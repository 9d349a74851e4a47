"""Frames: a 4-byte big-endian length, then one `xce.net.message.Message` in MessagePack."""

import struct
from typing import Final

import msgspec

from xce.model.errors import XceError
from xce.net.message import FRAME_MAX, Message

HEAD_BYTES: Final = 4

_HEAD: Final = struct.Struct(">I")
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)


class WireError(XceError):
    """What came over a connection cannot be used, or the connection cannot; the text says why."""


def encode_frame(message: Message) -> bytes:
    """Return ``message`` as a frame.

    Raises:
        WireError: It is longer than ``FRAME_MAX``; large values travel in pieces.
    """
    buffer = bytearray(HEAD_BYTES)
    _ENCODER.encode_into(message, buffer, HEAD_BYTES)
    length = len(buffer) - HEAD_BYTES
    if length > FRAME_MAX:
        name = type(message).__name__
        raise WireError(f"{name} of {length} bytes is larger than a frame may be ({FRAME_MAX})")
    _HEAD.pack_into(buffer, 0, length)
    return bytes(buffer)


class FrameReader:
    """Cuts a stream of bytes into messages. After an error it must not be fed again.

    Args:
        frame_max: Longest frame in bytes; a small one protects what is not known yet.
    """

    def __init__(self, frame_max: int = FRAME_MAX) -> None:
        self.frame_max = frame_max
        self._rest = bytearray()
        self._wanted = HEAD_BYTES
        """So many bytes must be there before it pays to look again."""

    @property
    def rest_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._rest)

    def feed(self, received: bytes) -> list[Message]:
        """Return the messages that are complete with ``received``, in order.

        Raises:
            WireError: A frame is too long or is no message; what came before it in the same
                bytes is lost with the connection.
        """
        if not self._rest:
            # The usual case: whole frames, read where they lie.
            messages, used = self._cut(received)
            if used < len(received):
                self._rest += received[used:]
            return messages
        self._rest += received
        if len(self._rest) < self._wanted:
            return []
        messages, used = self._cut(bytes(self._rest))
        del self._rest[:used]
        return messages

    def _cut(self, content: bytes) -> tuple[list[Message], int]:
        messages: list[Message] = []
        view = memoryview(content)
        size = len(content)
        at = 0
        self._wanted = HEAD_BYTES
        while size - at >= HEAD_BYTES:
            (length,) = _HEAD.unpack_from(view, at)
            if length > self.frame_max:
                raise WireError(f"a frame of {length} bytes; at most {self.frame_max} are allowed")
            end = at + HEAD_BYTES + length
            if end > size:
                self._wanted = HEAD_BYTES + length
                break
            messages.append(_decode(view[at + HEAD_BYTES : end]))
            at = end
        return messages, at


def _decode(payload: memoryview) -> Message:
    try:
        return _DECODER.decode(payload)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"a frame that is no message: {error}") from error
