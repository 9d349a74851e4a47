import sqlite3
from pathlib import Path

import pytest
from journals import filled

from xce.journal.codec import CorruptEntryError
from xce.journal.recover import recover
from xce.journal.sqlite import open_sqlite_reader
from xce.model.entry import Entry
from xce.model.errors import CorruptJournalError


def recovered(directory: Path) -> tuple[list[int], int, int]:
    """Recover into the list of all numbers that were applied."""

    def apply_entry(state: list[int], entry: Entry) -> None:
        state.append(entry.seq)

    reader = open_sqlite_reader(directory)
    try:
        return recover(
            reader,
            restore=lambda parts: [int(part) for part in parts],
            empty=list,
            apply_entry=apply_entry,
        )
    finally:
        reader.close()


def store_snapshot_at(directory: Path, seq: int) -> None:
    reader = open_sqlite_reader(directory)
    batch = next(found for found in reader.read(seq) if found.last == seq)
    reader.store_snapshot(seq, batch.crc, [b"%d" % -seq])
    reader.close()


def change(directory: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(directory / "journal.db")
    with connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


def test_an_empty_journal_gives_the_empty_state(tmp_path: Path) -> None:
    filled(tmp_path)
    assert recovered(tmp_path) == ([], 0, 0)


def test_all_entries_are_applied_in_order(tmp_path: Path) -> None:
    filled(tmp_path, 2, 1, 3)
    state, seq, crc = recovered(tmp_path)
    assert state == [1, 2, 3, 4, 5, 6]
    assert seq == 6
    assert crc


def test_a_snapshot_and_the_entries_behind_it(tmp_path: Path) -> None:
    filled(tmp_path, 2, 1, 3)
    whole = recovered(tmp_path)
    store_snapshot_at(tmp_path, 3)
    assert recovered(tmp_path) == ([-3, 4, 5, 6], 6, whole[2])


def test_a_snapshot_of_the_last_entry_needs_no_entries(tmp_path: Path) -> None:
    filled(tmp_path, 2, 1)
    whole = recovered(tmp_path)
    store_snapshot_at(tmp_path, 3)
    change(tmp_path, "DELETE FROM batches WHERE last = 2")
    assert recovered(tmp_path) == ([-3], 3, whole[2])


def test_a_damaged_snapshot_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    filled(tmp_path, 2, 1, 3)
    store_snapshot_at(tmp_path, 2)
    store_snapshot_at(tmp_path, 3)
    (tmp_path / "snapshots" / "3" / "part-0").write_bytes(b"--")
    assert recovered(tmp_path)[0] == [-2, 3, 4, 5, 6]


def test_a_damaged_entry_is_named_with_its_file(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3, 1)
    change(
        tmp_path,
        "UPDATE batches SET content = "
        "CAST(substr(content, 1, length(content) - 1) || x'7f' AS BLOB) "
        "WHERE last = 5",
    )
    with pytest.raises(CorruptEntryError, match=r"journal\.db: entry 5: checksum mismatch"):
        recovered(tmp_path)


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3, 1)
    change(tmp_path, "DELETE FROM batches WHERE last = 5")
    with pytest.raises(CorruptEntryError, match=r"entry 3: missing: .* goes on with entry 6"):
        recovered(tmp_path)


def test_a_trimmed_journal_without_its_snapshot_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    store_snapshot_at(tmp_path, 2)
    change(tmp_path, "DELETE FROM batches WHERE last = 2")
    assert recovered(tmp_path)[0] == [-2, 3, 4, 5]
    (tmp_path / "snapshots" / "2" / "part-0").unlink()
    with pytest.raises(CorruptEntryError, match=r"entry 1: missing: .* no usable snapshot"):
        recovered(tmp_path)


def test_a_journal_that_ends_before_its_snapshot_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    store_snapshot_at(tmp_path, 5)
    change(tmp_path, "DELETE FROM batches WHERE last = 5")
    with pytest.raises(CorruptJournalError, match=r"ends at entry 2, but .* snapshot of entry 5"):
        recovered(tmp_path)


def test_a_snapshot_of_another_history_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    reader = open_sqlite_reader(tmp_path)
    reader.store_snapshot(2, 12345, [b"0"])
    reader.close()
    with pytest.raises(CorruptEntryError, match="entry 3: does not follow"):
        recovered(tmp_path)


@pytest.mark.parametrize("column", ["first", "crc", "crc_before"])
def test_a_changed_column_is_found(tmp_path: Path, column: str) -> None:
    filled(tmp_path, 2, 3, 2)
    change(tmp_path, f"UPDATE batches SET {column} = {column} + 1 WHERE last = 5")
    with pytest.raises(CorruptJournalError, match=r"entry [3-5]: "):
        recovered(tmp_path)


def test_a_column_of_another_type_is_found(tmp_path: Path) -> None:
    filled(tmp_path, 2, 3)
    change(tmp_path, "UPDATE batches SET content = 'text' WHERE last = 5")
    with pytest.raises(CorruptJournalError, match="entry 3: cannot be read"):
        recovered(tmp_path)


def test_a_snapshot_in_the_middle_of_a_batch_is_gone_on_from(tmp_path: Path) -> None:
    filled(tmp_path, 2, 4)
    reader = open_sqlite_reader(tmp_path)
    reader.store_snapshot(4, 1, [b"-4"])
    reader.close()
    assert recovered(tmp_path)[0] == [-4, 5, 6]
