import asyncio
import logging
import sqlite3
import threading

import pytest

from xce.daemon import history
from xce.daemon.history import HistoryKeeper
from xce.journal.codec import encode_batch
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.journal.history_store import HistoryAwayError, HistoryHeldError, HistoryTakenError
from xce.journal.mail_spool import MailSpool
from xce.net.message import (
    Batch,
    CaughtUp,
    Follow,
    FollowedTo,
    Ping,
    Pong,
    SnapshotPart,
    Welcome,
)
from xce.state.snapshot import dump
from xce.testing.builders import cluster, run_job, submit

LOG = logging.getLogger("test-history")


class FakePeer:
    def __init__(self):
        self.sent = []
        self.calls = []

    def send(self, message):
        self.sent.append(message)

    def __getattr__(self, name):
        return lambda *_: self.calls.append(name)


def batch(entries, before=0):
    content, crc = encode_batch(entries, before)
    return Batch(entries[0].seq, entries[-1].seq, content), crc


def tell(story, path):
    async def run():
        writer = HistoryWriter(path)
        spool = MailSpool(path.parent / "mail.db")
        keeper = HistoryKeeper(writer, LOG, spool, lambda: None)
        peer = FakePeer()
        keeper.welcome(peer, Welcome(1, 1, "xce", "0", 0))
        try:
            await story(keeper, writer, peer)
        finally:
            writer.close()
            spool.close()

    asyncio.run(run())


def test_it_tells_how_far_it_came_only_when_that_is_stored(tmp_path):
    controller = cluster()
    job = submit(controller)
    run_job(controller, job)

    async def story(keeper, writer, peer):
        assert peer.sent == [Follow(0, 0)]
        keeper.take([batch(controller.entries)[0]])
        assert peer.sent == [Follow(0, 0)]
        keeper.commit()
        assert peer.sent[-1] == FollowedTo(controller.state.seq)
        keeper.commit()
        assert len(peer.sent) == 2

    tell(story, tmp_path / "h.db")
    reader = HistoryReader(tmp_path / "h.db")
    assert reader.job(job).is_finished
    reader.close()

    async def again(keeper, writer, peer):
        crc = batch(controller.entries)[1]
        assert peer.sent == [Follow(1, controller.state.seq, crc)]

    tell(again, tmp_path / "h.db")


def test_it_begins_with_a_snapshot_when_it_begins_late(tmp_path):
    controller = cluster()
    job = submit(controller)
    parts = dump(controller.state)

    async def story(keeper, writer, peer):
        seq = controller.state.seq
        keeper.take([SnapshotPart(seq, n, len(parts), p) for n, p in enumerate(parts)])
        keeper.take([CaughtUp(seq)])
        keeper.commit()
        assert peer.sent[-1] == FollowedTo(seq)
        assert not keeper.failed.done()

    tell(story, tmp_path / "h.db")
    reader = HistoryReader(tmp_path / "h.db")
    assert reader.job(job) is not None
    reader.close()


def test_a_snapshot_in_the_middle_of_a_history_is_a_loss_and_ends_it(tmp_path):
    controller = cluster()
    submit(controller)

    async def story(keeper, writer, peer):
        keeper.take([batch(controller.entries)[0]])
        keeper.commit()
        parts = dump(controller.state)
        keeper.take([SnapshotPart(99, n, len(parts), p) for n, p in enumerate(parts)])
        assert "is lost" in str(keeper.failed.result())

    tell(story, tmp_path / "h.db")

    async def anew(keeper, writer, peer):
        keeper.take([CaughtUp(0)])
        assert "begins anew" in str(keeper.failed.result())

    tell(anew, tmp_path / "h.db")


def test_a_damaged_stream_makes_it_dial_again_behind_what_is_stored(tmp_path):
    controller = cluster()
    submit(controller)
    half = len(controller.entries) - 1

    async def story(keeper, writer, peer):
        first, crc = batch(controller.entries[:half])
        second, _ = batch(controller.entries[half:], crc)
        keeper.take([first])
        keeper.take([Batch(second.first, second.last, second.content[:-1] + b"\0")])
        assert "close" in peer.calls
        assert peer.sent[-1] == FollowedTo(first.last)
        keeper.lose("closed")
        fresh = FakePeer()
        keeper.welcome(fresh, Welcome(1, 1, "xce", "0", 0))
        assert fresh.sent == [Follow(1, first.last, crc)]
        keeper.take([second])
        keeper.commit()
        assert fresh.sent[-1] == FollowedTo(second.last)

    tell(story, tmp_path / "h.db")


