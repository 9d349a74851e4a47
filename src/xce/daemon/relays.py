"""Output of jobs, relayed between apiservers and the workers' own connections (decision X-29)."""

from typing import Final

from msgspec.structs import replace

from xce.net import message as m
from xce.net.frame import WireError
from xce.net.peer import Peer
from xce.net.relay_table import RelayTable

READS_MAX: Final = 64
"""So many reads of one asker may be under way."""
PIECE_MAX: Final = 1024 * 1024
"""Longest piece in bytes; who asks for more gets so much."""


class Relays:
    """Reads under way."""

    def __init__(self) -> None:
        self._reads: RelayTable[m.ReadOutput] = RelayTable(READS_MAX)

    def ask(self, asker: Peer, ask: m.ReadOutput, worker: Peer | None) -> None:
        """Pass a read on to the worker of its host."""
        if worker is None or not worker.is_open:
            asker.send(m.OutputChunk(ask.id, b"", 0, f"host {ask.host} is not connected"))
            return
        if self._reads.is_full(asker):
            asker.send(m.OutputChunk(ask.id, b"", 0, "too many reads at once; try again"))
            return
        bounded = replace(ask, limit=max(0, min(ask.limit, PIECE_MAX)))
        worker.send(replace(bounded, id=self._reads.add(asker, worker, bounded)))

    def answer(self, worker: Peer, chunk: m.OutputChunk) -> None:
        """Pass a piece back to who asked for it.

        Raises:
            WireError: The worker was not asked for that.
        """
        read = self._reads.find(worker, chunk.id)
        if read is None:
            return
        if len(chunk.content) > read.asked.limit:
            limit = read.asked.limit
            raise WireError(f"{len(chunk.content)} bytes came where {limit} were asked for")
        self._reads.end(chunk.id)
        read.asker.send(replace(chunk, id=read.asked.id))

    def drop(self, gone: Peer) -> None:
        """Note that a connection has ended."""
        for read in self._reads.drop(gone):
            read.asker.send(m.OutputChunk(read.asked.id, b"", 0, "the host's worker is gone"))
