"""Blocked classes that a session passes over: many at once, by the hosts that have changed.

For classes that did not fit it is counted once how many hosts are short of what. A session
corrects these counts by the hosts that have changed since, and again by those on which it has given
something out, for all classes in a few operations on vectors. Who fits nowhere when his turn comes
has had it without anything done; who fits is tried as ever.

His reason must be what a try would have found. Its gist is which amounts hosts are short of, which
is what was counted; where that differs at his turn, the request is explained on what was free then.

This holds where nothing but hosts decides: simple requests for one host each, queues in which
nobody is promised anything or made to give way. Everything else takes the long way.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from xce.model.reason import HostCode, Reason, ReasonCode
from xce.sched.columns import HostFacts
from xce.sched.explain import explain_ground, gist
from xce.sched.ground import Ground
from xce.sched.order import Place, Rank
from xce.sched.policy import Policy, sift
from xce.sched.shape import Shape
from xce.state.cluster import ClusterState, RequestClass
from xce.state.groups import has_limits
from xce.state.hosts import Column, Flags

PASS_FROM: Final = 32
"""With fewer blocked classes it is not worth the counting."""
_CELLS_MAX: Final = 4_000_000
"""Requests times hosts that are counted at once; more are left to the next session."""
_MASKS_MAX: Final = 64
"""Different sets of hosts that requests may use at all."""
_NOTES_MAX: Final = 32
"""Corrections in one session: where more is given out, most are tried anyway."""
Key: TypeAlias = tuple[Rank, Place]
Places: TypeAlias = npt.NDArray[np.intp]


class Row(NamedTuple):
    """A class that did not fit."""

    key: Key
    """Where its turn is."""
    found: RequestClass
    shape: Shape
    reason: Reason
    accepted: Reason
    """What the state has, which says the same."""


class Passed:
    """The blocked classes that may be passed over, in the order of their turns."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._config_version = -1
        self._may = False
        self._masks: dict[bytes, int] = {}
        self._allowed: list[Flags] = []
        self.ground = Ground(np.zeros((0, 0), np.int64), np.zeros(0, np.bool_))
        """What was free when it was counted."""
        self._needs: Column = np.zeros((0, 0), np.int64)
        """Along rows and resources."""
        self._mask: Places = np.zeros(0, np.intp)
        self._short: Column = np.zeros((0, 2), np.int64)
        """How many hosts are short of each resource; behind these, how many others have for
        themselves, and how many it fits on.
        """
        self._told: Flags = np.zeros((0, 1), np.bool_)
        """Which of these, but for the last, the reasons name."""

    def clear(self) -> None:
        """Forget all."""
        config_version, may = self._config_version, self._may
        self.__init__()  # type: ignore[misc] # as it was at the beginning
        self._config_version, self._may = config_version, may

    def may(self, state: ClusterState) -> bool:
        """Return whether nothing but hosts decides who starts."""
        if state.config_version != self._config_version:
            config = state.config
            self._config_version = state.config_version
            self._may = all(
                (queue.backfill or config.backfill) == "none"
                and not queue.preempt
                and (queue.policy or config.policy) != "fairshare"
                for queue in config.queues
            )
        return self._may and not (
            state.holds or state.stopped or state.windows or state.reservations or has_limits(state)
        )

    def open(
        self, state: ClusterState, ground: Ground, facts: HostFacts, policy: Policy
    ) -> "Turns":
        """Begin a session with what is free; return the turns of those who wait as they did."""
        is_alike = ground.free.shape == self.ground.free.shape and self.may(state)
        if not is_alike or len(self._changed(ground)) * len(self.rows) > _CELLS_MAX:
            self.clear()
            return NO_TURNS
        self.correct(ground)
        found = [_as_it_was(state, row) for row in self.rows]
        kept = [place for place, row in enumerate(found) if row is not None]
        self._take_rows([row for row in found if row is not None], np.array(kept, np.intp))
        return Turns(self, facts, policy) if self.rows else NO_TURNS

    def keep(self, kept: list[int]) -> None:
        """Keep the rows at these places only."""
        if len(kept) < len(self.rows):
            self._take_rows([self.rows[place] for place in kept], np.array(kept, np.intp))

    def correct(self, ground: Ground) -> None:
        """Bring the counts to what is free."""
        changed = self._changed(ground)
        step = max(1, _CELLS_MAX // max(1, len(self.rows)))
        for first in range(0, len(changed), step):
            hosts = changed[first : first + step]
            self._short += self._count(self._needs, self._mask, hosts, ground)
            self._short -= self._count(self._needs, self._mask, hosts, self.ground)
        if len(changed):
            self.ground = ground.copy()

    def _changed(self, ground: Ground) -> Places:
        is_other = (ground.free != self.ground.free).any(axis=0)
        return np.flatnonzero(is_other | (ground.taken != self.ground.taken))

    def _count(self, needs: Column, masks: Places, hosts: Places, ground: Ground) -> Column:
        """Return how many of some hosts are short of what first, as the columns of ``_short``."""
        kinds = needs.shape[1]
        allowed = np.stack([mask[hosts] for mask in self._allowed])[masks]
        first = np.full((len(needs), len(hosts)), kinds + 1, np.int16)
        for kind in range(kinds - 1, -1, -1):
            need = needs[:, kind, None]
            first[(need > 0) & (ground.free[kind, hosts] < need)] = kind
        first[:, ground.taken[hosts]] = kinds
        first[~allowed] = -1
        counts = [np.count_nonzero(first == kind, axis=1) for kind in range(kinds + 2)]
        return np.stack(counts, axis=1).astype(np.int64)

    def _take_rows(self, rows: list[Row], order: Places) -> None:
        """Keep ``rows``, which stand at the places ``order``."""
        self.rows = rows
        self._needs, self._mask = self._needs[order], self._mask[order]
        self._short, self._told = self._short[order], self._told[order]

    def fitting(self) -> Places:
        """Return the rows that fit on a host."""
        return np.flatnonzero(self._short[:, -1])

    def differing(self, first: int, end: int) -> list[int]:
        """Return the rows of a range that are short of other amounts than they were told."""
        is_short = self._short[first:end, :-1] > 0
        found = np.flatnonzero((is_short != self._told[first:end]).any(axis=1))
        places: list[int] = (found + first).tolist()
        return places

    def tell(self, place: int, reason: Reason) -> None:
        """Have another reason for a row."""
        self.rows[place] = self.rows[place]._replace(reason=reason)
        self._told[place] = self._short[place, :-1] > 0

    def add(
        self,
        state: ClusterState,
        asleep: Mapping[RequestClass, Reason],
        ground: Ground,
        rank_of: Callable[[RequestClass], Rank],
        shape_of: Callable[[RequestClass], Shape | None],
    ) -> None:
        """Take in those who did not fit in this session; ``ground``: what is free at its end."""
        if len(asleep) < max(PASS_FROM, len(self.rows) + 1) or not self.may(state):
            return
        if not self.rows:
            self.clear()
            self.ground = ground.copy()
            kinds = len(ground.free)
            self._needs = np.zeros((0, kinds), np.int64)
            self._short = np.zeros((0, kinds + 2), np.int64)
            self._told = np.zeros((0, kinds + 1), np.bool_)
        known = {row.found for row in self.rows}
        most = _CELLS_MAX // max(1, ground.free.shape[1])
        new: list[Row] = []
        for found, reason in asleep.items():
            if len(new) >= most:
                break
            shape = None if found in known else shape_of(found)
            if shape is not None and _is_simple(shape, reason) and self._number(shape):
                first = next(iter(found.waiting))
                key = (rank_of(found), (first, 0, first))
                new.append(Row(key, found, shape, reason, reason))
        if new:
            self._append(new, ground, state.hosts.row)

    def _number(self, shape: Shape) -> bool:
        """Give a number to the hosts that a request may use; return whether there is room."""
        content = shape.allowed.tobytes()
        if content not in self._masks:
            if len(self._allowed) >= _MASKS_MAX:
                return False
            self._masks[content] = len(self._allowed)
            self._allowed.append(shape.allowed)
        return True

    def _append(self, new: list[Row], ground: Ground, numbers: Mapping[str, int]) -> None:
        self.correct(ground)
        needs = np.stack([row.shape.unit for row in new])
        masks = np.array([self._masks[row.shape.allowed.tobytes()] for row in new], np.intp)
        short = self._count(needs, masks, np.arange(ground.free.shape[1]), ground)
        self._needs = np.concatenate((self._needs, needs))
        self._mask = np.concatenate((self._mask, masks))
        self._short = np.concatenate((self._short, short))
        told = np.stack([_told(row.reason, len(ground.free), numbers) for row in new])
        self._told = np.concatenate((self._told, told))
        rows = [*self.rows, *new]
        order = sorted(range(len(rows)), key=lambda place: rows[place].key)
        self._take_rows([rows[place] for place in order], np.array(order, np.intp))


def _told(reason: Reason, kinds: int, numbers: Mapping[str, int]) -> Flags:
    """Return of which resources hosts are short for the time being, and behind these, whether
    some are taken.
    """
    told = np.zeros(kinds + 1, np.bool_)
    for item in reason.host_reasons:
        if item.code is HostCode.TAKEN:
            told[-1] = True
        elif item.code is HostCode.SLOTS_BUSY:
            told[0] = True
        elif item.code is HostCode.AMOUNT_SHORT:
            told[numbers[item.resource]] = True
    return told


def _is_simple(shape: Shape, reason: Reason) -> bool:
    """Return whether nothing but what is free on single hosts decides about a request."""
    request = shape.request
    return (
        reason.code is ReasonCode.HOSTS
        and request.is_serial
        and shape.users == 1
        and shape.never is None
        and shape.fixed is None
        and not (
            shape.is_whole
            or shape.is_spanned
            or shape.select_moves
            or request.exclusive
            or request.thresholds
            or shape.load_sched
            or shape.gpu is not None
            or request.affinity
            or shape.task_pools
            or shape.job_pools
        )
    )


def _as_it_was(state: ClusterState, row: Row) -> Row | None:
    """Return a row if its class still waits as it did and its reason was taken, else None."""
    found = row.found
    if state.waiting.get(found.cls) is not found or not found.sorted or found.moved:
        return None
    first = row.key[1][-1]
    if next(iter(found.waiting), None) != first or row.shape.users != 1:
        return None
    job, queue = state.jobs[first], state.queues.get(found.key.queue)
    if (
        job.avoid
        or job.variants
        or job.waited_us != row.shape.waited_us
        or queue is None
        or not queue.active
    ):
        return None
    if found.reason is row.accepted:
        return row
    same = gist(found.reason) == gist(row.reason)
    return row._replace(accepted=found.reason) if same else None


class Turns:
    """The turns of those who did not fit, in one session.

    Args:
        passed: Those who did not fit.
        facts: The hosts; None: there is nobody.
        policy: Whose filters to ask.
    """

    def __init__(
        self, passed: Passed, facts: HostFacts | None = None, policy: Policy | None = None
    ) -> None:
        self._passed = passed
        self._facts, self._policy = facts, policy
        self._keys = [row.key for row in passed.rows]
        self.classes = {row.found.cls for row in passed.rows}
        self._at = 0
        """Whose turn is next."""
        self._fitting: list[int] = passed.fitting().tolist()[::-1]
        """Who fits now, the last one first."""
        self._tried: set[int] = set()
        self._given = self._notes = 0

    def advance(self, key: Key | None, given: int, ground: Ground | None) -> list[Row]:
        """Let have their turn who stand before ``key``, up to the first who fits: he is returned.

        Where so much is given out that counting is not worth it, all others are returned.

        Args:
            key: The next turn of somebody else; None: there is none.
            given: How many times something was given out in this session.
            ground: What is free.
        """
        if self._facts is None or ground is None:
            return []
        end = len(self._keys)
        if given != self._given and self._at < end:
            self._given = given
            self._note(ground)
        if self._notes > _NOTES_MAX:
            rows = self._passed.rows[self._at :]
            self._tried.update(range(self._at, end))
            self._at = end
            return rows
        if key is not None:
            end = bisect_left(self._keys, key, lo=self._at)
        while self._fitting and self._fitting[-1] < self._at:
            self._fitting.pop()
        is_tried = bool(self._fitting) and self._fitting[-1] < end
        stop = self._fitting[-1] if is_tried else end
        for place in self._passed.differing(self._at, stop):
            shape = self._passed.rows[place].shape
            self._passed.tell(place, self._explain(shape))
        self._at = stop
        if not is_tried:
            return []
        self._tried.add(stop)
        self._at += 1
        return [self._passed.rows[stop]]

    def limit(self, rank: Rank, before: Place) -> Place:
        """Return the place of the next one, if he has this rank and it is before ``before``."""
        if self._at < len(self._keys) and self._keys[self._at][0] == rank:
            return min(self._keys[self._at][1], before)
        return before

    def _note(self, ground: Ground) -> None:
        """Note that something was given out; ``ground`` is what is left."""
        self._notes += 1
        if self._notes <= _NOTES_MAX:
            self._passed.correct(ground)
            self._fitting = self._passed.fitting().tolist()[::-1]

    def close(self) -> Iterator[tuple[RequestClass, Reason]]:
        """Yield why each waits who was passed over; they stay for the next session."""
        kept = [place for place in range(len(self._keys)) if place not in self._tried]
        self._passed.keep(kept)
        for row in self._passed.rows:
            yield row.found, row.reason

    def _explain(self, shape: Shape) -> Reason:
        """Return why a request does not fit on what is free now."""
        facts, policy, ground = self._facts, self._policy, self._passed.ground
        assert facts is not None
        assert policy is not None
        sieve = sift(shape, ground, facts, policy, shape.unit)
        return explain_ground(shape, ground, facts, policy, sieve, {})


NO_TURNS: Final = Turns(Passed())
