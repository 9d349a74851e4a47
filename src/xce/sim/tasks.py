"""Remote tasks of a world below the worker: processes in parts, and what a shepherd knows of them.

A task's command says how long it runs and how it ends, as that of a job does.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from xce.model.ids import Micros
from xce.model.task import (
    EndTask,
    ReadTask,
    SignalTask,
    StartTask,
    TaskFault,
    TaskOrder,
    TaskSeen,
)
from xce.net.message import TaskPiece
from xce.sim.loop import Loop, Process
from xce.sim.task_books import TaskBooks
from xce.worker.action import Key

TASK_CPU_US: Final = 7
"""What each task uses, so that it is seen in the end how many were counted."""
_KILL: Final = 9
_ENDING: Final = frozenset({2, 15})
Answer: TypeAlias = Callable[[TaskPiece], object]


class SimTask:
    """One process of a part."""

    def __init__(self, loop: Loop, name: str, span_us: Micros, code: int) -> None:
        self.name = name
        self.is_over = False
        self.code = code
        self.on_end: Callable[[], object] = lambda: None
        self._loop = loop
        self._left_us = span_us
        self._since_us = loop.now_us
        self._is_stopped = False
        self._life = 0
        self._plan()

    def _plan(self) -> None:
        self._life += 1
        self._since_us = self._loop.now_us
        self._loop.after(self._left_us, self._run_out, self._life)

    def _run_out(self, life: int) -> None:
        if life == self._life and not self.is_over:
            self.end(self.code)

    def end(self, code: int) -> None:
        """Let it be gone."""
        if not self.is_over:
            self.is_over, self.code = True, code
            self.on_end()

    def signal(self, number: int) -> None:
        """Send it a signal; while it is stopped only KILL ends it."""
        if number == _KILL or (number in _ENDING and not self._is_stopped):
            self.end(128 + number)

    def suspend(self, *, suspended: bool) -> None:
        """Stop it, or let it go on."""
        if suspended and not self._is_stopped:
            self._left_us -= self._loop.now_us - self._since_us
            self._life += 1
        elif self._is_stopped and not suspended:
            self._plan()
        self._is_stopped = suspended


class HostTasks:
    """All tasks on a host, which outlive its shepherd and its worker.

    Args:
        loop: The world's.
        host: Where they run.
        books: Learn of each.
    """

    def __init__(self, loop: Loop, host: str, books: TaskBooks) -> None:
        self.books = books
        self.on_end: Callable[[Key], object] = lambda _: None
        """Called when a task of a part has ended."""
        self._loop = loop
        self._host = host
        self._live: dict[Key, list[SimTask]] = {}

    def start(self, key: Key, order: StartTask) -> SimTask:
        """Start a process: its command line is ``run MICROS CODE``."""
        _, micros, code = order.argv
        self.books.note_task(self._host, key, order.name)
        task = SimTask(self._loop, order.name, int(micros), int(code))
        self._live.setdefault(key, []).append(task)
        task.on_end = lambda: self._note_end(key, task)
        return task

    def _note_end(self, key: Key, task: SimTask) -> None:
        self._live[key].remove(task)
        if not self._live[key]:
            del self._live[key]
        self.books.note_task_gone(self._host, key, task.name)
        self.on_end(key)

    def has_any(self, key: Key) -> bool:
        """Return whether a part has processes."""
        return key in self._live

    def signal(self, key: Key, number: int) -> None:
        """Send a signal to everything of a part."""
        for task in list(self._live.get(key, ())):
            task.signal(number)

    def suspend(self, key: Key, *, suspended: bool) -> None:
        """Stop everything of a part, or let it go on."""
        for task in self._live.get(key, ()):
            task.suspend(suspended=suspended)

    def lose_all(self) -> None:
        """Lose every process with the host."""
        for key in list(self._live):
            self.signal(key, _KILL)


class KnownTasks:
    """The tasks that one life of a shepherd knows: those of an earlier one are lost to it.

    Args:
        shepherd: Whose they are.
        tasks: The host's.
    """

    def __init__(self, shepherd: Process, tasks: HostTasks) -> None:
        self._shepherd = shepherd
        self._tasks = tasks
        self._known: dict[tuple[Key, str], SimTask] = {}
        self._waiting: dict[SimTask, list[Answer]] = {}
        self._never: set[tuple[Key, str]] = set()

    def serve(self, key: Key, order: TaskOrder, answer: Answer, begun: set[str] | None) -> bool:
        """Carry out an order about a task.

        Args:
            key: Its attempt.
            order: What to do.
            answer: Hears of it, now or later.
            begun: Names that no other task of the part may have; None: it is not there, or may have
                no more tasks.

        Returns:
            Whether a task was started.
        """
        if isinstance(order, StartTask):
            return self._start(key, order, answer, begun)
        assert isinstance(order, ReadTask | SignalTask | EndTask)
        task = self._known.get((key, order.name))
        if task is None:
            fault = TaskFault.NONE if isinstance(order, EndTask) else TaskFault.OVER
            if isinstance(order, EndTask) and begun is not None:
                begun.add(order.name)
            elif isinstance(order, EndTask):
                self._never.add((key, order.name))
            answer(TaskPiece(0, fault, "the host does not know this task (any more)"))
            return False
        match order:
            case ReadTask(wait_us=wait_us) if not task.is_over:
                self._waiting.setdefault(task, []).append(answer)
                self._shepherd.after(wait_us, self._answer, task)
                return False
            case SignalTask(signal=number):
                task.signal(number)
            case EndTask() if task.is_over:
                del self._known[key, order.name]
            case EndTask():
                task.signal(_KILL)
        answer(_seen(task))
        return False

    def _start(self, key: Key, order: StartTask, answer: Answer, begun: set[str] | None) -> bool:
        task = self._known.get((key, order.name))
        is_new = task is None
        is_late = begun is None or order.name in begun or (key, order.name) in self._never
        if task is None and is_late:
            answer(TaskPiece(0, TaskFault.OVER, "what the job had on this host has ended"))
            return False
        if task is None and begun is not None:
            begun.add(order.name)
            task = self._known[key, order.name] = self._tasks.start(key, order)
        assert task is not None
        answer(_seen(task))
        return is_new

    def look(self) -> None:
        """Answer those who wait for tasks that have ended."""
        for task in [task for task in self._waiting if task.is_over]:
            self._answer(task)

    def drop(self, key: Key) -> None:
        """Forget the tasks of a part of which nothing is left."""
        for place in [place for place in self._known if place[0] == key]:
            self._answer(self._known.pop(place))

    def _answer(self, task: SimTask) -> None:
        for answer in self._waiting.pop(task, ()):
            answer(_seen(task))


def _seen(task: SimTask) -> TaskPiece:
    return TaskPiece(0, task=TaskSeen(pid=1, is_over=task.is_over, code=task.code))
