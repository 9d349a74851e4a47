"""How a daemon reaches the controllers: by sockets of its machine, or over the network with a key.

The key of a component is ``keys/ROLE-MACHINE.key`` in its state directory, and the certificates
that controllers may have are ``keys/controllers.pem``; the leader says when those change.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from xce.daemon.config_directory import load_site
from xce.daemon.fresh_config import machine_name
from xce.daemon.key_files import (
    CONTROLLERS,
    OWN_KEY,
    KeyFileError,
    check_key,
    key_pair,
    load_certificates,
    load_controllers,
    store_controllers,
)
from xce.daemon.paths import Layout
from xce.model.address import Address, parse_address
from xce.model.certificate import parse_certificate
from xce.net.destination import Destination
from xce.net.tls import KeyPair, TlsDialler


class Ways(NamedTuple):
    """Where the controllers are for a component."""

    destinations: tuple[Destination, ...]
    name: str
    """Under which its key is trusted; empty: it needs none, and may take any."""
    learn: Callable[[tuple[bytes, ...]], object]
    """To be told of the certificates that controllers have now."""


def find_ways(layout: Layout, role: str, log: logging.Logger) -> Ways:
    """Return the ways of a component that has a configuration: one of ``xce up``.

    Where controllers of other machines are named, the one of this machine comes first.

    Raises:
        ConfigError: The configuration cannot be used.
        KeyFileError: A key is needed and cannot be used.
    """
    named = load_site(layout.config).controllers
    paths = [Path(text) for text in named if text.startswith("/")]
    addresses = [parse_address(text) for text in named if not text.startswith("/")]
    if not addresses:
        return Ways(tuple(paths) or (layout.controller_socket,), "", lambda _: None)
    name = machine_name()
    pair = key_pair(layout.keys, f"{role}-{name}")
    if not pair.key.exists():
        raise KeyFileError(
            f"xce.yaml names controllers of other machines and {pair.key} is not there: make it "
            f"with `xceadmin keys new {role} {name}`, and have its .crt trusted there"
        )
    ways = find_ways_by_key(layout.keys, addresses, check_key(pair), log)
    own = layout.controller_socket
    here = (own, *(path for path in paths if path != own))
    return Ways((*here, *ways.destinations), name, ways.learn)


def own_controller(keys: Path) -> str:
    """Return the fingerprint of the key of this machine's controller; empty: it has none."""
    try:
        (certificate, *_) = load_certificates(key_pair(keys, OWN_KEY).certificate)
    except KeyFileError:
        return ""
    return parse_certificate(certificate).fingerprint


def find_ways_by_key(
    keys: Path, addresses: Iterable[Address], pair: KeyPair, log: logging.Logger
) -> Ways:
    """Return the ways over the network with a key.

    Raises:
        KeyFileError: The certificates of the controllers are not there or cannot be read.
    """
    known = load_controllers(keys)
    if not known:
        raise KeyFileError(
            f"{keys / CONTROLLERS} is not there: it is the controller.crt of the controller's "
            "machine, or those of all controllers, one behind the other"
        )
    diallers = tuple(TlsDialler(address, pair, known) for address in addresses)

    def learn(controllers: tuple[bytes, ...]) -> None:
        if not controllers or controllers == diallers[0].controllers:
            return
        for dialler in diallers:
            dialler.controllers = controllers
        try:
            store_controllers(keys, controllers)
        except OSError as error:  # a full disk; it is told again with the next connection
            log.error("keys-not-stored", extra={"why": str(error)})  # noqa: TRY400 - for people

    return Ways(diallers, "", learn)
