"""Jobs that must be over at an instant: what of them is late, and when they are looked at.

Whoever waits is late as soon as what it may run for does not fit before its deadline.
"""

from collections.abc import Iterator

from xce.model.ids import Micros
from xce.model.job import EndCause
from xce.model.ranges import EMPTY, Ranges, from_sorted, unite
from xce.state.cluster import ClusterState
from xce.state.job import Job


def last_start_us(state: ClusterState, cls: int, spec_id: int) -> Micros:
    """Return at which instant what is of a class and a spec is too late to start; 0: never."""
    deadline_us = state.deadlines.get(spec_id, 0)
    return max(deadline_us - state.classes[cls].key.run_limit_us, 1) if deadline_us else 0


def late_waiting(state: ClusterState, job: Job, now_us: Micros) -> Ranges:
    """Return the positions of a job that wait and cannot be over in time any more."""
    found = EMPTY
    for cls, spec_id, part in job.forms(unite(job.pending, job.held)):
        if 0 < last_start_us(state, cls, spec_id) <= now_us:
            found = unite(found, part)
    return found


def overdue(state: ClusterState, job: Job, now_us: Micros) -> Ranges:
    """Return the positions whose attempts live at their deadline, and nobody has ended them."""
    return from_sorted(sorted(_each_overdue(state, job, now_us)))


def _each_overdue(state: ClusterState, job: Job, now_us: Micros) -> Iterator[int]:
    for position, attempt in (job.live or {}).items():
        if attempt.end_cause == EndCause.NONE:
            spec_id = state.spec_id_at(job, position)
            if 0 < state.deadlines.get(spec_id, 0) <= now_us:
                yield position


def is_late(state: ClusterState, job: Job) -> bool:
    """Return whether anything of a job that waits is late: it is ended, and does not start."""
    return bool(state.deadlines) and bool(late_waiting(state, job, state.now_us))


def await_deadlines(state: ClusterState, job: Job) -> None:
    """Have a job looked at when something of it becomes late."""
    if not state.deadlines:
        return
    for form in job.own_forms():
        _await(state, job, *form)
    for attempt in (job.live or {}).values():
        if attempt.spec_id:
            _await(state, job, attempt.cls, attempt.spec_id)


def await_again(state: ClusterState, job: Job, position: int) -> None:
    """Have a job looked at of which an element waits again."""
    if state.deadlines:
        _await(state, job, *job.form_at(position))


def _await(state: ClusterState, job: Job, cls: int, spec_id: int) -> None:
    """Have a job looked at when what waits is late, and when what lives is; once for each."""
    deadline_us = state.deadlines.get(spec_id, 0)
    if not deadline_us:
        return
    for at_us in (last_start_us(state, cls, spec_id), deadline_us):
        if (at_us, job.id) not in state.awaited:
            state.awaited.add((at_us, job.id))
            state.wait_until(at_us, job.id)


def is_awaited(state: ClusterState, at_us: Micros, job: Job) -> bool:
    """Return whether something of a job is late by an instant, as far as is known now.

    Where that becomes so later, it is awaited anew.
    """
    by_us = max(at_us, state.now_us)
    return bool(late_waiting(state, job, by_us)) or any(
        True for _ in _each_overdue(state, job, by_us)
    )
