"""A state that is otherwise in a few points. What it is a sketch of is never changed.

What differs is copied when it is written; all else is the original's. A session may run on a sketch
as on any state. Columns of hosts are the exception: the sketches of one `Easel` share one copy of
them, so that what a `Memory` keeps for that table is good for all of them; only one sketch with
ended attempts may be in use at a time.
"""

import copy
from collections.abc import Iterable

from xce.control.submit import decide_submit
from xce.model.command import SubmitJobs
from xce.model.ids import Index, JobId, Micros
from xce.model.job import Owner, Submission
from xce.model.ranges import EMPTY, ZERO, Ranges, count, subtract, unite
from xce.model.record import ClassStored, JobSubmitted, SpecStored
from xce.model.refusal import Refusal
from xce.state import shares, usage
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import HostTable, PoolTable
from xce.state.job import WAITS_BEGIN, Attempt, Job

Place = tuple[JobId, int]
"""Job and position of an element."""


class Easel:
    """Where the sketches of one state stand."""

    def __init__(self, base: ClusterState, now_us: Micros) -> None:
        self.base = base
        self.now_us = max(now_us, base.now_us)
        self.hosts: HostTable = copy.copy(base.hosts)
        self.classes = base.next_class
        """The next number for a class; each is given once, also to equal ones: it is what a
        `Memory` knows a class by."""
        self.put_back()

    def put_back(self) -> None:
        """Have the columns of hosts as they are."""
        table = self.base.hosts
        self.hosts.used = table.used.copy()
        self.hosts.attempts = table.attempts.copy()
        self.hosts.exclusive = table.exclusive.copy()

    def sketch(self) -> "Sketch":
        """Return a sketch in which nothing is otherwise yet."""
        return Sketch(self)