def test_a_full_disk_stops_the_reading_until_there_is_room(tmp_path, monkeypatch):
    controller = cluster()

    async def story(keeper, writer, peer):
        other = sqlite3.connect(tmp_path / "h.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writer.store.connection.execute("PRAGMA busy_timeout = 1")
        keeper.take([batch(controller.entries)[0]])
        keeper.commit()
        assert peer.calls == ["pause_reading"]
        other.execute("ROLLBACK")
        other.close()
        keeper.commit()
        assert peer.calls == ["pause_reading", "resume_reading"]
        assert peer.sent[-1] == FollowedTo(controller.state.seq)

    tell(story, tmp_path / "h.db")


class Waiting:
    """Stands before a writer's commit until it is let go on."""

    def __init__(self, writer):
        self.began, self.go_on = threading.Event(), threading.Event()
        self._real = writer.commit
        writer.commit = self

    def __call__(self):
        self.began.set()
        assert self.go_on.wait(10)
        self._real()


async def until(holds):
    while not holds():  # noqa: ASYNC110 - nobody would set an event
        await asyncio.sleep(0.002)


def test_while_it_stores_the_controller_is_answered_and_what_comes_waits(tmp_path):
    controller = cluster()
    job = submit(controller)
    half = len(controller.entries)
    run_job(controller, job)

    async def story(keeper, writer, peer):
        waiting = Waiting(writer)
        first, crc = batch(controller.entries[:half])
        second, _ = batch(controller.entries[half:], crc)
        keeper.take([first])
        await until(waiting.began.is_set)
        keeper.take([second, Ping(7)])
        assert peer.sent[-1] == Pong(7)
        assert writer.seq == 0
        waiting.go_on.set()
        await until(lambda: peer.sent[-1] == FollowedTo(second.last))
        assert peer.calls == ["pause_reading", "resume_reading"] * 2
        await keeper.settle()

    tell(story, tmp_path / "h.db")


def test_what_waits_of_a_lost_connection_is_dropped_since_it_comes_again(tmp_path):
    controller = cluster()
    submit(controller)
    half = len(controller.entries) - 1

    async def story(keeper, writer, peer):
        waiting = Waiting(writer)
        first, crc = batch(controller.entries[:half])
        second, _ = batch(controller.entries[half:], crc)
        keeper.take([first])
        await until(waiting.began.is_set)
        keeper.take([second])
        keeper.lose("closed")
        fresh = FakePeer()
        keeper.welcome(fresh, Welcome(1, 1, "xce", "0", 0))
        assert fresh.sent == [Follow(1, first.last, crc)]
        keeper.take([second])
        waiting.go_on.set()
        await until(lambda: fresh.sent[-1] == FollowedTo(second.last))
        assert not keeper.failed.done()
        await keeper.settle()

    tell(story, tmp_path / "h.db")


def test_one_whose_turn_was_taken_ends_and_is_not_tried_again(tmp_path):
    controller = cluster()

    async def story(keeper, writer, peer):
        def commit():
            raise HistoryTakenError("another one")

        writer.commit = commit
        keeper.take([batch(controller.entries)[0]])
        assert isinstance(await keeper.failed, HistoryTakenError)
        assert keeper._timer is None

    tell(story, tmp_path / "h.db")


def test_a_fault_of_ours_ends_it_and_does_not_leave_it_deaf(tmp_path, caplog):
    controller = cluster()

    async def story(keeper, writer, peer):
        def commit():
            raise KeyError("nobody expects it")

        writer.commit = commit
        keeper.take([batch(controller.entries)[0]])
        assert "KeyError: 'nobody expects it'" in str(await keeper.failed)
        assert caplog.records[-1].exc_info

    tell(story, tmp_path / "h.db")


@pytest.mark.parametrize("ends_in", ["controller", "spool", "writer"])
def test_of_entries_that_could_not_be_taken_whole_nothing_is_stored(tmp_path, ends_in):
    controller = cluster()
    job = submit(controller)
    half = len(controller.entries)
    run_job(controller, job)
    submit(controller)
    first, crc = batch(controller.entries[:half])
    second, _ = batch(controller.entries[half:], crc)

    async def story(keeper, writer, peer):
        def fail(*_):
            raise HistoryAwayError("away")

        keeper.take([first])
        if ends_in == "controller":
            keeper._follower.take = fail
        elif ends_in == "spool":
            keeper._spool._take = fail
        else:
            writer._name = fail  # Is asked in the middle of the rows.
        keeper.take([second])
        assert isinstance(keeper.failed.result(), HistoryAwayError)
        keeper.take([second])
        await asyncio.sleep(history.GATHER_S * 1.2)
        assert (writer.seq, keeper._storing) == (0, None)

    tell(story, tmp_path / "h.db")

    async def again(keeper, writer, peer):
        keeper.take([first, second])
        keeper.commit()
        assert peer.sent[-1] == FollowedTo(controller.state.seq)

    tell(again, tmp_path / "h.db")


@pytest.mark.parametrize(
    ("trouble", "told"),
    [(HistoryHeldError("h2 writes"), "standing-by"), (HistoryAwayError("away"), "history-away")],
)
def test_a_store_that_is_written_or_away_is_waited_for_and_told_once(
    tmp_path, monkeypatch, caplog, trouble, told
):
    tries = []

    def open_one(place):
        tries.append(place)
        if len(tries) < 4:
            raise trouble
        return HistoryWriter(place)

    monkeypatch.setattr(history, "HistoryWriter", open_one)
    monkeypatch.setattr(history, "RETRY_S", 0.01)
    caplog.set_level(logging.INFO)

    async def run():
        writer = await history.open_writer(tmp_path / "h.db", LOG, asyncio.Event())
        assert writer.seq == 0
        writer.close()
        stop = asyncio.Event()
        stop.set()
        assert await history.open_writer(tmp_path / "h.db", LOG, stop) is None

    asyncio.run(run())
    assert [record.message for record in caplog.records] == [told]
