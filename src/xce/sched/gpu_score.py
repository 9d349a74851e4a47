"""Scorers for requests with GPUs: how good it is to take them from each host, higher is better.

``spread`` likes the emptiest host, ``best-fit`` the one with least left, ``dot-product`` the one
whose free amounts are least like the request. ``fragmentation`` is the fragmentation gradient of
Weng et al. (USENIX ATC 2023): of what is left on a host, that is a fragment which a task like those
of the cluster cannot use there, and the host is best on which the expected fragments grow least.
``default`` goes by another measure of fragments, `Mix.waste`: a task that could run once on a host
does not make all of its GPUs usable, but as many as there are free CPUs for. So CPUs are a thing
that GPUs need, from the first task on and not only when the last one does not fit, and tasks that
want many go where there are many. A GPU also costs what tasks that can run on no other kind want
of its kind, so that it is left to them. Hosts that are nearly as good are taken fullest first: room
for large requests stays together as long as a cluster is empty.

All of it is integers: amounts of GPUs in thousandths, CPUs in any unit, weights as counts of tasks.
"""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from xce.model.device import WHOLE
from xce.state.hosts import Column

COMMON_PERCENT: Final = 95
"""Tasks that make so much of all stand for the cluster's tasks."""
FULLNESS: Final = 10
"""How much ``default`` values a full host beside waste: thousandths of a GPU for all of it."""
SHARERS: Final = 2
"""Free CPUs for one task make the GPUs of so many usable: beside one that wants many CPUs there
will be others that want fewer."""
_SCALE: Final = 1000


class Hosts(NamedTuple):
    """What hosts have; columns of equal length."""

    cpu: Column
    devices: Column
    """Free thousandths, along hosts and places; 0 where there is none that may be used."""
    kinds: Column
    """A number for what the GPUs of a host are, as `Mix` knows it."""

    def only(self, places: Column) -> "Hosts":
        """Return some of the hosts."""
        return Hosts(self.cpu[places], self.devices[places], self.kinds[places])


class Ask(NamedTuple):
    """What one task asks for; of one GPU a part."""

    cpu: int
    gpus: int
    milli: int

    @property
    def is_whole(self) -> bool:
        """Whether it wants whole GPUs."""
        return self.milli == WHOLE


class Sizes(NamedTuple):
    """The most that any host has, by which amounts are compared."""

    cpu: int
    gpu: int
    """Thousandths."""


Kind = tuple[int, int, int, frozenset[int]]
"""CPUs, number of GPUs, thousandths of each, and numbers of the kinds of hosts that will do."""


class _Laid(NamedTuple):
    """The commonest tasks of a mix, side by side."""

    total: int
    counts: Column
    milli: Column
    cpus: Column
    weights: Column
    task_cpus: Column
    task_wish: Column
    task_milli: Column
    sizes: Column


