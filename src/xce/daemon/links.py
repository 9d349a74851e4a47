"""One end of each connection to the controller: what a worker is owed, what a follower gets."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from xce.journal.interface import JournalReader, JournalTroubleError, StoredBatch
from xce.journal.snapshot import Snapshot
from xce.journal.whole import read_whole, whole_first_seq
from xce.model.ids import Epoch, Seq
from xce.net import message as m
from xce.net.follow import FollowerFeed, Source
from xce.net.peer import Peer

RETRY_S: Final = 0.5
"""So long after not all could be sent it is tried again."""


class WorkerLink:
    """A connected worker."""

    def __init__(self, peer: Peer, host: str) -> None:
        self.peer = peer
        self.host = host
        self.is_joined = False
        """Whether its join is durable; before that nothing is told to it."""
        self.is_silent = False
        """Whether it was cut since nothing was heard of it for too long."""
        self._owed_before: frozenset[tuple[int, ...]] = frozenset()

    def is_stale(self, now: frozenset[tuple[int, ...]]) -> bool:
        """Return whether something that was owed at the last call is still owed."""
        stale = bool(now & self._owed_before)
        self._owed_before = now
        return stale


class WholeSource:
    """A journal with its archive, for a follower that must see every entry there ever was."""

    def __init__(self, journal: JournalReader) -> None:
        self._journal = journal

    def first_seq(self) -> Seq:
        """Return the first entry that is kept anywhere."""
        return whole_first_seq(self._journal)

    def stored_seq(self) -> Seq:
        """Return the last stored entry."""
        return self._journal.stored_seq()

    def load_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot, unless every entry is kept."""
        return self._journal.load_snapshot() if self.first_seq() > 1 else None

    def read(self, from_seq: Seq) -> Iterator[StoredBatch]:
        """Yield all batches from the one that holds an entry on."""
        return read_whole(self._journal, from_seq)


class FollowerLink:
    """A follower's stream: batches as they become durable, stored ones while it is behind.

    A follower that is in no hurry gets what came within ``delay_s`` in one write: on a busy
    cluster it is then woken some hundred times a second less often.
    """

    def __init__(
        self,
        peer: Peer,
        source: Source,
        follow: m.Follow,
        *,
        epoch: Epoch,
        on_damage: Callable[[Exception], object],
        delay_s: float = 0.0,
    ) -> None:
        self._peer = peer
        self._on_damage = on_damage
        self._feed = FollowerFeed(source, follow, epoch=epoch)
        self._delay_s = delay_s
        self._late: list[bytes] = []
        self._late_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._listen()

    @property
    def peer(self) -> Peer:
        """The connection."""
        return self._peer

    def send_stored(self) -> None:
        """Send what is stored and not yet sent, as far as there is room."""
        if self._feed.is_live or not self._peer.is_open:
            return
        self.flush()
        try:
            messages = self._feed.next_messages(self._peer.buffered_bytes)
        except JournalTroubleError:
            messages = []
        except Exception as error:
            self._on_damage(error)
            raise
        self._listen()
        for message in messages:
            self._peer.send(message)
        if not self._feed.is_live and self._retry is None:
            # The journal may be away for now; else the peer calls when it has read.
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._send_again)

    def _listen(self) -> None:
        """Hear that the peer has read, while there is more for it: each write costs a timer."""
        self._peer.on_writable = None if self._feed.is_live else self.send_stored

    def _send_again(self) -> None:
        self._retry = None
        self.send_stored()

    def note_batch(self, first: Seq, last: Seq, frame: bytes) -> None:
        """Send a batch that just became durable, or what is stored when it is behind."""
        unsent = self._peer.buffered_bytes + self._late_bytes
        if not self._feed.takes_live(first, last, unsent):
            self.send_stored()
        elif self._delay_s == 0:
            self._peer.send_raw(frame)
        else:
            self._late.append(frame)
            self._late_bytes += len(frame)
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(self._delay_s, self.flush)

    def flush(self) -> None:
        """Send now what was held back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._late:
            late, self._late, self._late_bytes = self._late, [], 0
            self._peer.send_raw(b"".join(late))
