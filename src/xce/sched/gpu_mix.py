"""The tasks of a live cluster, and its hosts, as the scorers of GPUs see them."""

from collections import Counter

import numpy as np

from xce.model.request import Request
from xce.sched.columns import HostFacts
from xce.sched.devices import GpuShape
from xce.sched.gpu_score import Ask, Hosts, Kind, Mix, Sizes, score_hosts
from xce.sched.ground import Ground
from xce.sched.shape import Shape
from xce.state.cluster import ClusterState
from xce.state.hosts import Column
from xce.state.needs import roles_of


def mix_of(state: ClusterState, before: Mix) -> Mix:
    """Return what the waiting and the running jobs of a cluster ask for; ``before`` if that is it.

    So who remembers what came of a mix need only compare objects.
    """
    tasks: Counter[Kind] = Counter()
    columns = state.hosts.devices.columns
    for found in state.classes.values():
        size = found.pending + found.live
        request = found.key.request
        if not size or (request.gpu is None and not request.parts):
            continue
        for role in roles_of(request):
            if role.gpu is None or role.gpu.per == "job":
                continue
            kinds = columns.kinds(role.gpu)
            times = role.tasks_min if role.gpu.per == "task" else 1
            tasks[_slots(role), role.gpu.count, role.gpu.milli, kinds] += size * times
    is_same = before.is_of(tasks, columns.kind_count)
    return before if is_same else Mix(tasks, columns.kind_count)


def _slots(role: Request) -> int:
    """Return the slots beside the GPUs of one task, or of one host."""
    return 1 if role.gpu is not None and role.gpu.per == "task" else max(1, role.ptile)


def rank_by_gpus(shape: Shape, gpu: GpuShape, ground: Ground, facts: HostFacts) -> Column:
    """Return how good each host is for a request with GPUs, higher is better."""
    rows = ground.free[gpu.row : gpu.row + len(gpu.match)]
    columns = facts.devices
    devices = np.where(columns.usable, rows, 0).clip(min=0).T
    total = facts.table.total
    sizes = Sizes(
        max(1, int(total[0].max(initial=1))),
        max(1, int(total[gpu.row :].sum(axis=0).max(initial=1))),
    )
    ask = Ask(int(shape.unit[0]), gpu.wish.items(shape.least), gpu.wish.milli)
    hosts = Hosts(ground.free[0].clip(min=0), devices, columns.host_kinds)
    scores = np.full(facts.table.count, np.iinfo(np.int64).min // 2)
    has_room = np.flatnonzero((devices * gpu.match.T >= gpu.wish.milli).sum(axis=1) >= 1)
    if len(has_room):
        scores[has_room] = score_hosts(
            facts.gpu_policy, hosts.only(has_room), ask, facts.mix, sizes
        )
    return scores
