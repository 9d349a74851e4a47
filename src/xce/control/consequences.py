"""What records bring with them: dependents that may start, or can never start."""

from collections.abc import Iterable, Iterator

from xce.control.due import withdraw_orphans
from xce.control.elements import judge_elements, note_elements
from xce.control.strangers import hold_twins
from xce.model.dependency import Condition
from xce.model.ids import JobId, Micros
from xce.model.ranges import Ranges
from xce.model.record import (
    BulkPlaced,
    Ended,
    GangPlaced,
    Held,
    JobsReleased,
    JobSubmitted,
    LaunchFailed,
    Record,
    Reopened,
    Requeued,
    Started,
    StopsChanged,
    SuspensionAsked,
    SuspensionDone,
    Unheld,
    Withdrawn,
)
from xce.model.record_modify import JobModified
from xce.model.record_post import Posted
from xce.model.record_waiting import DependencyDoomed
from xce.resreq.dependency import Verdict, evaluate, has_moving_test
from xce.state.cluster import ClusterState
from xce.state.job import DOOMED, WAITS_DEPENDENCY
from xce.state.view import probe


def decide_consequences(
    state: ClusterState, records: Iterable[Record], now_us: Micros
) -> list[Record]:
    """Return what follows from ``records``, which are applied already.

    The caller applies the result and asks again, until nothing follows.
    """
    candidates: dict[JobId, None] = {}
    elements: dict[JobId, Ranges] = {}
    for record in records:
        match record:
            case Ended() | Started() | Withdrawn() if not state.dependents:
                pass
            case Ended() | Started() | Withdrawn():
                for job_id in dict.fromkeys(record.jobs):
                    candidates.update(state.dependents.get(job_id, {}))
            case JobSubmitted() | JobModified() if record.dependency is not None:
                candidates[record.job] = None
            case _ if state.dependents:
                candidates.update(_counting(state, record))
            case _:
                pass
        note_elements(state, record, elements)
    found = _judge(state, sorted(candidates), now_us) if candidates else []
    if state.hosts.strange:
        again = (one for one in records if isinstance(one, Requeued | LaunchFailed | Reopened))
        found.extend(held for one in again for held in hold_twins(state, one))
    return [*found, *judge_elements(state, elements, now_us)] if elements else found


def _counting(state: ClusterState, record: Record) -> Iterator[tuple[JobId, None]]:
    """Yield the jobs that wait for a count of elements, or a word, that a record has changed."""
    jobs: Iterable[JobId] = ()
    match record:
        case GangPlaced() | Posted():
            jobs = (record.job,)
        case (
            BulkPlaced() | Held() | Unheld() | SuspensionDone() | Requeued() | LaunchFailed()
            | Reopened() | StopsChanged() | SuspensionAsked()
        ):  # fmt: skip
            jobs = dict.fromkeys(record.jobs)
        case _:
            pass
    for job_id in jobs:
        for waiting in state.dependents.get(job_id, ()):
            tree = state.jobs[waiting].dependency
            if tree is not None and has_moving_test(tree):
                yield waiting, None


def _judge(state: ClusterState, jobs: list[JobId], now_us: Micros) -> list[Record]:
    def ask(condition: Condition, job: JobId, index: int) -> tuple[bool, bool]:
        return probe(state, condition, job, index)

    released: list[JobId] = []
    doomed: list[JobId] = []
    orphans: list[JobId] = []
    for job_id in jobs:
        job = state.jobs[job_id]
        if job.dependency is None or not job.waits & WAITS_DEPENDENCY or job.is_finished:
            continue
        match evaluate(job.dependency, ask):
            case Verdict.HOLDS:
                released.append(job_id)
            case Verdict.NEVER if not job.waits & DOOMED:
                (orphans if state.spec(job).ends_as_orphan else doomed).append(job_id)
            case _:
                pass
    records: list[Record] = []
    if released:
        records.append(JobsReleased(released, from_dependency=True))
    if orphans:
        records.append(DependencyDoomed(orphans, now_us))
        records.append(withdraw_orphans(state, orphans, now_us))
    if doomed:
        grace_us = state.config.orphan_grace_us
        ends_at_us = 0 if grace_us < 0 else now_us + grace_us
        records.append(DependencyDoomed(doomed, ends_at_us))
        if grace_us == 0:
            records.append(withdraw_orphans(state, doomed, now_us))
    return records
