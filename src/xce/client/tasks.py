"""Tasks on the hosts of a job, started by one of its processes on the job's first host.

Tasks on other hosts are asked for at the worker of this one (`xce.worker.launch_desk`); those on
this host are child processes. All end when whoever started them does. One thread; standard library
only. `Tasks.serve` waits for something to happen and says what; `Tasks.fileno` may be watched.
"""

import contextlib
import ctypes
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from xce.net.task_frame import Head, TaskFrameError, TaskFrameReader, encode_task_frame

STARTED: Final = "started"
OUT: Final = "out"
ERR: Final = "err"
OVER: Final = "over"
FAILED: Final = "failed"
LOST_CODE: Final = 255
"""The exit code of a task that could not be started, or of which nobody knows how it ended."""
FEED_MAX: Final = 32 * 1024
"""So much input is under way at once."""
_PIECE: Final = 64 * 1024
_RECEIVE: Final = 256 * 1024
_RETRY_S: Final = 0.2
_RETRY_MAX_S: Final = 2.0
_FIRST_S: Final = 30.0
"""So long it is tried to reach the worker before anything was started."""
_LAST_READS: Final = 16
_FIRST_ONLY: Final = "tasks on other hosts are started on the job's first host only"
_PR_SET_PDEATHSIG: Final = 1


class NoJobError(Exception):
    """This process does not belong to a job that has several hosts, or not on its first one."""


class TaskEvent(NamedTuple):
    """Something that happened to a task."""

    task: "Task"
    kind: str
    content: bytes = b""
    """What it wrote; of a failure, why, for people."""
    code: int = 0
    """Of its end: 128 + n when it died of signal n."""


class Task:
    """A task. `Tasks.start` makes it."""

    def __init__(self, name: str, host: str, *, has_input: bool) -> None:
        self.name = name
        self.host = host
        self.pid = 0
        """On its host; 0: it does not run yet."""
        self.is_over = False
        self.unfed = bytearray()
        """Input that it has not taken."""
        self.has_input = has_input
        self.ends_input = False
        self.places = {OUT: 0, ERR: 0}
        self.taken = 0
        self.fed = 0
        """Place behind the input that is under way."""
        self.request: tuple[Head, bytes] | None = None
        """What is to be said to start it; None: it runs here."""
        self.process: subprocess.Popen[bytes] | None = None
        self.pidfd = -1


