"""The decision trace: a session that tells what it decides about what rules ask for.

A traced session is the session itself with a listener at its joints; it decides the same. What it
tells beyond that is asked again of the filters, for the traced classes only. Without a trace none
of this runs.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

import msgspec
import numpy as np

from xce.model.ids import Index, JobId, Micros
from xce.model.plan import GangStart, Plan, StartRule
from xce.model.ranges import count
from xce.model.reason import Reason, ReasonCode
from xce.model.trace import (
    Candidate,
    Outcome,
    SessionTrace,
    Sifted,
    Source,
    Step,
    Table,
    TraceKind,
    TraceRule,
)
from xce.sched.candidates import CHOSEN_MAX, Form, candidates_of, look_at, sifted_of
from xce.sched.counts import Counts
from xce.sched.front import Front, Runs
from xce.sched.order import Place
from xce.sched.place.spot import Spot
from xce.sched.policy import Policy
from xce.sched.reserve import Element
from xce.sched.session import Session
from xce.sched.shape import Shape
from xce.sched.timeline import View
from xce.sched.waiting import Memory
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Flags
from xce.state.view import pend_reason

STEPS_MAX: Final = 1_000
"""Of one session."""
RUNS_MAX: Final = 64
"""Listed runs of ids or elements in a step."""
_IDS_MAX: Final = 10_000
"""Waiting jobs of a class that are looked at to list them."""
Key: TypeAlias = tuple[int, int]
"""An alternative, and a part of it."""
Gets: TypeAlias = dict[int, int]
"""Tasks by host number."""
_WHOLE: Final[Key] = 0, 0


class Trace:
    """What to trace of one session, and when it is over, what was traced."""

    def __init__(self, rules: Sequence[TraceRule]) -> None:
        self._all = any(rule.kind is TraceKind.SESSION for rule in rules)
        self._users = frozenset(rule.name for rule in rules if rule.kind is TraceKind.USER)
        self._queues = frozenset(rule.name for rule in rules if rule.kind is TraceKind.QUEUE)
        self.named = tuple(sorted({rule.job for rule in rules if rule.kind is TraceKind.JOB}))
        """The jobs that rules name."""
        self._classes: dict[int, tuple[JobId, ...]] = {}
        self._steps = Table(Step)
        self._sifted = Table(Sifted)
        self._candidates = Table(Candidate)
        self._left_out = 0
        self.session: SessionTrace | None = None
        """What came of it; None: the session is not over, or nothing was asked of it."""

    def open(
        self,
        state: ClusterState,
        now_us: Micros,
        memory: Memory,
        policy: Policy,
        counts: Counts,
    ) -> Session:
        """Return a session that tells this trace what it does."""
        found: dict[int, list[JobId]] = {}
        for item in self.named:
            if item in state.jobs:
                numbers = state.jobs[item].classes()
                for cls in numbers:
                    found.setdefault(cls, []).append(item)
        self._classes = {cls: tuple(ids) for cls, ids in found.items()}
        return _TracedSession(state, now_us, memory, policy, counts, self)

    def wants(self, found: RequestClass) -> bool:
        """Return whether anything asks for a class."""
        key = found.key
        return (
            self._all
            or found.cls in self._classes
            or key.user in self._users
            or key.queue in self._queues
        )

    @property
    def is_full(self) -> bool:
        """Whether nothing more is kept of this session."""
        return len(self._steps) >= STEPS_MAX

    def of_class(self, cls: int) -> tuple[JobId, ...]:
        """Return the jobs of a class that rules name."""
        return self._classes.get(cls, ())

    def add(
        self, step: Step, forms: Sequence[Form], names: list[str], gets: Mapping[Key, Gets]
    ) -> None:
        """Keep a step, if there is room for it.

        Args:
            step: What was done.
            forms: What the request found.
            names: Of hosts, by number.
            gets: By alternative and part: the tasks of each host that gets some.
        """
        if self.is_full:
            self._left_out += 1
            return
        at = len(self._steps)
        self._steps.append(step)
        for form in forms:
            for sifted in sifted_of(at, form):
                self._sifted.append(sifted)
            mine = gets.get((form.alternative, form.part), {})
            for candidate in candidates_of(at, form, names, mine):
                self._candidates.append(candidate)
        if not forms:
            for row in gets.values():
                for number, tasks in islice(row.items(), CHOSEN_MAX):
                    self._candidates.append(Candidate(at, "", 0, names[number], (), 0, 0, tasks))

    def close(self, state: ClusterState, now_us: Micros, turns: int) -> None:
        """End the session."""
        if not len(self._steps) and not self._all:
            return
        self.session = SessionTrace(
            seq=state.seq,
            now_us=now_us,
            classes=len(state.waiting),
            hosts=state.hosts.count,
            turns=turns,
            left_out=self._left_out,
            steps=self._steps.columns,
            sifted=self._sifted.columns,
            candidates=self._candidates.columns,
        )


class _TracedSession(Session):
    """A session that tells what it does."""

    may_hurry = False

    def __init__(
        self,
        state: ClusterState,
        now_us: Micros,
        memory: Memory,
        policy: Policy,
        counts: Counts,
        trace: Trace,
    ) -> None:
        super().__init__(state, now_us, memory, policy, counts)
        self._trace = trace
        self._turn = 0
        self._front: Front | None = None
        self._source, self._proved_by = Source.NONE, 0
        self._proved: dict[object, JobId] = {}
        """By request: the job of this session that did not fit."""
        self._ids: dict[int, tuple[tuple[JobId, JobId], ...]] = {}
        """By class: its waiting jobs as runs."""
        self._told: set[int] = set()
        """Classes of which something was told."""

    # The joints of a session.

    def place(self, front: Front, before: Place) -> None:
        self._turn += 1
        self._front = front
        super().place(front, before)

    def _refusal(self, shape: Shape) -> Reason | None:
        was_known = shape in self._failed
        known = super()._refusal(shape)
        if known is None:
            return None
        if was_known:
            self._note_source(Source.SAME_REQUEST, shape)
        elif known is shape.fixed:
            self._note_source(Source.STANDING, shape)
        elif shape.verdict is not None and known is shape.verdict.reason:
            self._note_source(Source.ASLEEP, shape)
        else:
            self._note_source(Source.POOL, shape)
        return known

    def _try(self, front: Front, shape: Shape, before: Place) -> Reason | None:
        key = (shape, self._reserver.reach(front.found))
        was_known = key in self._delaying
        reason = super()._try(front, shape, before)
        if reason is not None:
            about = key if reason.code is ReasonCode.RESERVED else shape
            self._note_source(Source.SAME_REQUEST if was_known else Source.TRIED, about)
        return reason

    def _note_source(self, source: Source, about: object) -> None:
        """Note how it is known that a request must wait, and whose turn it was first."""
        own = (self._front.first() if self._front is not None else None) or 0
        first = self._proved.setdefault(about, own)
        self._source = source
        self._proved_by = first if source is Source.SAME_REQUEST else 0

    def _sleep(self, front: Front, shape: Shape, reason: Reason) -> None:
        super()._sleep(front, shape, reason)
        if not self._trace.wants(front.found):
            return
        if reason.code is ReasonCode.DEADLINE:
            self._source, self._proved_by = Source.WINDOW, 0
        if reason.code is ReasonCode.JOB_GROUP_LIMIT:
            self._source, self._proved_by = Source.GROUP, 0
        self._tell(
            front.found, Outcome.WAITS, front.element(), self._look(shape, self._now),
            reason=reason, source=self._source, proved_by=self._proved_by,
        )  # fmt: skip

    def _place_bulk(
        self, front: Front, shape: Shape, view: View, left: Flags, before: Place
    ) -> bool:
        if not self._trace.wants(front.found):
            return super()._place_bulk(front, shape, view, left, before)
        element, forms = front.element(), self._look(shape, view)
        limits = self._limits(element[0])
        is_placed = super()._place_bulk(front, shape, view, left, before)
        if is_placed:
            start = self._bulk[-1]
            tasks = (np.asarray(start.counts) * shape.tasks_max).tolist()
            self._tell(
                front.found, Outcome.STARTS, element, forms,
                gets={_WHOLE: dict(zip(start.hosts, tasks, strict=True))}, limits=limits,
                rule=start.rule, elements=sum(start.counts), tasks=sum(tasks),
                starts=_listed(Runs(start.jobs, start.firsts, start.lasts)),
            )  # fmt: skip
        return is_placed

    def _place_gang(
        self, front: Front, shape: Shape, view: View, left: Flags, before: Place
    ) -> bool:
        if not self._trace.wants(front.found):
            return super()._place_gang(front, shape, view, left, before)
        element, forms = front.element(), self._look(shape, view)
        limits = self._limits(element[0])
        is_placed = super()._place_gang(front, shape, view, left, before)
        if is_placed:
            self._tell_gang(front.found, element, forms, self._gangs[-1], limits)
        return is_placed

    def _start(self, found: RequestClass, element: Element, shape: Shape, spot: Spot) -> None:
        super()._start(found, element, shape, spot)
        if self._trace.wants(found):
            whole = spot.hosts.tolist(), spot.sizes.tolist(), spot.parts.tolist()
            start = GangStart(found.cls, *element, *whole, spot.alternative, StartRule.PREEMPT)
            self._tell_gang(found, element, [], start, (0, 0))

    def _reserve(self, front: Front, shape: Shape, before: Place) -> bool:
        element = front.element()
        is_reserved = super()._reserve(front, shape, before)
        if is_reserved and self._trace.wants(front.found):
            told = self._reserver.promised(element)
            gets = dict(zip(told.hosts, told.tasks, strict=True))
            self._tell(
                front.found, Outcome.RESERVES, element, [], at_us=told.start_at_us,
                tasks=sum(told.tasks), gets={_WHOLE: gets},
            )  # fmt: skip
        return is_reserved

    def _preempt(self, front: Front, shape: Shape, reason: Reason, before: Place) -> bool:
        element = front.element()
        is_coming = super()._preempt(front, shape, reason, before)
        if is_coming and self._trace.wants(front.found):
            found = self._preemptions[-1]
            victims = [(item.job, item.index, item.action) for item in found.victims]
            self._tell(
                front.found, Outcome.PREEMPTS, element, [], tasks=sum(found.tasks),
                gets={_WHOLE: dict(zip(found.hosts, found.tasks, strict=True))},
                victims=tuple(victims[:RUNS_MAX]),
            )  # fmt: skip
        return is_coming

    def close(self) -> Plan:
        for item, index, _ in self._holds.resumed:
            resumed = self._state.jobs[item]
            found = self._state.class_at(resumed, resumed.position(index) or 0)
            if self._trace.wants(found):
                self._tell(found, Outcome.RESUMES, (item, index), [], order=0)
        for found, reason in self._asleep.items():
            if found.cls not in self._told and self._trace.wants(found):
                self._tell(
                    found, Outcome.WAITS, (_first(found), 0), [], order=0, reason=reason,
                    source=Source.HELD,
                )  # fmt: skip
        for found in self._state.waiting.values():
            if found.cls not in self._told and self._trace.wants(found):
                self._tell_left_out(found, _first(found))
        for item in self._trace.named:
            job = self._state.jobs.get(item)
            if job is not None and not job.is_finished and (job.pending or job.held):
                numbers = job.classes()
                classes = [self._state.classes[cls] for cls in numbers]
                if not any(item in found.waiting or item in found.moved for found in classes):
                    self._tell_left_out(classes[0], item)
        self._trace.close(self._state, self._now_us, self._turn)
        return super().close()

    # What is told.

    def _look(self, shape: Shape, view: View) -> list[Form]:
        """Return what a request finds on a ground before anything of it is placed."""
        if self._trace.is_full:
            return []
        return look_at(shape, view.ground, self._facts, self._policy)

    def _limits(self, item: JobId) -> tuple[int, int]:
        """Return the array limit of a job and how many elements it lets start."""
        job = self._state.jobs[item]
        if job.array is None or not job.array.limit:
            return 0, 0
        return job.array.limit, min(self._state.room(job), count(job.ready))

    def _id_runs(self, found: RequestClass) -> tuple[tuple[JobId, JobId], ...]:
        if found.cls not in self._ids:
            self._ids[found.cls] = _id_runs(found)
        return self._ids[found.cls]

    def _tell_gang(
        self,
        found: RequestClass,
        element: Element,
        forms: list[Form],
        start: GangStart,
        limits: tuple[int, int],
    ) -> None:
        gets: dict[Key, Gets] = {}
        parts = start.parts or [0] * len(start.tasks)
        given = zip(start.hosts, start.tasks, parts, strict=True)
        for number, tasks, part in given:
            row = gets.setdefault((start.alternative, part), {})
            row[number] = row.get(number, 0) + tasks
        if found.key.request.alternatives:
            # Those in front of the one that was taken did not fit; those behind were not asked.
            forms = [form for form in forms if form.alternative <= start.alternative]
        self._tell(
            found, Outcome.STARTS, element, forms, gets=gets, limits=limits,
            rule=start.rule, elements=1, tasks=sum(start.tasks),
            starts=((start.job, start.index, start.index),),
        )  # fmt: skip

    def _tell_left_out(self, found: RequestClass, item: JobId) -> None:
        job = self._state.jobs[item]
        reason = pend_reason(self._state, job, held=not job.pending)
        self._tell(found, Outcome.LEFT_OUT, (item, 0), [], order=0, reason=reason)

    def _tell(
        self,
        found: RequestClass,
        outcome: Outcome,
        element: tuple[JobId, Index],
        forms: list[Form],
        *,
        gets: Mapping[Key, Gets] | None = None,
        limits: tuple[int, int] = (0, 0),
        **rest: object,
    ) -> None:
        """Keep a step."""
        self._told.add(found.cls)
        queue = self._state.queues.get(found.key.queue)
        step = Step(
            order=self._turn,
            cls=found.cls,
            outcome=outcome,
            user=found.key.user,
            queue=found.key.queue,
            priority=queue.priority if queue is not None else 0,
            rank=self._line.rank(found) if queue is not None else (),
            job=element[0],
            index=element[1],
            waiting=found.pending,
            jobs=self._id_runs(found),
            traced=self._trace.of_class(found.cls)[:RUNS_MAX],
            array_limit=limits[0],
            may_start=limits[1],
        )
        step = msgspec.structs.replace(step, **rest)
        self._trace.add(step, forms, self._state.hosts.names, gets or {})


def _first(found: RequestClass) -> JobId:
    first = next(iter(found.eligible() if not found.sorted else found.waiting), None)
    return min([*([] if first is None else [first]), *found.moved])


def _id_runs(found: RequestClass) -> tuple[tuple[JobId, JobId], ...]:
    """Return the ids of the waiting jobs of a class as runs, as far as they are listed."""
    ids = np.unique(np.asarray([*islice(found.waiting, _IDS_MAX), *found.moved], np.int64))
    if not len(ids):
        return ()
    breaks = np.flatnonzero(np.diff(ids) > 1)
    firsts = ids[np.append(0, breaks + 1)][:RUNS_MAX].tolist()
    lasts = ids[np.append(breaks, len(ids) - 1)][:RUNS_MAX].tolist()
    return tuple(zip(firsts, lasts, strict=True))


def _listed(runs: Runs) -> tuple[tuple[JobId, Index, Index], ...]:
    return tuple(islice(zip(*runs, strict=True), RUNS_MAX))