class Sketch:
    """A state that is otherwise in a few points.

    Attributes:
        state: For sessions; to be read only.
        ended: Elements whose attempts are over in it.
    """

    def __init__(self, easel: Easel) -> None:
        self._easel = easel
        base = easel.base
        state = self.state = copy.copy(base)
        state.now_us = easel.now_us
        state.hosts = easel.hosts
        state.jobs = dict(base.jobs)
        state.classes = dict(base.classes)
        state.waiting = dict(base.waiting)
        state.specs = dict(base.specs)
        state.reservations = dict(base.reservations)
        self.ended: list[tuple[JobId, Index]] = []
        self._jobs: set[JobId] = set()
        self._classes: set[int] = set()

    def withdraw(self, job_id: JobId, positions: Ranges) -> None:
        """Let elements of a job wait no more."""
        job = self._job(job_id)
        job.pending = subtract(job.pending, positions)
        job.held = subtract(job.held, positions)
        self.state.reservations.pop(job_id, None)
        self._refresh(job)

    def keep_only(self, job_id: JobId) -> None:
        """Let nobody wait but one job."""
        self.state.waiting = {}
        for cls in self.state.jobs[job_id].classes():
            found = self.state.classes[cls]
            alone = self._class(cls)
            alone.waiting = {job_id: None} if job_id in found.waiting else {}
            alone.moved = {job_id: None} if job_id in found.moved else {}
            if alone.has_waiting:
                self.state.waiting[cls] = alone

    def release(self, job_id: JobId, positions: Ranges) -> None:
        """Let held elements of a job pend."""
        job = self._job(job_id)
        job.held = subtract(job.held, positions)
        job.pending = unite(job.pending, positions)
        self._refresh(job)

    def open_hosts(self, names: Iterable[str]) -> None:
        """Open closed hosts; what is known of hosts is laid out anew for this sketch."""
        table = self.state.hosts = copy.copy(self.state.hosts)
        table.is_open = table.is_open.copy()
        table.is_open[[table.number[name] for name in names]] = True
        table.change += 1

    def submit(self, owner: Owner, submission: Submission) -> JobId | Refusal:
        """Submit a job; return its number, or why it is refused."""
        state = self.state
        command = SubmitJobs(owner, (submission,))
        records, (result,) = decide_submit(state, command, self._easel.now_us)
        if isinstance(result, Refusal):
            return result
        for record in records:
            match record:
                case SpecStored():
                    state.specs[record.spec_id] = record.spec
                case ClassStored():
                    found = RequestClass(record.cls, record.key, record.resreq)
                    state.classes[record.cls] = found
                case JobSubmitted():
                    self._add(record)
                case _:
                    pass
        return result.job

    def _add(self, record: JobSubmitted) -> None:
        state, easel = self.state, self._easel
        key = state.classes[record.cls].key
        found = RequestClass(easel.classes, key, "")
        easel.classes += 1
        found.compile(state.hosts)
        state.classes[found.cls] = found
        self._classes.add(found.cls)
        size = record.array.count if record.array is not None else 1
        job = Job(
            record.job,
            record.spec_id,
            found.cls,
            record.owner,
            record.submit_at_us,
            size=size,
            array=record.array,
            pending=((0, size - 1),) if record.array is not None else ZERO,
            waits=WAITS_BEGIN if record.begin_at_us else 0,
            begin_at_us=record.begin_at_us,
        )
        state.jobs[job.id] = job
        self._jobs.add(job.id)
        found.pending = count(job.pending)
        state.next_job = job.id + 1
        self._refresh(job)

    def end(self, places: Iterable[Place]) -> None:
        """Let live attempts be over.

        Who waits for such a job's end by a dependency waits on.
        """
        state = self.state
        state.pools = _copy_of(state.pools)
        state.shares = {key: copy.copy(account) for key, account in state.shares.items()}
        state.on_host = dict(state.on_host)
        stopped = dict(state.stopped)
        moved = set()
        for job_id, position in places:
            job = self._job(job_id)
            assert job.live is not None, f"job {job_id} does not run"
            attempt = job.live.pop(position)
            stopped.pop((job_id, position), None)
            self._give_back(attempt)
            first = attempt.hosts[0]
            if first not in moved:
                moved.add(first)
                state.on_host[first] = dict(state.on_host[first])
            del state.on_host[first][job_id, position]
            self.ended.append((job_id, job.index(position)))
            self._refresh(job)
        state.stopped = stopped

    def _give_back(self, attempt: Attempt) -> None:
        state = self.state
        shares.note_released(state, attempt)
        if attempt.gave_slots:
            usage.move_slots(state, attempt, 1)
        self._class(attempt.cls).live -= 1
        usage.give_back(state, state.classes[attempt.cls], attempt)

    def _job(self, job_id: JobId) -> Job:
        """Return a job that may be written."""
        if job_id not in self._jobs:
            self._jobs.add(job_id)
            job = self.state.jobs[job_id] = copy.copy(self.state.jobs[job_id])
            job.live = dict(job.live) if job.live else None
        return self.state.jobs[job_id]

    def _class(self, number: int) -> RequestClass:
        """Return a class that may be written."""
        state = self.state
        if number not in self._classes:
            self._classes.add(number)
            found = state.classes[number] = copy.copy(state.classes[number])
            found.waiting, found.moved = dict(found.waiting), dict(found.moved)
            if number in state.waiting:
                state.waiting[number] = found
        return state.classes[number]

    def _refresh(self, job: Job) -> None:
        """Have the class list a job exactly if elements of it may start."""
        state = self.state
        ready = job.ready if not job.waits and state.room(job) > 0 else EMPTY
        for cls in job.classes():
            found = self._class(cls)
            among = found.moved if job.offset else found.waiting
            if not job.of_class(cls, ready):
                among.pop(job.id, None)
            elif job.id not in among:
                among[job.id] = None
                found.sorted = False
            if found.has_waiting:
                state.waiting[cls] = found
            else:
                state.waiting.pop(cls, None)
        if not ready:
            state.reservations.pop(job.id, None)


def _copy_of(pools: PoolTable) -> PoolTable:
    other = copy.copy(pools)
    other.used = dict(pools.used)
    return other
