"""A listening TCP socket: half-open connections are counted, bounded and have little time.

Whoever connects is looked at by the first byte that he sends. TLS shakes hands and is then known by
his key, or by none; anything else is sent away, but in ``mode: test`` from this very machine.

A flood is met by closing, never by waiting: one address has at most `PER_ADDRESS_MAX` connections
that have not said who they are; when there are `HALF_OPEN_MAX` of them, the address with the most
loses its oldest. Who has said who he is is not touched.
"""

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final

from xce.model.address import Address, is_loopback
from xce.net.frame import WireError
from xce.net.handshake import HANDSHAKE_S, Accept, Greeting, OnEnrol
from xce.net.peer import Identity, Peer
from xce.net.tls import key_of, tune

HALF_OPEN_MAX: Final = 512
PER_ADDRESS_MAX: Final = 128
ACCEPTS_MAX: Final = 32
"""So many connections are taken in a row, then the loop does other things."""
PAUSE_S: Final = 0.2
"""So long no connection is taken when the process has no descriptors left."""
_TLS_HANDSHAKE: Final = b"\x16"


class _HalfOpen:
    """A connection that has not said yet who it is."""

    def __init__(self, connection: socket.socket, address: str) -> None:
        self.connection: socket.socket | None = connection
        self.address = address
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        self.peer: Peer | None = None


class Doorway:
    """Listens, and lets in whoever says who he is; what `open_doorway` returns."""

    def __init__(
        self,
        listening: list[socket.socket],
        context: Callable[[], ssl.SSLContext | None],
        accept: Accept,
        *,
        on_enrol: OnEnrol,
        on_refused: Callable[[str, str], object],
        allows_plain: bool = False,
        handshake_s: float = HANDSHAKE_S,
    ) -> None:
        self._listening = listening
        self._context = context
        self._accept = accept
        self._on_enrol = on_enrol
        self._on_refused = on_refused
        self._allows_plain = allows_plain
        self._handshake_s = handshake_s
        self._loop = asyncio.get_running_loop()
        self._half_open: dict[_HalfOpen, None] = {}
        self._by_address: Counter[str] = Counter()
        for server in listening:
            self._loop.add_reader(server, self._take, server)

    @property
    def half_open(self) -> int:
        """How many connections have not said yet who they are."""
        return len(self._half_open)

    @property
    def addresses(self) -> list[Address]:
        """Where it listens."""
        return [Address(*server.getsockname()[:2]) for server in self._listening]

    async def close(self) -> None:
        """Stop listening, and end what is half open. Connections that stand are not touched."""
        for server in self._listening:
            self._loop.remove_reader(server)
            server.close()
        tasks = [half.task for half in self._half_open if half.task is not None]
        for half in list(self._half_open):
            self._drop(half, "the controller ends")
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, server: socket.socket) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                connection, address = server.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                # No descriptors are left: the loop must not spin meanwhile.
                self._on_refused(f"connections cannot be taken: {error.strerror}", "")
                self._loop.remove_reader(server)
                self._loop.call_later(PAUSE_S, self._listen_again, server)
                return
            self._begin(connection, str(address[0]))

    def _listen_again(self, server: socket.socket) -> None:
        if server.fileno() >= 0:
            self._loop.add_reader(server, self._take, server)

    def _begin(self, connection: socket.socket, address: str) -> None:
        if self._by_address[address] >= PER_ADDRESS_MAX:
            connection.close()
            self._on_refused("too many half-open connections from one address", address)
            return
        if len(self._half_open) >= HALF_OPEN_MAX:
            greedy = max(self._by_address, key=lambda name: self._by_address[name])
            oldest = next(half for half in self._half_open if half.address == greedy)
            self._drop(oldest, "too many half-open connections")
        connection.setblocking(False)
        tune(connection)
        half = _HalfOpen(connection, address)
        self._half_open[half] = None
        self._by_address[address] += 1
        half.timer = self._loop.call_later(
            self._handshake_s, self._drop, half, "it did not say who it is in time"
        )
        self._loop.add_reader(connection, self._look, half)

    def _look(self, half: _HalfOpen) -> None:
        """See by the first byte what the other side wants."""
        connection = half.connection
        assert connection is not None
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        self._loop.remove_reader(connection)
        if not first:
            self._drop(half, "closed before anything was said")
        elif first == _TLS_HANDSHAKE:
            context = self._context()
            if context is None:
                self._drop(half, "TLS cannot be had: there is no key here")
                return
            half.task = self._loop.create_task(self._greet(half, connection, context))
        elif self._allows_plain and is_loopback(half.address):
            half.task = self._loop.create_task(self._greet(half, connection, None))
        else:
            self._drop(half, "plaintext is refused")

    async def _greet(
        self, half: _HalfOpen, connection: socket.socket, context: ssl.SSLContext | None
    ) -> None:
        def settle(why: str) -> None:
            if half in self._half_open:
                self._forget(half)
                if why:
                    self._on_refused(why, half.address)

        def identify(peer: Peer) -> str:
            try:
                key = key_of(peer)
            except WireError as error:
                return str(error)
            how = "plain" if context is None else "key" if key else ""
            peer.identity = Identity(how, key, half.address)
            return ""

        greeting = Greeting(
            self._accept,
            identify,
            on_enrol=self._on_enrol if context is not None else None,
            on_settled=settle,
            timeout_s=self._handshake_s,
        )
        half.peer = greeting.peer
        # From here on it is the transport's, which closes it whatever happens.
        half.connection = None
        try:
            await self._loop.connect_accepted_socket(
                lambda: greeting.peer,
                connection,
                ssl=context,
                ssl_handshake_timeout=self._handshake_s if context is not None else None,
            )
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "reason", "") or error.__class__.__name__
            self._drop(half, f"the TLS handshake failed: {reason}")

    def _drop(self, half: _HalfOpen, why: str) -> None:
        if half not in self._half_open:
            return
        self._forget(half)
        self._on_refused(why, half.address)
        if half.connection is not None:
            self._loop.remove_reader(half.connection)
            half.connection.close()
        if half.task is not None:
            half.task.cancel()
        if half.peer is not None:
            half.peer.abort(why)

    def _forget(self, half: _HalfOpen) -> None:
        del self._half_open[half]
        if half.timer is not None:
            half.timer.cancel()
        self._by_address[half.address] -= 1
        if not self._by_address[half.address]:
            del self._by_address[half.address]


