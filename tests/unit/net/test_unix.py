"""Real sockets between two ends in one loop, on asyncio and on uvloop."""

# ruff: noqa: ASYNC110, ASYNC240 - small waits and file names in a loop that does nothing else

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import uvloop

from xce.net import handshake, unix
from xce.net.frame import WireError, encode_frame
from xce.net.handshake import ConnectionRefusedByPeerError, DialError
from xce.net.message import PROTOCOL, Batch, Hello, Message, Ping, Pong, Refused, Welcome
from xce.net.peer import Peer
from xce.net.unix import dial_unix, open_unix_server

HELLO = Hello(PROTOCOL, "worker", "h1", "0.1.0")
WELCOME = Welcome(PROTOCOL, 3, "demo", "0.1.0", 17)
Run: TypeAlias = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_in_loop(story: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(20):
                await story()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(bounded())

    return run_in_loop


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.sock"


class Server:
    """Welcomes everybody, answers pings, keeps what it sees."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.hellos: list[Hello] = []
        self.received: list[Message] = []
        self.lost: asyncio.Queue[str] = asyncio.Queue()
        self.answer: Welcome | Refused = WELCOME

    def accept(self, peer: Peer, hello: Hello) -> Welcome | Refused:
        self.peers.append(peer)
        self.hellos.append(hello)

        def take(messages: list[Message]) -> None:
            self.received += messages
            for message in messages:
                if isinstance(message, Ping):
                    peer.send(Pong(message.number))

        peer.on_messages = take
        peer.on_lost = self.lost.put_nowait
        return self.answer


class Client:
    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.lost: asyncio.Queue[str] = asyncio.Queue()

    def take(self, messages: list[Message]) -> None:
        for message in messages:
            self.messages.put_nowait(message)

    async def dial(self, path: Path, hello: Hello = HELLO, **more: Any) -> tuple[Peer, Welcome]:
        return await dial_unix(
            path, hello, on_messages=self.take, on_lost=self.lost.put_nowait, **more
        )


def test_a_peer_is_welcomed_and_talks(run: Run, path: Path) -> None:
    async def story() -> None:
        server, client = Server(), Client()
        listening = await open_unix_server(path, 0o600, server.accept)
        peer, welcome = await client.dial(path)
        assert welcome == WELCOME
        assert server.hellos == [HELLO]
        for number in range(3):
            peer.send(Ping(number))
        assert [await client.messages.get() for _ in range(3)] == [Pong(0), Pong(1), Pong(2)]
        peer.close()
        assert await server.lost.get() == "closed by the other side"
        assert await client.lost.get() == "closed here"
        await listening.close()
        assert not path.exists()

    run(story)


def test_the_kernel_says_who_dials(run: Run, path: Path) -> None:
    async def story() -> None:
        server, client = Server(), Client()
        listening = await open_unix_server(path, 0o600, server.accept)
        peer, _ = await client.dial(path)
        assert (server.peers[0].pid, server.peers[0].uid) == (os.getpid(), os.geteuid())
        assert server.peers[0].gid == os.getegid()
        peer.close()
        await server.lost.get()
        await listening.close()

    run(story)


def test_the_socket_has_the_mode_asked_for(run: Run, path: Path) -> None:
    async def story() -> None:
        listening = await open_unix_server(path, 0o640, Server().accept)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        await listening.close()

    run(story)


def test_large_messages_arrive_whole(run: Run, path: Path) -> None:
    async def story() -> None:
        server, client = Server(), Client()
        listening = await open_unix_server(path, 0o600, server.accept)
        peer, _ = await client.dial(path)
        large = Batch(1, 2, os.urandom(20_000_000))
        server.peers[0].send(large)
        server.peers[0].send(Ping(9))
        assert server.peers[0].buffered_bytes > 20_000_000
        assert await client.messages.get() == large
        assert await client.messages.get() == Ping(9)
        peer.close()
        await server.lost.get()
        await listening.close()

    run(story)


def test_back_pressure_comes_and_goes(run: Run, path: Path) -> None:
    async def story() -> None:
        server, client = Server(), Client()
        listening = await open_unix_server(path, 0o600, server.accept)
        peer, _ = await client.dial(path)
        behind = server.peers[0]
        peer.pause_reading()
        behind.send(Batch(1, 2, bytes(8_000_000)))
        while behind.writable.is_set():
            await asyncio.sleep(0)
        peer.resume_reading()
        await behind.writable.wait()
        assert isinstance(await client.messages.get(), Batch)
        peer.close()
        await server.lost.get()
        await listening.close()

    run(story)


def test_messages_right_behind_the_welcome_are_not_lost(run: Run, path: Path) -> None:
    async def story() -> None:
        server, client = Server(), Client()

        def accept(peer: Peer, hello: Hello) -> Welcome | Refused:
            asyncio.get_running_loop().call_soon(peer.send, Ping(1))
            asyncio.get_running_loop().call_soon(peer.send, Ping(2))
            return server.accept(peer, hello)

        listening = await open_unix_server(path, 0o600, accept)
        peer, _ = await client.dial(path)
        server.peers[0].send(Ping(3))
        assert [await client.messages.get() for _ in range(3)] == [Ping(1), Ping(2), Ping(3)]
        peer.close()
        await server.lost.get()
        await listening.close()

    run(story)


def test_an_end_right_behind_the_welcome_is_told(run: Run, path: Path) -> None:
    async def story() -> None:
        server, client = Server(), Client()

        def accept(peer: Peer, hello: Hello) -> Welcome | Refused:
            asyncio.get_running_loop().call_soon(peer.send, Ping(1))
            asyncio.get_running_loop().call_soon(peer.close)
            return server.accept(peer, hello)

        listening = await open_unix_server(path, 0o600, accept)
        await client.dial(path)
        assert await client.messages.get() == Ping(1)
        assert await client.lost.get() == "closed by the other side"
        await listening.close()

    run(story)


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (
            Hello(9, "worker", "h1", "9.0"),
            "protocol 9 of version 9.0 is not spoken here: prot",
        ),
        (Hello(PROTOCOL, "thief", "h1", "0.1.0"), "no role is called 'thief'; known are: apiserv"),
        (Hello(PROTOCOL, "worker", "double", "0.1.0"), "another worker is called double"),
    ],
)
def test_a_refused_peer_is_told_why(run: Run, path: Path, hello: Hello, why: str) -> None:
    async def story() -> None:
        server, client = Server(), Client()
        server.answer = Refused("another worker is called double")
        listening = await open_unix_server(path, 0o600, server.accept)
        with pytest.raises(ConnectionRefusedByPeerError, match=why):
            await client.dial(path, hello)
        assert client.lost.empty()
        await asyncio.sleep(0.01)
        await listening.close()

    run(story)


async def raw_answer(path: Path, content: bytes) -> bytes:
    """Send bytes to a server and return all that it says until it closes."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(content)
    said = b""
    with contextlib.suppress(ConnectionResetError):
        said = await reader.read()
    writer.close()
    return said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (encode_frame(Ping(1)), encode_frame(Refused("a Ping came where a Hello belongs"))),
        (b"GET / HTTP/1.1\r\n\r\n", b""),
        (encode_frame(Batch(1, 1, bytes(100_000))), b""),
    ],
    ids=["no hello", "http", "a large frame from a stranger"],
)
def test_who_does_not_say_hello_is_cut_off(
    run: Run, path: Path, content: bytes, said: bytes
) -> None:
    async def story() -> None:
        server = Server()
        listening = await open_unix_server(path, 0o600, server.accept)
        assert await raw_answer(path, content) == said
        assert server.hellos == []
        await listening.close()

    run(story)


