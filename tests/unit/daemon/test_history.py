import asyncio
import logging
import sqlite3

from xce.daemon.history import HistoryKeeper
from xce.journal.codec import encode_batch
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.journal.mail_spool import MailSpool
from xce.net.message import Batch, CaughtUp, Follow, FollowedTo, SnapshotPart, Welcome
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
        writer._connection.execute("PRAGMA busy_timeout = 1")
        keeper.take([batch(controller.entries)[0]])
        keeper.commit()
        assert peer.calls == ["pause_reading"]
        other.execute("ROLLBACK")
        other.close()
        keeper.commit()
        assert peer.calls == ["pause_reading", "resume_reading"]
        assert peer.sent[-1] == FollowedTo(controller.state.seq)

    tell(story, tmp_path / "h.db")
