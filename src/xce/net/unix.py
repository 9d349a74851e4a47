"""Connections between processes of one machine: unix sockets, and who is at the other end.

The seam for TLS between machines is here: a server gives accepted peers with what is known of
them, a client dials and shakes hands; nothing above knows which kind of socket it is.
"""

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from xce.net.frame import WireError
from xce.net.message import FRAME_MAX, PROTOCOL, ROLES, Hello, Message, Refused, Welcome
from xce.net.peer import OnLost, OnMessages, Peer

HANDSHAKE_S: Final = 10.0
HELLO_MAX_BYTES: Final = 64 * 1024
"""Longest frame before the other side is known."""

_CREDENTIALS: Final = struct.Struct("iII")

Accept: TypeAlias = Callable[[Peer, Hello], Welcome | Refused]
"""Judges who dials. It sets ``peer.on_messages`` and ``peer.on_lost`` when it welcomes."""


class DialError(WireError):
    """The other side cannot be reached, or does not answer."""


class ConnectionRefusedByPeerError(WireError):
    """The other side does not want the connection; the text is its own."""


class UnixServer:
    """A listening socket; its file is removed when it is closed."""

    def __init__(self, path: Path, server: asyncio.Server, inode: int) -> None:
        self._path = path
        self._server = server
        self._inode = inode

    async def close(self) -> None:
        """Stop listening. Connections that stand are not touched."""
        self._server.close()
        with contextlib.suppress(FileNotFoundError):
            # Another process may have put its own socket there meanwhile.
            if _inode(self._path) == self._inode:
                self._path.unlink()


async def open_unix_server(path: Path, mode: int, accept: Accept) -> UnixServer:
    """Listen at ``path`` for peers of our own user or root.

    Args:
        path: At most 107 bytes. A socket that nobody listens at is replaced.
        mode: The file's permission bits.
        accept: Called when a peer has said `Hello` in our protocol.

    Raises:
        WireError: Somebody listens there already, or it cannot be bound.
    """
    listening = _bind(path, mode)
    loop = asyncio.get_running_loop()

    def answer() -> Peer:
        return _Greeting(accept).peer

    inode = _inode(path)
    server = await loop.create_unix_server(answer, sock=listening, backlog=1024)
    return UnixServer(path, server, inode)


