"""Files of jobs that were submitted here and run elsewhere: what their first hosts ask of them.

Each copy has a process of the job's user (`xce.client.file_end`) at the file, as long as it is
under way. Which file it is stands in the job, as the controller tells it, and not in what is asked.
When this worker ends these processes do; what was not whole then never was.
"""

import asyncio
import os
import socket
import subprocess
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Final, NamedTuple, TypeAlias

from xce.model.effect import Launch
from xce.model.task import EndFile, FileOrder, FileSeen, ReadFile, TaskFault, WriteFile
from xce.net import message as m
from xce.net.task_frame import Head, TaskFrameError, TaskFrameReader, encode_task_frame
from xce.step.file_codes import BEGIN_AGAIN, ELSEWHERE, NO_ACCOUNT, UNKNOWN
from xce.step.file_copy import APPEND
from xce.worker.accounts import Accounts, NoAccountError
from xce.worker.action import Key
from xce.worker.environ import DEFAULT_PATH, Account
from xce.worker.launch_command import FILE_COPY
from xce.worker.transfers import End, end_of

ENDS_MAX: Final = 64
"""So many copies are under way at once."""
ENDS_OF_ONE_MAX: Final = 48
"""So many of them are of jobs of one user."""
IDLE_S: Final = 300.0
"""A copy of which nothing is heard for so long is over."""
_OUTCOMES_MAX: Final = 1000
_END_S: Final = 10.0
_LOOK_S: Final = 0.05
_RECEIVE: Final = 256 * 1024
Name: TypeAlias = tuple[Key, str]


class _Streams(NamedTuple):
    process: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _Copy:
    """A copy, and the process at its file."""

    def __init__(self, end: End, launch: Launch) -> None:
        self.end = end
        self.umask = launch.spec.umask
        self.uid = launch.owner.uid
        self.lock = asyncio.Lock()
        self.timer: asyncio.TimerHandle | None = None
        self._streams: _Streams | None = None
        self._frames = TaskFrameReader()
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether its process was started."""
        return self._streams is not None

    async def open(self, account: Account) -> None:
        """Start its process.

        Raises:
            OSError: It cannot be started.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                start = asyncio.get_running_loop().run_in_executor
                process = await start(None, _start, self.end, account, self.umask, theirs)
            except OSError:
                ours.close()
                raise
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        self._streams = _Streams(process, reader, writer)
        if self._is_closed:
            await self.close()

    async def ask(self, order: ReadFile | WriteFile) -> FileSeen:
        """Return what comes of an order; `BEGIN_AGAIN`: the process is not there any more.

        It is the user's, who can make it say anything.
        """
        try:
            head, content = await self._exchange(order)
            limit = order.limit if isinstance(order, ReadFile) else 0
            if len(content) <= limit:
                code, mode = int(head["code"]) & 0xFF, int(head.get("mode", 0)) & 0o777
                return FileSeen(code, content, bool(head.get("is_over")), mode)
        except (OSError, TaskFrameError, LookupError, TypeError, ValueError):
            pass
        is_last = isinstance(order, WriteFile) and order.is_end
        return FileSeen(UNKNOWN if is_last and self.end.way == APPEND else BEGIN_AGAIN)

    async def _exchange(self, order: ReadFile | WriteFile) -> tuple[Head, bytes]:
        assert self._streams is not None
        _, reader, writer = self._streams
        writer.write(_frame_of(order))
        await writer.drain()
        while data := await reader.read(_RECEIVE):
            if frames := self._frames.feed(data):
                return frames[0]
        raise ConnectionResetError("the process has gone")

    async def close(self) -> None:
        """End its process."""
        self._is_closed = True
        if self.timer is not None:
            self.timer.cancel()
        streams, self._streams = self._streams, None
        if streams is None:
            return
        streams.writer.close()
        await _reap(streams.process)


def _start(
    end: End, account: Account, umask: int, channel: socket.socket
) -> subprocess.Popen[bytes]:
    """Start the process of a copy, as the job's user.

    Raises:
        OSError: It cannot be started.
    """
    words = [*FILE_COPY, "end", *end]
    env = {"PATH": DEFAULT_PATH, "LC_ALL": "C.UTF-8"}
    is_other = account.uid != os.geteuid()
    try:
        return subprocess.Popen(
            words, stdin=channel.fileno(), stdout=channel.fileno(), stderr=subprocess.DEVNULL,
            env=env, cwd="/", umask=umask, start_new_session=True,
            user=account.uid if is_other else None,
            group=account.gid if is_other else None,
            extra_groups=account.groups if is_other else None,
        )  # fmt: skip
    except (ValueError, subprocess.SubprocessError) as error:
        raise OSError(str(error)) from error  # a path with a NUL character


