"""Tokens: a login as text that only this cluster can have written.

``xce-access.<payload>.<mac>``: the payload is JSON, the mac HMAC-SHA256 over all before it with a
key that never leaves the apiserver's machine. There is one algorithm, so none can be chosen by who
shows a token; what it is for and for which cluster are parts of what is signed.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Final

import msgspec

from xce.model.errors import XceError
from xce.state.logins import LoginTable

ACCESS: Final = "xce-access"
REFRESH: Final = "xce-refresh"
KEY_BYTES: Final = 32
TOKEN_MAX: Final = 16 * 1024
SKEW_S: Final = 60.0
"""So far the clocks of two apiservers may be apart."""
GROUPS_MAX: Final = 200


class TokenError(XceError):
    """A token that does not count; ``code`` says why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Login(msgspec.Struct, frozen=True):
    """Who has logged in, how and when."""

    user: str
    uid: int
    session: str
    began_at_us: int
    ends_at: int
    """Seconds since the epoch."""
    way: str
    """``unix``, ``oidc`` or ``munge``."""
    groups: tuple[str, ...] = ()
    """Beside those that the system knows."""


class _Payload(msgspec.Struct, frozen=True):
    login: Login
    audience: str
    expires_at: int
    turn: int = 0
    """Of a token that prolongs: how many of its login came before it; each is used once."""


_PAYLOAD: Final = msgspec.json.Decoder(_Payload)
BAD: Final = "bad-token"
EXPIRED: Final = "token-expired"
REVOKED: Final = "token-revoked"


class Tokens:
    """Writes and reads tokens.

    Args:
        key: The secret.
        clock: Seconds since the epoch.
    """

    def __init__(self, key: bytes, *, clock: Callable[[], float] = time.time) -> None:
        assert len(key) >= KEY_BYTES, "the key is too short"
        self._key = key
        self._clock = clock

    def write(
        self, kind: str, login: Login, audience: str, *, life_s: float, turn: int = 0
    ) -> tuple[str, int]:
        """Return a token and when it expires: after ``life_s``, and with its login at the latest.

        Args:
            kind: `ACCESS` or `REFRESH`.
            login: Whose it is.
            audience: The cluster that it is for.
            life_s: How long it counts.
            turn: Of a token that prolongs: how many came before it.
        """
        expires_at = min(int(self._clock() + life_s), login.ends_at)
        payload = msgspec.json.encode(_Payload(login, audience, expires_at, turn))
        signed = f"{kind}.{_encode(payload)}"
        return f"{signed}.{_encode(self._mac(signed))}", expires_at

    def read(self, kind: str, token: str, audience: str, revoked: LoginTable) -> Login:
        """Return whose token it is.

        Raises:
            TokenError: It does not count.
        """
        return self._open(kind, token, audience, revoked).login

    def read_turn(self, token: str, audience: str, revoked: LoginTable) -> tuple[Login, int]:
        """Return whose token a `REFRESH` is, and how many of that login came before it.

        Raises:
            TokenError: It does not count.
        """
        payload = self._open(REFRESH, token, audience, revoked)
        return payload.login, payload.turn

    def _open(self, kind: str, token: str, audience: str, revoked: LoginTable) -> _Payload:
        signed, _, mac = token.rpartition(".")
        head, _, body = signed.partition(".")
        try:
            if len(token) > TOKEN_MAX or not token.isascii():
                raise TokenError(BAD, "it is no token of this cluster")
            is_ours = hmac.compare_digest(_decode(mac), self._mac(signed))
            if not is_ours or head != kind:
                raise TokenError(BAD, "it is no token of this cluster")
            payload = _PAYLOAD.decode(_decode(body))
        except (binascii.Error, ValueError, msgspec.DecodeError) as error:
            raise TokenError(BAD, "it is no token of this cluster") from error
        login, now = payload.login, self._clock()
        if payload.audience != audience:
            raise TokenError(BAD, f"it is a token for {payload.audience}, not for {audience}")
        if now >= payload.expires_at or now >= login.ends_at:
            raise TokenError(EXPIRED, "the token has expired: log in again")
        if login.began_at_us > (now + SKEW_S) * 1_000_000:
            raise TokenError(BAD, "the login is in the future: is a clock wrong?")
        if revoked.is_revoked(login.user, login.session, login.began_at_us):
            raise TokenError(REVOKED, "the login was revoked: log in again")
        return payload

    def _mac(self, signed: str) -> bytes:
        return hmac.new(self._key, signed.encode("ascii"), hashlib.sha256).digest()


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    """Return what a text stands for; each content has one text only."""
    content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _encode(content) != text:
        raise ValueError("not canonical")
    return content
