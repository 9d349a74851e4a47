"""A journal being written, a server, and followers that come, fall behind and are cut off."""

import asyncio
import random
from pathlib import Path

from journals import batch

from xce.journal.codec import decode_batch
from xce.journal.interface import StoredBatch
from xce.journal.sqlite import SqliteJournal
from xce.journal.writer import CommitThread
from xce.net.follow import AskAgain, Began, Came, Follower, FollowerFeed, IsLive
from xce.net.frame import encode_frame
from xce.net.leader import LeaderClient
from xce.net.message import (
    PROTOCOL,
    Batch,
    CaughtUp,
    Follow,
    Hello,
    Message,
    SnapshotPart,
    Welcome,
)
from xce.net.peer import Peer
from xce.net.unix import open_unix_server

BATCHES = 1500
FOLLOWERS = 3


class Server:
    """The part of a controller that writes and feeds."""

    def __init__(self, directory: Path) -> None:
        self.journal = SqliteJournal(directory)
        self.epoch = self.journal.lead("test")
        self.peers: set[Peer] = set()
        self.feeds: dict[Peer, FollowerFeed] = {}
        self.on_their_way: list[StoredBatch] = []
        self.finished = asyncio.Event()
        self.commits = CommitThread(
            self.journal,
            epoch=self.epoch,
            call_soon=asyncio.get_running_loop().call_soon_threadsafe,
            on_durable=self.tell,
            on_trouble=print,
            on_fatal=print,
        )
        self.commits.start()

    def accept(self, peer: Peer, hello: Hello) -> Welcome:
        def take(messages: list[Message]) -> None:
            for message in messages:
                assert isinstance(message, Follow)
                # A window so small that everybody falls behind now and then.
                self.feeds[peer] = FollowerFeed(
                    self.journal, message, epoch=self.epoch, window_bytes=20_000
                )
                self.feed(peer)

        def lose(reason: str) -> None:
            self.peers.discard(peer)
            self.feeds.pop(peer, None)

        self.peers.add(peer)
        peer.on_messages = take
        peer.on_lost = lose
        peer.on_writable = lambda: self.feed(peer)
        return Welcome(PROTOCOL, self.epoch, "test", hello.version, self.journal.last_seq)

    def feed(self, peer: Peer) -> None:
        feed = self.feeds.get(peer)
        if feed is not None and peer.is_open:
            for message in feed.next_messages(peer.buffered_bytes):
                peer.send(message)

    def tell(self, durable: int) -> None:
        while self.on_their_way and self.on_their_way[0].last <= durable:
            stored = self.on_their_way.pop(0)
            frame = encode_frame(Batch(stored.first, stored.last, stored.content))
            for peer, feed in self.feeds.items():
                if feed.takes_live(stored.first, stored.last, peer.buffered_bytes):
                    peer.send_raw(frame)
                elif not feed.is_live:
                    self.feed(peer)
        if not self.on_their_way:
            self.finished.set()

    async def write(self, chance: random.Random) -> None:
        seq = crc = 0
        for number in range(BATCHES):
            made = batch(seq + 1, seq + chance.randint(1, 3), crc, padding=chance.choice([1, 900]))
            seq, crc = made.last, made.crc
            self.finished.clear()
            self.on_their_way.append(made)
            self.commits.submit(made)
            if number % 20 == 0:
                await asyncio.sleep(0.001)
            if number == BATCHES // 2:
                await self.finished.wait()
                self.journal.store_snapshot(seq, crc, [b"%d" % seq, b"half"])
                self.commits.trim(seq)
            if chance.random() < 0.01 and self.peers:
                min(self.peers, key=id).abort("chaos")
        await self.finished.wait()


class Reader:
    """A follower whose state is the numbers applied."""

    def __init__(self) -> None:
        self.follower = Follower(decode_batch)
        self.state: list[int] = []
        self.begun = 0
        self.live_at = 0

    def run(self, path: Path, name: str) -> asyncio.Task[None]:
        peers: list[Peer] = []

        def on_welcome(peer: Peer, welcome: Welcome) -> None:
            peers[:] = [peer]
            peer.send(self.follower.follow(welcome.epoch))

        def on_messages(messages: list[Message]) -> None:
            for message in messages:
                assert isinstance(message, SnapshotPart | Batch | CaughtUp)
                for step in self.follower.take(message):
                    match step:
                        case Began(seq, _):
                            self.begun += 1
                            self.state = list(range(1, seq + 1))
                        case Came(entries):
                            self.state += [entry.seq for entry in entries]
                        case IsLive(seq):
                            self.live_at = seq
                        case AskAgain(_, why):
                            raise AssertionError(why)

        return asyncio.create_task(
            LeaderClient(
                [path], Hello(PROTOCOL, "history", name, "1"), on_welcome, on_messages, str
            ).run()
        )


async def follow_through(directory: Path, seed: int) -> None:
    server = Server(directory / "journal")
    path = directory / "s"
    listening = await open_unix_server(path, 0o600, server.accept)
    readers = [Reader() for _ in range(FOLLOWERS)]
    tasks = [reader.run(path, str(number)) for number, reader in enumerate(readers)]
    await server.write(random.Random(seed))
    late = Reader()
    readers.append(late)
    tasks.append(late.run(path, "late"))
    last = server.journal.last_seq
    while any(reader.follower.seq < last for reader in readers):  # noqa: ASYNC110 - a test waits
        await asyncio.sleep(0.01)
    for reader in readers:
        assert reader.state == list(range(1, last + 1))
        assert reader.live_at > 0
    assert late.begun == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await listening.close()
    server.commits.close()
    server.journal.close()


def test_every_follower_ends_with_every_entry_once_in_order(tmp_path: Path) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await follow_through(tmp_path, seed=5)

    asyncio.run(bounded())
