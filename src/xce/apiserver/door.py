"""Connections: how many one user or address may have, and how long one may say nothing.

Without a bound whoever opens many leaves no descriptors for the others.
"""

import resource
from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from xce.apiserver.call import problem_answer
from xce.apiserver.identity import peer_credentials
from xce.apiserver.problems import make_problem
from xce.model.refusal import RefusalCode

CONNECTIONS_MAX: Final = 4_000
OF_ADDRESS_MAX: Final = 256
OF_USER_MAX: Final = 2_000
"""Of one user over the unix socket: each that waits for a job has one."""
SHARE: Final = 4
"""Of the descriptors that the process may have, one user gets that part at most."""
REASON_MAX: Final = 300
SILENT_S: Final = 20.0
"""A connection that has sent no whole request by then is closed."""


class Door(msgspec.Struct, frozen=True):
    """Where users of other machines connect."""

    url: str = ""
    fingerprint: str = ""
    """SHA-256 of the certificate, in hexadecimal digits."""


class Crowd:
    """Who is connected.

    Args:
        most: Connections in all.
        of_one: Connections of one address or user.
    """

    def __init__(self, most: int, of_one: int) -> None:
        self.connections: dict[str, int] = {}
        self.count = 0
        self._most = most
        self._of_one = of_one

    def enter(self, name: str) -> bool:
        """Note a connection; return whether it may stay."""
        self.count += 1
        self.connections[name] = self.connections.get(name, 0) + 1
        return self.count <= self._most and self.connections[name] <= self._of_one

    def leave(self, name: str) -> None:
        """Note the end of a connection."""
        self.count -= 1
        left = self.connections.get(name, 1) - 1
        if left > 0:
            self.connections[name] = left
        else:
            self.connections.pop(name, None)


class Handler(RequestHandler):
    """One connection."""

    __slots__ = ("_credentials",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as aiohttp's
        super().__init__(*args, **kwargs)
        self._credentials: tuple[int, int] | None = None

    def credentials(self, connection: Any) -> tuple[int, int]:  # noqa: ANN401 - or uvloop's
        """Return user and group id of who connected over the unix socket.

        The kernel noted them when he did, so they are asked for once.
        """
        if self._credentials is None:
            self._credentials = peer_credentials(connection)
        return self._credentials

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer bytes that are no request: without a line in the log, or anybody could fill it."""
        if status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        text = f"that is no HTTP request: {message or exc}"[:REASON_MAX]
        answer = problem_answer(make_problem(RefusalCode.BAD_REQUEST, text, status=status))
        answer.force_close()
        return answer


class LocalHandler(Handler):
    """One connection over the unix socket."""

    __slots__ = ("_crowd", "_name")

    def __init__(self, crowd: Crowd, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self._crowd = crowd
        self._name = ""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - asyncio's or uvloop's
        """Let it in, unless its user has too many; root has always room."""
        super().connection_made(transport)
        uid, _ = self.credentials(transport.get_extra_info("socket"))
        self._name = f"user {uid}"
        if not self._crowd.enter(self._name) and uid != 0:
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Make room for another."""
        if self._name:
            self._crowd.leave(self._name)
            self._name = ""
        super().connection_lost(exc)


class GuardedHandler(Handler):
    """One connection over the network."""

    __slots__ = ("_address", "_crowd", "_silence", "has_asked")

    def __init__(self, crowd: Crowd, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self.has_asked = False
        self._crowd = crowd
        self._address = ""
        self._silence: Any = None

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - asyncio's or uvloop's
        """Let it in, unless there are too many."""
        super().connection_made(transport)
        self._address = address_of(transport)
        if not self._crowd.enter(self._address):
            transport.abort()
            return
        self._silence = self._loop.call_later(SILENT_S, self._end_silence)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Make room for another."""
        if self._silence is not None:
            self._silence.cancel()
        if self._address:
            self._crowd.leave(self._address)
            self._address = ""
        super().connection_lost(exc)

    def _end_silence(self) -> None:
        if not self.has_asked and self.transport is not None:
            self.transport.abort()


class Server(web.Server):
    """Speaks HTTP over the unix socket."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as aiohttp's
        super().__init__(*args, **kwargs)
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._local = Crowd(descriptors, min(OF_USER_MAX, descriptors // SHARE))

    def __call__(self) -> RequestHandler:
        """Return what takes the next connection."""
        return LocalHandler(self._local, self, loop=self._loop, **self._kwargs)


class GuardedServer(web.Server):
    """Speaks HTTP on connections over the network."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as aiohttp's
        super().__init__(*args, **kwargs)
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._crowd = Crowd(min(CONNECTIONS_MAX, descriptors // 2), OF_ADDRESS_MAX)

    def __call__(self) -> RequestHandler:
        """Return what takes the next connection."""
        return GuardedHandler(self._crowd, self, loop=self._loop, **self._kwargs)


def address_of(transport: Any) -> str:  # noqa: ANN401 - asyncio's or uvloop's
    """Return the address of the other end, without its port."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else "unknown"
