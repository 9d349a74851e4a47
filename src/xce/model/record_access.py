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


class LoginRevoked(msgspec.Struct, frozen=True, tag="login-revoked", array_like=True):
    """A login of a user counts no more."""

    wakes: ClassVar[frozenset[Wake]] = frozenset()

    user: str
    session: str
    """Empty: every login up to ``at_us``."""
    at_us: Micros
    expires_at_us: Micros
    """Until then it must be remembered."""
