"""Where one attempt goes on a ground: found without giving anything out, then taken.

The same question is asked about what is free now and about what will be free at a later instant
(reservations), so nothing here looks at the state. It is monotone: what fits on a ground fits on
one that has more.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from xce.sched.columns import HostFacts
from xce.sched.ground import Ground
from xce.sched.place import bulk, parallel, pools
from xce.sched.place.capacity import capacity, most_tasks
from xce.sched.policy import Policy
from xce.sched.shape import Shape
from xce.state.hosts import Column, Flags


class Spot(NamedTuple):
    """A placement of one attempt."""

    numbers: Column
    """Hosts, in rank order."""
    sizes: Column
    """Tasks on each."""
    amounts: Column
    """What it takes: along resources and ``numbers``."""
    pools: Mapping[str, int]
    """What it takes of pools."""


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
    if pools.most_attempts(shape, pools_free, shape.tasks_max) == 0:
        return None
    room = bulk.attempts_on_hosts(shape, ground, left)
    if not room.any():
        return None
    numbers, _ = policy.sharing(shape, ground, facts, room, 1)
    sizes = np.asarray([shape.tasks_max], np.int64)
    return Spot(numbers, sizes, shape.unit[:, None], pools.pool_needs(shape, shape.tasks_max))


def find_gang(
    shape: Shape,
    ground: Ground,
    pools_free: Mapping[str, int],
    left: Flags,
    facts: HostFacts,
    policy: Policy,
) -> Spot | None:
    """Return where one parallel attempt goes, as large as it may be, or None; as `find_serial`."""
    room = capacity(shape, ground.free, left)
    tasks = min(most_tasks(shape, room), pools.most_tasks(shape, pools_free))
    if tasks < shape.tasks_min:
        return None
    ranked = policy.ranking(shape, ground, facts)
    numbers, sizes = parallel.spread_tasks(shape, room, ranked, tasks)
    amounts = parallel.gang_amounts(shape, sizes)
    return Spot(numbers, sizes, amounts, pools.pool_needs(shape, tasks))


def take_spot(shape: Shape, ground: Ground, pools_free: dict[str, int], spot: Spot) -> None:
    """Give out what an attempt takes."""
    ground.take(spot.numbers, spot.amounts, exclusive=shape.request.exclusive)
    pools.take_needs(spot.pools, pools_free)
