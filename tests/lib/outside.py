"""Somebody on another machine, before an apiserver that listens with TLS on loopback."""

import asyncio
import contextlib
import socket
import ssl

import aiohttp
import msgspec
from rest_cluster import run_rest

from xce.client.cluster import open_api
from xce.client.login_file import login_path, store_login
from xce.daemon.api_door import ApiDoor
from xce.model.api import ApiConfig
from xce.model.command import ApplyConfig


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Outside:
    """Somebody on another machine."""

    def __init__(self, rest, tmp_path):
        self.rest = rest
        self.url = rest.backend.door.url
        self.environ = {"XCE_URL": self.url, "XDG_CONFIG_HOME": str(tmp_path / "home")}

    async def log_in(self, user="alice", **settings):
        """Log in over the unix socket, and keep the tokens as `xcecli login` does."""
        self.rest.be(user, uid={"alice": 1001, "bob": 1002}[user], **settings)
        status, answer = await self.rest.post("/login", {"way": "unix"})
        assert status == 201, answer
        store_login(login_path(self.environ, self.url), answer)
        return answer

    async def call(self, method, path, document=None, *, api=None, **query):
        """Ask as an LSF command does."""
        api = api or open_api(self.environ, wait_s=0.2)

        def ask():
            with api:
                return api.call(method, path, [(k, str(v)) for k, v in query.items()], document)

        return await asyncio.to_thread(ask)

    async def status(self, path, token):
        """Return status and code of a request with just this token."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        async with self.rest.session.get(
            f"{self.url}/xce/v1{path}",
            headers={"Authorization": token} if token else {},
            ssl=context,
        ) as answer:
            return answer.status, (await answer.json()).get("code")


def run_outside(story, tmp_path, *, accounts=None, config=None, **api):
    """Run ``story(outside)`` with an apiserver that listens on loopback."""
    known = accounts if accounts is not None else {"alice": 1001, "bob": 1002}

    async def tell(rest):
        identities = rest.identities
        identities._account_of = lambda user: (known[user],) * 2 if user in known else None

        def caller(uid, gid):
            return identities.chosen

        def account(user):
            ids = identities._account_of(user)
            if ids is None:
                return None
            rest_chosen = identities.chosen
            rest.be(user, uid=ids[0])
            found, identities.chosen = identities.chosen, rest_chosen
            return found

        identities.caller = caller
        identities.account = account
        port = free_port()
        before = rest.controller.state.config
        settings = ApiConfig(listen=f"127.0.0.1:{port}", **api)
        wanted = msgspec.structs.replace(before, api=settings, **(config or {}))
        rest.controller.tell(ApplyConfig("root", wanted), by="root")
        rest.link.pump()
        keys = tmp_path / "keys"
        keys.mkdir(mode=0o700, exist_ok=True)
        door = ApiDoor(rest.backend, keys, rest.log, host="front")
        opening = asyncio.create_task(door.run())
        try:
            await rest.until(lambda: rest.backend.door.url)
            async with aiohttp.ClientSession() as outside:
                inside, rest.session_outside = rest.session, outside
                found = Outside(rest, tmp_path)
                found.rest = Both(rest, inside, outside)
                await story(found)
        finally:
            opening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await opening

    run_rest(tell)


class Both:
    """The cluster from inside, with a session that goes outside."""

    def __init__(self, rest, inside, outside):
        self._rest = rest
        self.session = outside
        self._inside = inside

    def __getattr__(self, name):
        return getattr(self._rest, name)
