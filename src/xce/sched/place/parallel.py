"""The parallel allocator: one attempt over hosts, all or nothing, as large as it may be."""

import numpy as np

from xce.sched.place.capacity import Capacity
from xce.sched.shape import Shape
from xce.state.hosts import Column


def spread_tasks(shape: Shape, room: Capacity, ranked: Column, tasks: int) -> tuple[Column, Column]:
    """Return hosts in rank order and the tasks on each; the first carries the job's own amounts.

    Args:
        shape: What is placed.
        room: What each host can take.
        ranked: All host numbers, the best one first.
        tasks: At least 1 and at most `xce.sched.place.capacity.most_tasks`.
    """
    ptile = tasks if shape.request.one_host else shape.request.ptile
    if ptile:
        return _tile(room, ranked, tasks, ptile)
    return _fill(room, ranked, tasks)


def _tile(room: Capacity, ranked: Column, tasks: int, ptile: int) -> tuple[Column, Column]:
    """Put ``ptile`` tasks on each host and the remainder on the last one."""
    share = min(tasks, ptile)
    full, remainder = divmod(tasks, share)
    first = ranked[room.first[ranked] >= share][:1]
    others = ranked[(room.later[ranked] >= share) & (ranked != first)][: full - 1]
    numbers = np.concatenate((first, others))
    sizes = np.full(full, share, np.int64)
    if remainder:
        fits = ranked[room.later[ranked] >= remainder]
        last = fits[~np.isin(fits, numbers)][:1]
        numbers, sizes = np.concatenate((numbers, last)), np.append(sizes, remainder)
    return numbers, sizes


def _fill(room: Capacity, ranked: Column, tasks: int) -> tuple[Column, Column]:
    """Fill hosts one after another. The first is the best one that leaves room for the rest."""
    left = int(room.later.sum()) - (room.later - room.first)
    first = ranked[(room.first[ranked] > 0) & (left[ranked] >= tasks)][0]
    numbers = np.concatenate(([first], ranked[ranked != first]))
    takes = room.later[numbers]
    takes[0] = room.first[first]
    before = np.cumsum(takes) - takes
    sizes = np.clip(tasks - before, 0, takes)
    used = sizes > 0
    return numbers[used], sizes[used]


def gang_amounts(shape: Shape, sizes: Column) -> Column:
    """Return what one attempt takes on its hosts, along resources and hosts."""
    amounts: Column = shape.per_task[:, None] * sizes + shape.per_host[:, None]
    amounts[:, 0] += shape.per_first - shape.per_host
    return amounts
