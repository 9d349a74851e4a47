"""How users reach the apiserver from other machines, and how they show who they are."""

from typing import Final

import msgspec

from xce.model.ids import HOUR_US, SECOND_US, Micros

SESSION_US_MAX: Final = 30 * 24 * HOUR_US
"""No login lasts longer."""
ACCESS_US_MAX: Final = 24 * HOUR_US


class OidcConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OpenID Connect provider at which users log in."""

    issuer: str
    client_id: str
    client_secret_file: str = ""
    """Where the secret of our client lies, which is never in the configuration itself."""
    user_claim: str = "preferred_username"
    user_suffix: str = ""
    """What the claim's value must end in, and what is no part of the user's name here."""
    groups_claim: str = "groups"
    scopes: tuple[str, ...] = ("openid", "profile")
    ca_file: str = ""
    """Who certifies the provider; empty: whom the system trusts."""


class ApiConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The apiserver's own door to the network, and logins."""

    listen: str = ""
    """``host:port``; empty: it can be reached over its unix socket only."""
    cert: str = ""
    """Certificate chain and private key as PEM files; empty: a self-made certificate."""
    key: str = ""
    access_us: Micros = 15 * 60 * SECOND_US
    """How long a token counts until it must be refreshed."""
    session_us: Micros = 12 * HOUR_US
    """How long a login may be refreshed."""
    requests_per_s: int = 5_000
    """Of one user; a burst may be twice that."""
    oidc: OidcConfig | None = None
    munge: bool = False
    """Whether users may log in with MUNGE credentials."""
