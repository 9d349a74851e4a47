"""The tasks of a live cluster, and its hosts, as the scorers of GPUs see them."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from xce.model.request import Request
from xce.sched.columns import HostFacts
from xce.sched.devices import GpuShape
from xce.sched.gpu_score import Ask, Hosts, Kind, Mix, score_hosts, without
from xce.sched.ground import Ground
from xce.sched.shape import Shape, shares_of
from xce.state.cluster import ClusterState
from xce.state.device_columns import DeviceColumns
from xce.state.hosts import Column
from xce.state.needs import roles_of

_ASKS_MAX: Final = 1000
"""Of so many classes that are gone what they asked for is still known."""


def mix_of(state: ClusterState, facts: HostFacts) -> Mix:
    """Return what the waiting and the running jobs of a cluster ask for; that of the facts, if it
    is the same: so who remembers what came of a mix need only compare objects.
    """
    tasks: Counter[Kind] = Counter()
    if len(facts.asks) > _ASKS_MAX + 2 * len(state.classes):
        facts.asks.clear()
    for found in state.classes.values():
        size = found.pending + found.live
        if not size:
            continue
        asks = facts.asks.get(found.cls)
        if asks is None:
            asks = facts.asks[found.cls] = tuple(_asks_of(found.key.request, facts.devices))
        for kind, times in asks:
            tasks[kind] += size * times
    made_of = tasks, facts.devices.kind_count, facts.devices.capacity
    return facts.mix if facts.mix.is_of(*made_of) else Mix(*made_of)


def _asks_of(request: Request, columns: DeviceColumns) -> Iterator[tuple[Kind, int]]:
    """Yield what a job asks of GPUs, and how often."""
    if request.gpu is None and not request.parts:
        return
    for role in roles_of(request):
        if role.gpu is None:
            continue
        # What is on one host comes together: as a task that wants as much.
        _, size, _ = shares_of(role)
        is_once = role.gpu.per == "job" or (role.gpu.per == "host" and size == 1)
        times = 1 if is_once else -(-role.tasks_min // size)
        yield (size, role.gpu.items(size), role.gpu.milli, columns.kinds(role.gpu)), times


def rank_by_gpus(shape: Shape, gpu: GpuShape, ground: Ground, facts: HostFacts) -> Column:
    """Return how good each host is for a request with GPUs, higher is better."""
    hosts, ask = _hosts_for(gpu, ground, facts), _ask_of(shape, gpu)
    scores = np.full(facts.table.count, np.iinfo(np.int64).min // 2)
    has_room = np.flatnonzero((hosts.devices * gpu.match.T >= gpu.wish.milli).any(axis=1))
    if len(has_room):
        scores[has_room] = score_hosts(
            facts.gpu_policy, hosts.only(has_room), ask, facts.mix, facts.sizes
        )
    return scores


def rank_each_by_gpus(
    shape: Shape, gpu: GpuShape, ground: Ground, facts: HostFacts, attempts: Column
) -> Column:
    """Return how good its host is for each of some attempts, when those before it are there.

    Args:
        shape: What is placed.
        gpu: What it wants of GPUs.
        ground: What is free before.
        facts: The hosts.
        attempts: How many of them are on each host, at most as many as it has room for.

    Returns:
        A score for each attempt, host by host.
    """
    hosts, ask = _hosts_for(gpu, ground, facts), _ask_of(shape, gpu)
    first = np.cumsum(attempts) - attempts
    scores = np.zeros(int(attempts.sum()), np.int64)
    places, turn = np.flatnonzero(attempts), 0
    hosts = hosts.only(places)
    while len(places):
        scores[first[places] + turn] = score_hosts(
            facts.gpu_policy, hosts, ask, facts.mix, facts.sizes
        )
        turn += 1
        more = np.flatnonzero(attempts[places] > turn)
        places, hosts = places[more], without(hosts.only(more), ask)[0]
    return scores


def _ask_of(shape: Shape, gpu: GpuShape) -> Ask:
    """Return what the least that a host may have of a request takes there."""
    return Ask(int(shape.unit[0]), gpu.wish.items(shape.least), gpu.wish.milli)


def _hosts_for(gpu: GpuShape, ground: Ground, facts: HostFacts) -> Hosts:
    rows = ground.free[gpu.row : gpu.row + len(gpu.match)]
    columns = facts.devices
    devices = np.maximum(np.where(columns.usable, rows, 0), 0).T
    return Hosts(np.maximum(ground.free[0], 0), devices, columns.host_kinds)
