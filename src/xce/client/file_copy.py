"""A step that copies one file of ``bsub -f``, on the first host of the job, as its user.

Where this host sees the directory of the submission it copies by itself. Elsewhere the content
comes from, or goes to, the host of the submission, piece by piece: this asks the worker here, whose
order the controller passes on to the worker there. A piece is asked for again while anybody on that
way is away; a file is whole before it takes its place; and what is to be added is given once.
"""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from xce.client.file_end import CARRIED_MAX, PIECE_MAX
from xce.net.task_frame import Head, TaskFrameError, TaskFrameReader, encode_task_frame
from xce.step.file_codes import AWAY, BEGIN_AGAIN, ELSEWHERE, TOO_LONG, UNKNOWN, UNREADABLE
from xce.step.file_copy import APPEND, BEFORE, copy_file, is_place
from xce.step.file_sink import Sink, fault_of, open_source, target_of

PATIENCE_S: Final = 120.0
"""So long it is tried to reach the other host, counted from its last answer. One that says that it
is busy is waited for as long as this step may take."""
_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 5.0
_ANEW_MAX: Final = 20
_RECEIVE: Final = 256 * 1024


class Answer(NamedTuple):
    """What came of an order."""

    code: int
    """0, or why the copy has failed; `BEGIN_AGAIN`: what came before is lost."""
    content: bytes = b""
    is_over: bool = False
    mode: int = 0
    is_repeat: bool = False
    """The order was given more than once: an earlier one may have been carried out."""


class CopyError(Exception):
    """The copy has failed, with an exit status."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Door:
    """The way to the host of the submission: the socket of this host's worker.

    Args:
        path: The socket.
        hello: What is said first.
        number: Which of the job's transfers is copied.
        pause: Lets time go by.
    """

    def __init__(
        self, path: str, hello: Head, number: int, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._path = path
        self._hello = hello
        self._of_all = {"name": os.urandom(8).hex(), "transfer": number}
        self._pause = pause
        self._socket: socket.socket | None = None
        self._frames = TaskFrameReader()

    def ask(self, order: Head, content: bytes = b"") -> Answer:
        """Have something done, again and again while somebody is away.

        Raises:
            CopyError: It cannot be done, or nobody was there for too long.
        """
        waited_s, pause_s, tries = 0.0, _PAUSE_S, 0
        while True:
            before_s = time.monotonic()
            tries += 1
            with contextlib.suppress(OSError, TaskFrameError):
                head, found = self._exchange(order, content)
                if not head.get("is_away"):
                    return _answer_of(head, found, is_repeat=tries > 1)
                waited_s = 0.0 if head.get("is_busy") else waited_s
            if waited_s >= PATIENCE_S:
                raise CopyError(AWAY)
            self._pause(pause_s)
            waited_s += max(pause_s, time.monotonic() - before_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def end(self) -> None:
        """Say that the copy is over."""
        with contextlib.suppress(OSError, TaskFrameError):
            self._exchange({"what": "end"}, b"")
        self.close()

    def close(self) -> None:
        """Leave: a copy that is not over never happened."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, order: Head, content: bytes) -> tuple[Head, bytes]:
        """Give an order and return the answer.

        Raises:
            OSError: The worker is not there any more.
            TaskFrameError: It says something strange.
        """
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._frames = TaskFrameReader()
                self._socket.connect(self._path)
                self._socket.sendall(encode_task_frame(self._hello))
                head, _ = self._receive()
                if head.get("is") != "welcome":
                    # One that was just started does not know yet what runs here.
                    raise ConnectionRefusedError(head.get("text", ""))
            self._socket.sendall(
                encode_task_frame({"do": "copy", **self._of_all, **order}, content)
            )
            return self._receive()
        except (OSError, TaskFrameError):
            self.close()
            raise

    def _receive(self) -> tuple[Head, bytes]:
        assert self._socket is not None
        while True:
            data = self._socket.recv(_RECEIVE)
            if not data:
                raise ConnectionResetError("the worker has gone")
            if frames := self._frames.feed(data):
                return frames[0]  # one is asked for at a time


