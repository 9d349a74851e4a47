import hashlib
import json
import sqlite3
from pathlib import Path

import pytest
from journals import batches, filled

from xce.journal.codec import CorruptEntryError
from xce.journal.sqlite import SqliteJournal, open_sqlite_reader
from xce.journal.verify import export, verify
from xce.model.errors import CorruptJournalError


def damage_entry_5(directory: Path) -> None:
    connection = sqlite3.connect(directory / "journal.db")
    with connection:
        connection.execute(
            "UPDATE batches SET content = "
            "CAST(substr(content, 1, length(content) - 1) || x'7f' AS BLOB) "
            "WHERE last = 5"
        )
    connection.close()


def test_a_good_journal_is_counted(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    report = verify(tmp_path)
    assert report.is_good
    assert (report.first_seq, report.last_good_seq, report.last_epoch) == (1, 5, 1)
    assert (report.batches, report.entries, report.records) == (2, 5, 5)
    assert report.content_bytes > 100


def test_an_empty_journal_is_good(tmp_path: Path) -> None:
    filled(tmp_path)
    report = verify(tmp_path)
    assert report.is_good
    assert report.last_good_seq == 0


def test_the_first_damaged_entry_and_the_last_good_one_are_named(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3, 1)
    damage_entry_5(tmp_path)
    report = verify(tmp_path)
    assert not report.is_good
    assert report.last_good_seq == 4
    assert report.damage is not None
    assert report.damage.seq == 5
    assert report.damage.file == str(tmp_path / "journal.db")
    assert "entry 5: checksum mismatch" in report.damage.text


def test_each_snapshot_is_reported(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    reader = open_sqlite_reader(tmp_path)
    reader.store_snapshot(2, 1, [b"a"])
    reader.store_snapshot(5, 1, [b"b"])
    reader.close()
    (tmp_path / "snapshots" / "5" / "part-0").write_bytes(b"c")
    newest, oldest = verify(tmp_path).snapshots
    assert newest.seq == 5
    assert "does not match its digest" in newest.damage
    assert (oldest.seq, oldest.damage) == (2, "")


def test_a_trimmed_journal_is_good_only_with_its_snapshot(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    connection = sqlite3.connect(tmp_path / "journal.db")
    with connection:
        connection.execute("DELETE FROM batches WHERE last = 2")
    connection.close()
    report = verify(tmp_path)
    assert report.damage is not None
    assert "begins at entry 3" in report.damage.text
    reader = open_sqlite_reader(tmp_path)
    reader.store_snapshot(2, 1, [b"a"])
    reader.close()
    assert verify(tmp_path).is_good


def test_a_lost_end_is_seen_by_the_snapshot_behind_it(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    reader = open_sqlite_reader(tmp_path)
    reader.store_snapshot(9, 1, [b"a"])
    reader.close()
    report = verify(tmp_path)
    assert report.damage is not None
    assert report.damage.seq == 3
    assert report.last_good_seq == 2


def test_it_works_beside_a_running_controller(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    epoch = journal.lead("c1")
    for made in batches(1, 2):
        journal.append(epoch, made)
    assert verify(tmp_path).last_good_seq == 3
    assert len(list(export(tmp_path))) == 3
    for made in batches(1, first=4, crc=journal.last_crc):
        journal.append(epoch, made)
    assert verify(tmp_path).last_good_seq == 4
    journal.close()


def test_it_changes_no_file(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    before = (tmp_path / "journal.db").read_bytes()
    verify(tmp_path)
    list(export(tmp_path))
    assert (tmp_path / "journal.db").read_bytes() == before


def test_export_gives_named_fields_one_entry_a_line(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    lines = list(export(tmp_path))
    assert all(line.endswith(b"\n") for line in lines)
    first = json.loads(lines[0])
    crc = first.pop("crc")
    assert len(crc) == 8
    assert first == {
        "seq": 1,
        "at_us": 1_000_001,
        "cause": {"kind": "kill-jobs", "by": "ann", "basis": "owner", "origin": ""},
        "records": [{"kind": "jobs-forgotten", "jobs": [1], "ineligible": [], "timed_from": 0}],
    }


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(1, 0, [1, 2, 3, 4, 5]), (2, 4, [2, 3, 4]), (4, 4, [4]), (5, 99, [5]), (6, 0, [])],
)
def test_export_gives_a_range(tmp_path: Path, first: int, last: int, expected: list[int]) -> None:
    filled(tmp_path, 2, 3)
    whole = {json.loads(line)["seq"]: line for line in export(tmp_path)}
    found = list(export(tmp_path, first, last))
    assert found == [whole[seq] for seq in expected]


def test_export_stops_at_a_damaged_entry(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    damage_entry_5(tmp_path)
    lines = export(tmp_path)
    assert json.loads(next(lines))["seq"] == 1
    assert json.loads(next(lines))["seq"] == 2
    with pytest.raises(CorruptEntryError, match="entry 5"):
        next(lines)


def test_without_a_journal_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(CorruptJournalError, match="there is no journal"):
        verify(tmp_path)


def test_a_damaged_blob_is_named_and_mended_by_the_same_content_again(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    content = b"#!/bin/sh\nsleep 1\n"
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    connection = sqlite3.connect(tmp_path / "journal.db")
    with connection:
        connection.execute("INSERT INTO blobs VALUES (?, ?)", (digest, content[:-1] + b"!"))
    connection.close()
    report = verify(tmp_path)
    assert report.damage is None
    assert report.damaged_blobs == (digest,)
    assert not report.is_good
    journal = SqliteJournal(tmp_path)
    epoch = journal.lead("test")
    (batch,) = batches(1, first=6, crc=journal.last_crc)
    journal.append(epoch, batch, [(digest, content)])
    journal.close()
    assert verify(tmp_path).is_good
