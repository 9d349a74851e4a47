"""The order in which things become known: decided, then durable, then told (decision X-16).

A `Desk` stands between a controller and its shell (the daemon, or the simulator) and does no I/O.
One batch is being made durable; what is decided meanwhile is the next one. Replies, effects and
followers see a batch when it is committed, in order, and never before.
"""

from typing import Final

import msgspec

from xce.control.controller import Controller, Input, Reply
from xce.control.effects import owed
from xce.control.inbox import Inbox, weigh
from xce.control.kill import SLICE
from xce.model.command import ProposePlan, SubmitJobs, Tick
from xce.model.effect import Effect
from xce.model.entry import Entry
from xce.model.ids import HostNumber, Micros, Seq
from xce.model.observation import HostDisconnected, HostJoined, ReignBegan, Reported
from xce.model.refusal import Refusal, RefusalCode

OPEN_MAX: Final = 50_000
"""So many jobs at most are decided about while the batch before is being written."""
_GOES_ON = (Reported, HostJoined, HostDisconnected, ReignBegan)
"""Inputs that wait while the journal is in trouble; others are refused."""


class Batch(msgspec.Struct):
    """What one commit makes true, and what may be told behind it."""

    entries: list[Entry] = []
    joins: list[Reply] = []
    """Replies to `HostJoined`, to be told before the effects: a worker's connection gets effects
    only from its own join on. What was owed before was owed to another connection, which may have
    been one to a host that has been restarted since."""
    replies: list[Reply] = []
    effects: list[tuple[HostNumber, tuple[Effect, ...]]] = []
    blobs: list[tuple[str, bytes]] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write and nothing to tell."""
        return not (self.entries or self.joins or self.replies or self.effects)


class Desk:
    """Takes inputs, gives batches to write, releases what is durable."""

    def __init__(
        self, controller: Controller, *, trouble_code: RefusalCode = RefusalCode.JOURNAL_FULL
    ) -> None:
        self.controller = controller
        self._trouble_code = trouble_code
        """What is told to those who are refused while the journal cannot be written."""
        self.durable_seq: Seq = controller.state.seq
        """Last entry that is committed."""
        self.trouble = ""
        """Why the journal cannot be written now; empty: it can."""
        self.overload = ""
        """Why no new jobs are taken now; empty: they are."""
        self._inbox = Inbox()
        self._open_weight = 0
        """How much was decided that is not handed to the journal yet."""
        self._open = Batch()
        self._flying: Batch | None = None
        self._refused: list[Reply] = []

    @property
    def has_work(self) -> bool:
        """Whether `turn` would decide something."""
        # A slow disk must not let what is decided, and is in nobody's hands yet, grow for ever.
        if self._open_weight >= OPEN_MAX and self._flying is not None:
            return False
        return bool(self._inbox) or self.controller.has_more

    def give(self, given: Input) -> None:
        """Take an input; it is decided at the next `turn`."""
        if self.trouble and not isinstance(given.body, _GOES_ON) and not self._repeats(given):
            text = f"nothing can be written now, what was accepted is kept: {self.trouble}"
            self._refuse(given, self._trouble_code, text)
            return
        why = self._inbox.refuse(given)
        if self.overload and isinstance(given.body, SubmitJobs) and not self._repeats(given):
            why = self.overload
        if why:
            self._refuse(given, RefusalCode.OVERLOADED, f"{why}; come again a little later")
            return
        self._inbox.add(given)

    def give_first(self, given: Input) -> None:
        """Take an input that is decided before all that came before it."""
        self._inbox.add_first(given)

    def _repeats(self, given: Input) -> bool:
        """Return whether this repeats a submit that was decided: if that is not durable yet it may
        still become so, and a refusal would be untrue. It waits, as the first one does.
        """
        body = given.body
        if not isinstance(body, SubmitJobs) or not body.key:
            return False
        return (body.owner.user, body.key) in self.controller.state.keys

    def _refuse(self, given: Input, code: RefusalCode, text: str) -> None:
        if isinstance(given.body, Tick) or not given.ticket:
            return
        results: tuple[Refusal, ...] = ()
        if not isinstance(given.body, ProposePlan):
            results = (Refusal(code, text),)
        self._refused.append(Reply(given.ticket, self.durable_seq, results))

    def turn(self, now_us: Micros) -> None:
        """Decide what came. While the journal is in trouble nothing more is decided."""
        if self.trouble or not self.has_work:
            return
        inputs = self._inbox.take()
        self._open_weight += sum(map(weigh, inputs)) + SLICE * self.controller.has_more
        step = self.controller.step(inputs, now_us)
        batch = self._open
        tickets = {given.ticket for given in inputs if isinstance(given.body, HostJoined)}
        if tickets:
            numbers = self.controller.state.hosts.number
            bodies = (given.body for given in inputs)
            hosts = {numbers.get(seen.host) for seen in bodies if isinstance(seen, HostJoined)}
            batch.effects = [item for item in batch.effects if item[0] not in hosts]
        batch.entries.extend(step.entries)
        for reply in step.replies:
            (batch.joins if reply.ticket in tickets else batch.replies).append(reply)
        batch.effects.extend(step.effects)
        batch.blobs.extend(step.blobs)

    def repeat(self, host: HostNumber) -> None:
        """Have everything that ``host`` is owed told again, behind what is still to be written."""
        effects = owed(self.controller.state, host)
        if effects:
            self._open.effects.append((host, effects))

    def next_batch(self) -> Batch | None:
        """Return the batch to write now, or None while one is being written or there is none.

        A batch without entries needs no writing: give it to `committed` at once.
        """
        if self._flying is not None or self._open.is_empty:
            return None
        self._flying, self._open = self._open, Batch()
        self._open_weight = 0
        return self._flying

    def committed(self, batch: Batch) -> Batch:
        """Note that ``batch`` is durable and return it: now it may be told."""
        assert batch is self._flying, "a batch was committed out of order"
        self._flying = None
        if batch.entries:
            self.durable_seq = batch.entries[-1].seq
        return batch

    def set_trouble(self, text: str) -> None:
        """Note that the journal cannot be written (``text`` says why), or can again (empty)."""
        self.trouble = text
        if text:
            for given in self._inbox.take_all():
                self.give(given)

    def take_refused(self) -> list[Reply]:
        """Return the replies to what was refused for trouble; they need no commit."""
        refused, self._refused = self._refused, []
        return refused
