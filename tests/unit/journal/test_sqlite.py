import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from journals import batch, batches, filled

from xce.journal.interface import (
    Append,
    EpochLostError,
    JournalHeldError,
    JournalOrderError,
    JournalTroubleError,
    StoredBatch,
)
from xce.journal.sqlite import SqliteJournal, open_sqlite_reader
from xce.model.errors import CorruptJournalError, XceError


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(tmp_path)
    yield journal
    journal.close()


def stored(journal: SqliteJournal, from_seq: int = 1) -> list[tuple[int, int]]:
    return [(found.first, found.last) for found in journal.read(from_seq)]


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def test_each_reign_has_a_higher_epoch(tmp_path: Path) -> None:
    for expected in (1, 2, 3):
        journal = SqliteJournal(tmp_path)
        assert journal.lead("c1") == expected
        journal.close()


def test_batches_come_back_as_they_were_in_order(journal: SqliteJournal) -> None:
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


def test_reading_begins_with_the_batch_that_holds_the_entry(journal: SqliteJournal) -> None:
    epoch = journal.lead("c1")
    for one in batches(1, 3, 2):
        journal.append(epoch, one)
    assert stored(journal, 3) == [(2, 4), (5, 6)]
    assert stored(journal, 5) == [(5, 6)]
    assert stored(journal, 7) == []


def test_reading_goes_over_many_pages(journal: SqliteJournal) -> None:
    epoch = journal.lead("c1")
    journal.append_all(epoch, [Append(one) for one in batches(*[1] * 200)])
    assert stored(journal) == [(seq, seq) for seq in range(1, 201)]


def test_a_new_leader_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    filled(tmp_path, 2, 2)
    journal = SqliteJournal(tmp_path)
    epoch = journal.lead("c2")
    assert journal.last_seq == 4
    journal.append(epoch, batch(5, 5, journal.last_crc))
    assert stored(journal) == [(1, 2), (3, 4), (5, 5)]
    journal.close()


