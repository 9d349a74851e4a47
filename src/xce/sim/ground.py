"""A host of a world below its shepherd: processes and run directories.

Processes live on when the shepherd or the worker is killed, and die with the host. A run directory
outlives both, and mostly a reboot.
"""

from abc import ABC, abstractmethod
from random import Random
from typing import Final, Protocol

import msgspec

from xce.model.effect import Launch
from xce.model.ids import SECOND_US, Micros
from xce.model.job import EndCause
from xce.sim.coverage import Strikes
from xce.sim.faults import Faults
from xce.sim.loop import Loop, Process
from xce.sim.starter import LEAD, Desk, Leader, Starter
from xce.sim.step import SimStep
from xce.sim.tasks import HostTasks
from xce.worker import action as a
from xce.worker.shepherd.still import note_still

OWN_CPU_US: Final = 1_500
"""What each attempt uses on its first host."""
_INT, _KILL, _TERM = 2, 9, 15


class Oracle(Protocol):
    """Whoever watches what really happens."""

    def note_process(self, host: str, boot: int, key: a.Key, launch: Launch) -> None:
        """Learn that a process was started."""
        ...

    def note_stopped(self, key: a.Key, *, suspended: bool) -> None:
        """Learn that a process is to be suspended, or is not any more."""
        ...

    def note_frozen(self, key: a.Key, *, frozen: bool) -> None:
        """Learn that a process is to stand still for its lease, or is not any more."""
        ...

    def note_going(self, key: a.Key) -> None:
        """Learn that a process that stood still goes on."""
        ...

    def note_gone(self, host: str, key: a.Key, exit_code: int, *, is_known: bool) -> None:
        """Learn that nothing of an attempt is left, and what its exit status was."""
        ...


class RunDirectory(msgspec.Struct):
    """What is on disk of an attempt, and how its process is."""

    key: a.Key
    launch: Launch
    boot: int
    pid: int
    started_us: Micros
    left_us: Micros
    """How much longer it would run by itself."""
    exit_code: int
    ignores: frozenset[int]
    resumed_us: Micros = 0
    """Since when it runs without a stop."""
    suspended_us: Micros = 0
    frozen_us: Micros = 0
    stopped_us: Micros = 0
    number: int = 0
    cause: int = 0
    step: int = 0
    step_us: Micros = 0
    life: int = 0
    """Counts stops and goes, so that an old plan for its end is not followed."""
    ended_us: Micros = 0
    code: int = 0
    signal: int = 0
    host_fault: bool = False
    detail: str = ""
    is_over: bool = False
    reported: bool = False
    signals: list[int] = []
    limits: tuple[int, ...] = ()
    is_part: bool = False
    """It has tasks that another host leads, and no process of its own."""
    parts: list[str] = []
    """Other hosts that may have a part of it."""
    tasks: int = 0
    """Of a part: how many were started."""
    begun: set[str] = set()
    """Of a part: the names of tasks that are not to be started (again)."""
    saved_us: Micros = 0
    outcome: a.Outcome = a.Outcome()

    @property
    def stands_still(self) -> bool:
        """Whether it is suspended, or frozen for its lease."""
        return bool(self.suspended_us or self.frozen_us)


class Minder(Process, ABC):
    """A shepherd, as its host knows it."""

    @abstractmethod
    def kill(self) -> None:
        """Die at once."""

    @abstractmethod
    def tell_end(self, one: RunDirectory) -> None:
        """Tell that nothing is left of an attempt."""

    @abstractmethod
    def note_task_end(self, key: a.Key) -> None:
        """Answer those who wait for a task that has ended."""