class Mix:
    """The tasks of a cluster, by what they ask for. It is laid out when a host is first scored."""

    def __init__(self, tasks: Mapping[Kind, int], kinds: int, capacity: Sequence[int] = ()) -> None:
        """Begin with the commonest tasks.

        Args:
            tasks: How many there are of each kind, those without GPUs too.
            kinds: How many kinds of hosts there are.
            capacity: How many GPUs each of these has; empty: nobody knows, and nothing has a price.
        """
        self._made_of = dict(tasks), kinds, tuple(capacity)

    @functools.cached_property
    def prices(self) -> Column:
        """By kind of host: what a GPU of it costs, in thousandths."""
        tasks, kinds, capacity = self._made_of
        return np.asarray(_prices(tasks, capacity or [0] * max(1, kinds)), np.int64)

    @property
    def total(self) -> int:
        """How many tasks count."""
        return self._laid.total

    @functools.cached_property
    def _laid(self) -> _Laid:
        tasks, kinds, _ = self._made_of
        chosen = _commonest(tasks)
        wishes = sorted({(count, milli) for _, count, milli, _ in chosen if count})
        cpus = np.asarray(sorted({cpu for cpu, count, _, _ in chosen if count}), np.int64)
        weights = np.zeros((max(1, kinds), len(cpus) + 1, len(wishes)), np.int64)
        for (cpu, count, milli, where), size in chosen.items():
            if count:
                wish = wishes.index((count, milli))
                # Everything from its CPUs on has room for it.
                first = int(np.searchsorted(cpus, cpu)) + 1
                for kind in sorted(where):
                    weights[kind, first:, wish] += size
        kinds_of = [kind for kind in sorted(chosen, key=_order) if kind[1]]
        sizes = np.zeros((max(1, kinds), len(kinds_of)), np.int64)
        for place, each in enumerate(kinds_of):
            sizes[sorted(each[3]), place] = chosen[each]
        return _Laid(
            sum(chosen.values()),
            np.asarray([count for count, _ in wishes], np.int64),
            np.asarray([milli for _, milli in wishes], np.int64),
            cpus,
            weights,
            np.asarray([max(1, cpu) for cpu, _, _, _ in kinds_of], np.int64),
            np.asarray([wishes.index(kind[1:3]) for kind in kinds_of], np.int64),
            np.asarray([count * milli for _, count, milli, _ in kinds_of], np.int64),
            sizes,
        )

    def is_of(self, tasks: Mapping[Kind, int], kinds: int, capacity: tuple[int, ...] = ()) -> bool:
        """Return whether it is what it would be if it were made of these."""
        return self._made_of == (tasks, kinds, capacity)

    def fragments(self, hosts: Hosts) -> Column:
        """Return the expected fragments of each host: thousandths of GPUs, times `total`."""
        laid = self._laid
        weights = laid.weights[hosts.kinds, laid.cpus.searchsorted(hosts.cpu, "right")]
        return self._without(hosts, (weights * _usable(laid, hosts)).sum(axis=1))

    def waste(self, hosts: Hosts) -> Column:
        """Return the expected waste of each host, likewise: CPUs must do for what is usable."""
        laid = self._laid
        usable = _usable(laid, hosts)[:, laid.task_wish]
        tasks = hosts.cpu[:, None] // laid.task_cpus
        usable = np.minimum(usable, tasks * (SHARERS * laid.task_milli))
        return self._without(hosts, (laid.sizes[hosts.kinds] * usable).sum(axis=1))

    def _without(self, hosts: Hosts, usable: Column) -> Column:
        found: Column = hosts.devices.sum(axis=1) * self.total - usable
        return found


def _usable(laid: _Laid, hosts: Hosts) -> Column:
    """Return what each wish could have of each host, whatever its CPUs."""
    devices = hosts.devices
    has_room = devices[:, None, :] >= laid.milli[None, :, None]
    usable: Column = (devices[:, None, :] * has_room).sum(axis=2)
    usable *= has_room.sum(axis=2) >= laid.counts
    return usable


def _prices(tasks: Mapping[Kind, int], capacity: Sequence[int]) -> list[int]:
    """Return of each kind of host how much of its GPUs tasks want that cannot run on all kinds."""
    whole = sum(capacity)
    asked = sum(count * milli * size for (_, count, milli, _), size in tasks.items())
    prices = [0] * len(capacity)
    for (_, count, milli, where), size in tasks.items():
        able = sum(capacity[kind] for kind in where)
        if count and 0 < able < whole:
            share = count * milli * size * whole * _SCALE // (able * asked)
            for kind in where:
                prices[kind] += share
    return [min(price, _SCALE) for price in prices]


Measure: TypeAlias = Callable[[Hosts], Column]


def _order(kind: Kind) -> tuple[tuple[int, int, int], list[int]]:
    return kind[:3], sorted(kind[3])


def _commonest(tasks: Mapping[Kind, int]) -> dict[Kind, int]:
    """Return the commonest kinds of tasks that make `COMMON_PERCENT` of all."""
    total, seen = sum(tasks.values()), 0
    chosen: Counter[Kind] = Counter()
    ordered = sorted(tasks.items(), key=lambda item: (-item[1], _order(item[0])))
    for kind, size in ordered:
        chosen[kind] += size
        seen += size
        if seen * 100 >= total * COMMON_PERCENT:
            break
    return dict(chosen)


def left_over(hosts: Hosts, ask: Ask, sizes: Sizes) -> tuple[Column, int]:
    """Return what is left of each host, CPUs and GPUs alike, and what an empty largest one has."""
    gpus = hosts.devices.sum(axis=1) - ask.gpus * ask.milli
    left: Column = (hosts.cpu - ask.cpu) * sizes.gpu + gpus * sizes.cpu
    return left, 2 * sizes.cpu * sizes.gpu


def likeness(hosts: Hosts, ask: Ask, sizes: Sizes) -> tuple[Column, int]:
    """Return the product of what hosts have and what is asked for, and what stands for 1."""
    product: Column = hosts.cpu * (ask.cpu * sizes.gpu**2) + hosts.devices.sum(axis=1) * (
        ask.gpus * ask.milli * sizes.cpu**2
    )
    return product, sizes.cpu**2 * sizes.gpu**2


