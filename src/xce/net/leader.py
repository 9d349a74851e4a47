"""Staying connected to whichever of several controllers leads.

Those that stand by do not listen. One that was cut off may not know yet that it was deposed: it has
a lower epoch than the one who leads now, and is left when that one answers.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from xce.model.ids import Epoch
from xce.net.message import Hello, Message, Ping, Pong, Welcome
from xce.net.peer import OnLost, OnMessages, Peer
from xce.net.unix import (
    HANDSHAKE_S,
    ConnectionRefusedByPeerError,
    DialError,
    dial_unix,
)

BACK_OFF_FIRST_S: Final = 0.05
BACK_OFF_MAX_S: Final = 2.0
DIAL_S: Final = 2.0
"""So long one of several controllers has to answer."""
BEAT_S: Final = 2.0
SILENT_BEATS: Final = 4
"""After so many beats without a word, one of several controllers is given up."""
FAILED_DIALS_MAX_S: Final = 0.5
"""Longest pause between rounds when there are several: a failover shall be found soon."""


class LeaderClient:
    """Dials controllers in turn, again and again.

    Args:
        addresses: Where they listen; paths of unix sockets.
        hello: What to say.
        on_welcome: Called for each connection before any of its messages.
        on_messages: What comes in.
        on_lost: Called for each connection that was welcomed, with the reason of its end.
        on_refused: Called with the text of each refusal; it may raise to give up.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        hello: Hello,
        on_welcome: Callable[[Peer, Welcome], object],
        on_messages: OnMessages,
        on_lost: OnLost,
        *,
        on_refused: Callable[[str], object] | None = None,
    ) -> None:
        assert addresses, "a controller must be named"
        self.address = ""
        """Where it is connected; empty: nowhere."""
        self._addresses = tuple(addresses)
        self._hello = hello
        self._on_welcome = on_welcome
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._epoch: Epoch = 0
        """The highest that any of them has named."""
        self._silent_beats = 0

    @property
    def is_choosing(self) -> bool:
        """Whether there are several to choose from."""
        return len(self._addresses) > 1

    async def run(self) -> None:
        """Stay connected until cancelled; each loss is followed by other dials."""
        back_off_s = BACK_OFF_FIRST_S
        longest_s = FAILED_DIALS_MAX_S if self.is_choosing else BACK_OFF_MAX_S
        while True:
            for address in self._addresses:
                if await self._try(address):
                    back_off_s = BACK_OFF_FIRST_S
            await asyncio.sleep(back_off_s)
            back_off_s = min(2 * back_off_s, longest_s)

    async def _try(self, address: str) -> bool:
        """Dial one controller and stay with it; return whether it was the one."""
        ended = asyncio.Event()
        was_left = False

        def lose(reason: str) -> None:
            ended.set()
            if not was_left:
                self.address = ""
                self._on_lost(reason)

        try:
            peer, welcome = await dial_unix(
                Path(address),
                self._hello,
                on_messages=self._take,
                on_lost=lose,
                timeout_s=DIAL_S if self.is_choosing else HANDSHAKE_S,
            )
        except ConnectionRefusedByPeerError as error:
            if self._on_refused is not None:
                self._on_refused(str(error))
            return False
        except DialError:
            return False
        if self.is_choosing and welcome.epoch < self._epoch:
            was_left = True
            peer.abort(f"epoch {welcome.epoch} is over, epoch {self._epoch} leads")
            return False
        self._epoch = welcome.epoch
        self.address = address
        try:
            self._on_welcome(peer, welcome)
            await self._stay(peer, ended)
        finally:
            peer.close("the client ends")
        return True

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
            if not messages:
                return
        self._on_messages(messages)
