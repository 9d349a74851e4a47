"""A run of ``sim gpu-trace``: tasks come one after the other, and stay; how much gets allocated?

For each distinct task the score of every host is kept and made again only for hosts that have
changed since such a task came last, so that a run costs the placements, not tasks times hosts.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import numpy as np

from xce.model.device import WHOLE
from xce.sched import gpu_score
from xce.sched.gpu_score import Ask, Hosts, Mix, Sizes
from xce.sim.gpu_log import GpuLogError, Node, Task, load_nodes, load_tasks
from xce.state.hosts import Column

CHECKPOINTS: Final = (95, 100, 130)
"""Percent of the cluster's GPUs that have been asked for."""
ARRIVALS: Final = ("shuffle", "trace")
DEMAND_MAX: Final = 100
_NO: Final = np.iinfo(np.int64).min
_SIGMOID: Final = (
    -4595119, -3891820, -3476098, -3178053, -2944438, -2751535, -2586689, -2442347, -2313634,
    -2197224, -2090741, -1992430, -1900958, -1815289, -1734601, -1658228, -1585627, -1516347,
    -1450010, -1386294, -1324925, -1265666, -1208311, -1152679, -1098612, -1045968, -994622,
    -944461, -895384, -847297, -800119, -753771, -708185, -663294, -619039, -575364, -532216,
    -489548, -447312, -405465, -363965, -322773, -281851, -241162, -200670, -160342, -120144,
    -80042, -40005, 0, 40006, 80043, 120145, 160343, 200671, 241163, 281852, 322774, 363966,
    405466, 447313, 489549, 532217, 575365, 619040, 663295, 708186, 753772, 800120, 847298,
    895385, 944462, 994623, 1045969, 1098613, 1152680, 1208312, 1265667, 1324926, 1386295,
    1450011, 1516348, 1585628, 1658229, 1734602, 1815290, 1900959, 1992431, 2090742, 2197225,
    2313635, 2442348, 2586690, 2751536, 2944439, 3178054, 3476099, 3891821, 4595120,
)  # fmt: skip
"""From which millionth of a GPU on the score of fewer fragments is 1, 2, ... 99 percent."""


class TraceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, and how."""

    nodes: Path
    pods: Path
    policy: str = "default"
    arrivals: str = "shuffle"
    seed: int = 0
    demand_percent: int = 130
    """Of the cluster's GPUs, that come in all."""


def run_trace(options: TraceOptions) -> dict[str, Any]:
    """Run a trace and return the object that tells of it.

    Raises:
        GpuLogError: A file cannot be read.
    """
    nodes, tasks = load_nodes(options.nodes), load_tasks(options.pods)
    cluster = Cluster(nodes, tasks, options.policy, Random(options.seed), options.arrivals)
    shares: dict[int, float] = {}
    asked = given = rejected = come = 0
    left = list(CHECKPOINTS)
    for task in arrivals(tasks, cluster.gpus_milli, options, cluster.rng):
        come += 1
        amount = task.gpus * task.milli
        asked += amount
        if cluster.place(task):
            given += amount
        else:
            rejected += 1
        while left and asked * 100 >= left[0] * cluster.gpus_milli:
            shares[left.pop(0)] = round(100 * given / cluster.gpus_milli, 4)
    return {
        "trace": options.pods.name,
        "policy": options.policy,
        "arrivals": options.arrivals,
        "seed": options.seed,
        "nodes": len(nodes),
        "gpus": cluster.gpus_milli // WHOLE,
        "tasks": come,
        "rejected": rejected,
        "allocated": {str(percent): share for percent, share in shares.items()},
        "unallocated_gpus": round((cluster.gpus_milli - given) / WHOLE, 2),
    }


def arrivals(
    tasks: Sequence[Task], gpus_milli: int, options: TraceOptions, rng: Random
) -> Iterator[Task]:
    """Yield tasks until so much has been asked for."""
    asked, wanted = 0, gpus_milli * options.demand_percent
    order = list(range(len(tasks)))
    if options.arrivals == "shuffle":
        rng.shuffle(order)
    place = 0
    while asked * 100 < wanted:
        if place < len(order):
            task = tasks[order[place]]
        elif options.arrivals == "shuffle":
            task = tasks[rng.randrange(len(tasks))]
        else:
            task = tasks[place % len(tasks)]
        place += 1
        asked += task.gpus * task.milli
        yield task


