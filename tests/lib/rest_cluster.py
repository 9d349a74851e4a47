"""An apiserver over a controller in the same process: real HTTP over a real socket."""

import asyncio
import contextlib
import io
import json
import logging
import os
import tempfile
from pathlib import Path

import aiohttp
from aiohttp import web

from xce.apiserver.app import make_server
from xce.apiserver.backend import Backend, Site
from xce.apiserver.identity import Caller, Identities
from xce.apiserver.link import _away
from xce.apiserver.replica import Replica
from xce.control.controller import Input
from xce.journal.codec import decode_batch, encode_batch
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.model.job import Owner
from xce.net.allowlist import Gate
from xce.net.frame import FrameReader, encode_frame
from xce.net.message import Answer, Ask, HostUsage, OutputChunk
from xce.testing.builders import cluster


class FakeLink:
    """Has the controller in the same process decide; everything goes through its wire form."""

    def __init__(self, controller, replica):
        self.controller = controller
        self.replica = replica
        self.is_connected = True
        self.trouble = ""
        self.asked = []
        self.blobs = {}
        self.files = {}
        self.given = 0
        self.crc = 0
        self.holds_entries = False
        self.terminal_asks, self.terminal_pieces = [], []
        self.read_requests = []
        self.usage, self.usage_asked = {}, []
        self.gate = Gate("apiserver", "front")

    async def ask(self, command, *, by, basis, repeatable=True, origin=""):
        if not self.is_connected:
            raise _away("the controller is away")
        (ask,) = FrameReader().feed(encode_frame(Ask(1, command, by, basis, origin)))
        assert self.gate.refuse(ask) == ""
        self.asked.append((ask.command, by, basis, repeatable))
        controller = self.controller
        given = Input(ask.command, by, basis, 1, origin)
        step = controller.step([given], controller.now_us + 1_000)
        replies = list(step.replies)
        self.blobs.update(step.blobs)
        while not replies:
            step = controller.step([], controller.now_us + 1)
            replies += step.replies
        if not self.holds_entries:
            self.pump()
        answer = Answer(1, replies[0].seq, replies[0].results)
        (answer,) = FrameReader().feed(encode_frame(answer))
        return answer

    def pump(self):
        """Let the replica have what the controller decided."""
        entries = self.controller.entries[self.given :]
        self.given = len(self.controller.entries)
        if entries:
            before = self.crc
            content, self.crc = encode_batch(entries, before)
            decoded, _ = decode_batch(content, previous_crc=before, expected_seq=entries[0].seq)
            self.replica.take(decoded)

    async def read_output(self, make):
        request = make(1)
        self.read_requests.append(request)
        content = self.files.get((request.job, request.index, request.stream))
        if content is None:
            return OutputChunk(1, b"", 0, "no such file")
        piece = content[request.offset : request.offset + request.limit]
        return OutputChunk(1, piece, len(content))

    async def read_usage(self, make):
        request = make(1)
        self.usage_asked.append(request.host)
        return HostUsage(1, self.usage.get(request.host, ()))

    async def ask_terminal(self, make):
        request = make(1)
        self.terminal_asks.append(request)
        return self.terminal_pieces.pop(0)

    async def fetch_blob(self, digest):
        return self.blobs.get(digest)


class ChosenIdentities(Identities):
    """Whoever connects is who the test says."""

    def __init__(self, *, own_uid=0):
        super().__init__(own_uid=own_uid)
        self.chosen = Caller(Owner("alice", 1001, 1001), is_admin=False)

    def caller(self, uid, gid):
        assert uid == os.geteuid()
        assert gid == os.getegid()
        return self.chosen


class Rest:
    """A cluster with REST in front."""

    def __init__(self, directory, **settings):
        self.controller = cluster(**settings)
        self.replica = Replica()
        self.link = FakeLink(self.controller, self.replica)
        self.link.pump()
        self.replica.note_live()
        self.history_file = directory / "history.db"
        self.identities = ChosenIdentities()
        self.log = logging.getLogger("test-apiserver")
        self.backend = Backend(
            self.replica,
            self.link,
            HistoryReader(self.history_file),
            self.identities,
            self.log,
            site=Site("front", "0.1.0", lambda uid: f"/home/{uid}"),
            now=lambda: self.controller.now_us / 1_000_000,
        )
        self.headers = {}

    def be(self, user, *, uid=1002, is_admin=False, may_run=True, groups=()):
        """Let the next requests come from somebody else."""
        self.identities.chosen = Caller(Owner(user, uid, uid), is_admin, may_run, groups)

    def keep_history(self):
        """Let the history store have everything."""
        writer = HistoryWriter(self.history_file)
        fresh = [entry for entry in self.controller.entries if entry.seq > writer.seq]
        if fresh:
            writer.take(fresh, crc=1, epoch=1)
        writer.commit()
        writer.close()

    async def call(self, method, path, body=None, headers=None, **query):
        """Send a request; return status and the JSON value (or bytes) of the answer."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if data is not None and len(data) > 500_000:
            data = io.BytesIO(data)
        async with self.session.request(
            method,
            f"http://xce/xce/v1{path}",
            data=data,
            params={name: str(value) for name, value in query.items()},
            headers={"Content-Type": "application/json", **(headers or {})},
        ) as answer:
            self.headers = dict(answer.headers)
            content = await answer.read()
            if "json" in answer.headers.get("Content-Type", ""):
                return answer.status, json.loads(content)
            return answer.status, content

    async def until(self, holds):
        """Let others run until something holds."""
        while not holds():  # noqa: ASYNC110 - nobody would set an event
            await asyncio.sleep(0.002)

    async def get(self, path, **query):
        return await self.call("GET", path, **query)

    async def post(self, path, body, headers=None):
        return await self.call("POST", path, body, headers)

    async def submit(self, command="true", **members):
        """Submit a job; return its id."""
        status, document = await self.post("/jobs", {"command": command, **members})
        assert status == 201, document
        return document["results"][0]["jobid"]


def run_rest(story, **settings):
    """Run ``story(rest)`` against a cluster made for it."""

    async def tell():
        with tempfile.TemporaryDirectory() as directory:
            rest = Rest(Path(directory), **settings)
            socket = rest.socket = f"{directory}/api.sock"
            runner = web.ServerRunner(make_server(rest.backend), shutdown_timeout=0.1)
            await runner.setup()
            await web.UnixSite(runner, socket).start()
            connector = aiohttp.UnixConnector(socket)
            try:
                async with aiohttp.ClientSession(connector=connector) as rest.session:
                    await story(rest)
            finally:
                with contextlib.suppress(asyncio.CancelledError):
                    await runner.cleanup()
                await rest.backend.denials.close()
                rest.backend.history.close()
                rest.backend.archive.close()

    asyncio.run(tell())
