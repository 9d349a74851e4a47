"""Frames between commands in jobs and the worker of their host: what comes is a user's."""

import struct

import pytest

from xce.net.task_frame import FRAME_MAX, TaskFrameError, TaskFrameReader, encode_task_frame

HEAD = {"do": "x", "number": -(1 << 63), "flag": True, "none": None, "text": "\udc80"}


def frame(head, content=b""):
    return struct.pack(">IH", 2 + len(head) + len(content), len(head)) + head + content


def test_frames_come_back_however_they_are_cut():
    data = encode_task_frame(HEAD, b"content") + encode_task_frame({}, b"")
    for size in (1, 3, len(data)):
        reader = TaskFrameReader()
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        found = [one for piece in pieces for one in reader.feed(piece)]
        assert found == [(HEAD, b"content"), ({}, b"")]


@pytest.mark.parametrize(
    "head",
    [
        b"", b"[]", b"{", b"\xff", b'{"a": Infinity}', b'{"a": NaN}', b'{"a": 1e400}',
        b'{"a": 1.5}', b'{"a": 9223372036854775808}', b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a":' + b"[" * 20000,
    ],
)  # fmt: skip
def test_what_is_no_head_is_refused(head):
    with pytest.raises(TaskFrameError):
        TaskFrameReader().feed(frame(head))


@pytest.mark.parametrize(("length", "size"), [(FRAME_MAX + 1, 2), (3, 2), (0, 0)])
def test_lengths_that_cannot_be_are_refused(length, size):
    with pytest.raises(TaskFrameError):
        TaskFrameReader().feed(struct.pack(">IH", length, size))
