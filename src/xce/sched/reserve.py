"""Reservations of one session: who gets one, and what must not delay them.

The first blocked jobs of a queue with backfill are promised the earliest instant at which they
will fit. Whatever is placed behind them must fit throughout its own run on what the promises leave.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from xce.model.config import BACKFILLS, ClusterConfig, QueueConfig
from xce.model.ids import SECOND_US, Index, JobId, Micros
from xce.model.plan import Reservation, StartRule
from xce.sched.place.spot import Spot
from xce.sched.running import FAR, Running, expected_span
from xce.sched.shape import Shape
from xce.sched.timeline import Piece, Timeline, View
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Flags

_TOLD_STEP_US: Final = SECOND_US
"""A promise that moves by less is not told again."""
_LOOK_AGAIN_US: Final = 60 * SECOND_US
"""So long after a session a promise may have moved by time alone, as what is overdue does."""

Element = tuple[JobId, Index]
Find = Callable[[View, Flags | None], Spot | None]
"""Finds a placement on what is free, if asked for among some hosts only."""


class Promise(NamedTuple):
    """A reservation of this session."""

    start_us: Micros
    told: Reservation


def reservations_max(config: ClusterConfig, queue: QueueConfig) -> int:
    """Return how many blocked jobs of a queue hold a reservation."""
    kind = queue.backfill or config.backfill
    return kind != "none" and (queue.reservations or config.reservations or BACKFILLS[kind])


class Reserver:
    """What is kept, and what is left, while a session goes on."""

    def __init__(self, state: ClusterState, running: Running, now_us: Micros) -> None:
        self._state = state
        self._running = running
        self._now_us = now_us
        self._room = {
            name: reservations_max(state.config, queue) for name, queue in state.queues.items()
        }
        self.is_used = any(self._room.values())
        """Whether anybody may hold a reservation."""
        self._begun: list[tuple[Piece, Micros]] = []
        self._timeline: Timeline | None = None
        self._made: dict[Element, Promise] = {}

    @property
    def has_promises(self) -> bool:
        """Whether anybody holds a reservation that was made in this session."""
        return bool(self._made)

    def has_room(self, found: RequestClass) -> bool:
        """Return whether one more job of its queue may get a reservation."""
        return self._room.get(found.key.queue, 0) > 0

    def take(self, found: RequestClass, now: View, spot: Spot) -> None:
        """Give out what starts now."""
        exclusive = spot.is_exclusive
        piece = Piece(spot.numbers, spot.amounts, spot.pools, exclusive)
        span_us = expected_span(found)
        if self._timeline is not None:
            self._timeline.take(piece, span_us)
            return
        now.ground.take(piece.numbers, piece.amounts, exclusive=exclusive)
        for name, value in piece.pools.items():
            now.pools[name] = now.pools.get(name, 0) - value
        if self.is_used:
            self._begun.append((piece, span_us))

    def take_room(self, piece: Piece, now: View, span_us: Micros) -> None:
        """Give out room that is no placement: it is held, or goes back to one who gave way."""
        if self._timeline is not None:
            self._timeline.take(piece, span_us)
            return
        now.ground.take(piece.numbers, piece.amounts, exclusive=False)
        for name, value in piece.pools.items():
            now.pools[name] = now.pools.get(name, 0) - value
        self.note(piece, span_us)

    def note(self, piece: Piece, span_us: Micros) -> None:
        """Note when room comes free that is not free now."""
        if self.is_used:
            self._begun.append((piece, span_us))

    def reach(self, found: RequestClass) -> Micros:
        """Return up to which reservation a start of a class would reach; see `Timeline.reach`."""
        if self._timeline is None:
            return self._now_us
        return self._timeline.reach(expected_span(found))

    def window(self, found: RequestClass, now: View) -> View:
        """Return what a start of a class may take now without delaying anybody; ``now``: all."""
        if self._timeline is None:
            return now
        return self._timeline.window(expected_span(found))

    def reserve(
        self, found: RequestClass, shape: Shape, element: Element, now: View, find: Find
    ) -> bool:
        """Promise the earliest start to an element that does not fit now, if there is one."""
        timeline = self._timeline or self._open(now)
        span_us = expected_span(found)
        spots: list[Spot] = []

        def fits(view: View) -> bool:
            spot = find(view, None)
            if spot is not None:
                spots.append(spot)
            return spot is not None

        first = timeline.earliest(span_us, shape.tasks_min, fits)
        if first is None:
            return False
        start_us, told_us = first
        before = self._state.reservations.get(element[0], {}).get(element[1])
        # The last that was found is that of the instant which was chosen.
        spot = spots[-1]
        if before is not None and not set(before.hosts).issuperset(spot.hosts.tolist()):
            # The hosts of the last promise, where they do: those behind planned around them.
            spot = find(timeline.view(start_us, span_us), self.mask(before)) or spot
        piece = Piece(spot.numbers, spot.amounts, spot.pools, spot.is_exclusive)
        timeline.reserve(piece, start_us, told_us, span_us)
        told = Reservation(
            found.cls,
            *element,
            told_us if told_us < FAR else 0,
            spot.hosts.tolist(),
            spot.sizes.tolist(),
        )
        self._made[element] = Promise(start_us, told)
        self._room[found.key.queue] -= 1
        return True

    def promised(self, element: Element) -> Reservation:
        """Return the reservation that an element got in this session."""
        return self._made[element].told

    def kept_for(self, element: Element) -> Reservation | None:
        """Return the reservation that an element held before this session."""
        return self._state.reservations.get(element[0], {}).get(element[1])

    def preferred(self, shape: Shape, element: Element, left: Flags) -> Flags:
        """Return the hosts that are kept for an element, if it may well start there."""
        kept = self.kept_for(element)
        if kept is None or shape.tasks_min < shape.tasks_max:
            return left & False
        return left & self.mask(kept)

    def mask(self, kept: Reservation) -> Flags:
        """Return the hosts of a reservation."""
        mask = np.zeros(self._state.hosts.count, np.bool_)
        mask[kept.hosts] = True
        return mask

    def rule(self, element: Element) -> StartRule:
        """Return the rule by which an element starts now."""
        if self.kept_for(element) is not None:
            return StartRule.RESERVED
        return StartRule.BACKFILL if self._made else StartRule.TURN

    def in_the_way(self, found: RequestClass) -> JobId:
        """Return the job whose reservation a start of a class would delay first."""
        span_us = expected_span(found)
        inside = [
            promise
            for promise in self._made.values()
            if span_us >= FAR or promise.start_us < self._now_us + span_us
        ]
        return min(inside, key=lambda promise: promise.start_us).told.job

    def changes(self) -> tuple[tuple[Reservation, ...], tuple[Element, ...]]:
        """Return the promises to tell, and who holds one no more."""
        told = [promise.told for promise in self._made.values() if self._is_news(promise.told)]
        gone = [
            (item.job, item.index)
            for kept in self._state.reservations.values()
            for item in kept.values()
            if (item.job, item.index) not in self._made
        ]
        return tuple(told), tuple(sorted(gone))

    def look_at_us(self) -> Micros:
        """Return when time alone may let something start that a reservation holds back."""
        comes = [p.start_us for p in self._made.values() if p.start_us > self._now_us + SECOND_US]
        return min([*comes, self._now_us + _LOOK_AGAIN_US])

    def _open(self, now: View) -> Timeline:
        # What began in this session is not free now, and comes free as what runs does.
        table = self._state.hosts
        releases = self._running.releases(self._state)
        timeline = self._timeline = Timeline(self._now_us, now, table.total, releases)
        for piece, span_us in self._begun:
            timeline.note(piece, span_us)
        return timeline

    def _is_news(self, told: Reservation) -> bool:
        before = self.kept_for((told.job, told.index))
        if before is None or (before.hosts, before.tasks) != (told.hosts, told.tasks):
            return True
        if before.start_at_us == 0 or told.start_at_us == 0:
            return before.start_at_us != told.start_at_us
        return abs(before.start_at_us - told.start_at_us) >= _TOLD_STEP_US
