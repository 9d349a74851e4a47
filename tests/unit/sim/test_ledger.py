"""The books refuse what cannot follow."""

import pytest

from xce.model import host_record as h
from xce.model import record as r
from xce.model.config import ClusterConfig, HostConfig, PoolConfig
from xce.model.entry import Cause, Entry
from xce.model.job import ArraySpec, EndCause, JobSpec, Owner, Stop
from xce.model.request import Amount, ClassKey, Request
from xce.sim.ledger import Ledger
from xce.sim.ledger_rows import ENDED, HELD, LIVE, PENDING
from xce.sim.untrue import BooksError

OWNER = Owner("alice", 1, 1)
CONFIG = ClusterConfig(
    hosts=(HostConfig(name="h1", slots=2, mem_mib=1_000), HostConfig(name="h2", slots=2)),
    pools=(PoolConfig(name="tokens", total=1),),
)


class Books:
    """A ledger that is given records one by one."""

    def __init__(self, request: Request | None = None, array: ArraySpec | None = None) -> None:
        self.ledger = Ledger()
        self.seq = 0
        self.give(r.ConfigApplied(1, CONFIG, ("h1", "h2")))
        self.give(h.HostUp(0, "boot", 2, 1_000), h.HostUp(1, "boot", 2, 1_000))
        self.give(r.SpecStored(1, JobSpec(name="", command="true", script="")))
        self.give(r.ClassStored(1, ClassKey(request or Request(), "normal", "alice"), ""))
        self.give(r.JobSubmitted(1, 1, 1, OWNER, 0, array=array))

    def give(self, *records: r.Record) -> None:
        self.seq += 1
        self.ledger.note([Entry(self.seq, self.seq, Cause("test"), records)])

    def place(self, host: int = 0, index: int = 0, job: int = 1) -> None:
        self.give(r.BulkPlaced(1, [job], [index], [index], [host], [1], 0))

    def end(self, attempt: int = 1) -> None:
        columns = [[0]] * 9
        self.give(r.Ended([1], [0], [attempt], *columns))

    def where(self, index: int = 0) -> str:
        return self.ledger.jobs[1].elements[index].place


def test_a_life_is_kept() -> None:
    books = Books()
    books.give(r.Held([1], [0], [0]))
    assert books.where() == HELD
    books.give(r.Unheld([1], [0], [0]))
    books.place()
    assert books.where() == LIVE
    assert books.ledger.used["h1", "slots"] == 1
    books.give(r.Requeued([1], [0]))
    assert books.where() == PENDING
    books.place(host=1)
    books.end(attempt=2)
    assert books.where() == ENDED
    assert not any(books.ledger.used.values())
    books.give(r.Reopened([1], [0], [0], EndCause.NONE, "alice"))
    books.place()
    books.end(attempt=3)
    books.give(r.JobsForgotten([1]))
    assert books.ledger.last_attempt(1, 0) == 3


def twice(books: Books) -> None:
    books.place()
    books.place()


def ends_twice(books: Books) -> None:
    books.place()
    books.end()
    books.end()


def old_attempt(books: Books) -> None:
    books.place()
    books.give(r.Requeued([1], [0]))
    books.place()
    books.end(attempt=1)


def while_down(books: Books) -> None:
    books.give(h.HostDown(0))
    books.place()


def beside_stale(books: Books) -> None:
    books.give(h.HostDown(0))
    books.give(h.HostUp(0, "boot", 2, 1_000, stale=((7, 0, 1),)))
    books.place()


def lost_while_up(books: Books) -> None:
    books.give(h.HostsLost([0], [1]))


def lives_on_lost(books: Books) -> None:
    books.place()
    books.give(h.HostDown(0))
    books.give(h.HostsLost([0], [1]))


def forgotten_early(books: Books) -> None:
    books.give(r.JobsForgotten([1]))


def key_used_twice(books: Books) -> None:
    books.give(r.KeyUsed("alice", "k", 0, [1]))
    books.give(r.KeyUsed("alice", "k", 0, [2]))


def old_id(books: Books) -> None:
    books.give(r.JobSubmitted(1, 1, 1, OWNER, 0))


