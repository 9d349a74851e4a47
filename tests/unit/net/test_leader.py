# ruff: noqa: ASYNC110 - small waits in a loop that does nothing else

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import xce.net.leader
from xce.net.handshake import ConnectionRefusedByPeerError
from xce.net.leader import LeaderClient, tell_changes
from xce.net.message import PROTOCOL, ControllerKeys, Hello, Message, Ping, Pong, Refused, Welcome
from xce.net.peer import Peer
from xce.net.unix import open_unix_server

HELLO = Hello(PROTOCOL, "history", "h", "1")
Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture
def run() -> Run:
    def run_in_loop(story: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(20):
                await story()

        asyncio.run(bounded())

    return run_in_loop


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xce.net.leader, "BEAT_S", 0.1)
    monkeypatch.setattr(xce.net.leader, "DIAL_S", 0.5)


class Server:
    """Answers pings, unless it is mute."""

    def __init__(self, epoch: int = 3) -> None:
        self.answer: Welcome | Refused = Welcome(PROTOCOL, epoch, "c", "1", 0)
        self.peers: list[Peer] = []
        self.is_mute = False

    def accept(self, peer: Peer, hello: Hello) -> Welcome | Refused:
        self.peers.append(peer)

        def take(messages: list[Message]) -> None:
            for message in messages:
                if isinstance(message, Ping) and not self.is_mute:
                    peer.send(Pong(message.number))

        peer.on_messages = take
        peer.on_lost = lambda _: None
        return self.answer


def _name_of(client: LeaderClient) -> str:
    assert isinstance(client.destination, Path)
    return client.destination.name


class Ear:
    """A client among several servers, and what it hears."""

    def __init__(self, *paths: Path) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.client = LeaderClient(
            paths,
            HELLO,
            lambda _, welcome: self.heard.put_nowait(
                f"welcome {welcome.epoch} at {_name_of(self.client)}"
            ),
            lambda messages: self.heard.put_nowait(f"{messages}"),
            lambda reason: self.heard.put_nowait(f"lost: {reason}"),
        )
        self.task = asyncio.create_task(self.client.run())

    async def end(self) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task
        await asyncio.sleep(0.01)


def test_a_client_stays_connected(run: Run, path: Path) -> None:
    async def story() -> None:
        server = Server()
        heard: asyncio.Queue[str] = asyncio.Queue()

        def on_welcome(peer: Peer, welcome: Welcome) -> None:
            heard.put_nowait(f"welcome {welcome.epoch}")
            peer.send(Ping(len(server.peers)))

        task = asyncio.create_task(
            LeaderClient(
                [path],
                HELLO,
                on_welcome,
                lambda messages: heard.put_nowait(f"{messages}"),
                lambda reason: heard.put_nowait(f"lost: {reason}"),
            ).run()
        )
        await asyncio.sleep(0.01)
        listening = await open_unix_server(path, 0o600, server.accept)
        for number in (1, 2):
            assert await heard.get() == "welcome 3"
            assert await heard.get() == f"[Pong(number={number}, beat_us=0)]"
            server.peers[-1].abort("server restarts")
            assert (await heard.get()).startswith("lost: ")
        assert await heard.get() == "welcome 3"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while "client ends" not in await heard.get():
            pass
        await listening.close()

    run(story)


def test_a_client_that_is_refused_may_give_up(run: Run, path: Path) -> None:
    async def story() -> None:
        server = Server()
        server.answer = Refused("wrong cluster")
        refusals: list[str] = []

        def on_refused(text: str) -> None:
            refusals.append(text)
            if len(refusals) == 2:
                raise ConnectionRefusedByPeerError(text)

        listening = await open_unix_server(path, 0o600, server.accept)
        client = LeaderClient([path], HELLO, print, print, print, on_refused=on_refused)
        with pytest.raises(ConnectionRefusedByPeerError, match="wrong cluster"):
            await client.run()
        await asyncio.sleep(0.01)
        await listening.close()

    run(story)


