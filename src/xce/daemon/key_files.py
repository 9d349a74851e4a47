"""Keys of components as files: made here, read by the ``ssl`` module, never by anything else.

A private key is 0600 in a directory that is 0700, and leaves it in no way: not in a message, a log
or an error. The only place that needs the library ``cryptography``, and only to make a key.
"""

import base64
import binascii
import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from xce.model.certificate import parse_certificate
from xce.model.errors import TextError, XceError
from xce.net.tls import KeyPair

OWN_KEY: Final = "controller"
"""Stem of the files of the key of this machine's controller."""
CONTROLLERS: Final = "controllers.pem"
"""Certificates of the controllers, where they are on another machine."""
REVOKED: Final = "revoked"
"""Fingerprints of keys that are never trusted again, one a line: outlives a restored journal."""
FIRST_TRUSTED: Final = "first-trusted"
"""Who is trusted when a cluster begins: lines ``role name file``."""
ENROLLED: Final = "enrolled"
"""What an enrolled host knows: lines ``key value``."""
_PEM: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----"
)
_LABEL: Final = ("role", "name")
_FILE_BYTES_MAX: Final = 64 * 1024
_STEM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NOT_BEFORE: Final = datetime(2020, 1, 1, tzinfo=UTC)
_NOT_AFTER: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""A certificate is good for ever: how long its key is trusted stands in the trusted list."""


class KeyFileError(XceError):
    """A key cannot be made, stored or used; the message never tells what is in a file."""


class MadeKey(NamedTuple):
    """A new key."""

    private_pem: bytes
    certificate: bytes
    """DER."""

    @property
    def fingerprint(self) -> str:
        """The key's name."""
        return parse_certificate(self.certificate).fingerprint

    def __repr__(self) -> str:
        """Return what may be told."""
        return f"MadeKey({self.fingerprint[:16]})"


def make_key(role: str, name: str) -> MadeKey:
    """Return a new Ed25519 key with its self-signed certificate."""
    # Only who makes a key needs the library.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    private = Ed25519PrivateKey.generate()
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, f"{role} {name}"[:64]),
            # Two keys of one name must be told apart by those who look for an issuer by name.
            x509.NameAttribute(NameOID.SERIAL_NUMBER, secrets.token_hex(8)),
        ]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(private, None)
    )
    return MadeKey(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        certificate.public_bytes(serialization.Encoding.DER),
    )


def key_pair(directory: Path, stem: str) -> KeyPair:
    """Return where a key lies."""
    return KeyPair(directory / f"{stem}.crt", directory / f"{stem}.key")


def store_key(
    directory: Path,
    stem: str,
    made: MadeKey,
    *,
    label: tuple[str, str] = ("", ""),
    replace: bool = False,
) -> KeyPair:
    """Write a key down.

    Args:
        directory: Where; it is made where it is missing.
        stem: Name of the files without ``.key`` and ``.crt``.
        made: The key.
        label: Role and name, which the certificate's file then says in front.
        replace: Whether one that is there is replaced.

    Raises:
        KeyFileError: There is one already and it is not to be replaced, or it cannot be written.
    """
    if not _STEM.fullmatch(stem):
        raise KeyFileError(f"{stem[:80]!r} is no name for the file of a key")
    pair = key_pair(directory, stem)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_directory(directory)
        if pair.key.exists() and not replace:
            raise KeyFileError(f"{pair.key} is there already: it is not overwritten")
        store_file(pair.key, made.private_pem)
        head = "".join(
            f"{key}: {value}\n" for key, value in zip(_LABEL, label, strict=True) if value
        )
        store_file(pair.certificate, head.encode() + render_pem(made.certificate), mode=0o644)
    except OSError as error:
        raise KeyFileError(f"{pair.key}: cannot be written: {error.strerror}") from error
    return pair


