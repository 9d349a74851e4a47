"""Rows about hosts, queues and arrays, read off the state."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import islice
from operator import attrgetter
from typing import Any, Final

import msgspec

from xce.apiserver.gpu_rows import GpuRow, gpu_rows, users_of_gpus
from xce.apiserver.loads import sum_loads
from xce.apiserver.process_limits import limit_row
from xce.apiserver.processor_rows import HostProcessorsRow, host_processors_row
from xce.journal.past import PastJob
from xce.model.config import ExitValues, QueueConfig
from xce.model.display import render_window
from xce.model.exit_values import render_exit_values
from xce.model.ids import SECOND_US, HostNumber
from xce.model.load import INDICES, UNKNOWN
from xce.model.ranges import count
from xce.state.cluster import ClusterState
from xce.state.hosts import Key
from xce.state.job import Job
from xce.state.view import counts

UNADOPTED_MAX: Final = 100


class UnadoptedRow(msgspec.Struct, frozen=True):
    """An attempt that cannot be adopted."""

    job: str
    """``12`` or ``12[3]``."""
    attempt: int
    reason: str


class HostRow(msgspec.Struct, frozen=True):
    """A host. Jobs are counted in slots."""

    name: str
    status: str
    """``ok``, ``closed_Adm``, ``closed_Full``, ``closed_Excl``, ``unreach`` (its worker is away, or
    what was given up is being ended there) or ``unavail`` (away for long, lost, never there)."""
    slots_max: int
    njobs: int
    run: int
    ssusp: int
    ususp: int
    rsv: int
    mem_mib: int
    mem_used_mib: int
    """What running jobs have reserved."""
    cpus: int
    counters: dict[str, tuple[int, int]]
    """Total and used."""
    attributes: dict[str, int | str | bool]
    isolation: str
    version: str
    comment: str
    boot_id: str
    away_since: float | None = None
    """Since when its worker is away."""
    lost: bool = False
    """It was given up and has not come back."""
    losses: int = 0
    """How often it was given up."""
    gpus: list[GpuRow] = []
    labels: dict[str, str] = {}
    """By level of the topology: in which domain it lies."""
    load: dict[str, float] = {}
    """What it measures: `xce.model.load.INDICES`, without those that are not known. Sizes are in
    MiB, ``ut`` is from 0 to 1."""
    processors: HostProcessorsRow | None = None
    """Null: it does not tell of any, so that jobs with ``affinity[]`` do not run there."""
    strangers: int = 0
    """Attempts that run there and that a restored journal does not know."""
    adopting: int = 0
    """Of these, those that are to be adopted and wait for its worker, or for another of their hosts
    that is away.
    """
    unadopted: list[UnadoptedRow] = []
    """Of these, those that cannot be adopted as things are; the first 100."""


class QueueRow(msgspec.Struct, frozen=True):
    """A queue. Jobs are counted in slots."""

    name: str
    priority: int
    open: bool
    active: bool
    default: bool
    description: str
    max: int
    """Most slots that its jobs may use; 0: no such limit."""
    njobs: int
    pend: int
    run: int
    susp: int
    ssusp: int
    ususp: int
    rsv: int
    run_limit_s: float
    default_run_limit_s: float
    tasks_min: int
    tasks_max: int
    mem_limit_mib: int
    exclusive: bool
    users: tuple[str, ...]
    hosts: tuple[str, ...]
    window_open: bool = True
    """False: it has run windows, and none is open."""
    policies: tuple[str, ...] = ()
    """``FAIRSHARE``, ``PREEMPTIVE``, ``BACKFILL``, ``EXCLUSIVE``: what is on, in LSF's words."""
    run_windows: tuple[str, ...] = ()
    user_shares: tuple[tuple[str, int], ...] = ()
    """Names and shares at the top of the tree."""
    comment: str = ""
    """Why an administrator opened, closed, activated or inactivated it."""
    load_sched: dict[str, float] = {}
    """By load index: on hosts on which it is worse none of its jobs starts."""
    load_stop: dict[str, float] = {}
    """By load index: on hosts on which it is worse its jobs are suspended."""
    rerunnable: bool = False
    requeue_exit_values: str = ""
    """As LSF writes it: ``all ~1 EXCLUDE(9)``; empty: none."""
    success_exit_values: str = ""
    max_requeues: int = 0
    """So often an element is started anew for its exit status."""
    pre_exec: str = ""
    post_exec: str = ""
    limits: dict[str, float] = {}
    """As in the row of a job: ceilings, and what jobs have that say nothing."""
    default_cpu_limit_s: float = 0
    overrun_s: float = 0
    """Jobs that run longer are exceptions; 0: none is."""
    underrun_s: float = 0
    """Likewise: those that are over sooner."""
    idle: float = 0
    """Likewise: those that use less CPU time than this share of the time that they run."""
    idle_after_s: float = 0
    """Before that none is told to be idle."""


