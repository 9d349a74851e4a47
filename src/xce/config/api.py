"""``api`` in ``xce.yaml``: where users of other machines connect, and how they log in."""

import re
from typing import Any, Final

from xce.config.document import Key, Place, Table, each_item, read_mapping, scalar_text
from xce.config.values import read_address, read_count, read_flag, read_line, read_seconds
from xce.model.address import is_loopback
from xce.model.api import ACCESS_US_MAX, SESSION_US_MAX
from xce.model.errors import TextError
from xce.model.ids import SECOND_US, Micros

_REQUESTS_MAX: Final = 1_000_000
_ISSUER: Final = re.compile(
    r"(?P<scheme>https?)://(?:\[(?P<ipv6>[0-9a-fA-F:]+)\]|(?P<host>[A-Za-z0-9.-]+))"
    r"(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~%!$&'()*+,;=:@/-]*)?"
)
_SCOPE: Final = re.compile(r"[!#-\[\]-~]{1,64}")


def _read_path(place: Place) -> str:
    text = read_line(4096)(place)
    if not text.startswith("/"):
        raise TextError(f"{text[:80]!r} is no absolute path")
    return text


def _read_issuer(place: Place) -> str:
    text = read_line(1024)(place)
    match = _ISSUER.fullmatch(text)
    host = (match["ipv6"] or match["host"]) if match is not None else ""
    if match is None or (match["scheme"] == "http" and not is_loopback(host)):
        raise TextError(
            f"{text[:80]!r} is no issuer: expected https://host[:port][/path], or http on loopback"
        )
    return text


def _read_scopes(place: Place) -> tuple[str, ...]:
    found = []
    for item in each_item(place, "scopes"):
        text = scalar_text(item)
        if not _SCOPE.fullmatch(text):
            item.problem(f"{text[:60]!r} is no scope")
        found.append(text)
    if "openid" not in found:
        place.problem("lacks 'openid', without which a provider tells nothing")
    return tuple(dict.fromkeys(found))


def _read_lifetime(most_us: Micros) -> Any:  # noqa: ANN401 - a reader
    def read(place: Place) -> Micros:
        found = read_seconds(place)
        if not 10 * SECOND_US <= found <= most_us:
            most_s = most_us // SECOND_US
            raise TextError(f"{found // SECOND_US} s is out of range: expected 10 to {most_s} s")
        return found

    return read


OIDC: Final = Table(
    noun="oidc",
    keys={
        "issuer": Key("issuer", _read_issuer),
        "client_id": Key("client_id", read_line(256)),
        "client_secret_file": Key("client_secret_file", _read_path),
        "user_claim": Key("user_claim", read_line(64)),
        "user_suffix": Key("user_suffix", read_line(128)),
        "groups_claim": Key("groups_claim", read_line(64)),
        "scopes": Key("scopes", _read_scopes),
        "ca_file": Key("ca_file", _read_path),
    },
    required=("issuer", "client_id"),
)


def _read_oidc(place: Place) -> dict[str, Any] | None:
    found = read_mapping(place, OIDC)
    return found if "issuer" in found and "client_id" in found else None


API: Final = Table(
    noun="api",
    keys={
        "listen": Key("listen", read_address),
        "cert": Key("cert", _read_path),
        "key": Key("key", _read_path),
        "access_s": Key("access_us", _read_lifetime(ACCESS_US_MAX)),
        "session_s": Key("session_us", _read_lifetime(SESSION_US_MAX)),
        "requests_per_s": Key("requests_per_s", read_count(1, _REQUESTS_MAX)),
        "oidc": Key("oidc", _read_oidc),
        "munge": Key("munge", read_flag),
    },
)


def read_api(place: Place) -> dict[str, Any]:
    """Read the mapping ``api``."""
    found = read_mapping(place, API)
    if ("cert" in found) != ("key" in found):
        place.problem("cert and key belong together: give both or neither")
    if "access_us" in found and "session_us" in found and found["access_us"] > found["session_us"]:
        place.at("access_s").problem("is above session_s: a token cannot outlive its login")
    return found
