"""What can be dialled: a unix socket, or something that brings its own way to connect."""

from pathlib import Path
from typing import Protocol, TypeAlias

from xce.net.message import Hello, Welcome
from xce.net.peer import OnLost, OnMessages, Peer
from xce.net.unix import dial_unix


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


async def dial_destination(
    destination: Destination,
    hello: Hello,
    *,
    on_messages: OnMessages,
    on_lost: OnLost,
    timeout_s: float,
) -> tuple[Peer, Welcome]:
    """Connect, say ``hello`` and return the peer with the welcome it gave.

    Raises:
        DialError: Nobody answers there.
        ConnectionRefusedByPeerError: The other side refuses.
    """
    if isinstance(destination, Path):
        return await dial_unix(
            destination, hello, on_messages=on_messages, on_lost=on_lost, timeout_s=timeout_s
        )
    return await destination.dial(
        hello, on_messages=on_messages, on_lost=on_lost, timeout_s=timeout_s
    )
