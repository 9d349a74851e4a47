"""What every journal must do, whatever it stores in."""

import hashlib
from collections.abc import Callable, Iterator

import pytest
from journals import batch, batches, entry

from xce.journal.codec import encode_batch
from xce.journal.interface import (
    Append,
    EpochLostError,
    Journal,
    JournalHeldError,
    JournalOrderError,
    StoredBatch,
)
from xce.journal.postgres import PostgresJournal
from xce.journal.recover import recover
from xce.journal.sqlite import SqliteJournal
from xce.journal.whole import read_whole
from xce.model.errors import XceError

Make = Callable[[], Journal]


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[Journal] = []

    def make_one() -> Journal:
        if request.param == "sqlite":
            journal: Journal = SqliteJournal(request.getfixturevalue("tmp_path"))
        else:
            journal = PostgresJournal(request.getfixturevalue("target"))
        made.append(journal)
        return journal

    yield make_one
    for journal in made:
        journal.close()


def stored(journal: Journal, from_seq: int = 1) -> list[tuple[int, int]]:
    return [(found.first, found.last) for found in journal.read(from_seq)]


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def test_each_reign_has_a_higher_epoch(make: Make) -> None:
    for expected in (1, 2, 3):
        journal = make()
        assert journal.lead("c1") == expected
        journal.close()


def test_batches_come_back_as_they_were_in_order(make: Make) -> None:
    journal = make()
    epoch = journal.lead("c1")
    made = list(batches(1, 3, 2))
    for one in made:
        journal.append(epoch, one)
    found = list(journal.read(1))
    assert [one.content for one in found] == [one.content for one in made]
    assert [one.epoch for one in found] == [epoch] * 3
    assert (journal.last_seq, journal.last_crc) == (6, made[-1].crc)
    assert (journal.first_seq(), journal.stored_seq()) == (1, 6)
    sizes = [len(one.content) for one in made]
    assert [journal.tail_bytes(seq) for seq in (0, 1, 4, 6)] == [
        sum(sizes),
        sum(sizes[1:]),
        sizes[2],
        0,
    ]


def test_an_empty_journal_has_nothing(make: Make) -> None:
    journal = make()
    journal.lead("c1")
    assert (journal.first_seq(), journal.stored_seq(), journal.last_seq) == (0, 0, 0)
    assert stored(journal) == []
    assert journal.load_snapshot() is None
    assert journal.blob("00") is None


def test_reading_begins_with_the_batch_that_holds_the_entry_and_goes_over_pages(
    make: Make,
) -> None:
    journal = make()
    epoch = journal.lead("c1")
    journal.append_all(epoch, [Append(one) for one in batches(*[3] * 150)])
    assert stored(journal, 3)[:2] == [(1, 3), (4, 6)]
    assert len(stored(journal)) == 150
    assert stored(journal, 449) == [(448, 450)]


def test_the_next_reign_goes_on_behind_the_last_entry(make: Make) -> None:
    journal = make()
    epoch = journal.lead("c1")
    for one in batches(2, 2):
        journal.append(epoch, one)
    crc = journal.last_crc
    journal.close()
    following = make()
    epoch = following.lead("c2")
    assert (following.last_seq, following.last_crc) == (4, crc)
    following.append(epoch, batch(5, 5, crc))
    assert [one.epoch for one in following.read(1)] == [1, 1, 2]


def test_only_one_leads_and_the_other_is_told_who(make: Make) -> None:
    first = make()
    first.lead("c1")
    with pytest.raises(JournalHeldError, match=r"c1|process \d+"):
        make().lead("c2")
    first.close()
    assert make().lead("c2") == 2


@pytest.mark.parametrize(
    ("first", "last", "crc_before"), [(4, 4, None), (2, 2, None), (3, 3, 17), (3, 2, None)]
)
def test_a_batch_that_does_not_follow_is_refused(
    make: Make, first: int, last: int, crc_before: int | None
) -> None:
    journal = make()
    epoch = journal.lead("c1")
    (one,) = batches(2)
    journal.append(epoch, one)
    before = journal.last_crc if crc_before is None else crc_before
    content, crc = encode_batch([entry(first)], before)
    wrong = StoredBatch(first=first, last=last, crc_before=before, crc=crc, content=content)
    with pytest.raises(JournalOrderError, match="does not follow entry 2"):
        journal.append(epoch, wrong)
    assert stored(journal) == [(1, 2)]


