"""Jobs are suspended where the load of a host is beyond what their queue bears, and go on again.

One look suspends one job of a host at most, of the queue with the lowest priority the one that
was placed last; so does what goes on again, the other way round. The next look comes with the next
reading of load. What is not known of a host is beyond nothing. Who cannot be told, as the worker of
its first host is away, is left out: others give way in its place.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from xce.control.windows import StopRuns
from xce.model.config import QueueConfig
from xce.model.ids import HostNumber, JobId
from xce.model.job import EndCause, Phase, Stop
from xce.model.load import INDICES, RISING, UNKNOWN
from xce.model.record import Record
from xce.state.cluster import ClusterState
from xce.state.hosts import Column, Flags
from xce.state.job import Attempt

_ROW: Final = {name: row for row, name in enumerate(INDICES)}

_Place = tuple[JobId, int]


def needs_look(state: ClusterState) -> bool:
    """Return whether the load of hosts may suspend a job, or let one go on."""
    load = state.hosts.load
    return any(
        beyond(load, queue.load_stop).any() for queue in state.queues.values() if queue.load_stop
    ) or any(True for _ in _stopped(state))


def beyond(load: Column, limits: Mapping[str, int]) -> Flags:
    """Return on which hosts any index is worse than its limit.

    Args:
        load: Along indices and hosts.
        limits: By load index, in thousandths.
    """
    found: Flags = np.zeros(load.shape[1], np.bool_)
    for name, limit in limits.items():
        values = load[_ROW[name]]
        worse = values > limit if name in RISING else values < limit
        found |= worse & (values != UNKNOWN)
    return found


def decide_load_stops(state: ClusterState, load: Column) -> list[Record]:
    """Return whom the load of hosts suspends, and whom it lets go on.

    Args:
        state: The state.
        load: What has been measured, along indices and hosts.
    """
    touched: set[HostNumber] = set()
    stops = _picked(state, _worst_first(state, load), touched, load)
    goes = []
    for place, attempt in _best_first(state):
        if _may_go(state, attempt, load, touched):
            touched.update(attempt.hosts)
            goes.append(place)
    return [
        *_runs_of(state, stops).changed(Stop.LOAD, is_on=True),
        *_runs_of(state, goes).changed(Stop.LOAD, is_on=False),
    ]


def _queue_of(state: ClusterState, attempt: Attempt) -> QueueConfig | None:
    return state.queues.get(state.classes[attempt.cls].key.queue)


def _stopped(state: ClusterState) -> Iterator[tuple[_Place, Attempt]]:
    """Yield what is suspended for the load of its hosts."""
    for job, position in state.stopped:
        attempt = state.attempt(job, position)
        if attempt is not None and attempt.stops & Stop.LOAD:
            yield (job, position), attempt


def _worst_first(state: ClusterState, load: Column) -> list[tuple[_Place, Attempt]]:
    """Return what may be suspended, whom it meets first in front."""
    meant = {
        name
        for name, queue in state.queues.items()
        if queue.load_stop and beyond(load, queue.load_stop).any()
    }
    if not meant:
        return []
    found = [
        (place, attempt)
        for places in state.on_host.values()
        for place in places
        if (attempt := state.attempt(*place)) is not None
        and state.classes[attempt.cls].key.queue in meant
        and attempt.phase == Phase.RUNNING
        and attempt.end_cause == EndCause.NONE
        and not attempt.shall_stop
        and not attempt.is_firm
        and _is_told(state, attempt)
    ]
    return sorted(
        found,
        key=lambda item: (
            _priority(state, item[1]),
            -item[1].placed_at_us,
            -item[0][0],
            item[0][1],
        ),
    )


def _is_told(state: ClusterState, attempt: Attempt) -> bool:
    """Return whether the host that suspends an attempt is there to hear of it."""
    return bool(state.hosts.is_up[attempt.hosts[0]])


def _priority(state: ClusterState, attempt: Attempt) -> int:
    queue = _queue_of(state, attempt)
    return 0 if queue is None else queue.priority


def _picked(
    state: ClusterState,
    found: list[tuple[_Place, Attempt]],
    touched: set[HostNumber],
    load: Column,
) -> list[_Place]:
    """Return whom to suspend, one for each host that is too busy for it."""
    # Where one is being suspended already, what that brings is to be seen first.
    touched.update(
        host
        for _, attempt in _stopped(state)
        if not attempt.suspended and _is_told(state, attempt)
        for host in attempt.hosts
    )
    picked = []
    flags = {name: beyond(load, queue.load_stop) for name, queue in state.queues.items()}
    for place, attempt in found:
        is_busy = flags[state.classes[attempt.cls].key.queue]
        if any(is_busy[host] for host in attempt.hosts if host not in touched):
            touched.update(attempt.hosts)
            picked.append(place)
    return picked


def _best_first(state: ClusterState) -> list[tuple[_Place, Attempt]]:
    return sorted(
        _stopped(state),
        key=lambda item: (-_priority(state, item[1]), item[1].placed_at_us, *item[0]),
    )


def _may_go(state: ClusterState, attempt: Attempt, load: Column, touched: set[HostNumber]) -> bool:
    """Return whether none of its hosts is too busy for an attempt to go on.

    That is so where nothing of its queue would be suspended, nor kept from starting.
    """
    queue = _queue_of(state, attempt)
    if queue is None or not queue.load_stop or not state.config.load_interval_us:
        return True
    if touched.intersection(attempt.hosts):
        return False
    here = load[:, attempt.hosts]
    return not any(beyond(here, limits).any() for limits in (queue.load_stop, queue.load_sched))


def _runs_of(state: ClusterState, places: list[_Place]) -> StopRuns:
    runs = StopRuns()
    wanted: dict[JobId, list[int]] = {}
    for job, position in places:
        wanted.setdefault(job, []).append(position)
    for job, positions in wanted.items():
        runs.add(state.jobs[job], positions)
    return runs