class Cluster:
    """The hosts while tasks come."""

    def __init__(
        self, nodes: Sequence[Node], tasks: Sequence[Task], policy: str, rng: Random, order: str
    ) -> None:
        count, width = len(nodes), max(node.gpus for node in nodes)
        self.rng = rng
        self._models = sorted({node.model for node in nodes})
        self._mem: Column = np.asarray([node.mem_mib for node in nodes], np.int64)
        devices = np.zeros((count, width), np.int64)
        for place, node in enumerate(nodes):
            devices[place, : node.gpus] = WHOLE
        kinds = [self._models.index(node.model) for node in nodes]
        cpu = np.asarray([node.cpu_milli for node in nodes], np.int64)
        self.hosts = Hosts(cpu, devices, np.asarray(kinds, np.int64))
        self.full = devices > 0
        self.gpus_milli = int(devices.sum())
        self.sizes = Sizes(int(cpu.max()), int(devices.sum(axis=1).max()))
        # Who wants no GPU wastes none: jobs of a cluster that are so are not in its mix, either.
        self.mix = self._mix(tasks if policy == "fgd" else [task for task in tasks if task.gpus])
        self._measure = {"fgd": self.mix.fragments, "default": self.mix.waste}.get(policy)
        self.fragments = np.zeros(count, np.int64)
        """What `_measure` says, if the policy goes by one."""
        self.clusters: dict[int, np.ndarray[Any, np.dtype[np.bool_]]] = {}
        """By kind of request (0: a part of a GPU): the hosts that have such tasks."""
        ranks = list(range(count))
        if order == "shuffle":
            rng.shuffle(ranks)
        self._rank = np.asarray(ranks, np.int64)
        self._score = SCORERS[policy]
        self._is_random = policy == "random"
        self._known: dict[Task, tuple[Column, Column]] = {}
        self._seen: dict[Task, int] = {}
        self._changed = np.zeros(count, np.int64)
        self._clock = 0
        self._note_fragments(np.arange(count))

    def _note_fragments(self, places: Column) -> None:
        if self._measure is not None:
            self.fragments[places] = self._measure(self.hosts.only(places))

    def _mix(self, tasks: Sequence[Task]) -> Mix:
        found: Counter[gpu_score.Kind] = Counter()
        for task in tasks:
            where = frozenset(
                number
                for number, model in enumerate(self._models)
                if not task.models or model in task.models
            )
            found[task.cpu_milli, task.gpus, task.milli, where] += 1
        kinds = len(self._models)
        capacity = np.bincount(self.hosts.kinds, self.full.sum(axis=1), minlength=kinds)
        return Mix(found, kinds, capacity.astype(np.int64).tolist())

    def place(self, task: Task) -> bool:
        """Give a task a host, if one has room."""
        scores, chosen = self._scores(task)
        fitting = np.flatnonzero(scores > _NO)
        if not len(fitting):
            return False
        if self._is_random:
            host = int(fitting[self.rng.randrange(len(fitting))])
        else:
            best = fitting[scores[fitting] == scores[fitting].max()]
            host = int(best[np.argmin(self._rank[best])])
        self._take(task, host, int(chosen[host]))
        return True

    def _scores(self, task: Task) -> tuple[Column, Column]:
        """Return the score of each host, and the GPU for a part; brought up to date."""
        count = len(self._mem)
        known = self._known.get(task)
        if known is None:
            known = self._known[task] = np.full(count, _NO), np.zeros(count, np.int64)
        scores, chosen = known
        stale = np.flatnonzero(self._changed >= self._seen.get(task, 0))
        self._seen[task] = self._clock + 1
        scores[stale] = _NO
        fitting = stale[self._fits(task, stale)]
        if len(fitting):
            ask = Ask(task.cpu_milli, task.gpus, task.milli)
            scores[fitting], chosen[fitting] = self._score(self, fitting, ask)
        return scores, chosen

    def _fits(self, task: Task, places: Column) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        hosts = self.hosts
        fits = (hosts.cpu[places] >= task.cpu_milli) & (self._mem[places] >= task.mem_mib)
        if task.gpus:
            if task.models:
                good = [number for number, model in enumerate(self._models) if model in task.models]
                fits &= np.isin(hosts.kinds[places], good)
            fits &= (hosts.devices[places] >= task.milli).sum(axis=1) >= task.gpus
        return fits

    def _take(self, task: Task, host: int, device: int) -> None:
        hosts = self.hosts
        self._clock += 1
        self._changed[host] = self._clock
        hosts.cpu[host] -= task.cpu_milli
        self._mem[host] -= task.mem_mib
        if task.gpus:
            room = np.flatnonzero(hosts.devices[host] >= task.milli)
            if task.milli < WHOLE:
                picked = [device]
                if self._is_random:
                    picked = [int(room[self.rng.randrange(len(room))])]
            else:
                picked = room[: task.gpus].tolist()
            hosts.devices[host, picked] -= task.milli
            kind = task.gpus if task.milli == WHOLE else 0
            self.clusters.setdefault(kind, np.zeros(len(self._mem), np.bool_))[host] = True
        self._note_fragments(np.asarray([host]))


