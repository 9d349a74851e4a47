"""`xcecli login` and `xcecli logout`: tokens for a cluster on another machine."""

import argparse
import base64
import hashlib
import http.server
import secrets
import sys
import threading
import time
import webbrowser
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from xce.apiserver.munge import Munge, MungeError
from xce.cli.xcecli.session import DENIED, FAILED, FailedError, Session
from xce.client.login_file import (
    LoginFileError,
    load_login,
    login_path,
    remove_login,
    store_login,
)
from xce.client.remote import RemoteApi, UntrustedError
from xce.client.rest import Api, ProblemError

PASTE_URI: Final = "http://127.0.0.1:8765/"
BROWSER_S: Final = 300.0
_DONE: Final = b"<!doctype html><title>XCE</title><p>You may close this page."


def run_login(session: Session, options: argparse.Namespace) -> int:
    """Log in, and keep the tokens in a file of the user's own."""
    url = options.url or session.environ.get("XCE_URL", "")
    if not url:
        return _log_in_here(session)
    url = url.rstrip("/")
    api = _open(session, url, options)
    try:
        ways = api.call("GET", "/login")
        if options.munge:
            proof = _munge_proof(str(ways["cluster"]))
        elif "oidc" in ways:
            proof = _oidc_proof(session, ways["oidc"], paste=options.paste)
        else:
            raise FailedError(
                f"{url} offers no login over the network; 'xcecli login' on the cluster's own "
                "machine asks over its unix socket"
            )
        answer = api.call("POST", "/login", document=proof)
    finally:
        api.close()
    pin = {name: api.login.get(name, "") for name in ("fingerprint", "ca_file")}
    return _keep(session, url, {**answer, **pin})


def _log_in_here(session: Session) -> int:
    """Log in as whom the kernel says, over the unix socket."""
    answer = session.api.call("POST", "/login", document={"way": "unix"})
    url = str(answer["url"])
    if not url:
        raise FailedError(
            "the apiserver of this cluster does not listen on the network (api: listen in "
            "xce.yaml); on this machine you are who the kernel says"
        )
    return _keep(session, url, answer)


def _keep(session: Session, url: str, answer: dict[str, Any]) -> int:
    path = login_path(session.environ, url)
    names = (
        "user", "session", "access_token", "access_expires_at", "refresh_token",
        "session_ends_at", "fingerprint", "ca_file",
    )  # fmt: skip
    try:
        store_login(path, {"url": url, **{name: answer.get(name, "") for name in names}})
    except LoginFileError as error:
        raise FailedError(str(error)) from error
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(answer["session_ends_at"]))
    session.say(f"{answer['user']} is logged in at {url} until {until}")
    session.say(f"export XCE_URL={url}")
    return 0


def run_logout(session: Session, options: argparse.Namespace) -> int:
    """End a login (or all of the user's) and forget its tokens."""
    url = (options.url or session.environ.get("XCE_URL", "")).rstrip("/")
    path = login_path(session.environ, url) if url else ""
    kept = load_login(path) if path else None
    if kept is None and not options.all:
        raise FailedError(f"nobody is logged in at {url or 'any URL; name it, or set XCE_URL'}")
    document = {} if options.all or kept is None else {"session": kept["session"]}
    api: Api = RemoteApi(url, login=kept, path=path) if kept is not None else session.api
    try:
        api.call("POST", "/logins/revoke", document=document)
    except ProblemError as error:
        if error.status != 401:
            raise
    finally:
        api.close()
    if path:
        remove_login(path)
    session.say("logged out")
    return 0


