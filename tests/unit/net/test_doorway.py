"""Real TLS between two ends in one loop, on asyncio and on uvloop: who gets in, and who not."""

# ruff: noqa: ASYNC110 - small waits in a loop that does nothing else

import asyncio
import gc
import os
import socket
import ssl
from collections import Counter
from random import Random

import pytest
import uvloop
from eavesdropper import Recorder

from xce.daemon.key_files import make_key, store_key
from xce.model.address import Address
from xce.net import doorway as doorway_module
from xce.net.doorway import open_doorway
from xce.net.frame import WireError, encode_frame
from xce.net.handshake import ConnectionRefusedByPeerError, DialError
from xce.net.message import PROTOCOL, Enrol, Enrolled, Hello, Ping, Pong, Refused, Welcome
from xce.net.tls import TlsDialler, enrol, make_client_context, make_server_context, trust

HELLO = Hello(PROTOCOL, "worker", "h1", "0.1.0", 1)
WELCOME = Welcome(PROTOCOL, 3, "demo", "0.1.0", 17)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    directory = tmp_path_factory.mktemp("keys")
    directory.chmod(0o700)
    made = {
        name: make_key(role, name)
        for role, name in (("controller", "c"), ("controller", "c2"), ("worker", "h1"),
                           ("worker", "h2"), ("worker", "h1-new"))
    }  # fmt: skip
    return {name: (key, store_key(directory, name, key)) for name, key in made.items()}


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as first:
        first.run(asyncio.sleep(0))  # what a loop keeps for ever is there then
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    def run_in_loop(story):
        complaints = []

        async def bounded():
            # One that a controller has ends it.
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: complaints.append(context)
            )
            async with asyncio.timeout(30):
                await story()
                await asyncio.sleep(0.05)

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(bounded())
        gc.collect()
        assert complaints == []
        assert len(os.listdir("/proc/self/fd")) <= before, "descriptors leak"  # noqa: PTH208

    return run_in_loop


class Front:
    """A listening controller that knows some keys."""

    def __init__(self, keys, trusted=("h1",), **options):
        self.keys = keys
        self.context = make_server_context(keys["c"][1], [keys[n][0].certificate for n in trusted])
        self.refused = Counter()
        self.peers = []
        self.hellos = []
        self.enrolments = []
        self.answer = None
        self.options = options

    async def __aenter__(self):
        self.doorway = await open_doorway(
            Address("127.0.0.1", 0), lambda: self.context, self.accept,
            on_enrol=self.on_enrol, on_refused=self.on_refused, **self.options,
        )  # fmt: skip
        (self.address,) = self.doorway.addresses
        return self

    async def __aexit__(self, *_):
        await self.doorway.close()
        for peer in self.peers:
            peer.abort("over")

    def on_refused(self, why, address):
        self.refused[why] += 1

    def accept(self, peer, hello):
        self.hellos.append((hello, peer.identity, peer.protocol))
        if self.answer is not None:
            return self.answer
        peer.on_messages = lambda messages: [
            peer.send(Pong(message.number)) for message in messages if isinstance(message, Ping)
        ]
        peer.on_lost = lambda _: None
        self.peers.append(peer)
        return WELCOME

    def on_enrol(self, peer, first):
        self.enrolments.append(first)
        peer.send(Enrolled("demo", (self.keys["c"][0].certificate,)))
        peer.close("enrolled")

    async def until(self, holds):
        while not holds(self):
            await asyncio.sleep(0.005)


