"""How long elements pended while no session would try them: LSF's ineligible pending time.

The clock of an element is the time of day while it is held or waits for an instant or for other
jobs, and its queue's while it only pends: that one goes while the queue is inactive or its run
windows are closed. Kept is how far an element is behind its clock, so that nothing need be written
as time passes: what it says now is how long the element was ineligible. Of what is placed or over
the clock stands, and what is kept is the whole.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from xce.model.ids import Micros
from xce.model.ranges import (
    ZERO,
    Ranges,
    contains,
    intersect,
    subtract,
    unite,
)
from xce.state.cluster import ClusterState, Shut
from xce.state.job import Job

Spans: TypeAlias = tuple[tuple[Ranges, Micros], ...]
_NOTHING: Final[Spans] = ()


def settle_queues(state: ClusterState) -> None:
    """Let the clocks of queues go, and stand, as configuration, operators and windows have it."""
    shut = state.shut
    for name in {**state.queues, **shut}:
        queue, clock = state.queues.get(name), shut.get(name)
        is_shut = queue is None or not queue.active or not state.is_window_open(name)
        if is_shut and clock is None:
            shut[name] = Shut(since_us=max(state.now_us, 1))
        elif clock is not None and is_shut != bool(clock.since_us):
            if is_shut:
                clock.since_us = max(state.now_us, 1)
            else:
                clock.total_us += max(0, state.now_us - clock.since_us)
                clock.since_us = 0


def enter(state: ClusterState, job: Job, among: Ranges) -> None:
    """Let the clocks of elements go that have just come to wait as they do now."""
    if job.waits or job.held or job.awaiting or state.shut:
        for part, clock_us in _clocks(state, job, among, state.now_us):
            _add(job, part, -clock_us)


def leave(state: ClusterState, job: Job, among: Ranges) -> None:
    """Stop the clocks of elements that wait as they do no longer."""
    if job.waits or job.held or job.awaiting or state.shut:
        for part, clock_us in _clocks(state, job, among, state.now_us):
            _add(job, part, clock_us)


def _clocks(
    state: ClusterState, job: Job, among: Ranges, now_us: Micros
) -> Iterator[tuple[Ranges, Micros]]:
    """Yield what the clocks of waiting elements say, but for those that never went."""
    if job.waits:
        slow = intersect(unite(job.pending, job.held), among)
    else:
        slow = intersect(unite(job.held, job.awaiting), among)
    if slow:
        yield slow, now_us
    rest = subtract(intersect(job.pending, among), slow) if state.shut else ()
    for cls, _, part in job.forms(rest) if rest else ():
        clock = state.shut.get(state.classes[cls].key.queue)
        if clock is not None and (clock_us := clock.at(now_us)):
            yield part, clock_us


def _add(job: Job, among: Ranges, amount_us: Micros) -> None:
    """Move what is kept of elements."""
    if job.size == 1:
        job.ineligible_us += amount_us
        return
    everything = ((0, job.size - 1),)
    found: dict[Micros, Ranges] = {}
    for part, behind_us in (*job.ineligible, (_rest(job), job.ineligible_us)):
        for mine, more_us in ((intersect(part, among), amount_us), (subtract(part, among), 0)):
            if mine:
                found[behind_us + more_us] = unite(found.get(behind_us + more_us, ()), mine)
    if found.get(job.ineligible_us, everything) == everything:
        # Nothing is as the rest was: another one is the rest.
        job.ineligible_us = next(iter(found))
    found.pop(job.ineligible_us, None)
    job.ineligible = tuple((part, behind_us) for behind_us, part in sorted(found.items()))


def _rest(job: Job) -> Ranges:
    rest: Ranges = ((0, job.size - 1),)
    for part, _ in job.ineligible:
        rest = subtract(rest, part)
    return rest


def spans(state: ClusterState, job: Job, among: Ranges, now_us: Micros) -> Spans | None:
    """Return how long elements of a job have been ineligible, those alike together; those that
    never were are left out. None: nobody knows, the job is from before that was kept.
    """
    if job.id < state.timed_from:
        return None
    is_kept = job.ineligible_us or job.ineligible
    if not (is_kept or job.waits or job.held or job.awaiting or state.shut):
        return _NOTHING
    found: dict[Micros, Ranges] = {}
    kept = (*job.ineligible, (_rest(job) if job.ineligible else among, job.ineligible_us))
    clocks = [*_clocks(state, job, among, now_us)]
    for part, behind_us in kept:
        left = intersect(part, among)
        for slow, clock_us in (*clocks, (left, 0)):
            mine = intersect(left, slow)
            left = subtract(left, mine)
            if mine and behind_us + clock_us:
                total_us = behind_us + clock_us
                found[total_us] = unite(found.get(total_us, ()), mine)
    return tuple((part, total_us) for total_us, part in sorted(found.items()))


def ineligible_us(state: ClusterState, job: Job, position: int, now_us: Micros) -> Micros | None:
    """Return how long an element has been ineligible; None: nobody knows."""
    found = spans(state, job, ZERO if job.size == 1 else ((position, position),), now_us)
    return None if found is None else (found[0][1] if found else 0)


def alike(found: Spans | None, ranges: Ranges) -> Iterator[Ranges]:
    """Yield the parts of ``ranges`` that were ineligible for equally long."""
    for part, _ in found or ():
        mine = intersect(ranges, part)
        if mine:
            yield mine
        ranges = subtract(ranges, part)
    if ranges:
        yield ranges


def span_at(found: Spans | None, position: int) -> Micros | None:
    """Return what `spans` says of one element."""
    if found is None:
        return None
    return next((us for part, us in found if contains(part, position, position)), 0)
