"""A host of a world: the worker's shell around the real host state machine."""

from collections.abc import Sequence
from random import Random
from typing import Final

from xce.model.ids import Micros
from xce.model.load import INDICES, UNKNOWN, Sample
from xce.model.observation import HostJoined, Reported
from xce.net import message as m
from xce.sim.ground import Ground
from xce.sim.keyring import Keyring
from xce.sim.loop import Process
from xce.sim.network import Network, Wire
from xce.sim.remote import Remote
from xce.sim.shepherd import Shepherd
from xce.worker.action import Action, Led, News
from xce.worker.beat import Beat
from xce.worker.core import HostState

REPORTS_MAX: Final = 4
"""Most batches that a worker has on the way."""
_LOADS: Final[tuple[Sample, ...]] = tuple(
    tuple(phase * 100 if index != "ls" else UNKNOWN for index in INDICES) for phase in range(41)
)
"""What hosts measure, in turn: a prime number, so that it resonates with no interval of looks."""


class Worker(Process):
    """One life of a worker."""

    def __init__(
        self,
        network: Network,
        ground: Ground,
        rng: Random,
        *,
        cpus: int,
        mem_mib: int,
        machine: type[HostState] = HostState,
        keyring: Keyring | None = None,
    ) -> None:
        super().__init__(ground.loop)
        self.ground = ground
        self.core = machine()
        self._network = network
        self._keyring = keyring or Keyring()
        self._rng = rng
        self._cpus = cpus
        self._mem_mib = mem_mib
        self._wire: Wire | None = None
        self._shepherd: Shepherd | None = None
        self._is_joined = False
        self._epoch = 0
        self._has_list = False
        self._due_us: Micros = 0
        self._beat = Beat(0, 0)
        self._remote = Remote(self)
        self.after(self._rng.randrange(20_000), self._find_shepherd)

    def kill(self) -> None:
        """Die at once."""
        self.is_alive = False
        if self.ground.tasks is not None:
            self.ground.desk = None
            self.ground.tasks.books.note_trouble(self.ground.name)
        if self._shepherd is not None:
            self._shepherd.detach()
        self._network.cut_all(self)

    # What remote tasks need.

    @property
    def shepherd(self) -> Shepherd | None:
        """The shepherd that it knows."""
        return self._shepherd

    @property
    def now_us(self) -> Micros:
        """The time."""
        return self.loop.now_us

    def carry_out(self, actions: Sequence[Action]) -> None:
        """Do what the machine wants done, and what follows."""
        self._do(actions)
        self.after(0, self._look)

    def say(self, message: m.Message) -> bool:
        """Send a message to the controller; False: there is none now."""
        if self._wire is None or not self._is_joined:
            return False
        self._wire.send(self, message)
        return True

    def _open_desk(self) -> None:
        """Serve the processes that start tasks on other hosts."""
        self._remote.give_up()
        if self.ground.tasks is not None and self.ground.desk is not self._remote:
            self.ground.desk = self._remote
            for starter in list(self.ground.starters.values()):
                starter.come_again()

    # The shepherd's side.

    def _find_shepherd(self) -> None:
        shepherd = self.ground.shepherd
        if shepherd is None:
            self.after(20_000, self._find_shepherd)
            return
        assert isinstance(shepherd, Shepherd)
        self._shepherd = shepherd
        self.seam("shepherd found")
        listed = shepherd.attach(self._hear_news)
        self._do(self.core.take_list(listed, self.loop.now_us))
        self._open_desk()
        self.seam("list taken")
        if not self._has_list:
            self._has_list = True
            self._dial()
        self._look()

    def note_shepherd_killed(self) -> None:
        """Learn that the shepherd is gone."""
        self._shepherd = None
        self.after(self._rng.randrange(50_000), self._find_shepherd)

    def _hear_news(self, news: list[News | Led]) -> None:
        if self.is_alive:
            self.seam("news came")
            told = [one for one in news if not isinstance(one, Led)]
            self._do(self.core.take_news(told, self.loop.now_us))
            for one in news:
                if isinstance(one, Led):
                    self._remote.take_led(one)
            self.seam("news taken")
            self._look()

    def _do(self, actions: Sequence[Action]) -> None:
        shepherd = self._shepherd
        if shepherd is None:
            return
        for action in actions:
            shepherd.after(20, shepherd.take, action)  # in order, as on a socket
            self.seam("order given")

    # The controller's side.

    def _dial(self) -> None:
        name = self.ground.name
        key = self._keyring.key(name)
        self._network.dial("worker", name, self, self._dialled, self, key=key)

    def _dialled(self, wire: Wire | None) -> None:
        self._wire = wire
        self._is_joined = False
        if wire is None:
            self.after(50_000 + self._rng.randrange(400_000), self._dial)

    def lose(self, wire: Wire) -> None:
        """Learn that the connection to the controller has ended."""
        if wire is self._wire:
            self._wire = None
            self._is_joined = False
            self.core.disconnected()
            self._remote.leave_controller()
            self.after(self._rng.randrange(300_000), self._dial)

    def hear(self, wire: Wire, message: object) -> None:
        """Take a message of the controller."""
        if wire is not self._wire:
            return
        now_us = self.loop.now_us
        match message:
            case m.Welcome(epoch=epoch, beat_us=beat_us):
                if not self.core.meet(epoch, now_us):
                    wire.cut()
                    return
                self.seam("welcomed")
                self._join(wire)
                self._beat = Beat(beat_us, now_us)
                self._send_beat(wire)
            case m.Pong(number):
                contact_us = self._beat.answered(number)
                if contact_us:
                    self._do(self.core.contact(contact_us))
            case m.Effects(epoch, effects):
                self.seam("effects came")
                self._do(self.core.take_effects(epoch, effects, now_us))
                self.seam("effects taken")
            case m.ReportsTaken(number):
                self._do(self.core.acknowledged(number, now_us))
                self.seam("reports taken")
            case m.TaskAsk():
                self._remote.serve(message)
            case m.TaskPiece():
                self._remote.take(message)
            case _:
                raise AssertionError(f"a worker is told {message!r}")
        self._look()

    def _join(self, wire: Wire) -> None:
        attempts, unreported = self.core.joined()
        boot = f"boot-{self.ground.boot}"
        seen = HostJoined(self.ground.name, boot, self._cpus, self._mem_mib, attempts, unreported)
        wire.send(self, m.Observe(seen))
        self.seam("joined")
        self._is_joined = True

    def _send_beat(self, wire: Wire) -> None:
        if wire is not self._wire:
            return
        now_us = self.loop.now_us
        if self._beat.is_silent(now_us):
            wire.close(self)
            self.lose(wire)
            return
        number = self._beat.take(now_us)
        if number:
            wire.send(self, m.Ping(number, self._measure(number)))
            self.seam("beat")
        self.after(self._beat.next_us() - now_us, self._send_beat, wire)

    def _measure(self, number: int) -> Sample:
        """Return a load that comes and goes, without touching the dice of the world."""
        return _LOADS[(number * 7 + len(self.ground.name)) % len(_LOADS)]

    def _look(self) -> None:
        """Report what is to be reported, and have the clock looked at when something is due."""
        if self.ground.tasks is not None:
            self._remote.look()
        wire = self._wire
        while (
            wire is not None
            and self._is_joined
            and self.core.has_reports
            and self.core.reports_in_flight < REPORTS_MAX
        ):
            found = self.core.reports(self.loop.now_us)
            if found is None:
                break
            reported = Reported(self.ground.name, *found)
            wire.send(self, m.Observe(reported))
            self.seam("reported")
        due_us = self.core.next_due_us()
        if due_us is not None and due_us != self._due_us:
            self._due_us = due_us
            self.after(max(0, due_us - self.loop.now_us), self._tick, due_us)

    def _tick(self, due_us: Micros) -> None:
        if due_us == self._due_us:
            self._due_us = 0
            self._do(self.core.tick(self.loop.now_us))
            self._look()
