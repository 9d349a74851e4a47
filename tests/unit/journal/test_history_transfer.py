"""A whole history, and the mail that waits, from one store to another."""

import contextlib
import sqlite3

import msgspec
import pytest
from history_places import make_place, read_rows, run_sql

from xce.journal.history import HistoryWriter
from xce.journal.history_place import open_for_writing
from xce.journal.history_reader import HistoryReader
from xce.journal.history_schema import KEYS
from xce.journal.history_store import HistoryAwayError, HistoryError, HistoryHeldError
from xce.journal.history_transfer import (
    copy_file_of,
    copy_store,
    is_empty,
    move_history,
    open_mail,
    tally_store,
)
from xce.journal.mail_spool import MailSpool
from xce.model.config import QueueConfig
from xce.model.mail import ENDS, MailConfig
from xce.testing.builders import (
    cluster,
    gang,
    kill,
    modify,
    place,
    propose,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
)


@pytest.fixture
def controller():
    """A cluster in which much has happened: each table has a row."""
    queues = (QueueConfig(name="normal", default=True), QueueConfig(name="night"))
    found = cluster({"h1": 4, "h2": 4}, queues=queues, mail=MailConfig(smtp="localhost:25"))
    wanted = submission(name="a\0b")
    spec = msgspec.structs.replace(wanted.spec, notices=int(ENDS))
    run_job(found, submit(found, msgspec.structs.replace(wanted, spec=spec)), exit_code=3)
    array = submit(found, submission(elements="1-9"))
    modify(found, array, (2, 3), run_limit_us=60_000_000)
    place(found, array, 1)
    report_started(found, array, 1)
    kill(found, (array, 1, 1), (array, 5, 6))
    wide = submit(found, submission(tasks=6))
    propose(found, gang(found, wide, hosts={"h1": 3, "h2": 3}))
    report_started(found, wide)
    report_ended(found, wide)
    return found


def fill(store, tmp_path, controller):
    writer = HistoryWriter(store)
    spool = MailSpool(open_mail(writer.store, tmp_path / "mail.db"))
    spool.take(controller.entries)
    spool.commit()
    writer.take(controller.entries, crc=5, epoch=2)
    writer.commit()
    spool.close()
    writer.close()
    run_sql(store, "INSERT INTO details VALUES (1, 0, 'why')")


def other_place(store, tmp_path):
    if store == tmp_path / "history.db":
        return make_place("postgres", tmp_path)
    return tmp_path / "history.db"


def told(store, jobs):
    reader = HistoryReader(store)
    with contextlib.closing(reader):
        return reader.seq(), [reader.course(job) for job in jobs], list(reader.specs())


def test_a_history_and_its_mail_go_on_in_the_other_place(store, tmp_path, controller):
    fill(store, tmp_path, controller)
    jobs, before = sorted(controller.state.jobs), told(store, (1, 2, 3))
    target = other_place(store, tmp_path)
    done = move_history(store, target, tmp_path / "mail.db")
    assert (done.seq, told(target, (1, 2, 3))) == (controller.state.seq, before)
    assert jobs == [1, 2, 3]
    report_ended(controller, 2, 1)
    fresh = [entry for entry in controller.entries if entry.seq > done.seq]
    writer = HistoryWriter(target)
    assert (writer.seq, writer.crc, writer.epoch) == (done.seq, 5, 2)
    writer.take(fresh, crc=6, epoch=2)
    writer.commit()
    spool = MailSpool(open_mail(writer.store, tmp_path / "mail.db"))
    assert [(one.job, one.index) for one in spool.due(1 << 62, 9)] == [(1, 0)]
    spool.take(fresh)
    spool.commit()
    spool.close()
    writer.close()
    numbers = [number for (number,) in read_rows(target, "SELECT number FROM events")]
    assert len(set(numbers)) == len(numbers) > 1
    for table in KEYS:
        assert read_rows(target, f"SELECT count(*) FROM {table}") > [(0,)] or table == "live"


def test_nothing_is_copied_onto_a_history(store, tmp_path, controller):
    fill(store, tmp_path, controller)
    target = other_place(store, tmp_path)
    assert is_empty(target)
    HistoryWriter(target).close()
    assert is_empty(target)
    with contextlib.closing(open_for_writing(target)) as made:
        made.commit([("UPDATE cursor SET seq = 7", [()])])
    assert not is_empty(target)
    with pytest.raises(HistoryError, match="there is a history already"):
        move_history(store, target, tmp_path / "mail.db")


def test_a_history_that_is_written_in_a_database_is_not_moved(tmp_path, controller):
    store = make_place("postgres", tmp_path)
    writer = HistoryWriter(store)
    with pytest.raises(HistoryHeldError):
        move_history(store, tmp_path / "history.db", tmp_path / "mail.db")
    writer.close()


def test_a_copy_into_a_file_is_what_there_was_beside_its_writer(store, tmp_path, controller):
    assert copy_file_of(store, tmp_path / "none.db") == 0
    fill(store, tmp_path, controller)
    writer = HistoryWriter(store)
    assert copy_file_of(store, tmp_path / "copy.db") == controller.state.seq
    writer.close()
    assert told(tmp_path / "copy.db", (1, 2, 3)) == told(store, (1, 2, 3))


def test_what_is_read_as_a_whole_is_so_while_others_write(store, tmp_path, controller):
    fill(store, tmp_path, controller)
    reader = HistoryReader(store)
    opened = reader._reading()
    before = tally_store(opened)
    with opened.whole():
        assert tally_store(opened) == before
        run_sql(store, "DELETE FROM events")
        assert tally_store(opened) == before
    assert tally_store(opened).rows < before.rows
    reader.close()


def test_a_whole_reading_whose_connection_was_lost_is_worth_nothing(tmp_path, controller):
    store = make_place("postgres", tmp_path)
    fill(store, tmp_path, controller)
    reader = HistoryReader(store)
    opened = reader._reading()

    def read_on():
        with opened.whole():
            opened._line.drop()
            opened.rows("SELECT 1")

    with pytest.raises(HistoryAwayError, match="lost meanwhile"):
        read_on()
    reader.close()


def test_a_copy_that_fails_leaves_nothing(store, tmp_path, controller):
    fill(store, tmp_path, controller)
    target = other_place(store, tmp_path)
    with (
        contextlib.closing(open_for_writing(store)) as source,
        contextlib.closing(open_for_writing(target)) as made,
    ):
        real, count = source.rows, [0]

        def rows(statement, values=()):
            count[0] += 1
            if count[0] == 12:
                raise HistoryAwayError("gone")
            return real(statement, values)

        source.rows = rows
        with pytest.raises((HistoryAwayError, sqlite3.Error)):
            copy_store(source, made)
        assert made.rows("SELECT seq FROM cursor") == [(0,)]
        assert made.rows("SELECT count(*) FROM jobs") == [(0,)]
