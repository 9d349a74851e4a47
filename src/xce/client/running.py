"""Runs tasks to their end: their output becomes ours, signals go to them, the worst code counts."""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from xce.client.tasks import ERR, FAILED, OUT, OVER, Task, TaskEvent, Tasks

PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that go to the tasks. Others reach them anyway when they are meant for the job."""
OUTLIVED: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH)
KILL_S: Final = 10.0
"""So long after the first that failed the others are killed."""
_LOOK_S: Final = 0.25
_PIECE: Final = 32 * 1024
_UNFED_MAX: Final = 256 * 1024


class Run:
    """A set of tasks that are waited for together.

    Args:
        tasks: Where they were started.
        own: Which they are.
        program: Our own name, for people.
        fails_together: Whether the others are ended when one has failed.
        labels: What each task's lines begin with; empty: they are passed on as they come.
    """

    def __init__(
        self, tasks: Tasks, own: Sequence[Task], *, program: str, fails_together: bool = False,
        labels: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._tasks = tasks
        self._left = {task.name: task for task in own}
        self._program = program
        self._fails_together = fails_together
        self._labels = {task.name: label.encode() for task, label in zip(own, labels, strict=False)}
        self._lines: dict[tuple[str, str], bytearray] = {}
        self._reader = own[0] if len(own) == 1 and own[0].has_input else None
        self._signals: list[int] = []
        self._kill_at = 0.0
        self.code = 0

    def wait(self) -> int:
        """Return the highest exit code when all are over; where they fail together, the first."""
        with _signals_to(self._signals):
            while self._left:
                self._pass_signals_on()
                self._read_input()
                for event in self._tasks.serve(_LOOK_S if not self._left else self._patience()):
                    self._take(event)
        return self.code

    def _patience(self) -> float:
        return 0.02 if self._reader is not None else _LOOK_S

    def _pass_signals_on(self) -> None:
        numbers, self._signals[:] = list(self._signals), []
        for number in numbers:
            for task in self._left.values():
                self._tasks.signal(task, number)
        if self._kill_at and time.monotonic() >= self._kill_at:
            self._kill_at = time.monotonic() + KILL_S
            for task in self._left.values():
                self._tasks.signal(task, signal.SIGKILL)

    def _read_input(self) -> None:
        """Hand our own input on to the one task that has it."""
        task = self._reader
        if task is None or len(task.unfed) > _UNFED_MAX:
            return
        while select.select([0], [], [], 0)[0]:
            content = os.read(0, _PIECE)
            if not content:
                self._tasks.end_input(task)
                self._reader = None
                return
            self._tasks.write(task, content)
            if len(task.unfed) > _UNFED_MAX:
                return

    def _take(self, event: TaskEvent) -> None:
        task = event.task
        if event.kind in (OUT, ERR):
            self._write(task, event.kind, event.content)
        elif event.kind in (OVER, FAILED):
            self._left.pop(task.name, None)
            for kind in (OUT, ERR):
                rest = self._lines.pop((task.name, kind), None)
                if rest:
                    _put(kind, self._labels[task.name] + rest + b"\n")
            self._note_end(event)

    def _note_end(self, event: TaskEvent) -> None:
        if event.kind == FAILED:
            text = event.content.decode(errors="replace")
            sys.stderr.write(f"{self._program}: {text}\n")
        if not self._kill_at:  # what others end with that were ended says nothing
            self.code = max(self.code, event.code)
        if event.code and self._fails_together and self._left and not self._kill_at:
            self._kill_at = time.monotonic() + KILL_S
            for task in self._left.values():
                self._tasks.signal(task, signal.SIGTERM)

    def _write(self, task: Task, kind: str, content: bytes) -> None:
        label = self._labels.get(task.name)
        if label is None:
            _put(kind, content)
            return
        kept = self._lines.setdefault((task.name, kind), bytearray())
        kept += content
        *whole, rest = bytes(kept).split(b"\n")
        kept[:] = rest
        _put(kind, b"".join(label + line + b"\n" for line in whole))


def _put(kind: str, content: bytes) -> None:
    """Write what a task wrote; nobody may be there to read it."""
    stream: TextIO = sys.stdout if kind == OUT else sys.stderr
    with contextlib.suppress(BrokenPipeError):
        stream.buffer.write(content)
        stream.buffer.flush()


@contextlib.contextmanager
def _signals_to(numbers: list[int]) -> Iterator[None]:
    """Collect signals instead of ending by them."""

    def note(number: int, _: object) -> None:
        if number in PASSED_ON:
            numbers.append(number)

    before = {number: signal.signal(number, note) for number in (*PASSED_ON, *OUTLIVED)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
