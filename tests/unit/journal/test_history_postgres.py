"""What only the history in a database has: one who writes, fencing, connections that end."""

import contextlib
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest
from history_places import DATABASE, make_place, read_rows, run_sql, shared_server

from xce.journal import history_postgres
from xce.journal.history import HistoryWriter
from xce.journal.history_postgres import PostgresHistory, PostgresStore, write_postgres
from xce.journal.history_reader import HistoryReader
from xce.journal.history_search import Search
from xce.journal.history_store import (
    HistoryAwayError,
    HistoryError,
    HistoryHeldError,
    HistoryTakenError,
)
from xce.journal.history_transfer import open_mail
from xce.journal.interface import JournalTroubleError
from xce.journal.mail_spool import MailSpool
from xce.journal.postgres_line import PostgresTarget
from xce.model.mail import ENDS, MailConfig, Notice
from xce.testing.builders import cluster, run_job, submission, submit


@pytest.fixture
def store(tmp_path) -> PostgresHistory:
    place = make_place("postgres", tmp_path)
    assert isinstance(place, PostgresHistory)
    return place


@pytest.fixture
def writer(store) -> Iterator[HistoryWriter]:
    made = HistoryWriter(store)
    yield made
    made.close()


def depose(place):
    """Let the writer's time run out."""
    run_sql(place, "UPDATE writer SET until = 'epoch'")


def history_of(jobs):
    controller = cluster()
    for _ in range(jobs):
        run_job(controller, submit(controller, submission(name="n")))
    return controller


def test_while_one_writes_another_one_is_told_who(store, writer):
    with pytest.raises(HistoryHeldError, match=r"written by .* pid \d+, for \d+\.\d s more"):
        HistoryWriter(store)
    writer.close()
    HistoryWriter(store).close()


def test_one_that_slept_through_its_time_writes_nothing_any_more(store, writer):
    controller = history_of(2)
    half = len(controller.entries) // 2
    writer.take(controller.entries[:half], crc=1, epoch=1)
    writer.commit()
    writer.take(controller.entries[half:], crc=2, epoch=1)
    depose(store)
    other = HistoryWriter(store)
    with pytest.raises(HistoryTakenError, match="another process writes"):
        writer.commit()
    assert other.seq == controller.entries[half - 1].seq
    other.take(controller.entries[half:], crc=2, epoch=1)
    other.commit()
    other.close()
    assert read_rows(store, "SELECT count(*) FROM attempts") == [(2,)]


def test_a_turn_that_could_not_be_given_up_is_not_waited_for_by_who_left_it(
    store, writer, monkeypatch
):
    def refuse(*_, **__):
        raise JournalTroubleError("away")

    monkeypatch.setattr(writer.store.lead._line, "call", refuse)
    writer.close()
    HistoryWriter(store).close()
    other = HistoryWriter(store)
    with pytest.raises(HistoryHeldError):
        HistoryWriter(store)
    other.close()


def wait_until_it_sleeps(store, writing):
    """Wait until a thread's transaction has come to its ``pg_sleep``, and so to its locks."""
    sleeps = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    while writing.is_alive() and not read_rows(store, sleeps):
        pass


def test_a_takeover_waits_for_a_commit_that_is_under_way(store, writer):
    """Whatever the one who is deposed writes is there before the next one reads."""
    text = (
        "BEGIN; SELECT 1 FROM xce_history.writer FOR KEY SHARE; SELECT pg_sleep(1.5);"
        " UPDATE xce_history.cursor SET seq = 7; COMMIT"
    )
    depose(store)
    writing = threading.Thread(
        target=shared_server().sql, args=(text,), kwargs={"database": DATABASE}
    )
    writing.start()
    wait_until_it_sleeps(store, writing)
    other = HistoryWriter(store)
    writing.join()
    assert other.seq == 7
    other.close()


def test_a_takeover_that_waits_too_long_leaves_nobody_waiting(store, writer, monkeypatch):
    text = "BEGIN; SELECT 1 FROM xce_history.writer FOR KEY SHARE; SELECT pg_sleep(3); COMMIT"
    depose(store)
    writing = threading.Thread(
        target=shared_server().sql, args=(text,), kwargs={"database": DATABASE}
    )
    writing.start()
    wait_until_it_sleeps(store, writing)
    monkeypatch.setattr(history_postgres, "POINT_S", 0.3)
    with pytest.raises(HistoryAwayError):
        HistoryWriter(store)
    waits = "SELECT 1 FROM pg_locks WHERE NOT granted"
    while read_rows(store, waits) and writing.is_alive():
        pass
    assert writing.is_alive()
    writing.join()


