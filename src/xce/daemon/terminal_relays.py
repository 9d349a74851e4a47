"""Terminals of interactive jobs, relayed between apiservers and the workers' own connections."""

from typing import Final

from msgspec.structs import replace

from xce.net import message as m
from xce.net.frame import WireError
from xce.net.peer import Peer
from xce.net.relay_table import RelayTable

ASKS_MAX: Final = 4_096
"""So much of one asker may be under way: two for each terminal."""
SINCE: Final = 2
"""The protocol that has terminals."""
PIECE_MAX: Final = 64 * 1024
TYPED_MAX: Final = 64 * 1024


class TerminalRelays:
    """What is asked of terminals and not answered yet."""

    def __init__(self) -> None:
        self._asks: RelayTable[m.TerminalAsk] = RelayTable(ASKS_MAX)

    def ask(self, asker: Peer, ask: m.TerminalAsk, worker: Peer | None) -> None:
        """Pass an ask on to the worker of its host."""
        if worker is None or not worker.is_open:
            asker.send(_failure(ask, f"host {ask.host} is not connected"))
            return
        if worker.protocol < SINCE:
            asker.send(_failure(ask, f"host {ask.host} is of a release without terminals"))
            return
        if self._asks.is_full(asker) or len(ask.typed) > TYPED_MAX:
            asker.send(_failure(ask, "too much at once; try again"))
            return
        limit = max(0, min(ask.limit, PIECE_MAX))
        worker.send(replace(ask, id=self._asks.add(asker, worker, ask), limit=limit))

    def answer(self, worker: Peer, piece: m.TerminalPiece) -> None:
        """Pass a piece back to who asked for it.

        Raises:
            WireError: The worker was not asked for that.
        """
        found = self._asks.find(worker, piece.id)
        if found is None:
            return
        if len(piece.content) > PIECE_MAX:
            raise WireError(f"{len(piece.content)} bytes came where {PIECE_MAX} are allowed")
        self._asks.end(piece.id)
        found.asker.send(replace(piece, id=found.asked.id))

    def drop(self, gone: Peer) -> None:
        """Note that a connection has ended."""
        for found in self._asks.drop(gone):
            found.asker.send(_failure(found.asked, "the host's worker is gone; try again"))


def _failure(ask: m.TerminalAsk, why: str) -> m.TerminalPiece:
    return m.TerminalPiece(ask.id, ask.offset, b"", error=why)
