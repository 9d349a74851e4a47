"""Damage in SQLite's log, which SQLite itself takes for a torn end and drops without a word."""

import resource
import shutil
from pathlib import Path

import pytest
from journals import batches

from xce.journal.sqlite import SqliteJournal
from xce.journal.verify import verify
from xce.journal.wal import ROOM_BYTES, LogRoom
from xce.model.errors import CorruptJournalError

HEAD_BYTES = 32
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
    content[HEAD_BYTES + (frames(content) - frame) * FRAME_BYTES - 100] ^= 1
    log.write_bytes(content)


def frames(log: bytes) -> int:
    """Return how many frames there are in a log; zeros behind them are room."""
    return -((HEAD_BYTES - len(log.rstrip(b"\0"))) // FRAME_BYTES)


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


def test_the_log_is_longer_than_what_is_in_it_and_commits_do_not_make_it_grow(
    tmp_path: Path,
) -> None:
    journal = SqliteJournal(tmp_path)
    epoch = journal.lead("test")
    log = tmp_path / "journal.db-wal"
    sizes = set()
    for made in batches(*[1] * COMMITS):
        journal.append(epoch, made)
        sizes.add(log.stat().st_size)
    assert len(sizes) == 1
    used = HEAD_BYTES + frames(log.read_bytes()) * FRAME_BYTES
    assert used < sizes.pop() <= used + ROOM_BYTES
    journal.close()


def test_what_grows_gets_room_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"head")
    room = LogRoom(log)
    assert log.read_bytes() == b"head" + bytes(ROOM_BYTES)
    room.keep()
    assert log.stat().st_size == 4 + ROOM_BYTES
    with log.open("ab") as file:
        file.write(b"frame")
    room.keep()
    assert log.stat().st_size == 9 + 2 * ROOM_BYTES
    room.close()


def test_a_full_disk_is_no_trouble_of_the_room(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"head")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, before[1]))
    try:
        room = LogRoom(log)
        room.keep()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert log.read_bytes() == b"head"
    room.close()