Scores = tuple[Column, Column]
Scorer = Callable[[Cluster, Column, Ask], Scores]


def _first_fit(cluster: Cluster, places: Column, ask: Ask) -> Scores:
    hosts = cluster.hosts.only(places)
    return np.zeros(len(places), np.int64), gpu_score.fullest_device(hosts, ask)


def _best_fit(cluster: Cluster, places: Column, ask: Ask) -> Scores:
    hosts = cluster.hosts.only(places)
    left, whole = gpu_score.left_over(hosts, ask, cluster.sizes)
    return 100 - -(-left * 100 // whole), gpu_score.fullest_device(hosts, ask)


def _dot_product(cluster: Cluster, places: Column, ask: Ask) -> Scores:
    hosts = cluster.hosts.only(places)
    product, whole = gpu_score.likeness(hosts, ask, cluster.sizes)
    # The mean of two amounts, each at most 1.
    scores = (100 - -(-product // (whole // 50))).clip(min=0)
    return scores, gpu_score.fullest_device(hosts, ask)


def _fgd(cluster: Cluster, places: Column, ask: Ask) -> Scores:
    hosts = cluster.hosts.only(places)
    before = cluster.fragments[places]
    shrinks, chosen = gpu_score.shrinkage(hosts, ask, cluster.mix.fragments, before)
    bounds = np.asarray(_SIGMOID, np.int64) * max(1, cluster.mix.total)
    return np.searchsorted(bounds, shrinks * 1000, "right").astype(np.int64), chosen


def _default(cluster: Cluster, places: Column, ask: Ask) -> Scores:
    hosts = cluster.hosts.only(places)
    return gpu_score.blend(hosts, ask, cluster.mix, cluster.sizes, cluster.fragments[places])


def _packing(cluster: Cluster, places: Column, ask: Ask) -> Scores:
    """Used GPUs first, then free ones of hosts in use, then idle hosts, the smallest first."""
    hosts = cluster.hosts.only(places)
    chosen = gpu_score.fullest_device(hosts, ask)
    if not ask.gpus:
        return np.zeros(len(places), np.int64), chosen
    free = (hosts.devices == WHOLE).sum(axis=1)
    is_idle = free == cluster.full[places].sum(axis=1)
    taken = 0 if ask.milli < WHOLE else ask.gpus
    scores = np.full(len(places), max(50 - max(taken, 1), 33), np.int64)
    if ask.milli < WHOLE:
        room = np.where(
            (hosts.devices >= ask.milli) & (hosts.devices < WHOLE), hosts.devices, WHOLE + 1
        ).min(axis=1)
        used = np.maximum(100 - room * 100 // WHOLE // 10, 50)
        scores = np.where(room < WHOLE, used, scores)
    return np.where(is_idle, np.maximum(33 - free, free), scores), chosen


def _clustering(cluster: Cluster, places: Column, ask: Ask) -> Scores:
    """Hosts with the same kind of request first, then idle ones, then those with others."""
    hosts = cluster.hosts.only(places)
    chosen = gpu_score.fullest_device(hosts, ask)
    if not ask.gpus:
        return np.zeros(len(places), np.int64), chosen
    nothing = np.zeros(len(cluster.hosts.cpu), np.bool_)
    alike = cluster.clusters.get(ask.gpus if ask.is_whole else 0, nothing)[places]
    kinds = np.zeros(len(places), np.int64)
    for mask in cluster.clusters.values():
        kinds += mask[places]
    used = cluster.sizes.gpu - hosts.devices.sum(axis=1)
    quarter = 25 * used // cluster.sizes.gpu
    base = np.where(alike, np.where(kinds == 1, 75, 50), np.where(kinds == 0, 25, 0))
    return base + quarter, chosen


SCORERS: Final[dict[str, Scorer]] = {
    "default": _default,
    "first-fit": _first_fit,
    "best-fit": _best_fit,
    "dot-product": _dot_product,
    "clustering": _clustering,
    "packing": _packing,
    "fgd": _fgd,
    "random": _first_fit,
}
POLICIES: Final = tuple(SCORERS)


def render_trace(document: dict[str, Any]) -> str:
    """Return a run for people."""
    shares = ", ".join(
        f"{share:.2f} % at {percent} %" for percent, share in document["allocated"].items()
    )
    return (
        f"{document['trace']}, {document['policy']}, {document['arrivals']}: allocated {shares} of "
        f"demand; {document['rejected']} of {document['tasks']} tasks rejected"
    )


__all__ = ["ARRIVALS", "POLICIES", "GpuLogError", "TraceOptions", "render_trace", "run_trace"]
