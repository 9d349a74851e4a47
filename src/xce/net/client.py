"""Staying connected: one dial after the other, whatever it runs over."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, Protocol, TypeAlias

from xce.net.handshake import HANDSHAKE_S, ConnectionRefusedByPeerError, DialError
from xce.net.message import Hello, Welcome
from xce.net.peer import OnLost, OnMessages, Peer
from xce.net.unix import dial_unix

BACK_OFF_FIRST_S: Final = 0.05
BACK_OFF_MAX_S: Final = 2.0
REFUSED_BACK_OFF_MAX_S: Final = 30.0
"""Whoever is refused will most often be refused again."""


class Dialler(Protocol):
    """Something that can be dialled beside a unix socket; `xce.net.tls.TlsDialler` is one."""

    async def dial(
        self, hello: Hello, *, on_messages: OnMessages, on_lost: OnLost, timeout_s: float
    ) -> tuple[Peer, Welcome]:
        """Connect, say ``hello`` and return the peer with the welcome it gave.

        Raises:
            DialError: Nobody answers there.
            ConnectionRefusedByPeerError: The other side refuses.
        """
        ...


Destination: TypeAlias = Path | Dialler
"""The path of a unix socket, or something else that can be dialled."""


async def run_client(
    destination: Destination,
    hello: Hello,
    on_welcome: Callable[[Peer, Welcome], object],
    on_messages: OnMessages,
    on_lost: OnLost,
    *,
    on_refused: Callable[[str], object] | None = None,
    on_failed: Callable[[str], object] | None = None,
    timeout_s: float = HANDSHAKE_S,
) -> None:
    """Stay connected until cancelled; each loss is followed by another dial.

    Args:
        destination: Where to dial.
        hello: What to say, each time.
        on_welcome: Called for each connection before any of its messages.
        on_messages: What comes in.
        on_lost: Called for each connection that was welcomed, with the reason of its end.
        on_refused: Called with the text of each refusal; it may raise to give up.
        on_failed: Called when nobody could be reached and why, once for each other reason.
        timeout_s: For one dial.
    """
    back_off_s = BACK_OFF_FIRST_S
    back_off_max_s = BACK_OFF_MAX_S
    rng = Random()
    last_failure = ""
    while True:
        ended = asyncio.Event()

        def lose(reason: str, ended: asyncio.Event = ended) -> None:
            ended.set()
            on_lost(reason)

        try:
            peer, welcome = await _dial(
                destination, hello, on_messages=on_messages, on_lost=lose, timeout_s=timeout_s
            )
        except ConnectionRefusedByPeerError as error:
            back_off_max_s = REFUSED_BACK_OFF_MAX_S
            if on_refused is not None:
                on_refused(str(error))
        except DialError as error:
            back_off_max_s = BACK_OFF_MAX_S
            if on_failed is not None and str(error) != last_failure:
                last_failure = str(error)
                on_failed(last_failure)
        else:
            back_off_s, back_off_max_s, last_failure = BACK_OFF_FIRST_S, BACK_OFF_MAX_S, ""
            try:
                on_welcome(peer, welcome)
                await ended.wait()
            finally:
                peer.close("the client ends")
        await asyncio.sleep(back_off_s * rng.uniform(0.7, 1.0))
        back_off_s = min(2 * back_off_s, back_off_max_s)


async def _dial(
    destination: Destination,
    hello: Hello,
    *,
    on_messages: OnMessages,
    on_lost: OnLost,
    timeout_s: float,
) -> tuple[Peer, Welcome]:
    if isinstance(destination, Path):
        return await dial_unix(
            destination, hello, on_messages=on_messages, on_lost=on_lost, timeout_s=timeout_s
        )
    return await destination.dial(
        hello, on_messages=on_messages, on_lost=on_lost, timeout_s=timeout_s
    )
