"""One leader's reign: who waits for which reply, when to decide, and what to tell in which order.

The daemon and the simulator drive the same `Reign`; each gives it an `Outside` of its own, which
reaches the loop, the disk and the workers.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from xce.control.controller import Input, Reply
from xce.control.desk import Batch, Desk
from xce.model.command import Command
from xce.model.effect import Effect
from xce.model.ids import Micros
from xce.model.observation import Observation, ReignBegan

OnReply: TypeAlias = Callable[[Reply], object]


class Outside(Protocol):
    """What a reign asks of its shell."""

    def turn_soon(self) -> None:
        """Have `Reign.turn` called soon, once, with the instant it is then."""
        ...

    def write(self, batch: Batch) -> None:
        """Make a batch durable; when it is, tell followers of it and call `Reign.tell`."""
        ...

    def send_effects(self, host: str, effects: tuple[Effect, ...]) -> None:
        """Tell the worker of a host, if one has joined."""
        ...


class Reign:
    """The loop around a `Desk`. No I/O: every reach outside is the `Outside`'s."""

    def __init__(self, desk: Desk, outside: Outside) -> None:
        self.desk = desk
        self._outside = outside
        self._waiting: dict[int, OnReply] = {}
        self._last_ticket = 0
        self._is_turn_due = False

    def give(
        self,
        body: Command | Observation,
        *,
        by: str = "",
        basis: str = "",
        origin: str = "",
        on_reply: OnReply | None = None,
    ) -> None:
        """Have something decided in the next turn; ``on_reply`` is called when it is durable."""
        ticket = 0
        if on_reply is not None:
            self._last_ticket += 1
            ticket = self._last_ticket
            self._waiting[ticket] = on_reply
        self.desk.give(Input(body, by, basis, ticket, origin))
        self._turn_soon()

    def turn(self, now_us: Micros, *, has_jumped: bool = False) -> None:
        """Decide what came, then write and tell what can be.

        Args:
            now_us: The present instant.
            has_jumped: The clock has jumped since the last turn.
        """
        self._is_turn_due = False
        if has_jumped:
            self.desk.give_first(Input(ReignBegan(is_jump=True), "controller", "component"))
        self.desk.turn(now_us)
        self.pump()

    def pump(self) -> None:
        """Write and tell what can be written and told now."""
        for reply in self.desk.take_refused():
            self._reply(reply)
        while (batch := self.desk.next_batch()) is not None:
            if batch.entries:
                self._outside.write(batch)
                break
            self.tell(batch)
        if self.desk.has_work and not self.desk.trouble:
            self._turn_soon()

    def tell(self, batch: Batch) -> None:
        """Note that a batch is durable and tell what waited for that.

        The followers were told before, so that whoever gets an answer finds it in his replica.
        """
        self.desk.committed(batch)
        for reply in batch.joins:
            self._reply(reply)
        names = self.desk.controller.state.hosts.names
        for host, effects in batch.effects:
            self._outside.send_effects(names[host], effects)
        for reply in batch.replies:
            self._reply(reply)

    def set_trouble(self, text: str) -> None:
        """Note that the journal cannot be written (``text`` says why), or can again (empty)."""
        self.desk.set_trouble(text)
        self.pump()

    def _turn_soon(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = True
            self._outside.turn_soon()

    def _reply(self, reply: Reply) -> None:
        on_reply = self._waiting.pop(reply.ticket, None)
        if on_reply is not None:
            on_reply(reply)
