"""The short way for plain attempts: one after the other is placed without a look at all hosts.

An attempt is plain when nothing but what is free on hosts decides where it goes, and its tasks may
lie anywhere. It goes where most slots are free, ties by host number (see `xce.sched.score`), so it
can be found in a list of hosts by free slots that is kept up to date, host by host. What is found
is what the long way finds; where nothing is found, the long way tells why.
"""

from bisect import bisect_left, insort
from typing import Final

import numpy as np

from xce.model.plan import BulkStart, GangStart
from xce.sched.front import Front
from xce.sched.ground import Ground
from xce.sched.order import Place
from xce.sched.policy import FIRST_COME, Policy
from xce.sched.reserve import Reserver
from xce.sched.shape import Shape
from xce.state.cluster import ClusterState
from xce.state.hosts import Column, Flags

OPENED_FROM: Final = 8
"""With fewer starts in a session it is not worth the list."""
_LANES_MAX: Final = 16
_LOOKED_AT_MAX: Final = 64
"""So many hosts may lack something else until the long way is shorter."""


class Lane:
    """Hosts of one set by free slots.

    Args:
        free: What is free, along resources and hosts.
        allowed: The hosts.
    """

    def __init__(self, free: Column, allowed: Flags) -> None:
        slots = (free[0] * allowed).clip(min=0)
        self._slots: list[int] = slots.tolist()
        self._allowed: list[bool] = allowed.tolist()
        order = np.argsort(slots, kind="stable")
        levels, firsts = np.unique(slots[order], return_index=True)
        groups = np.split(order, firsts[1:])
        self._by_slots: dict[int, list[int]] = {
            level: numbers.tolist()
            for level, numbers in zip(levels.tolist(), groups, strict=True)
            if level
        }
        self._levels = list(self._by_slots)
        self.seen = 0
        """So many changes of the ground are known here."""

    def note(self, number: int, slots: int) -> None:
        """Note how many slots of a host are free."""
        before, slots = self._slots[number], max(slots, 0)
        if before == slots or not self._allowed[number]:
            return
        self._slots[number] = slots
        if before:
            level = self._by_slots[before]
            del level[bisect_left(level, number)]
            if not level:
                del self._by_slots[before]
                del self._levels[bisect_left(self._levels, before)]
        if slots in self._by_slots:
            insort(self._by_slots[slots], number)
        elif slots:
            self._by_slots[slots] = [number]
            insort(self._levels, slots)

    def find(self, shape: Shape, free: Column) -> tuple[list[int], list[int]] | None:
        """Return hosts and the tasks on each, as many as fit; None: too few, or it takes too long.

        Args:
            shape: What is placed; it is plain.
            free: What is free.
        """
        rows = shape.plain_rows
        numbers: list[int] = []
        sizes: list[int] = []
        left, looks = shape.tasks_max, _LOOKED_AT_MAX
        for slots in reversed(self._levels):
            for number in self._by_slots[slots]:
                size = left
                for row, each, once in rows:
                    have = int(free.item(row, number)) - once
                    size = min(size, have // each) if each else (size if have >= 0 else 0)
                if size > 0:
                    numbers.append(number)
                    sizes.append(size)
                    left -= size
                    if not left:
                        return numbers, sizes
                    continue
                looks -= 1
                if not looks:
                    return None
        return (numbers, sizes) if shape.tasks_max - left >= max(shape.tasks_min, 1) else None


class Lanes:
    """The lanes of a session.

    Args:
        state: The state; read only.
        policy: Of the session.
        reserver: Of the session.
        may_hurry: Whether the short way may be gone at all.
    """

    def __init__(
        self, state: ClusterState, policy: Policy, reserver: Reserver, *, may_hurry: bool
    ) -> None:
        how = policy.current, policy.ranking, policy.sharing
        self._may = (
            may_hurry
            and how == (FIRST_COME.current, FIRST_COME.ranking, FIRST_COME.sharing)
            and not reserver.is_used
            and not (state.reservations or state.holds or state.stopped)
        )
        self._lanes: dict[bytes, Lane] = {}
        self._of_shape: dict[Shape, Lane] = {}
        self._asked = 0

    def start(
        self, front: Front, shape: Shape, ground: Ground, before: Place
    ) -> BulkStart | GangStart | None:
        """Start the first element of a class, if that goes the short way; None: it does not.

        Args:
            front: The class.
            shape: What its first element asks for.
            ground: What is free, and what is given out of.
            before: Where the turn of another class comes.
        """
        if not self._may or not shape.is_plain or ground.where:
            return None
        is_serial = shape.request.is_serial
        if is_serial and not front.is_alone(before):
            return None
        lane = self._lane(shape, ground)
        found = lane.find(shape, ground.free) if lane is not None else None
        if lane is None or found is None:
            return None
        numbers, sizes = found
        job, index = front.take_one()
        ground.take_tasks(numbers, sizes, shape.plain_rows)
        if is_serial:
            return BulkStart(front.found.cls, [job], [index], [index], numbers, [1])
        return GangStart(front.found.cls, job, index, numbers, sizes)

    def _lane(self, shape: Shape, ground: Ground) -> Lane | None:
        """Return the lane of a request as things are now; None: there is none (yet)."""
        lane = self._of_shape.get(shape)
        if lane is None:
            self._asked += 1
            content = shape.allowed.tobytes() if self._asked >= OPENED_FROM else b""
            lane = self._lanes.get(content)
            if not content or (lane is None and len(self._lanes) >= _LANES_MAX):
                return None
            if lane is None:
                lane = self._lanes[content] = Lane(ground.free, shape.allowed)
                ground.keeps_log = True
                lane.seen = len(ground.log)
            self._of_shape[shape] = lane
        for number in ground.log[lane.seen :]:
            lane.note(number, int(ground.free.item(0, number)))
        lane.seen = len(ground.log)
        return lane
