"""What only the journal in a database has: a lease, fencing, connections that end."""

import contextlib
import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from journals import batch, batches
from live import until
from postgres import Postgres, open_directory, open_postgres

from xce.journal.interface import (
    EpochLostError,
    JournalHeldError,
    JournalRefusedError,
    JournalTroubleError,
)
from xce.journal.postgres import PostgresJournal
from xce.journal.postgres_line import PostgresTarget
from xce.journal.postgres_reader import open_postgres_reader
from xce.journal.verify import verify_journal
from xce.model.errors import CorruptJournalError


@pytest.fixture
def made() -> Iterator[list[PostgresJournal]]:
    journals: list[PostgresJournal] = []
    yield journals
    for journal in journals:
        journal.close()


def open_journal(
    made: list[PostgresJournal], target: PostgresTarget, lease_s: float = 30.0
) -> PostgresJournal:
    journal = PostgresJournal(target, lease_s=lease_s)
    made.append(journal)
    return journal


def depose(server: Postgres, target: PostgresTarget) -> None:
    """Let the lease run out."""
    server.sql(
        "UPDATE xce_lead SET until = 'epoch'", database=target.dsn.split("/")[3].split("?")[0]
    )


def until_it_sleeps(server: Postgres, database: str) -> None:
    """Wait until somebody has come to the ``pg_sleep`` of his transaction."""
    query = f"FROM pg_stat_activity WHERE datname = '{database}' AND wait_event = 'PgSleep'"
    until(lambda: server.sql(f"SELECT 1 {query}"), "the transaction is under way")


