"""Terminals of interactive jobs, relayed between apiservers and the workers' own connections."""

from typing import Final, NamedTuple

from msgspec.structs import replace

from xce.net import message as m
from xce.net.frame import WireError
from xce.net.peer import Peer

ASKS_MAX: Final = 4_096
"""So much of one asker may be under way: two for each terminal."""
SINCE: Final = 2
"""The protocol that has terminals."""
PIECE_MAX: Final = 64 * 1024
TYPED_MAX: Final = 64 * 1024


class _Ask(NamedTuple):
    asker: Peer
    ask: m.TerminalAsk
    worker: Peer


class TerminalRelays:
    """What is under way: who asked, under which number, and which worker answers."""

    def __init__(self) -> None:
        self._asks: dict[int, _Ask] = {}
        self._count: dict[Peer, int] = {}
        self._last = 0

    def ask(self, asker: Peer, ask: m.TerminalAsk, worker: Peer | None) -> None:
        """Pass an ask on to the worker of its host."""
        if worker is None or not worker.is_open:
            asker.send(_failure(ask, f"host {ask.host} is not connected"))
            return
        if worker.protocol < SINCE:
            asker.send(_failure(ask, f"host {ask.host} is of a release without terminals"))
            return
        if self._count.get(asker, 0) >= ASKS_MAX or len(ask.typed) > TYPED_MAX:
            asker.send(_failure(ask, "too much at once; try again"))
            return
        self._last += 1
        passed = replace(ask, id=self._last, limit=max(0, min(ask.limit, PIECE_MAX)))
        self._asks[self._last] = _Ask(asker, ask, worker)
        self._count[asker] = self._count.get(asker, 0) + 1
        worker.send(passed)

    def answer(self, worker: Peer, piece: m.TerminalPiece) -> None:
        """Pass a piece back to who asked for it.

        Raises:
            WireError: The worker was not asked for that.
        """
        found = self._asks.get(piece.id)
        if found is None:
            return  # whoever asked is gone
        if found.worker is not worker:
            raise WireError("a worker answers only what it was asked")
        if len(piece.content) > PIECE_MAX:
            raise WireError(f"{len(piece.content)} bytes came where {PIECE_MAX} are allowed")
        self._forget(piece.id, found)
        found.asker.send(replace(piece, id=found.ask.id))

    def drop(self, gone: Peer) -> None:
        """Note that a connection has ended."""
        for number, found in list(self._asks.items()):
            if gone is found.worker:
                found.asker.send(_failure(found.ask, "the host's worker is gone; try again"))
            if gone in (found.asker, found.worker):
                self._forget(number, found)

    def _forget(self, number: int, found: _Ask) -> None:
        del self._asks[number]
        self._count[found.asker] -= 1
        if not self._count[found.asker]:
            del self._count[found.asker]


def _failure(ask: m.TerminalAsk, why: str) -> m.TerminalPiece:
    return m.TerminalPiece(ask.id, ask.offset, b"", error=why)
