"""An idempotency key that counts, and which jobs its lines came to.

Lines of a bulk mostly come to jobs that follow one another, so that they are kept as runs: a bulk
of a million lines takes a few numbers, not a million.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TypeAlias

import msgspec

from xce.model.ids import SECOND_US, JobId, Micros

Run: TypeAlias = tuple[int, JobId, int]
"""A line, its job, and for how many lines it goes on so, job after job. A job 0: they were refused.
"""


class KeyUse(msgspec.Struct, gc=False, array_like=True):
    """An idempotency key: since when it counts, and the jobs of its lines."""

    at_us: Micros
    lines: dict[int, JobId] | None = None
    """The same as ``runs``, in snapshots of earlier releases."""
    runs: list[Run] = []
    """In order; no two have a line in common."""

    def note(self, line: int, jobs: Sequence[JobId]) -> None:
        """Have the jobs of the lines from ``line`` on; a job 0: the line was refused."""
        for run in _runs(enumerate(jobs, line)):
            last = self.runs[-1] if self.runs else None
            if last is not None and _follows(last, *run[:2]):
                self.runs[-1] = (last[0], last[1], last[2] + run[2])
            else:
                insort(self.runs, run)

    def has_any(self, line: int, count: int) -> bool:
        """Return whether one of ``count`` lines is known, from ``line`` on."""
        place = bisect_right(self.runs, line, key=itemgetter(0))
        if place and line < self.runs[place - 1][0] + self.runs[place - 1][2]:
            return True
        return place < len(self.runs) and self.runs[place][0] < line + count

    def job_of(self, line: int) -> JobId:
        """Return the job of a line; 0: there is none."""
        place = bisect_right(self.runs, line, key=itemgetter(0))
        first, job, count = self.runs[place - 1] if place else (0, 0, 0)
        return job + line - first if job and line < first + count else 0

    def settle(self) -> None:
        """Have as runs what an earlier release has stored."""
        if self.lines is not None:
            self.runs, self.lines = list(_runs(sorted(self.lines.items()))), None


def _follows(run: Run, line: int, job: JobId) -> bool:
    """Return whether a line with its job goes on with a run."""
    first, begun, count = run
    return line == first + count and job == (begun and begun + count)


def _runs(jobs: Iterable[tuple[int, JobId]]) -> Iterable[Run]:
    """Yield the runs of lines with their jobs, which are in order."""
    run: Run | None = None
    for line, job in jobs:
        if run is not None and _follows(run, line, job):
            run = (run[0], run[1], run[2] + 1)
            continue
        if run is not None:
            yield run
        run = (line, job, 1)
    if run is not None:
        yield run


def key_time_us(key: str) -> Micros:
    """Return when a timed key ``<epoch seconds>-<random>`` was made; 0: it is not timed."""
    seconds, dash, _ = key.partition("-")
    is_timed = dash and seconds.isascii() and seconds.isdecimal() and len(seconds) <= 12
    return int(seconds) * SECOND_US if is_timed else 0
