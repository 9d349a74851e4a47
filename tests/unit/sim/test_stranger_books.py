"""What is said of attempts that a restored journal lacks, against what runs."""

from types import SimpleNamespace

import pytest

from xce.model.config import ClusterConfig, HostConfig
from xce.model.entry import Cause, Entry
from xce.model.host_record import HostsOpened, HostUp, PartsLeft, StrangersGone, StrangersSeen
from xce.model.record import BulkPlaced, ConfigApplied, GangPlaced
from xce.sim.stranger_books import StrangerBooks
from xce.sim.untrue import UntrueError

KEY = (7, 0, 2)
UP = HostUp(0, "boot-1", 4, 8_192)
SEEN = StrangersSeen(0, [7], [0], [2])
SHUT = HostsOpened([0], False, "quarantined")


class Forms:
    lost = {KEY}  # noqa: RUF012 - never changed


class Truth:
    """A host on which an attempt runs that the journal has lost."""

    forms = Forms()

    def __init__(self):
        self.strangers, self.given_up = {KEY: "h1"}, set()
        self.running = {KEY: ("h1", SimpleNamespace(hosts=(("h1", 2),)))}


@pytest.fixture
def books():
    found = StrangerBooks(Truth())
    config = ClusterConfig(hosts=(HostConfig(name="h1"),))
    found.go_back([entry(ConfigApplied(1, config, ("h1",)))])
    return found


def entry(*records):
    return Entry(1, 1, Cause("test", "", ""), records)


def test_strangers_that_are_named_on_a_closed_host_are_in_order(books):
    books.note([entry(UP, SEEN, SHUT)])
    books.note([entry(UP)])
    assert books.named == 1


def test_a_stranger_that_is_not_named_is_complained_of(books):
    with pytest.raises(UntrueError, match="nobody is told"):
        books.note([entry(UP, SHUT)])


def test_a_host_that_stays_open_is_complained_of(books):
    with pytest.raises(UntrueError, match="is open beside"):
        books.note([entry(UP, SEEN)])


def test_a_stranger_is_ended_on_somebodys_word_only(books):
    stale = HostUp(0, "boot-1", 4, 8_192, stale=(KEY,))
    with pytest.raises(UntrueError, match="nobody has said so"):
        books.note([entry(stale)])
    books.note([entry(PartsLeft([0], [7], [0], [2]))])
    books.note([entry(stale)])


def test_what_was_said_to_be_gone_has_to_be_named_again(books):
    books.note([entry(UP, SEEN, SHUT), entry(StrangersGone([0], [7], [0], [2]))])
    with pytest.raises(UntrueError, match="nobody is told"):
        books.note([entry(UP)])


def test_nothing_is_placed_on_a_host_that_was_closed(books):
    books.note([entry(UP, SEEN, SHUT)])
    placed = BulkPlaced(1, [3], [0], [0], [0], [1], 1)
    with pytest.raises(UntrueError, match="closed host"):
        books.note([entry(placed)])
    books.note([entry(HostsOpened([0], True)), entry(placed)])


def test_what_is_taken_up_again_lies_as_it_runs(books):
    books.note([entry(UP, SEEN, SHUT), entry(GangPlaced(1, 7, 0, [0], [2], 1, number=2))])
    with pytest.raises(UntrueError, match="is taken up on"):
        books.note([entry(GangPlaced(1, 7, 0, [0], [1], 1, number=2))])
