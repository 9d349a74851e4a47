"""The tasks of a live cluster, and its hosts, as the scorers of GPUs see them."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from xce.model.request import Request
from xce.sched.columns import HostFacts
from xce.sched.devices import GpuShape
from xce.sched.gpu_score import Ask, Hosts, Kind, Mix, score_hosts
from xce.sched.ground import Ground
from xce.sched.shape import Shape
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
    kinds = facts.devices.kind_count
    return facts.mix if facts.mix.is_of(tasks, kinds) else Mix(tasks, kinds)


def _asks_of(request: Request, columns: DeviceColumns) -> Iterator[tuple[Kind, int]]:
    """Yield what a job asks of GPUs, and how often."""
    if request.gpu is None and not request.parts:
        return
    for role in roles_of(request):
        if role.gpu is not None and role.gpu.per != "job":
            times = role.tasks_min if role.gpu.per == "task" else 1
            yield (_slots(role), role.gpu.count, role.gpu.milli, columns.kinds(role.gpu)), times


def _slots(role: Request) -> int:
    """Return the slots beside the GPUs of one task, or of one host."""
    return 1 if role.gpu is not None and role.gpu.per == "task" else max(1, role.ptile)


def rank_by_gpus(shape: Shape, gpu: GpuShape, ground: Ground, facts: HostFacts) -> Column:
    """Return how good each host is for a request with GPUs, higher is better."""
    rows = ground.free[gpu.row : gpu.row + len(gpu.match)]
    columns = facts.devices
    devices = np.maximum(np.where(columns.usable, rows, 0), 0).T
    ask = Ask(int(shape.unit[0]), gpu.wish.items(shape.least), gpu.wish.milli)
    hosts = Hosts(np.maximum(ground.free[0], 0), devices, columns.host_kinds)
    scores = np.full(facts.table.count, np.iinfo(np.int64).min // 2)
    has_room = np.flatnonzero((devices * gpu.match.T >= gpu.wish.milli).any(axis=1))
    if len(has_room):
        scores[has_room] = score_hosts(
            facts.gpu_policy, hosts.only(has_room), ask, facts.mix, facts.sizes
        )
    return scores
