import logging
import os
from pathlib import Path

import pytest

from xce.journal.snapshot import (
    SnapshotDamagedError,
    drop_old_snapshots,
    load_snapshot,
    open_snapshot,
    store_snapshot,
    stored_snapshots,
)

PARTS = [b"first part", b"", b"third" * 1000]


def test_what_was_stored_is_loaded(tmp_path: Path) -> None:
    store_snapshot(tmp_path, 7, 0xABC, iter(PARTS))
    snapshot = load_snapshot(tmp_path)
    assert snapshot is not None
    assert (snapshot.seq, snapshot.crc, snapshot.count) == (7, 0xABC, 3)
    assert list(snapshot.parts()) == PARTS


def test_without_snapshots_there_is_none(tmp_path: Path) -> None:
    assert load_snapshot(tmp_path) is None
    assert load_snapshot(tmp_path / "missing") is None


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for seq in (9, 10, 100):
        store_snapshot(tmp_path, seq, seq, PARTS)
    assert stored_snapshots(tmp_path) == [100, 10]


@pytest.mark.parametrize("name", ["part-0", "part-2", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_one_is_skipped_with_a_warning(
    tmp_path: Path, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store_snapshot(tmp_path, 5, 55, PARTS)
    store_snapshot(tmp_path, 8, 88, PARTS)
    path = tmp_path / "8" / name
    content = path.read_bytes()
    if damage == "flip":
        path.write_bytes(content[:-3] + bytes([content[-3] ^ 4]) + content[-2:])
    elif damage == "cut":
        path.write_bytes(content[:-1])
    else:
        path.unlink()
    with caplog.at_level(logging.WARNING):
        snapshot = load_snapshot(tmp_path)
    assert snapshot is not None
    assert snapshot.seq == 5
    assert str(path) in caplog.text


def test_each_byte_of_the_manifest_counts(tmp_path: Path) -> None:
    store_snapshot(tmp_path, 8, 88, PARTS)
    path = tmp_path / "8" / "manifest.json"
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(SnapshotDamagedError):
            open_snapshot(tmp_path / "8")


def test_a_half_written_one_is_not_seen_and_swept_away_when_its_writer_is_dead(
    tmp_path: Path,
) -> None:
    left = tmp_path / ".9.999999999"
    left.mkdir(parents=True)
    (left / "part-0").write_bytes(b"half")
    being_written = tmp_path / f".10.{os.getpid()}"
    being_written.mkdir()
    assert load_snapshot(tmp_path) is None
    drop_old_snapshots(tmp_path)
    assert not left.exists()
    assert being_written.exists()


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def parts():
        yield b"one"
        raise ValueError("the state cannot be read")

    with pytest.raises(ValueError, match="cannot be read"):
        store_snapshot(tmp_path, 5, 5, parts())
    assert list(tmp_path.iterdir()) == []


def test_one_made_twice_takes_the_place_of_the_first(tmp_path: Path) -> None:
    store_snapshot(tmp_path, 5, 5, [b"damaged"])
    store_snapshot(tmp_path, 5, 5, [b"good"])
    snapshot = load_snapshot(tmp_path)
    assert snapshot is not None
    assert snapshot.part(0) == b"good"


def test_one_of_another_format_is_skipped(tmp_path: Path) -> None:
    store_snapshot(tmp_path, 5, 5, PARTS)
    path = tmp_path / "5" / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2'))
    with pytest.raises(SnapshotDamagedError, match="format 2, this release reads format 1"):
        open_snapshot(tmp_path / "5")
