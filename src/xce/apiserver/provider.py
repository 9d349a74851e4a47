"""What an OpenID Connect provider is asked for; `xce.apiserver.oidc` asks it."""

from typing import Protocol

import msgspec

from xce.model.api import OidcConfig
from xce.model.errors import XceError


class OidcError(XceError):
    """A login that did not succeed, or a provider that cannot be asked."""


class Described(msgspec.Struct, frozen=True):
    """What a client needs to send its user to the provider."""

    issuer: str
    client_id: str
    authorization_endpoint: str
    scopes: tuple[str, ...]


class Person(msgspec.Struct, frozen=True):
    """Who has logged in at the provider."""

    user: str
    groups: tuple[str, ...]


class Provider(Protocol):
    """A provider."""

    config: OidcConfig

    async def describe(self) -> Described:
        """Return what a client needs."""
        ...

    async def log_in(self, code: str, verifier: str, nonce: str, redirect_uri: str) -> Person:
        """Return who has logged in with this code."""
        ...
