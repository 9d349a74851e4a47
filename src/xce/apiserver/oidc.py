"""OpenID Connect: who a provider says has logged in (authorisation code with PKCE)."""

import asyncio
import base64
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from xce.config.names import USER_NAME
from xce.model.api import OidcConfig
from xce.model.errors import XceError

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519",
    "EdDSA",
)  # fmt: skip
"""Signatures with a public key only: with a shared one, or none, anybody could sign."""
DISCOVERY_S: Final = 3600.0
KEYS_S: Final = 3600.0
KEYS_AGAIN_S: Final = 30.0
"""A key that is not known has the keys fetched again, but not more often than this."""
TIMEOUT_S: Final = 15.0
DOCUMENT_MAX: Final = 1024 * 1024
LEEWAY_S: Final = 60
GROUPS_MAX: Final = 200
GROUP_MAX: Final = 128
GROUP_PREFIX: Final = "oidc:"
"""Groups of the provider cannot be mistaken for those of the system."""


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


class OidcProvider:
    """One provider, with its description and keys as far as they are known.

    Args:
        config: Which one.
        clock: Seconds that never go back.
        wall: Seconds since the epoch.
    """

    def __init__(
        self,
        config: OidcConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self._clock = clock
        self._wall = wall
        self._document: dict[str, Any] = {}
        self._document_at = -DISCOVERY_S
        self._keys: KeySet | None = None
        self._keys_at = -KEYS_S
        self._fetching = asyncio.Lock()

    async def describe(self) -> Described:
        """Return what a client needs.

        Raises:
            OidcError: The provider cannot be asked.
        """
        document = await self._discovered()
        return Described(
            self.config.issuer,
            self.config.client_id,
            _text(document, "authorization_endpoint"),
            self.config.scopes,
        )

    async def log_in(self, code: str, verifier: str, nonce: str, redirect_uri: str) -> Person:
        """Return who has logged in with this code.

        Raises:
            OidcError: Nobody has, or the provider cannot be asked.
        """
        document = await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": redirect_uri,
        }
        headers, secret = {}, self._secret()
        if secret:
            headers["Authorization"] = _basic(self.config.client_id, secret)
        else:
            form["client_id"] = self.config.client_id
        url = _text(document, "token_endpoint")
        answer = await self._ask("POST", url, data=form, headers=headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise OidcError("the provider gave no id_token")
        return self._person(await self._claims(token, nonce))

    async def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        keys = await self._key_set(again=False)
        try:
            decoded = jwt.decode(token, keys, algorithms=list(ALGORITHMS))
        except (JoseError, ValueError):
            # The provider may sign with a new key.
            keys = await self._key_set(again=True)
            try:
                decoded = jwt.decode(token, keys, algorithms=list(ALGORITHMS))
            except (JoseError, ValueError) as error:
                raise OidcError(f"the provider's token does not count: {error}") from error
        registry = jwt.JWTClaimsRegistry(
            now=int(self._wall()),
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self.config.issuer},
            aud={"essential": True, "value": self.config.client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            registry.validate(decoded.claims)
        except JoseError as error:
            raise OidcError(f"the provider's token does not count: {error}") from error
        audience, party = decoded.claims["aud"], decoded.claims.get("azp")
        if isinstance(audience, list) and len(audience) > 1 and party != self.config.client_id:
            raise OidcError("the provider's token is for somebody else too")
        return dict(decoded.claims)

    def _person(self, claims: dict[str, Any]) -> Person:
        claim, suffix = self.config.user_claim, self.config.user_suffix
        value = claims.get(claim)
        if not isinstance(value, str) or not value.endswith(suffix):
            raise OidcError(f"the claim {claim!r} names no user of this cluster")
        user = value.removesuffix(suffix) if suffix else value
        if not USER_NAME.fullmatch(user):
            raise OidcError(f"the claim {claim!r} is no name of a user: {user[:60]!r}")
        listed = claims.get(self.config.groups_claim, [])
        groups = (
            [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        )
        named = [name for name in groups if 0 < len(name) <= GROUP_MAX and name.isprintable()]
        return Person(user, tuple(f"{GROUP_PREFIX}{name}" for name in named[:GROUPS_MAX]))

    def _secret(self) -> str:
        path = self.config.client_secret_file
        if not path:
            return ""
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise OidcError(f"{path}: {error.strerror}") from error

    async def _discovered(self) -> dict[str, Any]:
        async with self._fetching:
            if self._clock() - self._document_at < DISCOVERY_S:
                return self._document
            url = f"{self.config.issuer.rstrip('/')}/.well-known/openid-configuration"
            document = await self._ask("GET", url)
            if document.get("issuer") != self.config.issuer:
                raise OidcError(
                    f"{url} is of issuer {str(document.get('issuer'))[:200]!r}, "
                    f"not of {self.config.issuer!r}"
                )
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                self._check_endpoint(name, _text(document, name))
            self._document, self._document_at = document, self._clock()
            return document

    def _check_endpoint(self, name: str, url: str) -> None:
        if self.config.issuer.startswith("https:") and not url.startswith("https:"):
            raise OidcError(f"the provider's {name} is no https URL")

    async def _key_set(self, *, again: bool) -> KeySet:
        document = await self._discovered()
        async with self._fetching:
            age_s = self._clock() - self._keys_at
            if self._keys is None or age_s >= (KEYS_AGAIN_S if again else KEYS_S):
                found = await self._ask("GET", _text(document, "jwks_uri"))
                try:
                    self._keys = KeySet.import_key_set(_public_only(found))
                except (JoseError, ValueError, KeyError, TypeError) as error:
                    raise OidcError(f"the provider's keys cannot be read: {error}") from error
                self._keys_at = self._clock()
            return self._keys

    async def _ask(
        self,
        method: str,
        url: str,
        *,
        data: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        ca_file = self.config.ca_file or None
        try:
            context = ssl.create_default_context(cafile=ca_file)
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(
                    method, url, ssl=context, allow_redirects=False, data=data,
                    headers={"Accept": "application/json", **(headers or {})},
                ) as answer,
            ):  # fmt: skip
                content = await answer.content.read(DOCUMENT_MAX)
                value = msgspec.json.decode(content) if content else {}
                if answer.status != 200 or not isinstance(value, dict):
                    raise OidcError(f"the provider answered {answer.status}{_reason(value)}")
                return value
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise OidcError(f"the provider cannot be asked: {error or 'timeout'}") from error
        except msgspec.DecodeError as error:
            raise OidcError("the provider's answer is no JSON") from error


def _public_only(document: dict[str, Any]) -> Any:  # noqa: ANN401 - what joserfc takes
    """Return a key set without shared keys: a token must never count for being signed with one."""
    keys = document.get("keys")
    found = [
        key
        for key in (keys if isinstance(keys, list) else ())
        if isinstance(key, dict)
        and key.get("kty") in ("RSA", "EC", "OKP")
        and key.get("use", "sig") == "sig"
    ]
    if not found:
        raise ValueError("there is no key for signatures")
    return {"keys": found}


def _basic(client_id: str, secret: str) -> str:
    """Return the header with which a client says who it is (RFC 6749, 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise OidcError(f"the provider's description has no {name}")
    return value


def _reason(value: object) -> str:
    if isinstance(value, dict) and isinstance(value.get("error"), str):
        return f": {value['error'][:100]} {str(value.get('error_description', ''))[:200]}".rstrip()
    return ""
