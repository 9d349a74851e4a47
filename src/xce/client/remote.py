"""A cluster on another machine: the same interface over TLS, with the token of a login."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import time

from xce.client.json_text import render_json
from xce.client.login_file import LoginFileError, load_login, lock_login, login_path, store_login
from xce.client.rest import (
    READ_TIMEOUT_S,
    WAIT_S,
    Answer,
    Api,
    ProblemError,
    UnreachableError,
)
from xce.client.seen import open_seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

PORT = 7823
CONNECT_S = 15.0
EARLY_S = 20
"""A token is refreshed so long before it expires."""
_REFRESHABLE = frozenset(("token-expired", "not-logged-in"))


class UntrustedError(UnreachableError):
    """The certificate of the other end is neither certified nor the one that was noted."""

    def __init__(self, fingerprint: str, text: str) -> None:
        """Keep what the other end showed."""
        super().__init__(text)
        self.fingerprint = fingerprint


def parse_url(url: str) -> tuple[str, int]:
    """Return host and port of ``https://host[:port]``.

    Raises:
        UnreachableError: It is no such URL.
    """
    rest = url.removeprefix("https://")
    host, port = rest.rstrip("/"), str(PORT)
    if host.startswith("["):
        host, _, tail = host[1:].partition("]")
        port = tail.removeprefix(":") or port
    elif ":" in host:
        host, _, port = host.partition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65536
    if rest == url or not host or not is_port or any(sign in host for sign in "/@?# "):
        raise UnreachableError(f"XCE_URL is {url!r}: expected https://host:port")
    return host, int(port)


class RemoteApi(Api):
    """The interface of a cluster on another machine."""

    def __init__(
        self,
        url: str,
        *,
        login: Mapping[str, Any] | None = None,
        path: str = "",
        **settings: Any,  # noqa: ANN401 - as `Api`
    ) -> None:
        """Args: where; the login, with the pin or CA; the file in which it is kept."""
        super().__init__(url, **settings)
        self.login: dict[str, Any] = dict(login or {})
        self._address = parse_url(url)
        self._login_file = path
        self._is_refreshing = False

    def request(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        headers: Sequence[tuple[str, str]] = (),
        *,
        repeatable: bool = True,
    ) -> Answer:
        """As `Api.request`; a token that is refused is refreshed, once."""
        answer = super().request(method, path, query, body, headers, repeatable=repeatable)
        if answer.status == 401 and not self._is_refreshing and _code(answer) in _REFRESHABLE:
            self._refresh()
            answer = super().request(method, path, query, body, headers, repeatable=repeatable)
        return answer

    def _authorization(self) -> list[str]:
        if self._is_refreshing or not self.login.get("access_token"):
            return []
        if self.login.get("access_expires_at", 0) - EARLY_S < time.time():
            self._refresh()
        return [f"Authorization: Bearer {self.login['access_token']}"]

    def _refresh(self) -> None:
        """Get a new access token.

        Raises:
            ProblemError: The login has ended or was revoked.
        """
        if not self._login_file:
            self._exchange()
            return
        with lock_login(self._login_file):
            if not self._take_stored():
                self._exchange()

    def _take_stored(self) -> bool:
        """Take what another command may have stored; return whether a new token is among it."""
        try:
            found = load_login(self._login_file)
        except LoginFileError:
            return False
        if not found or found.get("session") != self.login.get("session"):
            return False
        is_new = found.get("refresh_token") != self.login.get("refresh_token")
        self.login.update(found)
        return is_new and self.login.get("access_expires_at", 0) - EARLY_S >= time.time()

    def _exchange(self) -> None:
        """Have the server give new tokens for the one that prolongs the login, once."""
        token = self.login.get("refresh_token")
        if not token:
            raise _ended("nobody is logged in")
        self._is_refreshing = True
        try:
            body = render_json({"refresh_token": token}).encode()
            answer = super().request("POST", "/login/refresh", (), body)
        finally:
            self._is_refreshing = False
        value = answer.value()
        if answer.status >= 400 or not isinstance(value, dict):
            detail = value.get("detail", "") if isinstance(value, dict) else ""
            raise _ended(str(detail).rstrip(".") or f"status {answer.status}")
        self.login.update(value)
        if self._login_file:
            try:
                store_login(self._login_file, self.login)
            except LoginFileError:
                return  # the login ends soon: what is stored was used

    def _connect(self) -> None:
        """Open the connection, unless there is one; nothing is sent to whom is not trusted."""
        if self._socket is not None:
            return
        host, port = self._address
        plain = socket.create_connection((host, port), timeout=CONNECT_S)
        try:
            opened = self._context().wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise UntrustedError(
                fingerprint_at(self.path), f"{self.path}: {error.verify_message}"
            ) from error
        except BaseException:
            plain.close()
            raise
        shown = hashlib.sha256(opened.getpeercert(binary_form=True) or b"").hexdigest()
        wanted = str(self.login.get("fingerprint") or "")
        if wanted and not hmac.compare_digest(shown, wanted):
            opened.close()
            raise UntrustedError(
                shown, f"{self.path} shows another certificate than before: sha256 {shown}"
            )
        opened.settimeout(READ_TIMEOUT_S)
        self._socket = opened

    def _context(self) -> ssl.SSLContext:
        """Return how the other end is judged: by the noted certificate, else by its issuer."""
        if self.login.get("fingerprint"):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # the fingerprint is compared instead
        else:
            context = ssl.create_default_context(cafile=self.login.get("ca_file") or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context


def fingerprint_at(url: str) -> str:
    """Return SHA-256 of the certificate that the other end shows, which proves nothing by itself.

    Raises:
        OSError: It shows none.
    """
    host, port = parse_url(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=CONNECT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as opened,
    ):
        return hashlib.sha256(opened.getpeercert(binary_form=True) or b"").hexdigest()


def _ended(why: str) -> ProblemError:
    return ProblemError(
        401, {"detail": f"{why}; log in with 'xcecli login'", "code": "not-logged-in"}
    )


def _code(answer: Answer) -> str:
    try:
        value = answer.value()
    except ValueError:
        return ""
    return str(value.get("code", "")) if isinstance(value, dict) else ""


def open_remote(
    url: str,
    environ: Mapping[str, str],
    *,
    wait_s: float = WAIT_S,
    progress: Callable[[str], None] | None = None,
) -> RemoteApi:
    """Return the interface of the cluster at ``url``, with the login that was kept.

    Raises:
        ProblemError: Nobody has logged in there.
        UnreachableError: The URL is none.
    """
    path = login_path(environ, url)
    try:
        login = load_login(path)
    except LoginFileError as error:
        raise _ended(str(error)) from error
    if login is None:
        raise _ended(f"nobody has logged in at {url}")
    return RemoteApi(
        url, login=login, path=path, wait_s=wait_s, progress=progress,
        seen=open_seen(environ, url),
    )  # fmt: skip
