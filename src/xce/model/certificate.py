"""What a self-signed Ed25519 certificate says, read strictly from its DER bytes.

Only the public key matters here: it is what is trusted. Who may use it, under which name and how
long stands in the trusted list, not in the certificate.
"""

import hashlib
from typing import Final, NamedTuple

from xce.model.errors import TextError

CERTIFICATE_BYTES_MAX: Final = 1024
FINGERPRINT_CHARACTERS: Final = 64
_SEQUENCE: Final = 0x30
_INTEGER: Final = 0x02
_BIT_STRING: Final = 0x03
_VERSION: Final = 0xA0
_ED25519: Final = bytes.fromhex("300506032b6570")
"""The algorithm as it stands in a certificate: once for the signature, once for the key."""


class Certificate(NamedTuple):
    """What is used of a certificate."""

    public_key: bytes
    """The 32 bytes of an Ed25519 key."""

    @property
    def fingerprint(self) -> str:
        """The key's name: SHA-256 of the public key in 64 hexadecimal digits."""
        return hashlib.sha256(self.public_key).hexdigest()


def parse_certificate(der: bytes) -> Certificate:
    """Return what a certificate says.

    Raises:
        TextError: It is no self-signed certificate of an Ed25519 key, or longer than one must be.
    """
    if len(der) > CERTIFICATE_BYTES_MAX:
        raise TextError(f"a certificate of {len(der)} bytes: at most {CERTIFICATE_BYTES_MAX}")
    try:
        return Certificate(_public_key(der))
    except (IndexError, ValueError) as error:
        raise TextError("no self-signed certificate of an Ed25519 key") from error


def _public_key(der: bytes) -> bytes:
    whole = _Reader(der)
    outer = _Reader(whole.take(_SEQUENCE))
    body = _Reader(outer.take(_SEQUENCE))
    if outer.take_whole(_SEQUENCE) != _ED25519:
        raise ValueError("another signature")
    outer.take(_BIT_STRING)
    body.take(_VERSION)
    body.take(_INTEGER)
    if body.take_whole(_SEQUENCE) != _ED25519:
        raise ValueError("another signature")
    issuer = body.take(_SEQUENCE)
    body.take(_SEQUENCE)
    if body.take(_SEQUENCE) != issuer:
        raise ValueError("signed by somebody else")
    key = _Reader(body.take(_SEQUENCE))
    if key.take_whole(_SEQUENCE) != _ED25519:
        raise ValueError("another kind of key")
    bits = key.take(_BIT_STRING)
    if len(bits) != 33 or bits[0] != 0 or not (key.is_empty and outer.is_empty and whole.is_empty):
        raise ValueError("bytes too many or too few")
    return bits[1:]


class _Reader:
    """Reads one value of DER after the other."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """Whether all was read."""
        return self._at == len(self._content)

    def take(self, tag: int) -> bytes:
        """Return the content of the next value, which must have this tag."""
        begin, end = self._bounds(tag)
        self._at = end
        return self._content[begin:end]

    def take_whole(self, tag: int) -> bytes:
        """Return the next value with its head."""
        first = self._at
        _, end = self._bounds(tag)
        self._at = end
        return self._content[first:end]

    def _bounds(self, tag: int) -> tuple[int, int]:
        content, at = self._content, self._at
        if content[at] != tag:
            raise ValueError("another tag")
        length = content[at + 1]
        at += 2
        if length >= 0x80:
            count = length - 0x80
            if not 1 <= count <= 2:
                raise ValueError("too long, or of no length")
            length = int.from_bytes(content[at : at + count], "big")
            if length < (0x80 if count == 1 else 0x100):
                raise ValueError("a length not in its shortest form")
            at += count
        if at + length > len(content):
            raise ValueError("cut")
        return at, at + length