def fullest_device(hosts: Hosts, ask: Ask) -> Column:
    """Return for each host the GPU with least room that still has enough for a part."""
    room = np.where(hosts.devices >= ask.milli, hosts.devices, WHOLE + 1)
    found: Column = room.argmin(axis=1).astype(np.int64)
    return found


def without(hosts: Hosts, ask: Ask) -> tuple[Hosts, Column]:
    """Return what is left of hosts when each has one more task, and the GPU that lost a part."""
    devices = hosts.devices.copy()
    chosen = np.zeros(len(devices), np.int64)
    if ask.gpus and not ask.is_whole:
        chosen = fullest_device(hosts, ask)
        devices[np.arange(len(devices)), chosen] -= ask.milli
    elif ask.gpus:
        has_room = devices >= ask.milli
        devices[has_room & (np.cumsum(has_room, axis=1) <= ask.gpus)] -= ask.milli
    return Hosts(hosts.cpu - ask.cpu, devices, hosts.kinds), chosen


def packed_shrinkage(
    hosts: Hosts, ask: Ask, measure: Measure, before: Column | None = None
) -> tuple[Column, Column]:
    """Return how much a measure shrinks on each host, times `Mix.total`, and the GPU for a part.

    A part comes off the fullest GPU that has room, as the allocator takes it.

    Args:
        hosts: Hosts that have room.
        ask: What is asked for.
        measure: `Mix.fragments` or `Mix.waste`.
        before: What it is without the task, if that is known.
    """
    if before is None:
        before = measure(hosts)
    after, chosen = without(hosts, ask)
    return before - measure(after), chosen


def shrinkage(
    hosts: Hosts, ask: Ask, measure: Measure, before: Column | None = None
) -> tuple[Column, Column]:
    """Return the same with the GPU for a part by which it shrinks most."""
    if not ask.gpus or ask.is_whole:
        return packed_shrinkage(hosts, ask, measure, before)
    if before is None:
        before = measure(hosts)
    places = np.arange(len(hosts.cpu))
    cpu = hosts.cpu - ask.cpu
    rows, columns = _choices(hosts.devices, ask.milli)
    devices = hosts.devices[rows].copy()
    devices[np.arange(len(rows)), columns] -= ask.milli
    shrinks = before[rows] - measure(Hosts(cpu[rows], devices, hosts.kinds[rows]))
    # The best choice of a host is written last; of equal ones the first GPU.
    order = np.lexsort((-columns, shrinks))
    best = np.full(len(places), np.iinfo(np.int64).min)
    chosen = np.zeros(len(places), np.int64)
    best[rows[order]] = shrinks[order]
    chosen[rows[order]] = columns[order]
    return best, chosen


def _choices(devices: Column, milli: int) -> tuple[Column, Column]:
    """Return hosts and GPUs that have room for a part; of GPUs alike on a host the first."""
    order = np.argsort(devices, axis=1, kind="stable")
    amounts = np.take_along_axis(devices, order, axis=1)
    is_new = np.ones_like(amounts, np.bool_)
    is_new[:, 1:] = amounts[:, 1:] != amounts[:, :-1]
    rows, places = np.nonzero(is_new & (amounts >= milli))
    return rows, order[rows, places]


def blend(
    hosts: Hosts, ask: Ask, mix: Mix, sizes: Sizes, before: Column | None = None
) -> tuple[Column, Column]:
    """Return the score of ``default`` for each host, and the GPU for a part.

    As `packed_shrinkage` of waste, in millionths of a GPU, less what its GPUs cost and what is
    left of it.
    """
    shrinks, chosen = packed_shrinkage(hosts, ask, mix.waste, before)
    left, whole = left_over(hosts, ask, sizes)
    costs = mix.prices[hosts.kinds] * (ask.gpus * ask.milli)
    fullness = left * (_SCALE * FULLNESS) // whole
    scores: Column = shrinks * _SCALE // max(1, mix.total) - costs - fullness
    return scores, chosen


def score_hosts(policy: str, hosts: Hosts, ask: Ask, mix: Mix, sizes: Sizes) -> Column:
    """Return the score of each host by one of `GPU_POLICIES`."""
    match policy:
        case "spread":
            return left_over(hosts, ask, sizes)[0]
        case "best-fit":
            return -left_over(hosts, ask, sizes)[0]
        case "dot-product":
            return -likeness(hosts, ask, sizes)[0]
        case "fragmentation":
            return packed_shrinkage(hosts, ask, mix.fragments)[0]
        case _:
            return blend(hosts, ask, mix, sizes)[0]


NO_MIX: Final = Mix({}, 1)
"""Nothing is asked for: fragments do not count."""
