"""The waiting jobs of one class in a session: which comes next, and taking them in order.

Separate jobs are taken many at a time at C speed; arrays run by run. What is done here grows with
what is placed, never with what waits.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import islice, takewhile
from operator import attrgetter, not_
from typing import Final, NamedTuple, TypeAlias

from xce.model.ids import HostNumber, Index, JobId, Micros
from xce.model.ranges import EMPTY, Ranges, count, subtract, take_first
from xce.sched.order import Place, Rank
from xce.state.cluster import ClusterState, RequestClass
from xce.state.job import Job

NO_LIMIT: Final[Place] = (1 << 63, 0, 0)
"""Later than every job."""
_CHUNK: Final = 64
_ARRAY: Final = attrgetter("array")
_LIKENESS: Final = attrgetter("avoid", "waited_us")
Likeness: TypeAlias = tuple[tuple[HostNumber, ...], Micros]
"""What makes jobs of a class differ for placement: hosts they avoid, delays they waited for."""


class Runs(NamedTuple):
    """Columns of element runs ``jobs[i]: firsts[i]..lasts[i]``."""

    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]


def ready_of(job: Job, found: RequestClass) -> Ranges:
    """Return the elements of a job that wait in a class."""
    return job.of_class(found.cls, job.ready) if job.variants else job.ready


class Front:
    """A class in a session's order, or one job of it that was moved to another place."""

    def __init__(
        self,
        state: ClusterState,
        found: RequestClass,
        rank: Rank,
        moved: JobId | None = None,
        aside: Mapping[JobId, Ranges] | None = None,
    ) -> None:
        self.found = found
        self.rank = rank
        self._state = state
        if not found.sorted:
            found.eligible()
        self._is_moved = moved is not None
        self._moved = moved
        self._aside = aside or {}
        """Elements that are passed over."""
        self._ids: Iterator[JobId] = iter(found.waiting if moved is None else (moved,))
        if self._aside:
            self._ids = filter(self._has_others, self._ids)
        self._buffer: list[JobId] = []
        self._at = 0
        self._left: Ranges = EMPTY
        """Elements left of the array in front, when some were taken."""
        self.is_over = False
        """What is left does not fit."""
        self._room = 0
        """How many more of it may run; counts when ``_left`` is not empty."""

    def _has_others(self, item: JobId) -> bool:
        """Return whether a job has elements that are not passed over, and room for them."""
        aside = self._aside.get(item)
        if aside is None:
            return True
        job = self._state.jobs[item]
        ready = ready_of(job, self.found)
        return bool(subtract(ready, aside)) and self._state.room(job) > count(aside)

    def _pending(self, job: Job) -> Ranges:
        aside, ready = self._aside.get(job.id), ready_of(job, self.found)
        return ready if aside is None else subtract(ready, aside)

    def first(self) -> JobId | None:
        """Return the first job that is left, or None."""
        if self._at == len(self._buffer):
            self._fill(1)
        return self._buffer[self._at] if self._at < len(self._buffer) else None

    def place(self) -> Place | None:
        """Return where the first job that is left stands, or None."""
        first = self.first()
        if first is None:
            return None
        return self._job().place if self._is_moved else (first, 0, first)

    @property
    def behind(self) -> Place:
        """The place just behind the first job that is left."""
        beside, offset, job = self._job().place if self._is_moved else (self._job().id, 0, 0)
        return (beside, offset, job + 1) if self._is_moved else (beside, 1, 0)

    def __lt__(self, other: "Front") -> bool:
        """Put elements of one job that are of several classes in an order."""
        return self.found.cls < other.found.cls

    def is_past(self, job_id: JobId) -> bool:
        """Return whether the turn of a job is over, if this is where it waits."""
        if self._state.jobs[job_id].variants:
            return False  # its elements are of several classes: it has several turns
        among = self.found.moved if self._is_moved else self.found.waiting
        if job_id not in among or (self._is_moved and job_id != self._moved):
            return False
        first = self.first()
        return self.is_over or first is None or first > job_id

    @property
    def likeness(self) -> Likeness:
        """What the jobs that are placed together with the first one have in common."""
        likeness: Likeness = _LIKENESS(self._job())
        return likeness

    def element(self) -> tuple[JobId, Index]:
        """Return the first element that is left."""
        job = self._job()
        if job.array is None:
            return job.id, 0
        return job.id, job.index((self._left or self._pending(job))[0][0])

    def is_alone(self, before: Place) -> bool:
        """Return whether the first job is no array, and the next one does not go with it."""
        self._fill(2)
        jobs, ids = self._state.jobs, self._buffer[self._at : self._at + 2]
        if jobs[ids[0]].array is not None:
            return False
        limit = NO_LIMIT[0] if self._is_moved else before[0] + (before[1] > 0)
        return (
            len(ids) == 1
            or ids[1] >= limit
            or jobs[ids[1]].array is not None
            or _LIKENESS(jobs[ids[1]]) != _LIKENESS(jobs[ids[0]])
        )

    def take(self, wanted: int, before: Place) -> tuple[Runs, int]:
        """Take up to ``wanted`` elements in order, and return how many there were.

        It stops at the place ``before``, and where jobs begin to be unlike the first one.
        """
        runs, taken, chunk = Runs([], [], []), 0, _CHUNK
        # A job stands before what was moved behind it.
        limit = NO_LIMIT[0] if self._is_moved else before[0] + (before[1] > 0)
        likeness = self.likeness
        while taken < wanted:
            first = self.first()
            if first is None or first >= limit or self.likeness != likeness:
                break
            if self._job().array is None:
                piece = self._singles(min(wanted - taken, chunk), limit, likeness)
                runs.jobs.extend(piece)
                runs.firsts.extend([0] * len(piece))
                runs.lasts.extend([0] * len(piece))
                taken += len(piece)
                chunk *= 4
            else:
                taken += self._elements(runs, wanted - taken)
        return runs, taken

    def take_one(self) -> tuple[JobId, Index]:
        """Take the first element that is left."""
        job = self._job()
        if job.array is not None:
            runs, _ = self.take(1, NO_LIMIT)
            return runs.jobs[0], runs.firsts[0]
        self._at += 1
        return job.id, 0

    def skip_alike(self) -> None:
        """Leave out the jobs in front that are like the first one."""
        likeness, chunk = self.likeness, _CHUNK
        while self.first() is not None and self.likeness == likeness:
            self._fill(chunk)
            ids = self._buffer[self._at : self._at + chunk]
            found = map(_LIKENESS, map(self._state.jobs.__getitem__, ids))
            self._at += len(list(takewhile(likeness.__eq__, found)))
            self._left = EMPTY
            chunk *= 4

    def _job(self) -> Job:
        if self._at == len(self._buffer):
            self._fill(1)
        return self._state.jobs[self._buffer[self._at]]

    def _fill(self, wanted: int) -> None:
        """Have ``wanted`` ids in the buffer, if there are that many."""
        missing = wanted - (len(self._buffer) - self._at)
        if missing > 0:
            del self._buffer[: self._at]
            self._at = 0
            self._buffer.extend(islice(self._ids, missing))

    def _singles(self, wanted: int, before: JobId, likeness: Likeness) -> list[JobId]:
        """Take up to ``wanted`` jobs that are no arrays; the first is one."""
        self._fill(wanted)
        ids = self._buffer[self._at : self._at + wanted]
        ids = ids[: bisect_left(ids, before)]
        found = list(map(self._state.jobs.__getitem__, ids))
        size = len(list(takewhile(not_, map(_ARRAY, found))))
        size = len(list(takewhile(likeness.__eq__, map(_LIKENESS, found[:size]))))
        self._at += size
        return ids[:size]

    def _elements(self, runs: Runs, wanted: int) -> int:
        """Take up to ``wanted`` elements of the array in front."""
        job = self._job()
        if not self._left:
            self._left = self._pending(job)
            self._room = self._state.room(job) - count(self._aside.get(job.id, EMPTY))
        kept, self._left = take_first(self._left, min(wanted, self._room))
        for first, last in kept:
            runs.jobs.append(job.id)
            runs.firsts.append(job.index(first))
            runs.lasts.append(job.index(last))
        taken = count(kept)
        self._room -= taken
        if self._room == 0 or not self._left:
            self._at += 1
            self._left = EMPTY
        return taken
