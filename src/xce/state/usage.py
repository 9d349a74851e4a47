"""What is given out: amounts on hosts and of pools, taken and returned by whole attempts.

An amount with a duration comes back while its attempt lives on (see `xce.state.needs`).
"""

from collections.abc import Sequence

import numpy as np

from xce.model.ids import HostNumber
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Column
from xce.state.job import Attempt
from xce.state.needs import Need, of_pools, on_hosts


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
            take_gang(state, state.classes[attempt.cls], attempt)


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
    numbers, sizes = np.asarray(hosts, np.int64), np.asarray(counts, np.int64)
    # A view with hosts first: `add.at` then counts a host that is named twice twice.
    np.add.at(table.used.T, numbers, sizes[:, None] * each[None, :])
    np.add.at(table.attempts, numbers, sizes)
    if found.key.request.exclusive:
        np.add.at(table.exclusive, numbers, sizes)
    _take_pools(state, need, tasks, int(sizes.sum()))


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
    return on_hosts(needs, attempt.hosts, attempt.tasks, attempt.parts)


def _move_gang(state: ClusterState, found: RequestClass, attempt: Attempt, sign: int) -> None:
    table = state.hosts
    for host, amounts in held(found, attempt).items():
        table.used[:, host] += sign * amounts
        table.attempts[host] += sign
        if found.key.request.exclusive:
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
