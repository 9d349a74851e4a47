import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from journals import batch, batches

from xce.journal import writer
from xce.journal.interface import Append, EpochLostError, JournalTroubleError
from xce.journal.sqlite import SqliteJournal
from xce.journal.writer import CommitThread


class ScriptedJournal:
    """Stands for a disk that fails as told, and holds a commit up while ``may_commit`` is clear."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        self.outcomes = list(outcomes)
        self.attempts: list[list[int]] = []
        self.may_commit = threading.Event()
        self.may_commit.set()
        self.entered = threading.Semaphore(0)
        self.chores: list[str] = []
        self.is_untidy = False
        self.trims_left = 0

    def append_all(self, epoch: int, appends: Sequence[Append]) -> None:
        self.entered.release()
        assert self.may_commit.wait(5)
        self.attempts.append([append.batch.last for append in appends])
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome

    def trim(self, before: int, *, limit: int = 256) -> bool:
        self.chores.append(f"trim {before}")
        self.trims_left -= 1
        return self.trims_left > 0

    def forget_blobs(self, digests: Sequence[str]) -> None:
        self.chores.append(f"forget {','.join(digests)}")

    def tidy(self) -> None:
        self.chores.append("tidy")
        self.is_untidy = False


class Heard:
    """Callbacks, in order, from whichever thread."""

    def __init__(self) -> None:
        self.queue: queue.Queue[tuple[str, Any]] = queue.Queue()

    def next(self) -> tuple[str, Any]:
        return self.queue.get(timeout=5)

    def thread(self, journal: Any) -> CommitThread:
        def tell(kind: str) -> Callable[[Any], None]:
            return lambda value: self.queue.put((kind, value))

        thread = CommitThread(
            journal,
            epoch=1,
            call_soon=lambda callback, *args: callback(*args),
            on_durable=tell("durable"),
            on_trouble=tell("trouble"),
            on_fatal=tell("fatal"),
        )
        thread.start()
        return thread


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(writer, "RETRY_MAX_S", 0.002)
    monkeypatch.setattr(writer, "IDLE_S", 0.001)


def test_a_batch_is_reported_when_it_is_durable(tmp_path: Path, heard: Heard) -> None:
    journal = SqliteJournal(tmp_path)
    journal.lead("test")
    thread = heard.thread(journal)
    for made in batches(1, 3):
        thread.submit(made)
        assert heard.next() == ("durable", made.last)
        assert journal.stored_seq() == made.last
    assert thread.close(timeout_s=5)
    journal.close()


def test_what_comes_during_a_commit_is_the_next_commit(heard: Heard) -> None:
    journal = ScriptedJournal()
    journal.may_commit.clear()
    thread = heard.thread(journal)
    made = list(batches(1, 1, 1, 1))
    thread.submit(made[0])
    assert journal.entered.acquire(timeout=5)
    for one in made[1:]:
        thread.submit(one)
    journal.may_commit.set()
    assert [heard.next(), heard.next()] == [("durable", 1), ("durable", 4)]
    assert thread.close(timeout_s=5)
    assert journal.attempts == [[1], [2, 3, 4]]


def test_a_group_of_batches_is_one_commit_of_the_database(tmp_path: Path, heard: Heard) -> None:
    journal = SqliteJournal(tmp_path)
    journal.lead("test")
    thread = heard.thread(journal)
    for made in batches(*[2] * 50):
        thread.submit(made)
    assert thread.close(timeout_s=5)
    assert journal.last_seq == 100
    assert [found.last for found in journal.read(1)] == list(range(2, 101, 2))
    journal.close()


def test_a_commit_holds_only_so_much(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_BYTES_MAX", 100)
    journal = ScriptedJournal()
    journal.may_commit.clear()
    thread = heard.thread(journal)
    for made in batches(1, 1, 1, 1, 1):
        thread.submit(made)
    journal.may_commit.set()
    assert thread.close(timeout_s=5)
    assert [seq for attempt in journal.attempts for seq in attempt] == [1, 2, 3, 4, 5]
    assert max(len(attempt) for attempt in journal.attempts) <= 3


def test_trouble_is_told_once_and_the_same_bytes_are_tried_until_they_are_through(
    heard: Heard,
) -> None:
    full = JournalTroubleError("journal.db: database or disk is full")
    journal = ScriptedJournal(full, full, JournalTroubleError("journal.db: disk I/O error"), None)
    thread = heard.thread(journal)
    thread.submit(batch(1, 1, 0))
    assert [heard.next() for _ in range(4)] == [
        ("trouble", "journal.db: database or disk is full"),
        ("trouble", "journal.db: disk I/O error"),
        ("durable", 1),
        ("trouble", ""),
    ]
    assert journal.attempts == [[1]] * 4
    assert thread.close(timeout_s=5)


def test_a_lost_epoch_is_fatal(heard: Heard) -> None:
    lost = EpochLostError("epoch 1 is over")
    thread = heard.thread(ScriptedJournal(lost))
    thread.submit(batch(1, 1, 0))
    assert heard.next() == ("fatal", lost)
    assert thread.close(timeout_s=5)


def test_a_fault_is_fatal_and_not_swallowed(heard: Heard) -> None:
    fault = ZeroDivisionError("a fault")
    thread = heard.thread(ScriptedJournal(fault))
    thread.submit(batch(1, 1, 0))
    assert heard.next() == ("fatal", fault)
    assert thread.close(timeout_s=5)


def test_closing_commits_what_was_handed_in(heard: Heard) -> None:
    journal = ScriptedJournal()
    thread = heard.thread(journal)
    for made in batches(1, 1, 1):
        thread.submit(made)
    assert thread.close(timeout_s=5)
    assert [seq for attempt in journal.attempts for seq in attempt] == [1, 2, 3]


def test_closing_gives_up_while_the_disk_fails(heard: Heard) -> None:
    journal = ScriptedJournal(*[JournalTroubleError("full")] * 100_000)
    thread = heard.thread(journal)
    thread.submit(batch(1, 1, 0))
    assert heard.next() == ("trouble", "full")
    assert thread.close(timeout_s=5)
    assert heard.queue.empty()


def test_a_closed_loop_is_no_fault(heard: Heard) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    journal = ScriptedJournal()
    thread = CommitThread(
        journal,  # type: ignore[arg-type]
        epoch=1,
        call_soon=loop.call_soon_threadsafe,
        on_durable=print,
        on_trouble=print,
        on_fatal=print,
    )
    thread.start()
    for made in batches(1, 1):
        thread.submit(made)
    assert thread.close(timeout_s=5)
    assert journal.attempts


def test_callbacks_come_in_the_thread_of_the_loop(tmp_path: Path) -> None:
    async def commit_one() -> tuple[int, int]:
        done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        journal = SqliteJournal(tmp_path)
        thread = CommitThread(
            journal,
            epoch=journal.lead("test"),
            call_soon=asyncio.get_running_loop().call_soon_threadsafe,
            on_durable=lambda seq: done.set_result((seq, threading.get_ident())),
            on_trouble=done.set_exception,
            on_fatal=done.set_exception,
        )
        thread.start()
        thread.submit(batch(1, 1, 0))
        result = await asyncio.wait_for(done, 5)
        thread.close()
        journal.close()
        return result

    assert asyncio.run(commit_one()) == (1, threading.get_ident())


def test_trimming_waits_for_idle_moments_and_goes_on_until_done(heard: Heard) -> None:
    journal = ScriptedJournal()
    journal.trims_left = 3
    thread = heard.thread(journal)
    thread.trim(50)
    while journal.trims_left > 0:
        pass
    thread.forget_blobs(["ab", "cd"])
    assert thread.close(timeout_s=5)
    assert [chore for chore in journal.chores if chore != "tidy"] == [
        "trim 50",
        "trim 50",
        "trim 50",
        "forget ab,cd",
    ]


def test_an_idle_moment_is_used_to_tidy(heard: Heard) -> None:
    journal = ScriptedJournal()
    journal.is_untidy = True
    thread = heard.thread(journal)
    thread.submit(batch(1, 1, 0))
    while journal.is_untidy:
        pass
    assert thread.close(timeout_s=5)
    assert journal.chores[0] == "tidy"
