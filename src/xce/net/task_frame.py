"""Frames between a command that starts remote tasks and the worker of its host.

A length of 4 bytes, a head's length of 2 bytes (both big-endian), the head as JSON, and bytes that
belong to it. Standard library only: commands in jobs start often.

What comes is a user's: a head holds texts, flags and whole numbers of 64 bits, and nothing else.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any, Final, NoReturn

Head = dict[str, Any]
_LENGTHS: Final = struct.Struct(">IH")
FRAME_MAX: Final = 4 * 1024 * 1024


class TaskFrameError(Exception):
    """What came is no frame."""


def _parse_int(text: str) -> int:
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError("a number of more than 64 bits")
    return value


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no whole number")


_DECODER: Final = json.JSONDecoder(
    parse_int=_parse_int, parse_float=_refuse_number, parse_constant=_refuse_number
)


def encode_task_frame(head: Mapping[str, object], content: bytes = b"") -> bytes:
    """Return a frame."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return _LENGTHS.pack(2 + len(text) + len(content), len(text)) + text + content


class TaskFrameReader:
    """Takes bytes as they come, and gives frames."""

    def __init__(self) -> None:
        self._received = bytearray()

    @property
    def awaited(self) -> int:
        """How long the frame is of which a part has come; 0: none has, or it is not known yet."""
        if len(self._received) < _LENGTHS.size:
            return 0
        return int(_LENGTHS.unpack_from(self._received)[0])

    def feed(self, data: bytes) -> list[tuple[Head, bytes]]:
        """Return the frames that are whole now.

        Raises:
            TaskFrameError: It is none, or too long.
        """
        received = self._received
        received += data
        found: list[tuple[Head, bytes]] = []
        at = 0
        while len(received) - at >= _LENGTHS.size:
            length, size = _LENGTHS.unpack_from(received, at)
            if length > FRAME_MAX or size + 2 > length:
                raise TaskFrameError(f"a frame of {length} bytes")
            end = at + 4 + length
            if len(received) < end:
                break
            start = at + _LENGTHS.size
            try:
                head = _DECODER.decode(received[start : start + size].decode())
            except (ValueError, RecursionError) as error:
                raise TaskFrameError("a frame without a head") from error
            if not isinstance(head, dict):
                raise TaskFrameError("a frame without a head")
            found.append((head, bytes(received[start + size : end])))
            at = end
        del received[:at]
        return found
