"""Parts that this host leads: what is asked of other hosts, and that they are as they shall be."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from xce.model.ids import Micros
from xce.model.task import FileOrder, HoldPart, PartSeen, TaskFault, TaskOrder
from xce.net import message as m
from xce.worker.action import Action, Key, Led
from xce.worker.core import HostState

_RETRY_FIRST_S: Final = 0.2
_RETRY_MAX_S: Final = 5.0
_LEAD_S: Final = 20.0
CarryOut: TypeAlias = Callable[[Iterable[Action], Micros], object]


class Remote:
    """Asks other hosts, and holds the parts there.

    Args:
        state: The attempts of this host.
        carry_out: Does what the state wants done.
        say: Sends a message to the controller; False: there is none now.
        clock_us: The monotonic clock.
    """

    def __init__(
        self, state: HostState, carry_out: CarryOut, say: Callable[[m.Message], bool],
        clock_us: Callable[[], Micros],
    ) -> None:  # fmt: skip
        self._state = state
        self._carry_out = carry_out
        self._say = say
        self._clock_us = clock_us
        self._last = 0
        self._asked: dict[int, asyncio.Future[m.TaskPiece]] = {}
        self._leading: dict[tuple[Key, str], asyncio.Future[None]] = {}
        self._holds: dict[tuple[Key, str], tuple[HoldPart, asyncio.Task[None]]] = {}

    async def ask(self, key: Key, host: str, order: TaskOrder | FileOrder) -> m.TaskPiece:
        """Have something done on another host, once; return what came of it.

        Args:
            key: The attempt.
            host: Which of its hosts; empty: the one where the job was submitted.
            order: What.
        """
        self._last += 1
        number = self._last
        future: asyncio.Future[m.TaskPiece] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        try:
            if not self._say(m.TaskAsk(number, host, *key, order)):
                return m.TaskPiece(0, TaskFault.AWAY, "the controller cannot be reached")
            return await future
        finally:
            self._asked.pop(number, None)

    async def ask_until(
        self, key: Key, host: str, order: TaskOrder, *, patience_s: float = 0.0
    ) -> m.TaskPiece:
        """Have something done, again and again while the host is away; 0: without end."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_s
        pause_s = _RETRY_FIRST_S
        while True:
            try:
                async with asyncio.timeout_at(until if patience_s else None):
                    piece = await self.ask(key, host, order)
            except TimeoutError:
                return m.TaskPiece(0, TaskFault.AWAY, f"host {host} does not answer")
            if piece.fault is not TaskFault.AWAY or (patience_s and loop.time() >= until):
                return piece
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_MAX_S)

    async def lead(self, key: Key, host: str) -> str:
        """Have it written down that a host may have a part; return why it can have none."""
        lead = self._state.parts.lead(key, host)
        place = (key, host)
        if isinstance(lead, str):
            return lead
        if lead is not None:
            self._leading[place] = asyncio.get_running_loop().create_future()
            self._carry_out([lead], self._clock_us())
        waiting = self._leading.get(place)
        if waiting is not None:
            try:
                async with asyncio.timeout(_LEAD_S):
                    await asyncio.shield(waiting)
            except TimeoutError:
                return "this host's shepherd does not answer"
        self.look()
        return ""

    def take(self, piece: m.TaskPiece) -> None:
        """Take an answer."""
        future = self._asked.pop(piece.id, None)
        if future is not None and not future.done():
            future.set_result(piece)

    def take_led(self, event: Led) -> None:
        """Note that something is written down."""
        future = self._leading.pop(((event.job, event.index, event.attempt), event.host), None)
        if future is not None and not future.done():
            future.set_result(None)

    def leave_controller(self) -> None:
        """Note that nothing that was asked will be answered."""
        for future in self._asked.values():
            if not future.done():
                future.set_result(m.TaskPiece(0, TaskFault.AWAY, "the controller went"))
        self._asked.clear()

    def look(self) -> None:
        """Tell hosts how their parts shall be, where that has changed."""
        wanted = self._state.parts.wanted()
        if not wanted and not self._holds:
            return
        places = set()
        for key, host, hold in wanted:
            place = (key, host)
            places.add(place)
            known = self._holds.get(place)
            if hold.step:
                # It ends: what was not written down by now never begins there, and whoever waits
                # for that is told so when his patience ends.
                self._leading.pop(place, None)
            if place in self._leading or (known is not None and known[0] == hold):
                continue
            if known is not None:
                known[1].cancel()
            task = asyncio.get_running_loop().create_task(self._hold(key, host, hold))
            self._holds[place] = (hold, task)
        for place in self._holds.keys() - places:
            self._holds.pop(place)[1].cancel()

    async def _hold(self, key: Key, host: str, hold: HoldPart) -> None:
        """Hold a part until it is gone, or shall be otherwise."""
        while True:
            piece = await self.ask_until(key, host, hold)
            seen = piece.part
            if piece.fault:
                # Whoever gave it up has it ended.
                seen = PartSeen(is_gone=True)
            if seen is not None:
                actions = self._state.parts.take_word(key, host, seen, self._clock_us())
                if seen.is_gone:
                    self._holds.pop((key, host), None)
                self._carry_out(actions, self._clock_us())
                if seen.is_gone:
                    return

    async def close(self) -> None:
        """End: the parts go on as they are."""
        for _, task in self._holds.values():
            task.cancel()
