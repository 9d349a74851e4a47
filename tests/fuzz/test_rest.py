"""Requests made from the OpenAPI document, sensible and not: never a 500, a traceback or a hang."""

import asyncio
import json
import logging
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
import requests
import schemathesis
from aiohttp import web
from hypothesis import HealthCheck, Phase, settings
from outside import free_port
from rest_cluster import Rest

from xce.apiserver import app as app_module
from xce.apiserver.app import make_server
from xce.apiserver.identity import Caller
from xce.apiserver.openapi import render_openapi
from xce.apiserver.routes import jobs
from xce.apiserver.routes.table import ROUTES
from xce.apiserver.tokens import ACCESS, Login
from xce.model.job import Owner
from xce.testing.builders import run_job, submit

EXAMPLES = int(os.environ.get("XCE_FUZZ_EXAMPLES", "12"))
"""For each request; `make test-long` does not draw more, whoever wants more says how many."""
TIMEOUT_S = 20.0
CONTENT = "content-type"
SCHEMA = schemathesis.openapi.from_dict(
    json.loads(json.dumps(render_openapi(ROUTES, "0")))
).exclude(
    path="/xce/v1/watch"  # it never ends by itself
)


@schemathesis.serializer("application/x-ndjson")
def lines(_: object, value: object) -> bytes:
    """Return one job a line."""
    items = value if isinstance(value, list) else [value]
    return b"\n".join(json.dumps(item, default=str).encode() for item in items)


class Faults(logging.Handler):
    """Keeps what was logged as a fault."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Served:
    """An apiserver in a thread of its own."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = ""
        self.faults = Faults()
        self._directory = directory
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "a request hangs"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        rest = Rest(self._directory)
        rest.log.addHandler(self.faults)
        rest.identities.account = lambda user: Caller(Owner(user, 1001, 1001), is_admin=True)
        now = rest.backend.now()
        login = Login("alice", 1001, "s", int(now * 1e6), int(now) + 86_400, "unix")
        self.token, _ = rest.backend.logins.tokens.write(ACCESS, login, "xce:xce", life_s=86_400)
        for number in range(3):
            job = submit(rest.controller)
            if number == 0:
                run_job(rest.controller, job)
        rest.link.pump()
        rest.link.files[1, 0, "stdout"] = b"hello\n"
        runner = web.ServerRunner(make_server(rest.backend, is_guarded=True), shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()
        await rest.backend.denials.close()
        rest.backend.history.close()
        rest.log.removeHandler(self.faults)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_module, "MIN_SEQ_S", 0.01)
        patch.setattr(jobs, "WAIT_S_MAX", 0)
        with tempfile.TemporaryDirectory() as directory, Served(Path(directory)) as found:
            yield found


def check(served: Served, answer: requests.Response) -> None:
    """Check what every answer must be."""
    assert answer.status_code < 500 or answer.status_code == 503, answer.text[:500]
    assert "Traceback" not in answer.text
    if answer.status_code >= 400:
        kinds = [str(text) for name, text in answer.headers.items() if name.lower() == CONTENT]
        kind = kinds[0].strip("[']") if kinds else ""
        said = (answer.request.method, answer.request.url, answer.status_code, answer.text[:200])
        assert kind.startswith("application/problem+json"), said
        document = answer.json()
        assert document["status"] == answer.status_code
        assert document["code"]
        assert document["detail"]
    faults = [record.getMessage() for record in served.faults.records]
    assert faults == []


@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_brings_it_down(case: schemathesis.Case, served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.token}"}
    check(served, case.call(base_url=served.url, headers=headers, timeout=TIMEOUT_S))


