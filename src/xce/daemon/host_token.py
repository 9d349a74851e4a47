"""Tokens with which new hosts enrol: made for one host, used once, good for a while.

A token is a text ``xce-token-...``; in it are its public name, a secret, the host that it is for
and the fingerprints of the controllers' keys. The cluster keeps a hash of the secret only.
"""

import base64
import binascii
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from xce.model.errors import XceError

PREFIX: Final = "xce-token-"
VARIABLE: Final = "XCE_TOKEN"
_TEXT_MAX: Final = 1024


class TokenError(XceError):
    """A token cannot be used; the message never repeats it."""


class Token(NamedTuple):
    """What a token says."""

    token: str
    secret: bytes
    host: str
    controllers: tuple[str, ...]
    """Fingerprints of which the controller must have one."""

    @property
    def digest(self) -> str:
        """What the cluster keeps of the secret."""
        return digest_of(self.secret)

    def __repr__(self) -> str:
        """Return what may be told."""
        return f"Token({self.token}, {self.host})"

    def render(self) -> str:
        """Return the text to be carried to the host."""
        content = msgspec.msgpack.encode((1, *self))
        return PREFIX + base64.urlsafe_b64encode(content).decode().rstrip("=")


def digest_of(secret: bytes) -> str:
    """Return the hash of a secret."""
    return hashlib.blake2b(secret, digest_size=32).hexdigest()


def make_token(host: str, controllers: Iterable[str]) -> Token:
    """Return a new token."""
    return Token(secrets.token_hex(6), secrets.token_bytes(32), host, tuple(controllers))


def parse_token(text: str) -> Token:
    """Return what a token's text says.

    Raises:
        TokenError: It is no token.
    """
    word = text.strip()
    body = word.removeprefix(PREFIX)
    no_token = f"this is no token: one begins with {PREFIX}"
    if body == word or len(word) > _TEXT_MAX:
        raise TokenError(no_token)
    try:
        content = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        kind = tuple[int, str, bytes, str, tuple[str, ...]]
        version, token, secret, host, controllers = msgspec.msgpack.decode(content, type=kind)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        # What was given may be a secret of another kind, so nothing of it is told.
        raise TokenError(no_token) from None
    if version != 1:
        raise TokenError("this token is of another release")
    return Token(token, secret, host, controllers)


def load_token(place: str) -> Token:
    """Return the token that a file, standard input (``-``) or ``$XCE_TOKEN`` (``env``) holds.

    Raises:
        TokenError: There is none, or it stands where others can read it.
    """
    if place.startswith(PREFIX):
        raise TokenError(
            "a token on a command line can be read by every user of this host: put it into a file "
            "of mode 600 and name that, or pipe it in and say -"
        )
    if place == "-":
        return parse_token(sys.stdin.read(_TEXT_MAX + 1))
    if place == "env":
        return parse_token(os.environ.pop(VARIABLE, ""))
    path = Path(place)
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(_TEXT_MAX + 1)
    except OSError as error:
        raise TokenError(f"{path}: cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise TokenError(
            f"{path} can be read by others (mode {mode:o}): chmod 600, or make another"
        )
    return parse_token(text)
