"""What a request asks for that it cannot have even of an idle cluster, told at once."""

from collections.abc import Iterator

import numpy as np

from xce.model.device import MPS_CONTROL, GpuWish, mps_of
from xce.model.request import ClassKey, Request
from xce.resreq.gpu import SHARED
from xce.state.cluster import ClusterState
from xce.state.hosts import Flags


def find_misfit(state: ClusterState, cls: int, key: ClassKey) -> str:
    """Return `describe_misfit`, for a known class as it was found when hosts changed last."""
    known = state.classes.get(cls)
    if known is None:
        return describe_misfit(state, key)
    change, text = known.misfit
    if change != state.hosts.change:
        # Pools and queues change with the hosts, by the same record.
        text = describe_misfit(state, key)
        known.misfit = (state.hosts.change, text)
    return text


def describe_misfit(state: ClusterState, key: ClassKey) -> str:
    """Return why a request could not run even if the whole cluster were idle, or not as it says, or
    an empty text.

    A necessary condition only: amounts against totals, not the shape of ``span[]``; what is wanted
    once for the job is not counted on hosts.
    """
    return _lacking_program(state, key) or _shortage(state, key) or _lonely_daemon(key)


def _shortage(state: ClusterState, key: ClassKey) -> str:
    request, table = key.request, state.hosts
    task = np.zeros(table.width, np.int64)
    host = np.zeros(table.width, np.int64)
    task[0] = 1
    for amount in request.amounts:
        value = amount.value * request.tasks_min if amount.per == "task" else amount.value
        if amount.resource not in table.row:
            total = state.pools.total.get(amount.resource, 0)
            if value > total:
                return f"{value} of pool {amount.resource} asked for, the cluster has {total}"
        elif amount.per == "task":
            task[table.row[amount.resource]] += amount.value
        elif amount.per == "host":
            host[table.row[amount.resource]] += amount.value
    configured = table.total[:, _usable_ever(state, key)] - host[:, None]
    if configured.shape[1] == 0:
        return ""
    rows = np.nonzero(task)[0]
    per_host = np.maximum((configured[rows] // task[rows][:, None]).min(axis=0), 0)
    per_host[(configured < 0).any(axis=0)] = 0
    if request.gpu is not None:
        kind = table.devices.columns.match(request.gpu)[:, _usable_ever(state, key)]
        groups = kind.sum(axis=0) // request.gpu.count
        if request.gpu.is_whole and request.gpu.per == "task":
            per_host = np.minimum(per_host, groups)
        elif request.gpu.per != "job":
            per_host[groups == 0] = 0
    size = int(np.count_nonzero(per_host))
    if size < request.whole_hosts:
        whole = f"{request.whole_hosts} whole hosts asked for, the cluster has {size}"
        return f"{whole}: it pends until more are there"
    most = int(per_host.max()) if request.one_host else int(per_host.sum())
    if most >= request.tasks_min:
        return ""
    where = "the largest host" if request.one_host else "the cluster"
    tasks = tasks_text(request.tasks_min)
    return f"{tasks} asked for, {where} could take {most}: it pends until more is there"


def _lacking_program(state: ClusterState, key: ClassKey) -> str:
    """Return which program none of the hosts has that have told of theirs; empty: none is."""
    wanted, table = mps_of(_gpus(key)), state.hosts
    if not wanted or state.config.mps_control != MPS_CONTROL:
        return ""  # nobody tells of another program
    told = [table.reported[number] for number in np.nonzero(_usable_ever(state, key))[0].tolist()]
    if not any(told) or any(MPS_CONTROL in one for one in told):
        return ""
    return f"no host has the program {MPS_CONTROL}, without which mps={wanted} cannot start"


def _lonely_daemon(key: ClassKey) -> str:
    """Return that nobody shares the daemon of MPS that a job would share; empty: somebody may."""
    asked = [gpu for gpu in _gpus(key) if gpu is not None]
    if SHARED not in mps_of(asked).split(",") or not all(gpu.is_whole for gpu in asked):
        return ""
    return (
        f"mps={mps_of(asked)} with whole GPUs, which are the job's alone: no other job shares its "
        "daemon; jobs with parts of a GPU do, as in rusage[gpu=0.25:mps=yes,shared]"
    )


def _gpus(key: ClassKey) -> list[GpuWish | None]:
    """Return what the parts of a request say of GPUs."""
    return [one.gpu for one in _all_of(key.request)]


def _all_of(request: Request) -> Iterator[Request]:
    """Yield a request and all that it is made of."""
    yield request
    for part in request.parts:
        yield part.request
    for one in request.alternatives:
        yield from _all_of(one.request)


def tasks_text(count: int) -> str:
    """Return ``1 task`` or ``3 tasks``."""
    return "1 task" if count == 1 else f"{count} tasks"


def _usable_ever(state: ClusterState, key: ClassKey) -> Flags:
    """Return which configured hosts ``-m`` and the queue let a request use."""
    table, request = state.hosts, key.request
    allowed = table.is_configured.copy()
    queue = state.queues.get(key.queue)
    wanted = [queue.hosts] if queue is not None and queue.hosts else []
    if request.hosts and not request.other_hosts:
        wanted.append(tuple(choice.host for choice in request.hosts))
    for names in wanted:
        listed = np.zeros_like(allowed)
        for name in names:
            listed[table.named(name)] = True
        allowed &= listed
    for name in request.hosts_excluded:
        allowed[table.named(name)] = False
    return allowed