def check_key(pair: KeyPair) -> KeyPair:
    """Return ``pair`` when its private key is there and nobody else can read it.

    Raises:
        KeyFileError: It is not there, or others can read it.
    """
    try:
        found = pair.key.stat()
        pair.certificate.stat()
    except OSError as error:
        raise KeyFileError(f"{pair.key}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise KeyFileError(f"{pair.key} is no file")
    if found.st_uid != os.geteuid():
        raise KeyFileError(f"{pair.key} belongs to user id {found.st_uid}, not to {os.geteuid()}")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise KeyFileError(
            f"{pair.key} can be read by others (mode {stat.S_IMODE(found.st_mode):o}): take it for "
            "stolen, revoke it and make another; a new one gets mode 600"
        )
    return pair


def check_directory(directory: Path) -> None:
    """Check that nobody else can put keys into a directory.

    Raises:
        KeyFileError: Somebody can.
    """
    found = directory.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise KeyFileError(f"{directory} can be written by others: give it mode 700, and to you")


def store_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file aside, with its final mode from the beginning, and move it into place."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def render_pem(certificate: bytes) -> bytes:
    """Return a certificate as text."""
    text = base64.b64encode(certificate).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    body = "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""])
    return body.encode()


def load_certificates(path: Path) -> list[bytes]:
    """Return the certificates of a file, in DER.

    Raises:
        KeyFileError: It cannot be read, has none, or has one that is none of ours.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read: {error.strerror}") from error
    if b"PRIVATE KEY" in content:
        raise KeyFileError(f"{path} holds a private key: name the certificate, which ends in .crt")
    found: list[bytes] = []
    for match in _PEM.finditer(content[:_FILE_BYTES_MAX]):
        try:
            certificate = base64.b64decode(b"".join(match[1].split()), validate=True)
            parse_certificate(certificate)
        except (binascii.Error, TextError) as error:
            raise KeyFileError(f"{path}: no certificate of ours: {error}") from error
        found.append(certificate)
    if not found:
        raise KeyFileError(f"{path}: no certificate in it")
    return found


def load_label(path: Path) -> tuple[str, str]:
    """Return the role and the name that the file of a certificate says in front; empty: none.

    Who trusts the key says whose it is; this is only what is taken when he says nothing else.
    """
    with path.open("rb") as file:
        head = file.read(_FILE_BYTES_MAX).split(b"-----BEGIN", 1)[0].decode("utf-8", "replace")
    said = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    role, name = (said.get(key, "").strip() for key in _LABEL)
    return role, name


def load_controllers(directory: Path) -> tuple[bytes, ...]:
    """Return the certificates of the controllers that a host knows; none where it never enrolled.

    Raises:
        KeyFileError: They cannot be read.
    """
    path = directory / CONTROLLERS
    return tuple(load_certificates(path)) if path.exists() else ()


def store_controllers(directory: Path, controllers: Iterable[bytes]) -> None:
    """Keep the certificates of the controllers."""
    content = b"".join(render_pem(certificate) for certificate in controllers)
    store_file(directory / CONTROLLERS, content, mode=0o644)


def load_revoked(directory: Path) -> list[str]:
    """Return the fingerprints that were written down as revoked; a broken line counts as none.

    Raises:
        KeyFileError: The file is there and cannot be read: who may not come is then not known.
    """
    path = directory / REVOKED
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read: {error.strerror}") from error
    return [line for line in lines if re.fullmatch(r"[0-9a-f]{64}", line)]


def note_revoked(directory: Path, keys: Iterable[str]) -> None:
    """Write down that keys are revoked, behind those that are there."""
    missing = [key for key in keys if key not in set(load_revoked(directory))]
    if not missing:
        return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (directory / REVOKED).open("a", encoding="ascii") as file:
        # Behind a line that was cut by a crash, too.
        file.write("".join(f"\n{key}\n" for key in missing))
        file.flush()
        with contextlib.suppress(OSError):
            os.fsync(file.fileno())
