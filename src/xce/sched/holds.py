"""Room that is held in a session: for whom, when it is his, and who may go on behind.

What is free excludes what is held, so nobody else takes it. An element for which room is held is
looked at before all others, with its own room beside what is free.
"""

from typing import NamedTuple

import numpy as np

from xce.model.ids import Index, JobId
from xce.model.job import EndCause, Stop
from xce.model.plan import Victim
from xce.model.ranges import Ranges, unite
from xce.model.record import RoomHeld
from xce.sched.ground import Ground
from xce.sched.timeline import View
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Column, Flags
from xce.state.job import Attempt, Job
from xce.state.needs import of_pools, on_hosts


class Held(NamedTuple):
    """Room that is held for an element."""

    hold: RoomHeld
    found: RequestClass
    job: Job
    position: int
    numbers: Column
    amounts: Column
    pools: dict[str, int]


class Stopped(NamedTuple):
    """A preempted attempt that may go on when its slots are free."""

    priority: int
    job: JobId
    position: int
    attempt: Attempt


class Holds:
    """What is held when a session begins."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.aside: dict[JobId, Ranges] = {}
        """Elements that are dealt with apart from the others of their class."""
        self.released: list[tuple[JobId, Index]] = []
        self.resumed: list[tuple[JobId, Index, int]] = []
        self._stopped = self._preempted()

    @property
    def matters(self) -> bool:
        """Whether anything is held or stopped, so that who gives way is waited for."""
        return bool(self._state.holds or self._state.stopped)

    @property
    def has_stopped(self) -> bool:
        """Whether anybody may still go on."""
        return bool(self._stopped)

    def each(self) -> list[Held]:
        """Return what is held, by queue priority, then by job."""
        found = [self._held(hold) for hold in self._state.holds.values()]
        queues = self._state.queues

        def rank(held: Held) -> tuple[int, JobId, int]:
            queue = queues.get(held.found.key.queue)
            return (-queue.priority if queue is not None else 0, held.job.id, held.position)

        return sorted(found, key=rank)

    def _held(self, hold: RoomHeld) -> Held:
        found, job = self._state.classes[hold.cls], self._state.jobs[hold.job]
        needs = found.forms[hold.alternative].needs
        column = on_hosts(needs, hold.hosts, hold.tasks, hold.parts, hold.devices)
        position = job.position(hold.index)
        assert position is not None, f"room is held for element {hold.index} of job {hold.job}"
        numbers = np.asarray(sorted(column), np.int64)
        amounts = np.stack([column[number] for number in sorted(column)], axis=1)
        return Held(
            hold, found, job, position, numbers, amounts,
            of_pools(needs, hold.tasks, hold.parts),
        )  # fmt: skip

    def own_view(self, held: Held, now: View) -> View:
        """Return what is free for the one for whom room is held."""
        where, row, pools = now.ground.where, now.ground.word_row, dict(now.pools)
        free, empty = now.ground.free.copy(), now.ground.empty.copy()
        ground = Ground(free, empty, where, row, pools=pools)
        self.give(held, View(ground, pools))
        return View(ground, pools)

    def mask(self, held: Held) -> Flags:
        """Return the hosts on which room is held."""
        there = np.zeros(self._state.hosts.count, np.bool_)
        there[held.numbers] = True
        return there

    def give(self, held: Held, now: View) -> None:
        """Hold it no more: it is free."""
        ground, total = now.ground, self._state.hosts.total[0]
        ground.content = None
        ground.free[:, held.numbers] += held.amounts
        ground.empty[held.numbers] = ground.free[0, held.numbers] >= total[held.numbers]
        for name, value in held.pools.items():
            now.pools[name] = now.pools.get(name, 0) + value

    def may_start(self, held: Held) -> bool:
        """Return whether its queue starts jobs now."""
        queue = self._state.queues.get(held.found.key.queue)
        return queue is not None and queue.active and self._state.is_window_open(queue.name)

    def are_gone(self, held: Held) -> bool:
        """Return whether all who gave way have done so."""
        return not any(map(self._gives_way, held.hold.victims))

    def _gives_way(self, victim: Victim) -> bool:
        attempt = self._state.attempt_of(victim.job, victim.index)
        if attempt is None or attempt.number != victim.attempt:
            return False
        is_ending = attempt.end_cause != EndCause.NONE
        return is_ending or bool(attempt.stops & Stop.PREEMPTED and not attempt.gave_slots)

    def set_aside(self, held: Held) -> None:
        """Have the others of its class pass over an element."""
        mine = ((held.position, held.position),)
        self.aside[held.job.id] = unite(self.aside.get(held.job.id, ()), mine)

    def _preempted(self) -> list[Stopped]:
        """Return who may go on, the highest queue last."""
        state = self._state
        waiting = {
            (victim.job, victim.index)
            for hold in state.holds.values()
            for victim in hold.victims
            if victim.action == "suspend"
        }
        stopped: list[Stopped] = []
        for job_id, position in state.stopped:
            attempt, job = state.attempt(job_id, position), state.jobs[job_id]
            if attempt is None or not attempt.stops & Stop.PREEMPTED:
                continue
            queue = state.queues.get(state.classes[attempt.cls].key.queue)
            if queue is None:
                continue
            is_asked = (job_id, job.index(position)) in waiting and not attempt.gave_slots
            if not is_asked and attempt.end_cause == EndCause.NONE:
                stopped.append(Stopped(queue.priority, job_id, position, attempt))
        return sorted(stopped, key=lambda item: (item.priority, -item.job, -item.position))

    def resume(self, now: View, priority: int) -> list[Column]:
        """Let preempted attempts of queues of at least ``priority`` go on where they can.

        Returns:
            The hosts and slots of each, as two rows.
        """
        taken: list[Column] = []
        while self._stopped and self._stopped[-1].priority >= priority:
            item = self._stopped.pop()
            attempt = item.attempt
            numbers, at = np.unique(np.asarray(attempt.hosts, np.int64), return_inverse=True)
            slots = np.zeros(len(numbers), np.int64)
            np.add.at(slots, at, np.asarray(attempt.tasks, np.int64))
            if not attempt.gave_slots:
                slots[:] = 0
            if (now.ground.free[0, numbers] < slots).any():
                continue
            index = self._state.jobs[item.job].index(item.position)
            self.resumed.append((item.job, index, attempt.number))
            taken.append(np.stack((numbers, slots)))
        return taken
