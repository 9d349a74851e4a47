"""How many connections one user of this machine may have."""

import asyncio

import pytest
from aiohttp import web

from xce.apiserver import door
from xce.apiserver.door import Crowd, Server


async def serve(request):
    return web.Response(text="here")


async def lives(reader, writer):
    """Return whether a connection is answered; it stays open."""
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return b"here" in await reader.readuntil(b"here")
    except (asyncio.IncompleteReadError, ConnectionError):
        return False


def run(tmp_path, story):
    async def whole():
        runner = web.ServerRunner(Server(serve, access_log=None), shutdown_timeout=1.0)
        await runner.setup()
        path = str(tmp_path / "api.sock")
        await web.UnixSite(runner, path).start()
        writers = []

        async def connect():
            reader, writer = await asyncio.open_unix_connection(path)
            writers.append(writer)
            return reader, writer

        try:
            async with asyncio.timeout(20):
                await story(connect)
        finally:
            for writer in writers:
                writer.close()
            await runner.cleanup()
            await asyncio.sleep(0.05)

    asyncio.run(whole())


@pytest.fixture
def users(monkeypatch):
    """Let three connections of a user be enough; say whose the next ones are."""
    found = [1001]
    monkeypatch.setattr(door, "OF_USER_MAX", 3)
    monkeypatch.setattr(door, "peer_credentials", lambda _: (found[0], found[0]))
    return found


def test_one_user_leaves_room_for_others_and_gets_his_back(tmp_path, users):
    async def story(connect):
        held = [await connect() for _ in range(3)]
        assert [await lives(*one) for one in held] == [True] * 3
        assert not await lives(*await connect())
        users[0] = 1002
        assert await lives(*await connect())
        users[0] = 1001
        held[0][1].close()
        await asyncio.sleep(0.1)
        assert await lives(*await connect())

    run(tmp_path, story)


def test_root_always_gets_in(tmp_path, users):
    async def story(connect):
        users[0] = 0
        assert all([await lives(*await connect()) for _ in range(10)])

    run(tmp_path, story)


def test_a_crowd_is_bounded_in_all_and_of_one():
    crowd = Crowd(5, 3)
    assert [crowd.enter("a") for _ in range(4)] == [True] * 3 + [False]
    assert not crowd.enter("b") or crowd.count <= 5
    for _ in range(4):
        crowd.leave("a")
    crowd.leave("b")
    assert (crowd.count, crowd.connections) == (0, {})
