"""Damage in SQLite's log, which SQLite itself takes for a torn end and drops without a word."""

import shutil
from pathlib import Path

import pytest
from journals import batches

from xce.journal.sqlite import SqliteJournal
from xce.journal.verify import verify
from xce.model.errors import CorruptJournalError

FRAME_BYTES = 24 + 4096
COMMITS = 8


def crashed_copy(tmp_path: Path) -> Path:
    """Return the files as `kill -9` leaves them, with commits that are only in the log."""
    journal = SqliteJournal(tmp_path / "live")
    epoch = journal.lead("test")
    for made in batches(*[1] * COMMITS):
        journal.append(epoch, made)
    shutil.copytree(tmp_path / "live", tmp_path / "crashed")
    journal.close()
    return tmp_path / "crashed"


def damage(directory: Path, frame: int) -> None:
    """Flip a bit in a frame, counted from 0 from the end."""
    log = directory / "journal.db-wal"
    content = bytearray(log.read_bytes())
    content[len(content) - frame * FRAME_BYTES - 100] ^= 1
    log.write_bytes(content)


def led(directory: Path) -> int:
    journal = SqliteJournal(directory)
    journal.lead("next")
    seq = journal.last_seq
    journal.close()
    return seq


def test_after_a_crash_everything_in_the_log_is_there(tmp_path: Path) -> None:
    assert led(crashed_copy(tmp_path)) == COMMITS


def test_a_torn_last_commit_is_left_out(tmp_path: Path) -> None:
    directory = crashed_copy(tmp_path)
    damage(directory, frame=0)
    assert led(directory) == COMMITS - 1


def test_a_damaged_commit_with_later_ones_behind_it_stops_the_start(tmp_path: Path) -> None:
    directory = crashed_copy(tmp_path)
    damage(directory, frame=3)
    with pytest.raises(CorruptJournalError, match=r"journal\.db-wal: damaged at frame .*: 3 later"):
        led(directory)


def test_a_refused_start_changes_nothing(tmp_path: Path) -> None:
    directory = crashed_copy(tmp_path)
    damage(directory, frame=3)
    names = ("journal.db", "journal.db-wal")
    before = [(directory / name).read_bytes() for name in names]
    for _ in range(2):
        with pytest.raises(CorruptJournalError):
            led(directory)
    assert [(directory / name).read_bytes() for name in names] == before


def test_verify_reports_it(tmp_path: Path) -> None:
    directory = crashed_copy(tmp_path)
    damage(directory, frame=2)
    report = verify(directory)
    assert report.last_good_seq == COMMITS - 3
    assert report.damage is not None
    assert "damaged at frame" in report.damage.text


def test_with_the_log_moved_away_it_starts_from_what_was_before(tmp_path: Path) -> None:
    directory = crashed_copy(tmp_path)
    damage(directory, frame=3)
    (directory / "journal.db-wal").rename(tmp_path / "aside")
    assert led(directory) == 0
