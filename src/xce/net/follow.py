"""Following the journal: the two ends of the stream of entries, without a socket.

The server's end is a cursor over what is stored: it keeps nothing of its own, so a follower that is
slow costs nothing and reads stored batches when it can take them. What is durable just now goes out
at once to those who have everything before it.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from xce.model.entry import Entry
from xce.model.errors import CorruptJournalError
from xce.model.ids import Epoch, Seq
from xce.net.message import Batch, CaughtUp, Follow, SnapshotPart

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""So many unsent bytes a follower may have; it gets more when it has read some."""
RESTARTS_MAX: Final = 3
"""After so many beginnings without one good entry between them, following is given up."""


class Decode(Protocol):
    """`xce.journal.codec.decode_batch`; handed in, because the wire does not know the disk."""

    def __call__(
        self, content: bytes, *, previous_crc: int | None, expected_seq: Seq | None
    ) -> tuple[list[Entry], int]:
        """Return the entries and the crc of the last, or raise `CorruptJournalError`."""
        ...


class Began(msgspec.Struct, frozen=True):
    """Throw the state away: it is now what these parts say; no parts: the empty state."""

    seq: Seq
    parts: tuple[bytes, ...] = ()


class Came(msgspec.Struct, frozen=True):
    """These entries follow."""

    entries: list[Entry]


class IsLive(msgspec.Struct, frozen=True):
    """The state has everything that was durable a moment ago."""

    seq: Seq


class AskAgain(msgspec.Struct, frozen=True):
    """The stream has a gap: send ``follow``, and the server begins again."""

    follow: Follow
    why: str


Step: TypeAlias = Began | Came | IsLive | AskAgain


class Follower:
    """The client's end: checks order and checksums, and says what to do.

    Args:
        decode: Reads a batch.
        seq: The last entry the state has; 0: none.
        crc: That entry's crc; None: not known.
        epoch: The reign under which it came.
    """

    def __init__(
        self, decode: Decode, *, seq: Seq = 0, crc: int | None = None, epoch: Epoch = 0
    ) -> None:
        self.seq = seq
        self.crc = 0 if seq == 0 else crc
        self.epoch = epoch
        self.is_live = False
        """Whether everything durable was here when the stream last said so."""
        self._decode = decode
        self._stream_epoch = epoch
        self._parts: list[bytes] = []
        self._waits_for_begin = False
        self._restarts = 0

    def follow(self, epoch: Epoch) -> Follow:
        """Return what to send on a new connection, whose welcome named ``epoch``.

        It names the epoch of what is here, and the crc of the last entry: a server with a lower
        one, or another, has another history.
        """
        self._stream_epoch = epoch
        self.is_live = False
        self._parts = []
        self._waits_for_begin = False
        crc = self.crc if self.seq and self.crc is not None else -1
        return Follow(self.epoch, self.seq, crc)

    def take(self, message: SnapshotPart | Batch | CaughtUp) -> Sequence[Step]:
        """Return what follows from a message, in order.

        Raises:
            CorruptJournalError: The stream stays damaged however often it begins again.
        """
        match message:
            case Batch():
                return self._take_batch(message)
            case SnapshotPart():
                return self._take_part(message)
            case CaughtUp():
                return self._take_caught_up(message)

    def _take_batch(self, batch: Batch) -> Sequence[Step]:
        steps: tuple[Step, ...] = ()
        if batch.first == 1 and (self.seq or self._waits_for_begin):
            self._begin(0, 0)
            steps = (Began(0),)
        elif self._waits_for_begin or batch.last <= self.seq:
            return ()
        elif batch.first > self.seq + 1:
            return self._ask_again(f"entry {batch.first} came where {self.seq + 1} belongs")
        is_whole = batch.first == self.seq + 1
        try:
            entries, crc = self._decode(
                batch.content,
                previous_crc=self.crc if is_whole else None,
                expected_seq=batch.first,
            )
        except CorruptJournalError as error:
            return (*steps, *self._ask_again(str(error)))
        if entries[-1].seq != batch.last:
            why = f"a batch up to {batch.last} ends with {entries[-1].seq}"
            return (*steps, *self._ask_again(why))
        if not is_whole:
            entries = entries[self.seq + 1 - batch.first :]
        self.seq = batch.last
        self.crc = crc
        self.epoch = self._stream_epoch
        self._restarts = 0
        return (*steps, Came(entries))

    def _take_part(self, part: SnapshotPart) -> Sequence[Step]:
        if part.number == 0:
            self._parts = []
        elif self._waits_for_begin and not self._parts:
            return ()
        if part.number != len(self._parts):
            return self._ask_again(f"part {part.number} came where {len(self._parts)} belongs")
        self._parts.append(part.content)
        if len(self._parts) < part.count:
            return ()
        parts = tuple(self._parts)
        self._begin(part.seq, part.crc)
        return (Began(part.seq, parts),)

    def _take_caught_up(self, message: CaughtUp) -> Sequence[Step]:
        steps: tuple[Step, ...] = ()
        if message.seq == 0 and (self.seq or self._waits_for_begin):
            # The journal is empty: there was nothing to begin with.
            self._begin(0, 0)
            steps = (Began(0),)
        elif self._waits_for_begin:
            return ()
        elif message.seq != self.seq:
            return self._ask_again(f"told to be at {message.seq}, is at {self.seq}")
        self.is_live = True
        return (*steps, IsLive(message.seq))

    def _begin(self, seq: Seq, crc: int | None) -> None:
        self.seq = seq
        self.crc = crc
        self.epoch = self._stream_epoch
        self._parts = []
        self._waits_for_begin = False
        self.is_live = False

    def _ask_again(self, why: str) -> tuple[AskAgain]:
        self._restarts += 1
        if self._restarts > RESTARTS_MAX:
            raise CorruptJournalError(f"following the journal fails again and again: {why}")
        self._parts = []
        self._waits_for_begin = True
        self.is_live = False
        return (AskAgain(Follow(self._stream_epoch, 0), why),)