def _open(session: Session, url: str, options: argparse.Namespace) -> RemoteApi:
    """Return the other end, once it is trusted: by its certificate's issuer, or by its pin."""
    kept = load_login(login_path(session.environ, url)) or {}
    pin = (options.fingerprint or str(kept.get("fingerprint") or "")).lower().replace(":", "")
    login = {"fingerprint": pin, "ca_file": options.ca or str(kept.get("ca_file") or "")}
    api = RemoteApi(url, login=login, wait_s=10.0)
    try:
        api.call("GET", "/login")
        return api
    except UntrustedError as error:
        api.close()
        if pin or options.ca:
            raise FailedError(str(error), DENIED) from error
        session.tell(f"xcecli: {error}")
        session.tell(f"sha256 {error.fingerprint}")
        if not sys.stdin.isatty():
            raise FailedError(
                "compare that with what the administrator says, and give it as --fingerprint",
                DENIED,
            ) from error
        session.err.write("Is that what the administrator says? (yes/no) ")
        session.err.flush()
        if sys.stdin.readline().strip().lower() != "yes":
            raise FailedError("not trusted", DENIED) from error
        return RemoteApi(url, login={"fingerprint": error.fingerprint}, wait_s=10.0)


def _munge_proof(cluster: str) -> dict[str, str]:
    try:
        return {"way": "munge", "credential": Munge().encode(f"xce:{cluster}".encode())}
    except MungeError as error:
        raise FailedError(str(error)) from error


def _oidc_proof(session: Session, provider: dict[str, Any], *, paste: bool) -> dict[str, str]:
    """Have the user log in at the provider; return the proof that the cluster can check."""
    verifier, nonce, state = (secrets.token_urlsafe(48) for _ in range(3))
    digest = hashlib.sha256(verifier.encode()).digest()
    query = {
        "response_type": "code",
        "client_id": provider["client_id"],
        "scope": " ".join(provider["scopes"]),
        "state": state,
        "nonce": nonce,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    if paste:
        query["redirect_uri"] = PASTE_URI
        session.tell("Log in here, then paste the address of the page that cannot be opened:")
        session.tell(_with_query(provider["authorization_endpoint"], query))
        address = sys.stdin.readline().strip()
    else:
        catcher = _Catcher()
        query["redirect_uri"] = catcher.uri
        page = _with_query(provider["authorization_endpoint"], query)
        session.tell(f"Log in in the browser; if none opens, go to {page}")
        webbrowser.open(page)
        address = catcher.wait(BROWSER_S)
    return {
        "way": "oidc",
        "code": _code(address, state),
        "verifier": verifier,
        "nonce": nonce,
        "redirect_uri": query["redirect_uri"],
    }


def _with_query(address: str, query: dict[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"


def _code(address: str, state: str) -> str:
    """Return the code in the address to which the provider has sent the browser."""
    found = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    if "error" in found:
        raise FailedError(
            f"the provider refused: {found['error']} {found.get('error_description', '')}".rstrip(),
            DENIED,
        )
    if not secrets.compare_digest(found.get("state", ""), state):
        raise FailedError("that is not the answer to this login", FAILED)
    if not found.get("code"):
        raise FailedError("there is no code in that address", FAILED)
    return found["code"]


class _Catcher:
    """Waits on loopback for the browser to come back."""

    def __init__(self) -> None:
        catcher = self
        self._address = ""
        self._came = threading.Event()

        class Page(http.server.BaseHTTPRequestHandler):
            """The page to which the provider sends the browser."""

            def do_GET(self) -> None:
                """Take the answer."""
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(_DONE)))
                self.end_headers()
                self.wfile.write(_DONE)
                if "code=" in self.path or "error=" in self.path:
                    catcher._note(self.path)

            def log_message(self, *_: object) -> None:
                """Say nothing: the path holds a code."""

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Page)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        """Where the provider sends the browser."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def _note(self, path: str) -> None:
        self._address = path
        self._came.set()

    def wait(self, timeout_s: float) -> str:
        """Return the address that the browser came to."""
        try:
            if not self._came.wait(timeout_s):
                raise FailedError(f"nobody logged in within {timeout_s:.0f} s; try --paste")
            return self._address
        finally:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
