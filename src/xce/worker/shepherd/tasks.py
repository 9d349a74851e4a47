"""Remote tasks: processes that the first host of an attempt has started here, in a part of it.

A task is a session of its own in the part's control group, with pipes for its three streams; their
far ends are kept here as those of interactive jobs are (`xce.worker.shepherd.terminal`). Whoever
reads says up to where he has everything. An order that comes again changes nothing: names of tasks
are written down before these start, so that an order which was long under way starts none again
that is over and forgotten, nor one that was ended before it came.

A part has no job shell: it is there until it is ended, and is over when no task is left. Where a
shepherd was killed the pipes are gone with it; the next one kills what is left of the tasks.
"""

import base64
import contextlib
import errno
import os
import select
import signal
from typing import Any, Final, NamedTuple

from xce.worker.shepherd import rundir
from xce.worker.shepherd.attempts import BEGUN_MAX, RUNNING, Attempt, Event, split_status
from xce.worker.shepherd.bind import bound_of
from xce.worker.shepherd.proc import MARK
from xce.worker.shepherd.reach import Reach
from xce.worker.shepherd.rundir import Key
from xce.worker.shepherd.spawn import SHELL, As, encode_env
from xce.worker.shepherd.starting import Starter
from xce.worker.shepherd.terminal import Terminal

OVER: Final = 2
REFUSED: Final = 3
"""Numbers of `xce.model.task.TaskFault`, which this program cannot import."""
UNKNOWN: Final = "the host does not know this task (any more)"
BEGUN: Final = "this task was begun before, and is over"
WAIT_US_MAX: Final = 20_000_000
_LAST_READS: Final = 16
"""So often at most what is left in a pipe is read when its task has ended."""
_RUN: Final = 'exec "$0" "$@"'
"""Finds the program on the job's own path, and says what is wrong as a shell does."""


class _Waiting(NamedTuple):
    number: int
    out_from: int
    err_from: int
    limit: int
    until_us: int


class Task:
    """A task, and the far ends of its streams."""

    def __init__(self, attempt: Attempt, name: str, out: Terminal, err: Terminal) -> None:
        self.attempt = attempt
        self.name = name
        self.out = out
        """Its output, and its input."""
        self.err = err
        self.pid = 0
        self.is_over = False
        self.code = 0
        self.waiting: _Waiting | None = None

    def has_news(self, out_from: int, err_from: int) -> bool:
        """Whether there is something to say to who has everything before these places."""
        return self.is_over or self.out.end > out_from or self.err.end > err_from

    def told(self, number: int, out_from: int, err_from: int, limit: int) -> Event:
        """Return the event with what lies behind these places."""
        out_from, out = self.out.piece(out_from, limit)
        err_from, err = self.err.piece(err_from, limit)
        is_over = (
            self.is_over
            and out_from + len(out) >= self.out.end
            and err_from + len(err) >= self.err.end
        )
        return [
            "task", number, 0, "", self.pid, out_from, base64.b64encode(out).decode(), err_from,
            base64.b64encode(err).decode(), self.out.taken, is_over, self.code,
        ]  # fmt: skip

    def end(self, status: int) -> None:
        """Note how it ended, and take what is left in its pipes."""
        self.is_over = True
        self.code = split_status(status)[0]
        self.out.close_writing()
        for stream in (self.out, self.err):
            for _ in range(_LAST_READS):
                before = stream.end
                if stream.reading >= 0:
                    stream.receive()
                if stream.end == before:
                    break
            stream.close_reading()


