"""How many tasks hosts can take."""

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

    @property
    def most(self) -> Column:
        """Tasks that each can take, as the first host or another."""
        return self.later if self.first is self.later else np.maximum(self.first, self.later)

    def within(self, mask: Flags) -> "Room":
        """Return the room of some of the hosts; ``mask`` is along the columns."""
        return Room(self.numbers[mask], self.later[mask], self.first[mask], self.tile[mask])

    def beyond_the_first(self) -> "Room":
        """Return the room for tasks of an attempt whose first host is another."""
        return self._replace(first=self.later)


def tasks_on_hosts(free: Column, mask: Flags, each: Column, once: Column) -> Column:
    """Return how often ``each`` fits into ``free`` beside ``once``, 0 where ``mask`` is not set.

    Args:
        free: Free amounts along resources and hosts.
        mask: The hosts that count.
        each: Amounts for one; at least one is positive.
        once: Amounts beside them.
    """
    most = np.where(mask, _MOST, 0)
    for row in (each + once).nonzero()[0].tolist():
        left = free[row] - once[row]
        if each[row]:
            np.minimum(most, left // each[row], out=most)
        else:
            most[left < 0] = 0
    np.maximum(most, 0, out=most)
    return most


def room_on(shape: Shape, free: Column, mask: Flags, ranked: Column) -> Room:
    """Return the room for an attempt of a simple request.

    Args:
        shape: What is placed.
        free: What is free.
        mask: The hosts that count.
        ranked: All host numbers, the best one first.
    """
    numbers = ranked[mask[ranked]]
    free = free[:, numbers]
    everywhere = np.ones(len(numbers), np.bool_)
    later = tasks_on_hosts(free, everywhere, shape.per_task, shape.per_host)
    first = later
    if (shape.per_first != shape.per_host).any():
        first = tasks_on_hosts(free, everywhere, shape.per_task, shape.per_first)
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
    return Room(numbers, later, first, tile)
