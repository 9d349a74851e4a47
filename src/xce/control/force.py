"""`ForceJob` to records: a pending job is started at once where an administrator says (``brun``).

Its turn, its priority, reservations of others and the state of its queue do not count. What it asks
for does, and so does what is free: it is placed by the scheduler's own search among the named
hosts, and the placement is checked as any other is. Nothing is ever given out twice.
"""

import copy
from typing import Final

import msgspec
import numpy as np

from xce.control.accept import accept_start
from xce.control.selection import refuse_denied, refuse_finished, refuse_unknown
from xce.model.command import Accepted, ForceJob
from xce.model.ids import Micros
from xce.model.permission import Actor, Permission
from xce.model.plan import BulkStart, GangStart, StartRule
from xce.model.ranges import EMPTY, contains
from xce.model.reason import render_plain
from xce.model.record import Record
from xce.model.refusal import Refusal, RefusalCode
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.state.cluster import ClusterState
from xce.state.job import Job
from xce.state.view import pend_reason

HOSTS_MAX: Final = 1_000
"""Most hosts that one command may name."""
_LSF: Final = "Not enough host(s) currently eligible"
Decided = tuple[list[Record], list[Accepted | Refusal]]


def decide_force(state: ClusterState, command: ForceJob, now_us: Micros) -> Decided:
    """Return the start of a job or element, or why it does not start there now."""
    job = state.jobs.get(command.job)
    if job is None:
        return [], [refuse_unknown(command.job)]
    position = job.position(command.index)
    refusal = _refuse_caller(state, command, job) or _refuse_state(state, command, job, position)
    if refusal is None:
        refusal = _refuse_hosts(state, command)
    if refusal is not None or position is None:
        return [], [refusal or refuse_unknown(job.id)]
    found = _place(state, command, job, position, now_us)
    if isinstance(found, Refusal):
        return [], [found]
    record = accept_start(state, found, now_us)
    if record is None:
        text = f"job {job.id} cannot be started on these hosts as they are"
        return [], [_refusal(command, RefusalCode.WRONG_STATE, text, _LSF)]
    index = command.index if job.array is not None else -1
    return [record], [Accepted(job.id, index, index, "forced")]


def basis_of_force(state: ClusterState, command: ForceJob) -> str:
    """Return on what ground somebody may force a job; empty: he may not."""
    job = state.jobs.get(command.job)
    if job is None:
        return ""
    key, actor = state.key(job), Actor(command.by, command.groups, command.is_admin)
    # That a job is his own gives nobody the right to start it before others'.
    return state.rights.basis(actor, Permission.JOB_FORCE, queue=key.queue, project=key.project)


def _refusal(command: ForceJob, code: RefusalCode, text: str, lsf: str = "") -> Refusal:
    index = command.index or -1
    return Refusal(code, text, lsf=lsf, job=command.job, first=index, last=index)


def _refuse_caller(state: ClusterState, command: ForceJob, job: Job) -> Refusal | None:
    actor = Actor(command.by, command.groups, command.is_admin)
    refusal = refuse_denied(state, job, actor, Permission.JOB_VIEW)
    if refusal is not None or basis_of_force(state, command):
        return refusal
    permission = Permission.JOB_FORCE
    return Refusal(
        RefusalCode.NOT_YOURS,
        f"you lack the permission {permission}, which starts jobs out of their turn",
        lsf="User permission denied", job=job.id, permission=permission,
    )  # fmt: skip


