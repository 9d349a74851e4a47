"""Which jobs a command is about: named ones with their refusals, or all that match."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

import msgspec

from xce.control.dependency import matches
from xce.model.command import Selection
from xce.model.ids import Index, JobId
from xce.model.permission import Actor, Permission
from xce.model.ranges import EMPTY, ZERO, Ranges, from_sorted, intersect, unite
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.job import Job
from xce.state.names import all_jobs_of
from xce.state.rights import OWNER

_PEND: Final = "pend"


class Selected(msgspec.Struct, frozen=True, gc=False):
    """One job that a command is about."""

    job: JobId
    positions: Ranges | None
    """None: the whole job."""
    first: Index = -1
    last: Index = -1
    """The index run as asked for; -1: the whole job."""
    basis: str = OWNER
    """On what ground the command is allowed, see `xce.state.rights`."""


def select(
    state: ClusterState,
    selection: Selection,
    *,
    actor: Actor,
    permission: Permission,
    with_finished: bool = False,
) -> list[Selected | Refusal]:
    """Return what a selection names, in the order asked for, else in order of submission.

    A job that does not exist, has ended (unless ``with_finished``) or that ``actor`` may not touch
    is a refusal when it was named; when it only matched a filter it is left out.
    """
    if not selection.jobs:
        found = list(_matching(state, selection, actor, permission, with_finished=with_finished))
        if selection.newest and found:
            found = [one for one in found if one.job == found[-1].job]
        return list(found) or [
            Refusal(RefusalCode.UNKNOWN_JOB, "no job matches", lsf="No matching job found")
        ]
    results: list[Selected | Refusal] = []
    for job_id, runs in selection.jobs:
        job = state.jobs.get(job_id)
        basis, refusal = _judge(state, job, job_id, actor, permission, with_finished=with_finished)
        if refusal is not None or job is None:
            results.append(refusal or refuse_unknown(job_id))
        elif not runs:
            results.append(Selected(job_id, None, basis=basis))
        else:
            results.extend(_element_run(job, first, last, basis) for first, last in runs)
    return results


def refuse_unknown(job_id: JobId) -> Refusal:
    """Return the refusal of a job that is not there."""
    return Refusal(
        RefusalCode.UNKNOWN_JOB,
        f"no job has the id {job_id}",
        lsf="No matching job found",
        job=job_id,
    )


def refuse_finished(job_id: JobId) -> Refusal:
    """Return the refusal of a job that is over."""
    return Refusal(
        RefusalCode.ALREADY_FINISHED,
        f"job {job_id} has already finished",
        lsf="Job has already finished",
        job=job_id,
    )


def basis_of(state: ClusterState, job: Job, actor: Actor, permission: Permission) -> str:
    """Return on what ground ``actor`` may do something to ``job``; empty: he may not."""
    if job.owner.user == actor.user:
        return OWNER
    key = state.key(job)
    return state.rights.basis(
        actor, permission, owner=job.owner.user, queue=key.queue, project=key.project
    )


def refuse_denied(
    state: ClusterState, job: Job, actor: Actor, permission: Permission
) -> Refusal | None:
    """Return the refusal of something that is not allowed; of what may not be seen: it is not
    there.
    """
    if basis_of(state, job, actor, permission):
        return None
    if not basis_of(state, job, actor, Permission.JOB_VIEW):
        return refuse_unknown(job.id)
    return Refusal(
        RefusalCode.NOT_YOURS,
        f"job {job.id} belongs to {job.owner.user}; you lack the permission {permission}",
        lsf="User permission denied",
        job=job.id,
        permission=permission,
    )


def _judge(
    state: ClusterState,
    job: Job | None,
    job_id: JobId,
    actor: Actor,
    permission: Permission,
    *,
    with_finished: bool,
) -> tuple[str, Refusal | None]:
    """Return on what ground a named job may be touched, or why it may not."""
    if job is None:
        return "", refuse_unknown(job_id)
    basis = basis_of(state, job, actor, permission)
    if not basis:
        return "", refuse_denied(state, job, actor, permission)
    if job.is_finished and not with_finished:
        return basis, refuse_finished(job_id)
    return basis, None


def refuse_elements(job_id: JobId, first: Index, last: Index) -> Refusal:
    """Return the refusal of elements that are not there."""
    text = f"job {job_id} has no element {first}" + (f"-{last}" if last != first else "")
    return Refusal(
        RefusalCode.UNKNOWN_JOB,
        text,
        lsf="No matching job found",
        job=job_id,
        first=first,
        last=last,
    )


def _element_run(job: Job, first: Index, last: Index, basis: str) -> Selected | Refusal:
    positions = job.positions(first, last)
    if not positions:
        return refuse_elements(job.id, first, last)
    # What is told of a run ends with the array: nothing is said of elements that never were.
    there = index_runs(job, positions)
    return Selected(job.id, positions, there[0][0], there[-1][1], basis)


def _matching(
    state: ClusterState,
    selection: Selection,
    actor: Actor,
    permission: Permission,
    *,
    with_finished: bool,
) -> list[Selected]:
    """Return the jobs that match every filter and that ``actor`` may touch."""
    known = state.names if with_finished else state.unfinished
    users = [selection.user] if selection.user else sorted(known)
    if not state.rights.may_anywhere(actor, permission):
        users = [user for user in users if user == actor.user]
    if with_finished:
        ids = [job for user in users for job in all_jobs_of(state.names, user)]
    else:
        ids = [job for user in users for job in state.unfinished.get(user, ())]
    ids.sort()
    there = _on_host(state, selection.host) if selection.host else {}
    if selection.host:
        ids = [job for job in ids if job in there]
    jobs = _filter(state, [state.jobs[job] for job in ids], selection)
    found: list[Selected] = []
    # A class has one owner, queue and project, and there may be a million jobs of few classes.
    bases: dict[int, str] = {}
    for job in jobs:
        basis = bases.get(job.cls)
        if basis is None:
            basis = bases[job.cls] = basis_of(state, job, actor, permission)
        if not basis:
            continue
        part = _of_forms(state, job, selection) if job.variants else None
        if selection.host and job.array is not None:
            part = intersect(there[job.id], part if part is not None else whole(job))
        if part == EMPTY:
            continue
        if selection.state:
            found.extend(_in_state(job, selection.state, basis, part))
        else:
            found.append(Selected(job.id, part, -1, -1, basis))
    return found


def _filter(state: ClusterState, jobs: list[Job], selection: Selection) -> list[Job]:
    """Return the jobs that match the filters other than the user and the host, as far as a whole
    job does.
    """
    if selection.queue:
        queue = selection.queue
        jobs = [job for job in jobs if job.variants or state.key(job).queue == queue]
    if selection.group:
        jobs = [job for job in jobs if state.key(job).group == selection.group]
    if selection.app:
        jobs = [job for job in jobs if job.variants or state.key(job).app == selection.app]
    if selection.name:
        jobs = [job for job in jobs if matches(state.spec(job).name, selection.name)]
    return jobs


def _on_host(state: ClusterState, host: str) -> dict[JobId, Ranges]:
    """Return what lives on a host, wholly or in part, by job."""
    number = state.hosts.number.get(host)
    places = sorted(
        place
        for first, each in state.on_host.items()
        for place in each
        if first == number
        or ((attempt := state.attempt(*place)) is not None and number in attempt.hosts)
    )
    return {
        job: from_sorted(position for _, position in each)
        for job, each in groupby(places, itemgetter(0))
    }


def still_in_state(
    state: ClusterState, items: Sequence[Selected], wanted: str
) -> Iterator[Selected]:
    """Yield what of the items is still in the state by which it was selected: a command about very
    many jobs comes to some of them later.
    """
    for item in items:
        job = state.jobs.get(item.job)
        if job is None:
            continue
        if job.pending is ZERO and job.array is None and wanted == _PEND:
            yield item
        else:
            yield from _in_state(job, wanted, item.basis, item.positions)


def _in_state(job: Job, state: str, basis: str, among: Ranges | None) -> list[Selected]:
    """Return the elements of a job that pend, run or are suspended, as runs."""
    if state == _PEND:
        found = job.pending
    else:
        live = job.live or {}
        wanted = state == "susp"
        found = from_sorted(sorted(at for at in live if live[at].suspended == wanted))
        if wanted:
            found = unite(job.held, found)
    if among is not None:
        found = intersect(found, among)
    if job.array is None:
        return [Selected(job.id, None, basis=basis)] if found else []
    runs = zip(found, index_runs(job, found), strict=True)
    return [Selected(job.id, (run,), first, last, basis) for run, (first, last) in runs]


def _of_forms(state: ClusterState, job: Job, selection: Selection) -> Ranges | None:
    """Return which elements of a job are in the queue and of the profile that are asked for; None:
    all of them.
    """
    found = EMPTY
    for cls, _, part in job.forms(whole(job)):
        key = state.classes[cls].key
        if selection.queue in ("", key.queue) and selection.app in ("", key.app):
            found = unite(found, part)
    return None if found == whole(job) else found


def live_positions(job: Job, positions: Ranges | None) -> list[int]:
    """Return the positions of the live attempts that are meant, in rising order."""
    live = job.live or {}
    if positions is None:
        return sorted(live)
    return sorted(p for p in live if any(first <= p <= last for first, last in positions))


def index_runs(job: Job, positions: Ranges) -> list[tuple[Index, Index]]:
    """Return runs of positions as runs of indices."""
    return [(job.index(first), job.index(last)) for first, last in positions]


def whole(job: Job) -> Ranges:
    """Return all positions of ``job``."""
    return ((0, job.size - 1),)


def waiting_positions(job: Job) -> Ranges:
    """Return the positions that pend or are held."""
    return unite(job.pending, job.held)
