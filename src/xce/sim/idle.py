"""A slow, obvious look for jobs that could start now; it shares no code with the scheduler."""

from typing import Final, NamedTuple

from xce.model.device import WHOLE, GpuWish
from xce.model.ids import HostNumber, JobId
from xce.model.reason import ReasonCode
from xce.model.request import ClassKey, Request
from xce.state.cluster import ClusterState
from xce.state.job import Job
from xce.state.view import pend_reason

SHUT: Final = (ReasonCode.WINDOW, ReasonCode.DEADLINE)
"""Reasons of whoever waits for a window."""


class _Free(NamedTuple):
    """What is free on hosts."""

    rows: list[list[int]]
    """Along resources and hosts."""
    usable: list[bool]
    """The hosts that may take new work."""
    idle: list[bool]
    """The hosts on which nothing runs and nothing is held."""


def _look(state: ClusterState) -> _Free:
    table = state.hosts
    idle = (table.attempts == 0) & ~table.held.any(axis=0)
    return _Free(table.free().tolist(), table.usable().tolist(), idle.tolist())


def could_start(state: ClusterState) -> list[tuple[JobId, int]]:
    """Return the waiting jobs of which an element fits into what is free, and the first that may.

    Elements that were changed apart are judged, and returned, apart: each class waits for a reason
    of its own.

    Only what is easy to judge is judged: a request with ``ptile``, with processors or with amounts
    for each host or for the job on several hosts is passed over.
    """
    found, free = [], _look(state)
    for job in state.jobs.values():
        if not job.ready or job.waits or state.room(job) == 0:
            continue
        for cls, _, ready in job.forms(job.ready):
            if _could(state, job, state.classes[cls].key, free):
                found.append((job.id, ready[0][0]))
    return found


def is_kept_back(state: ClusterState, job_id: JobId, position: int) -> bool:
    """Whether what is free for an element is reserved, or the window of its queue keeps it back."""
    code = pend_reason(state, state.jobs[job_id], position=position).code
    if code in SHUT:
        return True
    return code is ReasonCode.RESERVED and bool(state.reservations)


def _could(state: ClusterState, job: Job, key: ClassKey, free: _Free) -> bool:
    """Return whether elements of one class of a job could start."""
    queue = state.queues.get(key.queue)
    if queue is None or not queue.active or not _group_lasts(state, job):
        return False
    return _fits(state, job, key.request, free)


def _group_lasts(state: ClusterState, job: Job) -> bool:
    """Whether one more element may run in the job's group and in those that this lies in."""
    mine = state.key(job).group
    for name, group in state.groups.items():
        if group.limit < 0 or not f"{mine}/".startswith(f"{name}/"):
            continue
        inside = (
            other
            for other in state.jobs.values()
            if f"{state.key(other).group}/".startswith(f"{name}/")
        )
        if sum(len(other.live or ()) for other in inside) >= group.limit:
            return False
    return True


def _fits(state: ClusterState, job: Job, request: Request, free: _Free) -> bool:
    if request.alternatives:
        request = request.alternatives[0].request.on_hosts_of(request)
    if request.ptile or any(part.request.ptile for part in request.parts):
        return False
    if request.select or request.affinity or not _pools_last(state, request):
        return False
    rooms = [_room(state, job, request, host, free) for host in range(state.hosts.count)]
    leads = [host for host in range(len(rooms)) if _may_lead(state, request, host)]
    first = max((rooms[host] for host in leads), default=0)
    if request.tasks_max == 1 or request.one_host:
        return first >= request.tasks_min
    if any(amount.per != "task" for amount in request.amounts):
        return False
    if request.gpu is not None and request.gpu.per != "task":
        return False
    if request.hosts_first:
        others = [room for host, room in enumerate(rooms) if host not in leads]
        return first > 0 and first + sum(others) >= request.tasks_min
    return sum(rooms) >= request.tasks_min


def _may_lead(state: ClusterState, request: Request, host: HostNumber) -> bool:
    return not request.hosts_first or not _names(state, host).isdisjoint(request.hosts_first)


def _names(state: ClusterState, host: HostNumber) -> set[str]:
    return {state.hosts.names[host], *state.hosts.config[host].labels.values()}


def _pools_last(state: ClusterState, request: Request) -> bool:
    for amount in request.amounts:
        if amount.resource not in state.hosts.row:
            times = request.tasks_max if amount.per == "task" else 1
            if amount.value * times > state.pools.free(amount.resource):
                return False
    return True


def _room(state: ClusterState, job: Job, request: Request, host: HostNumber, free: _Free) -> int:
    """Return how many tasks of a request a host could take as the first of its hosts."""
    table = state.hosts
    if not free.usable[host] or host in job.avoid:
        return 0
    if request.exclusive and not free.idle[host]:
        return 0
    asked = [choice.host for choice in request.hosts]
    names = _names(state, host)
    if asked and not request.other_hosts and names.isdisjoint(asked):
        return 0
    if not names.isdisjoint(request.hosts_excluded):
        return 0
    tasks = free.rows[0][host]
    for resource, row in table.row.items():
        left = free.rows[row][host]
        amounts = [amount for amount in request.amounts if amount.resource == resource]
        once = sum(amount.value for amount in amounts if amount.per != "task")
        each = sum(amount.value for amount in amounts if amount.per == "task")
        if once and left < once:
            return 0
        if each:
            tasks = min(tasks, (left - once) // each)
    if request.gpu is not None:
        groups = _groups(state, request.gpu, host, free)
        tasks = min(tasks, groups) if request.gpu.per == "task" else tasks if groups else 0
    return max(tasks, 0)


def _groups(state: ClusterState, wish: GpuWish, host: HostNumber, free: _Free) -> int:
    """Return how often the GPUs of a wish are free on a host."""
    table = state.hosts
    devices = table.devices.hosts[host]
    by_link: dict[int, int] = {}
    shares = 0
    for place, device in enumerate(devices.devices):
        left = free.rows[table.device_row + place][host]
        if not devices.is_usable(place):
            continue
        shares += max(0, left) // wish.milli
        if left == WHOLE:
            by_link[device.link] = by_link.get(device.link, 0) + 1
    if not wish.is_whole:
        return shares
    if wish.is_linked:
        return sum(count // wish.count for count in by_link.values())
    return sum(by_link.values()) // wish.count
