"""Both ends of the stream of entries, with a journal in memory and no socket."""

from collections.abc import Iterator

import msgspec
import pytest
from journals import batch, batches

from xce.journal.codec import decode_batch, stored_crcs
from xce.journal.interface import StoredBatch
from xce.model.errors import CorruptJournalError
from xce.net.follow import (
    RESTARTS_MAX,
    AskAgain,
    Began,
    Came,
    Follower,
    FollowerFeed,
    IsLive,
    Step,
)
from xce.net.message import Batch, CaughtUp, Follow, SnapshotPart


class Shot:
    def __init__(self, seq: int, *parts: bytes, damaged: int | None = None) -> None:
        self.seq = seq
        self.crc = 0
        self.count = len(parts)
        self._parts = parts
        self.damaged = damaged

    def part(self, number: int) -> bytes:
        if number == self.damaged:
            raise CorruptJournalError("gone")
        return self._parts[number]


class Memory:
    """A journal in memory."""

    def __init__(self, *sizes: int, snapshot: Shot | None = None) -> None:
        self.stored = list(batches(*sizes))
        self.crcs: dict[int, int] = {}
        self.snapshot = snapshot
        self._note_crcs()

    def _note_crcs(self) -> None:
        for found in self.stored:
            self.crcs.update(enumerate(stored_crcs(found.content), found.first))

    def append(self, size: int) -> StoredBatch:
        last = self.stored[-1]
        self.stored += batches(size, first=last.last + 1, crc=last.crc)
        self._note_crcs()
        return self.stored[-1]

    def trim(self, before: int) -> None:
        self.stored = [kept for kept in self.stored if kept.last >= before]

    def first_seq(self) -> int:
        return self.stored[0].first if self.stored else 0

    def stored_seq(self) -> int:
        return self.stored[-1].last if self.stored else 0

    def load_snapshot(self) -> Shot | None:
        if self.snapshot is not None:
            self.snapshot.crc = self.crcs[self.snapshot.seq]
        return self.snapshot

    def read(self, from_seq: int) -> Iterator[StoredBatch]:
        return (found for found in self.stored if found.last >= from_seq)


def frame(stored: StoredBatch) -> Batch:
    return Batch(stored.first, stored.last, stored.content)


def take(follower: Follower, *messages: SnapshotPart | Batch | CaughtUp) -> list[Step]:
    return [step for message in messages for step in follower.take(message)]


def seqs(steps: list[Step]) -> list[int]:
    """The state as the numbers applied to it; a snapshot is the negative of its own."""
    state: list[int] = []
    for step in steps:
        if isinstance(step, Began):
            state = [-step.seq] if step.parts else []
        elif isinstance(step, Came):
            state += [entry.seq for entry in step.entries]
    return state


def synced(memory: Memory, follower: Follower, epoch: int = 1) -> list[Step]:
    """Let the follower follow until it is live, a message at a time through a tiny window."""
    feed = FollowerFeed(memory, follower.follow(epoch), epoch=epoch, window_bytes=1)
    steps: list[Step] = []
    while not feed.is_live:
        for message in feed.next_messages(0):
            steps += follower.take(message)
    return steps


def test_a_new_follower_gets_everything_and_is_told_that_it_is_live() -> None:
    follower = Follower(decode_batch)
    steps = synced(Memory(1, 3, 2), follower)
    assert seqs(steps) == [1, 2, 3, 4, 5, 6]
    assert steps[-1] == IsLive(6)
    assert follower.is_live


def test_an_empty_journal_is_live_at_once() -> None:
    assert synced(Memory(), Follower(decode_batch)) == [IsLive(0)]


def test_a_new_follower_begins_with_the_snapshot_where_there_is_one() -> None:
    steps = synced(Memory(1, 3, 2, snapshot=Shot(4, b"a", b"b")), Follower(decode_batch))
    assert steps[0] == Began(4, (b"a", b"b"))
    assert seqs(steps) == [-4, 5, 6]