async def all_of(reader):
    """Return what is said until the end, however that comes."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def dial(front, keys, name="h1", controllers=("c",), hello=HELLO, timeout_s=5.0):
    heard, lost = asyncio.Queue(), asyncio.Queue()
    dialler = TlsDialler(
        front.address, keys[name][1], [keys[item][0].certificate for item in controllers]
    )
    peer, welcome = await dialler.dial(
        hello,
        on_messages=lambda messages: [heard.put_nowait(message) for message in messages],
        on_lost=lost.put_nowait,
        timeout_s=timeout_s,
    )
    return peer, welcome, heard, lost


def test_both_ends_know_each_other_by_key(run, keys):
    async def story():
        async with Front(keys) as front:
            peer, welcome, heard, _ = await dial(front, keys)
            assert welcome == WELCOME
            assert peer.identity.key == keys["c"][0].fingerprint
            peer.send(Ping(7))
            assert await heard.get() == Pong(7)
            ((hello, identity, protocol),) = front.hellos
            assert hello == HELLO
            assert identity == ("key", keys["h1"][0].fingerprint, "127.0.0.1")
            assert protocol == PROTOCOL
            found = front.peers[0].transport.get_extra_info("ssl_object")
            assert found.version() == "TLSv1.3"
            assert front.doorway.half_open == 0
            peer.close()
            await asyncio.sleep(0.05)

    run(story)


def test_a_large_frame_goes_through_whole(run, keys):
    async def story():
        async with Front(keys) as front:
            peer, _, heard, _ = await dial(front, keys)
            for number in range(5000):
                peer.send(Ping(number))
            for number in range(5000):
                assert await heard.get() == Pong(number)
            peer.close()
            await asyncio.sleep(0.05)

    run(story)


def test_a_key_that_is_not_trusted_does_not_get_in(run, keys):
    async def story():
        async with Front(keys) as front:
            with pytest.raises(DialError):
                await dial(front, keys, "h2")
            assert front.hellos == []
            await front.until(lambda front: front.refused)
            assert "TLS handshake failed" in next(iter(front.refused))
            trust(front.context, keys["h2"][0].certificate)
            peer, *_ = await dial(front, keys, "h2")
            peer.close()
            await asyncio.sleep(0.05)

    run(story)


def test_a_stranger_in_the_place_of_the_controller_is_told_nothing(run, keys):
    async def story():
        async with Front(keys) as front:
            with pytest.raises(DialError, match="has not the key of a controller"):
                await dial(front, keys, controllers=("c2",))
            assert front.hellos == []
            peer, *_ = await dial(front, keys, controllers=("c2", "c"))
            peer.close()
            await asyncio.sleep(0.05)

    run(story)


def test_a_worker_that_is_no_controller_cannot_play_one(run, keys):
    """A key that is trusted here is not a controller's because of that."""

    async def story():
        front = Front(keys)
        front.context = make_server_context(keys["h2"][1], [keys["h1"][0].certificate])
        async with front:
            with pytest.raises(DialError, match="has not the key of a controller"):
                await dial(front, keys)

    run(story)


def test_who_shows_no_key_may_enrol_only(run, keys):
    first = Enrol(PROTOCOL, "h2", "t", b"secret", keys["h2"][0].certificate)

    async def story():
        async with Front(keys) as front:
            answer = await enrol(front.address, first, [keys["c"][0].fingerprint])
            assert answer.controllers == (keys["c"][0].certificate,)
            assert front.enrolments == [first]
            with pytest.raises(DialError, match="has not the key of a controller"):
                await enrol(front.address, first, [keys["c2"][0].fingerprint])
            assert len(front.enrolments) == 1, "a token is shown to the right controller only"

    run(story)


def test_plaintext_is_refused(run, keys):
    async def story():
        async with Front(keys) as front:
            reader, writer = await asyncio.open_connection(*front.address)
            writer.write(encode_frame(HELLO))
            assert await all_of(reader) == b""
            writer.close()
            assert front.refused == {"plaintext is refused": 1}
            assert front.hellos == []

    run(story)


def test_plaintext_is_taken_from_this_machine_where_that_is_allowed(run, keys):
    async def story():
        async with Front(keys, allows_plain=True) as front:
            reader, writer = await asyncio.open_connection(*front.address)
            writer.write(encode_frame(HELLO))
            assert (await reader.read(1000)) == encode_frame(WELCOME)
            writer.close()
            assert front.hellos[0][1].how == "plain"

    run(story)