def test_of_several_the_one_that_listens_is_found_and_the_next_one_when_it_ends(
    run: Run, tmp_path: Path, quick: None
) -> None:
    async def story() -> None:
        first, second = Server(1), Server(2)
        ear = Ear(tmp_path / "a", tmp_path / "b")
        listening = await open_unix_server(tmp_path / "a", 0o600, first.accept)
        assert await ear.heard.get() == "welcome 1 at a"
        await listening.close()
        first.peers[0].abort("it dies")
        assert (await ear.heard.get()).startswith("lost: ")
        assert ear.client.destination is None
        listening = await open_unix_server(tmp_path / "b", 0o600, second.accept)
        assert await ear.heard.get() == "welcome 2 at b"
        await ear.end()
        await listening.close()

    run(story)


def test_one_that_was_deposed_and_does_not_know_is_left(
    run: Run, tmp_path: Path, quick: None
) -> None:
    async def story() -> None:
        old, new = Server(1), Server(2)
        ear = Ear(tmp_path / "a", tmp_path / "b")
        b = await open_unix_server(tmp_path / "b", 0o600, new.accept)
        assert await ear.heard.get() == "welcome 2 at b"
        a = await open_unix_server(tmp_path / "a", 0o600, old.accept)
        new.peers[0].abort("it stumbles")
        assert (await ear.heard.get()).startswith("lost: ")
        assert await ear.heard.get() == "welcome 2 at b"
        await ear.end()
        assert old.peers
        await a.close()
        await b.close()

    run(story)


def test_one_that_says_nothing_any_more_is_given_up_and_its_pongs_are_not_told(
    run: Run, tmp_path: Path, quick: None
) -> None:
    async def story() -> None:
        server = Server(1)
        listening = await open_unix_server(tmp_path / "a", 0o600, server.accept)
        ear = Ear(tmp_path / "a", tmp_path / "b")
        assert await ear.heard.get() == "welcome 1 at a"
        await asyncio.sleep(0.8)
        assert ear.heard.empty()
        server.is_mute = True
        assert "nothing was heard" in await ear.heard.get()
        await ear.end()
        await listening.close()

    run(story)


def test_one_that_does_not_answer_holds_nobody_up(run: Run, tmp_path: Path, quick: None) -> None:
    async def story() -> None:
        server = Server(2)

        stopped = socket.socket(socket.AF_UNIX)
        stopped.bind(str(tmp_path / "a"))
        stopped.listen()
        listening = await open_unix_server(tmp_path / "b", 0o600, server.accept)
        ear = Ear(tmp_path / "a", tmp_path / "b")
        assert await ear.heard.get() == "welcome 2 at b"
        await ear.end()
        stopped.close()
        await listening.close()

    run(story)


def test_why_none_of_several_can_be_reached_is_told_once(
    run: Run, tmp_path: Path, quick: None
) -> None:
    async def story() -> None:
        told: list[str] = []
        paths = tmp_path / "a", tmp_path / "b"
        client = LeaderClient(paths, HELLO, print, print, print, on_failed=told.append)
        running = asyncio.create_task(client.run())
        while not told:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert len(told) == 1
        assert f"{paths[0]}: " in told[0]
        assert f"{paths[1]}: " in told[0]
        # Where one of them leads, the silence of the others is as it should be.
        server = Server()
        listening = await open_unix_server(paths[1], 0o600, server.accept)
        while client.destination is None:
            await asyncio.sleep(0.01)
        assert len(told) == 1
        running.cancel()
        await listening.close()

    run(story)


def test_certificates_of_controllers_are_heard_apart(run: Run, path: Path) -> None:
    async def story() -> None:
        server = Server()
        listening = await open_unix_server(path, 0o600, server.accept)
        kept: asyncio.Queue[tuple[bytes, ...]] = asyncio.Queue()
        heard: list[Message] = []
        client = LeaderClient(
            [path], HELLO, lambda *_: None, heard.extend, print, on_controllers=kept.put_nowait
        )
        running = asyncio.create_task(client.run())
        while not server.peers:
            await asyncio.sleep(0.01)
        server.peers[0].send(ControllerKeys((b"one", b"two")))
        assert await kept.get() == (b"one", b"two")
        assert heard == []
        running.cancel()
        await listening.close()

    run(story)


def test_what_goes_on_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    tell = tell_changes(logging.getLogger("test-leader"), "not-reached")
    for why in ("a", "a", "b", "a"):
        tell(why)
    assert [getattr(record, "why", "") for record in caplog.records] == ["a", "b", "a"]