def test_a_follower_resumes_behind_what_it_has() -> None:
    memory = Memory(1, 3, 2, snapshot=Shot(4, b"a"))
    assert seqs(synced(memory, Follower(decode_batch, seq=4, epoch=1))) == [5, 6]


def test_a_follower_whose_next_entry_was_trimmed_begins_with_the_snapshot() -> None:
    memory = Memory(1, 3, 2, snapshot=Shot(4, b"a"))
    memory.trim(5)
    assert seqs(synced(memory, Follower(decode_batch, seq=4, epoch=1))) == [5, 6]
    assert seqs(synced(memory, Follower(decode_batch, seq=1, epoch=1))) == [-4, 5, 6]


def test_a_follower_ahead_of_the_journal_begins_again() -> None:
    for snapshot, state in ((None, [1, 2]), (Shot(1, b"a"), [-1, 2])):
        memory = Memory(1, 1, snapshot=snapshot)
        assert seqs([Came([]), *synced(memory, Follower(decode_batch, seq=9, epoch=1))]) == state


def test_a_follower_ahead_of_an_empty_journal_becomes_empty() -> None:
    steps = synced(Memory(), Follower(decode_batch, seq=9, epoch=1))
    assert steps == [Began(0), IsLive(0)]


def test_a_follower_from_a_later_reign_has_another_history_and_begins_again() -> None:
    steps = synced(Memory(2, 2), Follower(decode_batch, seq=2, epoch=7), epoch=3)
    assert steps[0] == Began(0)
    assert seqs(steps) == [1, 2, 3, 4]


def test_the_epoch_that_a_follower_names_is_that_of_what_it_has() -> None:
    follower = Follower(decode_batch, seq=2, epoch=7)
    assert follower.follow(3) == Follow(7, 2)
    first = batch(1, 1, 0)
    follower.take(frame(first))
    assert follower.follow(4) == Follow(3, 1, first.crc)


def restored(memory: Memory, *sizes: int) -> None:
    """Let a journal end with its first batch, and go on with others under a later reign."""
    memory.stored = memory.stored[:1]
    for size in sizes:
        end = memory.stored[-1]
        made = batch(end.last + 1, end.last + size, end.crc, padding=1)
        memory.stored.append(msgspec.structs.replace(made, epoch=1_000_009))
    memory._note_crcs()


@pytest.mark.parametrize("sizes", [(1, 1, 3), (2, 3), (1, 4), (5,)])
def test_a_follower_that_has_what_a_restored_journal_lacks_begins_again(
    sizes: tuple[int, ...],
) -> None:
    memory = Memory(1, 2)
    follower = Follower(decode_batch)
    synced(memory, follower)
    restored(memory, *sizes)
    steps = synced(memory, follower, epoch=1_000_009)
    assert seqs(steps) == [1, 2, 3, 4, 5, 6]
    assert not any(isinstance(step, AskAgain) for step in steps)


def test_a_follower_whose_last_entry_a_restored_journal_has_not_kept_begins_again() -> None:
    memory = Memory(1, 2)
    follower = Follower(decode_batch)
    synced(memory, follower)
    restored(memory, 2, 2)
    memory.snapshot = Shot(3, b"a")
    memory.trim(4)
    steps = synced(memory, follower, epoch=1_000_009)
    assert seqs(steps) == [-3, 4, 5]
    assert not any(isinstance(step, AskAgain) for step in steps)


def test_a_follower_that_has_no_more_than_was_restored_goes_on() -> None:
    memory = Memory(1, 2)
    follower = Follower(decode_batch)
    follower.take(frame(memory.stored[0]))
    restored(memory, 1, 1)
    assert seqs(synced(memory, follower, epoch=1_000_009)) == [2, 3]


def test_a_trimmed_journal_without_snapshot_cannot_be_followed_from_the_beginning() -> None:
    memory = Memory(1, 1)
    memory.trim(2)
    with pytest.raises(CorruptJournalError, match="begins with entry 2 and there is no snapshot"):
        FollowerFeed(memory, Follow(0, 0), epoch=1).next_messages(0)


