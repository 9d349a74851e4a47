import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest
from history_places import make_place, run_sql

from xce.daemon import evidence
from xce.daemon.paths import Layout, open_layout
from xce.journal.history import HistoryWriter
from xce.journal.history_postgres import PostgresHistory
from xce.journal.postgres_line import PostgresTarget
from xce.model.errors import CorruptJournalError


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return open_layout(tmp_path / "state")


def test_a_fresh_state_directory_has_nothing_to_lose(layout: Layout) -> None:
    evidence.check_nothing_was_lost(layout, layout.history_file, where="journal.db")
    HistoryWriter(layout.history_file).close()
    evidence.check_nothing_was_lost(layout, layout.history_file, where="journal.db")


def test_a_history_store_that_has_no_tables_yet_is_no_evidence(layout: Layout) -> None:
    layout.history_file.touch()
    evidence.check_nothing_was_lost(layout, layout.history_file, where="journal.db")
    with contextlib.closing(sqlite3.connect(layout.history_file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE cursor (seq INTEGER)")
        evidence.check_nothing_was_lost(layout, layout.history_file, where="journal.db")


def test_a_history_store_that_is_being_made_meanwhile_is_no_evidence(tmp_path: Path) -> None:
    for number in range(20):
        layout = open_layout(tmp_path / str(number))
        maker = threading.Thread(
            target=lambda at: HistoryWriter(at).close(), args=(layout.history_file,)
        )
        maker.start()
        while maker.is_alive():
            evidence.check_nothing_was_lost(layout, layout.history_file, where="journal.db")
        maker.join()


def test_a_history_store_that_is_unreadable_or_knows_entries_is_told(layout: Layout) -> None:
    layout.history_file.write_bytes(b"half a page")
    with pytest.raises(CorruptJournalError, match=r"history\.db cannot be read"):
        evidence.check_nothing_was_lost(layout, layout.history_file, where="journal.db")
    layout.history_file.unlink()
    HistoryWriter(layout.history_file).close()
    with sqlite3.connect(layout.history_file) as connection:
        connection.execute("UPDATE cursor SET seq = 7")
    connection.close()
    with pytest.raises(CorruptJournalError, match="goes to entry 7"):
        evidence.check_nothing_was_lost(layout, layout.history_file, where="journal.db")


def test_a_history_in_a_database_is_asked_too_and_must_answer(
    layout: Layout, tmp_path: Path
) -> None:
    place = make_place("postgres", tmp_path)
    evidence.check_nothing_was_lost(layout, place, where="journal.db")
    HistoryWriter(place).close()
    evidence.check_nothing_was_lost(layout, place, where="journal.db")
    run_sql(place, "UPDATE cursor SET seq = 7")
    with pytest.raises(CorruptJournalError, match=r"goes to entry 7\..* move the schemas xce_hist"):
        evidence.check_nothing_was_lost(layout, place, where="journal.db")
    away = PostgresHistory(PostgresTarget(f"postgresql://xce@/xce?host={tmp_path}"))
    with pytest.raises(CorruptJournalError, match="the history cannot tell: postgresql://xce@/xce"):
        evidence.check_nothing_was_lost(layout, away, where="journal.db")