def test_plaintext_from_elsewhere_is_refused_even_then(run, keys, monkeypatch):
    monkeypatch.setattr(doorway_module, "is_loopback", lambda _: False)

    async def story():
        async with Front(keys, allows_plain=True) as front:
            reader, writer = await asyncio.open_connection(*front.address)
            writer.write(encode_frame(HELLO))
            assert await all_of(reader) == b""
            writer.close()
            assert front.hellos == []

    run(story)


@pytest.mark.parametrize(
    ("first", "protocol"),
    [(Hello(1, "worker", "h1", "0.0.9"), 1), (Hello(3, "worker", "h1", "9", 2), PROTOCOL)],
)
def test_the_newest_protocol_that_both_speak_is_chosen(run, keys, first, protocol):
    async def story():
        async with Front(keys) as front:
            peer, *_ = await dial(front, keys, hello=first)
            assert front.hellos[0][2] == protocol
            peer.close()
            await asyncio.sleep(0.05)

    run(story)


def test_a_stranger_has_no_words_in_what_is_counted(run, keys):
    async def story():
        async with Front(keys) as front:
            for number in range(3):
                for hello in (
                    Hello(PROTOCOL, f"{number}\x1b[2J" + "x" * 60_000, "h1", "1"),
                    Hello(PROTOCOL, "worker", f"{number}!", "1"),
                    Hello(90 + number, "worker", "h1", "1"),
                ):
                    with pytest.raises(ConnectionRefusedByPeerError) as refused:
                        await dial(front, keys, hello=hello)
                    assert len(str(refused.value)) < 300
            assert set(front.refused.values()) == {3}
            assert len(front.refused) == 3
            assert max(map(len, front.refused)) < 80

    run(story)


@pytest.mark.parametrize(
    "hello",
    [
        Hello(3, "worker", "h1", "9", 3),
        Hello(0, "worker", "h1", "0"),
        Hello(-1, "worker", "h1", "0"),
    ],
)
def test_a_protocol_that_is_not_spoken_here_is_refused(run, keys, hello):
    async def story():
        async with Front(keys) as front:
            with pytest.raises(ConnectionRefusedByPeerError, match="is not spoken here"):
                await dial(front, keys, hello=hello)
            assert front.hellos == []

    run(story)


def test_a_refused_peer_is_told_why_and_counted(run, keys):
    async def story():
        async with Front(keys) as front:
            front.answer = Refused("key is for another host")
            with pytest.raises(ConnectionRefusedByPeerError, match="another host"):
                await dial(front, keys)
            assert front.refused == {"key is for another host": 1}
            assert front.doorway.half_open == 0

    run(story)


async def recorded(front, keys):
    """Return the bytes of a whole good handshake with its first words."""
    async with Recorder(front.address) as recorder:
        dialler = TlsDialler(recorder.address, keys["h1"][1], [keys["c"][0].certificate])
        peer, _ = await dialler.dial(HELLO, on_messages=print, on_lost=lambda _: None)
        peer.close()
        await asyncio.sleep(0.05)
        return bytes(recorder.said)


def test_a_handshake_that_is_played_again_gets_nobody_in(run, keys):
    async def story():
        async with Front(keys) as front:
            content = await recorded(front, keys)
            assert len(front.hellos) == 1
            reader, writer = await asyncio.open_connection(*front.address)
            writer.write(content)
            while await reader.read(65536):
                pass
            writer.close()
            await front.until(lambda front: front.doorway.half_open == 0)
            assert len(front.hellos) == 1
            assert any("TLS handshake failed" in why for why in front.refused)

    run(story)