def test_a_gap_behind_the_snapshot_is_not_given_out() -> None:
    memory = Memory(1, 1, 1, snapshot=Shot(1, b"a"))
    memory.trim(3)
    with pytest.raises(CorruptJournalError, match="goes on with entry 3 behind entry 1"):
        FollowerFeed(memory, Follow(0, 0), epoch=1).next_messages(0)


def test_the_window_bounds_what_is_given_out() -> None:
    memory = Memory(*[1] * 100, snapshot=Shot(1, bytes(50), bytes(50), bytes(50)))
    feed = FollowerFeed(memory, Follow(0, 0), epoch=1, window_bytes=100)
    assert [type(message) for message in feed.next_messages(0)] == [SnapshotPart] * 2
    assert feed.next_messages(100) == []
    following = feed.next_messages(0)
    assert isinstance(following[0], SnapshotPart)
    assert 1 < len(following) < 5
    assert not feed.is_live


def test_what_becomes_durable_goes_to_live_followers_at_once() -> None:
    memory = Memory(1)
    follower = Follower(decode_batch)
    feed = FollowerFeed(memory, follower.follow(1), epoch=1)
    take(follower, *feed.next_messages(0))
    new = memory.append(2)
    assert feed.takes_live(new.first, new.last, 0)
    assert seqs(take(follower, frame(new))) == [2, 3]
    assert feed.next_messages(0) == []


def test_what_was_read_from_the_journal_already_is_not_sent_again() -> None:
    memory = Memory(1, 1, 1)
    feed = FollowerFeed(memory, Follow(0, 0), epoch=1)
    feed.next_messages(0)
    assert not feed.takes_live(2, 3, 0)
    assert feed.is_live
    assert not feed.takes_live(3, 4, 0)
    assert not feed.is_live


def test_a_slow_follower_reads_from_the_journal_again_when_it_can() -> None:
    memory = Memory(1)
    follower = Follower(decode_batch)
    feed = FollowerFeed(memory, follower.follow(1), epoch=1, window_bytes=1000)
    take(follower, *feed.next_messages(0))
    for _ in range(3):
        new = memory.append(1)
        assert not feed.takes_live(new.first, new.last, 1000)
    assert feed.next_messages(1000) == []
    caught_up = take(follower, *feed.next_messages(0))
    assert seqs(caught_up) == [2, 3, 4]
    assert caught_up[-1] == IsLive(4)
    new = memory.append(1)
    assert feed.takes_live(new.first, new.last, 0)


def test_a_slow_follower_that_was_overtaken_by_trimming_begins_again() -> None:
    memory = Memory(1, 1, 1)
    feed = FollowerFeed(memory, Follow(1, 1), epoch=1)
    memory.snapshot = Shot(2, b"a")
    memory.trim(3)
    assert feed.next_messages(0)[0] == SnapshotPart(2, 0, 1, b"a", memory.crcs[2])


def test_the_first_batch_behind_a_snapshot_is_checked_against_the_chain() -> None:
    memory = Memory(1, 1, snapshot=Shot(1, b"a"))
    follower = Follower(decode_batch)
    part, *_ = FollowerFeed(memory, follower.follow(1), epoch=1).next_messages(0)
    (_, step) = take(follower, part, frame(batch(2, 2, 12345)))
    assert isinstance(step, AskAgain)


def test_a_snapshot_that_was_replaced_while_it_was_sent_is_begun_anew() -> None:
    old = Shot(1, b"a", b"b")
    memory = Memory(1, 1, 1, snapshot=old)
    follower = Follower(decode_batch)
    feed = FollowerFeed(memory, follower.follow(1), epoch=1, window_bytes=1)
    steps = take(follower, *feed.next_messages(0))
    old.damaged = 1
    memory.snapshot = Shot(2, b"c", b"d")
    while not feed.is_live:
        steps += take(follower, *feed.next_messages(0))
    assert seqs(steps) == [-2, 3]


