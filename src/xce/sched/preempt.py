"""Who gives way for a blocked job of a queue that may preempt.

Candidates are the live attempts of queues that it names, of strictly lower priority: no chain of
preemptions can come back to where it began. The cheapest are taken first: those of the lowest
queue, then those that have run shortest. Of the candidates in this order the shortest sequence is
sought with whose room the job is placed, by the same allocators as ever; then each that is not
needed for that placement is left alone, the dearest first. Nothing comes free in this session: the
room is held for the job until the victims are gone.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from xce.model.ids import Index, JobId
from xce.model.plan import Preemption, Victim
from xce.sched.ground import Ground
from xce.sched.place.spot import Spot
from xce.sched.running import Owners, Releases, Running
from xce.sched.timeline import View
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Column, Flags

PREEMPTIONS_MAX: Final = 100
"""Most blocked elements for which others give way in one session; the next one goes on."""
Find = Callable[[View, Flags | None], Spot | None]


class _Candidates(NamedTuple):
    """Those who may give way for one queue, the cheapest first."""

    owners: Column
    """Nobody: the rest says nothing."""
    order: Column
    """Rows of ``rooms`` by the place of their owner."""
    places: Column
    """The place of each row's owner, in this order."""
    rooms: Releases
    """What each gives, by row."""
    soon: Column
    """Rows of those that give way already: their room is held, or comes free."""


