"""Trials: a session on a sketch, and whether a job starts in it. Their number is bounded."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from xce.advice.sketch import Easel, Sketch
from xce.model.ids import Index, JobId, Micros
from xce.model.plan import Plan, StartRule
from xce.model.reason import Reason
from xce.sched.counts import Counts
from xce.sched.policy import FIRST_COME, Policy
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.state.cluster import ClusterState

TRIALS_MAX: Final = 400
"""Most trials for one question."""
WORK_MAX: Final = 50_000_000
"""Most host rows, and a hundred times as many as classes, that all trials may look at."""
_CLASS_WORK: Final = 100

Element = tuple[JobId, Index]


class Start(NamedTuple):
    """How an element starts in a plan."""

    hosts: tuple[str, ...]
    """In rank order."""
    tasks: tuple[int, ...]
    rule: StartRule


class BoundHitError(Exception):
    """As many trials were made as are allowed."""


def find_start(plan: Plan, state: ClusterState, element: Element) -> Start | None:
    """Return how an element starts in a plan, or None when it does not."""
    job_id, index = element
    names = state.hosts.names
    for gang in plan.gangs:
        if gang.job == job_id and gang.index == index:
            hosts = tuple(names[number] for number in gang.hosts)
            return Start(hosts, tuple(gang.tasks), gang.rule)
    for bulk in plan.bulk:
        before = 0
        for job, first, last in zip(bulk.jobs, bulk.firsts, bulk.lasts, strict=True):
            if job == job_id and first <= index <= last:
                place = before + _steps(state, job_id, first, index)
                host = _host_at(bulk.hosts, bulk.counts, place)
                tasks = state.classes[bulk.cls].key.request.tasks_max
                return Start((names[host],), (tasks,), bulk.rule)
            before += 1 + _steps(state, job, first, last)
    return None


def _steps(state: ClusterState, job_id: JobId, first: Index, last: Index) -> int:
    """Return how many elements lie between two of a run."""
    array = state.jobs[job_id].array
    return 0 if array is None else array.position_from(last) - array.position_from(first)


def _host_at(hosts: Sequence[int], counts: Sequence[int], place: int) -> int:
    return next(
        host for host, until in zip(hosts, accumulate(counts), strict=True) if place < until
    )


class Trials:
    """Trials on one state."""

    def __init__(
        self,
        state: ClusterState,
        now_us: Micros,
        *,
        policy: Policy = FIRST_COME,
        work_max: int = WORK_MAX,
    ) -> None:
        self.easel = Easel(state, now_us)
        self.made = 0
        self._memory = Memory()
        self._policy = policy
        self._trials_max = TRIALS_MAX
        self._work_max = work_max
        self._counts = Counts()
        self._looked: list[Element] = []
        """Elements whose attempts were over in the last trial."""

    def allow(self, count: int) -> None:
        """Let so many trials be made from now on."""
        self._trials_max = self.made + count

    def sketch(self) -> Sketch:
        """Return a sketch in which nothing is otherwise yet; the one before is of no use then."""
        self.easel.put_back()
        return self.easel.sketch()

    def start(self, sketch: Sketch, element: Element) -> Start | None:
        """Return how an element starts, at once, in a session on a sketch, or None.

        Raises:
            BoundHitError: There were too many trials.
        """
        return find_start(self.plan(sketch, element[0]), sketch.state, element)

    def plan(self, sketch: Sketch, job_id: JobId) -> Plan:
        """Return what a session on a sketch plans up to a job.

        Raises:
            BoundHitError: There were too many trials.
        """
        counts = self._counts
        work = counts.host_rows + counts.classes * _CLASS_WORK
        if self.made >= self._trials_max or work >= self._work_max:
            raise BoundHitError
        self.made += 1
        changed = {*self._looked, *sketch.ended}
        self._memory.running.look_again((job, index, index) for job, index in sorted(changed))
        self._looked = list(sketch.ended)
        return run_session(
            sketch.state,
            now_us=self.easel.now_us,
            memory=self._memory,
            policy=self._policy,
            counts=counts,
            until=job_id,
        )

    def reason(self, sketch: Sketch, job_id: JobId, position: int) -> Reason | None:
        """Return why an element waits, as the last trial found; None: it was not tried."""
        cls, _ = sketch.state.jobs[job_id].form_at(position)
        sleeper = self._memory.sleepers.get(cls)
        return None if sleeper is None else sleeper.reason
