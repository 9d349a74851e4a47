"""Where one attempt goes on a ground: found without giving anything out, then taken.

The same question is asked about what is free now and about what will be free at a later instant
(reservations), so nothing here looks at the state. Within the bounds of the search it is
monotone: what fits on a ground fits on one that has more.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from xce.model.ids import HostNumber
from xce.sched.columns import HostFacts
from xce.sched.devices import amounts_of, pick_devices, pick_for_entries
from xce.sched.ground import Ground
from xce.sched.outside import waited_for
from xce.sched.place import bulk, pools
from xce.sched.place.capacity import room_on
from xce.sched.place.compound import Candidates, Laid, amounts_on, bind
from xce.sched.place.domains import Trail
from xce.sched.place.search import Steps
from xce.sched.place.simple import find_loose, find_simple
from xce.sched.place.whole import find_whole, most_in_all, sized
from xce.sched.policy import Policy, fitting
from xce.sched.processor_mix import Mix
from xce.sched.processor_room import pick_processors
from xce.sched.shape import Shape
from xce.sched.ties import closed_hosts
from xce.state.hosts import Column, Flags


class Spot(NamedTuple):
    """A placement of one attempt."""

    hosts: Column
    """Hosts in rank order; of a compound request one may stand in several entries."""
    sizes: Column
    """Tasks of each entry."""
    parts: Column
    """Of a compound request: the part of each entry; else empty."""
    alternative: int
    """By which alternative of the request."""
    numbers: Column
    """The hosts, each once."""
    amounts: Column
    """What it takes: along resources and ``numbers``."""
    pools: Mapping[str, int]
    """What it takes of pools."""
    devices: list[list[int]]
    """The GPUs of each entry; empty: none."""
    alone: tuple[HostNumber, ...] = ()
    """Hosts that it has for itself by its relations."""
    processors: list[list[int]] = []  # noqa: RUF012 - nobody changes it
    """The processors of each entry, see `xce.model.plan.GangStart`; empty: any."""
    is_exclusive: bool = False
    """Whether it has all of ``numbers`` for itself."""


def _simple_spot(shape: Shape, hosts: Column, sizes: Column, free: Column) -> Spot | None:
    needs = pools.pool_needs(shape, int(sizes.sum()))
    amounts = amounts_on(shape, sizes)
    devices: list[list[int]] = []
    if shape.gpu is not None:
        found = pick_for_entries((shape.gpu,), hosts.tolist(), sizes.tolist(), (), free)
        if found is None:
            return None
        devices = found
        for place, picked in enumerate(devices):
            amounts[:, place] += amounts_of(shape.gpu, picked, len(free))
    bound = bind(shape, hosts, sizes, free, amounts)
    alone = _domains_of(shape, hosts) if shape.closes_domains else hosts[:0]
    numbers, amounts = _with_idle(hosts, amounts, alone)
    return Spot(
        hosts, sizes, sizes[:0], shape.alternative, numbers, amounts, needs, devices,
        tuple(alone.tolist()), bound, shape.is_alone,
    )  # fmt: skip


def _domains_of(shape: Shape, hosts: Column) -> Column:
    """Return all hosts of the domains in which some hosts lie, rising."""
    domains = shape.domains
    return np.sort(hosts) if domains is None else np.flatnonzero(np.isin(domains, domains[hosts]))


def _with_idle(numbers: Column, amounts: Column, alone: Column) -> tuple[Column, Column]:
    """Return hosts and amounts with the hosts that are taken without anything of them in use."""
    if not len(alone):
        return numbers, amounts
    idle = np.setdiff1d(alone, numbers)
    if not len(idle):
        return numbers, amounts
    return np.concatenate((numbers, idle)), np.pad(amounts, ((0, 0), (0, len(idle))))


def find_one(
    shape: Shape,
    ground: Ground,
    pools_free: Mapping[str, int],
    left: Flags,
    facts: HostFacts,
    policy: Policy,
) -> Spot | None:
    """Return where one attempt goes, serial or parallel, or None; as `find_serial`."""
    find = find_serial if shape.request.is_serial else find_gang
    return find(shape, ground, pools_free, left, facts, policy)


def find_serial(
    shape: Shape,
    ground: Ground,
    pools_free: Mapping[str, int],
    left: Flags,
    facts: HostFacts,
    policy: Policy,
) -> Spot | None:
    """Return where one serial attempt goes, or None.

    Args:
        shape: What is placed.
        ground: What is free.
        pools_free: What each pool has.
        left: The hosts on which a share of it is free.
        facts: The hosts.
        policy: Which hosts are the best.
    """
    if not left.any() or pools.most_attempts(shape, pools_free, shape.tasks_max) == 0:
        return None
    room = bulk.attempts_on_hosts(shape, ground, left)
    if not room.any():
        return None
    numbers, _ = policy.sharing(shape, ground, facts, room, 1)
    return _simple_spot(shape, numbers, np.asarray([shape.tasks_max], np.int64), ground.free)


def find_gang(
    shape: Shape,
    ground: Ground,
    pools_free: Mapping[str, int],
    left: Flags,
    facts: HostFacts,
    policy: Policy,
) -> Spot | None:
    """Return where one attempt goes, as large as it may be, or None; as `find_serial`.

    Of alternatives the first one that fits counts, whatever its size.
    """
    if shape.request.alternatives:
        return _find_alternative(shape, ground, pools_free, facts, policy)
    if shape.request.parts:
        return _find_parts(shape, ground, pools_free, facts, policy)
    tasks = pools.most_tasks(shape, pools_free)
    if tasks < shape.tasks_min or not left.any():
        return None
    if shape.is_loose:
        ranked = policy.ranking(shape, ground, facts)
        found = find_loose(shape, ground.free, left, ranked, tasks)
    else:
        numbers = left.nonzero()[0]
        room = room_on(shape, ground.free, left, numbers)
        if int(room.most.sum()) < shape.tasks_min:
            return None
        if len(numbers) > 1:
            # What each can take is the same in any order, and to order them may take long.
            ranked = policy.ranking(shape, ground, facts)
            room = room.within(numbers.searchsorted(ranked[left[ranked]]))
        found = find_simple(shape, room, tasks, Trail())
    return None if found is None else _simple_spot(shape, *found, ground.free)


def _find_alternative(
    shape: Shape,
    ground: Ground,
    pools_free: Mapping[str, int],
    facts: HostFacts,
    policy: Policy,
) -> Spot | None:
    for inner in shape.inner:
        if inner.fixed is not None or pools.explain_shortage(inner, pools_free) is not None:
            continue
        left = fitting(inner, ground, facts, policy)
        spot = find_gang(inner, ground, pools_free, left, facts, policy)
        if spot is not None:
            return spot
    return None


def _find_parts(
    shape: Shape,
    ground: Ground,
    pools_free: Mapping[str, int],
    facts: HostFacts,
    policy: Policy,
) -> Spot | None:
    """Return where an attempt goes, its last part with as many tasks as fit within the bounds.

    Searches for more than the fewest tasks share one bound; the first that hits it is the last.
    """
    low, high = shape.tasks_min, shape.tasks_max
    fewest = shape if low == high else sized(shape, low)
    if pools.explain_shortage(fewest, pools_free) is not None:
        return None
    if waited_for(shape.request, ground.where):
        return None
    masks: list[Flags] = []
    for part in shape.inner:
        masks.append(fitting(part, ground, facts, policy))
        if part.tasks_min and not masks[-1].any():
            return None
    ranked = tuple(policy.ranking(part, ground, facts) for part in shape.inner)
    places = Candidates(tuple(masks), ranked)
    best = _find_sized(fewest, ground, places, Trail(), None)
    if best is None or low == high:
        return best
    trail, steps = Trail(), Steps()
    # What fits with some tasks fits with fewer; mostly all that there is room for does.
    middle = high = most_in_all(shape, ground, places)
    while low < high and not trail.is_cut:
        more = sized(shape, middle)
        is_short = pools.explain_shortage(more, pools_free) is not None
        spot = None if is_short else _find_sized(more, ground, places, trail, steps)
        if spot is None:
            high = middle - 1
        else:
            low, best = middle, spot
        middle = (low + high + 1) // 2
    return best


def _find_sized(
    shape: Shape, ground: Ground, places: Candidates, trail: Trail, steps: Steps | None
) -> Spot | None:
    """Return where an attempt goes whose parts all have a fixed number of tasks, or None."""
    laid = find_whole(shape, ground, places, trail, steps)
    if laid is None:
        return None
    devices = pick_laid(shape, laid, ground.free)
    mix = Mix([part.processors for part in shape.inner], ground.free)
    bound: list[list[int]] | None = []
    if mix.matters:
        bound = mix.bind(laid.numbers.tolist(), laid.sizes.tolist(), laid.parts.tolist())
    if devices is None or bound is None:
        return None
    numbers, amounts = _sum_up(shape, laid, devices, bound)
    needs = pools.pool_needs(shape, shape.tasks_min)
    alone = numbers[:0]
    if shape.fabric is not None:
        alone = closed_hosts(shape.fabric, laid.numbers, laid.parts)
        numbers, amounts = _with_idle(numbers, amounts, alone)
    return Spot(
        laid.numbers, laid.sizes, laid.parts, shape.alternative, numbers, amounts, needs, devices,
        tuple(alone.tolist()), bound, shape.is_alone,
    )  # fmt: skip


def pick_laid(shape: Shape, laid: Laid, free: Column) -> list[list[int]] | None:
    """Return the GPUs of each entry of a compound placement, empty if no part wants any.

    None: they do not fit together.
    """
    gpus = [part.gpu for part in shape.inner]
    if not any(gpus):
        return []
    links = dict(laid.links)
    # Who must keep to a domain chooses first; the others take what is left anywhere.
    order = np.argsort([int(part) not in links for part in laid.parts], kind="stable")
    parts = laid.parts[order].tolist()
    domains = {place: links[part] for place, part in enumerate(parts) if part in links}
    picked = pick_for_entries(
        gpus, laid.numbers[order].tolist(), laid.sizes[order].tolist(), parts, free, domains
    )
    if picked is None:
        return None
    back = np.argsort(order).tolist()
    return [picked[place] for place in back]


def _sum_up(
    shape: Shape, laid: Laid, devices: list[list[int]], bound: list[list[int]]
) -> tuple[Column, Column]:
    """Return the hosts, each once, and what all parts together take on each."""
    numbers, at = np.unique(laid.numbers, return_inverse=True)
    amounts = np.zeros((len(shape.per_task), len(numbers)), np.int64)
    for place, part in enumerate(shape.inner):
        mine = np.flatnonzero(laid.parts == place)
        amounts[:, at[mine]] += amounts_on(part, laid.sizes[mine])
    for place, picked in enumerate(devices):
        gpu = shape.inner[int(laid.parts[place])].gpu
        if gpu is not None:
            amounts[:, at[place]] += amounts_of(gpu, picked, len(amounts))
    for place, words in enumerate(bound):
        wanted = shape.inner[int(laid.parts[place])].processors
        if wanted is not None:
            rows = slice(wanted.row, wanted.row + wanted.words)
            amounts[rows, at[place]] += words[: wanted.words]
    return numbers, amounts


def spot_of_many(shape: Shape, ground: Ground, numbers: Column, shares: Column) -> Spot:
    """Return the placement of many serial attempts, ``shares`` of them on the hosts ``numbers``.

    ``devices`` and ``processors`` have those of each attempt, host by host.
    """
    amounts: Column = shape.unit[:, None] * shares
    needs = pools.pool_needs(shape, shape.tasks_max)
    taken, devices = int(shares.sum()), list[list[int]]()
    gpu = shape.gpu
    if gpu is not None:
        for place, (number, share) in enumerate(
            zip(numbers.tolist(), shares.tolist(), strict=True)
        ):
            left = ground.free[gpu.row : gpu.row + len(gpu.match), number].tolist()
            for _ in range(share):
                picked = pick_devices(gpu, number, shape.tasks_max, left)
                assert picked is not None, "GPUs that fit cannot be picked"
                devices.append(picked)
                amounts[:, place] += amounts_of(gpu, picked, len(amounts))
    bound = list[list[int]]()
    for place in range(len(numbers)) if shape.processors is not None else ():
        bound += _bind_each(
            shape, ground, int(numbers[place]), int(shares[place]), amounts[:, place]
        )
    return Spot(
        numbers, shares, shares[:0], shape.alternative, numbers, amounts,
        {name: value * taken for name, value in needs.items()}, devices, processors=bound,
        is_exclusive=shape.is_alone,
    )  # fmt: skip


def _bind_each(
    shape: Shape, ground: Ground, number: int, share: int, amounts: Column
) -> list[list[int]]:
    """Return the processors of each of some attempts on a host; what they hold is added."""
    wanted = shape.processors
    assert wanted is not None, "no processors are wanted"
    left = ground.free[wanted.row : wanted.row + wanted.words, number].copy()
    found = []
    for _ in range(share):
        found.append(pick_processors(wanted, number, shape.tasks_max, left))
        amounts[wanted.row : wanted.row + wanted.words] += found[-1][: wanted.words]
    return found
