"""The shepherd of a host of a world: it minds what is in `xce.sim.ground`, and tells a worker."""

from collections.abc import Callable
from random import Random
from typing import Final

from xce.model.effect import Launch
from xce.model.ids import Micros
from xce.model.job import EndCause
from xce.model.task import TaskOrder
from xce.sim.ground import OWN_CPU_US, Ground, Minder, RunDirectory
from xce.sim.tasks import TASK_CPU_US, Answer, KnownTasks
from xce.worker import action as a
from xce.worker.action import Listing
from xce.worker.ending import STEP_KILL

LOCAL_US: Final = 300
"""Longest way between a worker and its shepherd."""
_KILL: Final = 9


Hear = Callable[[list[a.News | a.Led]], object]


class Shepherd(Minder):
    """One life of the shepherd. It tells one worker."""

    def __init__(self, ground: Ground, rng: Random) -> None:
        super().__init__(ground.loop)
        self.ground = ground
        ground.shepherd = self
        self._rng = rng
        self._hear: Hear | None = None
        self._arrives_us = 0
        self._watch_leases()
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
            if part.stands_still:
                tasks = self.ground.tasks
                assert tasks is not None
                tasks.suspend(part.key, suspended=True)
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
                    self.ground.be_still(one, still=suspended)
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
        is_good = not (one.step or one.stands_still)
        detail = "" if is_good else "the job is stopped, or ends"
        one.outcome = a.Outcome(one.outcome.number + 1, action.ends, is_good, detail)
        self.seam("saved")
        self._tell(a.Checkpointed(*one.key, one.saved_us, one.outcome))

    def _note(
        self, action: a.Lease | a.SetLimit | a.Forget | a.SpawnPart | a.Lead | a.Warn
    ) -> None:
        """Note what changes nothing about a process now; a warning command says nothing here."""
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
                self._take_leases(until)
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
        self._mind_leases()

    def _take_leases(self, until: list[tuple[int, int, int, Micros, Micros]]) -> None:
        kept = self.ground.leases
        self.ground.leases = {}
        for job, index, number, *instants in until:
            key = (job, index, number)
            found = kept.get(key) if instants[0] == a.KEPT else (instants[0], instants[1])
            if found is not None:
                self.ground.leases[key] = found
        self._watch_leases()
        self._mind_leases()

    def _watch_leases(self) -> None:
        now_us = self.ground.loop.now_us
        for at_us in {at_us for instants in self.ground.leases.values() for at_us in instants}:
            self.after(max(0, at_us - now_us), self._mind_leases)

    def _mind_leases(self) -> None:
        """Freeze and thaw what is to be, and kill what has outlived even that."""
        now_us = self.ground.loop.now_us
        for one in list(self.ground.directories.values()):
            frozen_us, killed_us = self.ground.leases.get(one.key, (now_us + 1, now_us + 1))
            if one.is_over:
                continue
            if killed_us <= now_us:
                self._signal(a.Signal(*one.key, _KILL, EndCause.HOST_LOST, STEP_KILL))
            elif (frozen_us <= now_us) != bool(one.frozen_us):
                frozen = not one.frozen_us
                self.ground.be_still(one, still=frozen, by_lease=True)
                self._tell(a.Frozen(*one.key, frozen))
                self.seam("suspended")

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
            self.ground.be_still(one, still=False)
            self._tell(a.Suspended(*one.key, suspended=False))
        self.ground.send_signal(one, order.number)
        self.seam("signalled")


def _present(one: RunDirectory) -> a.Present:
    return a.Present(
        *one.key, "", one.pid, one.started_us, one.suspended_us, one.stopped_us, one.number,
        one.cause, one.step, one.step_us, one.reported, one.limits, one.is_part, tuple(one.parts),
        saved_us=one.saved_us, outcome=one.outcome, frozen_us=one.frozen_us,
    )  # fmt: skip


def _ended(one: RunDirectory) -> a.Ended:
    if one.is_part:
        return a.Ended(*one.key, one.started_us, one.ended_us, user_us=one.tasks * TASK_CPU_US)
    return a.Ended(
        *one.key, one.started_us, one.ended_us, one.code, one.signal, one.cause, one.host_fault,
        one.detail, 1_000, OWN_CPU_US - 1_000, 2_048,
        wants_report=bool(one.launch.spec.files.output),
    )  # fmt: skip
