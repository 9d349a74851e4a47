"""However often a database fails, the history has each entry once."""

import asyncio
import contextlib
import logging
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from xce.daemon import history
from xce.daemon.history import HistoryKeeper
from xce.journal.codec import FIRST_CRC, encode_batch
from xce.journal.history import HistoryWriter
from xce.journal.history_schema import KEYS
from xce.journal.history_store import HistoryAwayError, HistoryTakenError
from xce.journal.mail_spool import MailSpool
from xce.model.entry import Entry
from xce.net.message import Batch, Welcome
from xce.testing.builders import (
    cluster,
    kill,
    place,
    report_started,
    run_job,
    submission,
    submit,
)

NUMBERED = ("events", "audit")


class Failing:
    """A store that fails now and then: before it does something, or when that is done."""

    def __init__(self, store: Any, dice: random.Random, chance: float) -> None:
        self._rows, self._commit = store.rows, store.commit
        self._dice, self._chance = dice, chance
        store.rows, store.commit = self.rows, self.commit

    def rows(self, *given: Any) -> Any:
        self._maybe_fail()
        return self._rows(*given)

    def commit(self, *given: Any, **named: Any) -> bool:
        self._maybe_fail()
        done: bool = self._commit(*given, **named)
        self._maybe_fail()
        return done

    def _maybe_fail(self) -> None:
        if self._dice.random() < self._chance:
            raise HistoryAwayError("now and then")


class Peer:
    """Hears nothing of what it is told."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: None


def lived(dice: random.Random) -> list[Entry]:
    """Return the entries of a cluster that has had some jobs."""
    controller = cluster({"h1": 99})
    for number in range(20):
        job = submit(controller, submission(name=f"n{number % 3}"))
        match dice.randrange(4):
            case 0:
                kill(controller, job)
            case 1:
                place(controller, job)
                report_started(controller, job)
            case _:
                run_job(controller, job)
    return controller.entries


async def keep(entries: list[Entry], path: Path, dice: random.Random, chance: float) -> None:
    """Keep a history of entries, as a daemon does that begins anew whenever it cannot go on."""
    while True:
        with contextlib.closing(HistoryWriter(path)) as writer:
            spool = MailSpool(path.with_name("mail.db"))
            keeper = HistoryKeeper(writer, logging.getLogger("faults"), spool, lambda: None)
            Failing(writer.store, dice, chance)
            keeper.welcome(Peer(), Welcome(1, 1, "xce", "0", 0))  # type: ignore[arg-type]
            await tell(entries, writer.seq, keeper, dice)
            while not keeper.failed.done() and writer.seq < len(entries):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await asyncio.sleep(2 * history.GATHER_S)  # what was begun before it failed
            await keeper.settle()
            spool.close()
            if not keeper.failed.done():
                return
            assert isinstance(keeper.failed.result(), HistoryAwayError | HistoryTakenError)


async def tell(entries: list[Entry], upto: int, keeper: HistoryKeeper, dice: random.Random) -> None:
    """Tell a keeper all entries behind ``upto``, some at a time."""
    crc = encode_batch(entries[:upto], FIRST_CRC)[1] if upto else FIRST_CRC
    while upto < len(entries):
        some = entries[upto : upto + dice.randint(1, 6)]
        content, crc = encode_batch(some, crc)
        keeper.take([Batch(some[0].seq, some[-1].seq, content)])
        upto += len(some)
        await asyncio.sleep(dice.choice((0.0, 0.0, 0.001, 0.004)))


def stored(path: Path) -> dict[str, list[Any]]:
    """Return all rows; those that are numbered as they come, without their numbers."""
    with contextlib.closing(sqlite3.connect(path)) as base:
        return {
            table: [
                row[1:] if table in NUMBERED else row
                for row in base.execute(f"SELECT * FROM {table} ORDER BY {', '.join(columns)}")
            ]
            for table, columns in {**KEYS, "cursor": ("seq",)}.items()
        }


@pytest.mark.parametrize("seed", range(4))
def test_a_history_whose_database_fails_now_and_then_is_as_any_other(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "GATHER_S", 0.002)
    monkeypatch.setattr(history, "RETRY_S", 0.001)
    logging.getLogger("faults").setLevel(logging.CRITICAL)
    dice = random.Random(seed)
    entries = lived(dice)
    for name, chance in (("whole", 0.0), ("failing", 0.12)):
        (tmp_path / name).mkdir()
        asyncio.run(asyncio.wait_for(keep(entries, tmp_path / name / "h.db", dice, chance), 60))
    assert stored(tmp_path / "failing" / "h.db") == stored(tmp_path / "whole" / "h.db")
