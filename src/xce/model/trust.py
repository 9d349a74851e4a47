"""Who is trusted: keys of components, revoked ones, and tokens with which new hosts enrol."""

from typing import Final

import msgspec

from xce.model.ids import Micros

CONTROLLER: Final = "controller"
PEER_ROLES: Final = (
    "apiserver", "scheduler", "worker", "history", "standby", "node-manager", "proxy", "admin",
)  # fmt: skip
"""Roles of those who dial the controller."""
TEST: Final = "test"
"""The role of test tools; known in ``mode: test`` only, and never by key."""
KEY_ROLES: Final = (CONTROLLER, *PEER_ROLES)
"""Roles for which a key may be trusted."""
KEYS_MAX: Final = 100_000
TOKENS_MAX: Final = 10_000


class TrustedKey(msgspec.Struct, frozen=True, array_like=True):
    """A key that is trusted, for one role and the names that its pattern matches."""

    key: str
    """The fingerprint, see `xce.model.certificate`."""
    role: str
    name: str
    """A name, or a pattern with ``*``."""
    certificate: bytes
    """DER. Only the public part of a key ever leaves its host."""
    expires_at_us: Micros = 0
    """From then on it is not trusted; 0: never."""
    trusted_at_us: Micros = 0
    by: str = ""


class RevokedKey(msgspec.Struct, frozen=True, array_like=True):
    """A key that is never trusted again."""

    key: str
    role: str = ""
    """Empty where it was not trusted here before."""
    name: str = ""
    revoked_at_us: Micros = 0
    by: str = ""
    why: str = ""


class HostToken(msgspec.Struct, frozen=True, array_like=True):
    """A single-use token with which the worker of one host enrols its key."""

    token: str
    """Its public name."""
    digest: str
    """Hash of its secret; the secret itself is nowhere but in the token."""
    host: str
    expires_at_us: Micros
    key_expires_at_us: Micros = 0
    """What the enrolled key's expiry will be; 0: never."""
    by: str = ""
    used_by: str = ""
    """Fingerprint of the key that was enrolled with it; empty: it was not used."""
