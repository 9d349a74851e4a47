"""After a restore: what hosts know of entries that the restored journal lacks (decision X-32).

Ids and attempt numbers that may have been given out by such entries are left out, so that nothing
new is taken for something that runs, or ended, on a host before. What hosts report of them is a
stranger: it is let be and shown, its host takes nothing new until an administrator opens it, and it
is ended, or taken up again (`xce.control.adopt`), only on somebody's word.
"""

from collections.abc import Collection, Iterable
from typing import Final, TypeAlias

from xce.control.loss import add_end, each_place, with_parts
from xce.model.host_record import (
    AdoptionAsked,
    HostsOpened,
    JournalRestored,
    PartsLeft,
    StrangersGone,
    StrangersSeen,
)
from xce.model.ids import SECOND_US, HostNumber, Index, JobId, Micros
from xce.model.job import EndCause, Phase
from xce.model.observation import HostJoined, Reported
from xce.model.ranges import contains
from xce.model.record import Ended, Held, LaunchFailed, Record, Reopened, Requeued
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job

Key: TypeAlias = tuple[JobId, Index, int]
JOBS_SKIPPED: Final = 100_000
"""So many ids are left out: more than are given out between two backups, one hopes; those that
hosts report are left out in any case."""
ATTEMPTS_SKIPPED: Final = 1_000
SKIPPED_PER_S: Final = 10
"""Of both so many more for each second since the last entry that is restored."""
JOBS_RAISED_MAX: Final = 10_000_000
"""Ids that are further away are no reason to leave out what lies between: no host shall use them
up."""
_NAMED: Final = 5
"""So many strangers are named in a host's comment."""
_UNKNOWN: Final = "the journal was restored, and the host does not know this attempt any more"


def decide_restored(state: ClusterState, now_us: Micros) -> list[Record]:
    """Return the record with which the first reign on a restored journal begins.

    The longer ago its last entry, the more is left out: what is given out from now on is not what
    was given out when the same backup was restored before.
    """
    table = state.hosts
    later = max(0, now_us - state.now_us) * SKIPPED_PER_S // SECOND_US
    above = state.attempts_above + ATTEMPTS_SKIPPED + later
    hosts = [
        number
        for number in range(table.count)
        if table.is_configured[number] or table.attempts[number]
    ]
    return [JournalRestored(state.next_job + JOBS_SKIPPED + later, above, hosts)]


def find_strangers(state: ClusterState, seen: HostJoined) -> list[Key]:
    """Return the attempts on a host that were begun by entries which the journal lacks.

    What was to be ended on somebody's word, and is not gone yet, is not among them.
    """
    ending = state.hosts.stale.get(state.hosts.number[seen.host], {})
    keys = ((item.job, item.index, item.attempt) for item in seen.attempts)
    return [key for key in keys if key not in ending and _is_strange(state, *key)]


def _is_strange(state: ClusterState, job_id: JobId, index: Index, number: int) -> bool:
    if job_id >= state.next_job:
        return True
    job = state.jobs.get(job_id)
    if job is None:
        return state.is_lost(job_id)
    position = job.position(index)
    if position is None or not state.lost_jobs:
        return False
    return number > last_number(job, position)


def last_number(job: Job, position: int) -> int:
    """Return the number of the last attempt of an element that the state knows of."""
    if job.live and position in job.live:
        return job.live[position].number
    ended = job.ended_at(position)
    if ended is not None:
        return ended.attempt
    return (job.attempts or {}).get(position, 0)


def decide_strangers(state: ClusterState, number: HostNumber, strange: list[Key]) -> list[Record]:
    """Return the records that note what is strange on a host, and let it take nothing new.

    Elements of which a stranger runs are held: otherwise they would run twice.
    """
    known = state.hosts.strange.get(number, {})
    fresh = [key for key in strange if key not in known]
    records: list[Record] = []
    if strange != list(known):
        records.append(_seen(number, strange))
    near = [job for job, _, _ in strange if job < state.next_job + JOBS_RAISED_MAX]
    highest = max(near, default=0)
    if highest >= state.next_job:
        records.append(JournalRestored(highest + 1, state.attempts_above))
    if fresh and state.hosts.is_open[number]:
        names = ", ".join(map(_label, fresh[:_NAMED]))
        more = f" and {len(fresh) - _NAMED} more" if len(fresh) > _NAMED else ""
        text = f"quarantined: runs what the restored journal does not know: {names}{more}"
        records.append(HostsOpened([number], False, text))
    return [*records, *_hold(state, ((job, index) for job, index, _ in fresh))]


