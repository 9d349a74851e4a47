"""What is given out: amounts on hosts and of pools, taken and returned by whole attempts.

An amount with a duration comes back while its attempt lives on (see `xce.state.needs`).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from xce.model.ids import HostNumber
from xce.model.job import EndCause, Stop
from xce.model.record import RoomHeld
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Column
from xce.state.job import Attempt
from xce.state.needs import Need, of_pools, on_hosts
from xce.state.processors import add_held

_FEW: Final = 4
"""So many hosts are faster one by one."""


def recount(state: ClusterState) -> None:
    """Make what is given out the sum of what live attempts hold.

    Rows and pools may have come, gone or changed places with a configuration.
    """
    table = state.hosts
    table.used[:] = 0
    table.attempts[:] = 0
    table.exclusive[:] = 0
    table.held[:] = 0
    state.pools.used = dict.fromkeys(state.pools.total, 0)
    state.pools.held = dict.fromkeys(state.pools.total, 0)
    for hold in state.holds.values():
        move_hold(state, hold, 1)
    for places in state.on_host.values():
        for job_id, position in places:
            attempt = state.attempt(job_id, position)
            assert attempt is not None, f"element {position} of job {job_id} is on a host, not live"
            take_gang(state, state.classes[attempt.cls], attempt)
            if attempt.gave_slots:
                move_slots(state, attempt, -1)


def move_hold(state: ClusterState, hold: RoomHeld, sign: int) -> None:
    """Hold room for an element, or release it."""
    form = state.classes[hold.cls].forms[hold.alternative]
    for host, amounts in on_hosts(
        form.needs, hold.hosts, hold.tasks, hold.parts, hold.devices
    ).items():
        state.hosts.held[:, host] += sign * amounts
    held_pools = state.pools.held
    for name, value in of_pools(form.needs, hold.tasks, hold.parts).items():
        held_pools[name] = held_pools.get(name, 0) + sign * value


def yields(attempt: Attempt) -> int:
    """Return what an attempt is giving way with: 0 nothing, 1 its slots, 2 all that it holds."""
    if attempt.end_cause == EndCause.PREEMPT:
        return 2
    return int(bool(attempt.stops & Stop.PREEMPTED) and not attempt.gave_slots)


def move_slots(state: ClusterState, attempt: Attempt, sign: int) -> None:
    """Take the slots of an attempt, or give them back, while it keeps the rest."""
    for host, tasks in zip(attempt.hosts, attempt.tasks, strict=True):
        state.hosts.used[0, host] += sign * tasks


def take_bulk(
    state: ClusterState,
    found: RequestClass,
    hosts: Sequence[HostNumber],
    counts: Sequence[int],
    *,
    stage: int = 0,
) -> None:
    """Give out what ``counts[i]`` single-host attempts take on each ``hosts[i]``."""
    table = state.hosts
    tasks = found.key.request.tasks_max
    need = found.forms[0].stages[stage][0]
    each = need.on_host(tasks)
    if len(hosts) <= _FEW:
        for host, size in zip(hosts, counts, strict=True):
            table.used[:, host] += each * size
            table.attempts[host] += size
            if found.key.request.exclusive:
                table.exclusive[host] += size
    else:
        numbers, sizes = np.asarray(hosts, np.int64), np.asarray(counts, np.int64)
        # A view with hosts first: `add.at` then counts a host that is named twice twice.
        np.add.at(table.used.T, numbers, sizes[:, None] * each[None, :])
        np.add.at(table.attempts, numbers, sizes)
        if found.key.request.exclusive:
            np.add.at(table.exclusive, numbers, sizes)
    _take_pools(state, need, tasks, sum(counts))


def give_back_bulk(state: ClusterState, freed: dict[tuple[int, HostNumber, int], int]) -> None:
    """Take back what single-host attempts held: ``freed[class, host, stage]`` of them."""
    table = state.hosts
    for (cls, host, stage), size in freed.items():
        found = state.classes[cls]
        tasks = found.key.request.tasks_max
        need = found.forms[0].stages[stage][0]
        table.used[:, host] -= need.on_host(tasks) * size
        table.attempts[host] -= size
        if found.key.request.exclusive:
            table.exclusive[host] -= size
        _take_pools(state, need, tasks, -size)


def move_devices(state: ClusterState, found: RequestClass, attempt: Attempt, sign: int) -> None:
    """Take the devices and processors of a single-host attempt, or give them back; see
    `take_bulk`.
    """
    wish, host = found.key.request.gpu, attempt.hosts[0]
    if attempt.processors:
        held = np.zeros(state.hosts.width, np.int64)
        add_held(held, state.hosts.word_row, attempt.processors[0], attempt.tasks[0])
        state.hosts.used[:, host] += sign * held
    if wish is None or not attempt.devices:
        return
    row = state.hosts.device_row
    for device in attempt.devices[0]:
        state.hosts.used[row + device, host] += sign * wish.milli


def take_gang(state: ClusterState, found: RequestClass, attempt: Attempt) -> None:
    """Give out what one attempt takes."""
    _move_gang(state, found, attempt, 1)


def give_back(state: ClusterState, found: RequestClass, attempt: Attempt) -> None:
    """Take back what one attempt held."""
    _move_gang(state, found, attempt, -1)


def return_amounts(state: ClusterState, found: RequestClass, attempt: Attempt, stage: int) -> None:
    """Take back what an attempt no longer holds at ``stage``."""
    before = held(found, attempt)
    stages = found.forms[attempt.alternative].stages
    pools = of_pools(stages[attempt.returned], attempt.tasks, attempt.parts)
    attempt.returned = stage
    for host, amounts in held(found, attempt).items():
        state.hosts.used[:, host] += amounts - before[host]
    for name, value in of_pools(stages[stage], attempt.tasks, attempt.parts).items():
        pools[name] -= value
    _move_pools(state, pools, -1)


def held(found: RequestClass, attempt: Attempt) -> dict[HostNumber, Column]:
    """Return what an attempt holds on each of its hosts, along the rows."""
    needs = found.forms[attempt.alternative].stages[attempt.returned]
    return on_hosts(
        needs, attempt.hosts, attempt.tasks, attempt.parts, attempt.devices, attempt.processors,
        attempt.headless,
    )  # fmt: skip


def leave_out(state: ClusterState, attempt: Attempt, host: HostNumber) -> int:
    """Let an attempt hold nothing on a host any more; return how many slots it had there."""
    found = state.classes[attempt.cls]
    if attempt.gave_slots:
        move_slots(state, attempt, 1)
    give_back(state, found, attempt)
    slots = 0
    if not attempt.ranks:
        attempt.ranks = [sum(attempt.tasks[:place]) for place in range(len(attempt.tasks))]
    parts = attempt.parts or [0] * len(attempt.hosts)
    for place in range(len(attempt.hosts) - 1, -1, -1):
        if attempt.hosts[place] != host:
            continue
        slots += attempt.tasks[place]
        if parts[place] not in parts[:place]:
            attempt.headless = sorted({*attempt.headless, parts[place]})
        for column in (
            attempt.hosts, attempt.tasks, attempt.parts, attempt.devices, attempt.processors,
            attempt.ranks,
        ):  # fmt: skip
            if column:
                del column[place]
    attempt.alone = [one for one in attempt.alone if one != host]
    attempt.left_out = [*attempt.left_out, host]
    take_gang(state, found, attempt)
    if attempt.gave_slots:
        move_slots(state, attempt, -1)
    return slots


def _move_gang(state: ClusterState, found: RequestClass, attempt: Attempt, sign: int) -> None:
    table = state.hosts
    for host, amounts in held(found, attempt).items():
        table.used[:, host] += sign * amounts
        table.attempts[host] += sign
        if found.key.request.exclusive:
            table.exclusive[host] += sign
    if not found.key.request.exclusive:
        for host in attempt.alone:
            table.exclusive[host] += sign
    needs = found.forms[attempt.alternative].stages[attempt.returned]
    _move_pools(state, of_pools(needs, attempt.tasks, attempt.parts), sign)


def _move_pools(state: ClusterState, taken: dict[str, int], sign: int) -> None:
    used = state.pools.used
    for name, value in taken.items():
        used[name] = used.get(name, 0) + sign * value


def _take_pools(state: ClusterState, need: Need, tasks: int, attempts: int) -> None:
    used = state.pools.used
    for name, value in need.task_pools:
        used[name] = used.get(name, 0) + value * tasks * attempts
    for name, value in need.job_pools:
        used[name] = used.get(name, 0) + value * attempts
