"""One session: what can start now, and why everything else waits. A pure function.

    open      the hosts' facts, what is free (when something must be tried)
    order     classes with waiting jobs, by queue priority, class priority and submission
    place     the front class is placed in bulk up to the run where another one comes first; a class
              whose next run does not fit leaves, and those behind it may pass
    explain   the class that left gets the reason that its filters and allocator found
    close     starts, and the reasons that changed

Free amounts only shrink within a session, so a request that did not fit is not tried again in it
(the unsatisfiable cache); between sessions `Memory` knows which would find the same again.
"""

import heapq
from typing import TypeAlias

from xce.model.ids import JobId, Micros
from xce.model.plan import BulkStart, GangStart, Plan
from xce.model.reason import Reason
from xce.sched.counts import Counts
from xce.sched.explain import explain_ground, sift
from xce.sched.filter import Sieve
from xce.sched.front import NO_LIMIT, Front
from xce.sched.ground import Ground, open_ground
from xce.sched.order import Rank
from xce.sched.place import bulk, pools
from xce.sched.place.spot import find_gang, take_spot
from xce.sched.policy import FIRST_COME, Policy
from xce.sched.shape import Shape
from xce.sched.waiting import Memory
from xce.state.cluster import ClusterState, RequestClass

Queue: TypeAlias = list[tuple[Rank, JobId, Front]]


def run_session(
    state: ClusterState,
    *,
    now_us: Micros,
    memory: Memory | None = None,
    policy: Policy = FIRST_COME,
    counts: Counts | None = None,
) -> Plan:
    """Return what can start and why each other class waits.

    Args:
        state: What is true; read, never changed.
        now_us: The instant of the session; not before the state's last entry.
        memory: What the sessions before remember; without it the plan is the same.
        policy: The functions that decide.
        counts: Where to count the work that was done.
    """
    session = Session(state, memory or Memory(), policy, counts or Counts())
    queue = session.order()
    while queue:
        rank, _, front = heapq.heappop(queue)
        before = queue[0][1] if queue and queue[0][0] == rank else NO_LIMIT
        following = session.place(front, before)
        if following is not None:
            heapq.heappush(queue, (rank, following, front))
    return session.close(now_us)


class Session:
    """A session under way."""

    def __init__(self, state: ClusterState, memory: Memory, policy: Policy, counts: Counts) -> None:
        self._state = state
        self._memory = memory
        self._policy = policy
        self._counts = counts
        self._facts = memory.open(state, policy)
        self._ground: Ground | None = None
        self._pools = {name: state.pools.free(name) for name in state.pools.total}
        self._bulk: list[BulkStart] = []
        self._gangs: list[GangStart] = []
        self._failed: dict[Shape, Reason] = {}
        self._asleep: dict[RequestClass, Reason] = {}

    def order(self) -> Queue:
        """Return the classes with waiting jobs as a heap, the first one in front."""
        queue: Queue = []
        queues = self._state.queues
        for found in self._state.waiting.values():
            config = queues.get(found.key.queue)
            if config is None or not config.active:
                continue
            front = Front(self._state, found, self._policy.order(self._state, found))
            first = front.first()
            if first is not None:
                queue.append((front.rank, first, front))
        heapq.heapify(queue)
        return queue

    def place(self, front: Front, before: JobId) -> JobId | None:
        """Place what stands before the job ``before`` and return the next one of the class.

        None: nothing is left, or what is left does not fit.
        """
        self._counts.classes += 1
        while (first := front.first()) is not None and first < before:
            shape = self._memory.shape(self._state, front.found, front.avoid, self._counts)
            reason = self._refusal(shape) or self._try(front, shape, before)
            if reason is None:
                continue
            if not shape.avoid:
                self._asleep[front.found] = reason
                return None
            self._asleep.setdefault(front.found, reason)
            front.skip_alike()
        return front.first()

    def close(self, now_us: Micros) -> Plan:
        """Return the plan."""
        is_empty = not (self._bulk or self._gangs)
        reasons = self._memory.close(self._asleep, is_empty=is_empty)
        return Plan(
            self._state.seq,
            self._state.config_version,
            max(now_us, self._state.now_us),
            tuple(self._bulk),
            tuple(self._gangs),
            reasons,
        )

    @property
    def _free(self) -> Ground:
        """What is free now; found out when it is first asked for."""
        if self._ground is None:
            self._ground = open_ground(self._state)
        return self._ground

    def _refusal(self, shape: Shape) -> Reason | None:
        """Return why a request cannot fit, as far as that is known without a try."""
        known = self._failed.get(shape) or shape.fixed
        if known is None:
            shortage = pools.explain_shortage(shape, self._pools)
            known = shortage and (shape.never or shortage)
        if known is None and shape.verdict is not None:
            known = self._memory.verdict(shape, self._free)
        if known is not None:
            self._failed[shape] = known
        return known

    def _try(self, front: Front, shape: Shape, before: JobId) -> Reason | None:
        """Place as much as fits; return why nothing does, None when something was placed."""
        ground = self._free
        self._counts.tries += 1
        self._counts.host_rows += self._facts.table.count
        sieve = sift(shape, ground, self._facts, self._policy, shape.unit)
        place = self._place_bulk if shape.request.is_serial else self._place_gang
        if place(front, shape, sieve, before):
            return None
        reason = explain_ground(shape, ground, self._facts, self._policy, sieve)
        self._memory.store_verdict(shape, ground, reason)
        self._failed[shape] = reason
        return reason

    def _place_bulk(self, front: Front, shape: Shape, sieve: Sieve, before: JobId) -> bool:
        """Place single-host elements in one go."""
        ground = self._free
        room = bulk.attempts_on_hosts(shape, ground, sieve.left)
        wanted = int(room.sum())
        lasts = pools.most_attempts(shape, self._pools, shape.tasks_max)
        wanted = wanted if lasts is None else min(wanted, lasts)
        if wanted == 0:
            return False
        runs, taken = front.take(wanted, before)
        numbers, shares = self._policy.sharing(shape, ground, self._facts, room, taken)
        bulk.take_bulk(shape, ground, numbers, shares)
        pools.take(shape, self._pools, tasks=shape.tasks_max, attempts=taken)
        self._counts.runs += len(runs.jobs)
        self._bulk.append(BulkStart(front.found.cls, *runs, numbers.tolist(), shares.tolist()))
        return True

    def _place_gang(self, front: Front, shape: Shape, sieve: Sieve, before: JobId) -> bool:
        """Place one parallel job or element."""
        ground = self._free
        spot = find_gang(shape, ground, self._pools, sieve.left, self._facts, self._policy)
        if spot is None:
            return False
        runs, _ = front.take(1, before)
        take_spot(shape, ground, self._pools, spot)
        self._counts.runs += 1
        self._gangs.append(
            GangStart(
                front.found.cls,
                runs.jobs[0],
                runs.firsts[0],
                spot.numbers.tolist(),
                spot.sizes.tolist(),
            )
        )
        return True
