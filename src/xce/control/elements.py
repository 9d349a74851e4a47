"""What records bring to elements that wait for those of other arrays."""

from collections.abc import Iterable, Mapping

from xce.control.due import withdraw_elements
from xce.control.selection import index_runs
from xce.model.dependency import Condition
from xce.model.ids import Index, JobId, Micros
from xce.model.ranges import EMPTY, Ranges, from_runs, intersect, subtract, unite
from xce.model.record import (
    Ended,
    JobSubmitted,
    Record,
    Started,
    Withdrawn,
)
from xce.model.record_elements import ElementsDoomed, ElementsReleased
from xce.model.record_modify import JobModified
from xce.model.record_post import Posted
from xce.resreq.elements import is_by_element, split_elements
from xce.state.cluster import ClusterState
from xce.state.elements import probe_elements
from xce.state.job import Job
from xce.state.view import probe


def note_elements(state: ClusterState, record: Record, found: dict[JobId, Ranges]) -> None:
    """Add to ``found`` the elements for which a record, which is applied, may have changed much."""
    if not state.dependents:
        return
    match record:
        case JobSubmitted() | JobModified():
            job = state.jobs[record.job]
            if job.awaiting:
                found[job.id] = job.awaiting
        case Ended() | Started():
            columns = zip(record.jobs, record.indices, record.indices, strict=True)
            _add(state, record.jobs, columns, found)
        case Withdrawn():
            columns = zip(record.jobs, record.firsts, record.lasts, strict=True)
            _add(state, record.jobs, columns, found)
        case Posted():
            run = (record.job, record.index, record.index)
            if record.index < 0:
                run = (record.job, 0, 1 << 62)
            _add(state, [record.job], [run], found)
        case _:
            # Counts take no elements, and nothing else is asked of one.
            pass


def _add(
    state: ClusterState,
    jobs: Iterable[JobId],
    runs: Iterable[tuple[JobId, Index, Index]],
    found: dict[JobId, Ranges],
) -> None:
    """Add the elements that wait for elements of ``jobs``, of which ``runs`` have changed."""
    waiting = {
        job_id: [state.jobs[one] for one in state.dependents[job_id] if state.jobs[one].awaiting]
        for job_id in dict.fromkeys(jobs)
        if job_id in state.dependents
    }
    if not any(waiting.values()):
        return
    touched: dict[JobId, list[tuple[int, int]]] = {}
    for job_id, first, last in runs:
        if waiting.get(job_id):
            touched.setdefault(job_id, []).extend(state.jobs[job_id].positions(first, last))
    for job_id, changed in touched.items():
        positions = from_runs(changed)
        for job in waiting[job_id]:
            among = _affected(job, job_id, positions)
            found[job.id] = unite(found.get(job.id, EMPTY), among)


def _affected(job: Job, subject: JobId, positions: Ranges) -> Ranges:
    """Return the elements of a job for which a change of elements of another one counts."""
    assert job.dependency is not None
    if is_by_element(job.dependency, subject):
        return intersect(positions, job.awaiting)
    return job.awaiting


def judge_elements(
    state: ClusterState, elements: Mapping[JobId, Ranges], now_us: Micros
) -> list[Record]:
    """Return which of ``elements`` wait no more, and which wait in vain."""

    def ask(condition: Condition, job: JobId, index: int) -> tuple[bool, bool]:
        return probe(state, condition, job, index)

    def ask_elements(condition: Condition, job: JobId, among: Ranges) -> tuple[Ranges, Ranges]:
        return probe_elements(state, condition, job, among)

    released: dict[JobId, Ranges] = {}
    orphans: dict[JobId, Ranges] = {}
    doomed: dict[JobId, Ranges] = {}
    for job_id in sorted(elements):
        job = state.jobs[job_id]
        among = intersect(elements[job_id], job.awaiting)
        if not among or job.dependency is None:
            continue
        holds, never = split_elements(job.dependency, among, ask, ask_elements)
        for _, ranges in job.dooms:
            never = subtract(never, ranges)
        if holds:
            released[job_id] = holds
        if never:
            (orphans if state.spec(job).ends_as_orphan else doomed)[job_id] = never
    return [*_release(state, released), *_doom(state, orphans, doomed, now_us)]


def _columns(
    state: ClusterState, elements: Mapping[JobId, Ranges]
) -> tuple[list[JobId], list[Index], list[Index]]:
    runs = [
        (job_id, first, last)
        for job_id, ranges in elements.items()
        for first, last in index_runs(state.jobs[job_id], ranges)
    ]
    return [job for job, _, _ in runs], [lo for _, lo, _ in runs], [hi for _, _, hi in runs]


def _release(state: ClusterState, released: Mapping[JobId, Ranges]) -> list[Record]:
    return [ElementsReleased(*_columns(state, released))] if released else []


def _doom(
    state: ClusterState,
    orphans: Mapping[JobId, Ranges],
    doomed: Mapping[JobId, Ranges],
    now_us: Micros,
) -> list[Record]:
    """Return that elements wait in vain; orphans end at once, others after the grace."""
    records: list[Record] = []
    grace_us = state.config.orphan_grace_us
    if orphans:
        records.append(ElementsDoomed(*_columns(state, orphans), now_us))
        records.append(withdraw_elements(state, orphans, now_us))
    if doomed:
        ends_at_us = 0 if grace_us < 0 else now_us + grace_us
        records.append(ElementsDoomed(*_columns(state, doomed), ends_at_us))
        if grace_us == 0:
            records.append(withdraw_elements(state, doomed, now_us))
    return records
