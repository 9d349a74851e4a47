"""The serial allocator: many identical attempts on one host each, in a few vector operations."""

import numpy as np

from xce.sched.devices import attempts_by_devices
from xce.sched.ground import Ground
from xce.sched.place.capacity import tasks_on_hosts
from xce.sched.processor_room import attempts_by_processors
from xce.sched.shape import Shape
from xce.state.hosts import Column, Flags


def attempts_on_hosts(shape: Shape, ground: Ground, mask: Flags) -> Column:
    """Return how many attempts of a serial request each host can take at once now.

    It is one where ``select[]`` or a threshold must be asked again after each, since it reads
    what is free.
    """
    room = np.where(mask, tasks_on_hosts(ground.free, shape.unit_rows), 0)
    if shape.gpu is not None:
        devices = attempts_by_devices(shape.gpu, ground.free, shape.tasks_max)
        room = np.minimum(room, devices)
    if shape.processors is not None:
        bound = attempts_by_processors(shape.processors, ground.free, shape.tasks_max)
        room = np.minimum(room, bound)
    request = shape.request
    is_asked_again = shape.select_moves or bool(request.thresholds or shape.load_sched)
    return room.clip(max=1) if request.exclusive or is_asked_again else room


def take_bulk(shape: Shape, ground: Ground, numbers: Column, shares: Column) -> None:
    """Give out what ``shares`` attempts take on the hosts ``numbers``."""
    ground.take(numbers, shape.unit[:, None] * shares, exclusive=shape.request.exclusive)