def hold_twins(state: ClusterState, record: Requeued | LaunchFailed | Reopened) -> list[Record]:
    """Return the hold of elements that would start again while a stranger of theirs runs."""
    strange = {key[:2] for keys in state.hosts.strange.values() for key in keys}
    elements = zip(record.jobs, record.indices, strict=True)
    return _hold(state, (element for element in elements if element in strange))


def _hold(state: ClusterState, elements: Iterable[tuple[JobId, Index]]) -> list[Record]:
    """Return the record that holds those of some elements that pend."""
    held = Held([], [], [], by_admin=True)
    for job_id, index in dict.fromkeys(elements):
        job = state.jobs.get(job_id)
        position = job.position(index) if job is not None else None
        if job is None or position is None or not contains(job.pending, position, position):
            continue
        held.jobs.append(job_id)
        held.firsts.append(index)
        held.lasts.append(index)
    return [held] if held.jobs else []


def _label(key: Key) -> str:
    job, index, attempt = key
    return f"{job}[{index}].{attempt}" if index else f"{job}.{attempt}"


def _seen(number: HostNumber, strange: Collection[Key]) -> StrangersSeen:
    return StrangersSeen(
        number, [job for job, _, _ in strange], [index for _, index, _ in strange],
        [attempt for _, _, attempt in strange],
    )  # fmt: skip


def decide_unstarted(
    state: ClusterState, number: HostNumber, known: Collection[Key], now_us: Micros
) -> list[Record]:
    """Return what becomes of attempts that were about to start on a host when the backup was made.

    The host may have had them, and have forgotten them since: it would not start them again.
    """
    if not state.lost_jobs:
        return []
    again = Requeued([], [], [], [])
    ended = Ended([], [], [], [], [], [], [], [], [], [], [], [])
    for job, position, attempt in each_place(state, state.on_host.get(number, ())):
        key = (job.id, job.index(position), attempt.number)
        if attempt.phase != Phase.STARTING or key in known:
            continue
        if not state.is_from_before(job.id, attempt.number):
            continue
        if attempt.end_cause and not attempt.requeue:
            add_end(ended, job, position, attempt, EndCause.STATUS_LOST, now_us)
            continue
        again.details.append((len(again.jobs), _UNKNOWN))
        again.jobs.append(job.id)
        again.indices.append(job.index(position))
        again.causes.append(attempt.end_cause or int(EndCause.STATUS_LOST))
    records: list[Record] = [*([again] if again.jobs else []), *([ended] if ended.jobs else [])]
    return with_parts(state, records)


def detail_of(state: ClusterState, job: Job, attempt: Attempt) -> str:
    """Return what there is to say of an attempt that its host does not know any more."""
    return _UNKNOWN if state.is_from_before(job.id, attempt.number) else ""


def ask_strangers(state: ClusterState, number: HostNumber) -> list[Record]:
    """Return the record with which a host is asked what its strangers are."""
    strange = state.hosts.strange.get(number, {})
    if not strange:
        return []
    columns = [list(column) for column in zip(*strange, strict=True)]
    return [AdoptionAsked(number, *columns)]


def decide_gone(state: ClusterState, number: HostNumber, seen: Reported) -> list[Record]:
    """Return which strangers are no more by what their host reports."""
    strange = state.hosts.strange.get(number, {})
    said = (*seen.gone, *((item.job, item.index, item.attempt) for item in seen.ended))
    gone = [key for key in dict.fromkeys(said) if key in strange]
    return [gone_from((number, key) for key in gone)] if gone else []


def gone_from(rows: Iterable[tuple[HostNumber, Key]]) -> StrangersGone:
    """Return the record by which attempts are no strangers on hosts any more."""
    record = StrangersGone([], [], [], [])
    for number, (job, index, attempt) in rows:
        record.hosts.append(number)
        record.jobs.append(job)
        record.indices.append(index)
        record.attempts.append(attempt)
    return record


def end_strangers(state: ClusterState, numbers: Iterable[HostNumber]) -> list[Record]:
    """Return the records that end what is strange on hosts that are there."""
    left = PartsLeft([], [], [], [])
    records: list[Record] = []
    for number in numbers:
        for job, index, attempt in state.hosts.strange.get(number, {}):
            left.hosts.append(number)
            left.jobs.append(job)
            left.indices.append(index)
            left.attempts.append(attempt)
        records.append(_seen(number, []))
    return [*records, left] if left.hosts else []
