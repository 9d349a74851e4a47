"""The end of a copy between two hosts that lies where the job was submitted.

A process of the job's user there, which the worker asks on its standard input and which answers on
its standard output, in frames (`xce.net.task_frame`): ``read`` or ``write``, as the way of the copy
has it. With the end of its input it ends; what is not whole by then never was.
"""

import os
from typing import Final

from xce.net.task_frame import Head, TaskFrameReader, encode_task_frame
from xce.step.file_codes import BEGIN_AGAIN, MOVED, TOO_LONG, UNREADABLE, UNWRITABLE
from xce.step.file_copy import BEFORE, NAMED, is_place
from xce.step.file_sink import Sink, fault_of, open_source, target_of

CARRIED_MAX: Final = 16 << 30
"""Longest file that is carried between hosts."""
PIECE_MAX: Final = 64 * 1024
_RECEIVE: Final = 256 * 1024


class FileEnd:
    """One local file of a job's transfers.

    Args:
        way: Of the copy.
        place: Which directory it was in at submission.
        local: Its path.
        name: Of what is copied to it, for a path that is a directory.
        machine: `NAMED`: by its name this is the machine of the submission, which may have been
            started anew since.
    """

    def __init__(self, way: str, place: str, local: str, name: str, machine: str = "") -> None:
        self._way = way
        self._place = place
        self._local = local
        self._name = name
        self._any_boot = machine == NAMED
        self._reader = -1
        self._sink: Sink | None = None

    def take(self, head: Head, content: bytes) -> tuple[Head, bytes]:
        """Do what is asked; return the answer."""
        try:
            if head["do"] == "read" and self._way == BEFORE:
                return self._read(int(head["place"]), min(int(head["limit"]), PIECE_MAX))
            if head["do"] == "write" and self._way != BEFORE:
                code = self._write(int(head["place"]), content, head)
                return {"code": code, "is_over": bool(head["is_end"]) and not code}, b""
        except OSError as error:
            return {"code": fault_of(error)}, b""
        return {"code": UNWRITABLE}, b""

    def _read(self, place: int, limit: int) -> tuple[Head, bytes]:
        if self._reader < 0:
            if not is_place(self._local, self._place, any_boot=self._any_boot):
                return {"code": MOVED}, b""
            try:
                self._reader = open_source(self._local)
            except OSError:
                return {"code": UNREADABLE}, b""
        try:
            found = os.fstat(self._reader)
            content = os.pread(self._reader, limit, place)
        except OSError:
            return {"code": UNREADABLE}, b""
        if max(found.st_size, place + len(content)) > CARRIED_MAX:
            return {"code": TOO_LONG}, b""
        over = len(content) < limit
        return {"code": 0, "is_over": over, "mode": found.st_mode & 0o777}, content

    def _write(self, place: int, content: bytes, head: Head) -> int:
        if self._sink is None:
            if not is_place(self._local, self._place, any_boot=self._any_boot):
                return MOVED
            self._sink = Sink(target_of(self._local, self._name))
        if place > self._sink.size:
            return BEGIN_AGAIN
        if place + len(content) > CARRIED_MAX:
            return TOO_LONG
        self._sink.write(place, content)
        if head["is_end"]:
            self._sink.cut(place + len(content))
            finish = self._sink.append if self._way == "append" else self._sink.replace
            finish(int(head["mode"]))
        return 0

    def close(self) -> None:
        """Let what is not whole never have been."""
        if self._reader >= 0:
            os.close(self._reader)
        if self._sink is not None:
            self._sink.close()


def serve_end(way: str, place: str, local: str, name: str, machine: str) -> None:
    """Serve until the input ends."""
    end = FileEnd(way, place, local, name, machine)
    frames = TaskFrameReader()
    try:
        while data := os.read(0, _RECEIVE):
            for head, content in frames.feed(data):
                answer = encode_task_frame(*end.take(head, content))
                while answer:
                    answer = answer[os.write(1, answer) :]
    finally:
        end.close()
