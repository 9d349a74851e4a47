"""A database whose machine dies without a word: nobody refuses, and nobody ends a connection."""

import signal
import time
from collections.abc import Callable, Iterator

import netns
import pytest
from live import until
from netns import Net, open_net
from postgres import Postgres, find_binaries, open_directory

from xce.journal import postgres_line
from xce.journal.history import HistoryWriter
from xce.journal.history_postgres import PostgresHistory
from xce.journal.history_reader import HistoryReader
from xce.journal.history_store import HistoryAwayError
from xce.journal.postgres_line import PostgresTarget
from xce.testing.builders import cluster, submission, submit

pytestmark = [
    pytest.mark.skipif(find_binaries() is None, reason="there is no PostgreSQL"),
    pytest.mark.skipif(bool(netns.why_not()), reason=netns.why_not()),
]


@pytest.fixture
def net() -> Iterator[Net]:
    with open_net("db", "here") as made:
        yield made


@pytest.fixture
def place(net: Net) -> Iterator[PostgresHistory]:
    """A history in the database of another machine."""
    binaries = find_binaries()
    assert binaries is not None
    with open_directory() as directory:
        server = Postgres(directory, binaries)
        server.make()
        server.set("listen_addresses", net.address["db"])
        with (server.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.99.0.0/24 trust\n")
        net.inside("db", server.start)
        server.make_database("history")
        try:
            yield PostgresHistory(
                PostgresTarget(f"postgresql://xce@{net.address['db']}/history", section="history")
            )
        finally:
            server.stop(signal.SIGKILL)


def does(work: Callable[[], object]) -> bool:
    """Try once; the machine may not have been found again yet."""
    try:
        work()
    except HistoryAwayError:
        return False
    return True


def test_neither_a_commit_nor_a_long_search_waits_for_a_machine_that_is_gone(
    net: Net, place: PostgresHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_line, "GONE_S", 3)
    controller = cluster(["h1"])
    writer = net.inside("here", lambda: HistoryWriter(place))
    reader = HistoryReader(place, is_patient=True)
    search = net.inside("here", reader.search)
    assert search is not None
    submit(controller, submission())
    writer.take(controller.entries, crc=1, epoch=1)
    net.cut("db")
    for question in (writer.commit, reader.seq):
        began = time.monotonic()
        with pytest.raises(HistoryAwayError):
            question()
        assert time.monotonic() - began < 20, "a commit may last 600 s, a search 120 s"
    net.heal("db")
    until(lambda: does(writer.commit) and does(reader.seq), "it is reached again")
    assert reader.seq() == writer.seq > 0
    reader.close()
    writer.close()
