"""The scheduler process of a world: a follower that runs sessions and proposes their plans."""

from collections.abc import Callable
from random import Random

from xce.journal.codec import decode_batch
from xce.model.command import ProposePlan
from xce.model.ids import Micros, Seq
from xce.model.plan import Plan
from xce.net import message as m
from xce.net.follow import AskAgain, Began, Came, Follower
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.sim.loop import Loop, Process
from xce.sim.network import Network, Wire
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import dump, load

REFUSED_PAUSE_US = 500_000
RECHECK_PERMILLE = 30
"""Of sessions: they are run again on a fresh view, which must give the same plan."""


class Planner(Process):
    """One life of the scheduler."""

    def __init__(
        self, loop: Loop, network: Network, rng: Random, wall_us: Callable[[], Micros]
    ) -> None:
        super().__init__(loop)
        self.state = ClusterState()
        self.sessions = 0
        self.on_plan: Callable[[Plan], object] = lambda _: None
        """Is told of each plan that is proposed."""
        self._network = network
        self._rng = rng
        self._wall_us = wall_us
        self._memory = Memory()
        self._follower = Follower(decode_batch)
        self._wire: Wire | None = None
        self._is_timer_set = False
        self._asked = 0
        self._in_flight = False
        self._answer_seq: Seq = 0
        self._planned_seq: Seq = 0
        self._looks_at_us: Micros = 0
        self._dial()

    def kill(self) -> None:
        """Die at once."""
        self.is_alive = False
        self._network.cut_all(self)

    def _dial(self) -> None:
        self._network.dial("scheduler", "scheduler", self, self._dialled, self)

    def _dialled(self, wire: Wire | None) -> None:
        self._wire = wire
        if wire is None:
            self.after(50_000 + self._rng.randrange(300_000), self._dial)

    def hang_up(self) -> None:
        """Hear nothing more on the present connection."""
        wire = self._wire
        if wire is not None:
            wire.close(self)
            self.lose(wire)

    def lose(self, wire: Wire) -> None:
        """Learn that the connection has ended."""
        if wire is self._wire:
            self._wire = None
            self._in_flight = False
            self.after(self._rng.randrange(300_000), self._dial)

    def hear(self, wire: Wire, message: object) -> None:
        """Take a message."""
        match message:
            case m.Welcome():
                self.seam("welcomed")
                self._in_flight = False
                self._answer_seq = 0
                wire.send(self, self._follower.follow(message.epoch))
            case m.SnapshotPart() | m.Batch() | m.CaughtUp():
                self._take(wire, message)
            case m.Answer():
                self.seam("answered")
                if message.id == self._asked:
                    self._in_flight = False
                    if message.seq <= self.state.seq and message.seq <= self._planned_seq:
                        # Nothing of it was written: the journal is in trouble.
                        self._is_timer_set = True
                        self.after(REFUSED_PAUSE_US, self._plan)
                        return
                    self._answer_seq = message.seq
            case _:
                raise AssertionError(f"a scheduler is told {message!r}")
        self._plan_soon()

    def _take(self, wire: Wire, message: m.SnapshotPart | m.Batch | m.CaughtUp) -> None:
        self.seam("batch came")
        for step in self._follower.take(message):
            match step:
                case Came(entries):
                    for entry in entries:
                        apply(self.state, entry)
                        self._memory.note(entry)
                        self.seam("entry applied")
                case Began(_, parts):
                    self.state = load(parts) if parts else ClusterState()
                    self._memory = Memory()
                case AskAgain(_, why):
                    raise AssertionError(f"the stream had to begin again: {why}")
                case _:
                    pass

    def _plan_soon(self) -> None:
        if self._is_timer_set or self._in_flight or not self._follower.is_live:
            return
        if self.state.seq < self._answer_seq:
            return
        look_at_us = self._memory.look_at_us
        if not self._memory.is_due:
            if look_at_us and look_at_us != self._looks_at_us:
                self._looks_at_us = look_at_us
                self.after(max(look_at_us - self._wall_us(), 0), self._look, look_at_us)
            return
        self._is_timer_set = True
        self.after(self.state.config.session_gather_us, self._plan)

    def _look(self, look_at_us: Micros) -> None:
        """Run a session for time alone, unless one has run since this was wanted."""
        if look_at_us == self._memory.look_at_us and not self._is_timer_set:
            self._plan()

    def _plan(self) -> None:
        self._is_timer_set = False
        wire = self._wire
        if wire is None or self._in_flight or not self._follower.is_live:
            return
        now_us = max(self.state.now_us, self._wall_us())
        plan = self.make_plan(now_us)
        self.seam("planned")
        if plan.is_empty:
            self._plan_soon()
            return
        self._in_flight = True
        self._planned_seq = plan.seq
        self._asked += 1
        wire.send(self, m.Ask(self._asked, ProposePlan(plan)))
        self.on_plan(plan)
        self.seam("proposed")

    def make_plan(self, now_us: Micros) -> Plan:
        """Run a session; now and then also on a fresh view, which must give the same plan."""
        self.sessions += 1
        twin = None
        if self._rng.random() * 1000 < RECHECK_PERMILLE:
            twin = run_session(load(dump(self.state)), now_us=now_us, memory=Memory())
        plan = run_session(self.state, now_us=now_us, memory=self._memory)
        if twin is not None:
            assert twin == plan, f"a session on a fresh view at {plan.seq} gives another plan"
        return plan
