"""Records about users and what they may do; the rules of `xce.model.record` hold."""

from typing import ClassVar

import msgspec

from xce.model.ids import Micros
from xce.model.permission import Denial
from xce.model.reason import Wake


class DenialsNoted(msgspec.Struct, frozen=True, tag="denials-noted", array_like=True):
    """Users were denied something; for the audit, nothing follows."""

    wakes: ClassVar[frozenset[Wake]] = frozenset()

    rows: tuple[Denial, ...]


class LoginBegan(msgspec.Struct, frozen=True, tag="login-began", array_like=True):
    """A user logged in; for the audit, nothing follows."""

    wakes: ClassVar[frozenset[Wake]] = frozenset()

    user: str
    session: str
    way: str
    """``unix``, ``oidc`` or ``munge``."""


class LoginRefreshed(msgspec.Struct, frozen=True, tag="login-refreshed", array_like=True):
    """The token with which a login is prolonged was exchanged for the next one."""

    wakes: ClassVar[frozenset[Wake]] = frozenset()

    user: str
    session: str
    turn: int
    """How many were exchanged."""
    at_us: Micros
    ends_at_us: Micros
    """When the login ends: until then it must be remembered."""


class LoginRevoked(msgspec.Struct, frozen=True, tag="login-revoked", array_like=True):
    """A login of a user counts no more."""

    wakes: ClassVar[frozenset[Wake]] = frozenset()

    user: str
    session: str
    """Empty: every login up to ``at_us``."""
    at_us: Micros
    expires_at_us: Micros
    """Until then it must be remembered."""
