"""How long elements pended while no session would try them: LSF's ineligible pending time.

The clock of an element is the time of day while it is held or waits for an instant or for other
jobs, and its queue's while it only pends: that one goes while the queue is inactive or its run
windows are closed. Kept is how far an element is behind its clock, so that nothing need be written
as time passes: what it says now is how long the element was ineligible. Of what is placed or over
the clock stands, and what is kept is the whole.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, TypeAlias

from xce.model.ids import Micros
from xce.model.ranges import ZERO, Ranges, from_runs, intersect, subtract, unite
from xce.state.cluster import ClusterState, Shut
from xce.state.job import Job

Span: TypeAlias = tuple[int, int, Micros]
"""Elements ``first..last``, and an amount that each of them has."""
Spans: TypeAlias = tuple[Span, ...]
"""In the order of the elements, apart from each other; others have none."""
_FIRST: Final = itemgetter(0)
_LAST: Final = itemgetter(1)
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
        _move(state, job, among, -1)


def leave(state: ClusterState, job: Job, among: Ranges) -> None:
    """Stop the clocks of elements that wait as they do no longer."""
    if job.waits or job.held or job.awaiting or state.shut:
        _move(state, job, among, 1)


def _move(state: ClusterState, job: Job, among: Ranges, sign: int) -> None:
    """Add to what is kept of elements what their clocks say, or take it away."""
    if job.size == 1:
        job.ineligible_us += sign * _clock_us(state, job, state.now_us)
        return
    for part, clock_us in _clocks(state, job, among, state.now_us):
        _add(job, part, sign * clock_us)


def _clock_us(state: ClusterState, job: Job, now_us: Micros) -> Micros:
    """Return what the clock of a job with one element says, while that waits."""
    if not (job.pending or job.held):
        return 0
    if job.waits or job.held or job.awaiting:
        return now_us
    cls = job.cls if not job.variants else job.form_at(0)[0]
    clock = state.shut.get(state.classes[cls].key.queue)
    return 0 if clock is None else clock.at(now_us)


def _clocks(
    state: ClusterState, job: Job, among: Ranges, now_us: Micros
) -> Iterator[tuple[Ranges, Micros]]:
    """Yield what the clocks of waiting elements say, but for those that never went."""
    pending, held = intersect(job.pending, among), intersect(job.held, among)
    slow = unite(held, pending if job.waits else intersect(job.awaiting, among))
    if slow:
        yield slow, now_us
    rest = subtract(pending, slow) if state.shut else ()
    for cls, _, part in job.forms(rest) if rest else ():
        clock = state.shut.get(state.classes[cls].key.queue)
        if clock is not None and (clock_us := clock.at(now_us)):
            yield part, clock_us


def _add(job: Job, among: Ranges, amount_us: Micros) -> None:
    """Move what is kept of elements of an array.

    Many may be released one by one, so that only what is next to them is looked at.
    """
    kept = job.ineligible
    if among == ((0, job.size - 1),):
        job.ineligible_us += amount_us
        job.ineligible = tuple((low, high, behind + amount_us) for low, high, behind in kept)
        return
    for low, high in among:
        at, end = bisect_left(kept, low - 1, key=_LAST), bisect_right(kept, high + 1, key=_FIRST)
        near = kept[at:end]
        pieces = [(first, min(last, low - 1), behind) for first, last, behind in near]
        pieces += [
            (first, last, behind + amount_us)
            for first, last, behind in _cut(near, low, high, job.ineligible_us)
        ]
        pieces += [(max(first, high + 1), last, behind) for first, last, behind in near]
        kept = (*kept[:at], *_joined(pieces, job.ineligible_us), *kept[end:])
    job.ineligible = kept


def _cut(kept: Spans, low: int, high: int, rest_us: Micros) -> Iterator[Span]:
    """Yield the elements ``low..high`` by what is kept of them; of others it is ``rest_us``."""
    for at in range(bisect_left(kept, low, key=_LAST), len(kept)):
        first, last, amount_us = kept[at]
        if first > high:
            break
        if low < first:
            yield low, first - 1, rest_us
        yield max(first, low), min(last, high), amount_us
        low = last + 1
    if low <= high:
        yield low, high, rest_us


def _joined(pieces: Iterable[Span], rest_us: Micros) -> list[Span]:
    """Return pieces in order, joined where they touch, without those that are as the rest."""
    found: list[Span] = []
    for first, last, amount_us in pieces:
        if first > last or amount_us == rest_us:
            continue
        if found and found[-1][1] == first - 1 and found[-1][2] == amount_us:
            found[-1] = (found[-1][0], last, amount_us)
        else:
            found.append((first, last, amount_us))
    return found


def spans(state: ClusterState, job: Job, among: Ranges, now_us: Micros) -> Spans | None:
    """Return how long elements of a job have been ineligible; those that never were are left out.
    None: nobody knows, the job is from before that was kept.
    """
    if job.id < state.timed_from:
        return None
    kept, rest_us = job.ineligible, job.ineligible_us
    if not (rest_us or kept or job.waits or job.held or job.awaiting or state.shut):
        return _NOTHING
    if job.size == 1:
        total_us = rest_us + _clock_us(state, job, now_us)
        return ((0, 0, total_us),) if total_us else _NOTHING
    clocks = [*_clocks(state, job, among, now_us)]
    for part, _ in clocks:
        among = subtract(among, part)
    return tuple(
        _joined(
            sorted(
                (first, last, behind_us + clock_us)
                for part, clock_us in (*clocks, (among, 0))
                for low, high in part
                for first, last, behind_us in _cut(kept, low, high, rest_us)
            ),
            0,
        )
    )


def ineligible_us(state: ClusterState, job: Job, position: int, now_us: Micros) -> Micros | None:
    """Return how long an element has been ineligible; None: nobody knows."""
    among = ZERO if job.size == 1 else ((position, position),)
    return span_at(spans(state, job, among, now_us), position)


def alike(found: Spans | None, ranges: Ranges) -> Iterable[Ranges]:
    """Return the parts of ``ranges`` that were ineligible for equally long."""
    if not found:
        return (ranges,) if ranges else ()
    parts: dict[Micros, list[tuple[int, int]]] = {}
    for low, high in ranges:
        for first, last, span_us in _cut(found, low, high, 0):
            parts.setdefault(span_us, []).append((first, last))
    return map(from_runs, parts.values())


def span_at(found: Spans | None, position: int) -> Micros | None:
    """Return what `spans` says of one element."""
    if found is None:
        return None
    return next(_cut(found, position, position, 0))[2]