def skipped_entry(books: Books) -> None:
    books.seq += 1
    books.place()


def withdrawn_live(books: Books) -> None:
    books.place()
    books.give(r.Withdrawn([1], [0], [0], EndCause.NONE, "alice", 0))


@pytest.mark.parametrize(
    ("story", "what"),
    [
        (twice, "is placed and was live"),
        (ends_twice, "ends and was ended"),
        (old_attempt, "attempt 1 of 1[0] ends, not the last"),
        (while_down, "which is not there"),
        (beside_stale, "is placed beside"),
        (lost_while_up, "is up and given up"),
        (lives_on_lost, "lives on lost host"),
        (forgotten_early, "has not ended"),
        (key_used_twice, "made jobs 1 and 2"),
        (old_id, "job 1 comes behind 1"),
        (skipped_entry, "comes behind"),
        (withdrawn_live, "is withdrawn and was live"),
    ],
)
def test_what_cannot_be_is_refused(story, what: str) -> None:
    with pytest.raises(BooksError) as complaint:
        story(Books())
    assert what in str(complaint.value)


@pytest.mark.parametrize(
    "amount", [Amount("mem", 600), Amount("tokens", 1, "job"), None], ids=["mem", "pool", "slots"]
)
def test_nothing_is_given_out_twice(amount: Amount | None) -> None:
    amounts = (amount,) if amount else ()
    books = Books(Request(amounts=amounts), ArraySpec(((1, 4, 1),)))
    books.place(index=1)

    def place_more() -> None:
        for index in (2, 3):
            books.place(index=index)

    with pytest.raises(BooksError, match="are given out"):
        place_more()


def test_who_wants_to_be_alone_is() -> None:
    books = Books(Request(exclusive=True), ArraySpec(((1, 2, 1),)))
    books.place(index=1)
    with pytest.raises(BooksError, match="shares host"):
        books.place(index=2)


def test_an_array_keeps_its_limit() -> None:
    books = Books(array=ArraySpec(((1, 4, 1),), 1))
    books.place(index=1)
    with pytest.raises(BooksError, match="2 elements of job 1 are live"):
        books.place(host=1, index=2)


def test_who_waits_for_something_is_not_placed() -> None:
    books = Books()
    books.give(r.JobSubmitted(2, 1, 1, OWNER, 0, begin_at_us=9))
    with pytest.raises(BooksError, match="waits for something"):
        books.place(job=2)
    books = Books()
    books.give(r.JobSubmitted(2, 1, 1, OWNER, 0, begin_at_us=9))
    books.give(r.JobsReleased([2], from_dependency=False))
    books.place(job=2)


def test_who_gives_way_gives_slots_and_takes_them_back() -> None:
    books = Books()
    books.place()
    books.give(r.StopsChanged([1], [0], [0], Stop.PREEMPTED, is_on=True))
    assert books.ledger.used["h1", "slots"] == 1
    books.give(r.SuspensionDone([1], [0], suspended=True))
    assert books.ledger.used["h1", "slots"] == 0
    books.give(r.StopsChanged([1], [0], [0], Stop.PREEMPTED, is_on=False))
    assert books.ledger.used["h1", "slots"] == 1


def test_amounts_come_back_in_their_order() -> None:
    amounts = (Amount("mem", 300), Amount("mem", 200, "task", 5), Amount("mem", 100, "task", 9))
    books = Books(Request(amounts=amounts))
    books.place()
    seen = [books.ledger.used["h1", "mem"]]
    for stage in (1, 2):
        books.give(r.AmountsReturned([1], [0], [stage]))
        seen.append(books.ledger.used["h1", "mem"])
    assert seen == [600, 400, 300]
    books.end()
    assert books.ledger.used["h1", "mem"] == 0


def test_a_requeue_with_hold_is_held() -> None:
    books = Books()
    books.place()
    books.give(r.EndDecided([1], [0], [0], EndCause.NONE, "a", False, 0, requeue=True, hold=True))
    books.give(r.Requeued([1], [0]))
    assert books.where() == HELD
