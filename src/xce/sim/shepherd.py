"""A host of a world below its worker: processes, run directories, and the shepherd that has them.

Processes live on when the shepherd or the worker is killed, and die with the host. A run directory
outlives both, and mostly a reboot.
"""

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

import msgspec

from xce.model.effect import Launch
from xce.model.ids import SECOND_US, Micros
from xce.model.job import EndCause
from xce.model.task import TaskOrder
from xce.sim.coverage import Strikes
from xce.sim.faults import Faults
from xce.sim.loop import Loop, Process
from xce.sim.starter import LEAD, Desk, Leader, Starter
from xce.sim.step import SimStep
from xce.sim.tasks import TASK_CPU_US, Answer, HostTasks, KnownTasks
from xce.worker import action as a
from xce.worker.core import Listing
from xce.worker.ending import STEP_KILL

OWN_CPU_US: Final = 1_500
"""What each attempt uses on its first host."""
LOCAL_US: Final = 300
"""Longest way between a worker and its shepherd."""
_INT, _KILL, _TERM = 2, 9, 15


class Oracle(Protocol):
    """Whoever watches what really happens."""

    def note_process(self, host: str, boot: int, key: a.Key, launch: Launch) -> None:
        """Learn that a process was started."""
        ...

    def note_stopped(self, key: a.Key, *, suspended: bool) -> None:
        """Learn that a process was suspended or goes on."""
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
        self.shepherd: Shepherd | None = None
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
        if one.suspended_us:
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
            if not one.suspended_us:
                step.ask_to_end(signal)
            return
        if signal == _KILL or (
            signal in {_INT, _TERM} and signal not in one.ignores and not one.suspended_us
        ):
            self._end(one, 128 + signal, signal)

    def suspend(self, one: RunDirectory, *, suspended: bool) -> None:
        """Stop a living process, or let it go on."""
        now_us = self.loop.now_us
        if one.is_part:
            assert self.tasks is not None
            self.tasks.suspend(one.key, suspended=suspended)
            one.suspended_us = now_us if suspended else 0
            return
        self._oracle.note_stopped(one.key, suspended=suspended)
        step = self._steps.get(one.key)
        if step is not None:
            step.suspend(suspended=suspended)
        if suspended and not one.suspended_us:
            one.suspended_us = now_us
            one.left_us -= now_us - one.resumed_us
            one.life += 1
        elif not suspended and one.suspended_us:
            one.stopped_us += now_us - one.suspended_us
            one.suspended_us, one.resumed_us = 0, now_us
            if step is None and not one.launch.spec.command.startswith(f"{LEAD} wait"):
                self._plan_end(one)

    def reboot(self) -> None:
        """Lose every process, and some run directories that were not on the disk yet."""
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
            one.suspended_us = one.stopped_us = 0
        self.boot += 1


Hear = Callable[[list[a.News | a.Led]], object]


