"""Whom a provider's token names, and which tokens do not count."""

import asyncio
import base64
import hashlib
import hmac
import json
import time

import pytest
from oidc_provider import ECKey, OctKey, RSAKey, ScriptedProvider

from xce.apiserver.oidc import OidcError, OidcProvider
from xce.model.api import OidcConfig

VERIFIER, NONCE, URI = "v" * 43, "n" * 20, "http://127.0.0.1:1/"


def asked(change=lambda provider: None, *, then=None, **config):
    """Return what a login gives at a provider that ``change`` has changed."""

    async def story():
        provider = ScriptedProvider()
        change(provider)
        async with provider.running():
            clock = [0.0]
            found = OidcProvider(
                OidcConfig(issuer=provider.issuer, client_id="xce", **config),
                clock=lambda: clock[0],
            )
            if then is not None:
                return await then(found, provider, clock)
            person = await found.log_in("code", VERIFIER, NONCE, URI)
            return person, provider

    return asyncio.run(story())


def test_a_good_token_names_a_user_and_his_groups():
    person, provider = asked()
    assert person.user == "alice"
    assert person.groups == ("oidc:ops",)
    assert provider.asked == [
        {
            "grant_type": "authorization_code", "code": "code", "code_verifier": VERIFIER,
            "redirect_uri": URI, "client_id": "xce",
        }
    ]  # fmt: skip


def test_a_suffix_is_no_part_of_the_name_and_must_be_there():
    def change(provider):
        provider.claims = {"email": "alice@example.org"}

    settings = {"user_claim": "email", "user_suffix": "@example.org"}
    assert asked(change, **settings)[0].user == "alice"
    with pytest.raises(OidcError, match="names no user"):
        asked(change, user_claim="email", user_suffix="@example.com")


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"iss": "http://127.0.0.1:1"}, "iss"),
        ({"aud": "another"}, "aud"),
        ({"aud": ["another"]}, "aud"),
        ({"aud": ["xce", "another"]}, "somebody else too"),
        ({"exp": 1_000_000_000}, "exp"),
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
        ({"iat": 9_000_000_000}, "iat|future"),
        ({"nbf": 9_000_000_000}, "not yet valid"),
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"preferred_username": None}, "names no user"),
        ({"preferred_username": 7}, "names no user"),
        ({"preferred_username": "../root"}, "no name of a user"),
        ({"preferred_username": "a b"}, "no name of a user"),
        ({"preferred_username": ""}, "no name of a user"),
    ],
)
def test_claims_that_do_not_count(claims, said):
    def change(provider):
        provider.claims = claims

    with pytest.raises(OidcError, match=said):
        asked(change)


def test_a_token_for_several_counts_for_the_party_that_it_names():
    def change(provider):
        provider.claims = {"aud": ["xce", "another"], "azp": "xce"}

    assert asked(change)[0].user == "alice"


def unsigned(provider):
    head, body, _ = provider.id_token().split(".")
    head = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).rstrip(b"=").decode()
    provider.token = f"{head}.{body}."


def signed_with_the_public_key(provider):
    _, body, _ = provider.id_token().split(".")
    head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "one"}).encode())
    signed = f"{head.rstrip(b'=').decode()}.{body}"
    mac = hmac.new(provider.key.as_pem(private=False), signed.encode(), hashlib.sha256).digest()
    provider.token = f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def signed_by_another(provider):
    provider.sign_with = RSAKey.generate_key(2048)


def signed_with_a_published_shared_key(provider):
    shared = OctKey.generate_key(256, {"kid": "shared"})
    provider.published = [provider.key, Shown(shared)]
    provider.sign_with, provider.header = shared, {"alg": "HS256", "kid": "shared"}


class Shown:
    """A key that is published with its secret."""

    def __init__(self, key):
        self._key = key

    def as_dict(self, *, private):
        return self._key.as_dict(private=True)


@pytest.mark.parametrize(
    "change",
    [unsigned, signed_with_the_public_key, signed_by_another, signed_with_a_published_shared_key],
)
def test_signatures_that_do_not_count(change):
    with pytest.raises(OidcError, match="does not count"):
        asked(change)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "..", "é.é.é", "a" * 100_000])
def test_texts_that_are_no_tokens(token):
    def change(provider):
        provider.token = token

    with pytest.raises(OidcError):
        asked(change)


def test_keys_are_kept_and_fetched_again_when_one_is_not_known_but_not_in_a_flood():
    async def then(found, provider, clock):
        for _ in range(3):
            await found.log_in("code", VERIFIER, NONCE, URI)
        assert provider.key_fetches == 1
        # The provider signs with a new key from now on.
        new = ECKey.generate_key("P-256", {"kid": "two", "use": "sig"})
        provider.published = [provider.key, new]
        provider.sign_with, provider.header = new, {"alg": "ES256", "kid": "two"}
        clock[0] = 31.0
        assert (await found.log_in("code", VERIFIER, NONCE, URI)).user == "alice"
        assert provider.key_fetches == 2
        # Tokens with keys that do not exist do not make us ask each time.
        provider.header = {"alg": "ES256", "kid": "three"}
        for _ in range(5):
            with pytest.raises(OidcError):
                await found.log_in("code", VERIFIER, NONCE, URI)
        assert provider.key_fetches == 2

    asked(then=then)


def test_a_key_that_the_provider_has_withdrawn_counts_no_more():
    async def then(found, provider, clock):
        await found.log_in("code", VERIFIER, NONCE, URI)
        provider.published = [RSAKey.generate_key(2048, {"kid": "two"})]
        clock[0] = 3_601.0
        with pytest.raises(OidcError):
            await found.log_in("code", VERIFIER, NONCE, URI)

    asked(then=then)


def test_a_description_of_another_issuer_or_without_endpoints_is_refused():
    for document, said in (
        ({"issuer": "https://evil.example"}, "is of issuer"),
        ({"token_endpoint": None}, "no token_endpoint"),
        ({"jwks_uri": 5}, "no jwks_uri"),
    ):

        def change(provider, document=document):
            provider.document = document

        with pytest.raises(OidcError, match=said):
            asked(change)


def test_a_provider_that_is_away_is_told_soon():
    async def story():
        config = OidcConfig(issuer="http://127.0.0.1:1", client_id="xce")
        began = time.monotonic()
        with pytest.raises(OidcError, match="cannot be asked"):
            await OidcProvider(config).describe()
        assert time.monotonic() - began < 5

    asyncio.run(story())


def test_the_secret_of_our_client_goes_in_the_header_only(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    _, provider = asked(client_secret_file=str(secret))
    assert "hush" not in str(provider.asked)
    assert "client_id" not in provider.asked[0]
    with pytest.raises(OidcError, match="No such file"):
        asked(client_secret_file=str(tmp_path / "nothing"))
