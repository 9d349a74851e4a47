"""The step of a job that runs by roles, in a world: the real machine, tasks that only take time.

What it does is checked by books that read the job's relations and know nothing of plans and phases.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from xce.model.effect import Launch
from xce.model.ids import HOUR_US, Index, Micros
from xce.model.relation import Relation, RelationKind
from xce.sim.loop import Loop
from xce.sim.starter import OwnTask, Starter, Told
from xce.step import core
from xce.worker.step_plan import plan_of

COMPANION_US: Final = 24 * HOUR_US
"""A companion does not end by itself."""
ANSWER_US: Final = 2_000
"""Longest way to another host of the job."""
_LOST_PERMILLE: Final = 15
"""How often a run ends by the loss of its host."""
_READY_PERCENT: Final = 60

Run = tuple[int, int]
"""A task: the number of its role, its place in it."""


_ORDERS: Final = frozenset(
    {RelationKind.INIT_OF, RelationKind.SIDECAR_OF, RelationKind.READY_AFTER, RelationKind.AFTER}
)


def _later(relation: Relation) -> tuple[str, ...]:
    """Return the roles that begin later by a relation that orders."""
    is_before = relation.kind in (RelationKind.INIT_OF, RelationKind.SIDECAR_OF)
    return relation.target if is_before else relation.source


class StepError(AssertionError):
    """A step did what its relations forbid."""


class StepBooks:
    """What a step's relations say, against what it does."""

    def __init__(self, launch: Launch, sizes: list[int], note: Callable[[str], object]) -> None:
        self._note = note
        names = [role.name for role in launch.spec.roles]
        self._sizes = sizes
        self._names = names
        self._relations = launch.spec.relations
        self.live: set[Run] = set()
        self.begun: set[Run] = set()
        self.ready: set[Run] = set()
        self.ends: dict[Run, int] = {}
        self._begun_us: dict[Run, Micros] = {}
        self._lost: set[Run] = set()
        """Tasks of hosts that were lost: they need not have begun."""
        self.told = False
        """The whole job was told to end."""

    def note_start(self, run: Run, now_us: Micros) -> None:
        """Check that a task may begin now."""
        _demand(run not in self.live, f"{run} was started beside itself")
        _demand(not self.told, f"{run} was started after the job was told to end")
        is_again = run in self.begun
        if is_again:
            self._note("step-restart")
        self.live.add(run)
        self.begun.add(run)
        self._begun_us.setdefault(run, now_us)
        self.ready.discard(run)
        for relation in self._relations if not is_again else ():
            self._check_order(self._names[run[0]], relation)
            if relation.kind in _ORDERS and self._names[run[0]] in _later(relation):
                self._note(f"step-{relation.kind.value}")
            if relation.kind is RelationKind.WITH and self._names[run[0]] in relation.subjects:
                self._note("step-with")

    def note_loss(self, runs: Iterable[Run]) -> None:
        """Note that the host of some tasks is lost."""
        self._lost.update(runs)

    def note_ready(self, run: Run) -> None:
        """Note that a task is ready."""
        self.ready.add(run)

    def note_end(self, run: Run, code: int) -> None:
        """Note that a run is over."""
        self.live.discard(run)
        self.ends[run] = code
        if code:
            self.ready.discard(run)
            if self._names[run[0]] in self._tolerated():
                self._note("step-tolerate")

    def note_finish(self, code: int, detail: str) -> None:
        """Check the end of the job."""
        _demand(not self.live, f"{self.live} live at the end")
        _demand(bool(detail) or self.told or not code, f"nobody is to blame for {code}")
        self._check_together()
        if code:
            self._note("step-told-to-end" if self.told else "step-fail-together")
            return
        spared = self._sources(RelationKind.SIDECAR_OF) | self._tolerated()
        for number, name in enumerate(self._names):
            if name not in spared:
                codes = [self.ends.get(run, -1) for run in self._tasks(number)]
                _demand(not any(codes), f"{name} ended with {codes}, and the job well")

    def _check_order(self, name: str, relation: Relation) -> None:
        source, target = relation.source, relation.target
        match relation.kind:
            case RelationKind.INIT_OF if name in target:
                for run in self._runs(source):
                    _demand(self.ends.get(run) == 0, f"{name} began before its init {run}")
            case RelationKind.SIDECAR_OF if name in target:
                for run in self._runs(source):
                    known = run in self.begun or run in self.ends
                    _demand(known, f"{name} began before its sidecar {run}")
            case RelationKind.READY_AFTER if name in source:
                for run in self._runs(target):
                    _demand(run in self.ready, f"{name} began before {run} was ready")
            case RelationKind.AFTER if name in source:
                for run in self._runs(target):
                    code = self.ends.get(run)
                    is_met = code is not None and run not in self.live
                    if relation.param("outcome") != "ended":
                        is_met = is_met and code == 0
                    _demand(is_met, f"{name} began before the end of {run}")
            case _:
                pass

    def _check_together(self) -> None:
        for relation in self._relations:
            if relation.kind is RelationKind.WITH:
                runs = [run for run in self._runs(relation.subjects) if run not in self._lost]
                at = {self._begun_us.get(run) for run in runs}
                _demand(len(at) <= 1, f"{', '.join(relation.subjects)} did not begin together")

    def _tasks(self, number: int) -> list[Run]:
        return [(number, place) for place in range(self._sizes[number])]

    def _runs(self, names: tuple[str, ...]) -> list[Run]:
        return [run for name in names for run in self._tasks(self._names.index(name))]

    def _sources(self, kind: RelationKind) -> set[str]:
        return {name for one in self._relations if one.kind is kind for name in one.source}

    def _tolerated(self) -> set[str]:
        return {
            name
            for one in self._relations
            if one.kind is RelationKind.FATE and one.param("policy") == "tolerate"
            for name in one.subjects
        }


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise StepError(what)


