"""Where processes of a job ask for tasks on the job's other hosts: a socket of the host's worker.

A process shows the key of its attempt, which stands in the environment of that attempt's processes
only, and the kernel says that it is the job's user. It names its tasks itself, so that it may come
again after this worker was restarted and go on where it was. When it goes its tasks are killed.

Frames are those of `xce.net.task_frame`. It says ``hello`` first; then ``start``, ``follow`` (a
task that it started before), ``feed``, ``signal``. It hears ``welcome`` or ``refused``; then
``started``, ``out``, ``err``, ``fed``, ``over``, ``failed``.

What processes of an attempt have said and is not done yet has a bounded room: more is not read.

A step that copies a file says ``copy``, once at a time, and hears ``copied``: a piece on its way
from or to the host where the job was submitted. When it goes its copy is forgotten.
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import os
import socket
import struct
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from xce.model.task import (
    PIECE_MAX,
    EndFile,
    EndTask,
    FeedTask,
    FileOrder,
    FileSeen,
    ReadFile,
    ReadTask,
    SignalTask,
    StartTask,
    TaskFault,
    TaskSeen,
    WriteFile,
)
from xce.net.task_frame import (
    FRAME_MAX,
    Head,
    TaskFrameError,
    TaskFrameReader,
    encode_task_frame,
)
from xce.step.file_codes import AWAY, ELSEWHERE
from xce.worker.action import Key
from xce.worker.launch_room import LaunchRoom, Leave
from xce.worker.remote import Remote

START_S: Final = 25.0
"""So long it is tried to start a task on a host that cannot be reached."""
_READ_US: Final = 15_000_000
_FULL_S: Final = 0.05
"""So long a task that takes no more input is left alone."""
_PEER: Final = struct.Struct("3i")
_SECRET_BYTES: Final = 32
_RECEIVE: Final = 256 * 1024
_SHORT: Final = PIECE_MAX + 4096
"""Frames up to so long may come in part before there is room for them."""
_TASKS_MAX: Final = 100_000
_SIGNALS_MAX: Final = 10_000
"""Most signals of one process under way."""
_NAME_MAX: Final = 200
"""Characters of a task's name, which its host remembers."""
_FAULT_CODES: Final = {TaskFault.REFUSED: ELSEWHERE}


class LaunchDoor(NamedTuple):
    """Where processes of jobs ask, and what their keys are made of."""

    socket: Path
    secret: bytes

    def key_of(self, key: Key) -> str:
        """Return the key of an attempt: whoever has not got it cannot make it."""
        text = ".".join(map(str, key)).encode()
        return hashlib.blake2b(text, key=self.secret, digest_size=16).hexdigest()

    def environment(self, key: Key) -> dict[str, str]:
        """Return the variables by which processes of an attempt find the door."""
        return {"XCE_LAUNCH_SOCKET": str(self.socket), "XCE_LAUNCH_KEY": self.key_of(key)}


def open_door(socket_path: Path, secret_file: Path) -> LaunchDoor:
    """Return the door of a host; its secret is made once and kept.

    Raises:
        OSError: The secret can be neither read nor kept.
    """
    with contextlib.suppress(OSError):
        secret = secret_file.read_bytes()
        if len(secret) == _SECRET_BYTES:
            return LaunchDoor(socket_path, secret)
    secret = os.urandom(_SECRET_BYTES)
    aside = secret_file.with_name(f".{secret_file.name}.{os.getpid()}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(secret)
    aside.replace(secret_file)
    return LaunchDoor(socket_path, secret)


class LaunchDesk:
    """Serves processes of this host's jobs.

    Args:
        door: Where.
        remote: The way to other hosts.
        owner_of: Returns the user id whose an attempt here is; None: it does not run here.
        log: Where to tell.
    """

    def __init__(
        self,
        door: LaunchDoor,
        remote: Remote,
        owner_of: Callable[[Key], int | None],
        log: logging.Logger,
    ) -> None:
        self._door = door
        self._remote = remote
        self._owner_of = owner_of
        self._log = log
        self._ending: set[asyncio.Task[None]] = set()
        self._room = LaunchRoom(FRAME_MAX)

    async def run(self) -> None:
        """Serve until cancelled."""
        path = self._door.socket
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._serve, str(path), backlog=128)
        path.chmod(0o666 if os.geteuid() == 0 else 0o600)
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = TaskFrameReader()
        client: _Client | None = None
        try:
            while data := await reader.read(_RECEIVE):
                for head, content in frames.feed(data):
                    if client is None:
                        client = self._greet(head, writer)
                        if client is None:
                            return
                    else:
                        await client.take(head, content)
                if frames.awaited <= _SHORT:
                    continue
                if client is None:
                    self._log.warning("launcher-refused", extra={"why": "a long greeting"})
                    return
                await client.make_room(frames.awaited)
        except (TaskFrameError, OSError, KeyError, TypeError, ValueError) as error:
            self._log.warning("launcher-refused", extra={"why": str(error)})
        finally:
            if client is not None:
                client.leave(self._ending)
            with contextlib.suppress(OSError):
                writer.close()

    def _greet(self, head: Head, writer: asyncio.StreamWriter) -> "_Client | None":
        """Return a client that has shown its key; None: it is refused."""
        key = (_number_of(head, "job"), _number_of(head, "index"), _number_of(head, "attempt"))
        channel: socket.socket = writer.get_extra_info("socket")
        uid = _PEER.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1]
        owner = self._owner_of(key)
        text = ""
        if not hmac.compare_digest(str(head["key"]), self._door.key_of(key)):
            text = "this is not the key of the attempt"
        elif owner is None:
            text = "the job does not run here, or is being ended"
        elif uid not in (0, owner):
            text = "the job is not yours"
        if text:
            writer.write(encode_task_frame({"is": "refused", "text": text}))
            return None
        writer.write(encode_task_frame({"is": "welcome"}))
        return _Client(key, self._remote, writer, self._room)


