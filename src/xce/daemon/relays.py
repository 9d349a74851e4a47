"""Output of jobs, relayed between apiservers and the workers' own connections (decision X-29)."""

from typing import Final, NamedTuple

from xce.net import message as m
from xce.net.frame import WireError
from xce.net.peer import Peer

READS_MAX: Final = 64
"""So many reads of one asker may be under way."""
PIECE_MAX: Final = 1024 * 1024
"""Longest piece in bytes; who asks for more gets so much."""


class _Read(NamedTuple):
    asker: Peer
    ask_id: int
    worker: Peer
    limit: int


class Relays:
    """Reads under way: who asked, under which number, and which worker answers."""

    def __init__(self) -> None:
        self._reads: dict[int, _Read] = {}
        self._count: dict[Peer, int] = {}
        self._last = 0

    def ask(self, asker: Peer, ask: m.ReadOutput, worker: Peer | None) -> None:
        """Pass a read on to the worker of its host."""
        if worker is None or not worker.is_open:
            asker.send(m.OutputChunk(ask.id, b"", 0, f"host {ask.host} is not connected"))
            return
        if self._count.get(asker, 0) >= READS_MAX:
            asker.send(m.OutputChunk(ask.id, b"", 0, "too many reads at once; try again"))
            return
        self._last += 1
        limit = max(0, min(ask.limit, PIECE_MAX))
        self._reads[self._last] = _Read(asker, ask.id, worker, limit)
        self._count[asker] = self._count.get(asker, 0) + 1
        worker.send(
            m.ReadOutput(
                self._last, ask.host, ask.job, ask.index, ask.attempt, ask.stream, ask.path,
                ask.cwd, ask.user, ask.uid, ask.gid, ask.offset, limit,
            )
        )  # fmt: skip

    def answer(self, worker: Peer, chunk: m.OutputChunk) -> None:
        """Pass a piece back to who asked for it.

        Raises:
            WireError: The worker was not asked for that.
        """
        read = self._reads.get(chunk.id)
        if read is None:
            return  # whoever asked is gone
        if read.worker is not worker:
            raise WireError("a worker answers only what it was asked")
        if len(chunk.content) > read.limit:
            raise WireError(f"{len(chunk.content)} bytes came where {read.limit} were asked for")
        self._forget(chunk.id, read)
        read.asker.send(m.OutputChunk(read.ask_id, chunk.content, chunk.size, chunk.error))

    def drop(self, gone: Peer) -> None:
        """Note that a connection has ended."""
        for number, read in list(self._reads.items()):
            if gone is read.worker:
                text = "the host's worker is gone"
                read.asker.send(m.OutputChunk(read.ask_id, b"", 0, text))
            if gone in (read.asker, read.worker):
                self._forget(number, read)

    def _forget(self, number: int, read: _Read) -> None:
        del self._reads[number]
        self._count[read.asker] -= 1
        if not self._count[read.asker]:
            del self._count[read.asker]