def _refuse_state(
    state: ClusterState, command: ForceJob, job: Job, position: int | None
) -> Refusal | None:
    """Refuse what does not pend for room alone."""
    if job.is_finished:
        return refuse_finished(job.id)
    if position is None:
        if job.array is not None and command.index == 0:
            text = f"job {job.id} is an array: name an element of it"
            return _refusal(command, RefusalCode.BAD_ARRAY, text, "Job array index error")
        return msgspec.structs.replace(
            refuse_unknown(job.id), first=command.index, last=command.index
        )
    if contains(job.held, position, position):
        text = f"job {job.id} is held: release it first (bresume)"
        return _refusal(command, RefusalCode.WRONG_STATE, text)
    if not contains(job.pending, position, position):
        text = f"job {job.id} has started, or is over"
        return _refusal(command, RefusalCode.WRONG_STATE, text, "Job has already started")
    if job.waits or contains(job.awaiting, position, position):
        reason = render_plain(pend_reason(state, job, position=position), now_us=state.now_us)
        text = f"job {job.id} does not wait for room: {reason}; change that first (bmod)"
        return _refusal(command, RefusalCode.WRONG_STATE, text)
    if job.array is not None and state.room(job) <= 0:
        text = f"as many elements of job {job.id} run as its limit {job.array.limit} lets"
        return _refusal(command, RefusalCode.WRONG_STATE, text)
    queue = state.classes[job.form_at(position)[0]].key.queue
    if not command.is_firm and not state.is_window_open(queue):
        text = f"the run windows of queue {queue} are closed, which would suspend it: use -f"
        return _refusal(command, RefusalCode.WRONG_STATE, text)
    return None


def _refuse_hosts(state: ClusterState, command: ForceJob) -> Refusal | None:
    table = state.hosts
    for name in command.hosts:
        number = table.number.get(name)
        if number is None or not table.is_configured[number]:
            text = f"there is no host {name}"
            lsf = "Bad host name, host group name or cluster name"
            return _refusal(command, RefusalCode.UNKNOWN_HOST, text, lsf)
    if not 0 < len(command.hosts) <= HOSTS_MAX:
        text = f"from 1 to {HOSTS_MAX} hosts are named"
        return _refusal(command, RefusalCode.BAD_REQUEST, text)
    return None


def _place(
    state: ClusterState, command: ForceJob, job: Job, position: int, now_us: Micros
) -> BulkStart | GangStart | Refusal:
    """Return where an element goes on the hosts that are named, or why nowhere."""
    alone = _alone(state, command, job, position)
    memory = Memory()
    plan = run_session(alone, now_us=now_us, memory=memory, until=job.id)
    rule = StartRule.FIRM if command.is_firm else StartRule.FORCED
    starts: tuple[BulkStart | GangStart, ...] = (*plan.gangs, *plan.bulk)
    if starts:
        return msgspec.structs.replace(starts[0], rule=rule)
    asleep = memory.sleepers.get(job.form_at(position)[0])
    why = ""
    if asleep is not None:
        # That it never fits there says nothing of the other hosts.
        reason = msgspec.structs.replace(asleep.reason, unsatisfiable=False)
        why = f": {render_plain(reason, now_us=now_us)}"
    text = f"job {job.id} does not fit on {', '.join(command.hosts[:20])} now{why}"
    return _refusal(command, RefusalCode.WRONG_STATE, text, _LSF)


def _alone(state: ClusterState, command: ForceJob, job: Job, position: int) -> ClusterState:
    """Return a state in which one element waits, and only the named hosts are there.

    What is changed is copied before; a session only reads.
    """
    alone = copy.copy(state)
    only = copy.copy(job)
    only.pending, only.awaiting = ((position, position),), EMPTY
    alone.jobs = {**state.jobs, job.id: only}
    cls = job.form_at(position)[0]
    found = copy.copy(state.classes[cls])
    found.waiting, found.moved = ({}, {job.id: None}) if job.offset else ({job.id: None}, {})
    found.sorted = True
    alone.classes = {**state.classes, cls: found}
    alone.waiting = {cls: found}
    alone.reservations = {}
    place = (job.id, command.index)
    alone.holds = {place: state.holds[place]} if place in state.holds else {}
    alone.hosts = table = copy.copy(state.hosts)
    named = [table.number[name] for name in command.hosts]
    table.is_configured = np.zeros_like(table.is_configured)
    table.is_configured[named] = True
    table.change += 1
    queue = state.queues[found.key.queue]
    queue = msgspec.structs.replace(queue, active=True, preempt=())
    if command.is_firm:
        queue = msgspec.structs.replace(queue, run_windows=())
        alone.windows = {
            name: window for name, window in state.windows.items() if name != queue.name
        }
    alone.queues = {**state.queues, queue.name: queue}
    return alone
