"""Providers to log in at: a real program, and one that says whatever a test wants."""

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlencode

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def provider_program(users: dict[str, dict[str, object]]) -> Iterator[str]:
    """Run oidc-provider-mock as a program of its own; give its issuer."""
    port = free_port()
    words = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)]
    for subject, claims in users.items():
        words += ["--user-claims", json.dumps({"sub": subject, **claims})]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        issuer = f"http://127.0.0.1:{port}"
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    urllib.request.urlopen(f"{issuer}/.well-known/openid-configuration").close()
                    break
                except OSError:
                    assert time.monotonic() < deadline, "the provider does not come up"
                    assert program.poll() is None, "the provider has ended"
                    time.sleep(0.05)
            yield issuer
        finally:
            program.terminate()
            program.wait(10)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: object, **kwargs: object) -> None:
        return None


def press_log_in(page: str, subject: str) -> str:
    """Do what a user does in the browser; return the address that he is sent to."""
    opener = urllib.request.build_opener(_Stay)
    body = urlencode({"sub": subject}).encode()
    try:
        opener.open(urllib.request.Request(page, data=body), timeout=10).close()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.headers["Location"]
    raise AssertionError("the provider sent nobody anywhere")


class ScriptedProvider:
    """A provider whose tokens, keys and documents a test chooses."""

    def __init__(self) -> None:
        self.port = free_port()
        self.issuer = f"http://127.0.0.1:{self.port}"
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.published: list[object] = [self.key]
        self.claims: dict[str, object] = {}
        self.header: dict[str, object] = {}
        self.sign_with: object = None
        self.document: dict[str, object] = {}
        self.key_fetches = 0
        self.asked: list[dict[str, str]] = []
        self.token: str | None = None

    def id_token(self) -> str:
        if self.token is not None:
            return self.token
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": "xce", "sub": "1", "iat": now, "exp": now + 60,
            "nonce": "n" * 20, "preferred_username": "alice", "groups": ["ops", 5, "x\ny"],
            **self.claims,
        }  # fmt: skip
        key = self.sign_with or self.key
        header = {"alg": "RS256", "kid": "one", **self.header}
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(header, claims, key, algorithms=[str(header["alg"])])

    async def _token(self, request: web.Request) -> web.Response:
        self.asked.append(dict(await request.post()))
        return web.json_response({"access_token": "x", "id_token": self.id_token()})

    async def _keys(self, _: web.Request) -> web.Response:
        self.key_fetches += 1
        keys = [key.as_dict(private=False) for key in self.published]
        return web.json_response({"keys": keys})

    async def _discovery(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                **self.document,
            }
        )

    @contextlib.asynccontextmanager
    async def running(self):
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_post("/token", self._token)
        app.router.add_get("/keys", self._keys)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        try:
            yield self
        finally:
            await runner.cleanup()


__all__ = ["ECKey", "KeySet", "OctKey", "RSAKey", "ScriptedProvider", "press_log_in",
           "provider_program"]  # fmt: skip
