"""A command about many jobs while it is decided, a slice at a time."""

from collections.abc import Sequence

from xce.control.selection import Selected
from xce.model.command import (
    Accepted,
    KillJobs,
    MoveJobs,
    RequeueJobs,
    ResumeJobs,
    SignalJobs,
    StopJobs,
    SwitchJobs,
)
from xce.model.ids import JobId
from xce.model.refusal import Refusal

JobControl = KillJobs | SignalJobs | StopJobs | ResumeJobs | RequeueJobs | MoveJobs | SwitchJobs
Results = list[Accepted | Refusal]


class Slices:
    """What is left to decide of a command, and what came of the rest.

    Args:
        command: The command.
        items: What it is about.
        size: Most items of one slice.
    """

    def __init__(self, command: JobControl, items: list[Selected | Refusal], *, size: int) -> None:
        self.command = command
        self.late: list[Selected] | None = None
        """Jobs that are left for the end, by whoever decides; None: each in its turn.

        A kill that needs several slices leaves those that run. Their slots would be given to jobs
        that it is about, too, and which have not had their turn: these would start, to be killed.
        """
        if isinstance(command, KillJobs) and not command.selection.jobs and len(items) > size:
            self.late = []
        self._items = items
        self._size = size
        self._done = 0
        self._was_late = False
        self._results: Results = []

    @property
    def is_over(self) -> bool:
        """Whether everything is decided."""
        return self._done >= len(self._items) and not self.late

    def take(self) -> list[Selected | Refusal]:
        """Return the next slice."""
        if self._done >= len(self._items) and self.late:
            self._items, self._done, self.late = [*self.late], 0, None
            self._was_late = True
        piece = self._items[self._done : self._done + self._size]
        self._done += len(piece)
        return piece

    def note(self, piece: Sequence[Selected | Refusal], results: Results) -> None:
        """Note what came of a slice."""
        if not self.command.selection.jobs and not any(isinstance(one, Refusal) for one in piece):
            self._results += results
            return
        decided = iter(results)
        self._results += [one if isinstance(one, Refusal) else next(decided) for one in piece]

    def results(self) -> Results:
        """Return what came of everything, in the order in which it is told."""
        selection, found = self.command.selection, self._results
        as_runs = selection.in_runs and not selection.jobs
        if self._was_late or as_runs:
            # Jobs that match a filter are told of as they were submitted.
            found.sort(key=lambda one: one.job)
        return in_runs(found) if as_runs else found


def runs_of(jobs: Sequence[JobId], text: str) -> Results:
    """Return what is told of whole jobs, of those that follow one another as one."""
    found: Results = []
    if not jobs:
        return found
    first = last = jobs[0]
    for job in jobs[1:]:
        if job != last + 1:
            found.append(_run(first, last, text))
            first = job
        last = job
    found.append(_run(first, last, text))
    return found


def in_runs(results: Results) -> Results:
    """Return results with those of whole jobs that follow one another, and are alike, as one."""
    found: Results = []
    for one in results:
        before = found[-1] if found else None
        if (
            isinstance(one, Accepted)
            and isinstance(before, Accepted)
            and one.job == (before.last_job or before.job) + 1
            and _is_plain(one)
            and _is_plain(before)
            and one.text == before.text
        ):
            found[-1] = _run(before.job, one.last_job or one.job, one.text)
        else:
            found.append(one)
    return found


def _is_plain(one: Accepted) -> bool:
    """Return whether nothing is told but that it was done, to a whole job."""
    return one.first < 0 and not (one.queue or one.warning or one.at_us or one.number)


def _run(first: JobId, last: JobId, text: str) -> Accepted:
    return Accepted(first, -1, -1, text, last_job=last if last > first else 0)
