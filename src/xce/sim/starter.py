"""Processes of a world's jobs that start tasks on other hosts, and how they ask for that.

They outlive the worker that they ask, and come again to the next one for the same tasks.
"""

from collections.abc import Callable
from random import Random
from typing import Final, Protocol, TypeAlias

from xce.model.effect import Launch
from xce.model.ids import Index, Micros
from xce.sim.loop import Loop, call_apart
from xce.worker.action import Key

LOST_CODE: Final = 126
LEAD: Final = "lead"
"""Begins the command line of a job that starts tasks: ``lead WAY MICROS CODE TASK_MICROS
TASK_CODE``; ``WAY`` is ``wait`` (its end is that of its tasks) or ``leave``."""


class Told:
    """What is told of a task, by name."""

    STARTED: Final = "started"
    OVER: Final = "over"
    FAILED: Final = "failed"


_EVENTS: Final = {
    Told.STARTED: "task-started", Told.OVER: "task-over", Told.FAILED: "task-lost",
}  # fmt: skip
Hear: TypeAlias = Callable[[str, int], object]
"""Hears what is told of a task, and its exit code."""


class OwnTask:
    """A task that a process wants to have on another host."""

    def __init__(self, name: str, host: str, argv: tuple[bytes, ...], hear: Hear) -> None:
        self.name, self.host, self.argv = name, host, argv
        self.is_started = self.is_over = False
        self._hear = hear

    def tell(self, what: str, code: int = 0) -> None:
        """Learn of it."""
        if self.is_over:
            return
        self.is_started = True
        self.is_over = what != Told.STARTED
        self._hear(what, code)


class Desk(Protocol):
    """Where a worker is asked for tasks."""

    def begin(self, key: Key, task: OwnTask) -> None:
        """Start a task, or follow one that was started before."""
        ...

    def signal(self, key: Key, task: OwnTask, number: int) -> None:
        """Send a signal to a task."""
        ...

    def leave(self, key: Key, tasks: list[OwnTask]) -> None:
        """Learn that who asked is gone: its tasks are killed."""
        ...


class Starter:
    """One process that starts tasks.

    Args:
        key: Of its attempt.
        desk: Returns where it asks; None: there is no worker now.
        note: Is told what happens to tasks, by a word of `xce.sim.coverage.STEP_EVENTS`.
    """

    def __init__(
        self, key: Key, desk: Callable[[], Desk | None], note: Callable[[str], object]
    ) -> None:
        self._note = note
        self._key = key
        self._desk = desk
        self._tasks: list[OwnTask] = []
        self._is_alive = True

    def start(self, host: str, span_us: Micros, code: int, hear: Hear) -> OwnTask:
        """Have a task on another host."""

        def told(what: str, code: int) -> None:
            self._note(_EVENTS[what])
            if self._is_alive:
                hear(what, code)

        argv = (b"run", str(span_us).encode(), str(code).encode())
        task = OwnTask(f"t{len(self._tasks)}", host, argv, told)
        self._tasks.append(task)
        desk = self._desk()
        if desk is not None:
            call_apart(desk.begin, self._key, task)
        return task

    def signal(self, task: OwnTask, number: int) -> None:
        """Send a signal to a task, if somebody is there to do it."""
        desk = self._desk()
        if desk is not None and not task.is_over:
            call_apart(desk.signal, self._key, task, number)

    def come_again(self) -> None:
        """Ask a worker that is new for what is not over."""
        desk = self._desk()
        for task in self._tasks:
            if desk is not None and not task.is_over:
                call_apart(desk.begin, self._key, task)

    def leave(self) -> None:
        """Be gone."""
        self._is_alive = False
        desk = self._desk()
        if desk is not None:
            call_apart(desk.leave, self._key, [task for task in self._tasks if not task.is_over])


class Leader:
    """The script of a job that starts a task on each of its other hosts, and asks for another's.

    Args:
        loop: The world's.
        launch: Of the job.
        index: Which element.
        others: Hosts of the cluster.
        starter: Starts tasks.
        end: Called with the exit code when its tasks are over, where it waits for them.
    """

    def __init__(
        self, loop: Loop, launch: Launch, index: Index, others: list[str], starter: Starter,
        end: Callable[[int], object],
    ) -> None:  # fmt: skip
        _, way, _, _, span, code, *_ = launch.spec.command.split()
        first, *rest = dict.fromkeys(host for host, _ in launch.hosts)
        self._left = len(rest)
        self._code = 0
        self._end = end if way == "wait" else lambda _: None
        dice = Random(launch.job * 1_000 + index)
        for host in rest:
            starter.start(host, int(span) // 2 + dice.randrange(int(span)), int(code), self._hear)
        strangers = [host for host in others if host != first and host not in rest]
        if strangers and dice.random() < 0.3:
            starter.start(dice.choice(strangers), int(span), 0, _demand_refused)
        if not rest:
            loop.after(int(span), self._hear, Told.OVER, int(code))

    def _hear(self, what: str, code: int) -> None:
        if what == Told.STARTED:
            return
        self._left -= 1
        self._code = max(self._code, code if what == Told.OVER else LOST_CODE)
        if self._left <= 0:
            self._end(self._code)


class StrangerError(AssertionError):
    """A job was given a task on a host that it has not got."""


def _demand_refused(what: str, code: int) -> None:
    if what != Told.FAILED:
        raise StrangerError(f"a task on a host that the job has not got is {what}")