class StoredSnapshot(Protocol):
    """`xce.journal.snapshot.Snapshot`."""

    @property
    def seq(self) -> Seq:
        """The entry behind which it was taken."""
        ...

    @property
    def crc(self) -> int:
        """That entry's crc."""
        ...

    @property
    def count(self) -> int:
        """Number of parts."""
        ...

    def part(self, number: int) -> bytes:
        """Return a part."""
        ...


class StoredBatch(Protocol):
    """`xce.journal.interface.StoredBatch`."""

    @property
    def first(self) -> Seq:
        """The first entry."""
        ...

    @property
    def last(self) -> Seq:
        """The last entry."""
        ...

    @property
    def content(self) -> bytes:
        """The entries."""
        ...

    @property
    def epoch(self) -> Epoch:
        """The reign that wrote it."""
        ...

    @property
    def crc_before(self) -> int:
        """The crc of the entry before it."""
        ...

    @property
    def crc(self) -> int:
        """The crc of its last entry."""
        ...


class Source(Protocol):
    """What the server's end reads; `xce.journal.interface.JournalReader` is one."""

    def first_seq(self) -> Seq:
        """Return the first stored entry; 0: none is stored."""
        ...

    def stored_seq(self) -> Seq:
        """Return the last stored entry; 0: none is stored."""
        ...

    def load_snapshot(self) -> StoredSnapshot | None:
        """Return the newest snapshot."""
        ...

    def read(self, from_seq: Seq) -> Iterator[StoredBatch]:
        """Yield stored batches, beginning with the one that holds ``from_seq``."""
        ...