def _answer_of(head: Head, content: bytes, *, is_repeat: bool) -> Answer:
    code = int(head.get("code", 0))
    if code not in (0, BEGIN_AGAIN):
        raise CopyError(code)
    return Answer(code, content, bool(head.get("is_over")), int(head.get("mode", 0)), is_repeat)


def open_door(environ: Mapping[str, str], number: int) -> Door | None:
    """Return the way to the host of the submission; None: there is none."""
    try:
        hello: Head = {
            "do": "hello",
            "job": int(environ["XCE_JOBID"]),
            "index": int(environ["XCE_JOBINDEX"]),
            "attempt": int(environ["XCE_ATTEMPT"]),
            "key": environ["XCE_LAUNCH_KEY"],
        }
        return Door(environ["XCE_LAUNCH_SOCKET"], hello, number)
    except (KeyError, ValueError):
        return None


def fetch_file(door: Door, target: str) -> None:
    """Copy the local file, which is on another host, to a file of this one.

    Raises:
        CopyError: It could not be done; the file is as it was.
        OSError: The file cannot be written; it is as it was.
    """
    sink = Sink(target)
    try:
        place = anew = 0
        while True:
            answer = door.ask({"what": "read", "place": place, "limit": PIECE_MAX})
            if answer.code:
                place, anew = 0, _count_anew(anew)
                continue
            sink.write(place, answer.content)
            place += len(answer.content)
            if answer.is_over:
                sink.cut(place)
                sink.replace(answer.mode)
                return
    finally:
        sink.close()


def send_file(door: Door, source: str, *, appends: bool) -> None:
    """Copy a file of this host to the local file, which is on another one.

    Raises:
        CopyError: It could not be done; but for `UNKNOWN` the local file is as it was.
    """
    try:
        reader = open_source(source)
    except OSError:
        raise CopyError(UNREADABLE) from None
    try:
        mode = os.fstat(reader).st_mode & 0o777
        if os.fstat(reader).st_size > CARRIED_MAX:
            raise CopyError(TOO_LONG)
        place = anew = 0
        while True:
            content = os.pread(reader, PIECE_MAX, place)
            # What is added ends with an order that begins nothing: given twice, it adds once.
            is_end = len(content) < PIECE_MAX and not (appends and content)
            order = {"what": "write", "place": place, "mode": mode, "is_end": is_end}
            try:
                answer = door.ask(order, content)
            except CopyError as error:
                is_unknown = is_end and appends and error.code == AWAY
                raise CopyError(UNKNOWN) if is_unknown else error from None
            if answer.code:
                if is_end and appends and answer.is_repeat:
                    raise CopyError(UNKNOWN)
                place, anew = 0, _count_anew(anew)
                continue
            place += len(content)
            if is_end:
                return
    finally:
        os.close(reader)


def _count_anew(anew: int) -> int:
    if anew >= _ANEW_MAX:
        raise CopyError(AWAY)
    return anew + 1


def run_copy(
    number: int, way: str, place: str, local: str, remote: str, *, environ: Mapping[str, str]
) -> int:
    """Copy a file one way; return the exit status.

    Args:
        number: Which of the job's transfers it is.
        way: ``before``, ``after`` or ``append``.
        place: Which directory the local file was in at submission.
        local: Its path.
        remote: The path of the other one, on this host.
        environ: Of this step.
    """
    if is_place(local, place):
        source, target = (local, remote) if way == BEFORE else (remote, local)
        return copy_file(source, target, appends=way == APPEND)
    door = open_door(environ, number)
    if door is None:
        return ELSEWHERE
    try:
        if way == BEFORE:
            fetch_file(door, target_of(remote, local))
        else:
            send_file(door, remote, appends=way == APPEND)
        door.end()
    except CopyError as error:
        return error.code
    except OSError as error:
        return fault_of(error)
    finally:
        door.close()
    return 0
