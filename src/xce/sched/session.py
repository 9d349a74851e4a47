"""One session: what can start now, and why everything else waits. A pure function.

    open      the hosts' facts, what is free (when something must be tried)
    order     classes with waiting jobs, by queue priority, class priority and submission
    place     the front class is placed in bulk up to the run where another one comes first; a class
              whose next run does not fit leaves, and those behind it may pass
    reserve   in a queue with backfill the first that do not fit are promised the earliest start;
              those behind may pass where they delay none of them
    explain   the class that left gets the reason that its filters and allocator found
    close     starts, and the reasons that changed

Free amounts only shrink within a session, so a request that did not fit is not tried again in it
(the unsatisfiable cache); between sessions `Memory` knows which would find the same again.
"""

import heapq
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from xce.model.ids import JobId, Micros
from xce.model.plan import BulkStart, GangStart, Plan, Preemption, StartRule
from xce.model.reason import Reason, ReasonCode
from xce.sched.counts import Counts
from xce.sched.explain import explain_ground
from xce.sched.fairshare import Shares
from xce.sched.front import NO_LIMIT, Front
from xce.sched.gate import Gate
from xce.sched.ground import Ground, open_ground
from xce.sched.holds import Holds
from xce.sched.lane import Lanes
from xce.sched.order import Line, Place, Rank
from xce.sched.outside import waited_for
from xce.sched.passed import NO_TURNS, Turns
from xce.sched.place import bulk, pools
from xce.sched.place.spot import Spot, find_gang, find_one, spot_of_many
from xce.sched.policy import FIRST_COME, Policy, fitting, sift
from xce.sched.preempt import Preemptor
from xce.sched.reserve import Element, Reserver
from xce.sched.running import FAR, expected_span
from xce.sched.shape import Shape
from xce.sched.starts import bulk_of, bulk_of_one, gang_of
from xce.sched.timeline import Piece, View
from xce.sched.waiting import Memory
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Flags

Queue: TypeAlias = list[tuple[Rank, Place, Front]]


def run_session(
    state: ClusterState,
    *,
    now_us: Micros,
    memory: Memory | None = None,
    policy: Policy = FIRST_COME,
    counts: Counts | None = None,
    trace: "Tracer | None" = None,
    until: JobId | None = None,
) -> Plan:
    """Return what can start and why each other class waits.

    Args:
        state: What is true; read, never changed.
        now_us: The instant of the session; not before the state's last entry.
        memory: What the sessions before remember; without it the plan is the same.
        policy: The functions that decide.
        counts: Where to count the work that was done.
        trace: Is told what is decided; the plan is the same.
        until: End early, once the turn of this waiting job is over: what stands behind it has no
            say in whether it starts.
    """
    now_us = max(now_us, state.now_us)
    given = state, now_us, memory or Memory(), policy, counts or Counts()
    session = Session(*given) if trace is None else trace.open(*given)
    session.start_held()
    if trace is None and until is None:
        session.pass_over()
    queue = session.order()
    session.call_up(queue)
    while queue:
        if session.has_stopped:
            session.resume(-queue[0][0][0])
        rank, place, front = heapq.heappop(queue)
        before = queue[0][1] if queue and queue[0][0] == rank else NO_LIMIT
        before = session.turns.limit(rank, before)
        # Elements of one job that are of several classes stand at one place.
        session.place(front, front.behind if before == place else before)
        if until is not None and front.is_past(until):
            return session.close()
        if not front.is_over:
            session.push(queue, front)
        if session.is_order_due:
            queue = session.order_again(queue)
        session.call_up(queue)
    session.resume(0)
    return session.close()


class Tracer(Protocol):
    """Listens to a session; see `xce.sched.traced`."""

    def open(
        self, state: ClusterState, now_us: Micros, memory: Memory, policy: Policy, counts: Counts, /
    ) -> "Session":
        """Return a session that tells what it does and decides the same."""
        ...