class Tasks:
    """All remote tasks of a host; ``epoll`` is readable when something is to be done."""

    def __init__(self, reach: Reach, starter: Starter, null: int) -> None:
        self.epoll = select.epoll()
        self.events: list[Event] = []
        self._reach = reach
        self._starter = starter
        self._null = null
        self._all: dict[tuple[Key, str], Task] = {}
        self._by_pid: dict[int, Task] = {}
        self._watched: dict[int, tuple[Task, Terminal, int]] = {}
        self.parts: dict[Key, Attempt] = {}
        """Parts that run."""
        self._never: dict[tuple[Key, str], None] = {}
        """The last tasks that were ended while their part was not here (yet)."""
        self._held: list[tuple[int, Key, str, dict[str, Any]]] = []
        """What is to be started in parts that stand still: whoever enters their group to start it
        would stand still, too."""

    def take(self, now_us: int, number: int, key: list[int], fields: list[Any]) -> None:
        """Carry out an order about a task; the answer is among the events, now or later."""
        what, name, *rest = fields
        part = (key[0], key[1], key[2])
        if what == "start":
            self._start(number, part, name, *rest)
            return
        task = self._all.get((part, name))
        if task is None:
            fault = 0 if what == "end" else OVER
            if what == "end":
                self._note_end(part, name)
            self.events.append(_failure(number, fault, UNKNOWN))
            return
        if what == "read":
            self._read(task, now_us, number, *rest)
            return
        if what == "feed" and task.out.writing >= 0:
            place, content, is_end = rest
            task.out.type(place, base64.b64decode(content), is_end=is_end)
        elif what == "signal" and not task.is_over:
            # It is gone, or the number, which a job says, is no signal's.
            with contextlib.suppress(OSError, OverflowError):
                os.killpg(task.pid, rest[0])
        elif what == "end":
            self._finish(task)
        self.events.append(task.told(number, task.out.end, task.err.end, 0))
        self._watch(task)

    def serve(self) -> None:
        """Move what can be moved."""
        for fd, mask in self.epoll.poll(0):
            if fd not in self._watched:
                continue  # what came before in this round has let it go
            task, stream, _ = self._watched[fd]
            if mask & select.EPOLLOUT:
                stream.transmit()
            if mask & ~select.EPOLLOUT and fd == stream.reading:
                stream.receive()
            elif mask & select.EPOLLERR and fd == stream.writing:
                stream.close_writing()
            self._tell(task)
            self._watch(task)

    def look(self, now_us: int) -> list[Event]:
        """Return what is to be told."""
        held, self._held = self._held, []
        for order in held:
            self._start(*order)
        for task in self._all.values():
            if task.waiting is not None and task.waiting.until_us <= now_us:
                self._answer(task)
        told, self.events = self.events, []
        return told

    def next_due_us(self) -> int:
        """Return when `look` has something to do; 0: never."""
        due = [one.waiting.until_us for one in self._all.values() if one.waiting is not None]
        return min(due, default=0)

    def reap(self, pid: int, status: int) -> Attempt | None:
        """Note that a task has ended; None: it is none of ours."""
        task = self._by_pid.pop(pid, None)
        if task is None:
            return None
        self._reach.drop_leader(pid)
        self._unwatch(task)
        task.end(status)
        self._tell(task)
        return task.attempt

    def ended_parts(self) -> list[Attempt]:
        """Return the parts that are being ended and have no task left, each once."""
        if not self.parts:
            return []
        busy = {task.attempt.key for task in self._by_pid.values()}
        found = [
            part
            for key, part in self.parts.items()
            if part.state == RUNNING and part.step and key not in busy
        ]
        for part in found:
            del self.parts[part.key]
        return found

    def drop(self, key: Key) -> None:
        """Forget the tasks of a part of which nothing is left."""
        self.parts.pop(key, None)
        for place in [place for place in self._all if place[0] == key]:
            self._forget(self._all[place])

    def leave_worker(self) -> None:
        """Answer nobody: whoever asked is gone."""
        self.events.clear()
        self._held.clear()
        for task in self._all.values():
            task.waiting = None

    def _start(self, number: int, key: Key, name: str, asked: dict[str, Any]) -> None:
        known = self._all.get((key, name))
        part = self.parts.get(key)
        if known is None and (part is None or part.step):
            text = "what the job had on this host has ended"
            self.events.append(_failure(number, OVER, text))
            return
        is_late = part is not None and (name in part.begun or (key, name) in self._never)
        if known is None and is_late:
            self.events.append(_failure(number, OVER, BEGUN))
            return
        if known is None and part is not None and part.stands_still:
            self._held.append((number, key, name, asked))
            return
        if known is None and part is not None:
            _note_task(part, name)
            try:
                known = self._make(part, name, asked)
            except OSError as error:
                del part.begun[name]  # nothing has run
                text = f"cannot start {' '.join(asked['argv'][:1])}: {error.strerror or error}"
                if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR):
                    text = f"cannot enter the working directory {asked['cwd']}: {error.strerror}"
                self.events.append(_failure(number, REFUSED, text))
                return
        if known is not None:
            self.events.append(known.told(number, 0, 0, 0))

    def _note_end(self, key: Key, name: str) -> None:
        """Remember that a task is wanted no more which is not here: it may still be on its way."""
        if key in self.parts:
            _note_task(self.parts[key], name)
            return
        self._never[key, name] = None
        if len(self._never) > BEGUN_MAX:
            del self._never[next(iter(self._never))]

    def _make(self, part: Attempt, name: str, asked: dict[str, Any]) -> Task:
        """Start a task.

        Raises:
            OSError: It cannot be started.
        """
        near: list[int] = []
        far: list[int] = []
        try:
            source = self._null
            writing = -1
            if asked["has_input"]:
                source, writing = _pipe(part, far, near, is_input=True)
            sink, reading = _pipe(part, far, near, is_input=False)
            complaints, complaining = _pipe(part, far, near, is_input=False)
            pid = self._spawn(part, asked, (source, sink, complaints))
        except OSError:
            for fd in near:
                os.close(fd)
            raise
        finally:
            for fd in far:
                os.close(fd)
        stop = self._stop
        out = Terminal(part.key, reading, writing, is_tty=False, now_us=0, unwatch=stop)
        err = Terminal(part.key, complaining, -1, is_tty=False, now_us=0, unwatch=stop)
        task = Task(part, name, out, err)
        task.pid = pid
        self._all[part.key, name] = self._by_pid[pid] = task
        self._reach.add_leader(pid, part)
        self._watch(task)
        return task

    def _spawn(self, part: Attempt, asked: dict[str, Any], fds: tuple[int, int, int]) -> int:
        if "\0" in asked["cwd"]:
            raise FileNotFoundError(errno.ENOENT, "a path holds no NUL character")
        env = encode_env(asked["env"])
        env[MARK.encode()] = part.mark.encode()
        env[b"XCE_JOB_HOST_DIR"] = os.fsencode(f"{part.path}/{rundir.JOB}")
        argv: list[str | bytes] = [SHELL, "-c", _RUN, *map(os.fsencode, asked["argv"])]
        umask = os.umask(asked["umask"] & 0o777)
        try:
            with As(part.ids):
                os.chdir(os.fsencode(asked["cwd"]))
            bound = bound_of(asked.get("binding"))
            return self._starter.spawn_beside(part, argv, env, fds, bound)
        finally:
            os.umask(umask)
            os.chdir("/")

    def _read(
        self, task: Task, now_us: int, number: int, out_from: int, err_from: int, limit: int,
        wait_us: int,
    ) -> None:  # fmt: skip
        task.out.note_read(out_from)
        task.err.note_read(err_from)
        self._answer(task)
        task.waiting = _Waiting(
            number, out_from, err_from, limit, now_us + min(wait_us, WAIT_US_MAX)
        )
        self._tell(task)
        self._watch(task)

    def _tell(self, task: Task) -> None:
        waiting = task.waiting
        if waiting is not None and task.has_news(waiting.out_from, waiting.err_from):
            self._answer(task)

    def _answer(self, task: Task) -> None:
        waiting, task.waiting = task.waiting, None
        if waiting is not None:
            self.events.append(
                task.told(waiting.number, waiting.out_from, waiting.err_from, waiting.limit)
            )

    def _finish(self, task: Task) -> None:
        """Kill a task that runs; forget one that is over."""
        if task.is_over:
            self._forget(task)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(task.pid, signal.SIGKILL)

    def _forget(self, task: Task) -> None:
        self._unwatch(task)
        self._answer(task)
        task.out.lose()
        task.err.lose()
        self._by_pid.pop(task.pid, None)
        del self._all[task.attempt.key, task.name]

    def _watch(self, task: Task) -> None:
        """Watch the ends of a task's streams for what is of use now."""
        wanted: dict[int, tuple[Terminal, int]] = {}
        for stream in (task.out, task.err):
            reads, writes = stream.wanted()
            if stream.reading >= 0 and reads:
                wanted[stream.reading] = (stream, reads)
            if stream.writing >= 0 and writes:
                wanted[stream.writing] = (stream, writes)
        for fd, (owner, _, mask) in list(self._watched.items()):
            if owner is task and wanted.get(fd, (None, 0))[1] != mask:
                self._stop(fd)
        for fd, (stream, mask) in wanted.items():
            if fd not in self._watched:
                self.epoll.register(fd, mask)
                self._watched[fd] = (task, stream, mask)

    def _unwatch(self, task: Task) -> None:
        for fd, (owner, _, _) in list(self._watched.items()):
            if owner is task:
                self._stop(fd)

    def _stop(self, fd: int) -> None:
        """Watch an end no more, before it is closed (see `Terminals`)."""
        if self._watched.pop(fd, None) is not None:
            self.epoll.unregister(fd)


def _note_task(part: Attempt, name: str) -> None:
    if name not in part.begun:
        rundir.note(part.path, ["task", name])
        part.note_task(name)


def _pipe(part: Attempt, far: list[int], near: list[int], *, is_input: bool) -> tuple[int, int]:
    """Return the task's end of a new pipe and ours; the job's user may open it by name."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    theirs, ours = (reading, writing) if is_input else (writing, reading)
    far.append(theirs)
    near.append(ours)
    if part.ids.uid != os.geteuid():
        os.fchown(theirs, part.ids.uid, part.ids.gid)
    os.set_blocking(ours, False)
    return theirs, ours


def _failure(number: int, fault: int, text: str) -> Event:
    return ["task", number, fault, text, 0, 0, "", 0, "", 0, fault == 0, 0]