def test_a_commit_whose_answer_was_lost_is_not_done_twice(store, writer, monkeypatch):
    controller = history_of(1)
    writer.take(controller.entries, crc=1, epoch=1)
    real, lost = PostgresStore.commit, HistoryAwayError("the answer was lost")

    def commit(self, steps, *, claim=None):
        real(self, list(steps), claim=claim)
        raise lost

    monkeypatch.setattr(PostgresStore, "commit", commit)
    with pytest.raises(HistoryAwayError):
        writer.commit()
    monkeypatch.undo()
    assert writer.has_news
    writer.commit()
    assert not writer.has_news
    assert read_rows(store, "SELECT count(*) FROM attempts") == [(1,)]


def test_one_that_took_more_before_it_tried_again_begins_anew(store, writer, monkeypatch):
    """What came through cannot be told from another writer's: the cursor tells how to go on."""
    controller = history_of(2)
    half = len(controller.entries) // 2
    writer.take(controller.entries[:half], crc=1, epoch=1)
    real = PostgresStore.commit

    def commit(self, steps, *, claim=None):
        real(self, list(steps), claim=claim)
        raise HistoryAwayError("the answer was lost")

    monkeypatch.setattr(PostgresStore, "commit", commit)
    with pytest.raises(HistoryAwayError):
        writer.commit()
    monkeypatch.undo()
    writer.take(controller.entries[half:], crc=2, epoch=1)
    with pytest.raises(HistoryTakenError):
        writer.commit()
    writer.close()
    again = HistoryWriter(store)
    again.take(controller.entries[half:], crc=2, epoch=1)
    again.commit()
    again.close()
    assert read_rows(store, "SELECT count(*) FROM attempts") == [(2,)]
    assert read_rows(store, "SELECT count(*) FROM jobs") == [(2,)]


def test_a_lost_connection_is_made_anew(store, writer):
    controller = history_of(1)
    reader = HistoryReader(store)
    assert reader.job(1) is None
    writer.take(controller.entries, crc=1, epoch=1)
    shared_server().sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name LIKE 'xce history%'"
    )
    # None, where the end of the connection was noticed before.
    with contextlib.suppress(HistoryAwayError):
        writer.commit()
    writer.commit()
    with contextlib.suppress(HistoryAwayError):
        reader.job(1)
    until = threading.Event()
    until.wait(history_postgres.QUIET_S)
    assert reader.job(1).is_finished
    reader.close()


def test_a_database_that_is_away_is_told_apart_from_one_that_is_not_there(tmp_path):
    away = PostgresHistory(PostgresTarget(f"postgresql://xce@/xce?host={tmp_path}"))
    with pytest.raises(HistoryAwayError, match=str(tmp_path)):
        HistoryReader(away).job(1)
    with pytest.raises(HistoryAwayError):
        HistoryWriter(away)
    wrong = PostgresHistory(PostgresTarget(shared_server().dsn("none")))
    for ask in (HistoryWriter, lambda place: HistoryReader(place).job(1)):
        with pytest.raises(HistoryError, match=r'database "none" does not exist') as caught:
            ask(wrong)
        assert not isinstance(caught.value, HistoryAwayError)


def test_a_password_that_is_not_there_is_told_with_the_key_of_the_configuration(tmp_path):
    target = PostgresTarget(
        "postgresql://xce@db/xce", password_file=str(tmp_path / "none"), section="history"
    )
    with pytest.raises(HistoryError, match=r"history\.password_file: .*none cannot be read"):
        HistoryReader(PostgresHistory(target)).job(1)


def test_the_history_of_another_cluster_is_refused(store, writer):
    writer.close()
    other = PostgresHistory(store.target, "other")
    for ask in (HistoryWriter, lambda place: HistoryReader(place).job(1)):
        with pytest.raises(HistoryError, match="holds the history of cluster 'xce', and here"):
            ask(other)
    run_sql(store, "UPDATE xce_history.writer SET cluster = 'other'")
    HistoryWriter(other).close()


def test_a_database_of_another_encoding_is_refused():
    server = shared_server()
    server.sql("DROP DATABASE IF EXISTS latin")
    server.sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(HistoryError, match="has the encoding LATIN1; UTF8 is needed"):
        HistoryWriter(PostgresHistory(PostgresTarget(server.dsn("latin"))))


