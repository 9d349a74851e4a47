"""``api`` in ``xce.yaml``: what it means, and where it says what is wrong."""

import pytest

from xce.config.parse import parse_config
from xce.model.api import ApiConfig
from xce.model.errors import ConfigError

WHOLE = """\
api:
  listen: 0.0.0.0:7823
  cert: /etc/xce/api.pem
  key: /etc/xce/api.secret
  access_s: 5m
  session_s: 1d
  requests_per_s: 100
  munge: true
  oidc:
    issuer: https://sso.example.org:8443/realms/site
    client_id: xce
    client_secret_file: /etc/xce/oidc.secret
    user_suffix: "@example.org"
    scopes: [openid, email]
"""


def test_the_mapping_gives_a_door_and_ways_to_log_in():
    api = parse_config({"xce.yaml": WHOLE}).api
    assert (api.listen, api.cert, api.key) == (
        "0.0.0.0:7823", "/etc/xce/api.pem", "/etc/xce/api.secret",
    )  # fmt: skip
    assert (api.access_us, api.session_us) == (300_000_000, 86_400_000_000)
    assert (api.requests_per_s, api.munge) == (100, True)
    assert api.oidc is not None
    assert (api.oidc.client_id, api.oidc.user_claim) == ("xce", "preferred_username")
    assert api.oidc.scopes == ("openid", "email")


def test_without_it_there_is_the_unix_socket_only():
    assert parse_config({}).api == ApiConfig()
    assert parse_config({"xce.yaml": "api: {}\n"}).api == ApiConfig()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen: 7823", "is no address"),
        ("cert: /etc/x.pem", "belong together"),
        ("{cert: a.pem, key: /b}", "is no absolute path"),
        ("session_s: 31d", "out of range"),
        ("access_s: 1s", "out of range"),
        ("{access_s: 2h, session_s: 1h}", "cannot outlive"),
        ("requests_per_s: 0", "out of range"),
        ("lissten: 0.0.0.0:1", "did you mean 'listen'"),
        ("munge: maybe", "is no flag"),
        ("oidc: {client_id: x}", "needs the key 'issuer'"),
        ("oidc: {issuer: 'http://sso.example.org', client_id: x}", "is no issuer"),
        ("oidc: {issuer: 'https://a@b', client_id: x}", "is no issuer"),
        ("oidc: {issuer: 'https://b?x=1', client_id: x}", "is no issuer"),
        ("oidc: {issuer: 'https://b', client_id: x, scopes: [profile]}", "lacks 'openid'"),
        ("oidc: {issuer: 'https://b', client_id: x, secret: y}", "has no key 'secret'"),
        ("[]", "is no mapping"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text, said):
    with pytest.raises(ConfigError) as raised:
        parse_config({"xce.yaml": f"api:\n  {text}\n"})
    assert "xce.yaml:2: api" in str(raised.value)
    assert said in str(raised.value)


def test_a_provider_without_tls_is_taken_on_loopback_only():
    text = "api:\n  oidc: {issuer: 'http://127.0.0.1:9400', client_id: x}\n"
    assert parse_config({"xce.yaml": text}).api.oidc is not None
