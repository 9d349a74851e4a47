"""Processes of a step that all run on this machine, whichever host they are of."""

import contextlib
import os
import selectors
import subprocess
from typing import Any, NamedTuple


class Event(NamedTuple):
    task: "LocalTask"
    kind: str
    content: bytes = b""
    code: int = 0


class LocalTask:
    def __init__(self, host: str, process: subprocess.Popen[bytes] | None) -> None:
        self.host, self.process = host, process
        self.open = 2


class LocalTasks:
    """Starts processes here; hosts in ``away`` cannot be reached."""

    def __init__(self, *, away: tuple[str, ...] = ()) -> None:
        self.away = away
        self.selector = selectors.EpollSelector()
        self.early: list[Event] = []
        self.all: list[LocalTask] = []
        self._read, self._write = os.pipe()
        self.selector.register(self._read, selectors.EVENT_READ, None)

    def start(
        self, host: str, argv: list[str], *, env: Any, cwd: str, has_input: bool
    ) -> LocalTask:
        if host in self.away:
            task = LocalTask(host, None)
            self.early.append(Event(task, "failed", b"no route to host", 255))
            self.all.append(task)
            return task
        try:
            process = subprocess.Popen(
                argv, env=dict(env), cwd=cwd, process_group=0, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            task = LocalTask(host, None)
            self.early.append(Event(task, "failed", f"cannot start: {error}".encode(), 255))
        else:
            task = LocalTask(host, process)
            self.early.append(Event(task, "started"))
            for kind, pipe in (("out", process.stdout), ("err", process.stderr)):
                self.selector.register(pipe, selectors.EVENT_READ, (task, kind))
        self.all.append(task)
        os.write(self._write, b"x")
        return task

    def signal(self, task: LocalTask, number: int) -> None:
        if task.process is not None and task.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(task.process.pid, number)

    def write(self, task: LocalTask, content: bytes) -> None:
        if task.process is not None and task.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                task.process.stdin.write(content)
                task.process.stdin.flush()

    def end_input(self, task: LocalTask) -> None:
        if task.process is not None and task.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                task.process.stdin.close()

    def fileno(self) -> int:
        return self.selector.fileno()

    def serve(self, timeout_s: float | None) -> list[Event]:
        found, self.early = self.early, []
        for key, _ in self.selector.select(0 if found else timeout_s):
            if key.data is None:
                os.read(self._read, 4096)
                continue
            task, kind = key.data
            content = os.read(key.fd, 65_536)
            if content:
                found.append(Event(task, kind, content))
                continue
            self.selector.unregister(key.fileobj)
            key.fileobj.close()
            task.open -= 1
            if not task.open:
                code = task.process.wait()
                found.append(Event(task, "over", b"", 128 - code if code < 0 else code))
        return found

    def close(self) -> None:
        for task in self.all:
            self.signal(task, 9)
            self.end_input(task)
            if task.process is not None:
                task.process.wait()
                for pipe in (task.process.stdout, task.process.stderr):
                    pipe.close()
        self.selector.close()
        os.close(self._read)
        os.close(self._write)