class Preemptor:
    """Finds victims in one session."""

    def __init__(self, state: ClusterState, running: Running) -> None:
        self._state = state
        self._running = running
        self._left = PREEMPTIONS_MAX
        self._by_queue: dict[str, _Candidates] = {}
        self._taken: set[int] = set()
        self.is_used = False
        """Whether a blocked job asked for room, so that who may give way matters."""

    def may(self, found: RequestClass) -> bool:
        """Return whether jobs of a class may preempt at all, and more so in this session."""
        return bool(self._victim_queues(found.key.queue)) and self._left > 0

    def find(
        self, found: RequestClass, element: tuple[JobId, Index], now: View, find: Find
    ) -> tuple[Preemption, Spot] | None:
        """Return who gives way for an element and where it will run, or None.

        Args:
            found: Its class.
            element: The element; it does not fit now.
            now: What is free.
            find: Where it goes on what is free; monotone.
        """
        self.is_used = True
        candidates = self._candidates(found.key.queue)
        size = len(candidates.owners)
        if not size or find(self._with(now, candidates, size), None) is None:
            return None
        if find(self._with(now, candidates, 0), None) is not None:
            # Those who give way already leave room enough for it, too.
            return None
        low, high = 0, size
        while high - low > 1:
            middle = (low + high) // 2
            if find(self._with(now, candidates, middle), None) is not None:
                high = middle
            else:
                low = middle
        spot = find(self._with(now, candidates, high), None)
        assert spot is not None, "what fits cannot be placed"
        victims = self._needed(now, candidates, high, spot, found)
        hole = self._with_only(now, candidates, victims)
        there = np.zeros(self._state.hosts.count, np.bool_)
        there[spot.numbers] = True
        placed = find(hole, there) or find(hole, None)
        if placed is None:
            # What was left alone mattered for more than amounts.
            victims = np.arange(high)
            placed = spot
        self._left -= 1
        owners = candidates.owners[victims]
        self._taken.update(owners.tolist())
        self._by_queue.clear()
        return self._preemption(found, element, placed, owners), placed

    def _victim_queues(self, name: str) -> tuple[str, ...]:
        queues = self._state.queues
        mine = queues.get(name)
        wanted = mine.preempt if mine is not None else ()
        return tuple(
            other
            for other in wanted
            if mine is not None and other in queues and queues[other].priority < mine.priority
        )

    def action(self, found: RequestClass) -> str:
        """Return how attempts of a class give way."""
        queue = self._state.queues[found.key.queue]
        return queue.preemption or self._state.config.preemption

    def _candidates(self, name: str) -> _Candidates:
        known = self._by_queue.get(name)
        if known is None:
            known = self._by_queue[name] = self._look(name)
        return known

    def _look(self, name: str) -> _Candidates:
        releases = self._running.releases(self._state)
        owners = self._running.owners
        queues = self._victim_queues(name)
        priority = np.full(self._state.next_class, -1, np.int64)
        stops = np.zeros(self._state.next_class, np.bool_)
        yields = owners.yields.copy()
        for cls, found in self._state.classes.items():
            if found.live and found.key.queue in queues:
                is_stopped = self.action(found) == "suspend"
                # A host of one's own stays so while one is suspended on it.
                if not (is_stopped and found.key.request.exclusive):
                    priority[cls] = self._state.queues[found.key.queue].priority
                    stops[cls] = is_stopped
        chosen = np.flatnonzero((owners.classes >= 0) & owners.may_yield)
        chosen = chosen[priority[owners.classes[chosen]] >= 0]
        if self._taken:
            chosen = chosen[~np.isin(chosen, sorted(self._taken))]
        if not len(chosen):
            return _Candidates(chosen, chosen, chosen, releases, chosen)
        chosen = chosen[self._cheapest_first(owners, chosen, priority)]
        place_of = np.full(len(owners.classes), -1, np.int64)
        place_of[chosen] = np.arange(len(chosen))
        amounts = releases.amounts.copy()
        pools = releases.pools.copy()
        taken = sorted(self._taken)
        yields[taken] = np.where(stops[owners.classes[taken]], 1, 2)
        of_row = releases.owners
        is_stopped_row = np.where(
            yields[of_row] > 0, yields[of_row] == 1, stops[owners.classes[of_row]]
        )
        amounts[1:, is_stopped_row] = 0
        pools[:, is_stopped_row] = 0
        places = place_of[releases.owners]
        order = np.argsort(places, kind="stable")
        order = order[places[order] >= 0]
        rooms = releases._replace(amounts=amounts, pools=pools)
        soon = np.flatnonzero((yields[of_row] > 0) & (owners.classes[of_row] >= 0))
        return _Candidates(chosen, order, places[order], rooms, soon)

    def _cheapest_first(self, owners: Owners, chosen: Column, priority: Column) -> Column:
        """Return an order: lowest queue, started last, then by job and position; total."""
        named = [owners.places[owner] for owner in chosen.tolist()]
        ids = np.asarray(named, np.int64).reshape(len(named), 2)
        return np.lexsort(
            (-ids[:, 1], -ids[:, 0], -owners.since_us[chosen], priority[owners.classes[chosen]])
        )

    def _with(self, now: View, candidates: _Candidates, size: int) -> View:
        """Return what is free when the first ``size`` candidates have given way."""
        end = int(np.searchsorted(candidates.places, size, "left"))
        rows = np.concatenate((candidates.soon, candidates.order[:end]))
        return self._add(now, candidates, rows)

    def _with_only(self, now: View, candidates: _Candidates, victims: Column) -> View:
        mine = np.isin(candidates.places, victims)
        rows = np.concatenate((candidates.soon, candidates.order[mine]))
        return self._add(now, candidates, rows)

    def _add(self, now: View, candidates: _Candidates, rows: Column) -> View:
        rooms = candidates.rooms
        free = now.ground.free.copy()
        np.add.at(free.T, rooms.numbers[rows], rooms.amounts[:, rows].T)
        more = rooms.pools[:, rows].sum(axis=1).tolist()
        pools = {
            name: value + extra
            for (name, value), extra in zip(now.pools.items(), more, strict=True)
        }
        total = self._state.hosts.total[0]
        empty = (free[0] >= total) & (total > 0)
        where, row = now.ground.where, now.ground.word_row
        return View(Ground(free, empty, where, row, pools=pools), pools)

    def _needed(
        self, now: View, candidates: _Candidates, size: int, spot: Spot, found: RequestClass
    ) -> Column:
        """Return which of the first ``size`` candidates a placement needs, by their amounts."""
        end = int(np.searchsorted(candidates.places, size, "left"))
        rows, places = candidates.order[:end], candidates.places[:end]
        rooms = candidates.rooms
        if found.key.request.exclusive or spot.pools:
            # Its hosts must be empty; pools may come from anywhere.
            return np.arange(size)
        base = self._add(now, candidates, candidates.soon)
        there = np.full(self._state.hosts.count, -1, np.int64)
        there[spot.numbers] = np.arange(len(spot.numbers))
        column = there[rooms.numbers[rows]]
        mine = column >= 0
        rows, places, column = rows[mine], places[mine], column[mine]
        spare = base.ground.free[:, spot.numbers] - spot.amounts
        np.add.at(spare.T, column, rooms.amounts[:, rows].T)
        asked = spot.amounts > 0
        needed = np.unique(places)
        for place in needed[::-1].tolist():
            own = places == place
            less = spare.copy()
            np.subtract.at(less.T, column[own], rooms.amounts[:, rows[own]].T)
            if not ((less < 0) & asked).any():
                spare = less
                needed = needed[needed != place]
        return needed

    def _preemption(
        self, found: RequestClass, element: tuple[JobId, Index], spot: Spot, owners: Column
    ) -> Preemption:
        victims: list[Victim] = []
        for owner in owners.tolist():
            job_id, position = self._running.owners.places[owner]
            attempt = self._state.attempt(job_id, position)
            assert attempt is not None, f"element {position} of job {job_id} is not live"
            index = self._state.jobs[job_id].index(position)
            action = self.action(self._state.classes[attempt.cls])
            victims.append(Victim(job_id, index, attempt.number, action))
        return Preemption(
            found.cls,
            *element,
            spot.hosts.tolist(),
            spot.sizes.tolist(),
            spot.parts.tolist(),
            spot.alternative,
            victims,
            spot.devices,
        )