class Session:
    """A session under way."""

    may_hurry = True
    """Whether plain attempts may go the short way, without a word on the hosts."""

    def __init__(
        self,
        state: ClusterState,
        now_us: Micros,
        memory: Memory,
        policy: Policy,
        counts: Counts,
    ) -> None:
        self._state = state
        self._now_us = now_us
        self._memory = memory
        self._policy = policy
        self._counts = counts
        self._facts = memory.open(state, policy)
        self._ground: Ground | None = None
        self._pools = {name: state.pools.free(name) for name in sorted(state.pools.total)}
        self._reserver = Reserver(state, memory.running, now_us)
        self._holds = Holds(state)
        self._preemptor = Preemptor(state, memory.running)
        self._preemptions: list[Preemption] = []
        self._gate = Gate(state, now_us)
        self._shares = Shares(state, now_us)
        self._line = Line(state, policy.orders, self._shares)
        self._lanes = Lanes(state, policy, self._reserver, may_hurry=self.may_hurry)
        self._bulk: list[BulkStart] = []
        self._gangs: list[GangStart] = []
        self._failed: dict[Shape, Reason] = {}
        self._delaying: dict[tuple[Shape, Micros], Reason] = {}
        """What fits and would delay a reservation, running up to an instant; until a start."""
        self._is_kept_waiting = False
        self._in_vain: set[Shape] = set()
        """Requests for which nobody can give way."""
        self._asleep: dict[RequestClass, Reason] = {}
        self._avoiding: set[RequestClass] = set()
        """Of these, classes of which only jobs that avoid hosts did not fit so far."""
        self.turns: Turns = NO_TURNS

    def order(self) -> Queue:
        """Return the classes with waiting jobs as a heap, the first one in front."""
        queue: Queue = []
        queues = self._state.queues
        passed = self.turns.classes
        for found in self._state.waiting.values():
            config = queues.get(found.key.queue)
            if config is None or not config.active or not self._state.is_window_open(config.name):
                continue
            if found.cls in passed:
                continue
            rank = self._line.rank(found)
            if found.waiting:
                self.push(queue, Front(self._state, found, rank, aside=self._holds.aside))
            for moved in found.moved:
                front = Front(self._state, found, rank, moved, self._holds.aside)
                self.push(queue, front)
        return queue

    def pass_over(self) -> None:
        """Find out who of those that did not fit before does not fit now."""
        passed = self._memory.passed
        if passed.rows:
            self.turns = passed.open(self._state, self._free, self._facts, self._policy)

    def call_up(self, queue: Queue) -> None:
        """Put into the order who of those is next and does fit."""
        key, given = queue[0][:2] if queue else None, len(self._bulk) + len(self._gangs)
        for row in self.turns.advance(key, given, self._ground):
            self.push(queue, Front(self._state, row.found, row.key[0]))

    def push(self, queue: Queue, front: Front) -> None:
        """Put a class into the order, if anything of it is left."""
        place = front.place()
        if place is not None:
            heapq.heappush(queue, (front.rank, place, front))

    @property
    def is_order_due(self) -> bool:
        """Whether so much was placed that the order by shares has to be made again."""
        return self._shares.is_due

    def order_again(self, queue: Queue) -> Queue:
        """Return the order as it is after what was placed."""
        self._shares.renew()
        again: Queue = []
        for _, _, front in queue:
            front.rank = self._line.rank(front.found)
            self.push(again, front)
        return again

    def place(self, front: Front, before: Place) -> None:
        """Place what stands before ``before``; it is over when what is left does not fit."""
        self._counts.classes += 1
        while (first := front.place()) is not None and first < before:
            if self._shares.is_due:
                return
            shape = self._memory.shape(self._state, front.found, front.likeness, self._counts)
            late = self._gate.refuse(front.found)
            reason = late or self._refusal(shape) or self._try(front, shape, before)
            if reason is None:
                continue
            self._sleep(front, shape, reason)
            if late is not None:
                front.is_over = True
                return
            if self._preempt(front, shape, reason, before) or self._reserve(front, shape, before):
                continue
            if not shape.avoid:
                front.is_over = True
                return
            front.skip_alike()

    def start_held(self) -> None:
        """Start those for whom room is held, where others have given way."""
        for held in self._holds.each():
            found, job = held.found, held.job
            likeness = job.avoid, job.waited_us
            shape = self._memory.shape(self._state, found, likeness, self._counts)
            spot = None
            if self._holds.may_start(held) and self._gate.refuse(found) is None:
                view = self._holds.own_view(held, self._now)
                spot = self._find(shape, view, self._holds.mask(held))
                spot = spot or self._find(shape, view, None)
            if spot is not None:
                self._holds.give(held, self._now)
                self._reserver.take(found, self._now, spot)
                self._start(found, (job.id, held.hold.index), shape, spot)
                self._holds.set_aside(held)
            elif self._holds.are_gone(held) or not self._holds.may_start(held):
                self._holds.give(held, self._now)
                self._holds.released.append((job.id, held.hold.index))
            else:
                piece = Piece(held.numbers, held.amounts, held.pools, exclusive=False)
                self._reserver.note(piece, expected_span(found))
                self._holds.set_aside(held)
                self._asleep[found] = Reason(ReasonCode.PREEMPTING)

    def _start(self, found: RequestClass, element: Element, shape: Shape, spot: Spot) -> None:
        """Add the start of one element for which others gave way."""
        self._counts.runs += 1
        self._gate.take(found, 1)
        if shape.request.is_serial:
            self._bulk.append(bulk_of_one(found, element, spot, StartRule.PREEMPT))
        else:
            self._gangs.append(self._gang(found, element, shape, spot, StartRule.PREEMPT))

    def _gang(
        self, found: RequestClass, element: Element, shape: Shape, spot: Spot, rule: StartRule
    ) -> GangStart:
        """Return the start of a parallel element, with its certificate."""
        return gang_of(
            found, element, shape, spot, rule,
            ground=self._free, facts=self._facts, topology=self._state.config_version,
        )  # fmt: skip

    @property
    def has_stopped(self) -> bool:
        """Whether preempted attempts may still go on in this session."""
        return self._holds.has_stopped

    def resume(self, priority: int) -> None:
        """Let preempted attempts go on before jobs of queues of lower priority start."""
        for numbers, slots in self._holds.resume(self._now, priority):
            amounts = np.zeros((len(self._free.free), len(numbers)), np.int64)
            amounts[0] = slots
            piece = Piece(numbers, amounts, {}, exclusive=False)
            self._reserver.take_room(piece, self._now, FAR)
            self._delaying.clear()

    def _preempt(self, front: Front, shape: Shape, reason: Reason, before: Place) -> bool:
        """Have others give way for the first element of a class, if that lets it start.

        Not where somebody in front holds a reservation, which it could delay.
        """
        if shape.fixed is not None or shape.never is not None:
            return False
        if shape.binds or shape.looks_outside or (shape.is_alone and not shape.request.exclusive):
            # Who is where, what is idle, which processors come free: other questions then.
            return False
        if reason.code is ReasonCode.RESERVED or self._reserver.has_promises:
            return False
        if not self._preemptor.may(front.found) or shape in self._in_vain:
            return False
        find = partial(self._find, shape)
        found = self._preemptor.find(front.found, front.element(), self._now, find)
        if found is None:
            self._in_vain.add(shape)
            return False
        preemption, spot = found
        self._preemptions.append(preemption)
        self._delaying.clear()
        piece = Piece(spot.numbers, spot.amounts, spot.pools, exclusive=False)
        self._reserver.take_room(piece, self._now, expected_span(front.found))
        self._asleep[front.found] = Reason(ReasonCode.PREEMPTING)
        front.take(1, before)
        return True

    def _sleep(self, front: Front, shape: Shape, reason: Reason) -> None:
        """Note why a class waits: for the first of its jobs, rather one that avoids no host."""
        found = front.found
        if found not in self._asleep or (found in self._avoiding and not shape.avoid):
            self._asleep[found] = reason
            (self._avoiding.add if shape.avoid else self._avoiding.discard)(found)

    def _reserve(self, front: Front, shape: Shape, before: Place) -> bool:
        """Promise the first element of a class the earliest start, if it may have a promise."""
        if shape.fixed is not None or shape.never is not None:
            return False
        if not self._reserver.has_room(front.found):
            return False
        element, find = front.element(), partial(self._find, shape)
        if not self._reserver.reserve(front.found, shape, element, self._now, find):
            return False
        front.take(1, before)
        return True

    def _find(self, shape: Shape, view: View, among: Flags | None) -> Spot | None:
        """Return where one attempt goes on what is free, from memory where that knows it."""
        return self._memory.recall.find(shape, view, among, self._facts, self._search)

    def _search(self, shape: Shape, view: View, among: Flags | None) -> Spot | None:
        self._counts.host_rows += self._facts.table.count
        left = fitting(shape, view.ground, self._facts, self._policy)
        left = left if among is None else left & among
        return find_one(shape, view.ground, view.pools, left, self._facts, self._policy)

    def close(self) -> Plan:
        """Return the plan."""
        self._asleep.update(self.turns.close())
        reserved, unreserved = self._reserver.changes()
        moved = self._preemptions or self._holds.released or self._holds.resumed
        is_empty = not (self._bulk or self._gangs or reserved or unreserved or moved)
        look_at_us = self._reserver.look_at_us() if self._is_kept_waiting else 0
        reasons = self._memory.close(
            self._asleep,
            is_empty=is_empty,
            has_promises=(
                self._reserver.has_promises or self._holds.matters or self._preemptor.is_used
            ),
            look_at_us=look_at_us,
        )
        if self._ground is not None:
            self._memory.take_passed(self._state, self._asleep, self._free, self._line.rank)
        return Plan(
            self._state.seq,
            self._state.config_version,
            self._now_us,
            tuple(self._bulk),
            tuple(self._gangs),
            reasons,
            reserved,
            unreserved,
            tuple(self._preemptions),
            tuple(self._holds.released),
            tuple(self._holds.resumed),
        )

    @property
    def _now(self) -> View:
        """What is free now."""
        return View(self._free, self._pools)

    @property
    def _free(self) -> Ground:
        """What is free now; found out when it is first asked for."""
        if self._ground is None:
            self._ground = open_ground(self._state, self._pools)
        return self._ground

    def _refusal(self, shape: Shape) -> Reason | None:
        """Return why a request cannot fit, as far as that is known without a try."""
        known = self._failed.get(shape) or shape.fixed
        if known is None and shape.looks_outside:
            subject = waited_for(shape.request, self._free.where)
            if subject:
                return Reason(ReasonCode.RELATION, relation="job", detail=subject)
        if known is None:
            shortage = pools.explain_shortage(shape, self._pools)
            known = shortage and (shape.never or shortage)
        if known is None and shape.verdict is not None:
            known = self._memory.verdict(shape, self._free, self._pools)
        if known is not None and not shape.looks_outside:
            self._failed[shape] = known
        return known

    def _try(self, front: Front, shape: Shape, before: Place) -> Reason | None:
        """Place as much as fits; return why nothing does, None when something was placed."""
        known = self._delaying.get((shape, self._reserver.reach(front.found)))
        if known is not None:
            return known
        self._counts.tries += 1
        if self._hurry(front, shape, before):
            return None
        now = self._now
        window = self._reserver.window(front.found, now)
        if window.ground is not now.ground and self._find(shape, now, None) is not None:
            return self._try_window(front, shape, window, before)
        self._counts.host_rows += self._facts.table.count
        sieve = sift(shape, now.ground, self._facts, self._policy, shape.unit)
        place = self._place_bulk if shape.request.is_serial else self._place_gang
        if window.ground is now.ground and place(front, shape, now, sieve.left, before):
            self._delaying.clear()
            return None
        reason = explain_ground(shape, now.ground, self._facts, self._policy, sieve, now.pools)
        if not shape.looks_outside:
            # Else another job's start may cure it within the session.
            self._memory.store_verdict(shape, now.ground, now.pools, reason)
            self._failed[shape] = reason
        return reason

    def _hurry(self, front: Front, shape: Shape, before: Place) -> bool:
        """Start the first element of a class the short way, if it can go it."""
        start = self._lanes.start(front, shape, self._free, before)
        if isinstance(start, BulkStart):
            self._bulk.append(start)
            self._note(front, 1, 1)
        elif isinstance(start, GangStart):
            self._gangs.append(start)
            self._note(front, 1, sum(start.tasks))
        self._counts.runs += start is not None
        return start is not None

    def _try_window(self, front: Front, shape: Shape, window: View, before: Place) -> Reason | None:
        """Place as much as delays nobody; as `_try`, of something that fits now."""
        self._counts.host_rows += self._facts.table.count
        sieve = sift(shape, window.ground, self._facts, self._policy, shape.unit)
        place = self._place_bulk if shape.request.is_serial else self._place_gang
        if place(front, shape, window, sieve.left, before):
            self._delaying.clear()
            return None
        self._is_kept_waiting = True
        reason = Reason(ReasonCode.RESERVED, detail=str(self._reserver.in_the_way(front.found)))
        self._delaying[shape, self._reserver.reach(front.found)] = reason
        return reason

    def _note(self, front: Front, attempts: int, slots: int) -> None:
        self._gate.take(front.found, attempts)
        if self._line.is_shared(front.found):
            self._shares.note(front.found, attempts, slots)

    def _place_bulk(
        self, front: Front, shape: Shape, view: View, left: Flags, before: Place
    ) -> bool:
        """Place single-host elements in one go; one that holds a reservation alone."""
        room = bulk.attempts_on_hosts(shape, view.ground, left)
        wanted = int(room.sum())
        lasts = pools.most_attempts(shape, view.pools, shape.tasks_max)
        wanted = wanted if lasts is None else min(wanted, lasts)
        if wanted == 0:
            return False
        wanted = self._gate.most(front.found, wanted)
        if self._line.is_shared(front.found):
            wanted = min(wanted, self._shares.left)
        rule = self._reserver.rule(front.element())
        if rule is StartRule.RESERVED:
            there = np.where(self._reserver.preferred(shape, front.element(), left), room, 0)
            room, wanted = there if there.any() else room, 1
        runs, taken = front.take(wanted, before)
        numbers, shares = self._policy.sharing(shape, view.ground, self._facts, room, taken)
        spot = spot_of_many(shape, view.ground, numbers, shares)
        self._reserver.take(front.found, self._now, spot)
        self._note(front, taken, shape.tasks_max * taken)
        self._counts.runs += len(runs.jobs)
        self._bulk.append(bulk_of(front.found, runs, spot, rule))
        return True

    def _place_gang(
        self, front: Front, shape: Shape, view: View, left: Flags, before: Place
    ) -> bool:
        """Place one parallel job or element."""
        element = front.element()
        rule, spot = self._reserver.rule(element), None
        if rule is StartRule.RESERVED:
            there = self._reserver.preferred(shape, element, left)
            spot = find_gang(shape, view.ground, view.pools, there, self._facts, self._policy)
        spot = spot or find_gang(shape, view.ground, view.pools, left, self._facts, self._policy)
        if spot is None:
            return False
        runs, _ = front.take(1, before)
        started = runs.jobs[0], runs.firsts[0]
        self._gangs.append(self._gang(front.found, started, shape, spot, rule))
        self._reserver.take(front.found, self._now, spot)
        self._note(front, 1, int(spot.sizes.sum()))
        self._counts.runs += 1
        return True
