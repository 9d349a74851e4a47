"""Staying connected to whichever of several controllers leads.

Those that stand by do not listen. One that was cut off may not know yet that it was deposed: it has
a lower epoch than the one who leads now, and is left when that one answers.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from xce.model.ids import Epoch
from xce.net.destination import Destination, dial_destination
from xce.net.handshake import HANDSHAKE_S, ConnectionRefusedByPeerError, DialError
from xce.net.message import ControllerKeys, Hello, Message, Ping, Pong, Welcome
from xce.net.peer import OnLost, OnMessages, Peer

BACK_OFF_FIRST_S: Final = 0.05
BACK_OFF_MAX_S: Final = 2.0
REFUSED_BACK_OFF_MAX_S: Final = 30.0
"""Whoever is refused will most often be refused again."""
DIAL_S: Final = 2.0
"""So long one of several controllers has to answer."""
BEAT_S: Final = 2.0
SILENT_BEATS: Final = 4
"""After so many beats without a word, one of several controllers is given up."""
FAILED_DIALS_MAX_S: Final = 0.5
"""Longest pause between rounds when there are several: a failover shall be found soon."""


def tell_changes(log: logging.Logger, event: str) -> Callable[[str], None]:
    """Return what logs a text as a warning, unless it is the one that it has logged last."""
    last = ""

    def tell(why: str) -> None:
        nonlocal last
        if why != last:
            last = why
            log.warning(event, extra={"why": why})

    return tell


class LeaderClient:
    """Dials controllers in turn, again and again.

    Args:
        destinations: Where they listen.
        hello: What to say.
        on_welcome: Called for each connection before any of its messages.
        on_messages: What comes in.
        on_lost: Called for each connection that was welcomed, with the reason of its end.
        on_refused: Called with the text of each refusal; it may raise to give up.
        on_failed: Called when none could be reached and why, once for each other reason.
        on_controllers: Called with the certificates that controllers have now, which then come no
            more with the messages.
    """

    def __init__(
        self,
        destinations: Sequence[Destination],
        hello: Hello,
        on_welcome: Callable[[Peer, Welcome], object],
        on_messages: OnMessages,
        on_lost: OnLost,
        *,
        on_refused: Callable[[str], object] | None = None,
        on_failed: Callable[[str], object] | None = None,
        on_controllers: Callable[[tuple[bytes, ...]], object] | None = None,
    ) -> None:
        assert destinations, "a controller must be named"
        self.destination: Destination | None = None
        """Where it is connected; None: nowhere."""
        self._destinations = tuple(destinations)
        self._hello = hello
        self._on_welcome = on_welcome
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._on_failed = on_failed
        self._on_controllers = on_controllers
        self._failures: list[str] = []
        """Why each that was dialled in this round could not be reached."""
        self._last_failure = ""
        self._was_refused = False
        self._rng = Random()
        self._epoch: Epoch = 0
        """The highest that any of them has named."""
        self._silent_beats = 0

    @property
    def is_choosing(self) -> bool:
        """Whether there are several to choose from."""
        return len(self._destinations) > 1

    async def run(self) -> None:
        """Stay connected until cancelled; each loss is followed by other dials."""
        back_off_s = BACK_OFF_FIRST_S
        while True:
            self._was_refused = False
            self._failures.clear()
            for destination in self._destinations:
                if await self._try(destination):
                    back_off_s = BACK_OFF_FIRST_S
            self._tell_failures()
            await asyncio.sleep(back_off_s * self._rng.uniform(0.7, 1.0))
            back_off_s = min(2 * back_off_s, self._longest_s())

    def _longest_s(self) -> float:
        """Return the longest pause between two rounds as things are."""
        if self.is_choosing:
            return BACK_OFF_MAX_S if self._was_refused else FAILED_DIALS_MAX_S
        return REFUSED_BACK_OFF_MAX_S if self._was_refused else BACK_OFF_MAX_S

    async def _try(self, destination: Destination) -> bool:
        """Dial one controller and stay with it; return whether it was the one."""
        ended = asyncio.Event()
        was_left = False

        def lose(reason: str) -> None:
            ended.set()
            if not was_left:
                self.destination = None
                self._on_lost(reason)

        try:
            peer, welcome = await dial_destination(
                destination,
                self._hello,
                on_messages=self._take,
                on_lost=lose,
                timeout_s=DIAL_S if self.is_choosing else HANDSHAKE_S,
            )
        except ConnectionRefusedByPeerError as error:
            self._was_refused = True
            if self._on_refused is not None:
                self._on_refused(str(error))
            return False
        except DialError as error:
            self._failures.append(str(error))
            return False
        self._last_failure = ""
        if self.is_choosing and welcome.epoch < self._epoch:
            was_left = True
            peer.abort(f"epoch {welcome.epoch} is over, epoch {self._epoch} leads")
            return False
        self._epoch = welcome.epoch
        self.destination = destination
        try:
            self._on_welcome(peer, welcome)
            await self._stay(peer, ended)
        finally:
            peer.close("the client ends")
        return True

    def _tell_failures(self) -> None:
        """Tell why none could be reached; that some of several do not listen is well."""
        if self._on_failed is None or len(self._failures) < len(self._destinations):
            return
        why = "; ".join(self._failures)
        if self._last_failure != why:
            self._last_failure = why
            self._on_failed(why)

    async def _stay(self, peer: Peer, ended: asyncio.Event) -> None:
        """Return when the connection has ended; end it when nothing is heard any more."""
        self._silent_beats = 0
        while not ended.is_set():
            if not self.is_choosing:
                await ended.wait()
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await ended.wait()
                    return
            # Beats are counted, not seconds: while we were busy ourselves we heard nothing either.
            self._silent_beats += 1
            if self._silent_beats > SILENT_BEATS:
                peer.abort(f"nothing was heard for {SILENT_BEATS * BEAT_S:g} s")
            elif peer.is_open:
                peer.send(Ping(-1 - time.monotonic_ns()))

    def _take(self, messages: list[Message]) -> None:
        self._silent_beats = 0
        if self.is_choosing:
            # Answers to our own beats have numbers below zero, and are nobody else's business.
            messages = [one for one in messages if not (isinstance(one, Pong) and one.number < 0)]
        if self._on_controllers is not None:
            for one in messages:
                if isinstance(one, ControllerKeys):
                    self._on_controllers(one.controllers)
            messages = [one for one in messages if not isinstance(one, ControllerKeys)]
        if messages:
            self._on_messages(messages)
