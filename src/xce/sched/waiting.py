"""What a scheduler remembers between sessions: nothing that matters (decision X-23).

A session is exact: it answers from the state alone which requests fit, and why the others do not.
`Memory` only spares it work whose outcome is certain:

* the masks of a request, as long as no record changed hosts or configuration, and again when all
  hosts are as they were then;
* the *verdict* "does not fit, for this reason" of a request, as long as what is free when its turn
  comes is what it was then, to the last unit. Free amounts are compared by content, so a class
  sleeps on when what came free has gone to a class in front of it. A shortage of pools and what
  can never run does not depend on hosts at all, and is not tried on them;
* where a request goes on what is free or will be, as long as all of that is as it was; see
  `xce.sched.recall`;
* whether a session is worth running: `Memory.note` hears every applied entry, and only one that
  brings a kind of change which can cure the reason of a sleeping class, or new work, makes it due.

When is a reason told? Only when its gist differs from the one in the state: another code, another
resource, other numbers of hosts that are excluded for good, closed or down, or another set of
codes among the busy ones. Amounts that are free and how many hosts are short of what are as they
were when the reason was told: they change with every start. Since a session finds the gist of every
class as it is now, asleep or not, it tells the same as one without memory.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Final, NamedTuple

from xce.model.config import ClusterConfig
from xce.model.entry import Entry
from xce.model.host_record import HostDown, ReignBegun
from xce.model.ids import Micros
from xce.model.reason import Reason, Wake
from xce.model.record import SessionRan
from xce.sched.columns import HostFacts, content_of
from xce.sched.counts import Counts
from xce.sched.explain import cures, gist
from xce.sched.front import Likeness
from xce.sched.gpu_mix import mix_of
from xce.sched.ground import Ground
from xce.sched.order import Rank
from xce.sched.passed import Passed
from xce.sched.policy import Policy
from xce.sched.recall import Recall
from xce.sched.running import Running
from xce.sched.shape import Content, Shape, ShapeKey, Verdict, compile_shape
from xce.sched.standing import compile_standing
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import HostTable

_ALWAYS: Final = frozenset({Wake.PENDING, Wake.CONFIG})
_PROMISED: Final = frozenset({Wake.RESERVATION, Wake.CAPACITY})
_SHAPES_MAX: Final = 20_000
_CONTENTS_MAX: Final = 64
_KNOWN_MAX: Final = 8
"""So many contents of the host table are remembered."""
_CELLS_MAX: Final = 1_000_000
"""Shapes times hosts that are remembered for contents that are not the present one."""


class Sleeper(NamedTuple):
    """A class that waits for a cure."""

    reason: Reason
    accepted: Reason
    """The reason in the state that says the same, if what was told is accepted."""
    wakes: frozenset[Wake]


class _Known(NamedTuple):
    """What was made for a content of the host table."""

    content: tuple[object, ...]
    facts: HostFacts
    shapes: dict[ShapeKey, Shape]
    plain: dict[tuple[int, Micros], Shape]


class Memory:
    """Caches, and which kinds of change are waited for."""

    def __init__(self) -> None:
        self.sleepers: dict[int, Sleeper] = {}
        """By class: all that waited and did not fit at the end of the last session."""
        self.running = Running()
        """What runs and when it is expected to end."""
        self.look_at_us: Micros = 0
        """When a session is worth running though no record came; 0: never."""
        self.passed = Passed()
        """Classes that did not fit and may be passed over."""
        self.recall = Recall()
        """What came of searches."""
        self._has_news = True
        self._awaits_answer = False
        self._wanted = _ALWAYS
        self._facts: HostFacts | None = None
        self._change = -1
        """The ``change`` of the host table that was looked at last."""
        self._known: list[_Known] = []
        """Of one table, configuration and policy; the present content comes last."""
        self._config: ClusterConfig | None = None
        self._policy: Policy | None = None
        self._shapes: dict[ShapeKey, Shape] = {}
        self._plain: dict[tuple[int, Micros], Shape] = {}
        """By class and delay waited for: the shape of its jobs that avoid no host."""
        self._contents: dict[bytes, int] = {}
        self._last_content = 0

    @property
    def is_due(self) -> bool:
        """Whether a session is worth running: its plan may change something.

        So it may, too, while the last plan has no answer: it may be lost.
        """
        return self._has_news or self._awaits_answer

    def note(self, entry: Entry) -> None:
        """Hear of an applied entry."""
        self.running.note(entry)
        for record in entry.records:
            if isinstance(record, SessionRan):
                self._awaits_answer = False
                # What did not hold of a plan left something undone.
                self._has_news = self._has_news or record.stale > 0
            elif not record.wakes.isdisjoint(self._wanted) or isinstance(
                record, HostDown | ReignBegun
            ):
                self._has_news = True

    def open(self, state: ClusterState, policy: Policy) -> HostFacts:
        """Begin a session: return the facts about hosts, forget what came of other ones."""
        self._has_news = False
        facts = self._open_facts(state, policy)
        if state.hosts.devices.width and facts.gpu_policy in ("default", "fragmentation"):
            facts.mix = mix_of(state, facts)
        return facts

    def _open_facts(self, state: ClusterState, policy: Policy) -> HostFacts:
        facts, table = self._facts, state.hosts
        if (
            facts is None
            or facts.table is not table
            or self._config is not state.config
            or self._policy is not policy
        ):
            self._config, self._policy = state.config, policy
            self._known.clear()
            self._contents.clear()
            self.recall.clear()
            return self._turn_to(table, state.config)
        if self._change != table.change:
            return self._turn_to(table, state.config)
        if len(self._shapes) + len(self._plain) > _SHAPES_MAX + 2 * len(state.classes):
            self._shapes.clear()
            self._plain.clear()
            self.passed.clear()
            self.recall.clear()
        return facts

    def _turn_to(self, table: HostTable, config: ClusterConfig) -> HostFacts:
        """Take up what is known of the hosts as they are now; make it, if nothing is."""
        content = content_of(table)
        known = next((one for one in self._known if one.content == content), None)
        if known is None:
            known = _Known(content, HostFacts(table, config), {}, {})
        kept = [one for one in self._known if one is not known][1 - _KNOWN_MAX :]
        while kept and sum(len(one.shapes) for one in kept) * table.count > _CELLS_MAX:
            del kept[0]
        self._known = [*kept, known]
        self._change = table.change
        self._facts, self._shapes, self._plain = known.facts, known.shapes, known.plain
        self.passed.clear()
        return known.facts

    def close(
        self,
        asleep: dict[RequestClass, Reason],
        *,
        is_empty: bool,
        has_promises: bool = False,
        look_at_us: Micros = 0,
    ) -> tuple[tuple[int, Reason], ...]:
        """End a session.

        Args:
            asleep: Why the classes that still wait do.
            is_empty: Whether the plan starts and reserves nothing.
            has_promises: Whether reservations were made, which are told again when they change.
            look_at_us: When a session is worth running though no record came; 0: never.

        Returns:
            The reasons to tell, by class.
        """
        told: list[tuple[int, Reason]] = []
        sleepers: dict[int, Sleeper] = {}
        for found, reason in asleep.items():
            before = self.sleepers.get(found.cls)
            if before is not None and before.accepted is found.reason and before.reason == reason:
                sleepers[found.cls] = before
                continue
            accepted = found.reason
            if gist(reason) != gist(accepted):
                told.append((found.cls, reason))
                accepted = reason
            sleepers[found.cls] = Sleeper(reason, accepted, cures(reason))
        self.sleepers = sleepers
        self._wanted = _ALWAYS.union(*{sleeper.wakes for sleeper in sleepers.values()})
        if has_promises:
            self._wanted |= _PROMISED
        self.look_at_us = look_at_us
        self._awaits_answer = bool(told) or not is_empty
        return tuple(sorted(told, key=itemgetter(0)))

    def shape(
        self,
        state: ClusterState,
        found: RequestClass,
        likeness: Likeness,
        counts: Counts,
    ) -> Shape:
        """Return what placement sees of jobs of a class that are alike in this."""
        avoid, waited_us = likeness
        plain = (found.cls, waited_us)
        if not avoid and plain in self._plain:
            return self._plain[plain]
        assert self._facts is not None
        assert self._policy is not None
        queue = state.queues[found.key.queue]
        load = tuple(sorted(queue.load_sched.items()))  # a snapshot may give them in another order
        key = ShapeKey(found.key.request, queue.hosts, avoid, waited_us, load)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = compile_shape(key, found)
            compile_standing(shape, state, self._facts, self._policy)
            counts.host_rows += self._facts.table.count
        if not avoid:
            self._plain[plain] = shape
            shape.users += 1
        return shape

    def take_passed(
        self,
        state: ClusterState,
        asleep: Mapping[RequestClass, Reason],
        ground: Ground,
        rank_of: Callable[[RequestClass], Rank],
    ) -> None:
        """Keep who did not fit, to be passed over next time; ``ground``: what is free now."""

        def shape_of(found: RequestClass) -> Shape | None:
            return self.plain_shape(found, state)

        self.passed.add(state, asleep, ground, rank_of, shape_of)

    def plain_shape(self, found: RequestClass, state: ClusterState) -> Shape | None:
        """Return the shape of a class's first waiting job, if that avoids no host and is known."""
        if not found.sorted or found.moved or not found.waiting:
            return None
        job = state.jobs[next(iter(found.waiting))]
        return None if job.avoid or job.variants else self._plain.get((found.cls, job.waited_us))

    def verdict(self, shape: Shape, ground: Ground, pools: Mapping[str, int]) -> Reason | None:
        """Return why a request does not fit, if that was found on the same ground before."""
        verdict = shape.verdict
        if verdict is None or verdict.content != self._content(shape, ground, pools):
            return None
        return verdict.reason

    def store_verdict(
        self, shape: Shape, ground: Ground, pools: Mapping[str, int], reason: Reason
    ) -> None:
        """Keep what was found: that a request does not fit on ``ground`` with these pools."""
        shape.verdict = Verdict(self._content(shape, ground, pools), reason)

    def _content(self, shape: Shape, ground: Ground, pools: Mapping[str, int]) -> Content:
        """Return numbers that stand for what is free, and for the load that a request asks for:
        the same as long as all of it is. Pools stand beside it where more decides than that they
        last for the fewest tasks.
        """
        if ground.content is None:
            content = ground.free.tobytes() + ground.taken.tobytes()
            if content not in self._contents:
                if len(self._contents) >= _CONTENTS_MAX:
                    self._contents.clear()
                self._last_content += 1
                self._contents[content] = self._last_content
            ground.content = self._contents[content]
        load = self._facts.table.load_change if shape.reads_load and self._facts else 0
        counts = shape.weighs_pools or shape.reads_pools
        return ground.content, load, tuple(pools.values()) if counts else ()
