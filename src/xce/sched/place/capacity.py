"""How many tasks hosts can take."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from xce.sched.devices import tasks_by_devices, within
from xce.sched.processor_room import tasks_by_processors
from xce.sched.processor_room import within as processors_within
from xce.sched.shape import Shape
from xce.state.hosts import Column, Flags

_MOST: Final = np.int64(np.iinfo(np.int64).max)


class Room(NamedTuple):
    """What candidate hosts can take of one attempt: columns of equal length, the best one first."""

    numbers: Column
    """The hosts."""
    later: Column
    """Tasks that each can take as a host that is not the first; 0 where it may be no other."""
    first: Column
    """As the first host, which carries what is needed once for the job; else never more."""
    tile: Column
    """Tasks lie on it in blocks of so many, but for a remainder on the last host."""
    is_tiled: bool = True
    """False: blocks are of one task everywhere."""

    @property
    def most(self) -> Column:
        """Tasks that each can take, as the first host or another."""
        return self.later if self.first is self.later else np.maximum(self.first, self.later)

    def within(self, chosen: Flags | Column) -> "Room":
        """Return the room of some of the hosts; ``chosen`` are places, or flags along columns."""
        return Room(
            self.numbers[chosen], self.later[chosen], self.first[chosen], self.tile[chosen],
            self.is_tiled,
        )  # fmt: skip

    def beyond_the_first(self) -> "Room":
        """Return the room for tasks of an attempt whose first host is another."""
        return self._replace(first=self.later)


def tasks_on_hosts(
    free: Column, rows: Iterable[tuple[int, int, int]], numbers: Column | None = None
) -> Column:
    """Return how many tasks hosts have room for.

    Args:
        free: Free amounts along resources and hosts.
        rows: Of each resource that is taken, one at least: its row, for each task, and once.
        numbers: The hosts that count, in the order of the result; None: all.
    """
    most: Column | None = None
    for row, each, once in rows:
        left = free[row] if numbers is None else free[row][numbers]
        left = left - once if once else left
        fits = left // each if each else np.where(left < 0, 0, _MOST)
        most = fits if most is None else np.minimum(most, fits)
    assert most is not None, "a task takes something"
    return np.maximum(most, 0)


def room_on(shape: Shape, free: Column, mask: Flags, ranked: Column) -> Room:
    """Return the room for an attempt of a simple request.

    Args:
        shape: What is placed.
        free: What is free.
        mask: The hosts that count.
        ranked: All host numbers, the best one first.
    """
    numbers = ranked[mask[ranked]]
    first = later = tasks_on_hosts(free, shape.plain_rows, numbers)
    if shape.first_rows != shape.plain_rows:
        first = tasks_on_hosts(free, shape.first_rows, numbers)
    if shape.gpu is not None or shape.processors is not None:
        free = free[:, numbers]
    if shape.gpu is not None:
        gpu = within(shape.gpu, numbers)
        later = np.minimum(later, tasks_by_devices(gpu, free, is_first=False))
        first = np.minimum(first, tasks_by_devices(gpu, free, is_first=True))
    if shape.processors is not None:
        most = tasks_by_processors(processors_within(shape.processors, numbers), free)
        later, first = np.minimum(later, most), np.minimum(first, most)
    tile = np.ones(len(numbers), np.int64) if shape.tiles is None else shape.tiles[numbers]
    if shape.ceilings is not None:
        later = np.minimum(later, shape.ceilings[numbers])
        first = np.minimum(first, shape.ceilings[numbers])
    if shape.leads is not None:
        leads = shape.leads[numbers]
        later, first = np.where(leads, 0, later), np.where(leads, first, 0)
    return Room(numbers, later, first, tile, is_tiled=shape.tiles is not None)