def test_a_lease_that_ran_out_may_be_taken_and_the_old_leader_writes_nothing(
    server: Postgres, target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    old, new = open_journal(made, target), open_journal(made, target)
    epoch = old.lead("c1")
    first, second = batches(1, 1)
    old.append(epoch, first)
    with pytest.raises(JournalHeldError, match=r"led by c1 on .* pid \d+, for [23]\d\.\d s more"):
        new.lead("c2")
    depose(server, target)
    assert new.lead("c2") == epoch + 1
    assert (new.last_seq, new.last_crc) == (1, first.crc)
    for _ in range(2):
        with pytest.raises(EpochLostError, match="another controller took over"):
            old.append(epoch, second, [("aa", b"1")])
    assert new.stored_seq() == 1
    assert new.blob_digests() == []
    new.append(epoch + 1, second)


def test_a_lead_is_kept_by_renewing_and_given_up_by_closing(
    target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    leader, other = open_journal(made, target, 2.0), open_journal(made, target, 2.0)
    lost: list[EpochLostError] = []
    leader.lead("c1")
    leader.keep_lead(lost.append)
    time.sleep(3)
    with pytest.raises(JournalHeldError):
        other.lead("c2")
    assert lost == []
    leader.close()
    assert other.lead("c2") == 2


def test_a_leader_learns_that_it_was_deposed_without_writing(
    server: Postgres, target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    leader, other = open_journal(made, target, 0.6), open_journal(made, target)
    told = threading.Event()
    leader.lead("c1")
    depose(server, target)
    other.lead("c2")
    leader.keep_lead(lambda _: told.set())
    assert told.wait(30)


def test_an_append_waits_for_a_takeover_that_is_under_way_and_then_fails(
    server: Postgres, target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    leader = open_journal(made, target)
    epoch = leader.lead("c1")
    (one,) = batches(1)
    name = target.dsn.split("/")[3].split("?")[0]
    text = (
        "BEGIN; SELECT 1 FROM xce_lead FOR UPDATE; SELECT pg_sleep(1);"
        " UPDATE xce_lead SET epoch = epoch + 1; COMMIT"
    )
    taking = threading.Thread(target=server.sql, args=(text,), kwargs={"database": name})
    taking.start()
    until_it_sleeps(server, name)
    with pytest.raises(EpochLostError):
        leader.append(epoch, one)
    taking.join()
    assert leader.stored_seq() == 0


def test_a_lead_that_is_given_up_is_not_told_as_lost_however_long_that_takes(
    server: Postgres, target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    leader = open_journal(made, target, 0.3)
    lost: list[EpochLostError] = []
    leader.lead("c1")
    leader.keep_lead(lost.append)
    name = target.dsn.split("/")[3].split("?")[0]
    text = "BEGIN; SELECT 1 FROM xce_lead FOR UPDATE; SELECT pg_sleep(2); COMMIT"
    holding = threading.Thread(target=server.sql, args=(text,), kwargs={"database": name})
    holding.start()
    until_it_sleeps(server, name)
    leader.close()
    holding.join()
    assert lost == []


def test_a_renewal_does_not_take_back_what_was_given_up(
    server: Postgres, target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    leader = open_journal(made, target, 0.3)
    leader.lead("c1")
    leader.keep_lead(lambda _: None)
    depose(server, target)  # as `close` does; a renewal may be on its way
    time.sleep(0.5)
    assert open_journal(made, target).lead("c2") == 2


def test_renewing_does_not_wait_for_an_append(
    server: Postgres, target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    leader = open_journal(made, target, 2.0)
    leader.lead("c1")
    lost: list[EpochLostError] = []
    name = target.dsn.split("/")[3].split("?")[0]
    appending = threading.Thread(
        target=server.sql,
        args=("BEGIN; SELECT 1 FROM xce_lead FOR KEY SHARE; SELECT pg_sleep(4); COMMIT",),
        kwargs={"database": name},
    )
    appending.start()
    leader.keep_lead(lost.append)
    until_it_sleeps(server, name)
    time.sleep(2.5)
    with pytest.raises(JournalHeldError):
        open_journal(made, target).lead("c2")
    appending.join()
    assert lost == []


def test_a_lost_connection_is_trouble_at_most_and_the_same_append_goes_through(
    server: Postgres, target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    journal = open_journal(made, target)
    epoch = journal.lead("c1")
    first, second = batches(1, 1)
    journal.append(epoch, first)
    assert journal.stored_seq() == 1
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name LIKE 'xce c%'"
    )
    # None, where the end of the connection was noticed before the append began.
    with contextlib.suppress(JournalTroubleError):
        journal.append(epoch, second)
    journal.append(epoch, second)
    assert [one.last for one in journal.read(1)] == [1, 2]


def test_a_damaged_blob_is_found_and_mended_by_storing_it_again(
    server: Postgres, target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    journal = open_journal(made, target)
    epoch = journal.lead("c1")
    first, second = batches(1, 1)
    blob = (hashlib.blake2b(b"script", digest_size=16).hexdigest(), b"script")
    journal.append(epoch, first, [blob, blob])
    name = target.dsn.split("/")[3].split("?")[0]
    server.sql("UPDATE xce_blobs SET content = 'scrip'", database=name)
    assert verify_journal(journal).damaged_blobs == (blob[0],)
    journal.append(epoch, second, [blob, blob])
    assert journal.blob(blob[0]) == b"script"
    assert verify_journal(journal).is_good


def test_a_commit_whose_answer_was_lost_is_settled_by_reading(
    server: Postgres, target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    """The leader does not know that it was stored, as after a connection that died."""
    journal = open_journal(made, target)
    epoch = journal.lead("c1")
    first, second = batches(1, 1)
    journal.append(epoch, first, [("aa", b"1")])
    journal.last_seq, journal.last_crc = 0, 0
    journal.append(epoch, first, [("aa", b"1")])
    assert journal.last_seq == 1
    journal.append(epoch, second)


def test_an_outage_longer_than_the_lease_ends_the_leader(made: list[PostgresJournal]) -> None:
    with open_postgres() as server:
        target = PostgresTarget(server.make_database("xce"))
        journal = open_journal(made, target, 0.5)
        lost: list[EpochLostError] = []
        told = threading.Event()

        def note(error: EpochLostError) -> None:
            lost.append(error)
            told.set()

        epoch = journal.lead("c1")
        journal.keep_lead(note)
        server.stop(signal.SIGKILL)
        with pytest.raises(JournalTroubleError):
            journal.append(epoch, batch(1, 1, 0))
        with pytest.raises(JournalTroubleError):
            journal.stored_seq()
        assert told.wait(15)
        assert "the lead could not be renewed" in str(lost[0])


def test_a_standby_that_was_promoted_has_all_that_was_acknowledged(
    made: list[PostgresJournal],
) -> None:
    with open_postgres() as first, open_directory() as place:
        second = Postgres(place, first.binaries)
        target = first.make_database("xce")
        second.copy_from(first, "s2")
        first.set("synchronous_standby_names", "s2")
        first.reload()
        second.start()
        both = PostgresTarget(f"postgresql://xce@/xce?host={first.directory},{second.directory}")
        assert target.endswith(str(first.directory))
        try:
            journal = open_journal(made, both)
            epoch = journal.lead("c1")
            *some, last = batches(*[1] * 20)
            for one in some:
                journal.append(epoch, one)
            first.stop(signal.SIGKILL)
            with pytest.raises(JournalTroubleError):
                journal.append(epoch, last)
            second.promote()
            deadline = time.monotonic() + 20
            while True:
                try:
                    journal.append(epoch, last)
                    break
                except JournalTroubleError:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            assert [one.last for one in journal.read(1)] == list(range(1, 21))
        finally:
            second.stop(signal.SIGKILL)


def test_a_password_is_read_from_a_file_or_the_environment(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pw").write_text("geheim\nmore\n")
    assert PostgresTarget("d", password_file=str(tmp_path / "pw")).password() == "geheim"
    monkeypatch.setenv("DB_PW", "secret")
    assert PostgresTarget("d", password_env="DB_PW").password() == "secret"
    monkeypatch.delenv("DB_PW")
    assert PostgresTarget("d").password() is None
    with pytest.raises(JournalRefusedError, match="DB_PW is not set"):
        PostgresTarget("d", password_env="DB_PW").password()
    with pytest.raises(JournalRefusedError, match="cannot be read"):
        PostgresTarget("d", password_file=str(tmp_path / "none")).password()


def test_a_database_that_is_not_there_is_refused_not_waited_for(server: Postgres) -> None:
    with pytest.raises(JournalRefusedError, match='database "none" does not exist'):
        open_postgres_reader(PostgresTarget(server.dsn("none")))


def test_a_database_without_a_journal_and_one_of_a_newer_release_are_named(
    server: Postgres, target: PostgresTarget, made: list[PostgresJournal]
) -> None:
    with pytest.raises(CorruptJournalError, match="there is no journal"):
        open_postgres_reader(target)
    open_journal(made, target).lead("c1")
    name = target.dsn.split("/")[3].split("?")[0]
    server.sql("UPDATE xce_schema SET version = 2", database=name)
    with pytest.raises(CorruptJournalError, match="newer release"):
        open_postgres_reader(target)
    with pytest.raises(CorruptJournalError, match="newer release"):
        open_journal(made, target).lead("c2")


def test_closing_leaves_no_thread_behind(target: PostgresTarget) -> None:
    before = {thread.name for thread in threading.enumerate()}
    journal = PostgresJournal(target)
    journal.lead("c1")
    journal.keep_lead(lambda _: os._exit(9))
    journal.close()
    journal.close()
    assert {thread.name for thread in threading.enumerate()} == before