def test_a_snapshot_that_is_damaged_and_not_replaced_is_a_fault() -> None:
    feed = FollowerFeed(Memory(1, 1, snapshot=Shot(1, b"a", damaged=0)), Follow(0, 0), epoch=1)
    with pytest.raises(CorruptJournalError, match="gone"):
        feed.next_messages(0)


def test_a_gap_is_asked_about_and_nothing_is_taken_until_the_stream_begins_again() -> None:
    first, second, third = batches(1, 1, 1)
    follower = Follower(decode_batch)
    take(follower, frame(first))
    (step,) = take(follower, frame(third))
    assert isinstance(step, AskAgain)
    assert step.follow.seq == 0
    assert "entry 3 came where 2 belongs" in step.why
    assert take(follower, frame(second), frame(third), CaughtUp(3)) == []
    assert take(follower, SnapshotPart(2, 1, 2, b"the rest of another")) == []
    steps = take(follower, frame(first), frame(second), frame(third), CaughtUp(3))
    assert steps[0] == Began(0)
    assert seqs(steps) == [1, 2, 3]
    assert follower.is_live


def test_a_damaged_batch_is_asked_about() -> None:
    first, second = batches(1, 1)
    follower = Follower(decode_batch)
    take(follower, frame(first))
    damaged = Batch(2, 2, second.content[:-1] + bytes([second.content[-1] ^ 1]))
    (step,) = take(follower, damaged)
    assert isinstance(step, AskAgain)
    assert "entry 2: checksum mismatch" in step.why


def test_a_batch_of_another_chain_is_asked_about() -> None:
    (first,) = batches(1)
    follower = Follower(decode_batch)
    take(follower, frame(first))
    (step,) = take(follower, frame(batch(2, 2, 12345)))
    assert isinstance(step, AskAgain)


def test_a_batch_that_is_shorter_than_it_says_is_asked_about() -> None:
    (first,) = batches(2)
    (step,) = take(Follower(decode_batch), Batch(1, 3, first.content))
    assert isinstance(step, AskAgain)
    assert "up to 3 ends with 2" in step.why


def test_following_is_given_up_when_the_stream_stays_damaged() -> None:
    follower = Follower(decode_batch)
    part, gap = SnapshotPart(1, 0, 1, b"a"), frame(batch(9, 9, 0))
    for _ in range(RESTARTS_MAX):
        assert isinstance(take(follower, part, gap)[-1], AskAgain)
    follower.take(part)
    with pytest.raises(CorruptJournalError, match="again and again"):
        follower.take(gap)


def test_a_good_entry_between_makes_damage_count_anew() -> None:
    first, second = batches(1, 1)
    follower = Follower(decode_batch)
    gap = frame(batch(9, 9, 0))
    for _ in range(3 * RESTARTS_MAX):
        assert isinstance(take(follower, frame(first), frame(second), gap)[-1], AskAgain)


def test_a_repeated_batch_is_dropped() -> None:
    first, second = batches(1, 1)
    follower = Follower(decode_batch)
    take(follower, frame(first), frame(second))
    assert take(follower, frame(second)) == []


def test_a_batch_that_is_known_in_part_gives_the_rest() -> None:
    first, second = batches(1, 3)
    follower = Follower(decode_batch, seq=2, epoch=1)
    assert seqs(take(follower, frame(second))) == [3, 4]
    assert follower.seq == 4
    assert first.last == 1


def test_parts_out_of_order_are_asked_about() -> None:
    follower = Follower(decode_batch)
    (step,) = take(follower, SnapshotPart(5, 0, 3, b"a"), SnapshotPart(5, 2, 3, b"c"))
    assert isinstance(step, AskAgain)


def test_being_told_of_another_place_is_asked_about() -> None:
    (step,) = take(Follower(decode_batch), CaughtUp(4))
    assert isinstance(step, AskAgain)


def test_a_new_connection_in_the_middle_of_a_snapshot_begins_it_again() -> None:
    memory = Memory(1, 1, snapshot=Shot(1, b"a", b"b"))
    follower = Follower(decode_batch)
    take(follower, SnapshotPart(1, 0, 2, b"a"))
    assert seqs(synced(memory, follower)) == [-1, 2]