def test_a_handshake_that_is_cut_anywhere_gets_nobody_in(run, keys):
    async def story():
        async with Front(keys, handshake_s=1.0) as front:
            content = await recorded(front, keys)
            for length in (0, 1, 2, 5, 6, 100, 250, 300, len(content) // 2, len(content) - 1):
                for closes in (True, False):
                    _, writer = await asyncio.open_connection(*front.address)
                    writer.write(content[:length])
                    await asyncio.sleep(0)
                    if closes:
                        writer.close()
                    else:
                        front.keep = getattr(front, "keep", [])
                        front.keep.append(writer)
            await front.until(lambda front: front.doorway.half_open == 0)
            assert len(front.hellos) == 1
            for writer in front.keep:
                writer.close()

    run(story)


def test_a_handshake_with_wrong_bytes_gets_nobody_in(run, keys):
    rng = Random(1)

    async def story():
        async with Front(keys, handshake_s=1.0) as front:
            content = await recorded(front, keys)
            for _ in range(100):
                broken = bytearray(content)
                for _ in range(rng.choice((1, 3, 20))):
                    broken[rng.randrange(min(400, len(broken)))] = rng.randrange(256)
                _, writer = await asyncio.open_connection(*front.address)
                writer.write(bytes(broken))
                await asyncio.sleep(0)
                writer.close()
            await front.until(lambda front: front.doorway.half_open == 0)
            assert len(front.hellos) == 1

    run(story)


def test_rubbish_behind_the_first_byte_gets_nobody_in(run, keys):
    async def story():
        async with Front(keys, handshake_s=0.3) as front:
            for rubbish in (b"\x16" * 100, b"\x16\x03\x01\xff\xff" + bytes(70000), b"\x16\x03"):
                reader, writer = await asyncio.open_connection(*front.address)
                writer.write(rubbish)
                await all_of(reader)
                writer.close()
            await front.until(lambda front: front.doorway.half_open == 0)
            assert front.hellos == []

    run(story)


def test_a_flood_of_half_open_connections_is_bounded_and_passes(run, keys, monkeypatch):
    monkeypatch.setattr(doorway_module, "PER_ADDRESS_MAX", 20)

    async def story():
        async with Front(keys, handshake_s=1.0) as front:
            flood = [socket.create_connection(front.address) for _ in range(60)]
            await front.until(lambda front: sum(front.refused.values()) >= 40)
            assert front.doorway.half_open == 20
            assert front.refused == {"too many half-open connections from one address": 40}
            await front.until(lambda front: front.doorway.half_open == 0)
            peer, *_ = await dial(front, keys)
            for one in flood:
                one.close()
            peer.close()
            await asyncio.sleep(0.05)

    run(story)


def test_when_all_places_are_taken_the_greedy_one_gives_way(run, keys, monkeypatch):
    monkeypatch.setattr(doorway_module, "HALF_OPEN_MAX", 30)

    async def story():
        async with Front(keys, handshake_s=5.0) as front:
            flood = [socket.create_connection(front.address) for _ in range(30)]
            await front.until(lambda front: front.doorway.half_open == 30)
            peer, *_ = await dial(front, keys)
            assert front.refused["too many half-open connections"] == 1
            for one in flood:
                one.close()
            peer.close()
            await asyncio.sleep(0.05)

    run(story)


def test_a_key_without_hello_has_little_time(run, keys):
    async def story():
        async with Front(keys, handshake_s=1.0) as front:
            context = make_client_context(keys["h1"][1], [keys["c"][0].certificate])
            reader, writer = await asyncio.open_connection(*front.address, ssl=context)
            assert await reader.read() == b""
            writer.close()
            assert any("did not say who it is" in why for why in front.refused), front.refused

    run(story)


def test_older_tls_is_not_spoken(run, keys):
    async def story():
        async with Front(keys) as front:
            context = make_client_context(keys["h1"][1], [keys["c"][0].certificate])
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises((ssl.SSLError, ConnectionResetError)):
                await asyncio.open_connection(*front.address, ssl=context)

    run(story)


def test_an_address_that_is_taken_is_refused(run, keys):
    async def story():
        async with Front(keys) as front:
            with pytest.raises(WireError, match="cannot listen there"):
                await open_doorway(
                    front.address, lambda: front.context, front.accept,
                    on_enrol=print, on_refused=print,
                )  # fmt: skip

    run(story)


def test_nobody_answers(run, keys):
    async def story():
        async with Front(keys) as front:
            address = front.address
        front.address = address
        with pytest.raises(DialError, match=r"refused|Connect call failed"):
            await dial(front, keys)

    run(story)