class FollowerFeed:
    """The server's end: what one follower gets next.

    Args:
        source: The journal.
        follow: What the follower asked for; a new one makes a new feed.
        epoch: The present reign.
        window_bytes: How much may be unsent.
    """

    def __init__(
        self, source: Source, follow: Follow, *, epoch: Epoch, window_bytes: int = WINDOW_BYTES
    ) -> None:
        self.seq = follow.seq
        """The last entry that was given out."""
        self.is_live = False
        """Whether it has everything durable; then `takes_live` may be asked."""
        self._source = source
        self._window_bytes = window_bytes
        self._snapshot: StoredSnapshot | None = None
        self._next_part = 0
        self._must_begin = follow.seq == 0 or follow.epoch > epoch
        self._follow = follow
        self._is_known = False
        """Whether it is known that what the follower has is of this journal."""

    def next_messages(self, buffered_bytes: int) -> list[SnapshotPart | Batch | CaughtUp]:
        """Return what to send now, up to the window; an empty list: nothing, or no room.

        To be called when the follower asked, when it has read (the peer is writable again) and
        when something became durable that `takes_live` did not take.

        Args:
            buffered_bytes: What was sent to the follower and is still unsent.

        Raises:
            CorruptJournalError: What is stored is damaged.
        """
        messages: list[SnapshotPart | Batch | CaughtUp] = []
        room = self._window_bytes - buffered_bytes
        if self.is_live or room <= 0:
            return messages
        try:
            self._gather(messages, room)
        except CorruptJournalError:
            raise
        except Exception:
            # What was read before it counts as given out. The next call fails again, or goes on.
            if not messages:
                raise
        return messages

    def _gather(self, messages: list[SnapshotPart | Batch | CaughtUp], room: int) -> None:
        """Add what comes next, until there is no room."""
        self._choose_beginning()
        while self._snapshot is not None and room > 0:
            part = self._take_part(self._snapshot)
            messages.append(part)
            room -= len(part.content)
        if room <= 0:
            return
        for batch in self._source.read(self.seq + 1):
            if batch.first > self.seq + 1:
                raise CorruptJournalError(
                    f"the journal goes on with entry {batch.first} behind entry {self.seq}"
                )
            messages.append(Batch(batch.first, batch.last, batch.content))
            self.seq = batch.last
            room -= len(batch.content)
            if room <= 0:
                return
        self.is_live = True
        messages.append(CaughtUp(self.seq))

    def takes_live(self, first: Seq, last: Seq, buffered_bytes: int) -> bool:
        """Tell whether the batch that just became durable shall be sent to this follower now.

        False: it has it already, or it is behind: then it reads it from the journal when
        `next_messages` is called.
        """
        if not self.is_live or last <= self.seq:
            return False
        if first != self.seq + 1 or buffered_bytes >= self._window_bytes:
            self.is_live = False
            return False
        self.seq = last
        return True

    def _choose_beginning(self) -> None:
        """Begin with a snapshot where the follower must, or where what it needs is gone."""
        if self._snapshot is not None:
            return
        first = self._source.first_seq()
        is_ahead = self.seq > self._source.stored_seq()
        is_behind = self.seq + 1 < first
        if not (self._must_begin or is_ahead or is_behind or self._is_another()):
            self._is_known = True
            return
        self._must_begin, self._is_known = False, True
        self._snapshot = self._source.load_snapshot()
        self._next_part = 0
        if self._snapshot is None:
            self.seq = 0
            if first > 1:
                raise CorruptJournalError(
                    f"the journal begins with entry {first} and there is no snapshot before it"
                )

    def _is_another(self) -> bool:
        """Return whether the follower has entries of a journal that this one is not any more.

        It was restored from a backup since. Where the crc of the last one is not known, it tells
        that such an entry was written by a later reign than any that the follower has met.
        """
        if self._is_known:
            return False
        batch, follow = next(self._source.read(self.seq), None), self._follow
        if batch is None:
            return False
        if follow.crc >= 0 and batch.last == self.seq:
            return batch.crc != follow.crc
        if follow.crc >= 0 and batch.first == self.seq + 1:
            return batch.crc_before != follow.crc
        return batch.first <= self.seq and batch.epoch > follow.epoch

    def _take_part(self, snapshot: StoredSnapshot) -> SnapshotPart:
        number = self._next_part
        try:
            content = snapshot.part(number)
        except CorruptJournalError:
            # Dropped for newer ones while this was slowly read: begin with the newest.
            newest = self._source.load_snapshot()
            if newest is None or newest.seq <= snapshot.seq:
                raise
            snapshot = self._snapshot = newest
            number = 0
            content = newest.part(0)
        self._next_part = number + 1
        if self._next_part == snapshot.count:
            self._snapshot = None
            self.seq = snapshot.seq
        return SnapshotPart(snapshot.seq, number, snapshot.count, content, snapshot.crc)