class ArrayRow(msgspec.Struct, frozen=True):
    """An array and how many of its elements are in which state."""

    jobid: int
    name: str
    array: str
    array_limit: int
    user: str
    njobs: int
    pend: int
    done: int
    run: int
    exit: int
    ssusp: int
    ususp: int
    psusp: int


AWAITED: Final = "awaited since the journal was restored: nothing starts until it comes or is lost"
"""What is said of a host that may run what a restored journal does not know."""


def host_rows(state: ClusterState) -> list[HostRow]:
    """Return all hosts of the configuration, and those that left it and still run jobs."""
    table = state.hosts
    suspended, by_system = _suspended_slots(state), _slots_stopped(state)
    total, used = table.total.tolist(), table.used.tolist()
    gpu_users = users_of_gpus(state)
    rows = []
    for number, name in enumerate(table.names):
        if not table.is_configured[number] and not table.attempts[number]:
            continue
        slots, busy = total[0][number], used[0][number]
        stopped = suspended.get(number, 0)
        rows.append(
            HostRow(
                name=name,
                status=host_status(state, number),
                slots_max=slots,
                njobs=busy,
                run=busy - stopped,
                ssusp=by_system.get(number, 0),
                ususp=stopped - by_system.get(number, 0),
                rsv=0,
                mem_mib=total[1][number],
                mem_used_mib=used[1][number],
                cpus=table.cpus[number],
                counters={
                    resource: (total[row][number], used[row][number])
                    for row, resource in enumerate(table.resources)
                    if row > 1 and total[row][number]
                },
                attributes=dict(table.attributes(number)),
                isolation=table.isolation[number],
                version=table.versions[number],
                comment=AWAITED if number in table.unasked else table.comments[number],
                boot_id=table.boot_ids[number],
                away_since=table.down_at_us[number] / SECOND_US or None,
                lost=table.is_lost[number],
                losses=table.fences[number],
                labels=dict(table.config[number].labels),
                gpus=gpu_rows(state, number, gpu_users.get(number, {})),
                load=_load(table.load[:, number].tolist()),
                processors=host_processors_row(state, number),
                strangers=len(table.strange.get(number, ())),
                adopting=len(table.adopting.get(number, ())),
                unadopted=_unadopted(table.unadopted.get(number, {})),
            )
        )
    return rows


def _unadopted(refused: Mapping[Key, str]) -> list[UnadoptedRow]:
    return [
        UnadoptedRow(f"{job}[{index}]" if index else str(job), attempt, reason)
        for (job, index, attempt), reason in islice(refused.items(), UNADOPTED_MAX)
    ]


def _load(milli: list[int]) -> dict[str, float]:
    """Return what a host measures, without what is not known."""
    values = zip(INDICES, milli, strict=True)
    return {name: value / 1000 for name, value in values if value != UNKNOWN}


def host_status(state: ClusterState, number: HostNumber) -> str:
    """Return LSF's word for whether a host takes work."""
    table = state.hosts
    if not table.is_up[number]:
        is_away = number in table.away and not table.is_silent[number]
        return "unreach" if is_away else "unavail"
    if table.is_fencing[number] or table.unasked:
        return "unreach"
    if not table.is_open[number] or not table.is_configured[number]:
        return "closed_Adm"
    if table.exclusive[number]:
        return "closed_Excl"
    if table.used[0, number] >= table.total[0, number]:
        return "closed_Full"
    return "ok"


def _suspended_slots(state: ClusterState) -> dict[HostNumber, int]:
    """Return the slots of suspended attempts on each host."""
    found: dict[HostNumber, int] = defaultdict(int)
    if not any(item.suspended for item in state.classes.values()):
        return found
    for places in state.on_host.values():
        for job, position in places:
            attempt = state.attempt(job, position)
            if attempt is not None and attempt.suspended:
                for host, tasks in zip(attempt.hosts, attempt.tasks, strict=True):
                    found[host] += tasks
    return found


