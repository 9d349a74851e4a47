"""Certificates for worlds and tests: well formed, of any public key, signed by nobody."""

from typing import Final

_ED25519: Final = bytes.fromhex("300506032b6570")
_NAME: Final = bytes.fromhex("300c310a300806035504030c0178")
_TIMES: Final = bytes.fromhex("301e170d3230303130313030303030305a170d3439303130313030303030305a")


def make_certificate(public_key: bytes) -> bytes:
    """Return the bytes of a certificate of ``public_key``; its signature is all zeros."""
    key = _ED25519 + _value(0x03, b"\0" + public_key)
    body = bytes.fromhex("a003020102") + _value(0x02, b"\x01") + _ED25519
    body += _NAME + _TIMES + _NAME + _value(0x30, key)
    return _value(0x30, _value(0x30, body) + _ED25519 + _value(0x03, bytes(65)))


def _value(tag: int, content: bytes) -> bytes:
    """Return a value of DER."""
    size = bytes((len(content),))
    return bytes((tag,)) + (size if len(content) < 0x80 else b"\x81" + size) + content