class Shepherd(Process):
    """One life of the shepherd. It tells one worker."""

    def __init__(self, ground: Ground, rng: Random) -> None:
        super().__init__(ground.loop)
        self.ground = ground
        ground.shepherd = self
        self._rng = rng
        self._hear: Hear | None = None
        self._arrives_us = 0
        self._leases: dict[a.Key, Micros] = {}
        tasks = ground.tasks
        self._tasks = KnownTasks(self, tasks) if tasks is not None else None
        for one in ground.directories.values() if tasks is not None else ():
            if one.is_part and not one.is_over and tasks is not None:
                # Their streams went with the last shepherd.
                tasks.signal(one.key, _KILL)

    def kill(self) -> None:
        """Die at once; what it was about to tell is not told."""
        self.is_alive = False
        if self.ground.tasks is not None:
            self.ground.tasks.books.note_trouble(self.ground.name)
        self._hear = None
        self.ground.shepherd = None

    def attach(self, hear: Hear) -> list[Listing]:
        """Tell a worker what there is, and from now on what happens."""
        self._hear = hear
        return [
            Listing(_present(one), one.launch, _ended(one) if one.is_over else None)
            for one in self.ground.directories.values()
        ]

    def detach(self) -> None:
        """Note that the worker is gone."""
        self._hear = None

    def _tell(self, news: a.News | a.Led) -> None:
        hear = self._hear
        if hear is None:
            return
        at_us = max(self._arrives_us, self.loop.now_us + self._rng.randrange(LOCAL_US))
        self._arrives_us = at_us

        def arrive() -> None:
            if self._hear is hear:
                hear([news])

        self.after(at_us - self.loop.now_us, arrive)

    def tell_end(self, one: RunDirectory) -> None:
        """Tell that nothing is left of an attempt."""
        if one.is_part and self._tasks is not None:
            self._tasks.drop(one.key)
        self._tell(_ended(one))

    def note_task_end(self, key: a.Key) -> None:
        """Answer those who wait for a task that has ended."""
        if self._tasks is not None:
            self._tasks.look()

    def serve(self, key: a.Key, order: TaskOrder, answer: Answer) -> None:
        """Carry out an order about a task of a part."""
        assert self._tasks is not None, "no task is started in this world"
        part = self._living(key)
        begun = part.begun if part is not None and part.is_part and not part.step else None
        if self._tasks.serve(key, order, answer, begun) and part is not None:
            part.tasks += 1
            if part.suspended_us:
                self.ground.suspend(part, suspended=True)
            self.seam("task started")

    def take(self, action: a.Action) -> None:
        """Carry out an order; one that was carried out before changes nothing."""
        self.seam("ordered")
        match action:
            case a.Spawn(launch, elements):
                for index, attempt in elements:
                    self.spawn(launch, (launch.job, index, attempt))
            case a.Signal():
                self._signal(action)
            case a.Suspend(job, index, attempt, suspended):
                one = self._living((job, index, attempt))
                if one is not None:
                    self.ground.suspend(one, suspended=suspended)
                    self.seam("suspended")
                    self._tell(a.Suspended(job, index, attempt, suspended))
            case a.Checkpoint():
                self._save(action)
            case a.Report(launch, end, _):
                found = self.ground.directories.get((launch.job, end.index, end.attempt))
                if found is not None:
                    found.reported = True
                    self._tell(a.Appended(*found.key))
            case _:
                self._note(action)

    def _save(self, action: a.Checkpoint) -> None:
        """Have a checkpoint written, in no time: but what is stopped, or ends, writes none."""
        one = self._living((action.job, action.index, action.attempt))
        if one is None or 0 < action.count <= one.number:
            return
        one.number = max(one.number, action.count)
        one.saved_us = self.ground.loop.now_us
        is_good = not (one.step or one.suspended_us)
        detail = "" if is_good else "the job is stopped, or ends"
        one.outcome = a.Outcome(one.outcome.number + 1, action.ends, is_good, detail)
        self.seam("saved")
        self._tell(a.Checkpointed(*one.key, one.saved_us, one.outcome))

    def _note(self, action: a.Lease | a.SetLimit | a.Forget | a.SpawnPart | a.Lead) -> None:
        """Note what changes nothing about a process now."""
        match action:
            case a.SpawnPart(launch, index, attempt):
                key = (launch.job, index, attempt)
                if key not in self.ground.directories:
                    self.ground.open_part(launch, key)
            case a.Lead(job, index, attempt, host):
                one = self.ground.directories.get((job, index, attempt))
                if one is not None:
                    one.parts.append(host)
                    self.seam("part noted")
                    self._tell(a.Led(job, index, attempt, host))
            case a.Lease(until):
                self._leases = {(job, index, number): at_us for job, index, number, at_us in until}
                for at_us in set(self._leases.values()):
                    self.after(max(0, at_us - self.ground.loop.now_us), self._end_leases)
            case a.SetLimit(job, index, attempt, _, limits):
                one = self._living((job, index, attempt))
                if one is not None:
                    one.limits = limits
            case a.Forget(job, index, attempt, _):
                found = self.ground.directories.get((job, index, attempt))
                if found is not None and found.is_over:
                    del self.ground.directories[found.key]
                    self.seam("forgotten")

    def spawn(self, launch: Launch, key: a.Key) -> None:
        """Start an attempt unless there is a run directory of it."""
        if key in self.ground.directories:
            return
        one = self.ground.start(launch, key)
        self.seam("started")
        if one.is_over:
            self._tell(_ended(one))
        else:
            self._tell(a.Started(*key, one.pid, one.started_us))
        self.seam("told")
        self._end_leases()

    def _end_leases(self) -> None:
        for key, until_us in self._leases.items():
            one = self._living(key)
            if one is not None and until_us <= self.ground.loop.now_us:
                self._signal(a.Signal(*key, _KILL, EndCause.HOST_LOST, STEP_KILL))

    def _living(self, key: a.Key) -> RunDirectory | None:
        one = self.ground.directories.get(key)
        return one if one is not None and not one.is_over else None

    def _signal(self, order: a.Signal) -> None:
        one = self._living((order.job, order.index, order.attempt))
        if one is None:
            return
        if order.count:
            if order.count <= one.number:
                return
            one.number = order.count
        if order.step:
            one.cause, one.step, one.step_us = order.cause, order.step, self.loop.now_us
        if order.step and one.suspended_us:
            self.ground.suspend(one, suspended=False)
            self._tell(a.Suspended(*one.key, suspended=False))
        self.ground.send_signal(one, order.number)
        self.seam("signalled")


def _present(one: RunDirectory) -> a.Present:
    return a.Present(
        *one.key, "", one.pid, one.started_us, one.suspended_us, one.stopped_us, one.number,
        one.cause, one.step, one.step_us, one.reported, one.limits, one.is_part, tuple(one.parts),
        saved_us=one.saved_us, outcome=one.outcome,
    )  # fmt: skip


def _ended(one: RunDirectory) -> a.Ended:
    if one.is_part:
        return a.Ended(*one.key, one.started_us, one.ended_us, user_us=one.tasks * TASK_CPU_US)
    return a.Ended(
        *one.key, one.started_us, one.ended_us, one.code, one.signal, one.cause, one.host_fault,
        one.detail, 1_000, OWN_CPU_US - 1_000, 2_048,
        wants_report=bool(one.launch.spec.files.output),
    )  # fmt: skip
