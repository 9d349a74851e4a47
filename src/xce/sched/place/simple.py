"""One attempt of a simple request: the largest count that it may have, and where it goes."""

import numpy as np

from xce.sched.place.capacity import Room
from xce.sched.place.domains import Lie, Trail, lay_in_domains, most_tasks
from xce.sched.shape import Shape
from xce.state.hosts import Column, Flags


def lie_of(shape: Shape) -> Lie:
    """Return how the tasks of a simple request may lie."""
    request = shape.request
    hosts_max = 1 if request.one_host else request.hosts_max
    return Lie(
        hosts_max, request.stripe != 0, request.cu, shape.domains, request.whole_hosts,
        request.tasks_min, request.tasks_max,
    )  # fmt: skip


def pieces_of(groups: Column | None, room: Room) -> list[Room]:
    """Return the candidate hosts by what they must have in common; the best host's piece first."""
    if groups is None or not len(room.numbers):
        return [room]
    of_host = groups[room.numbers]
    _, begins = np.unique(of_host, return_index=True)
    return [room.within(of_host == of_host[begin]) for begin in np.sort(begins).tolist()]


def most_of(shape: Shape, room: Room, trail: Trail, tasks_max: int | None = None) -> int:
    """Return the largest number of tasks that one attempt can have.

    Every smaller one fits too, but for what fills hosts. Pools do not count here.

    Args:
        shape: What is placed.
        room: What each host can take.
        trail: Hears of a search that gave up.
        tasks_max: Not more than so many of what fills hosts or is balanced; None: as asked for.
    """
    lie = lie_of(shape)
    if tasks_max is not None:
        lie = lie._replace(tasks_max=tasks_max)
    pieces = pieces_of(shape.groups, room)
    return max((most_tasks(piece, lie, trail) for piece in pieces), default=0)


def most_without_domains(shape: Shape, room: Room) -> int:
    """Return what `most_of` would be if ``cu[]`` were not asked for."""
    lie = lie_of(shape)._replace(wish=None, codes=None)
    pieces = pieces_of(shape.groups, room)
    return max((most_tasks(piece, lie, Trail()) for piece in pieces), default=0)


def find_loose(
    shape: Shape, free: Column, left: Flags, ranked: Column, tasks_max: int
) -> tuple[Column, Column] | None:
    """Return what `find_simple` returns, of a request that lets its tasks lie anywhere.

    Where a task fits on each host that is left, as the filters see to, no more hosts than tasks
    need be looked at, and they are filled one after the other.

    Args:
        shape: What is placed; its ``is_loose`` holds.
        free: What is free.
        left: The hosts that count.
        ranked: All host numbers, the best one first.
        tasks_max: Not more than so many tasks.
    """
    numbers = ranked[left[ranked]][:tasks_max]
    sizes: Column | None = None
    for row in shape.asked.tolist():
        room = free[row, numbers] - shape.per_host[row]
        fits = room // shape.per_task[row] if shape.per_task[row] else (room >= 0) * tasks_max
        sizes = fits if sizes is None else np.minimum(sizes, fits)
    assert sizes is not None, "a task takes something"
    behind = np.cumsum(np.maximum(sizes, 0))
    tasks = min(tasks_max, int(behind[-1]) if len(behind) else 0)
    if tasks < max(shape.tasks_min, 1):
        return None
    last = int(behind.searchsorted(tasks))
    numbers, sizes = numbers[: last + 1], sizes[: last + 1]
    sizes[last] -= behind[last] - tasks
    return numbers, sizes


def find_simple(
    shape: Shape, room: Room, tasks_max: int, trail: Trail
) -> tuple[Column, Column] | None:
    """Return hosts in rank order and the tasks on each, as many tasks as fit; None: too few.

    Args:
        shape: What is placed.
        room: What each host can take.
        tasks_max: Not more than so many.
        trail: Hears of a search that gave up.
    """
    lie = lie_of(shape)._replace(tasks_max=tasks_max)
    pieces = [
        (piece, most_tasks(piece, lie, trail))
        for piece in pieces_of(shape.groups, room)
        if int(piece.most.sum()) >= shape.tasks_min
    ]
    tasks = min(tasks_max, max((most for _, most in pieces), default=0))
    if tasks < max(shape.tasks_min, 1):
        return None
    for piece, most in pieces:
        if most >= tasks:
            found = lay_in_domains(piece, lie, tasks)
            if found is not None:
                return found
    return None