def test_a_schema_that_was_made_for_us_is_used(store):
    shared_server().sql("CREATE SCHEMA xce_history", database=DATABASE)
    assert HistoryReader(store).job(1) is None
    HistoryWriter(store).close()


def test_two_that_begin_together_make_the_tables_once(store):
    faults, made = [], []

    def begin():
        try:
            made.append(HistoryWriter(store))
        except HistoryError as error:
            faults.append(error)

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(fault) for fault in faults] == [HistoryHeldError] * 3
    made[0].close()


def test_a_text_with_a_character_that_the_database_cannot_have_is_kept(store, writer):
    controller = cluster()
    job = submit(controller, submission(name="a\0b"))
    writer.take(controller.entries, crc=1, epoch=1)
    writer.commit()
    assert read_rows(store, "SELECT name FROM jobs") == [("a\N{SYMBOL FOR NULL}b",)]
    reader = HistoryReader(store)
    assert reader.job(job).spec.name == "a\0b"
    assert reader.search().find_jobs(Search(name="a\0b"), 0, 9) == [job]
    reader.close()


@pytest.mark.parametrize("count", [1, 15, 16, 70_000])
@pytest.mark.parametrize("number", [0, 127, 128, 255, 256, 65_535, 65_536, 1 << 33])
def test_hosts_are_found_in_lists_of_any_form(writer, count, number):
    others = [3, 200, 300, 70_000, 1 << 34]
    hosts = [others[place % 5] for place in range(count - 1)] + [number]
    packed = msgspec.msgpack.encode(hosts)
    ask = "SELECT holds_host(?, ?), holds_host(?, ?)"
    assert writer.store.rows(ask, (packed, number, packed, 77)) == [(True, False)]


def test_mail_waits_where_the_history_is_and_leaves_only_as_long_as_we_write(
    store, writer, tmp_path
):
    controller = cluster({"h1": 4}, mail=MailConfig(smtp="localhost:25"))
    wanted = submission()
    spec = msgspec.structs.replace(wanted.spec, notices=int(ENDS))
    job = submit(controller, msgspec.structs.replace(wanted, spec=spec))
    run_job(controller, job)
    spool = MailSpool(open_mail(writer.store, tmp_path / "mail.db"))
    spool.take(controller.entries)
    assert spool.commit()
    assert not (tmp_path / "mail.db").exists()
    (letter,) = spool.due(1 << 62, 9)
    assert (letter.job, letter.notice) == (job, Notice.DONE)
    depose(store)
    other = HistoryWriter(store)
    with pytest.raises(HistoryTakenError):
        spool.leave(letter)
    theirs = MailSpool(open_mail(other.store, tmp_path / "mail.db"))
    assert theirs.seq == controller.state.seq
    assert [one.job for one in theirs.due(1 << 62, 9)] == [job]
    for one in (spool, theirs, other):
        one.close()


def test_a_writer_keeps_its_turn_while_it_has_nothing_to_write(store):
    first = write_postgres(store, lease_s=1.5)
    threading.Event().wait(2.5)
    with pytest.raises(HistoryHeldError):
        HistoryWriter(store)
    first.close()


def test_a_renewal_does_not_take_back_what_was_given_up(store):
    first = write_postgres(store, lease_s=0.3)
    depose(store)  # as `close` does; a renewal may be on its way
    threading.Event().wait(0.5)
    HistoryWriter(store).close()
    first.close()


def test_closing_leaves_no_thread_behind(store):
    before = {thread.name for thread in threading.enumerate()}
    writer, reader = HistoryWriter(store), HistoryReader(store)
    reader.job(1)
    for one in (writer, reader, writer):
        one.close()
    assert {thread.name for thread in threading.enumerate()} == before


def test_a_question_that_takes_too_long_is_ended_in_the_database_too(store, writer, monkeypatch):
    monkeypatch.setattr(history_postgres, "POINT_S", 0.2)
    reader = history_postgres.read_postgres(store)
    with pytest.raises(HistoryAwayError):
        reader.rows("SELECT count(*) FROM generate_series(1, 1000000000)")
    running = (
        "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND pid != pg_backend_pid()"
        " AND query LIKE '%generate_series%'"
    )
    until = time.monotonic() + 60
    while read_rows(store, running) and time.monotonic() < until:
        pass
    assert read_rows(store, running) == []
    reader.close()