async def _reap(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process that was told to end has ended, and kill it if it does not.

    No thread waits: users can have theirs stand still, and threads are needed for others.
    """
    if not await _has_ended(process):
        process.kill()
        await _has_ended(process)


async def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _END_S
    while process.poll() is None:
        if loop.time() >= until_s:
            return False
        await asyncio.sleep(_LOOK_S)
    return True


def _frame_of(order: ReadFile | WriteFile) -> bytes:
    if isinstance(order, ReadFile):
        return encode_task_frame({"do": "read", "place": order.place, "limit": order.limit})
    head = {"do": "write", "place": order.place, "mode": order.mode, "is_end": order.is_end}
    return encode_task_frame(head, order.content)


class FileDesk:
    """Serves the first hosts of jobs that were submitted here.

    Args:
        host: This host.
        accounts: The users of this host.
        say: Sends an answer to the controller, which passes it on.
    """

    def __init__(self, host: str, accounts: Accounts, say: Callable[[m.Message], object]) -> None:
        self._host = host
        self._accounts = accounts
        self._say = say
        self._copies: dict[Name, _Copy] = {}
        self._outcomes: OrderedDict[Name, FileSeen] = OrderedDict()
        """Of copies that are over: who asks again hears the same."""
        self._work: set[asyncio.Task[None]] = set()
        self._reign = 0

    def serve(self, ask: m.TaskAsk, order: FileOrder) -> None:
        """Do what a first host asks, beside the loop."""
        self._spawn(self._serve(ask, order, self._reign))

    def leave_controller(self) -> None:
        """Note that who asked hears no answer any more; what is under way goes on."""
        self._reign += 1

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _serve(self, ask: m.TaskAsk, order: FileOrder, reign: int) -> None:
        name = ((ask.job, ask.index, ask.attempt), order.name)
        if isinstance(order, EndFile):
            self._outcomes.pop(name, None)
            self._leave(name)
            piece = m.TaskPiece(ask.id, file=FileSeen())
        elif self._is_new(name) and self._is_full(ask.launch):
            piece = m.TaskPiece(ask.id, TaskFault.BUSY, "too many copies at once")
        else:
            piece = m.TaskPiece(ask.id, file=await self._do(name, ask.launch, order))
        if reign == self._reign:
            self._say(piece)

    def _is_new(self, name: Name) -> bool:
        return name not in self._copies and name not in self._outcomes

    def _is_full(self, launch: Launch | None) -> bool:
        """Return whether there is no room for one more copy; without a launch none begins."""
        if launch is None:
            return False
        own = sum(copy.uid == launch.owner.uid for copy in self._copies.values())
        return own >= ENDS_OF_ONE_MAX or len(self._copies) >= ENDS_MAX

    async def _do(self, name: Name, launch: Launch | None, order: ReadFile | WriteFile) -> FileSeen:
        if (known := self._outcomes.get(name)) is not None:
            return known
        copy = self._copies.get(name)
        if copy is None:
            if launch is None or order.place:
                return FileSeen(BEGIN_AGAIN)
            end = end_of(launch, order.transfer, self._host, is_read=isinstance(order, ReadFile))
            if end is None:
                return FileSeen(ELSEWHERE)
            copy = self._copies[name] = _Copy(end, launch)
        self._wait(name, copy)
        async with copy.lock:
            if (known := self._outcomes.get(name)) is not None:
                return known
            code = 0 if copy.is_open or launch is None else await self._open(copy, launch)
            if code or not copy.is_open:
                seen = FileSeen(code or BEGIN_AGAIN)
            else:
                seen = await copy.ask(order)
            is_over = seen.is_over and isinstance(order, WriteFile)
            if is_over or seen.code not in (0, BEGIN_AGAIN):
                self._outcomes[name] = seen
                if len(self._outcomes) > _OUTCOMES_MAX:
                    self._outcomes.popitem(last=False)
        if is_over or seen.code:
            self._leave(name)
        return seen

    async def _open(self, copy: _Copy, launch: Launch) -> int:
        """Start the process of a copy; return why it cannot be, or 0."""
        loop = asyncio.get_running_loop()
        try:
            account = await loop.run_in_executor(None, self._accounts.load, launch.owner)
            await copy.open(account)
        except (NoAccountError, OSError):
            return NO_ACCOUNT
        return 0

    def _wait(self, name: Name, copy: _Copy) -> None:
        """Let a copy be over when nothing is heard of it for long."""
        if copy.timer is not None:
            copy.timer.cancel()
        loop = asyncio.get_running_loop()
        copy.timer = loop.call_later(IDLE_S, self._leave, name)

    def _leave(self, name: Name) -> None:
        """End the process of a copy, if there is one."""
        copy = self._copies.pop(name, None)
        if copy is not None:
            self._spawn(copy.close())
