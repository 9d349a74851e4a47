"""Who must end first: running attempts whose ends, together, let a job start.

The set is minimal: with one of them left out the job does not start, as trials showed. Of several
such sets it is one of those that are expected to end early.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from xce.advice.sketch import Place, Sketch
from xce.advice.trials import BoundHitError, Element, Trials
from xce.model.ids import Index, JobId, Micros
from xce.model.job import Phase
from xce.sched.fairshare import Shares
from xce.sched.order import ORDERS, Line
from xce.sched.running import FAR, expected_end
from xce.state.cluster import ClusterState

BLOCKERS_MAX: Final = 200
"""A set of more is not told."""


class Blocker(msgspec.Struct, frozen=True):
    """A running attempt that must end first."""

    job: JobId
    index: Index
    ends_at_us: Micros
    """When it is expected to end; 0: nobody knows; in the past: it is overdue."""
    hosts: tuple[str, ...]


class Blockage(msgspec.Struct, frozen=True):
    """Who is in the way."""

    blockers: tuple[Blocker, ...] = ()
    """Who must end first."""
    ahead: int = 0
    """So many jobs are in front of it; 0: it is not they who are in the way."""
    is_cut: bool = False
    """There were too many trials: it is not known."""


def find_blockage(trials: Trials, element: Element) -> Blockage:
    """Return who is in the way of an element that does not start now.

    Where jobs in front would take what comes free, the blockers are those that must end for it
    to start if these were not there.
    """
    state, now_us = trials.easel.base, trials.easel.now_us
    candidates = _candidates(state)
    ahead = 0
    try:
        search = _Search(trials, element, is_alone=False)
        if not candidates or not search.works(candidates):
            search = _Search(trials, element, is_alone=True)
            is_room = search.works([])
            if is_room or (candidates and search.works(candidates)):
                ahead = max(jobs_ahead(state, element, now_us), 1)
            if is_room or not ahead:
                return Blockage(ahead=ahead)
        found = search.minimise(candidates)
    except BoundHitError:
        return Blockage(ahead=ahead, is_cut=True)
    if len(found) > BLOCKERS_MAX:
        return Blockage(ahead=ahead, is_cut=True)
    return Blockage(tuple(_blocker(state, *place) for place in found), ahead)


class _Search:
    """Looks for a minimal set of attempts whose ends suffice."""

    def __init__(self, trials: Trials, element: Element, *, is_alone: bool) -> None:
        self._trials = trials
        self._element = element
        self._is_alone = is_alone

    def works(self, places: Sequence[Place]) -> bool:
        """Return whether the element starts when these attempts have ended."""
        sketch: Sketch = self._trials.sketch()
        sketch.end(places)
        if self._is_alone:
            sketch.keep_only(self._element[0])
        return self._trials.start(sketch, self._element) is not None

    def minimise(self, candidates: Sequence[Place]) -> list[Place]:
        """Return a minimal set out of candidates that suffice all together."""
        low, high = 0, len(candidates)
        while low + 1 < high:
            middle = (low + high) // 2
            if self.works(candidates[:middle]):
                high = middle
            else:
                low = middle
        needed = self._needed([], list(candidates[:high]), has_new=False)
        found = [place for place in candidates if place in needed]
        # That more ends always help need not hold where jobs in front come in between.
        if not self.works(found):
            found = list(candidates[:high])
        while spare := next((one for one in found if self._can_spare(found, one)), None):
            found.remove(spare)
        return found

    def _can_spare(self, found: list[Place], one: Place) -> bool:
        return self.works([place for place in found if place != one])

    def _needed(self, kept: list[Place], rest: list[Place], *, has_new: bool) -> set[Place]:
        """Return a minimal part of ``rest`` that suffices together with ``kept``."""
        if has_new and self.works(kept):
            return set()
        if len(rest) == 1:
            return set(rest)
        half = len(rest) // 2
        early, late = rest[:half], rest[half:]
        of_late = self._needed([*kept, *early], late, has_new=True)
        chosen = [place for place in late if place in of_late]
        of_early = self._needed([*kept, *chosen], early, has_new=bool(chosen))
        return of_early | of_late


def _candidates(state: ClusterState) -> list[Place]:
    """Return all live attempts, those first that are expected to end first."""
    found = []
    for places in state.on_host.values():
        for job_id, position in places:
            attempt = state.attempt(job_id, position)
            assert attempt is not None, f"element {position} of job {job_id} is not live"
            ends_us = expected_end(state.classes[attempt.cls], attempt)
            found.append((ends_us, attempt.phase != Phase.RUNNING, job_id, position))
    return [(job_id, position) for _, _, job_id, position in sorted(found)]


def _blocker(state: ClusterState, job_id: JobId, position: int) -> Blocker:
    attempt = state.attempt(job_id, position)
    assert attempt is not None, "a blocker runs"
    ends_us = expected_end(state.classes[attempt.cls], attempt)
    names = dict.fromkeys(state.hosts.names[number] for number in attempt.hosts)
    index = state.jobs[job_id].index(position)
    return Blocker(job_id, index, 0 if ends_us >= FAR else ends_us, tuple(names))


def jobs_ahead(state: ClusterState, element: Element, now_us: Micros) -> int:
    """Return how many waiting jobs come before one's element in the order of a session."""
    job = state.jobs[element[0]]
    line = Line(state, ORDERS, Shares(state, now_us))
    own = line.rank(state.class_at(job, job.position(element[1]) or 0))
    found = 0
    for one in state.waiting.values():
        queue = state.queues.get(one.key.queue)
        if queue is None or not queue.active or not state.is_window_open(queue.name):
            continue
        rank = line.rank(one)
        if rank < own:
            found += len(one.waiting) + len(one.moved)
        elif rank == own:
            found += sum((other, 0, other) < job.place for other in one.waiting)
            found += sum(state.jobs[other].place < job.place for other in one.moved)
    return found