class _Client:
    """A process that starts tasks."""

    def __init__(
        self, key: Key, remote: Remote, writer: asyncio.StreamWriter, room: LaunchRoom
    ) -> None:
        self._key = key
        self._room = room
        self._has_room: Leave | None = None
        """For the next frame, of which a part has come."""
        self._remote = remote
        self._writer = writer
        self._hosts: dict[str, str] = {}
        """The host of each task that is not over, by its name."""
        self._work: set[asyncio.Task[None]] = set()
        self._fed: set[str] = set()
        """Tasks of which a piece of input is under way: there is one at a time."""
        self._signals = 0
        self._is_carrying = False
        """An order about a file is under way: there is one at a time."""
        self._copy: EndFile | None = None
        """What ends a copy that is not over."""

    async def take(self, head: Head, content: bytes) -> None:
        """Take what it says.

        Raises:
            ValueError: It says too much.
        """
        name = _word_of(head, "name")
        if len(content) > PIECE_MAX and head["do"] != "start":
            raise ValueError("a piece is too long")
        if len(name) > _NAME_MAX:
            raise ValueError(f"the name of a task has more than {_NAME_MAX} characters")
        match head["do"]:
            case "start":
                order = _start_of(head, content)
                host = _word_of(head, "host")
                leave = await self._enter(len(content))
                self._begin(name, host, self._run(name, host, order, leave), leave)
            case "follow":
                places = (_number_of(head, "out"), _number_of(head, "err"))
                host = _word_of(head, "host")
                self._begin(name, host, self._follow(name, host, *places))
            case "feed" if name in self._hosts:
                if name in self._fed:
                    raise ValueError("a piece of input before the last one was answered")
                fed = FeedTask(name, _number_of(head, "place"), content, bool(head["end"]))
                self._fed.add(name)
                self._spawn(self._feed(name, fed))
            case "signal" if name in self._hosts:
                signal = SignalTask(name, _number_of(head, "signal"))
                if self._signals == _SIGNALS_MAX:
                    raise ValueError("too many signals at once")
                self._signals += 1
                self._spawn(self._signal(self._hosts[name], signal))
            case "copy":
                if self._is_carrying:
                    raise ValueError("an order about a file before the last one was answered")
                asked = _file_order_of(head, content)
                self._is_carrying = True
                self._spawn(self._carry(asked))
            case _:
                pass  # about a task that is over
        self._give_up_room()

    async def make_room(self, size: int) -> None:
        """Wait until there is room for the frame of which a part has come."""
        if self._has_room is None:
            self._has_room = await self._room.take(self._key, size)

    async def _enter(self, size: int) -> Leave:
        """Wait until there is room for an order, unless there is."""
        leave, self._has_room = self._has_room, None
        return leave or await self._room.take(self._key, size)

    def _give_up_room(self) -> None:
        if self._has_room is not None:
            self._has_room()
            self._has_room = None

    def leave(self, ending: set[asyncio.Task[None]]) -> None:
        """Note that it has gone: its tasks are killed."""
        self._give_up_room()
        for task in self._work:
            task.cancel()
        for name, host in self._hosts.items():
            task = asyncio.get_running_loop().create_task(self._end(name, host))
            ending.add(task)
            task.add_done_callback(ending.discard)
        if self._copy is not None:
            task = asyncio.get_running_loop().create_task(self._forget(self._copy))
            ending.add(task)
            task.add_done_callback(ending.discard)

    async def _carry(self, order: FileOrder) -> None:
        """Pass on an order about a file, and what came of it."""
        self._copy = None if isinstance(order, EndFile) else EndFile(order.name, order.transfer)
        piece = await self._remote.ask(self._key, "", order)
        self._is_carrying = False
        seen = piece.file or FileSeen(code=_FAULT_CODES.get(piece.fault, AWAY))
        self._tell(
            {
                "is": "copied", "is_away": piece.fault in (TaskFault.AWAY, TaskFault.BUSY),
                "is_busy": piece.fault is TaskFault.BUSY, "code": seen.code,
                "is_over": seen.is_over, "mode": seen.mode,
            },
            seen.content,
        )  # fmt: skip

    async def _forget(self, end: EndFile) -> None:
        await self._remote.ask(self._key, "", end)

    async def _end(self, name: str, host: str) -> None:
        """Kill a task, and forget it when it is over."""
        while True:
            piece = await self._remote.ask_until(self._key, host, EndTask(name))
            if piece.fault or piece.task is None or piece.task.is_over:
                return
            await asyncio.sleep(1.0)

    def _begin(
        self, name: str, host: str, work: Coroutine[None, None, None], leave: Leave = lambda: None
    ) -> None:
        if name in self._hosts or len(self._hosts) >= _TASKS_MAX:
            work.close()
            leave()
            if name not in self._hosts:
                self._fail(name, host, f"more than {_TASKS_MAX} tasks at once")
            return
        self._hosts[name] = host
        self._spawn(work, leave)

    def _spawn(self, work: Coroutine[None, None, None], leave: Leave = lambda: None) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        task.add_done_callback(lambda _: leave())

    def _tell(self, head: Mapping[str, object], content: bytes = b"") -> None:
        self._writer.write(encode_task_frame(head, content))

    def _fail(self, name: str, host: str, text: str) -> None:
        self._hosts.pop(name, None)
        self._tell({"is": "failed", "name": name, "text": f"host {host}: {text}"})

    async def _run(self, name: str, host: str, order: StartTask, leave: Leave) -> None:
        trouble = await self._remote.lead(self._key, host)
        if trouble:
            self._fail(name, host, trouble)
            return
        piece = await self._remote.ask_until(self._key, host, order, patience_s=START_S)
        leave()
        if piece.fault or piece.task is None:
            self._fail(name, host, piece.text or "it could not be started")
            if piece.fault is TaskFault.AWAY:
                await self._end(name, host)  # it may be started all the same
            return
        self._tell({"is": "started", "name": name, "pid": piece.task.pid})
        await self._follow(name, host, 0, 0)

    async def _follow(self, name: str, host: str, out: int, err: int) -> None:
        """Pass on what a task writes, and how it ends."""
        while True:
            order = ReadTask(name, out, err, PIECE_MAX, _READ_US)
            piece = await self._remote.ask_until(self._key, host, order)
            seen = piece.task
            if piece.fault or seen is None:
                self._fail(name, host, piece.text or "the task was lost")
                return
            out = self._pass_on(name, "out", seen.out_from, seen.out, out)
            err = self._pass_on(name, "err", seen.err_from, seen.err, err)
            await self._writer.drain()
            if seen.is_over:
                break
        self._hosts.pop(name, None)
        self._tell({"is": "over", "name": name, "code": seen.code})
        await self._remote.ask_until(self._key, host, EndTask(name), patience_s=START_S)

    def _pass_on(self, name: str, what: str, start: int, content: bytes, place: int) -> int:
        if content:
            self._tell({"is": what, "name": name, "place": start}, content)
            return start + len(content)
        return place

    async def _feed(self, name: str, order: FeedTask) -> None:
        host = self._hosts.get(name)
        if host is None:
            return
        piece = await self._remote.ask_until(self._key, host, order)
        if piece.task is not None and piece.task.taken < order.place + len(order.content):
            await asyncio.sleep(_FULL_S)
        self._fed.discard(name)
        seen = piece.task or TaskSeen(taken=order.place + len(order.content))
        self._tell({"is": "fed", "name": name, "taken": seen.taken})

    async def _signal(self, host: str, order: SignalTask) -> None:
        try:
            await self._remote.ask_until(self._key, host, order, patience_s=START_S)
        finally:
            self._signals -= 1