def bind(address: Address, *, backlog: int = 1024) -> list[socket.socket]:
    """Return sockets that listen at an address, one for each IP address that its name has.

    Raises:
        WireError: It cannot be listened at.
    """
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, place in dict.fromkeys(found):
            server = socket.socket(family, kind, protocol)
            sockets.append(server)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            server.bind(place)
            server.listen(backlog)
            server.setblocking(False)
    except OSError as error:
        for server in sockets:
            server.close()
        raise WireError(f"{address}: cannot listen there: {error.strerror or error}") from error
    return sockets


async def open_doorway(
    address: Address,
    context: Callable[[], ssl.SSLContext | None],
    accept: Accept,
    *,
    on_enrol: OnEnrol,
    on_refused: Callable[[str, str], object],
    allows_plain: bool = False,
    handshake_s: float = HANDSHAKE_S,
) -> Doorway:
    """Listen at an address.

    Args:
        address: Where.
        context: Gives the context for the next handshake; None: there is no key here.
        accept: Judges who has said `Hello`.
        on_enrol: Takes a host that is not known yet.
        on_refused: Told why a connection came to nothing, and from which address it was.
        allows_plain: Whether a process of this machine may speak without TLS.
        handshake_s: How long the other side has to say who it is.

    Raises:
        WireError: It cannot be listened there.
    """
    return Doorway(
        bind(address), context, accept,
        on_enrol=on_enrol, on_refused=on_refused,
        allows_plain=allows_plain, handshake_s=handshake_s,
    )  # fmt: skip
