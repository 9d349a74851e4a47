"""The archive of trimmed batches, as a crash may leave it."""

import sqlite3
from pathlib import Path

import pytest
from journals import batches

from xce.journal.archive import ARCHIVE, Archive, read_archive
from xce.journal.interface import JournalTroubleError
from xce.model.errors import CorruptJournalError


def test_an_archive_that_was_half_made_is_empty(tmp_path: Path) -> None:
    path = tmp_path / ARCHIVE
    assert list(read_archive(tmp_path, 1)) == []
    path.touch()
    assert list(read_archive(tmp_path, 1)) == []
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    assert list(read_archive(tmp_path, 1)) == []
    connection.close()
    archive = Archive(tmp_path)
    made = list(batches(1, 2))
    archive.store(made)
    assert [batch.last for batch in read_archive(tmp_path, 1)] == [one.last for one in made]
    archive.close()


def test_an_archive_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(path: Path, _: Path) -> None:
        raise OSError(path.name)

    (tmp_path / "archive.db.new-journal").write_bytes(b"of a crash before")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", die)
        with pytest.raises(JournalTroubleError, match=r"archive\.db: archive\.db\.new"):
            Archive(tmp_path)
    assert list(read_archive(tmp_path, 1)) == []
    Archive(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == [ARCHIVE]


def test_another_file_in_its_place_is_no_archive(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / ARCHIVE)
    connection.execute("CREATE TABLE something (else_ INTEGER)")
    connection.close()
    with pytest.raises(CorruptJournalError, match=r"archive\.db: no such table: batches"):
        list(read_archive(tmp_path, 1))