class Ground:
    """What survives the shepherd: the host's processes and its run directories.

    A command line says what its process does: ``run MICROS EXIT_CODE [ignore SIGNAL...]``, or
    that of `xce.sim.starter.LEAD`.
    """

    def __init__(
        self, loop: Loop, rng: Random, faults: Faults, oracle: Oracle, name: str, *, is_bad: bool,
        strikes: Strikes | None = None, tasks: HostTasks | None = None,
    ) -> None:  # fmt: skip
        self.loop = loop
        self.name = name
        self.boot = 1
        self.directories: dict[a.Key, RunDirectory] = {}
        self.leases: dict[a.Key, tuple[Micros, Micros]] = {}
        """When each is to be frozen, and killed, as the last shepherd knew."""
        self.shepherd: Minder | None = None
        self.faults = faults
        self._rng = rng
        self._oracle = oracle
        self._is_bad = is_bad
        self._strikes = strikes or Strikes(loop)
        self._pid = 100
        self._steps: dict[a.Key, SimStep] = {}
        """Of living attempts that run by roles."""
        self.tasks = tasks
        """Those of parts; None: no job of this world starts any."""
        self.others: list[str] = []
        """The hosts of the cluster."""
        self.desk: Desk | None = None
        """Where processes ask for tasks on other hosts; None: there is no worker."""
        self.starters: dict[a.Key, Starter] = {}
        """Of living attempts that start tasks."""
        if tasks is not None:
            tasks.on_end = self._look_at_part

    def start(self, launch: Launch, key: a.Key) -> RunDirectory:
        """Start a process, or fail to."""
        words = launch.spec.command.split()
        is_leader = words[0] == LEAD
        micros, code, *rest = words[2:4] if is_leader else words[1:]
        self._pid += 1
        one = RunDirectory(
            key, launch, self.boot, self._pid, self.loop.now_us,
            left_us=int(micros) * (1 + key[1] % 3), exit_code=int(code),
            ignores=frozenset(int(word) for word in rest[1:]), resumed_us=self.loop.now_us,
        )  # fmt: skip
        self.directories[key] = one
        if self._is_bad and self._rng.random() * 1000 < self.faults.bad_starts_permille:
            self._strikes.note("bad_starts_permille")
            one.is_over, one.host_fault, one.detail = True, True, "no space left on the host"
            one.pid, one.code, one.cause = 0, 1, EndCause.START_FAILED
            one.ended_us = self.loop.now_us
            return one
        self._oracle.note_process(self.name, self.boot, key, launch)
        if self.tasks is not None:
            self.tasks.books.note_process(self.name, key)
            self.starters[key] = Starter(key, lambda: self.desk, self._strikes.note_event)
        if launch.spec.runs_by_roles:
            self._start_step(one)
            return one
        if not is_leader or words[1] != "wait":
            self._plan_end(one)
        if is_leader:
            starter = self.starters[key]
            Leader(
                self.loop, launch, key[1], self.others, starter, lambda code: self._leave(one, code)
            )
        return one

    def _leave(self, one: RunDirectory, code: int) -> None:
        """Let a process end by itself, now or when it is not stopped any more."""
        if one.is_over or one.boot != self.boot:
            return
        if one.stands_still:
            self.loop.after(SECOND_US, self._leave, one, code)
        else:
            self._end(one, code, 0)

    def _start_step(self, one: RunDirectory) -> None:
        def end(code: int, detail: str) -> None:
            one.detail = detail
            self._end(one, code, 0)

        key, rng = one.key, Random(self._rng.random())
        starter = self.starters.get(key)
        self._steps[key] = SimStep(
            self.loop, rng, one.launch, key[1], end, starter, self._strikes.note_event
        )

    def _plan_end(self, one: RunDirectory) -> None:
        one.life += 1
        self.loop.after(one.left_us, self._run_out, one, one.life)

    def _run_out(self, one: RunDirectory, life: int) -> None:
        if one.life == life and not one.is_over and one.boot == self.boot:
            self._end(one, one.exit_code, 0)

    def _end(self, one: RunDirectory, code: int, signal: int) -> None:
        """Let the process be gone, with its status in the run directory or not."""
        self._drop_step(one)
        one.is_over, one.ended_us = True, self.loop.now_us
        one.code, one.signal = code, signal
        is_lost = self.shepherd is None and (
            signal == _KILL or self._rng.random() * 1000 < self.faults.lost_status_permille
        )
        if is_lost:
            self._strikes.note("lost_status_permille")
            one.code, one.signal = 1, 0
            one.cause = one.cause or EndCause.STATUS_LOST
            one.detail = "its shell and the shepherd were both killed"
        self._oracle.note_gone(self.name, one.key, code, is_known=not is_lost)
        if self.shepherd is not None:
            self.shepherd.tell_end(one)

    def _drop_step(self, one: RunDirectory) -> None:
        step = self._steps.pop(one.key, None)
        if step is not None:
            step.kill()
        starter = self.starters.pop(one.key, None)
        if starter is not None:
            starter.leave()

    # Parts.

    def open_part(self, launch: Launch, key: a.Key) -> None:
        """Have a place for tasks."""
        now_us = self.loop.now_us
        self.directories[key] = RunDirectory(
            key, launch, self.boot, 0, now_us, left_us=0, exit_code=0, ignores=frozenset(),
            resumed_us=now_us, is_part=True,
        )  # fmt: skip

    def look_at_part(self, one: RunDirectory) -> None:
        """Let a part be over that is being ended and has nothing left."""
        assert self.tasks is not None
        if one.step and not one.is_over and not self.tasks.has_any(one.key):
            one.is_over, one.ended_us = True, self.loop.now_us
            if self.shepherd is not None:
                self.shepherd.tell_end(one)

    def _look_at_part(self, key: a.Key) -> None:
        if self.shepherd is not None:
            self.shepherd.note_task_end(key)
        one = self.directories.get(key)
        if one is not None and one.is_part:
            self.look_at_part(one)

    def send_signal(self, one: RunDirectory, signal: int) -> None:
        """Send a signal to a living process; a stopped one dies of KILL only."""
        one.signals.append(signal)
        if one.is_part:
            assert self.tasks is not None
            self.tasks.signal(one.key, signal)
            self.look_at_part(one)
            return
        step = self._steps.get(one.key)
        if step is not None and signal in {_INT, _TERM}:
            if not one.stands_still:
                step.ask_to_end(signal)
            return
        if signal == _KILL or (
            signal in {_INT, _TERM} and signal not in one.ignores and not one.stands_still
        ):
            self._end(one, 128 + signal, signal)

    def be_still(self, one: RunDirectory, *, still: bool, by_lease: bool = False) -> None:
        """Stop a living process, or let it go on as far as nobody else wants it to stand still."""
        now_us, stood_still = self.loop.now_us, one.stands_still
        if one.is_part:
            assert self.tasks is not None
            note_still(one, now_us, still=still, by_lease=by_lease)
            self.tasks.suspend(one.key, suspended=one.stands_still)
            return
        if by_lease:
            self._oracle.note_frozen(one.key, frozen=still)
        else:
            self._oracle.note_stopped(one.key, suspended=still)
        note_still(one, now_us, still=still, by_lease=by_lease)
        step = self._steps.get(one.key)
        if step is not None:
            step.suspend(suspended=one.stands_still)
        if one.stands_still and not stood_still:
            one.left_us -= now_us - one.resumed_us
            one.life += 1
        elif stood_still and not one.stands_still:
            self._oracle.note_going(one.key)
            one.resumed_us = now_us
            if step is None and not one.launch.spec.command.startswith(f"{LEAD} wait"):
                self._plan_end(one)

    def reboot(self) -> None:
        """Lose every process, and some run directories that were not on the disk yet."""
        self.leases.clear()
        self.desk = None
        if self.tasks is not None:
            self.tasks.books.note_trouble(self.name)
            self.tasks.lose_all()
        for one in list(self.directories.values()):
            if not one.is_over and not one.is_part:
                self._drop_step(one)
                self._oracle.note_gone(self.name, one.key, 0, is_known=False)
            if self._rng.random() < 0.3:
                del self.directories[one.key]
                continue
            if not one.is_over:
                one.cause, one.code = EndCause.HOST_RESTARTED, 1
                one.detail = "the host was restarted while it ran"
            one.is_over = True
            one.started_us = one.ended_us = self.loop.now_us
            one.suspended_us = one.frozen_us = one.stopped_us = 0
        self.boot += 1