class SimStep:
    """A step whose tasks take the time that their commands say.

    Args:
        loop: The world's.
        rng: Its own.
        launch: Of the job.
        index: Which element.
        end: Called at its end with exit code and detail.
        starter: Starts tasks on other hosts; None: they, too, only take time.
        note: Is told what happens, by a word of `xce.sim.coverage.STEP_EVENTS`.
    """

    def __init__(
        self, loop: Loop, rng: Random, launch: Launch, index: Index,
        end: Callable[[int, str], object], starter: Starter | None = None,
        note: Callable[[str], object] = lambda _: None,
    ) -> None:  # fmt: skip
        self._loop, self._rng, self._end = loop, rng, end
        self._starter = starter
        self._remote: dict[Run, OwnTask] = {}
        self.plan = plan_of(launch, index, launch.spec.command)
        self.books = StepBooks(launch, [len(role.tasks) for role in self.plan.roles], note)
        self._step = core.Step(self.plan)
        self._is_alive = True
        self._is_stopped = False
        self._later: list[core.Event] = []
        self._runs: dict[Run, int] = {}
        self._due_us: Micros = -1
        self._do(self._step.begin(loop.now_us))

    def kill(self) -> None:
        """Let everything be gone at once."""
        self._is_alive = False

    def suspend(self, *, suspended: bool) -> None:
        """Stop it and its tasks, or let them go on."""
        self._is_stopped = suspended
        if not suspended:
            later, self._later = self._later, []
            for event in later:
                self._loop.after(0, self._take, event)
            self._loop.after(0, self._tick, self._due_us)

    def ask_to_end(self, signal: int) -> None:
        """Let it and all its tasks be sent a signal that ends them."""
        self.books.told = True
        for (role, task), run in list(self._runs.items()):
            if (role, task) in self._remote:
                continue  # its host sends it, and tells of its end
            self._tell(core.Exited(role, task, run, 128 + signal, signal))
        self._take(core.EndAsked(signal))

    def _tell(self, event: core.Event, span_us: Micros | None = None) -> None:
        wait_us = self._rng.randrange(1, ANSWER_US) if span_us is None else span_us
        self._loop.after(wait_us, self._take, event)

    def _take(self, event: core.Event) -> None:
        if not self._is_alive:
            return
        if self._is_stopped:
            self._later.append(event)
            return
        if not self._note(event):
            return
        self._do(self._step.take(event, self._loop.now_us))

    def _note(self, event: core.Event) -> bool:
        """Write down what happens; False: it is about a run that is over."""
        match event:
            case core.Started(role, task, run):
                if self._runs.get((role, task)) != run:
                    return False
                if self.plan.roles[role].probe is None:
                    self.books.note_ready((role, task))
            case core.Probed(role, task, run, is_ready):
                if self._runs.get((role, task)) != run:
                    return False
                if is_ready:
                    self.books.note_ready((role, task))
            case core.Exited(role, task, run) | core.Failed(role, task, run):
                if self._runs.get((role, task)) != run:
                    return False
                del self._runs[role, task]
                code = event.code if isinstance(event, core.Exited) else 1
                self.books.note_end((role, task), code)
            case core.HostLost(host):
                self.books.note_loss(
                    (role, task)
                    for role, task in self.plan.tasks()
                    if self.plan.roles[role].tasks[task].host == host
                )
                for role, task in list(self._runs):
                    if self.plan.roles[role].tasks[task].host == host:
                        del self._runs[role, task]
                        self.books.note_end((role, task), 1)
            case _:
                pass
        return True

    def _do(self, actions: list[core.Action]) -> None:
        for action in actions:
            match action:
                case core.OpenHost(host):
                    self._open(host)
                case core.CheckHost(host):
                    is_bad = self._rng.random() * 1000 < _LOST_PERMILLE
                    self._tell(core.HostChecked(host, "cannot reach another" if is_bad else ""))
                case core.Start():
                    self._start(action)
                case core.Probe(role, task, run):
                    is_ready = self._rng.random() * 100 < _READY_PERCENT
                    self._tell(core.Probed(role, task, run, is_ready, "not yet"))
                case core.Signal(role, task, _, number) if (role, task) in self._remote:
                    assert self._starter is not None
                    self._starter.signal(self._remote[role, task], number)
                case core.Signal(role, task, run, number):
                    self._tell(core.Exited(role, task, run, 128 + number, number))
                case core.Finish(code, detail):
                    self._is_alive = False
                    self.books.note_finish(code, detail)
                    self._end(code, detail)
                    return
        self._plan()

    def _start(self, action: core.Start) -> None:
        role, task, run = action
        self.books.note_start((role, task), self._loop.now_us)
        self._runs[role, task] = run
        _, micros, code, *_ = self.plan.roles[role].command.split()
        span_us = int(micros) // 2 + self._rng.randrange(int(micros) + 1)
        host = self.plan.roles[role].tasks[task].host
        if host and self._starter is not None:
            # A restart may go better than the run before it.
            worst = int(code) if run == 1 or self._rng.random() < 0.5 else 0
            self._start_remote(action, host, span_us, worst)
            return
        if self._rng.random() * 1000 < _LOST_PERMILLE:
            self._tell(core.Failed(role, task, run, "its host was lost"), span_us)
            return
        self._tell(core.Started(role, task, run))
        # A restart may go better than the run before it.
        worst = int(code) if run == 1 or self._rng.random() < 0.5 else 0
        self._tell(core.Exited(role, task, run, worst), ANSWER_US + span_us)

    def _open(self, host: int) -> None:
        """Have a companion on a host."""
        if not host or self._starter is None:
            self._tell(core.HostReady(host))
            return

        def hear(what: str, _: int) -> None:
            if what == Told.STARTED:
                self._tell(core.HostReady(host))
            else:
                self._tell(core.HostLost(host, "its companion is gone"))

        self._starter.start(self.plan.hosts[host], COMPANION_US, 0, hear)

    def _start_remote(self, action: core.Start, host: int, span_us: Micros, code: int) -> None:
        assert self._starter is not None
        role, task, run = action

        def hear(what: str, code: int) -> None:
            if what == Told.STARTED:
                self._tell(core.Started(*action), 0)
                return
            if self._runs.get((role, task)) == run:
                self._remote.pop((role, task), None)
            if what == Told.OVER:
                self._tell(core.Exited(*action, code, code - 128 if code > 128 else 0), 0)
            else:
                self._tell(core.Failed(*action, "it was lost"), 0)

        self._remote[role, task] = self._starter.start(self.plan.hosts[host], span_us, code, hear)

    def _plan(self) -> None:
        due_us = self._step.next_due_us()
        if due_us is not None and due_us != self._due_us:
            self._due_us = due_us
            self._loop.after(max(0, due_us - self._loop.now_us), self._tick, due_us)

    def _tick(self, due_us: Micros) -> None:
        if self._is_alive and not self._is_stopped and due_us == self._due_us:
            self._due_us = -1
            self._do(self._step.tick(self._loop.now_us))
