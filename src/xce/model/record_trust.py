"""Records about who is trusted; the rules of `xce.model.record` hold."""

from typing import ClassVar

import msgspec

from xce.model.reason import Wake
from xce.model.trust import HostToken, RevokedKey, TrustedKey


class KeyTrusted(msgspec.Struct, frozen=True, tag="key-trusted", array_like=True):
    """A component's key is trusted from now on."""

    wakes: ClassVar[frozenset[Wake]] = frozenset()

    trusted: TrustedKey


class KeyRevoked(msgspec.Struct, frozen=True, tag="key-revoked", array_like=True):
    """A component's key is never trusted again."""

    wakes: ClassVar[frozenset[Wake]] = frozenset()

    revoked: RevokedKey


class HostTokenMade(msgspec.Struct, frozen=True, tag="host-token-made", array_like=True):
    """A host may enrol with this token."""

    wakes: ClassVar[frozenset[Wake]] = frozenset()

    made: HostToken


class HostTokenUsed(msgspec.Struct, frozen=True, tag="host-token-used", array_like=True):
    """A host has enrolled this key; the token is worth nothing any more."""

    wakes: ClassVar[frozenset[Wake]] = frozenset()

    token: str
    key: str
