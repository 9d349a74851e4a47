"""What was denied, on its way into the journal: gathered and bounded, so that no flood fills it."""

import asyncio
import time
from collections.abc import Callable
from logging import Logger
from typing import Final

from xce.apiserver.identity import Caller
from xce.apiserver.link import Link
from xce.apiserver.problems import ProblemError
from xce.model.command import NoteDenials
from xce.model.ids import SECOND_US
from xce.model.permission import Denial

GATHER_S: Final = 1.0
"""So long denials are gathered before they are sent."""
PERIOD_S: Final = 60.0
USER_MAX: Final = 20
"""Most rows about one user in a period; more are told as one row that counts them."""
ALL_MAX: Final = 200
"""Most rows about all users in a period."""
TEXT_MAX: Final = 200

_Row = tuple[str, str, str, str]


class Denials:
    """Denials that are not in the journal yet.

    Args:
        link: The controller.
        log: Where it is told that it could not be.
        now: Seconds since the epoch.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        link: Link,
        log: Logger,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._log = log
        self._now = now
        self._clock = clock
        self._waiting: dict[_Row, list[int]] = {}
        """How often, and when first."""
        self._rest: dict[_Row, list[int]] = {}
        """The same of those that there was no room for, without what and from where."""
        self._spent: dict[str, int] = {}
        self._all = 0
        self._since = clock()
        self._sending: asyncio.Task[None] | None = None

    def note(self, caller: Caller, permission: str, about: str) -> None:
        """Note that somebody was denied something."""
        self.note_name(caller.user, permission, about, origin=caller.origin)

    def note_name(self, user: str, permission: str, about: str, *, origin: str) -> None:
        """Note that somebody, perhaps unidentified, was denied something."""
        row = (user[:TEXT_MAX], permission[:TEXT_MAX], about[:TEXT_MAX], origin[:TEXT_MAX])
        found = self._waiting
        if row not in found and not self._has_room(row[0]):
            found = self._rest
            row = (row[0] if len(found) < ALL_MAX else "", row[1], "", "")
        told = found.setdefault(row, [0, int(self._now() * SECOND_US)])
        told[0] += 1
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def _turn(self) -> None:
        """Begin a new period when the last one is over: what was left over is told now."""
        now = self._clock()
        if now - self._since >= PERIOD_S:
            self._since, self._all = now, 0
            self._spent.clear()
            for row, (count, first_us) in self._rest.items():
                self._waiting[row] = [count, first_us]
            self._rest.clear()

    def _has_room(self, user: str) -> bool:
        self._turn()
        spent = self._spent.get(user, 0)
        if spent >= USER_MAX or self._all >= ALL_MAX:
            return False
        if len(self._spent) < ALL_MAX:
            self._spent[user] = spent + 1
        self._all += 1
        return True

    async def _send(self) -> None:
        """Send what is gathered; what comes meanwhile is sent behind it, if need be much later."""
        while self._waiting or self._rest:
            await asyncio.sleep(GATHER_S)
            self._turn()
            waiting, self._waiting = self._waiting, {}
            if not waiting:
                continue
            rows = tuple(
                Denial(user, permission, about, origin, count, first_us)
                for (user, permission, about, origin), (count, first_us) in waiting.items()
            )
            try:
                await self._link.ask(NoteDenials(rows), by="apiserver", basis="apiserver")
            except ProblemError as error:
                self._log.warning(
                    "denials-not-kept", extra={"rows": len(rows), "why": error.problem.detail}
                )

    async def close(self) -> None:
        """Stop; what was not sent is in the log only."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
