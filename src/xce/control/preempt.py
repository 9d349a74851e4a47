"""Preemptions of a plan to records, where they still hold.

A preemption is taken whole or not at all: every victim must still be live and of a queue that gives
way, and with the room of all of them the amounts must be there, host by host. That no two jobs can
preempt each other in turn follows from the configuration: who gives way is in a queue of strictly
lower priority, and an element is made to give way `preemptions_max` times at most.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from xce.model.ids import HostNumber, Index, JobId, Micros
from xce.model.job import EndCause, Stop
from xce.model.plan import Preemption, Victim
from xce.model.ranges import Ranges, contains
from xce.model.record import EndDecided, Record, RoomHeld, StopsChanged
from xce.sched.certify_devices import find_device_faults
from xce.state.cluster import ClusterState
from xce.state.hosts import Column
from xce.state.job import Attempt, Job
from xce.state.needs import of_pools, on_hosts
from xce.state.usage import held, yields

Place = tuple[JobId, Index]


class Room:
    """What is free while preemptions are taken one after another."""

    def __init__(
        self,
        state: ClusterState,
        free: Column,
        pools: dict[str, int],
        pending: Callable[[Job], Ranges],
        rooms: dict[JobId, int],
    ) -> None:
        """Begin with what is left.

        Args:
            state: The state.
            free: Free amounts along resources and hosts; what is held is taken of them.
            pools: Free amounts of pools; likewise.
            pending: The elements of a job that pend and are not started by the same plan.
            rooms: How many more elements of a job may run, of jobs that the plan starts some of.
        """
        self._state = state
        self._free = free
        self._pools = pools
        self._pending = pending
        self._rooms = rooms
        self._yielding: set[Place] = set()
        self._soon: Column = np.zeros_like(free)
        self._soon_pools: dict[str, int] = {}
        """Room of those who give way already."""
        for places in state.owed.values():
            for job_id, position in places:
                attempt = state.attempt(job_id, position)
                if attempt is not None and yields(attempt):
                    self._add_soon(attempt, slots_only=yields(attempt) == 1)

    def decide(self, item: Preemption, now_us: Micros) -> list[Record]:
        """Return the records of one preemption; none when it does not hold any more."""
        found = self._state.classes.get(item.cls)
        if found is None or not self._may_wait(item) or not item.victims:
            return []
        if not 0 <= item.alternative < len(found.forms):
            return []
        form = found.forms[item.alternative]
        wanted = on_hosts(form.needs, item.hosts, item.tasks, item.parts, item.devices)
        wanted_pools = of_pools(form.needs, item.tasks, item.parts)
        attempts = [self._victim(found.key.queue, victim) for victim in item.victims]
        places = {(victim.job, victim.index) for victim in item.victims}
        if find_device_faults(
            form.roles, item.hosts, item.tasks, item.parts, item.devices, self._state.hosts
        ):
            return []
        if None in attempts or len(places) < len(item.victims):
            return []
        before = self._soon.copy(), dict(self._soon_pools)
        for victim, attempt in zip(item.victims, attempts, strict=True):
            if attempt is not None:
                self._add_soon(attempt, slots_only=victim.action == "suspend")
        if not self._suffices(wanted, wanted_pools):
            self._soon, self._soon_pools = before
            return []
        for host, amounts in wanted.items():
            self._free[:, host] -= amounts
        for name, value in wanted_pools.items():
            self._pools[name] = self._pools.get(name, 0) - value
        self._yielding |= places
        self._rooms[item.job] = self._room(self._state.jobs[item.job]) - 1
        hold = RoomHeld(
            item.cls, item.job, item.index, item.hosts, item.tasks, item.parts,
            item.alternative, item.victims, item.devices,
        )  # fmt: skip
        return [hold, *_ask(item, now_us)]

    def _may_wait(self, item: Preemption) -> bool:
        job, place = self._state.jobs.get(item.job), (item.job, item.index)
        if job is None or not job.waiting_since_us:
            return False
        position = job.position(item.index)
        if place in self._state.holds or position is None or self._room(job) <= 0:
            return False
        return contains(job.of_class(item.cls, self._pending(job)), position, position)

    def _room(self, job: Job) -> int:
        """Return how many more elements of a job may run beside those that the plan starts."""
        return self._rooms.get(job.id, self._state.room(job))

    def _victim(self, queue: str, victim: Victim) -> Attempt | None:
        """Return the attempt of a victim, if it may still be made to give way."""
        state, place = self._state, (victim.job, victim.index)
        job = state.jobs.get(victim.job)
        position = job.position(victim.index) if job is not None else None
        attempt = state.attempt(victim.job, position) if position is not None else None
        if job is None or position is None or attempt is None or place in self._yielding:
            return None
        other = state.queues.get(state.classes[attempt.cls].key.queue)
        mine = state.queues.get(queue)
        if mine is None or other is None or other.name not in mine.preempt:
            return None
        is_free = attempt.end_cause == EndCause.NONE and not attempt.shall_stop
        is_free = is_free and not attempt.is_firm
        is_left = (job.preempted or {}).get(position, 0) < state.config.preemptions_max
        may = other.priority < mine.priority and is_free and is_left and not attempt.suspended
        return attempt if may and attempt.number == victim.attempt else None

    def _add_soon(self, attempt: Attempt, *, slots_only: bool) -> None:
        """Add what comes free when an attempt has given way."""
        found = self._state.classes[attempt.cls]
        for host, column in held(found, attempt).items():
            if slots_only:
                self._soon[0, host] += column[0]
                continue
            self._soon[:, host] += column
            if found.key.request.exclusive:
                self._soon[0, host] += self._state.hosts.total[0, host] - column[0]
        if not slots_only:
            needs = found.forms[attempt.alternative].stages[attempt.returned]
            for name, value in of_pools(needs, attempt.tasks, attempt.parts).items():
                self._soon_pools[name] = self._soon_pools.get(name, 0) + value

    def _suffices(
        self, wanted: Mapping[HostNumber, Column], wanted_pools: Mapping[str, int]
    ) -> bool:
        table = self._state.hosts
        for host, amounts in wanted.items():
            if not (table.is_configured[host] and table.reachable()[host] and table.is_open[host]):
                return False
            there = self._free[:, host] + self._soon[:, host]
            if ((there < amounts) & (amounts > 0)).any():
                return False
        return all(
            self._pools.get(name, 0) + self._soon_pools.get(name, 0) >= value
            for name, value in wanted_pools.items()
        )


def _ask(item: Preemption, now_us: Micros) -> list[Record]:
    """Return the records that make the victims give way."""
    records: list[Record] = []
    by = f"job {item.job}" + (f"[{item.index}]" if item.index else "")
    for action in ("suspend", "requeue", "kill"):
        mine = [victim for victim in item.victims if victim.action == action]
        jobs, indices = [victim.job for victim in mine], [victim.index for victim in mine]
        if not mine:
            continue
        if action == "suspend":
            records.append(StopsChanged(jobs, indices, list(indices), Stop.PREEMPTED, True))
        else:
            records.append(
                EndDecided(
                    jobs, indices, list(indices), EndCause.PREEMPT, by, False, now_us,
                    requeue=action == "requeue",
                )
            )  # fmt: skip
    return records


def decide_resumes(
    state: ClusterState, free: Column, resumed: Iterable[tuple[JobId, Index, int]]
) -> list[Record]:
    """Return which preempted attempts go on, where their slots are free; these are taken."""
    jobs: list[JobId] = []
    indices: list[Index] = []
    for job_id, index, number in resumed:
        attempt = state.attempt_of(job_id, index)
        if attempt is None or attempt.number != number or not attempt.stops & Stop.PREEMPTED:
            continue
        sizes: dict[HostNumber, int] = {}
        if attempt.gave_slots:
            for host, tasks in zip(attempt.hosts, attempt.tasks, strict=True):
                sizes[host] = sizes.get(host, 0) + tasks
        if any(free[0, host] < size for host, size in sizes.items()):
            continue
        for host, size in sizes.items():
            free[0, host] -= size
        jobs.append(job_id)
        indices.append(index)
    if not jobs:
        return []
    return [StopsChanged(jobs, indices, list(indices), Stop.PREEMPTED, False)]