class Tasks:
    """The tasks of one process.

    Args:
        environ: Its environment.

    Raises:
        NoJobError: It belongs to no job.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        try:
            self._hello: Head = {
                "do": "hello",
                "job": int(environ["XCE_JOBID"]),
                "index": int(environ["XCE_JOBINDEX"]),
                "attempt": int(environ["XCE_ATTEMPT"]),
                "key": environ.get("XCE_LAUNCH_KEY", ""),
            }
        except (KeyError, ValueError) as error:
            raise NoJobError("tasks are started from within a job only") from error
        self._path = environ.get("XCE_LAUNCH_SOCKET", "")
        self.host = environ.get("XCE_LAUNCH_HOST") or environ.get("HOSTNAME", "")
        self._selector = selectors.EpollSelector()
        self._tasks: dict[str, Task] = {}
        self._stem = os.urandom(6).hex()
        self._events: list[TaskEvent] = []
        self._socket: socket.socket | None = None
        self._is_welcome = False
        self._frames = TaskFrameReader()
        self._unsent = bytearray()
        self._retry_s = _RETRY_S
        self._retry_at = 0.0
        self._give_up_at = 0.0
        """When the first try to reach the worker ends; 0: it was reached once."""

    def fileno(self) -> int:
        """Return what is readable when `serve` has something to do."""
        return self._selector.fileno()

    def start(
        self, host: str, argv: Sequence[str], *, env: Mapping[str, str], cwd: str,
        umask: int = -1, has_input: bool = False,
    ) -> Task:  # fmt: skip
        """Start a task on a host of the job; `serve` tells how that goes."""
        task = Task(f"{self._stem}.{len(self._tasks)}", host, has_input=has_input)
        self._tasks[task.name] = task
        if host == self.host:
            self._start_here(task, argv, env, cwd, umask)
            return task
        if umask < 0:
            umask = os.umask(0o022)
            os.umask(umask)
        content = b"\0".join(
            [*map(os.fsencode, argv), *(os.fsencode(f"{n}={v}") for n, v in env.items())]
        )
        task.request = (
            {
                "do": "start", "name": task.name, "host": host, "cwd": cwd, "umask": umask,
                "input": has_input, "argc": len(argv),
            },
            content,
        )  # fmt: skip
        if self._is_welcome:
            self._send(*task.request)
        elif self._socket is None and not self._give_up_at:
            self._give_up_at = time.monotonic() + _FIRST_S
            self._dial()
        return task

    def serve(self, timeout_s: float | None) -> list[TaskEvent]:
        """Wait at most so long for something to happen, and return what has."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._events:
            now = time.monotonic()
            if self._needs_worker() and self._socket is None and now >= self._retry_at:
                self._dial()
                continue
            waits = [max(0.0, until - now)] if until is not None else []
            if self._needs_worker() and self._socket is None:
                waits.append(max(0.0, self._retry_at - now))
            for key, mask in self._selector.select(min(waits, default=None)):
                serve: Callable[[int], None] = key.data
                serve(mask)
            if until is not None and time.monotonic() >= until:
                break
        events, self._events = self._events, []
        return events

    def signal(self, task: Task, number: int) -> None:
        """Send a signal to a task and its process group."""
        if task.is_over:
            return
        if task.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(task.process.pid, number)
        elif self._is_welcome:
            self._send({"do": "signal", "name": task.name, "signal": number})

    def write(self, task: Task, content: bytes) -> None:
        """Give a task input; what waits to be taken is in ``task.unfed``."""
        task.unfed += content
        self._feed(task)

    def end_input(self, task: Task) -> None:
        """Let a task find the end of its input behind what it was given."""
        task.ends_input = True
        self._feed(task)

    def close(self) -> None:
        """Kill what still runs."""
        for task in self._tasks.values():
            if task.process is not None and not task.is_over:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(task.process.pid, signal.SIGKILL)
                task.process.wait()
        if self._socket is not None:
            self._socket.close()
        self._selector.close()

    # Tasks on this host.

    def _start_here(
        self, task: Task, argv: Sequence[str], env: Mapping[str, str], cwd: str, umask: int
    ) -> None:
        try:
            process = subprocess.Popen(
                [os.fsencode(word) for word in ("/bin/sh", "-c", 'exec "$0" "$@"', *argv)],
                env=dict(env), cwd=cwd, umask=umask, process_group=0,
                stdin=subprocess.PIPE if task.has_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - there is one thread
            )  # fmt: skip
        except OSError as error:
            self._fail(task, f"cannot start {argv[0]}: {error.strerror}")
            return
        task.process, task.pid = process, process.pid
        self._events.append(TaskEvent(task, STARTED))
        for kind, pipe in ((OUT, process.stdout), (ERR, process.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._watch(pipe.fileno(), selectors.EVENT_READ, self._reader(task, kind))
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
        task.pidfd = os.pidfd_open(process.pid)
        self._watch(task.pidfd, selectors.EVENT_READ, lambda _: self._reap(task))

    def _reader(self, task: Task, kind: str) -> Callable[[int], None]:
        def read(_: int) -> None:
            self._receive(task, kind)

        return read

    def _receive(self, task: Task, kind: str) -> bool:
        """Take what a task on this host wrote; False: there is nothing now."""
        assert task.process is not None
        pipe = task.process.stdout if kind == OUT else task.process.stderr
        if pipe is None or pipe.closed:
            return False
        try:
            content = os.read(pipe.fileno(), _PIECE)
        except BlockingIOError:
            return False
        if not content:
            self._selector.unregister(pipe.fileno())
            pipe.close()
            return False
        self._events.append(TaskEvent(task, kind, content))
        return True

    def _reap(self, task: Task) -> None:
        assert task.process is not None
        code = task.process.wait()
        self._selector.unregister(task.pidfd)
        os.close(task.pidfd)
        for kind, pipe in ((OUT, task.process.stdout), (ERR, task.process.stderr)):
            for _ in range(_LAST_READS):
                if not self._receive(task, kind):
                    break
            if pipe is not None and not pipe.closed:
                self._selector.unregister(pipe.fileno())
                pipe.close()
        self._close_input(task)
        task.is_over = True
        self._events.append(TaskEvent(task, OVER, code=128 - code if code < 0 else code))

    def _feed_here(self, task: Task) -> None:
        assert task.process is not None
        pipe = task.process.stdin
        if pipe is None or pipe.closed:
            task.unfed.clear()
            return
        fd = pipe.fileno()
        try:
            while task.unfed:
                del task.unfed[: os.write(fd, task.unfed)]
        except BlockingIOError:
            if fd not in self._selector.get_map():
                self._watch(fd, selectors.EVENT_WRITE, lambda _: self._feed_here(task))
            return
        except OSError:
            task.unfed.clear()
            self._close_input(task)
            return
        if fd in self._selector.get_map():
            self._selector.unregister(fd)
        if task.ends_input:
            self._close_input(task)

    def _close_input(self, task: Task) -> None:
        pipe = task.process.stdin if task.process is not None else None
        if pipe is not None and not pipe.closed:
            if pipe.fileno() in self._selector.get_map():
                self._selector.unregister(pipe.fileno())
            with contextlib.suppress(OSError):
                pipe.close()

    # Tasks on other hosts.

    def _needs_worker(self) -> bool:
        return any(one.request is not None and not one.is_over for one in self._tasks.values())

    def _dial(self) -> None:
        """Connect to this host's worker; on failure it is tried again later."""
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.connect(self._path)
        except OSError as error:
            channel.close()
            self._put_off(f"cannot reach this host's worker: {error.strerror}")
            return
        channel.setblocking(False)
        self._socket, self._frames = channel, TaskFrameReader()
        self._unsent.clear()
        self._watch(channel.fileno(), selectors.EVENT_READ, self._exchange)
        self._send(self._hello)

    def _put_off(self, text: str) -> None:
        now = time.monotonic()
        if not self._path or (self._give_up_at and now >= self._give_up_at):
            self._fail_all(text if self._path else _FIRST_ONLY)
            return
        self._retry_at = now + self._retry_s
        self._retry_s = min(2 * self._retry_s, _RETRY_MAX_S)

    def _lose(self) -> None:
        """Note that the worker is gone: it will be started again."""
        if self._socket is not None:
            self._selector.unregister(self._socket.fileno())
            self._socket.close()
            self._socket = None
        self._is_welcome = False
        self._put_off("this host's worker closes the connection")

    def _exchange(self, mask: int) -> None:
        assert self._socket is not None
        if mask & selectors.EVENT_WRITE:
            self._transmit()
        if not mask & selectors.EVENT_READ or self._socket is None:
            return
        try:
            data = self._socket.recv(_RECEIVE)
            frames = self._frames.feed(data)
        except BlockingIOError:
            return
        except (OSError, TaskFrameError):
            data, frames = b"", []
        for head, content in frames:
            self._hear(head, content)
        if not data:
            self._lose()

    def _hear(self, head: Head, content: bytes) -> None:
        kind = head["is"]
        if kind == "welcome":
            self._begin()
            return
        if kind == "refused":
            self._fail_all(str(head["text"]))
            return
        task = self._tasks.get(str(head["name"]))
        if task is None or task.is_over:
            return
        if kind in (OUT, ERR):
            fresh = content[max(0, task.places[kind] - int(head["place"])) :]
            task.places[kind] = int(head["place"]) + len(content)
            if fresh:
                self._events.append(TaskEvent(task, kind, fresh))
        elif kind == STARTED:
            task.pid = int(head["pid"])
            self._events.append(TaskEvent(task, STARTED))
            self._feed(task)
        elif kind == "fed":
            self._note_fed(task, int(head["taken"]))
        elif kind == OVER:
            task.is_over = True
            self._events.append(TaskEvent(task, OVER, code=int(head["code"])))
        elif kind == FAILED:
            self._fail(task, str(head["text"]))

    def _begin(self) -> None:
        """Go on with what is not over, now that the worker knows who we are."""
        self._is_welcome, self._give_up_at, self._retry_s = True, 0.0, _RETRY_S
        for task in self._tasks.values():
            if task.request is None or task.is_over:
                continue
            if not task.pid:
                self._send(*task.request)
                continue
            self._send(
                {"do": "follow", "name": task.name, "host": task.host,
                 "out": task.places[OUT], "err": task.places[ERR]}
            )  # fmt: skip
            task.fed = task.taken
            self._feed(task)

    def _feed(self, task: Task) -> None:
        if task.process is not None:
            self._feed_here(task)
        if task.request is None or not task.pid or not self._is_welcome or task.is_over:
            return
        under_way = task.fed - task.taken
        if under_way or not (task.unfed or task.ends_input):
            return
        piece = bytes(task.unfed[:FEED_MAX])
        is_end = task.ends_input and len(piece) == len(task.unfed)
        task.fed = task.taken + len(piece) + is_end  # the end counts as one, to be acknowledged
        head = {"do": "feed", "name": task.name, "place": task.taken, "end": is_end}
        self._send(head, piece)

    def _note_fed(self, task: Task, taken: int) -> None:
        sent = task.fed
        fresh = max(0, taken - task.taken)
        del task.unfed[:fresh]
        task.taken += fresh
        task.fed = task.taken
        if task.ends_input and not task.unfed and sent > task.taken:
            task.ends_input = False  # it is taken with the last byte
            return
        self._feed(task)

    def _fail(self, task: Task, text: str) -> None:
        task.is_over = True
        self._events.append(TaskEvent(task, FAILED, text.encode(), LOST_CODE))

    def _fail_all(self, text: str) -> None:
        for task in self._tasks.values():
            if task.request is not None and not task.is_over:
                self._fail(task, text)

    def _send(self, head: Head, content: bytes = b"") -> None:
        self._unsent += encode_task_frame(head, content)
        self._transmit()

    def _transmit(self) -> None:
        if self._socket is None:
            return
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()  # the reading side finds out what became of it
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self._selector.modify(self._socket.fileno(), wanted, self._exchange)

    def _watch(self, fd: int, mask: int, serve: Callable[[int], None]) -> None:
        self._selector.register(fd, mask, serve)


def _die_with_parent() -> None:
    """Let a task on this host die with whoever started it, as those on other hosts do."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