def test_an_append_whose_answer_was_lost_may_be_repeated(make: Make) -> None:
    journal = make()
    epoch = journal.lead("c1")
    first, second, third = batches(1, 2, 1)
    journal.append(epoch, first)
    both = [Append(second, [("aa", b"1")]), Append(third)]
    journal.append_all(epoch, both)
    journal.append_all(epoch, both)
    journal.append(epoch, first)
    assert stored(journal) == [(1, 1), (2, 3), (4, 4)]
    assert journal.last_seq == 4


def test_a_group_is_stored_whole_or_not_at_all(make: Make) -> None:
    journal = make()
    epoch = journal.lead("c1")
    first, second, third = batches(1, 1, 1)
    with pytest.raises(JournalOrderError):
        journal.append_all(epoch, [Append(first, [("aa", b"1")]), Append(third)])
    assert stored(journal) == []
    assert journal.blob_digests() == []
    journal.append_all(epoch, [Append(first), Append(second), Append(third)])
    assert stored(journal) == [(1, 1), (2, 2), (3, 3)]


def test_another_epoch_than_the_leading_one_writes_nothing(make: Make) -> None:
    journal = make()
    epoch = journal.lead("c1")
    (one,) = batches(1)
    with pytest.raises(EpochLostError):
        journal.append(epoch + 1, one, [("aa", b"1")])
    assert stored(journal) == []
    assert journal.blob_digests() == []


def test_blobs_are_stored_with_the_batch_that_names_them_once(make: Make) -> None:
    journal = make()
    epoch = journal.lead("c1")
    first, second = batches(1, 1)
    one, other = b"#!/bin/sh\n", b"\0\xff" * 1000
    journal.append(epoch, first, [(digest(one), one)])
    journal.append(epoch, second, [(digest(one), one), (digest(other), other)])
    assert journal.blob(digest(one)) == one
    assert journal.blob(digest(other)) == other
    assert journal.blob_digests() == sorted([digest(one), digest(other)])
    journal.forget_blobs([digest(one), "not there"])
    assert journal.blob(digest(one)) is None
    assert journal.blob(digest(other)) == other


def test_trimming_keeps_the_newest_and_moves_the_others_to_the_archive(make: Make) -> None:
    journal = make()
    epoch = journal.lead("c1")
    made = list(batches(2, 2, 2))
    for one in made:
        journal.append(epoch, one)
    assert not journal.trim(4)
    assert stored(journal) == [(3, 4), (5, 6)]
    assert journal.first_seq() == 3
    assert not journal.trim(100)
    assert stored(journal) == [(5, 6)]
    assert [one.content for one in read_whole(journal, 1)] == [one.content for one in made]
    assert [one.last for one in read_whole(journal, 3)] == [4, 6]
    assert [one.epoch for one in journal.archived(1)] == [1, 1]
    journal.append(epoch, batch(7, 7, journal.last_crc))


def test_trimming_goes_in_small_steps(make: Make) -> None:
    journal = make()
    epoch = journal.lead("c1")
    journal.append_all(epoch, [Append(one) for one in batches(1, 1, 1, 1, 1)])
    assert journal.trim(4, limit=2)
    assert stored(journal)[0] == (3, 3)
    assert not journal.trim(4, limit=2)
    assert stored(journal)[0] == (4, 4)


def test_snapshots_are_stored_and_the_newest_two_are_kept(make: Make) -> None:
    journal = make()
    journal.lead("c1")
    for seq in (5, 6, 7):
        journal.store_snapshot(seq, 10 * seq, [b"one", b"part of %d" % seq])
    newest = journal.load_snapshot()
    assert newest is not None
    assert (newest.seq, newest.crc, newest.count) == (7, 70, 2)
    assert list(newest.parts()) == [b"one", b"part of 7"]
    assert journal.load_snapshot() is newest
    journal.store_snapshot(7, 70, [b"anew"])


def test_a_state_is_recovered_from_a_snapshot_and_what_follows(make: Make) -> None:
    journal = make()
    epoch = journal.lead("c1")
    made = list(batches(2, 2, 2))
    for one in made:
        journal.append(epoch, one)
    journal.store_snapshot(4, made[1].crc, [b"1 2 3 4"])
    journal.trim(5)
    seen, seq, crc = recover(
        journal,
        restore=lambda parts: next(parts).decode().split(),
        empty=list,
        apply_entry=lambda state, one: state.append(str(one.seq)),
    )
    assert (seen, seq, crc) == (["1", "2", "3", "4", "5", "6"], 6, made[-1].crc)


def test_writing_before_leading_is_a_fault(make: Make) -> None:
    with pytest.raises(XceError, match="`lead` comes first"):
        make().append(1, batch(1, 1, 0))