def test_who_says_nothing_is_cut_off(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.02)

    async def story() -> None:
        listening = await open_unix_server(path, 0o600, Server().accept)
        assert await raw_answer(path, b"") == b""
        await listening.close()

    run(story)


def test_other_users_are_refused(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        listening = await open_unix_server(path, 0o666, Server().accept)
        path.parent.chmod(0o755)
        with pytest.raises(ConnectionRefusedByPeerError, match=r"user \d+ may not connect here"):
            await Client().dial(path)
        await asyncio.sleep(0.01)
        await listening.close()

    class Stranger:
        """The credentials of a user that is neither ours nor root."""

        size = 12

        @staticmethod
        def unpack(content: bytes) -> tuple[int, int, int]:
            return (1, os.geteuid() + 12345, 1)

    monkeypatch.setattr(unix, "_CREDENTIALS", Stranger)
    run(story)


def test_nobody_listening_is_a_dial_error(run: Run, path: Path) -> None:
    async def story() -> None:
        with pytest.raises(DialError, match="No such file"):
            await Client().dial(path)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        with pytest.raises(DialError, match="refused"):
            await Client().dial(path)

    run(story)


def test_a_server_that_does_not_answer_is_a_dial_error(run: Run, path: Path) -> None:
    async def story() -> None:
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.bind(str(path))
            deaf.listen()
            with pytest.raises(DialError, match=r"no answer within 0\.02 s"):
                await Client().dial(path, timeout_s=0.02)

    run(story)


def test_a_server_that_closes_or_talks_nonsense_is_a_dial_error(run: Run, path: Path) -> None:
    async def story() -> None:
        for content, why in ((b"", "closed by|lost"), (encode_frame(Pong(1)), "with Pong")):

            async def answer(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes = content
            ) -> None:
                await reader.read(1)
                writer.write(said)
                writer.close()

            server = await asyncio.start_unix_server(answer, str(path))
            client = Client()
            with pytest.raises(DialError, match=why):
                await client.dial(path)
            assert client.lost.empty()
            server.close()
            path.unlink(missing_ok=True)

    run(story)


def test_a_stale_socket_is_replaced(run: Run, path: Path) -> None:
    async def story() -> None:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        listening = await open_unix_server(path, 0o600, Server().accept)
        peer, _ = await Client().dial(path)
        peer.close()
        await asyncio.sleep(0.01)
        await listening.close()

    run(story)


def test_a_place_that_is_in_use_is_refused(run: Run, path: Path) -> None:
    async def story() -> None:
        listening = await open_unix_server(path, 0o600, Server().accept)
        with pytest.raises(WireError, match="another process listens there already"):
            await open_unix_server(path, 0o600, Server().accept)
        await listening.close()
        path.write_text("a file")
        with pytest.raises(WireError, match="it is not a socket"):
            await open_unix_server(path, 0o600, Server().accept)
        long = path.parent / ("x" * 200)
        with pytest.raises(WireError, match="path too long"):
            await open_unix_server(long, 0o600, Server().accept)

    run(story)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_process_of_another_user_is_refused(run: Run, path: Path) -> None:
    dial = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534);"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(1000))"
    )

    async def story() -> None:
        for place in path.parents:
            # Ours down from the directory that all tests of this user share.
            if place.stat().st_uid != os.geteuid() or place.stat().st_mode & 0o1000:
                break
            place.chmod(0o755)
        listening = await open_unix_server(path, 0o666, Server().accept)
        try:
            found = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", dial, str(path)],
                capture_output=True,
                check=False,
                timeout=60,
            )
        finally:
            await listening.close()
        assert b"user 65534 may not connect here: only 0 and root may" in found.stdout, found

    run(story)
