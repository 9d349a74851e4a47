"""A virtual network: connections that keep order, are slow, break, and cannot be had for a while.

As with real streams nothing is lost, repeated or changed places inside a connection that lives;
what was on its way when it broke is gone or, where it lingers, still arrives until its end is
learned of, one end may learn of that long after the other, and what was said on two connections may
arrive in any order. For a while one side may hear nothing: later it hears all of it, or never.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from xce.model.ids import Micros
from xce.sim.coverage import Strikes
from xce.sim.faults import Faults
from xce.sim.loop import Loop, Process


class End(Protocol):
    """One end of connections."""

    @property
    def is_alive(self) -> bool:
        """Whether its process lives."""
        ...

    def hear(self, wire: "Wire", message: object) -> None:
        """Take a message."""
        ...

    def lose(self, wire: "Wire") -> None:
        """Learn that a connection has ended."""
        ...


class Wire:
    """One connection between the end that dialled and the end that accepted."""

    __slots__ = (
        "_arrives_us", "_held", "_is_deaf", "_network", "_told", "ends", "is_cut", "is_stalled",
        "key", "lingers", "name", "role",
    )  # fmt: skip

    def __init__(
        self, network: "Network", dialler: End, accepter: End, *, role: str, name: str, key: str
    ) -> None:
        self.name = name
        """The name of the one who dialled."""
        self.role = role
        self.key = key
        """The fingerprint of his key; empty: he is on the same machine."""
        self.ends = (dialler, accepter)
        self.is_cut = False
        self.is_stalled = False
        """Nothing arrives any more, and nobody knows it yet."""
        self.lingers = False
        """It is broken, and what was under way still arrives."""
        self._network = network
        self._arrives_us = [0, 0]
        self._told = [False, False]
        self._is_deaf = [False, False]
        self._held: list[object] = []
        """What the deaf side has not heard yet."""

    def send(self, sender: End, message: object) -> None:
        """Send a message to the other end; it may never arrive."""
        if self.is_cut or self.is_stalled:
            return
        network = self._network
        side = 0 if sender is self.ends[0] else 1
        if network.breaks():
            self.cut()
            return
        at_us = max(self._arrives_us[side], network.loop.now_us + network.delay_us())
        self._arrives_us[side] = at_us
        network.loop.push(at_us, None, self._arrive, (1 - side, message))

    def _arrive(self, side: int, message: object) -> None:
        end = self.ends[side]
        is_gone = (self.is_cut and not self.lingers) or self.is_stalled or self._told[side]
        if is_gone or not end.is_alive:
            return
        if self._is_deaf[side]:
            self._held.append(message)
            return
        if self.is_cut:
            self._network.strikes.note("linger_permille")
        self._network.watch(self, side, message)
        end.hear(self, message)

    def deafen(self, side: int) -> None:
        """Let one end hear nothing for now."""
        if not any(self._is_deaf):
            self._is_deaf[side] = True

    def heal(self) -> None:
        """Let both ends hear again, and what was said meanwhile first."""
        held, self._held = self._held, []
        for side in (0, 1):
            if self._is_deaf[side]:
                self._is_deaf[side] = False
                for message in held:
                    self._arrive(side, message)

    def inject(self, side: int, message: object) -> None:
        """Let one end hear something that the other has not said now."""
        if not (self.is_cut or self.is_stalled or self._told[side]) and self.ends[side].is_alive:
            self.ends[side].hear(self, message)

    def cut(self, *, late_us: Micros = 0) -> None:
        """Break the connection; each end learns of it some time after, up to ``late_us`` more."""
        if self.is_cut:
            return
        self.is_cut = True
        self.lingers = self._network.lingers()
        self._network.forget(self)
        for side in (0, 1):
            span_us = self._network.notice_us(late_us)
            self._network.loop.after(span_us, self._tell, side)

    def close(self, closer: End) -> None:
        """End the connection on purpose: the closer is told nothing more."""
        self._told[0 if closer is self.ends[0] else 1] = True
        self.cut()

    def _tell(self, side: int) -> None:
        if not self._told[side] and self.ends[side].is_alive:
            self._told[side] = True
            self.ends[side].lose(self)


class Network:
    """All connections; ``accept`` is the listening controller, None while there is none."""

    def __init__(
        self, loop: Loop, rng: Random, faults: Faults, strikes: Strikes | None = None
    ) -> None:
        self.loop = loop
        self.strikes = strikes or Strikes(loop)
        self.listener: Callable[[Wire, str, str], bool] | None = None
        """``(wire, role, name)`` -> whether the connection is taken."""
        self.listening: End | None = None
        self.watch: Callable[[Wire, int, object], object] = lambda *_: None
        """Called with each message before it is heard: the connection, and at which end."""
        self._rng = rng
        self._faults = faults
        self._wires: dict[Wire, None] = {}
        self._away: dict[str, Micros] = {}

    @property
    def wires(self) -> list[Wire]:
        """The connections that stand."""
        return list(self._wires)

    def dial(self, role: str, name: str, dialler: Process, on_end: Callable[[Wire | None], object],
             end: End, *, key: str = "") -> None:  # fmt: skip
        """Connect to the controller; ``on_end`` gets the connection, or None."""

        def arrive() -> None:
            listener, listening = self.listener, self.listening
            is_away = self._away.get(name, 0) > self.loop.now_us
            if listener is None or listening is None or is_away or not dialler.is_alive:
                dialler.after(self.notice_us(0), on_end, None)
                return
            wire = Wire(self, end, listening, role=role, name=name, key=key)
            self._wires[wire] = None
            on_end(wire)
            if not listener(wire, role, name):
                wire.cut()

        self.loop.after(self.delay_us(), arrive)

    def part(self, name: str, span_us: Micros) -> None:
        """Cut ``name`` off for a while: its connections stall, new ones cannot be had."""
        self._away[name] = self.loop.now_us + span_us
        for wire in list(self._wires):
            if wire.name == name:
                wire.is_stalled = True
                self.loop.after(span_us // 2, wire.cut)

    def deafen(self, name: str, span_us: Micros, *, side: int, heals: bool) -> None:
        """Let only one side of the connections of ``name`` be heard for a while.

        New ones cannot be had meanwhile. Afterwards all that was said is heard late, or they break.
        """
        self._away[name] = self.loop.now_us + span_us
        for wire in list(self._wires):
            if wire.name == name:
                wire.deafen(side)
                self.loop.after(span_us, wire.heal if heals else wire.cut)

    def cut_all(self, end: End) -> None:
        """End every connection of a process that was killed."""
        for wire in list(self._wires):
            if end in wire.ends:
                wire.cut()

    def cut_one(self, rng: Random) -> None:
        """Break some connection."""
        if self._wires:
            rng.choice(list(self._wires)).cut(late_us=2_000_000)

    def forget(self, wire: Wire) -> None:
        """Take a broken connection off the list."""
        self._wires.pop(wire, None)

    def breaks(self) -> bool:
        """Return whether a message breaks its connection."""
        is_broken = self._rng.random() * 1000 < self._faults.break_permille
        if is_broken:
            self.strikes.note("break_permille")
        return is_broken

    def lingers(self) -> bool:
        """Return whether what is under way on a broken connection still arrives."""
        permille = self._faults.linger_permille
        return permille > 0 and self._rng.random() * 1000 < permille

    def delay_us(self) -> Micros:
        """Return how long a message takes."""
        if self._rng.random() * 1000 < self._faults.slow_permille:
            self.strikes.note("slow_permille")
            return self._rng.randrange(self._faults.slow_us_max)
        return 50 + self._rng.randrange(self._faults.delay_us_max)

    def notice_us(self, late_us: Micros) -> Micros:
        """Return how long it takes to learn that a connection is gone."""
        return 100 + self._rng.randrange(20_000 + late_us)
