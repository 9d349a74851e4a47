"""`KillJobs`, `SignalJobs`, `StopJobs`, `ResumeJobs` to records, a slice of jobs at a time.

A command that touches many jobs is decided in slices (`SLICE` jobs, an entry each), so that no
step is long.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from xce.control.loss import add_end
from xce.control.selection import (
    Selected,
    index_runs,
    live_positions,
    waiting_positions,
    whole,
)
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
from xce.model.job import EndCause
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

Results = list[Accepted | Refusal]


def actor_of(
    command: KillJobs | SignalJobs | StopJobs | ResumeJobs | RequeueJobs | MoveJobs | SwitchJobs,
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
        if positions is ZERO and job.array is None:
            # By far the most frequent: a command may be about a million of them.
            self.jobs.append(job.id)
            self.firsts.append(0)
            self.lasts.append(0)
            return
        for first, last in index_runs(job, positions):
            self.jobs.append(job.id)
            self.firsts.append(first)
            self.lasts.append(last)


class Fresh:
    """What earlier items of the same command did not name: ``bkill 7 7[1]`` names 7[1] once."""

    def __init__(self) -> None:
        self._named: dict[JobId, Ranges] = {}

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


def _each_meant(
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
    state: ClusterState, command: KillJobs, items: Sequence[Selected], now_us: Micros
) -> tuple[list[Record], Results]:
    """Return what ends: waiting elements at once, live ones by a decision that hosts carry out."""
    results: Results = []
    withdrawn: dict[EndCause, Runs] = {}
    decided: dict[EndCause, Runs] = {}
    removed = Ended([], [], [], [], [], [], [], [], [], [], [], [])
    fresh = Fresh()
    own = _cause(command, is_own=True)
    others = _cause(command, is_own=False)
    for item, job, waiting, live in _each_meant(state, items, results):
        cause = own if job.owner.user == command.by else others
        if waiting:
            withdrawn.setdefault(cause, Runs()).add(job, fresh.take(job, waiting))
        if not live:
            results.append(Accepted(item.job, item.first, item.last, "killed"))
            continue
        fresh_news = fresh.take(job, _live_news(state, job, item, live, force=command.force))
        decided.setdefault(cause, Runs()).add(job, fresh_news)
        if command.force:
            _remove(state, job, fresh_news, removed, (cause, now_us))
        results.append(Accepted(item.job, item.first, item.last, "killed"))
    records: list[Record] = [
        Withdrawn(runs.jobs, runs.firsts, runs.lasts, cause, command.by, now_us)
        for cause, runs in withdrawn.items()
        if runs.jobs
    ]
    records.extend(
        EndDecided(runs.jobs, runs.firsts, runs.lasts, cause, command.by, command.force, now_us)
        for cause, runs in decided.items()
        if runs.jobs
    )
    if removed.jobs:
        records.append(removed)
    return records, results


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
            removed.causes[-1] = int(cause)


def _cause(command: KillJobs | SignalJobs, *, is_own: bool) -> EndCause:
    if isinstance(command, KillJobs) and command.force:
        return EndCause.FORCE_OWNER if is_own else EndCause.FORCE_ADMIN
    return EndCause.OWNER if is_own else EndCause.ADMIN


def _is_news(job: Job, position: int, *, force: bool) -> bool:
    """Whether a decision to end this attempt adds to an earlier one; the first cause stands."""
    assert job.live is not None
    attempt = job.live[position]
    is_open = attempt.end_cause == EndCause.NONE or attempt.requeue
    return is_open or (force and not attempt.end_force)


def decide_signal(
    state: ClusterState, command: SignalJobs, items: Sequence[Selected], now_us: Micros
) -> tuple[list[Record], Results]:
    """Return the signals to live attempts; a signal that ends withdraws pending elements."""
    results: Results = []
    signaled, fresh = Runs(), Fresh()
    withdrawn: dict[EndCause, Runs] = {}
    for item, job, waiting, live in _each_meant(state, items, results):
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
    for item, job, waiting, live in _each_meant(state, items, results):
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
    for item, job, _waiting, live in _each_meant(state, items, results):
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
