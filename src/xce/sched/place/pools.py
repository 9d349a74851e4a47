"""What an attempt takes of pools."""

from collections.abc import Mapping

from xce.model.reason import Reason, ReasonCode
from xce.sched.shape import Shape


def pool_needs(shape: Shape, tasks: int) -> dict[str, int]:
    """Return what one attempt of ``tasks`` tasks takes of each pool.

    Parts of a compound request have their own numbers of tasks. A request with alternatives has
    no needs of its own: they are those of the alternative by which it starts.
    """
    needs: dict[str, int] = {}
    if shape.request.parts:
        for part in shape.inner:
            for name, value in pool_needs(part, part.tasks_min).items():
                needs[name] = needs.get(name, 0) + value
        return needs
    for name, value in shape.job_pools:
        needs[name] = needs.get(name, 0) + value
    for name, value in shape.task_pools:
        needs[name] = needs.get(name, 0) + value * tasks
    return needs


def most_attempts(shape: Shape, pools: Mapping[str, int], tasks: int) -> int | None:
    """Return for how many attempts of ``tasks`` tasks the pools last; None: no pool is needed."""
    needs = pool_needs(shape, tasks)
    lasts = [max(0, pools.get(name, 0) // value) for name, value in needs.items() if value > 0]
    floors = _floors(shape, pools)
    if floors or shape.reads_pools:
        # After each attempt less is there to hold against the threshold, or to select by.
        lasts.append(int(not any(pools[name] < floor for name, floor in floors.items())))
    return min(lasts, default=None)


def _floors(shape: Shape, pools: Mapping[str, int]) -> dict[str, int]:
    """Return what of pools must be there by the thresholds of ``rusage[]``, rounded up."""
    floors: dict[str, int] = {}
    for one in (shape, *(shape.inner if shape.request.parts else ())):
        for threshold in one.request.thresholds:
            name, floor = threshold.resource, -(-threshold.value_milli // 1000)
            if name in pools:
                floors[name] = max(floors.get(name, 0), floor)
    return floors


def most_tasks(shape: Shape, pools: Mapping[str, int]) -> int:
    """Return the largest number of tasks, up to ``tasks_max``, for which the pools last; or 0."""
    once = pool_needs(shape, 0)
    most = shape.tasks_max
    if any(pools[name] < floor for name, floor in _floors(shape, pools).items()):
        return 0
    for name, value in once.items():
        if value > 0 and pools.get(name, 0) < value:
            return 0
    for name, needed in pool_needs(shape, 1).items():
        value = needed - once.get(name, 0)
        if value > 0:
            most = min(most, max(0, (pools.get(name, 0) - once.get(name, 0)) // value))
    return most


def explain_shortage(
    shape: Shape, pools: Mapping[str, int], *, tasks: int = 0, is_total: bool = False
) -> Reason | None:
    """Return the first pool that is too short for one attempt, or None.

    Args:
        shape: What asks.
        pools: What each pool has.
        tasks: Of so many tasks; 0: of the fewest.
        is_total: ``pools`` are the totals, so that a shortage lasts.
    """
    if not (shape.inner or shape.task_pools or shape.job_pools or shape.request.thresholds):
        return None
    needs = pool_needs(shape, tasks or shape.tasks_min)
    for name, floor in _floors(shape, pools).items():
        needs[name] = max(needs.get(name, 0), floor)
    for name, value in sorted(needs.items()):
        available = pools.get(name, 0)
        if value > available:
            return Reason(
                ReasonCode.POOL,
                resource=name,
                needed=value,
                available=max(available, 0),
                unsatisfiable=is_total,
            )
    return None


def take(shape: Shape, pools: dict[str, int], *, tasks: int, attempts: int) -> None:
    """Give out what ``attempts`` attempts of ``tasks`` tasks take."""
    for name, value in pool_needs(shape, tasks).items():
        pools[name] = pools.get(name, 0) - value * attempts
