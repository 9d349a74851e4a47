"""Broken frames and handshakes at a real controller: it stays, does not grow, and goes on."""

import contextlib
import json
import socket
import ssl
import time
from pathlib import Path
from random import Random

from live import open_live, until
from outside import free_port

RECORDED = Path(__file__).resolve().parents[2] / "data" / "protocol" / "2"
CONNECTIONS = 400
ROLES = ("worker", "apiserver", "scheduler", "history", "admin")


def frames_of(content: bytes) -> list[bytes]:
    frames = []
    while content:
        end = 4 + int.from_bytes(content[:4], "big")
        frames.append(content[:end])
        content = content[end:]
    return frames


def broken(rng: Random, frames: list[bytes], strange: list[bytes]) -> bytes:
    """Return a good hello and behind it what is not quite right, or not of that role."""
    hello, *others = frames
    if rng.random() < 0.3:
        others = strange[1:]
    if rng.random() < 0.1:
        hello = mutated(rng, hello)
    chosen = [rng.choice(others) for _ in range(rng.randint(1, 5))]
    said = hello + b"".join(mutated(rng, frame) for frame in chosen)
    return said[: rng.randrange(len(said))] if rng.random() < 0.2 else said


def mutated(rng: Random, frame: bytes) -> bytes:
    body = bytearray(frame[4:])
    for _ in range(rng.choice((0, 1, 1, 2, 8))):
        at = rng.randrange(len(body))
        match rng.randrange(4):
            case 0:
                body[at] = rng.randrange(256)
            case 1:
                body[at:at] = rng.randbytes(rng.randint(1, 9))
            case 2:
                del body[at : at + rng.randint(1, 4)]
                body = body or bytearray(b"\xc0")
            case _:
                body[at:at] = b"\x91" * rng.choice((3, 2000))
    length = len(body) if rng.random() < 0.9 else rng.choice((0, 2**31, 2**32 - 1, len(body) + 7))
    return length.to_bytes(4, "big") + bytes(body)


def say(path: Path, content: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(0.05)
        connection.connect(str(path))
        try:
            connection.sendall(content)
            # Who has asked to follow hears news as long as there are any.
            deadline = time.monotonic() + 0.3
            while connection.recv(65536) and time.monotonic() < deadline:
                pass
        except (TimeoutError, ConnectionError):
            pass


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def test_broken_frames_leave_the_controller_as_it_was():
    rng = Random(20261129)
    recorded = {role: frames_of((RECORDED / f"{role}.bin").read_bytes()) for role in ROLES}
    with open_live() as live:
        live.xce("up", "--hosts", "h1", "--slots", "4")
        before = live.daemons()["controller"]
        memory = resident_mib(before.pid)
        for _ in range(CONNECTIONS):
            role, other = rng.choice(ROLES), rng.choice(ROLES)
            content = broken(rng, recorded[role], recorded[other])
            say(live.layout.controller_socket, content)
        assert live.daemons()["controller"] == before, live.troubles()
        assert resident_mib(before.pid) < memory + 60
        assert not [line for line in live.lines_of("controller") if "text" in line], "a traceback"
        live.xceadmin("hosts", "open", "h1")
        live.until_stat(live.submit("echo still here"), "done")
        assert "may not" in live.xceadmin("peers")


def client_hello() -> bytes:
    """Return the first bytes of a good client."""
    context = ssl.create_default_context()
    said = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="xce-controller")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return said.read()


def broken_hello(rng: Random) -> bytes:
    content = bytearray(client_hello())
    match rng.randrange(5):
        case 0:
            content = content[: rng.randrange(1, len(content))]
        case 1:
            content += rng.randbytes(rng.choice((1, 300, 60_000)))
        case 2:
            content[3:5] = rng.choice((b"\0\0", b"\xff\xff", b"\0\1"))
        case 3:
            content = bytearray(b"\x16\x03\x01" + rng.randbytes(rng.randint(0, 500)))
        case _:
            for _ in range(rng.randint(1, 20)):
                content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content)


def test_broken_handshakes_leave_the_controller_as_it_was():
    rng = Random(20261130)
    port = free_port()
    with open_live() as live:
        live.xceadmin("init", "--listen", f"127.0.0.1:{port}", "--hosts", "h1")
        live.xce("up")
        before = live.daemons()["controller"]
        memory, files = resident_mib(before.pid), open_files(before.pid)
        for number in range(CONNECTIONS):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(broken_hello(rng))
                if number % 4:
                    continue  # gone before an answer
                connection.settimeout(0.05)
                with contextlib.suppress(TimeoutError, ConnectionError):
                    connection.recv(65536)

        def half_open() -> int:
            return int(json.loads(live.xceadmin("peers", "--json"))["half_open"])

        until(lambda: half_open() == 0, "all of them are forgotten")
        assert live.daemons()["controller"] == before, live.troubles()
        assert resident_mib(before.pid) < memory + 60
        until(lambda: open_files(before.pid) <= files + 5, "their descriptors are closed")
        assert not [line for line in live.lines_of("controller") if "text" in line], "a traceback"
        refused = json.loads(live.xceadmin("peers", "--json"))["refused"]
        assert sum(refused.values()) >= CONNECTIONS
        assert len(refused) < 60, "what is counted depends on what was sent"
