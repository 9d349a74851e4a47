"""What is SQLite's own; what every journal must do is in the contract's tests."""

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from journals import batch, batches, filled

from xce.journal.interface import (
    EpochLostError,
    JournalHeldError,
    JournalTroubleError,
)
from xce.journal.sqlite import SqliteJournal, open_sqlite_reader
from xce.model.errors import CorruptJournalError


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    journal = SqliteJournal(tmp_path)
    yield journal
    journal.close()


def stored(journal: SqliteJournal, from_seq: int = 1) -> list[tuple[int, int]]:
    return [(found.first, found.last) for found in journal.read(from_seq)]


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


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