def _slots_stopped(state: ClusterState) -> dict[HostNumber, int]:
    """Return the slots of attempts on each host that the cluster itself suspends."""
    found: dict[HostNumber, int] = defaultdict(int)
    for job, position in state.stopped:
        attempt = state.attempt(job, position)
        if attempt is not None and attempt.is_stopped_by_system:
            for host, tasks in zip(attempt.hosts, attempt.tasks, strict=True):
                found[host] += tasks
    return found


def queue_rows(state: ClusterState) -> list[QueueRow]:
    """Return all queues, the one of highest priority first."""
    loads = sum_loads(state, attrgetter("queue"))
    rows = []
    for queue in sorted(state.queues.values(), key=lambda q: -q.priority):
        load = loads[queue.name]
        rows.append(
            QueueRow(
                name=queue.name,
                priority=queue.priority,
                open=queue.open,
                active=queue.active,
                default=queue.name == state.default_queue,
                description=queue.description,
                max=0,
                njobs=load.pend + load.run + load.susp,
                pend=load.pend,
                run=load.run,
                susp=load.susp,
                ssusp=load.ssusp,
                ususp=load.susp - load.ssusp,
                rsv=0,
                run_limit_s=queue.run_limit_us / 1_000_000,
                default_run_limit_s=queue.default_run_limit_us / 1_000_000,
                tasks_min=queue.tasks_min,
                tasks_max=queue.tasks_max,
                mem_limit_mib=queue.mem_limit_mib,
                exclusive=queue.exclusive,
                users=queue.users,
                hosts=queue.hosts,
                window_open=state.is_window_open(queue.name),
                policies=_policies(state, queue),
                run_windows=tuple(map(render_window, queue.run_windows)),
                user_shares=tuple((node.name, node.shares) for node in queue.fairshare),
                comment=state.switches[queue.name].comment if queue.name in state.switches else "",
                load_sched={name: milli / 1000 for name, milli in queue.load_sched.items()},
                load_stop={name: milli / 1000 for name, milli in queue.load_stop.items()},
                rerunnable=queue.rerunnable,
                requeue_exit_values=values_text(queue.requeue_exit_values),
                success_exit_values=values_text(queue.success_exit_values),
                max_requeues=queue.max_requeues,
                pre_exec=queue.pre_exec,
                post_exec=queue.post_exec,
                limits=limit_row(queue.limits),
                default_cpu_limit_s=queue.default_cpu_limit_us / 1_000_000,
                overrun_s=queue.overrun_us / 1_000_000,
                underrun_s=queue.underrun_us / 1_000_000,
                idle=queue.idle_milli / 1000,
                idle_after_s=queue.idle_after_us / 1_000_000,
            )
        )
    return rows


def values_text(values: ExitValues) -> str:
    """Return a list of exit statuses as LSF writes it."""
    return render_exit_values(values.codes, values.elsewhere)


def _policies(state: ClusterState, queue: QueueConfig) -> tuple[str, ...]:
    """Return what a queue's configuration turns on, in LSF's words."""
    wanted = {
        "FAIRSHARE": (queue.policy or state.config.policy) == "fairshare",
        "PREEMPTIVE": bool(queue.preempt),
        "BACKFILL": (queue.backfill or state.config.backfill) != "none",
        "EXCLUSIVE": queue.exclusive,
        "NO_INTERACTIVE": queue.interactive == "refuse",
        "ONLY_INTERACTIVE": queue.interactive == "only",
    }
    return tuple(word for word, is_on in wanted.items() if is_on)


def array_row(state: ClusterState, job: Job) -> ArrayRow:
    """Return the row of an array of the state."""
    spec = state.spec(job)
    return ArrayRow(
        jobid=job.id,
        name=spec.name or spec.command,
        array=spec.array,
        array_limit=job.array.limit if job.array is not None else 0,
        user=job.owner.user,
        njobs=job.size,
        **counts(job),
    )


def past_array_row(past: PastJob) -> ArrayRow:
    """Return the row of an array that left the state."""
    zero: dict[str, Any] = dict.fromkeys(("pend", "run", "ssusp", "ususp", "psusp"), 0)
    return ArrayRow(
        jobid=past.job,
        name=past.spec.name or past.spec.command,
        array=past.spec.array,
        array_limit=past.array.limit if past.array is not None else 0,
        user=past.owner.user,
        njobs=past.size,
        done=past.done,
        exit=past.exited,
        **zero,
    )


def pending_count(job: Job) -> int:
    """Return how many elements pend or are held."""
    return count(job.pending) + count(job.held)
