"""Which hosts the reasons of a request class are about: its filters asked once more, by name.

A reason counts hosts as they were when it was told; this is what holds now.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from xce.model.ids import HostNumber
from xce.model.reason import HostCode, HostReason
from xce.sched.columns import HostFacts
from xce.sched.filter import Sieve
from xce.sched.ground import Ground, open_ground
from xce.sched.policy import FIRST_COME, Policy
from xce.sched.shape import Shape, ShapeKey, compile_shape
from xce.sched.standing import compile_standing
from xce.state.cluster import ClusterState
from xce.state.hosts import Column, Flags
from xce.state.job import Job

NAMES_MAX: Final = 200_000
REQUESTS_MAX: Final = 200


class Excluded(NamedTuple):
    """Hosts that a filter takes out."""

    role: str
    """The part or alternative that it is about; empty: the whole request."""
    code: HostCode
    resource: str
    hosts: tuple[HostNumber, ...]


class _Listing(Sieve):
    """A sieve that keeps which hosts it took out, and for what."""

    def __init__(self, left: Flags, share: Column) -> None:
        super().__init__(left, share)
        self.taken: list[tuple[HostReason, Flags]] = []

    def keep(
        self,
        mask: Flags,
        code: HostCode,
        *,
        resource: str = "",
        needed: int = 0,
        have: Column | None = None,
    ) -> None:
        """Take out what is not in ``mask``."""
        before = self.left
        super().keep(mask, code, resource=resource, needed=needed, have=have)
        if len(self.reasons) > len(self.taken):
            self.taken.append((self.reasons[-1], before > self.left))


class Allowance:
    """How much is named in one answer: beyond it hosts are counted. Others wait meanwhile."""

    def __init__(self, names: int = NAMES_MAX, requests: int = REQUESTS_MAX) -> None:
        self.names = names
        self.requests = requests


class Excluder:
    """Answers for many classes of one state.

    Args:
        state: Only read.
        allowance: How much is asked at most; nothing is known beyond it.
    """

    def __init__(
        self, state: ClusterState, allowance: Allowance, policy: Policy = FIRST_COME
    ) -> None:
        self.allowance = allowance
        self._state = state
        self._policy = policy
        self._facts = HostFacts(state.hosts, state.config)
        pools = {name: state.pools.free(name) for name in sorted(state.pools.total)}
        self._ground: Ground = open_ground(state, pools)
        self._known: dict[ShapeKey, tuple[Excluded, ...]] = {}

    def hosts_of(self, job: Job, position: int) -> tuple[Excluded, ...]:
        """Return which hosts are kept from an element that waits, and by what."""
        found = self._state.classes[job.form_at(position)[0]]
        queue = self._state.queues.get(found.key.queue)
        if queue is None:
            return ()
        load = tuple(sorted(queue.load_sched.items()))
        key = ShapeKey(found.key.request, queue.hosts, job.avoid, job.waited_us, load)
        known = self._known.get(key)
        if known is None and self.allowance.requests <= 0:
            return ()
        if known is None:
            self.allowance.requests -= 1
            shape = compile_shape(key, found)
            compile_standing(shape, self._state, self._facts, self._policy)
            known = self._known[key] = tuple(self._each(shape, ""))
        return known

    def _each(self, shape: Shape, role: str) -> Iterator[Excluded]:
        for number, inner in enumerate(shape.inner):
            request = shape.request
            name = request.parts[number].name if request.parts else f"alternative {number + 1}"
            yield from self._each(inner, f"{role}, {name}" if role else name)
        if shape.inner:
            return
        sieve = _Listing(self._facts.table.is_configured.copy(), shape.unit)
        for standing in (*self._policy.lasting, *self._policy.passing):
            standing(sieve, shape, self._facts)
        for current in self._policy.current:
            current(sieve, shape, self._ground, self._facts)
        full: Flags = np.zeros_like(sieve.left)
        for reason, out in sieve.taken:
            if reason.code is HostCode.SLOTS_BUSY:
                full = full | out
            else:
                yield _excluded(role, reason.code, reason.resource, out)
        if shape.tasks_min > 1:
            full = full | sieve.left  # they could take some of its tasks, and too few
        if full.any():
            yield _excluded(role, HostCode.SLOTS_BUSY, "", full)


def _excluded(role: str, code: HostCode, resource: str, out: Flags) -> Excluded:
    return Excluded(role, code, resource, tuple(np.flatnonzero(out).tolist()))