def _file_order_of(head: Head, content: bytes) -> FileOrder:
    name, transfer = _word_of(head, "name"), _number_of(head, "transfer")
    match head["what"]:
        case "read":
            return ReadFile(name, transfer, _number_of(head, "place"), _number_of(head, "limit"))
        case "write":
            place, mode = _number_of(head, "place"), _number_of(head, "mode")
            return WriteFile(name, transfer, place, content, mode, bool(head["is_end"]))
        case _:
            return EndFile(name, transfer)


def _word_of(head: Head, member: str) -> str:
    """Return a text that can be sent on.

    Raises:
        ValueError: It is none.
    """
    text = head[member]
    if not isinstance(text, str):
        raise ValueError(f"{member} is no text")  # noqa: TRY004 - as any other nonsense
    text.encode()
    return text


def _number_of(head: Head, member: str) -> int:
    """Return a number that can be sent on; the digits of a text may be too many for that.

    Raises:
        ValueError: It is none.
    """
    number = head[member]
    if not isinstance(number, int):
        raise ValueError(f"{member} is no number")  # noqa: TRY004 - as any other nonsense
    return number


def _start_of(head: Head, content: bytes) -> StartTask:
    words = content.split(b"\0") if content else []
    count = _number_of(head, "argc")
    return StartTask(
        _word_of(head, "name"), tuple(words[:count]), tuple(words[count:]),
        str(head["cwd"]).encode("utf-8", "surrogateescape"), _number_of(head, "umask"),
        bool(head["input"]),
    )  # fmt: skip
