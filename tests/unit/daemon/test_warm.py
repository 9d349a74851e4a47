"""What a follower reads for itself at a start, and what it does when that is not the truth."""

import logging
from pathlib import Path

from xce.daemon.paths import Layout, open_layout
from xce.daemon.warm import load_warm
from xce.journal.batch import make_batch
from xce.journal.codec import FIRST_CRC
from xce.journal.sqlite import SqliteJournal, open_sqlite_reader
from xce.net.follow import Came, FollowerFeed
from xce.net.message import Batch, CaughtUp
from xce.state.snapshot import digest
from xce.testing.builders import RecordedController, cluster, submission, submit

LOG = logging.getLogger("test-warm")


def stored(directory: Path, controller: RecordedController) -> Layout:
    """Return a state directory whose journal holds what a controller decided."""
    layout = open_layout(directory)
    journal = SqliteJournal(layout.journal)
    epoch = journal.lead("test")
    crc = journal.last_crc or FIRST_CRC
    batch = make_batch(controller.entries[journal.last_seq :], crc_before=crc)
    journal.append(epoch, batch)
    journal.close()
    return layout


def test_the_state_is_that_of_the_journal_and_following_goes_on_behind_it(tmp_path: Path) -> None:
    controller = cluster()
    submit(controller, submission(), submission())
    layout = stored(tmp_path, controller)
    warm = load_warm(layout, LOG)
    assert warm is not None
    assert digest(warm.state) == digest(controller.state)
    submit(controller, submission())
    stored(tmp_path, controller)
    follower = warm.follower()
    journal = open_sqlite_reader(layout.journal)
    feed = FollowerFeed(journal, follower.follow(2), epoch=2)
    first, last = feed.next_messages(0)
    journal.close()
    assert isinstance(first, Batch)
    assert isinstance(last, CaughtUp)
    assert first.first == warm.seq + 1
    (came,) = follower.take(first)
    assert isinstance(came, Came)
    assert [entry.seq for entry in came.entries] == [warm.seq + 1]


def test_a_leader_of_an_earlier_reign_makes_it_begin_anew(tmp_path: Path) -> None:
    controller = cluster()
    layout = stored(tmp_path, controller)
    stored_again = load_warm(layout, LOG)
    assert stored_again is not None
    assert stored_again.epoch == 1
    journal = open_sqlite_reader(layout.journal)
    feed = FollowerFeed(journal, stored_again.follower().follow(0), epoch=0)
    messages = feed.next_messages(0)
    journal.close()
    assert isinstance(messages[0], Batch)
    assert messages[0].first == 1


def test_without_a_journal_or_with_a_damaged_one_it_begins_empty(tmp_path: Path) -> None:
    layout = open_layout(tmp_path / "empty")
    assert load_warm(layout, LOG) is None
    layout = stored(tmp_path / "damaged", cluster())
    layout.journal_file.write_bytes(b"no database at all" * 1000)
    assert load_warm(layout, LOG) is None


def test_where_the_journal_is_in_a_database_nothing_is_read(tmp_path: Path) -> None:
    layout = stored(tmp_path, cluster())
    (layout.config / "xce.yaml").write_text("journal: {postgres: 'postgresql://xce@db1/xce'}\n")
    assert load_warm(layout, LOG) is None
