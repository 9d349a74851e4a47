"""How many tasks hosts can take, and how many a request can have in all."""

from typing import NamedTuple

import numpy as np

from xce.sched.shape import Shape
from xce.state.hosts import Column, Flags


class Capacity(NamedTuple):
    """Tasks that each host can take of one attempt."""

    later: Column
    """As a host that is not the first."""
    first: Column
    """As the first host, which carries what is needed once for the job; never more."""


def tasks_on_hosts(free: Column, mask: Flags, each: Column, once: Column) -> Column:
    """Return how often ``each`` fits into ``free`` beside ``once``, 0 where ``mask`` is not set.

    Args:
        free: Free amounts along resources and hosts.
        mask: The hosts that count.
        each: Amounts for one; at least one is positive.
        once: Amounts beside them.
    """
    most = np.where(mask, np.iinfo(np.int64).max, 0)
    for row in np.flatnonzero(each + once).tolist():
        left = free[row] - once[row]
        if each[row]:
            np.minimum(most, left // each[row], out=most)
        else:
            most[left < 0] = 0
    np.maximum(most, 0, out=most)
    return most


def capacity(shape: Shape, free: Column, mask: Flags) -> Capacity:
    """Return how many tasks of an attempt each host can take."""
    later = tasks_on_hosts(free, mask, shape.per_task, shape.per_host)
    if shape.per_first is shape.per_host or (shape.per_first == shape.per_host).all():
        return Capacity(later, later)
    return Capacity(later, tasks_on_hosts(free, mask, shape.per_task, shape.per_first))


def most_tasks(shape: Shape, room: Capacity) -> int:
    """Return the largest number of tasks that one attempt can have; every smaller one fits too.

    Pools and ``tasks_max`` do not count here.
    """
    best_first = int(room.first.max(initial=0))
    if best_first == 0 or shape.request.one_host:
        return best_first
    ptile = shape.request.ptile
    if ptile:
        return _most_tiled(room, ptile, best_first)
    # Every host takes what it can; the first is one on which the job's own amounts cost least.
    costs = (room.later - room.first)[room.first > 0]
    return int(room.later.sum() - costs.min())


def _most_tiled(room: Capacity, ptile: int, best_first: int) -> int:
    """Return the most tasks with ``ptile`` on each host and the remainder on the last."""
    if best_first < ptile:
        return best_first
    full = room.later >= ptile
    remainder = int(room.later[~full].max(initial=0))
    return int(np.count_nonzero(full)) * ptile + remainder
