"""One task of a step, and the counts of a role's tasks that its waits are about. Pure."""

import enum
from typing import Final

from xce.step.plan import (
    RESTART_ALWAYS,
    RESTART_NEVER,
    RolePlan,
    TaskPlan,
    Wait,
)

_BACK_OFF_DOUBLINGS: Final = 6
"""Further restarts do not wait longer."""


class Phase(enum.IntEnum):
    """The life of a task."""

    WAITING = 0
    STARTING = 1
    RUNNING = 2
    PAUSED = 3
    """Between two runs."""
    ENDING = 4
    """Told to end."""
    OVER = 5


class Result(enum.StrEnum):
    """How a task that is over has ended."""

    NONE = ""
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    """It was told to end, since nobody needs it any more."""
    SKIPPED = "skipped"
    """It never began."""


class Task:
    """A task, through all its runs."""

    __slots__ = (
        "begun_us", "code", "due_us", "failures", "fault", "index", "is_ready", "is_told", "phase",
        "plan", "result", "role", "run", "why",
    )  # fmt: skip

    def __init__(self, role: int, index: int, plan: TaskPlan) -> None:
        self.role, self.index, self.plan = role, index, plan
        self.phase = Phase.WAITING
        self.result = Result.NONE
        self.run = 0
        """Counts its starts."""
        self.begun_us = 0
        """Of its first run; 0: there was none."""
        self.is_ready = False
        """It is; of one that ended well: it was."""
        self.failures = 0
        """Probes that failed one behind the other."""
        self.fault = ""
        """Why it is told to end, where that is its own fault."""
        self.is_told = False
        """It has been sent TERM."""
        self.code = 0
        self.why = ""
        """What happened to it last, for people."""
        self.due_us = 0
        """When something is to be done about it; 0: nothing is."""

    @property
    def is_good(self) -> bool:
        """Whether who waits for it to be ready may begin."""
        if self.phase is Phase.OVER:
            return self.result is Result.DONE and self.is_ready
        return self.phase is Phase.RUNNING and self.is_ready


class RoleState:
    """A role: its tasks, counted."""

    def __init__(self, number: int, plan: RolePlan) -> None:
        self.plan = plan
        self.tasks = [Task(number, index, task) for index, task in enumerate(plan.tasks)]
        self.is_open = False
        """Its tasks have been told to begin."""
        self.is_stopped = False
        """Nobody needs it any more."""
        self.over = self.done = self.good = self.begun = 0
        self.begun_us = 0
        """When the last of its tasks first began."""

    @property
    def is_over(self) -> bool:
        """Whether no task of it will do anything any more."""
        return self.over == len(self.tasks)

    @property
    def is_sidecar(self) -> bool:
        """Whether it ends with its parents."""
        return bool(self.plan.parents)

    def move(self, task: Task, phase: Phase, result: Result = Result.NONE) -> None:
        """Let a task be in another phase."""
        self._count(task, -1)
        task.phase, task.result = phase, result
        self._count(task, 1)

    def note_ready(self, task: Task, *, is_ready: bool) -> None:
        """Let a task be ready or not."""
        self._count(task, -1)
        task.is_ready = is_ready
        self._count(task, 1)

    def note_begun(self, task: Task, now_us: int) -> None:
        """Note the first run of a task."""
        if not task.begun_us:
            task.begun_us = now_us
            self.begun += 1
            self.begun_us = max(self.begun_us, now_us)

    def meets(self, until: str) -> bool:
        """Whether what others wait for has happened."""
        match until:
            case "succeeded":
                return self.done == len(self.tasks)
            case "ended":
                return self.is_over
            case "ready":
                return self.good == len(self.tasks)
            case _:
                return all(task.is_good or task.phase is Phase.OVER for task in self.tasks)

    def misses(self, until: str) -> Task | None:
        """Return a task through which what others wait for cannot happen any more."""
        if until not in ("succeeded", "ready") or not self.over:
            return None
        for task in self.tasks:
            if task.phase is Phase.OVER and not (
                task.is_good if until == "ready" else task.result is Result.DONE
            ):
                return task
        return None

    def late_us(self, wait: Wait) -> int:
        """Return when a wait for this role is over though nothing happened; 0: not now."""
        is_timed = wait.until == "ready" and bool(wait.timeout_us)
        have_begun = self.begun == len(self.tasks)
        return self.begun_us + wait.timeout_us if is_timed and have_begun else 0

    def may_restart(self, task: Task, *, is_good: bool) -> bool:
        """Whether a task that has ended runs again."""
        policy = self.plan.restart
        if policy == RESTART_NEVER or (is_good and policy != RESTART_ALWAYS):
            return False
        return task.run - 1 < self.plan.restarts_max

    def back_off_us(self, task: Task) -> int:
        """Return how long a task waits before it runs again."""
        return self.plan.back_off_us << min(task.run - 1, _BACK_OFF_DOUBLINGS)

    def _count(self, task: Task, by: int) -> None:
        self.over += by * (task.phase is Phase.OVER)
        self.done += by * (task.result is Result.DONE)
        self.good += by * task.is_good
