"""What `mode: test` lets in, and that `mode: production` lets nothing of it in."""

import asyncio
import hashlib
import json
import socket
from pathlib import Path

import pytest
from live import open_live

from xce.model.address import Address
from xce.model.command import KillJobs, Selection, SubmitJobs
from xce.model.job import JobSpec, Owner, Submission
from xce.model.request import Request
from xce.net.ask import Requests
from xce.net.frame import FrameReader, encode_frame
from xce.net.handshake import ConnectionRefusedByPeerError, make_hello
from xce.net.message import (
    Answer,
    Ask,
    ControllerKeys,
    Enrolled,
    KeyList,
    Message,
    PeerList,
    Pong,
    Refused,
    ReportsTaken,
    Welcome,
)
from xce.net.unix import dial_unix

OLDER = Path(__file__).resolve().parents[2] / "data" / "protocol" / "1"
OWNER = Owner("root", 0, 0)
SCRIPT = b"true"
HASH = hashlib.blake2b(SCRIPT, digest_size=16).hexdigest()
SPEC = JobSpec(command="true", script=HASH, cwd="/")
SUBMIT = SubmitJobs(OWNER, (Submission(SPEC, Request()),), ((HASH, SCRIPT),), is_admin=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def say_plainly(address, *messages: Message, awaited=()):
    """Say something over plain TCP; return what is answered until it ends or is silent, and until
    something of each awaited kind has come.
    """
    reader, writer = await asyncio.open_connection(*address)
    for message in messages:
        writer.write(encode_frame(message))
    frames, heard = FrameReader(), []
    try:
        async with asyncio.timeout(60):
            while not {*map(type, heard)} >= {*awaited}:
                heard += frames.feed(await read_more(reader))
        async with asyncio.timeout(1.5):
            while True:
                heard += frames.feed(await read_more(reader))
    except (TimeoutError, EOFError, ConnectionResetError):
        pass
    writer.close()
    return heard


async def read_more(reader) -> bytes:
    content = await reader.read(65536)
    if not content:
        raise EOFError
    return content


async def ask_locally(path, role, command, by="", basis=""):
    """Ask over the unix socket; return the answer, or why the connection ended."""
    requests = Requests()
    peer, _ = await dial_unix(
        path, make_hello(role, "somebody", "0"),
        on_messages=lambda messages: [requests.settle(message) for message in messages],
        on_lost=requests.fail_all,
    )  # fmt: skip
    try:
        return await requests.request(peer, lambda number: Ask(number, command, by, basis))
    finally:
        peer.close()
        await asyncio.sleep(0.05)


def test_production_refuses_test_tools_and_plaintext():
    with open_live() as live:
        address = Address("127.0.0.1", free_port())
        live.xceadmin("init", "--listen", str(address), "--hosts", "h1")
        assert "mode" not in live.xce("up")
        path = live.layout.controller_socket
        with pytest.raises(ConnectionRefusedByPeerError, match="is in mode production"):
            asyncio.run(ask_locally(path, "test", SUBMIT))
        assert asyncio.run(say_plainly(address, make_hello("test", "t", "0"))) == []
        assert asyncio.run(say_plainly(address, make_hello("worker", "h1", "0"))) == []
        refused = live.xceadmin("peers").partition("refused since")[2]
        assert "plaintext is refused" in refused
        assert "test tools are refused" in refused
        assert "mode" not in live.xce("status")


@pytest.mark.parametrize("role", ["admin", "worker", "scheduler", "history", "node-manager"])
def test_a_component_of_this_machine_is_held_to_its_role_too(role):
    with open_live() as live:
        live.xce("up", "--hosts", "h1")
        path = live.layout.controller_socket
        with pytest.raises(Exception, match="closed by the other side"):
            asyncio.run(ask_locally(path, role, SUBMIT, "root", "owner"))
        assert live.rows(("user", "all")) == []
        refused = live.xceadmin("peers").partition("refused since")[2]
        assert f"a {role} may not" in refused


def test_in_mode_test_this_machine_speaks_plainly_and_submits_directly_and_it_shows():
    with open_live() as live:
        address = Address("127.0.0.1", free_port())
        live.configure(f"mode: test\nlisten: {address}\n")
        live.configure("- {names: h1}\n", "hosts.yaml")
        assert "TEST: test tools may submit" in live.xce("up")
        assert "TEST: test tools may submit" in live.xce("status")
        assert json.loads(live.xce("status", "--json"))["mode"] == "test"
        assert any(line.get("event") == "mode-test" for line in live.lines_of("controller"))
        hello = make_hello("test", "t", "0")
        welcome, answer = asyncio.run(
            say_plainly(address, hello, Ask(1, SUBMIT), awaited=(Answer,))
        )
        assert isinstance(welcome, Welcome)
        assert answer.results[0].text == "submitted"
        kill = KillJobs("root", True, Selection(all=True))
        (other,) = asyncio.run(ask_locally(live.layout.controller_socket, "test", kill)).results
        assert other.text == "killed"
        (refused,) = asyncio.run(
            say_plainly(address, make_hello("controller", "c", "0"), awaited=(Refused,))
        )
        assert isinstance(refused, Refused)
        entries = [json.loads(line) for line in live.xceadmin("journal", "export").splitlines()]
        causes = [entry["cause"] for entry in entries]
        bases = {cause["kind"]: cause["basis"] for cause in causes}
        assert bases["submit-jobs"] == bases["kill-jobs"] == "direct"


def test_a_worker_of_one_release_before_is_served():
    """The bytes are those that the release before said; it is answered in its own protocol."""
    with open_live() as live:
        address = Address("127.0.0.1", free_port())
        live.configure(f"mode: test\nlisten: {address}\n")
        live.configure("- {names: h1, slots: 4}\n", "hosts.yaml")
        live.xce("up")
        recorded = FrameReader().feed((OLDER / "worker.bin").read_bytes())
        welcome, *heard = asyncio.run(say_plainly(address, *recorded, awaited=(Pong, ReportsTaken)))
        assert isinstance(welcome, Welcome)
        assert welcome.protocol == 1
        assert 1 in [one.number for one in heard if isinstance(one, Pong)]
        assert ReportsTaken(1) in heard
        new = {Enrolled, ControllerKeys, KeyList, PeerList}
        assert not [message for message in heard if type(message) in new]
        assert json.loads(live.xceadmin("peers", "--json"))["refused"] == {}