@SCHEMA.parametrize()
@settings(
    max_examples=5, deadline=None, derandomize=True, database=None,
    phases=[Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_nothing_is_told_to_a_stranger(case: schemathesis.Case, served: Served) -> None:
    answer = case.call(base_url=served.url, headers={"Authorization": "x"}, timeout=TIMEOUT_S)
    check(served, answer)
    open_to_all = ("/login", "/login/refresh", "/ready")
    if not case.path.endswith(open_to_all):
        assert answer.status_code in (401, 404, 405, 429)


RAW = [
    b"",
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /xce/v1/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /xce/v1/jobs/%2e%2e%2f%2e%2e/output HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /xce/v1/jobs/1%00/output HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /xce/v1/jobs/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /xce/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /xce/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /xce/v1/jobs HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
    b"POST /xce/v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
    b"GET /xce/v1/jobs HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5_000 + b"\r\n",
    b"GET /xce/v1/jobs?" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.mark.parametrize("number", range(len(RAW)))
def test_bytes_that_are_no_request(served: Served, number: int) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as connection:
        connection.settimeout(5)
        try:
            connection.sendall(RAW[number])
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(1 << 16)
        except OSError:
            answer = b""
    assert answer[:12] not in (b"HTTP/1.1 200", b"HTTP/1.1 500"), answer
    assert b"Traceback" not in answer
    # It still works.
    headers = {"Authorization": f"Bearer {served.token}"}
    check(served, requests.get(f"{served.url}/xce/v1/cluster", headers=headers, timeout=5))


BODIES = [
    b"", b"null", b"[]", b"{}", b"0", b'"x"', b"{", b"\xff", b"[" * 100_000, b'{"jobs":' * 10_000,
    b'{"command":"true","env":' + b"[" * 50_000, b'{"jobs":[]}', b'{"jobs":[{}]}',
    b'{"command":"\\u0000"}', b'{"command":"\\ud800"}', b'{"command":"true","tasks":[1e400,2]}',
    b'{"command":"true","tasks":[-1,2]}', b'{"command":"true","begin_at":1e999}',
    b'{"command":"true","begin_at":NaN}', b'{"command":"true","array":"1-99999999999999999999"}',
    b'{"command":"true","resreq":["' + b"(" * 60_000 + b'"]}',
    b'{"command":"true","resreq":["select[' + b"!" * 60_000 + b'a]"]}',
    b'{"command":"true","resreq":["rusage[mem=1:' + b"||" * 20_000 + b']"]}',
    b'{"command":"true","dependency":"' + b"(" * 60_000 + b'"}',
    b'{"command":"true","dependency":"' + b"!" * 60_000 + b'done(1)"}',
    b'{"command":"true","hosts":"' + b"a " * 30_000 + b'"}',
    b'{"command":"true","queue":"' + b"a " * 500 + b'"}',
    b'{"command":"true","cwd":"/../../../etc","output":"../../%J/../x","input":"/etc/shadow"}',
    b'{"command":"true","cwd":"relative"}', b'{"command":"true","output":"a\\u0000b"}',
    b'{"command":"true","user":"root"}', b'{"command":"true","uid":0}',
    b'{"command":"true","owner":{"user":"root"}}', b'{"command":"true","basis":"admin"}',
    b'{"command":"true","is_admin":true}', b'{"command":"true","umask":99999999}',
    b'{"command":"true","priority":1e30}', b'{"command":"true","input_data":"!!!"}',
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_bodies_that_are_none(served: Served, number: int) -> None:
    headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}
    for kind in ("application/json", "application/x-ndjson"):
        answer = requests.post(
            f"{served.url}/xce/v1/jobs", data=BODIES[number],
            headers={**headers, "Content-Type": kind}, timeout=TIMEOUT_S,
        )  # fmt: skip
        check(served, answer)
    for path in ("jobs/actions", "hosts/actions", "login", "login/refresh", "logins/revoke"):
        answer = requests.post(
            f"{served.url}/xce/v1/{path}", data=BODIES[number], headers=headers, timeout=TIMEOUT_S
        )
        check(served, answer)


def resident_bytes() -> int:
    """Return how much memory this process, which serves too, has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_nonsense_does_not_make_it_grow(served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.token}"}
    with requests.Session() as session:

        def send(count: int) -> None:
            for number in range(count):
                session.get(f"{served.url}/xce/v1/jobs/{number}", headers=headers, timeout=5)
                session.get(
                    f"{served.url}/xce/v1/jobs", params={"name": "x" * 1_000, "user": str(number)},
                    headers=headers, timeout=5,
                )  # fmt: skip
                session.post(
                    f"{served.url}/xce/v1/jobs", data=f'{{"x{number}": 1}}', headers=headers,
                    timeout=5,
                )  # fmt: skip

        send(300)
        grown = []
        for _ in range(3):
            before = resident_bytes()
            send(300)
            grown.append(resident_bytes() - before)
        # What leaks grows every time; what the allocator keeps in reserve does not.
        assert min(grown) < 2 * 1024 * 1024, grown
