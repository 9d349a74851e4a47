"""Whether what really runs on hosts fits there: judged by what was launched."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from xce.model.effect import Launch
from xce.model.job import EndCause
from xce.model.request import Request
from xce.sim.untrue import demand
from xce.state.cluster import ClusterState
from xce.worker.action import Key


def check_room(
    state: ClusterState,
    running: Mapping[Key, tuple[str, Launch]],
    ignored: set[Key],
    stopped: set[Key],
) -> None:
    """What runs fits: slots, memory, counters, pools; exclusive jobs are alone.

    Args:
        state: What the journal says.
        running: What runs where, as it was launched.
        ignored: Of that, what was given up, or is unknown to the journal.
        stopped: What is suspended.

    Raises:
        UntrueError: It does not fit.
    """
    used: Counter[tuple[str, str]] = Counter()
    guests: Counter[str] = Counter()
    lonely: set[str] = set()
    for key, (_, launch) in running.items():
        if key in ignored:
            continue
        request = _request_of(state, key)
        # What comes back early may be others' already.
        amounts = [amount for amount in request.amounts if not amount.duration_us]
        tasks = sum(count for _, count in launch.hosts)
        has_slots = not _gave_slots(state, key, stopped)
        for place, (host, count) in enumerate(launch.hosts):
            used[host, "slots"] += count * has_slots
            guests[host] += 1
            if request.exclusive:
                lonely.add(host)
            for amount in amounts:
                if amount.per == "task":
                    used[host, amount.resource] += amount.value * count
                elif amount.per == "host" or place == 0:
                    used[host, amount.resource] += amount.value
        for amount in amounts:
            times = tasks if amount.per == "task" else 1
            used["", amount.resource] += amount.value * times
    config = state.config
    for host_config in config.hosts:
        name = host_config.name
        totals = {"slots": host_config.slots, "mem": host_config.mem_mib}
        for resource, total in {**totals, **host_config.counters}.items():
            in_use = used[name, resource]
            demand(total is None or in_use <= total, f"{in_use} {resource} in use on {name}")
        demand(name not in lonely or guests[name] == 1, f"{name} is shared")
    for pool in config.pools:
        demand(used["", pool.name] <= pool.total, f"pool {pool.name} is over-committed")


def _request_of(state: ClusterState, key: Key) -> Request:
    """Return what an attempt has; its job may ask for something else by now."""
    job = state.jobs[key[0]]
    position = job.position(key[1])
    attempt = state.attempt(job.id, position) if position is not None else None
    cls, chosen = job.cls, 0
    if attempt is not None and attempt.number == key[2]:
        cls, chosen = attempt.cls, attempt.alternative
    request = state.classes[cls].key.request
    if not request.alternatives:
        return request
    return msgspec.structs.replace(
        request.alternatives[chosen].request, exclusive=request.exclusive
    )


def _gave_slots(state: ClusterState, key: Key, stopped: set[Key]) -> bool:
    """Whether an attempt gave its slots to others; then it is stopped, or being ended."""
    job = state.jobs[key[0]]
    position = job.position(key[1])
    attempt = state.attempt(job.id, position) if position is not None else None
    if attempt is None or attempt.number != key[2] or not attempt.gave_slots:
        return False
    is_ending = attempt.end_cause != EndCause.NONE
    demand(is_ending or key in stopped, f"{key} runs on slots that it gave away")
    return True
