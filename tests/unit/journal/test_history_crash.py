"""A writer that is killed in the middle: what is there is whole, and comes once."""

import contextlib
import subprocess
import sys
from pathlib import Path

import history_writer
import pytest
from history_places import read_rows, run_sql

from xce.journal.history import HistoryWriter
from xce.journal.history_place import HistoryPlace, place_text
from xce.journal.history_reader import HistoryReader
from xce.journal.history_search import START, Search
from xce.journal.history_store import HistoryError

JOBS = 60


def told(place: HistoryPlace) -> tuple[object, ...]:
    """Return all that can be asked of a history."""
    reader = HistoryReader(place)
    with contextlib.closing(reader):
        search = reader.search()
        assert search is not None
        courses = [reader.course(job) for job in range(1, JOBS + 1)]
        return courses, search.usage(Search(), START, 999), search.sums(Search())


def write_until_killed(place: HistoryPlace, upto: int) -> None:
    """Let a process write, and kill it when it has stored some more."""
    words = [sys.executable, history_writer.__file__, place_text(place), str(JOBS)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= upto:
                process.kill()
                return


def test_after_any_kill_a_history_goes_on_and_has_everything_once(
    store: HistoryPlace, tmp_path: Path
) -> None:
    entries = history_writer.make_entries(JOBS)
    for upto in (len(entries) // 3, len(entries) * 2 // 3):
        write_until_killed(store, upto)
        if not isinstance(store, Path):
            # As if the time of the one that died had run out.
            run_sql(store, "UPDATE writer SET until = 'epoch'")
    writer = HistoryWriter(store)
    assert writer.seq >= len(entries) * 2 // 3
    writer.take([entry for entry in entries if entry.seq > writer.seq], crc=1, epoch=1)
    writer.commit()
    writer.close()
    whole = tmp_path / "whole.db"
    writer = HistoryWriter(whole)
    writer.take(entries, crc=1, epoch=1)
    writer.commit()
    writer.close()
    assert told(store) == told(whole)
    double = "SELECT job FROM events GROUP BY job, first, at_us, kind HAVING count(*) > 1"
    assert read_rows(store, double) == read_rows(whole, double)


@pytest.mark.parametrize("value", [1 << 63, -(1 << 70), "a\ud800"])
@pytest.mark.parametrize("count", [2, 50])
def test_a_value_that_no_database_has_is_an_error_and_nothing_is_stored(store, value, count):
    """However many rows there are: many go another way than few."""
    insert = "INSERT INTO withdrawn VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    row = (0, 0, 0, "ann", 0, 1, 0, "ann", "q")
    place, column = (4, "by") if isinstance(value, str) else (1, "first")
    rows = [[job, *row] for job in range(count)]
    rows[-1][place] = value
    with contextlib.closing(HistoryWriter(store)) as writer:
        with pytest.raises(HistoryError):
            writer.store.commit([(insert, rows)])
        assert writer.store.rows("SELECT count(*) FROM withdrawn") == [(0,)]
        question = f"SELECT job FROM withdrawn WHERE {column} = ?"
        with pytest.raises(HistoryError):
            writer.store.rows(question, (value,))
        assert writer.store.commit([(insert, rows[:-1])])
