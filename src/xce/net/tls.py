"""Connections between machines: TLS 1.3, both ends known by the very key that they have.

There is no certificate authority: certificates are self-signed and say nothing but a public key.
The handshake proves that the other end has the private key of the certificate it shows; whose key
that is stands in the trusted list. Names and times in certificates are looked at by nobody.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from xce.model.address import Address
from xce.model.certificate import parse_certificate
from xce.model.errors import TextError
from xce.net.frame import WireError
from xce.net.handshake import (
    HANDSHAKE_S,
    ClosedUnansweredError,
    DialError,
    Dialing,
    ask_first,
    dial,
)
from xce.net.message import Enrol, Enrolled, Hello, Welcome
from xce.net.peer import Identity, OnLost, OnMessages, Peer

SILENT_S: Final = 20
"""A machine that does not answer for so long is taken for gone."""
SERVER_NAME: Final = "xce-controller"
"""What a client names in the handshake; nobody looks at it."""


class KeyPair(NamedTuple):
    """Where a component's own key lies."""

    certificate: Path
    key: Path


def make_server_context(own: KeyPair, trusted: Iterable[bytes]) -> ssl.SSLContext:
    """Return how a controller listens: who shows a certificate that is not trusted is sent away.

    Who shows none may enrol, and nothing else.

    Args:
        own: The controller's key.
        trusted: Certificates in DER. More can be added with `trust`.

    Raises:
        WireError: The own key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _settle(context)
    # Whoever comes again is asked for his key again.
    context.num_tickets = 0
    context.verify_mode = ssl.CERT_OPTIONAL
    _load_own(context, own)
    for certificate in trusted:
        trust(context, certificate)
    return context


def make_client_context(own: KeyPair | None, controllers: Iterable[bytes]) -> ssl.SSLContext:
    """Return how a component dials.

    Args:
        own: Its key; None: it has none that is trusted yet.
        controllers: Certificates of the controllers in DER; none: whoever answers is let finish the
            handshake, and is judged by his key behind it, before anything is said to him.

    Raises:
        WireError: The own key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _settle(context)
    context.check_hostname = False
    known = list(controllers)
    context.verify_mode = ssl.CERT_REQUIRED if known else ssl.CERT_NONE
    for certificate in known:
        trust(context, certificate)
    if own is not None:
        _load_own(context, own)
    return context


def trust(context: ssl.SSLContext, certificate: bytes) -> bool:
    """Let handshakes with this certificate succeed; return whether it could be read at all."""
    try:
        context.load_verify_locations(cadata=certificate)
    except ssl.SSLError:
        return False
    return True


def _settle(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION


def _load_own(context: ssl.SSLContext, own: KeyPair) -> None:
    try:
        context.load_cert_chain(own.certificate, own.key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        # What is in the file is never part of a message.
        why = error.strerror if isinstance(error, OSError) else "it is no key"
        raise WireError(f"{own.key}: the key cannot be used: {why or 'it is no key'}") from None


def _no_password() -> str:
    """Have an encrypted key refused instead of asked about."""
    return ""


def key_of(peer: Peer) -> str:
    """Return the fingerprint of the key with which the other end shook hands; empty: with none.

    Raises:
        WireError: Its certificate is of another kind than ours.
    """
    found: ssl.SSLObject | None = peer.transport.get_extra_info("ssl_object")
    certificate = found.getpeercert(binary_form=True) if found is not None else None
    if not certificate:
        return ""
    try:
        return parse_certificate(certificate).fingerprint
    except TextError as error:
        raise WireError(f"its certificate is {error.message}") from error


def tune(connection: socket.socket) -> None:
    """Send what is written at once, and learn of a machine that has gone silently."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_S // 2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, SILENT_S // 4)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_S * 1000)


class TlsDialler:
    """Dials a controller over a network.

    Args:
        address: Where it listens.
        own: The key to show.
        controllers: Certificates that one of the controllers must have, in DER. May be replaced.
    """

    def __init__(self, address: Address, own: KeyPair, controllers: Iterable[bytes]) -> None:
        self.address = address
        self.controllers = tuple(controllers)
        self._own = own

    async def dial(
        self,
        hello: Hello,
        *,
        on_messages: OnMessages,
        on_lost: OnLost,
        timeout_s: float = HANDSHAKE_S,
    ) -> tuple[Peer, Welcome]:
        """Connect; `xce.net.handshake.dial` says what follows.

        Raises:
            DialError: Nobody answers there, or somebody who is no controller of ours.
            ConnectionRefusedByPeerError: The other side refuses.
        """
        if not self.controllers:
            raise DialError(f"{self.address}: no key of a controller is known: enrol again")
        try:
            # Made anew, so that a key that was replaced is used from the next dial on.
            context = make_client_context(self._own, self.controllers)
        except WireError as error:
            raise DialError(str(error)) from error
        keys = {parse_certificate(item).fingerprint for item in self.controllers}

        async def connect(peer: Peer) -> None:
            await _connect(peer, self.address, context, keys)

        try:
            return await dial(
                connect, hello, to=self.address,
                on_messages=on_messages, on_lost=on_lost, timeout_s=timeout_s,
            )  # fmt: skip
        except ClosedUnansweredError as error:
            # With TLS 1.3 whoever dials has finished the handshake before his key is judged.
            text = f"{self.address}: closed without a word: is {self._own.key.stem} trusted there?"
            raise ClosedUnansweredError(text) from error


async def enrol(
    address: Address, first: Enrol, controllers: Iterable[str], *, timeout_s: float = HANDSHAKE_S
) -> Enrolled:
    """Have a key trusted by means of a token.

    Args:
        address: Where the controller listens.
        first: Token and certificate.
        controllers: Fingerprints, of which the controller must have one: nothing is said to others.
        timeout_s: For all of it.

    Raises:
        DialError: The controller is not there, or it is another one.
        ConnectionRefusedByPeerError: It refuses.
    """
    context = make_client_context(None, ())
    dialing = Dialing(lambda _: None, lambda _: None)

    async def connect(peer: Peer) -> None:
        await _connect(peer, address, context, set(controllers))

    answer = await ask_first(connect, dialing, first, to=address, timeout_s=timeout_s)
    dialing.peer.close("enrolled")
    if not isinstance(answer, Enrolled):
        raise DialError(f"{address}: answered with {type(answer).__name__} to an enrolment")
    return answer


async def _connect(
    peer: Peer, address: Address, context: ssl.SSLContext, controllers: set[str]
) -> None:
    """Connect and shake hands; go on only with one of the controllers."""
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(
            lambda: peer, address.host, address.port, ssl=context, server_hostname=SERVER_NAME
        )
    except ssl.SSLCertVerificationError as error:
        raise DialError(f"{address}: {_STRANGER}") from error
    except ssl.SSLError as error:
        raise DialError(f"{address}: the handshake failed: {error.reason or error}") from error
    except ConnectionError as error:
        raise DialError(f"{address}: {error.strerror or 'the connection was cut'}") from error
    found = peer.transport.get_extra_info("socket").fileno()
    with socket.fromfd(found, socket.AF_INET, socket.SOCK_STREAM) as connection:
        tune(connection)
    try:
        key = key_of(peer)
    except WireError as error:
        peer.abort(str(error))
        raise DialError(f"{address}: {error}") from error
    if key not in controllers:
        peer.abort(_STRANGER)
        raise DialError(f"{address}: {_STRANGER}")
    peer.identity = Identity("key", key, str(address))


_STRANGER: Final = "whoever answers there has not the key of a controller of this cluster"