async def dial_unix(
    path: Path,
    hello: Hello,
    *,
    on_messages: OnMessages,
    on_lost: OnLost,
    timeout_s: float = HANDSHAKE_S,
) -> tuple[Peer, Welcome]:
    """Connect, say ``hello`` and return the peer with the welcome it gave.

    ``on_lost`` is called only after a welcome. Messages that follow the welcome go to
    ``on_messages`` in the turns of the loop after this has returned.

    Raises:
        DialError: Nobody answers there.
        ConnectionRefusedByPeerError: The other side refuses.
    """
    loop = asyncio.get_running_loop()
    dialing = _Dialing(on_messages, on_lost)
    peer = dialing.peer
    try:
        async with asyncio.timeout(timeout_s):
            await loop.create_unix_connection(lambda: peer, str(path))
            peer.send(hello)
            answer = await dialing.answered
    except TimeoutError as error:
        peer.abort("no answer")
        raise DialError(f"{path}: no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise DialError(f"{path}: {error.strerror or error}") from error
    except _EndedEarlyError as error:
        raise DialError(f"{path}: {error}") from error
    except BaseException:
        peer.abort("given up")
        raise
    if isinstance(answer, Refused):
        peer.close("refused")
        raise ConnectionRefusedByPeerError(answer.text)
    if not isinstance(answer, Welcome):
        peer.abort("not a welcome")
        raise DialError(f"{path}: answered with {type(answer).__name__} instead of a welcome")
    loop.call_soon(dialing.hand_over)
    return peer, answer


class _EndedEarlyError(WireError):
    """The connection ended before the handshake did."""


class _Dialing:
    """A client's connection until its owner is ready: keeps the answer and what follows it."""

    def __init__(self, on_messages: OnMessages, on_lost: OnLost) -> None:
        self.peer = Peer(self._take, self._lose)
        self.answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._early: list[Message] = []
        self._early_end = ""

    def hand_over(self) -> None:
        """Give what came early to the owner, and from now on everything."""
        if self._early_end:
            if self._early:
                self._on_messages(self._early)
            self._on_lost(self._early_end)
            return
        self.peer.on_messages = self._on_messages
        self.peer.on_lost = self._on_lost
        if self._early:
            try:
                self._on_messages(self._early)
            except WireError as error:
                self.peer.abort(str(error))

    def _take(self, messages: list[Message]) -> None:
        if not self.answered.done():
            self.answered.set_result(messages[0])
            messages = messages[1:]
        self._early.extend(messages)

    def _lose(self, reason: str) -> None:
        self._early_end = reason
        if not self.answered.done():
            self.answered.set_exception(_EndedEarlyError(reason))
            # Nobody may be waiting any more, and then nobody shall hear of it.
            self.answered.exception()


class _Greeting:
    """A server's connection until its `Hello` is judged."""

    def __init__(self, accept: Accept) -> None:
        self.peer = Peer(
            self._take, self._lose, on_open=self._check_credentials, frame_max=HELLO_MAX_BYTES
        )
        self._accept = accept
        self._patience: asyncio.TimerHandle | None = None

    def _check_credentials(self, peer: Peer) -> None:
        descriptor = peer.transport.get_extra_info("socket").fileno()
        # A socket of its own, because uvloop's stand-in for one knows no options.
        with socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            credentials = connection.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
        peer.pid, peer.uid, peer.gid = _CREDENTIALS.unpack(credentials)
        if peer.uid not in {0, os.geteuid()}:
            self._refuse(f"user {peer.uid} may not connect here: only {os.geteuid()} and root may")
            return
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(HANDSHAKE_S, peer.abort, "it did not say who it is")

    def _take(self, messages: list[Message]) -> None:
        self._lose("")
        peer = self.peer
        hello = messages[0]
        if not isinstance(hello, Hello):
            self._refuse(f"a {type(hello).__name__} came where a Hello belongs")
        elif hello.protocol != PROTOCOL:
            self._refuse(
                f"protocol {hello.protocol} of version {hello.version} is not spoken here: "
                f"protocol {PROTOCOL} is"
            )
        elif hello.role not in ROLES:
            self._refuse(f"no role is called {hello.role!r}; known are: {', '.join(ROLES)}")
        else:
            answer = self._accept(peer, hello)
            if isinstance(answer, Refused):
                self._refuse(answer.text)
                return
            assert not peer.buffered_bytes, "the welcome must be the first that is sent"
            peer.set_frame_max(FRAME_MAX)
            peer.send(answer)
            if messages[1:]:
                peer.on_messages(messages[1:])

    def _refuse(self, text: str) -> None:
        peer = self.peer
        peer.on_messages = _ignore
        peer.on_lost = _ignore
        peer.send(Refused(text))
        peer.close(text)

    def _lose(self, reason: str) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


def _ignore(_: object) -> None:
    """Take what comes over a connection that is not wanted."""


def _bind(path: Path, mode: int) -> socket.socket:
    """Return a socket bound to ``path``; nobody can connect before it listens."""
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        path.chmod(mode)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise WireError(f"{path}: cannot listen there: {error.strerror or error}") from error
    return listening


def _inode(path: Path) -> int:
    return path.lstat().st_ino


def _remove_stale(path: Path) -> None:
    """Remove a socket that a dead process left.

    Raises:
        WireError: It is no socket, or somebody listens there.
    """
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise WireError(f"{path}: cannot listen there: it is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise WireError(f"{path}: cannot listen there: {error.strerror or error}") from error
    raise WireError(f"{path}: another process listens there already")