def test_a_second_leader_is_refused_and_told_who_leads(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    journal.lead("c1")
    with pytest.raises(JournalHeldError, match=rf"another controller \(process {os.getpid()}\)"):
        SqliteJournal(tmp_path).lead("c2")


def test_the_lead_can_be_taken_when_the_leader_has_closed(tmp_path: Path) -> None:
    first = SqliteJournal(tmp_path)
    first.lead("c1")
    first.close()
    second = SqliteJournal(tmp_path)
    assert second.lead("c2") == 2
    second.close()


def test_a_deposed_leader_cannot_write(journal: SqliteJournal, tmp_path: Path) -> None:
    epoch = journal.lead("c1")
    (first,) = batches(1)
    with sqlite3.connect(tmp_path / "journal.db") as other:
        other.execute("UPDATE lead SET epoch = epoch + 1")
    other.close()
    with pytest.raises(EpochLostError, match="epoch 1 is over, epoch 2 leads"):
        journal.append(epoch, first)
    assert stored(journal) == []


@pytest.mark.parametrize(
    ("first", "last", "crc_before"),
    [(4, 4, None), (2, 2, None), (3, 3, 99), (3, 2, None)],
    ids=["a gap", "a repetition with other content", "another chain", "an empty one"],
)
def test_a_batch_that_does_not_follow_is_refused(
    journal: SqliteJournal, first: int, last: int, crc_before: int | None
) -> None:
    epoch = journal.lead("c1")
    for one in batches(2):
        journal.append(epoch, one)
    wrong = batch(first, max(first, last), journal.last_crc if crc_before is None else crc_before)
    wrong = StoredBatch(
        first=first, last=last, crc_before=wrong.crc_before, crc=wrong.crc, content=wrong.content
    )
    with pytest.raises(JournalOrderError, match="does not follow entry 2"):
        journal.append(epoch, wrong)
    assert stored(journal) == [(1, 2)]


def test_an_append_whose_answer_was_lost_may_be_repeated(journal: SqliteJournal) -> None:
    epoch = journal.lead("c1")
    first, second = batches(1, 1)
    journal.append(epoch, first)
    journal.append_all(epoch, [Append(first), Append(second)])
    journal.append(epoch, second)
    assert stored(journal) == [(1, 1), (2, 2)]
    assert journal.last_seq == 2


def test_a_group_is_stored_whole_or_not_at_all(journal: SqliteJournal) -> None:
    epoch = journal.lead("c1")
    first, second = batches(1, 1)
    text = b"#!/bin/sh"
    with pytest.raises(JournalOrderError):
        journal.append_all(epoch, [Append(first, [(digest(text), text)]), Append(batch(3, 3, 1))])
    assert stored(journal) == []
    assert journal.blob(digest(text)) is None
    journal.append_all(epoch, [Append(first), Append(second)])
    assert stored(journal) == [(1, 1), (2, 2)]


def test_blobs_are_stored_with_the_batch_that_names_them(journal: SqliteJournal) -> None:
    epoch = journal.lead("c1")
    text = b"#!/bin/sh\necho \xff\n"
    first, second = batches(1, 1)
    journal.append(epoch, first, [(digest(text), text)])
    journal.append(epoch, second, [(digest(text), text)])
    assert journal.blob(digest(text)) == text
    assert journal.blob(digest(b"other")) is None
    assert journal.blob_digests() == [digest(text)]
    journal.forget_blobs([digest(text)])
    assert journal.blob(digest(text)) is None


def test_a_damaged_blob_is_not_given_out(journal: SqliteJournal) -> None:
    epoch = journal.lead("c1")
    (first,) = batches(1)
    journal.append(epoch, first, [("00ff", b"content")])
    with pytest.raises(CorruptJournalError, match="blob 00ff does not match its hash"):
        journal.blob("00ff")


def test_trimming_keeps_the_newest_and_what_holds_the_entry(journal: SqliteJournal) -> None:
    epoch = journal.lead("c1")
    for one in batches(2, 2, 2):
        journal.append(epoch, one)
    assert not journal.trim(4)
    assert stored(journal) == [(3, 4), (5, 6)]
    assert journal.first_seq() == 3
    assert not journal.trim(100)
    assert stored(journal) == [(5, 6)]
    journal.append(epoch, batch(7, 7, journal.last_crc))


def test_trimming_goes_in_small_steps(journal: SqliteJournal) -> None:
    epoch = journal.lead("c1")
    journal.append_all(epoch, [Append(one) for one in batches(1, 1, 1, 1, 1)])
    assert journal.trim(4, limit=2)
    assert stored(journal)[0] == (3, 3)
    assert not journal.trim(4, limit=2)
    assert stored(journal)[0] == (4, 4)


def test_others_read_beside_the_leader(journal: SqliteJournal, tmp_path: Path) -> None:
    epoch = journal.lead("c1")
    first, second = batches(1, 1)
    journal.append(epoch, first)
    reader = open_sqlite_reader(tmp_path)
    assert reader.stored_seq() == 1
    journal.append(epoch, second)
    assert [found.last for found in reader.read(1)] == [1, 2]
    reader.close()


def test_others_read_what_a_leader_left(tmp_path: Path) -> None:
    filled(tmp_path, 1, 1)
    reader = open_sqlite_reader(tmp_path)
    assert reader.stored_seq() == 2
    reader.close()


def test_snapshots_are_stored_and_loaded_through_the_journal(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    journal.lead("c1")
    assert journal.load_snapshot() is None
    writer = open_sqlite_reader(tmp_path)
    writer.store_snapshot(5, 55, [b"one"])
    first = journal.load_snapshot()
    assert first is not None
    assert first.seq == 5
    writer.store_snapshot(6, 66, [b"two"])
    second = journal.load_snapshot()
    assert second is not None
    assert (second.seq, second.part(0)) == (6, b"two")
    assert journal.load_snapshot() is second
    writer.close()


def test_writing_before_leading_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(XceError, match="`lead` comes first"):
        SqliteJournal(tmp_path).append(1, batch(1, 1, 0))


def test_a_journal_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    with sqlite3.connect(tmp_path / "journal.db") as other:
        other.execute("INSERT INTO schema VALUES (2)")
    other.close()
    with pytest.raises(CorruptJournalError, match=r"newer release \(schema 2, this release knows"):
        SqliteJournal(tmp_path).lead("c1")
    with pytest.raises(CorruptJournalError, match="newer release"):
        open_sqlite_reader(tmp_path)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.db") as other:
        other.execute("CREATE TABLE songs (name TEXT)")
    other.close()
    with pytest.raises(CorruptJournalError, match="not a journal of XCE"):
        SqliteJournal(tmp_path).lead("c1")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"hello" * 1000)
    with pytest.raises(CorruptJournalError, match="file is not a database"):
        SqliteJournal(tmp_path).lead("c1")


def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()
    filled(tmp_path, 1)


def test_a_missing_journal_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptJournalError, match=r"journal\.db: there is no journal"):
        open_sqlite_reader(tmp_path)


def test_a_place_that_cannot_be_made_is_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalTroubleError, match="Not a directory"):
        SqliteJournal(tmp_path / "file" / "journal").lead("c1")


def test_the_lock_is_not_kept_when_leading_failed(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"hello" * 1000)
    with pytest.raises(CorruptJournalError):
        SqliteJournal(tmp_path).lead("c1")
    (tmp_path / "journal.db").unlink()
    filled(tmp_path, 1)


def test_the_log_is_moved_when_it_has_grown(tmp_path: Path, journal: SqliteJournal) -> None:
    epoch = journal.lead("c1")
    assert not journal.is_untidy
    log = tmp_path / "journal.db-wal"
    for one in batches(*[1] * 150):
        journal.append(epoch, one)
    assert journal.is_untidy
    size = log.stat().st_size
    journal.tidy()
    assert not journal.is_untidy
    for one in batches(*[1] * 100, first=151, crc=journal.last_crc):
        journal.append(epoch, one)
    assert log.stat().st_size == size
