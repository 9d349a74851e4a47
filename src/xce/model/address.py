"""Network addresses as text: ``host:port``, ``[::1]:port``."""

import ipaddress
import re
from typing import Final, NamedTuple

from xce.model.errors import TextError

_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")


class Address(NamedTuple):
    """Where to listen or to dial."""

    host: str
    """A name or an IP address, without brackets."""
    port: int

    def __str__(self) -> str:
        """Return ``host:port``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address that a text names.

    Raises:
        TextError: It names none.
    """
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        is_good = _is_ipv6(host)
    else:
        is_good = _HOST.fullmatch(host) is not None
    if not (colon and is_good and re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65536):
        raise TextError(f"{text[:300]!r} is no address: expected host:port, e.g. 10.0.0.1:7820")
    return Address(host, int(port))


def is_loopback(host: str) -> bool:
    """Return whether an IP address can be reached from its own machine only."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False
