"""Slots that the jobs of each queue, or of each application profile, want and have."""

from collections import defaultdict
from collections.abc import Callable

from xce.model.request import ClassKey
from xce.state.cluster import ClusterState


class Load:
    """Slots of some jobs."""

    __slots__ = ("pend", "run", "ssusp", "susp")

    def __init__(self) -> None:
        self.pend = self.run = self.susp = self.ssusp = 0


def sum_loads(state: ClusterState, name_of: Callable[[ClassKey], str]) -> defaultdict[str, Load]:
    """Return the slots of all jobs, by what their classes are called.

    Costs: a look at each class, and at each attempt only where some were placed with a number of
    tasks of the scheduler's choice.
    """
    loads: defaultdict[str, Load] = defaultdict(Load)
    flexible: set[int] = set()
    for item in state.classes.values():
        load, request = loads[name_of(item.key)], item.key.request
        load.pend += (item.pending + item.held) * request.tasks_min
        if request.tasks_min == request.tasks_max:
            load.run += (item.live - item.suspended) * request.tasks_max
            load.susp += item.suspended * request.tasks_max
        elif item.live:
            flexible.add(item.cls)
    if flexible:
        _add_flexible(state, flexible, loads, name_of)
    for job, position in state.stopped:
        attempt = state.attempt(job, position)
        if attempt is not None and attempt.is_stopped_by_system:
            loads[name_of(state.classes[attempt.cls].key)].ssusp += sum(attempt.tasks)
    return loads


def _add_flexible(
    state: ClusterState,
    classes: set[int],
    loads: defaultdict[str, Load],
    name_of: Callable[[ClassKey], str],
) -> None:
    """Count the slots of attempts whose number of tasks was chosen at their start."""
    for places in state.on_host.values():
        for job, position in places:
            attempt = state.attempt(job, position)
            if attempt is None or attempt.cls not in classes:
                continue
            load, slots = loads[name_of(state.classes[attempt.cls].key)], sum(attempt.tasks)
            if attempt.suspended:
                load.susp += slots
            else:
                load.run += slots
