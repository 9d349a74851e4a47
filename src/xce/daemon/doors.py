"""The ways into the controller: its unix socket, and the address where other hosts connect."""

import logging
import socket

from xce.client.version import VERSION
from xce.daemon.controller_shell import ControllerShell
from xce.daemon.doorkeeper import Doorkeeper
from xce.daemon.key_files import (
    FIRST_TRUSTED,
    OWN_KEY,
    KeyFileError,
    check_key,
    key_pair,
    load_certificates,
)
from xce.daemon.paths import Layout
from xce.daemon.reception import Reception
from xce.model.address import is_loopback, parse_address
from xce.model.certificate import parse_certificate
from xce.model.command import RevokeKeys, TrustKey
from xce.model.config import ClusterConfig
from xce.model.trust import CONTROLLER
from xce.net.doorway import Doorway, open_doorway
from xce.net.tls import KeyPair, make_server_context
from xce.net.unix import UnixServer, open_unix_server


class Doors:
    """What the controller listens at; what `open_doors` returns."""

    def __init__(self, reception: Reception, server: UnixServer, doorway: Doorway | None) -> None:
        self._reception = reception
        self._server = server
        self._doorway = doorway

    async def close(self) -> None:
        """Stop listening, end every connection."""
        await self._server.close()
        if self._doorway is not None:
            await self._doorway.close()
        self._reception.close()


def find_own_key(layout: Layout, config: ClusterConfig) -> KeyPair | None:
    """Return the controller's key; None where nobody from elsewhere can come.

    Raises:
        KeyFileError: It is needed and there is none, or others can read it.
        WireError: It is no key.
    """
    pair = key_pair(layout.keys, OWN_KEY)
    if not config.listen:
        return None
    if not pair.key.exists():
        if config.mode == "test" and is_loopback(parse_address(config.listen).host):
            return None
        raise KeyFileError(
            f"xce.yaml has listen: {config.listen} and {pair.key} is not there: "
            "make it with `xceadmin init`"
        )
    make_server_context(check_key(pair), ())
    return pair


async def open_doors(
    shell: ControllerShell, layout: Layout, config: ClusterConfig, log: logging.Logger
) -> Doors:
    """Begin to listen, with the trusted list as it has been written down.

    Raises:
        KeyFileError: A key that is needed cannot be used.
        WireError: It cannot be listened there.
    """
    is_test = config.mode == "test"
    own = find_own_key(layout, config)
    doorkeeper = Doorkeeper(layout.keys, own, is_test=is_test, clock=shell.now_us, log=log)
    _settle_trust(shell, layout, doorkeeper, own)
    reception = Reception(shell, doorkeeper, cluster=config.cluster_name, version=VERSION)
    shell.on_look = lambda now_us: doorkeeper.look(shell.state, now_us)
    if is_test:
        log.warning(
            "mode-test",
            extra={"why": "test tools may submit, and this machine may speak without TLS"},
        )
    server = await open_unix_server(layout.controller_socket, 0o600, reception.accept)
    doorway: Doorway | None = None
    if config.listen:
        doorway = await open_doorway(
            parse_address(config.listen),
            lambda: doorkeeper.context(shell.state),
            reception.accept,
            on_enrol=reception.enrol,
            on_refused=reception.note_refused,
            allows_plain=is_test,
        )
        door = doorway
        reception.half_open = lambda: door.half_open
        log.info("listening", extra={"address": config.listen, "tls": own is not None})
    return Doors(reception, server, doorway)


def _settle_trust(
    shell: ControllerShell, layout: Layout, doorkeeper: Doorkeeper, own: KeyPair | None
) -> None:
    """Trust the controller's own key; in a new cluster, those that `xceadmin init` named.

    Keys that were revoked before an older journal was restored are revoked again, first of all.
    """
    by = f"controller {socket.gethostname()}"
    table = shell.state.trust
    missing = doorkeeper.missing_revocations(shell.state)
    if missing:
        shell.give(RevokeKeys(by, missing, "written down as revoked"), by=by, basis="component")
    if own is None:
        return
    (certificate, *_) = load_certificates(own.certificate)
    is_first = not table.keys
    key = parse_certificate(certificate).fingerprint
    if key in table.revoked or key in missing:
        raise KeyFileError(f"{own.key} was revoked: make another with `xceadmin keys new`")
    if key not in table.keys:
        name = socket.gethostname().split(".")[0]
        shell.give(TrustKey(by, certificate, CONTROLLER, name), by=by, basis="component")
    if is_first:
        for role, name, file in load_first_trusted(layout):
            (certificate, *_) = load_certificates(layout.keys / file)
            shell.give(TrustKey(by, certificate, role, name), by=by, basis="component")


def load_first_trusted(layout: Layout) -> list[tuple[str, str, str]]:
    """Return role, name and file of the keys with which a cluster begins.

    Raises:
        KeyFileError: The file cannot be read.
    """
    path = layout.keys / FIRST_TRUSTED
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"{path}: cannot be read") from error
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or "/" in words[2]:
            raise KeyFileError(f"{path}:{number}: expected: role name file")
        found.append((words[0], words[1], words[2]))
    return found
