"""What is given out: amounts on hosts and of pools, taken and returned by whole attempts."""

from collections.abc import Sequence

import numpy as np

from xce.model.ids import HostNumber
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Column


def need(found: RequestClass, tasks: int, *, is_first: bool = True) -> Column:
    """Return what an attempt takes on a host on which it has ``tasks`` tasks, along the rows.

    Args:
        found: The class of the attempt.
        tasks: Tasks on that host, at least 1.
        is_first: Whether it is the attempt's first host, which carries the amounts for the job.
    """
    amounts: Column = found.per_task * tasks + found.per_host
    return amounts + found.per_job if is_first else amounts


def recount(state: ClusterState) -> None:
    """Make what is given out the sum of what live attempts hold.

    Rows and pools may have come, gone or changed places with a configuration.
    """
    table = state.hosts
    table.used[:] = 0
    table.attempts[:] = 0
    table.exclusive[:] = 0
    state.pools.used = dict.fromkeys(state.pools.total, 0)
    for places in state.on_host.values():
        for job_id, position in places:
            attempt = state.attempt(job_id, position)
            assert attempt is not None, f"element {position} of job {job_id} is on a host, not live"
            take_gang(state, state.classes[attempt.cls], attempt.hosts, attempt.tasks)


def take_bulk(
    state: ClusterState,
    found: RequestClass,
    hosts: Sequence[HostNumber],
    counts: Sequence[int],
) -> None:
    """Give out what ``counts[i]`` single-host attempts take on each ``hosts[i]``."""
    table = state.hosts
    each = need(found, found.key.request.tasks_max)
    numbers, sizes = np.asarray(hosts, np.int64), np.asarray(counts, np.int64)
    # A view with hosts first: `add.at` then counts a host that is named twice twice.
    np.add.at(table.used.T, numbers, sizes[:, None] * each[None, :])
    np.add.at(table.attempts, numbers, sizes)
    if found.key.request.exclusive:
        np.add.at(table.exclusive, numbers, sizes)
    _take_pools(state, found, found.key.request.tasks_max * int(sizes.sum()), int(sizes.sum()))


def give_back_bulk(state: ClusterState, freed: dict[tuple[int, HostNumber], int]) -> None:
    """Take back what single-host attempts held: ``freed[class, host]`` of them."""
    table = state.hosts
    for (cls, host), size in freed.items():
        found = state.classes[cls]
        tasks = found.key.request.tasks_max
        table.used[:, host] -= need(found, tasks) * size
        table.attempts[host] -= size
        if found.key.request.exclusive:
            table.exclusive[host] -= size
        _take_pools(state, found, -tasks * size, -size)


def take_gang(
    state: ClusterState,
    found: RequestClass,
    hosts: Sequence[HostNumber],
    tasks: Sequence[int],
) -> None:
    """Give out what one attempt takes on its hosts."""
    _move_gang(state, found, hosts, tasks, 1)
    _take_pools(state, found, sum(tasks), 1)


def give_back(
    state: ClusterState,
    found: RequestClass,
    hosts: Sequence[HostNumber],
    tasks: Sequence[int],
) -> None:
    """Take back what one attempt held."""
    _move_gang(state, found, hosts, tasks, -1)
    _take_pools(state, found, -sum(tasks), -1)


def _move_gang(
    state: ClusterState,
    found: RequestClass,
    hosts: Sequence[HostNumber],
    tasks: Sequence[int],
    sign: int,
) -> None:
    table = state.hosts
    for place, (host, size) in enumerate(zip(hosts, tasks, strict=True)):
        table.used[:, host] += sign * need(found, size, is_first=place == 0)
        table.attempts[host] += sign
        if found.key.request.exclusive:
            table.exclusive[host] += sign


def _take_pools(state: ClusterState, found: RequestClass, tasks: int, attempts: int) -> None:
    used = state.pools.used
    for name, value in found.task_pools:
        used[name] = used.get(name, 0) + value * tasks
    for name, value in found.job_pools:
        used[name] = used.get(name, 0) + value * attempts
