"""`RequeueJobs` to records: jobs that pend again under their ids.

What runs is ended first, and pends when it is gone. What has ended pends at once. What pends goes
to the end of its queue; so does a job that is no array, whatever it was.
"""

from collections.abc import Sequence
from typing import Final

from xce.control.kill import Fresh, Runs
from xce.control.selection import Selected, live_positions, whole
from xce.model.command import Accepted, RequeueJobs
from xce.model.ids import Index, JobId, Micros
from xce.model.job import EndCause, Outcome
from xce.model.ranges import Ranges, count, from_sorted, intersect, positions
from xce.model.record import EndDecided, Held, JobsMoved, Record, Reopened
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.job import Job
from xce.state.view import stat_of_attempt

REOPENED_MAX: Final = 100_000
"""Most ended elements of a job that are requeued at once."""
_LINES: Final = 1 << 20
"""More than the jobs of one entry."""


class _Draft:
    """What one command does, as it grows."""

    def __init__(self, state: ClusterState, command: RequeueJobs) -> None:
        self.state = state
        self.command = command
        self.ending: dict[EndCause, Runs] = {}
        self.reopened: dict[EndCause, tuple[list[JobId], list[Index], list[int]]] = {}
        self.held = Runs()
        self.moved: dict[JobId, None] = {}
        self.fresh = Fresh()

    def take(self, job: Job, item: Selected) -> bool:
        """Requeue what is meant of a job; return whether there was anything."""
        owner = job.owner.user == self.command.by
        cause = EndCause.REQUEUE_OWNER if owner else EndCause.REQUEUE_ADMIN
        found = [
            self._take_live(job, item, cause),
            self._take_ended(job, item, cause),
            self._take_pending(job, item),
        ]
        if any(found) and job.array is None:
            self.moved[job.id] = None
        return any(found)

    def _take_live(self, job: Job, item: Selected, cause: EndCause) -> bool:
        live = job.live or {}
        wanted = from_sorted(
            place
            for place in live_positions(job, item.positions)
            if stat_of_attempt(live[place]) in self.command.states
            and live[place].end_cause == EndCause.NONE
        )
        self.ending.setdefault(cause, Runs()).add(job, self.fresh.take(job, wanted))
        return bool(wanted)

    def _take_ended(self, job: Job, item: Selected, cause: EndCause) -> bool:
        outcomes = _outcomes(self.command)
        if not outcomes or not (job.done or job.exited):
            return False
        jobs, indices, found = self.reopened.setdefault(cause, ([], [], []))
        wanted = from_sorted(job.ended_places(outcomes, _named(job, item)))
        for place in positions(self.fresh.take(job, wanted)):
            ended = job.ended_at(place)
            assert ended is not None
            jobs.append(job.id)
            indices.append(job.index(place))
            found.append(ended.outcome)
        return bool(wanted)

    def _take_pending(self, job: Job, item: Selected) -> bool:
        if "PEND" not in self.command.states or not job.pending:
            return False
        wanted = intersect(job.pending, _named(job, item))
        if self.command.hold:
            self.held.add(job, self.fresh.take(job, wanted))
        return bool(wanted)

    def records(self, now_us: Micros) -> list[Record]:
        """Return the records."""
        command, hold = self.command, self.command.hold
        records: list[Record] = [
            EndDecided(
                runs.jobs, runs.firsts, runs.lasts, cause, command.by, False, now_us,
                requeue=True, hold=hold,
            )
            for cause, runs in self.ending.items()
            if runs.jobs
        ]  # fmt: skip
        records.extend(
            Reopened(jobs, indices, outcomes, cause, command.by, hold)
            for cause, (jobs, indices, outcomes) in self.reopened.items()
            if jobs
        )
        if self.held.jobs:
            admin = any(self.state.jobs[j].owner.user != command.by for j in self.held.jobs)
            records.append(Held(self.held.jobs, self.held.firsts, self.held.lasts, admin))
        if self.moved:
            # Behind all that were submitted so far, and behind those that were requeued before.
            last = self.state.next_job - 1
            first = (self.state.seq + 1) * _LINES
            offsets = [first + line for line in range(len(self.moved))]
            records.append(JobsMoved(list(self.moved), [last] * len(self.moved), offsets))
        return records


def _outcomes(command: RequeueJobs) -> set[int]:
    """Return which ends are meant."""
    words = {Outcome.DONE: "DONE", Outcome.EXIT: "EXIT"}
    return {int(outcome) for outcome, word in words.items() if word in command.states}


def _is_too_much(command: RequeueJobs, job: Job, item: Selected) -> bool:
    """Return whether more elements may be meant that have ended than one entry opens again."""
    outcomes = _outcomes(command)
    ended = job.done * (Outcome.DONE in outcomes) + job.exited * (Outcome.EXIT in outcomes)
    return min(ended, count(_named(job, item))) > REOPENED_MAX


def _too_much(job: Job) -> Refusal:
    text = (
        f"job {job.id} has {job.done + job.exited} ended elements, at most {REOPENED_MAX} are "
        "requeued at once: name some of them by their indices"
    )
    return Refusal(RefusalCode.TOO_LARGE, text, job=job.id)


def _named(job: Job, item: Selected) -> Ranges:
    return whole(job) if item.positions is None else item.positions


def decide_requeue(
    state: ClusterState, command: RequeueJobs, items: Sequence[Selected], now_us: Micros
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return what pends again, or will when it is gone, and a result for each item."""
    draft = _Draft(state, command)
    results: list[Accepted | Refusal] = []
    for item in items:
        job = state.jobs.get(item.job)
        if job is None:
            results.append(Refusal(RefusalCode.UNKNOWN_JOB, f"no job has the id {item.job}",
                                   lsf="No matching job found", job=item.job))  # fmt: skip
        elif state.spec(job).terminal is not None:
            text = f"job {job.id} is interactive: nobody would be at its terminal again"
            results.append(Refusal(RefusalCode.WRONG_STATE, text, job=job.id))
        elif _is_too_much(command, job, item):
            results.append(_too_much(job))
        elif draft.take(job, item):
            results.append(Accepted(item.job, item.first, item.last, "requeued"))
        else:
            results.append(_refuse(job, item))
    return draft.records(now_us), results


def _refuse(job: Job, item: Selected) -> Refusal:
    what = f"job {item.job}" if item.first < 0 else f"element {item.first} of job {item.job}"
    live = [(job.live or {})[place] for place in live_positions(job, item.positions)]
    code = RefusalCode.WRONG_STATE
    if any(attempt.requeue for attempt in live):
        text, lsf = f"{what} is being requeued already", "Job has already been requeued"
    elif live:
        text, lsf = f"{what} is being ended, or in another state than asked for", ""
    elif job.pending or job.held:
        text, lsf = f"{what} pends already", "Job has already been requeued"
    else:
        code = RefusalCode.ALREADY_FINISHED
        text = f"{what} has already finished, in another state than asked for or without a start"
        lsf = "Job has already finished"
    return Refusal(code, text, lsf=lsf, job=item.job, first=item.first, last=item.last)
