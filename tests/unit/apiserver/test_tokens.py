"""Tokens: only those of this cluster count, for what they are for, as long as they say."""

import base64
import json

import pytest

from xce.apiserver.tokens import ACCESS, REFRESH, Login, TokenError, Tokens
from xce.model.record_access import LoginRevoked
from xce.state.logins import LoginTable

NOW = 1_700_000_000.0
LOGIN = Login("ann", 1001, "s1", int(NOW * 1e6), int(NOW) + 3600, "unix", ("oidc:ops",))
NONE = LoginTable()


@pytest.fixture
def now():
    return [NOW]


@pytest.fixture
def tokens(now):
    return Tokens(b"k" * 32, clock=lambda: now[0])


def refused(tokens, token, *, kind=ACCESS, audience="xce:a", revoked=NONE):
    with pytest.raises(TokenError) as raised:
        tokens.read(kind, token, audience, revoked)
    return raised.value.code


def test_what_was_written_is_read(tokens):
    token, expires_at = tokens.write(ACCESS, LOGIN, "xce:a", life_s=900)
    assert tokens.read(ACCESS, token, "xce:a", NONE) == LOGIN
    assert expires_at == NOW + 900
    assert token.isascii()
    assert all(sign not in token for sign in " \r\n,;")


def test_a_token_expires_and_never_outlives_its_login(tokens, now):
    token, expires_at = tokens.write(ACCESS, LOGIN, "xce:a", life_s=10_000)
    assert expires_at == LOGIN.ends_at
    now[0] = LOGIN.ends_at - 1
    tokens.read(ACCESS, token, "xce:a", NONE)
    now[0] = LOGIN.ends_at
    assert refused(tokens, token) == "token-expired"


def test_another_cluster_another_purpose_and_another_key_are_refused(tokens):
    token, _ = tokens.write(ACCESS, LOGIN, "xce:a", life_s=900)
    refresh, _ = tokens.write(REFRESH, LOGIN, "xce:a", life_s=900)
    assert refused(tokens, token, audience="xce:b") == "bad-token"
    assert refused(tokens, refresh) == "bad-token"
    assert refused(tokens, token, kind=REFRESH) == "bad-token"
    assert refused(Tokens(b"x" * 32, clock=lambda: NOW), token) == "bad-token"


def test_no_byte_of_a_token_can_be_changed(tokens):
    token, _ = tokens.write(ACCESS, LOGIN, "xce:a", life_s=900)
    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        assert refused(tokens, token[:place] + other + token[place + 1 :]) == "bad-token"


@pytest.mark.parametrize(
    "token",
    [
        "", ".", "..", "xce-access..", "a.b", "a.b.c", "xce-access.e30.", "é.a.b", "x" * 20_000,
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.", "\0.\0.\0",
    ],
)  # fmt: skip
def test_texts_that_are_no_tokens_are_refused(tokens, token):
    assert refused(tokens, token) == "bad-token"


def test_a_payload_cannot_be_exchanged(tokens):
    token, _ = tokens.write(ACCESS, LOGIN, "xce:a", life_s=900)
    kind, body, mac = token.split(".")
    payload = json.loads(base64.urlsafe_b64decode(body + "=="))
    payload["login"]["user"] = "root"
    forged = base64.urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=").decode()
    assert refused(tokens, f"{kind}.{forged}.{mac}") == "bad-token"


def test_a_revoked_login_counts_no_more(tokens):
    token, _ = tokens.write(ACCESS, LOGIN, "xce:a", life_s=900)
    one = LoginTable([LoginRevoked("ann", "s1", 0, int(1e18))])
    assert refused(tokens, token, revoked=one) == "token-revoked"
    for other in (LoginRevoked("ann", "s2", 0, int(1e18)), LoginRevoked("bob", "s1", 0, int(1e18))):
        assert tokens.read(ACCESS, token, "xce:a", LoginTable([other])) == LOGIN
    began = LOGIN.began_at_us
    every = LoginTable([LoginRevoked("ann", "", began, int(1e18))])
    assert refused(tokens, token, revoked=every) == "token-revoked"
    earlier = LoginTable([LoginRevoked("ann", "", began - 1, int(1e18))])
    assert tokens.read(ACCESS, token, "xce:a", earlier) == LOGIN


def test_a_login_of_the_future_is_refused(tokens, now):
    token, _ = tokens.write(ACCESS, LOGIN, "xce:a", life_s=900)
    now[0] = NOW - 3_600
    assert refused(tokens, token) == "bad-token"
