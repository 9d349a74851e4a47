import sqlite3
import threading
from pathlib import Path

import pytest

from xce.daemon import evidence
from xce.daemon.paths import Layout, open_layout
from xce.journal.history import HistoryWriter
from xce.model.errors import CorruptJournalError


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return open_layout(tmp_path / "state")


def test_a_fresh_state_directory_has_nothing_to_lose(layout: Layout) -> None:
    evidence.check_nothing_was_lost(layout, where="journal.db")
    HistoryWriter(layout.history_file).close()
    evidence.check_nothing_was_lost(layout, where="journal.db")


def test_a_history_store_that_is_just_being_made_is_waited_for(layout: Layout) -> None:
    layout.history_file.write_bytes(b"half a page")

    def finish() -> None:
        layout.history_file.unlink()
        HistoryWriter(layout.history_file).close()

    timer = threading.Timer(0.15, finish)
    timer.start()
    evidence.check_nothing_was_lost(layout, where="journal.db")
    timer.join()


def test_a_history_store_that_stays_unreadable_or_knows_entries_is_told(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "LOOK_S", 0.0)
    layout.history_file.write_bytes(b"half a page")
    with pytest.raises(CorruptJournalError, match=r"history\.db cannot be read"):
        evidence.check_nothing_was_lost(layout, where="journal.db")
    layout.history_file.unlink()
    HistoryWriter(layout.history_file).close()
    with sqlite3.connect(layout.history_file) as connection:
        connection.execute("UPDATE cursor SET seq = 7")
    connection.close()
    with pytest.raises(CorruptJournalError, match="goes to entry 7"):
        evidence.check_nothing_was_lost(layout, where="journal.db")
