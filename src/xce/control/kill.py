"""`KillJobs`, `SignalJobs`, `StopJobs`, `ResumeJobs` to records, a slice of jobs at a time.

A command that touches many jobs is decided in slices (`SLICE` jobs, an entry each), so that no
step is long.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from xce.control.loss import add_end, with_parts
from xce.control.selection import (
    Selected,
    index_runs,
    live_positions,
    waiting_positions,
    whole,
)
from xce.control.slices import JobControl, Results, runs_of
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
from xce.model.ids import Index, JobId, Micros
from xce.model.job import AS_DONE, EndCause, Outcome
from xce.model.permission import Actor, Permission
from xce.model.ranges import EMPTY, ZERO, Ranges, from_sorted, intersect, positions, subtract, unite
from xce.model.record import (
    EndDecided,
    Ended,
    Held,
    Record,
    SignalAsked,
    SuspensionAsked,
    Unheld,
    Withdrawn,
)
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.job import Job
from xce.state.view import is_unknown

SLICE: Final = 10_000
"""Most jobs that one entry of such a command touches."""
_KILLED: Final = "killed"
_ENDING_SIGNALS: Final = frozenset({2, 9, 15})
"""A pending job has no process: these signals end it, others have nobody to reach."""

PERMISSIONS: Final[dict[type, Permission]] = {
    KillJobs: Permission.JOB_KILL,
    SignalJobs: Permission.JOB_SIGNAL,
    StopJobs: Permission.JOB_STOP,
    ResumeJobs: Permission.JOB_RESUME,
    MoveJobs: Permission.JOB_MOVE,
    RequeueJobs: Permission.JOB_REQUEUE,
    SwitchJobs: Permission.JOB_MODIFY,
}
"""What each command needs of those whose jobs it is not about."""


def actor_of(
    command: JobControl,
) -> Actor:
    """Return who asks for a command."""
    return Actor(command.by, command.groups, command.is_admin)


class Runs:
    """Columns of element runs as they grow."""

    def __init__(self) -> None:
        self.jobs: list[JobId] = []
        self.firsts: list[Index] = []
        self.lasts: list[Index] = []

    def add(self, job: Job, positions: Ranges) -> None:
        """Add the elements at these positions."""
        for first, last in index_runs(job, positions):
            self.jobs.append(job.id)
            self.firsts.append(first)
            self.lasts.append(last)

    def add_whole(self, job: JobId) -> None:
        """Add the only element of a job that is no array."""
        self.jobs.append(job)
        self.firsts.append(0)
        self.lasts.append(0)


class Fresh:
    """What earlier items of the same command did not name: ``bkill 7 7[1]`` names 7[1] once."""

    def __init__(self) -> None:
        self._named: dict[JobId, Ranges] = {}

    def takes_whole(self, job: JobId) -> bool:
        """Return whether the only element of a job is named for the first time."""
        if job in self._named:
            return False
        self._named[job] = ZERO
        return True

    def take(self, job: Job, positions: Ranges) -> Ranges:
        """Return what of ``positions`` is named for the first time."""
        if not positions:
            return EMPTY
        before = self._named.get(job.id)
        if before is None:
            self._named[job.id] = positions
            return positions
        self._named[job.id] = unite(before, positions)
        return subtract(positions, before)


def _parts(job: Job, item: Selected) -> tuple[Ranges, Ranges]:
    """Return the waiting and the live positions that are meant."""
    waiting = waiting_positions(job)
    if item.positions is not None:
        waiting = intersect(waiting, item.positions)
    if not job.live:
        return waiting, EMPTY
    return waiting, from_sorted(live_positions(job, item.positions))


def each_meant(
    state: ClusterState, items: Sequence[Selected], results: Results
) -> Iterator[tuple[Selected, Job, Ranges, Ranges]]:
    """Yield each item with its job and its waiting and live positions.

    An item of which nothing is left gets its refusal in ``results`` instead.
    """
    for item in items:
        job = state.jobs.get(item.job)
        waiting, live = _parts(job, item) if job is not None else (EMPTY, EMPTY)
        if job is None or not (waiting or live):
            results.append(_over(item))
        else:
            yield item, job, waiting, live


def _over(item: Selected) -> Refusal:
    what = f"job {item.job}" if item.first < 0 else f"element {item.first} of job {item.job}"
    return Refusal(
        RefusalCode.ALREADY_FINISHED,
        f"{what} has already finished",
        lsf="Job has already finished",
        job=item.job,
        first=item.first,
        last=item.last,
    )


def decide_kill(
    state: ClusterState,
    command: KillJobs,
    items: Sequence[Selected],
    now_us: Micros,
    *,
    late: list[Selected] | None = None,
) -> tuple[list[Record], Results]:
    """Return what ends: waiting elements at once, live ones by a decision that hosts carry out.

    Args:
        state: The state.
        command: The command.
        items: What of it is decided now.
        now_us: The present instant.
        late: Takes the jobs that run, about which nothing is decided then; None: all is decided.
    """
    killing = _Killing(state, command, now_us)
    jobs = state.jobs
    for item in items:
        job = jobs.get(item.job)
        if job is not None and killing.takes_whole(job, item):
            continue
        if late is not None and job is not None and job.live:
            late.append(item)
        else:
            killing.take(item)
    return killing.records(), killing.told()


class _Killing:
    """What a kill comes to, as it grows."""

    def __init__(self, state: ClusterState, command: KillJobs, now_us: Micros) -> None:
        self.fresh = Fresh()
        self._results: Results = []
        self._in_runs = command.selection.in_runs and not command.selection.jobs
        self._whole: list[JobId] = []
        """Jobs that are told of in runs."""
        self._state = state
        self._command = command
        self._now_us = now_us
        self._own = _cause(command, is_own=True)
        self._others = _cause(command, is_own=False)
        self._withdrawn: dict[EndCause, Runs] = {self._own: Runs(), self._others: Runs()}
        self._own_waiting = self._withdrawn[self._own]
        self._others_waiting = self._withdrawn[self._others]
        self._decided: dict[EndCause, Runs] = {
            self._live_cause(cause): Runs() for cause in (self._own, self._others)
        }
        self._removed = Ended([], [], [], [], [], [], [], [], [], [], [], [])

    def _cause(self, job: Job) -> EndCause:
        return self._own if job.owner.user == self._command.by else self._others

    def _live_cause(self, cause: EndCause) -> EndCause:
        """Return why what has started ends, which may count as done."""
        return AS_DONE[cause] if self._command.as_done and cause in AS_DONE else cause

    def takes_whole(self, job: Job, item: Selected) -> bool:
        """Take the only, pending element of a job that is no array, if that is what is meant and
        for the first time. By far the most frequent: a command may be about a million of them.
        """
        if job.pending is not ZERO or item.positions is not None or job.live or job.held:
            return False
        job_id = job.id
        if job.array is not None or not self.fresh.takes_whole(job_id):
            return False
        is_own = job.owner.user == self._command.by
        (self._own_waiting if is_own else self._others_waiting).add_whole(job_id)
        if self._in_runs:
            self._whole.append(job_id)
        else:
            self._results.append(Accepted(job_id, -1, -1, _KILLED))
        return True

    def take(self, item: Selected) -> None:
        """Take what is meant by an item."""
        force = self._command.force
        for _, job, waiting, live in each_meant(self._state, (item,), self._results):
            self._withdrawn[self._cause(job)].add(job, self.fresh.take(job, waiting))
            if live:
                cause = self._cause(job)
                news = _live_news(self._state, job, item, live, force=force)
                fresh_news = self.fresh.take(job, news)
                self._decided[self._live_cause(cause)].add(job, fresh_news)
                if force:
                    _remove(self._state, job, fresh_news, self._removed, (cause, self._now_us))
            self._results.append(Accepted(item.job, item.first, item.last, _KILLED))

    def told(self) -> Results:
        """Return what is told of each item, first of those that are told of in runs."""
        return [*runs_of(self._whole, _KILLED), *self._results]

    def records(self) -> list[Record]:
        """Return what is to be written."""
        by, force, now_us = self._command.by, self._command.force, self._now_us
        records: list[Record] = [
            Withdrawn(runs.jobs, runs.firsts, runs.lasts, cause, by, now_us)
            for cause, runs in self._withdrawn.items()
            if runs.jobs
        ]
        records.extend(
            EndDecided(runs.jobs, runs.firsts, runs.lasts, cause, by, force, now_us)
            for cause, runs in self._decided.items()
            if runs.jobs
        )
        if self._removed.jobs:
            records.extend(with_parts(self._state, [self._removed]))
        return records


def _live_news(
    state: ClusterState, job: Job, item: Selected, live: Ranges, *, force: bool
) -> Ranges:
    """Return the live attempts about which a kill says something new."""
    news = from_sorted(
        place for place in live_positions(job, item.positions) if _is_news(job, place, force=force)
    )
    if not force:
        return news
    return unite(news, from_sorted(p for p in positions(live) if _is_away(state, job, p)))


def _is_away(state: ClusterState, job: Job, position: int) -> bool:
    attempt = state.attempt(job.id, position)
    return attempt is not None and is_unknown(state, attempt)


def _remove(
    state: ClusterState, job: Job, named: Ranges, removed: Ended, why: tuple[EndCause, Micros]
) -> None:
    """End attempts on hosts that are away without waiting for them.

    What still runs there is stale when the host comes back.
    """
    cause, now_us = why
    for position in positions(named):
        attempt = state.attempt(job.id, position)
        if attempt is not None and is_unknown(state, attempt):
            add_end(removed, job, position, attempt, cause, now_us)
            removed.causes[-1], removed.outcomes[-1] = int(cause), int(Outcome.EXIT)


def _cause(command: KillJobs | SignalJobs, *, is_own: bool) -> EndCause:
    if isinstance(command, KillJobs) and command.force:
        return EndCause.FORCE_OWNER if is_own else EndCause.FORCE_ADMIN
    return EndCause.OWNER if is_own else EndCause.ADMIN


def _is_news(job: Job, position: int, *, force: bool) -> bool:
    """Whether a decision to end this attempt adds to an earlier one; the first cause stands."""
    assert job.live is not None
    attempt = job.live[position]
    # Who is past its deadline has minutes yet: its owner need not wait for them.
    is_open = attempt.end_cause in (EndCause.NONE, EndCause.DEADLINE) or attempt.requeue
    return is_open or (force and not attempt.end_force)


def decide_signal(
    state: ClusterState, command: SignalJobs, items: Sequence[Selected], now_us: Micros
) -> tuple[list[Record], Results]:
    """Return the signals to live attempts; a signal that ends withdraws pending elements."""
    results: Results = []
    signaled, fresh = Runs(), Fresh()
    withdrawn: dict[EndCause, Runs] = {}
    for item, job, waiting, live in each_meant(state, items, results):
        signaled.add(job, fresh.take(job, live))
        if waiting and command.signal in _ENDING_SIGNALS:
            cause = _cause(command, is_own=job.owner.user == command.by)
            withdrawn.setdefault(cause, Runs()).add(job, fresh.take(job, waiting))
        elif not live:
            text = f"job {item.job} has not started, so signal {command.signal} reaches nobody"
            results.append(
                Refusal(
                    RefusalCode.WRONG_STATE,
                    text,
                    lsf="Job has not started yet",
                    job=item.job,
                    first=item.first,
                    last=item.last,
                )
            )
            continue
        results.append(Accepted(item.job, item.first, item.last, "signaled"))
    records: list[Record] = [
        Withdrawn(runs.jobs, runs.firsts, runs.lasts, cause, command.by, now_us)
        for cause, runs in withdrawn.items()
        if runs.jobs
    ]
    if signaled.jobs:
        records.append(
            SignalAsked(signaled.jobs, signaled.firsts, signaled.lasts, command.signal, command.by)
        )
    return records, results


def decide_stop(
    state: ClusterState, command: StopJobs, items: Sequence[Selected], now_us: Micros
) -> tuple[list[Record], Results]:
    """Return what is held (pending) and what shall be suspended (live)."""
    results: Results = []
    held, suspended, fresh = Runs(), Runs(), Fresh()
    by_admin = False
    for item, job, waiting, live in each_meant(state, items, results):
        by_admin = by_admin or job.owner.user != command.by
        held.add(job, fresh.take(job, intersect(waiting, job.pending)))
        suspended.add(job, fresh.take(job, live))
        results.append(Accepted(item.job, item.first, item.last, "stopped"))
    records: list[Record] = []
    if held.jobs:
        records.append(Held(held.jobs, held.firsts, held.lasts, by_admin))
    if suspended.jobs:
        records.append(
            SuspensionAsked(
                suspended.jobs, suspended.firsts, suspended.lasts, True, command.by, by_admin
            )
        )
    return records, results


def decide_resume(
    state: ClusterState, command: ResumeJobs, items: Sequence[Selected], now_us: Micros
) -> tuple[list[Record], Results]:
    """Return what pends again and what shall run on."""
    results: Results = []
    unheld, resumed, fresh = Runs(), Runs(), Fresh()
    for item, job, _waiting, live in each_meant(state, items, results):
        if _stopped_by_admin(job, item) and not _may_as_another(state, job, command):
            text = f"job {item.job} was stopped by an administrator"
            results.append(
                Refusal(RefusalCode.NOT_YOURS, text, lsf="User permission denied", job=item.job)
            )
            continue
        held = intersect(job.held, whole(job) if item.positions is None else item.positions)
        unheld.add(job, fresh.take(job, held))
        resumed.add(job, fresh.take(job, live))
        results.append(Accepted(item.job, item.first, item.last, "resumed"))
    records: list[Record] = []
    if unheld.jobs:
        records.append(Unheld(unheld.jobs, unheld.firsts, unheld.lasts))
    if resumed.jobs:
        records.append(
            SuspensionAsked(resumed.jobs, resumed.firsts, resumed.lasts, False, command.by)
        )
    return records, results


def _may_as_another(state: ClusterState, job: Job, command: ResumeJobs) -> bool:
    """Return whether a job might be resumed also by one whose job it is not."""
    key, actor = state.key(job), actor_of(command)
    permission = Permission.JOB_RESUME
    return bool(state.rights.basis(actor, permission, queue=key.queue, project=key.project))


def _stopped_by_admin(job: Job, item: Selected) -> bool:
    if job.held and job.held_by_admin:
        return True
    live = job.live or {}
    return any(live[p].suspended_by_admin for p in live_positions(job, item.positions))
