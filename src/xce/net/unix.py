"""Connections between processes of one machine: unix sockets, and who is at the other end."""

import asyncio
import contextlib
import os
import socket
import stat
import struct
from pathlib import Path
from typing import Final

from xce.net.frame import WireError
from xce.net.handshake import HANDSHAKE_S, Accept, Greeting, dial
from xce.net.message import Hello, Welcome
from xce.net.peer import Identity, OnLost, OnMessages, Peer

_CREDENTIALS: Final = struct.Struct("iII")


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
        return Greeting(accept, _identify).peer

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
    """Connect to a socket; `xce.net.handshake.dial` says what follows.

    Raises:
        DialError: Nobody answers there.
        ConnectionRefusedByPeerError: The other side refuses.
    """
    loop = asyncio.get_running_loop()

    async def connect(peer: Peer) -> None:
        await loop.create_unix_connection(lambda: peer, str(path))

    return await dial(
        connect, hello, to=path, on_messages=on_messages, on_lost=on_lost, timeout_s=timeout_s
    )


def _identify(peer: Peer) -> str:
    """Note who is at the other end, as the kernel says; return why he is not wanted."""
    descriptor = peer.transport.get_extra_info("socket").fileno()
    # A socket of its own, because uvloop's stand-in for one knows no options.
    with socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        credentials = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
    peer.pid, peer.uid, peer.gid = _CREDENTIALS.unpack(credentials)
    peer.identity = Identity("local", address=f"process {peer.pid} of user {peer.uid}")
    if peer.uid in {0, os.geteuid()}:
        return ""
    return f"user {peer.uid} may not connect here: only {os.geteuid()} and root may"


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
