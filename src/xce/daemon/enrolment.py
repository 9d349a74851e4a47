"""Enrolling: a host makes its own key, and has it trusted by means of a token."""

import contextlib
from pathlib import Path
from typing import Final, NamedTuple

from xce.daemon.host_token import Token
from xce.daemon.key_files import (
    ENROLLED,
    KeyFileError,
    key_pair,
    load_certificates,
    make_key,
    store_controllers,
    store_file,
    store_key,
)
from xce.model.address import Address, parse_address
from xce.model.errors import TextError
from xce.net.handshake import DialError
from xce.net.message import PROTOCOL, Enrol
from xce.net.message import Enrolled as Answer
from xce.net.tls import KeyPair, enrol

_HEAD: Final = "# What this host is in the cluster; written by enrolling.\n"


class Enrolled(NamedTuple):
    """What a host knows of itself."""

    host: str
    cluster: str
    addresses: tuple[Address, ...]
    """Where controllers listen, one of which leads."""


def worker_stem(host: str) -> str:
    """Return the stem of the files of a worker's key."""
    return f"worker-{host}"


async def enrol_host(
    keys: Path, token: Token, addresses: tuple[Address, ...], version: str
) -> Enrolled:
    """Have the key of this host trusted, and keep it.

    When an earlier try came to nothing its key is taken again, since it may be trusted already.

    Args:
        keys: Directory of keys.
        token: The token.
        addresses: Where controllers listen; those that stand by do not answer.
        version: Our release.

    Raises:
        DialError: The controller is not there, or is another one than the token says.
        ConnectionRefusedByPeerError: It refuses.
        KeyFileError: The key cannot be kept.
    """
    fresh = key_pair(keys, f"{worker_stem(token.host)}.new")
    if not (fresh.key.exists() and fresh.certificate.exists()):
        made = make_key("worker", token.host)
        fresh = store_key(keys, fresh.key.stem, made, replace=True)
    (certificate, *_) = load_certificates(fresh.certificate)
    first = Enrol(PROTOCOL, token.host, token.token, token.secret, certificate, version)
    answer = await _enrol_somewhere(addresses, first, token.controllers)
    store_controllers(keys, answer.controllers)
    _put_in_place(fresh, key_pair(keys, worker_stem(token.host)))
    enrolled = Enrolled(token.host, answer.cluster, addresses)
    where = ",".join(map(str, addresses))
    text = f"{_HEAD}host {token.host}\ncluster {answer.cluster}\nconnect {where}\n"
    store_file(keys / ENROLLED, text.encode())
    return enrolled


async def _enrol_somewhere(
    addresses: tuple[Address, ...], first: Enrol, controllers: tuple[str, ...]
) -> Answer:
    """Enrol at the first address where a controller answers."""
    *others, last = addresses
    for address in others:
        with contextlib.suppress(DialError):
            return await enrol(address, first, controllers)
    return await enrol(last, first, controllers)


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Return the addresses of ``host:port,host:port``.

    Raises:
        TextError: One of them is none.
    """
    return tuple(parse_address(word) for word in text.split(","))


def _put_in_place(fresh: KeyPair, pair: KeyPair) -> None:
    fresh.certificate.replace(pair.certificate)
    fresh.key.replace(pair.key)


def load_enrolled(keys: Path) -> Enrolled | None:
    """Return what this host is, None where it has not enrolled.

    Raises:
        KeyFileError: The file cannot be read.
    """
    path = keys / ENROLLED
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"{path}: cannot be read") from error
    words = dict(line.split(" ", 1) for line in lines if " " in line and line[0] != "#")
    try:
        return Enrolled(words["host"], words["cluster"], parse_addresses(words["connect"]))
    except (KeyError, TextError) as error:
        raise KeyFileError(f"{path} is broken: enrol again") from error
