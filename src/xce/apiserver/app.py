"""HTTP: from a request to its route, and every trouble to a problem document.

No web framework's router and no middleware: a request is looked up in one dict, which is cheap
enough for a thousand submits a second.
"""

import asyncio
import re
import socket
from functools import partial
from typing import Final

from aiohttp import web

from xce.apiserver.access import About, Access, route_access
from xce.apiserver.backend import Backend
from xce.apiserver.call import ENCODER, Call, problem_answer, raw_answer
from xce.apiserver.door import GuardedHandler, GuardedServer, Handler, Server, address_of
from xce.apiserver.identity import Caller
from xce.apiserver.limits import STRANGER_PER_S
from xce.apiserver.openapi import render_openapi
from xce.apiserver.problems import (
    CONTROLLER_AWAY,
    INTERNAL,
    METHOD_NOT_ALLOWED,
    NO_ROUTE,
    ProblemError,
    denied,
    make_problem,
    refused,
)
from xce.apiserver.routes.table import PREFIX, ROUTES, Route
from xce.apiserver.tokens import ACCESS, BAD, REVOKED, TokenError
from xce.model.job import Owner
from xce.model.permission import Permission
from xce.model.refusal import RefusalCode

MIN_SEQ_S: Final = 5.0
"""How long a read waits for the entry that it asks for."""
WHOLE_S: Final = 5.0
"""How long a request waits for a state to answer from."""
NOBODY: Final = (1 << 32) - 2
"""User and group id of who was not identified."""
NOT_LOGGED_IN: Final = "not-logged-in"
_WORD: Final = re.compile(r"\{(\w+)\}")
OPENAPI: Final = f"{PREFIX}/openapi.json"


class _Pattern:
    """A path with a word in it, and the routes of its methods."""

    def __init__(self, path: str) -> None:
        self.expression = re.compile(PREFIX + _WORD.sub(r"(?P<\1>[^/]+)", path))
        self.routes: dict[str, Route] = {}


class App:
    """Serves requests from a backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._fixed: dict[str, dict[str, Route]] = {}
        self._patterns: dict[str, _Pattern] = {}
        for route in ROUTES:
            route_access(route.method, route.path)  # raises where nobody has decided on it
            if "{" in route.path:
                pattern = self._patterns.setdefault(route.path, _Pattern(route.path))
                pattern.routes[route.method] = route
            else:
                self._fixed.setdefault(PREFIX + route.path, {})[route.method] = route
        self._openapi = ENCODER.encode(render_openapi(ROUTES, backend.site.version))

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        if isinstance(request.protocol, GuardedHandler):
            request.protocol.has_asked = True
        try:
            return await self._serve(request)
        except ProblemError as error:
            response = problem_answer(error.problem, retry_after_s=error.retry_after_s)
            response.headers["XCE-Seq"] = str(self._backend.replica.seq)
            return response
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            self._backend.log.exception(
                "request-failed", extra={"method": request.method, "path": request.path}
            )
            return problem_answer(
                make_problem(INTERNAL, "a fault of XCE's; its log has the details", status=500)
            )

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        backend = self._backend
        path = request.path
        if path == OPENAPI:
            self._slow_down(request)
            return raw_answer(backend.replica.seq, self._openapi)
        try:
            route, words = self._route(path, request.method)
        except ProblemError:
            self._slow_down(request)
            raise
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        if not backend.replica.is_whole:
            await self._wait_until_whole()
        access = route_access(route.method, route.path)
        caller = self._caller(request, transport, access)
        if caller.user:
            name, per_s = caller.user, float(backend.replica.state.config.api.requests_per_s)
        else:
            name, per_s = f"address {caller.origin}", STRANGER_PER_S
        backend.limits.enter(name, per_s)
        charge = partial(backend.limits.charge, name)
        call = Call(request, caller, words, access, charge=charge)
        try:
            _check_parameters(route, request)
            if access.about is About.CLUSTER and not access.action:
                assert access.permission is not None
                self._check(caller, access.permission, f"{route.method} {route.path}")
            return await self._answer(request, route, call)
        finally:
            backend.limits.leave(name, call.charged)

    def _slow_down(self, request: web.BaseRequest) -> None:
        """Count a request over the network of which nobody has asked whose it is.

        Raises:
            ProblemError: There were too many lately.
        """
        if isinstance(request.protocol, GuardedHandler) and request.transport is not None:
            name = f"address {address_of(request.transport)}"
            self._backend.limits.enter(name, STRANGER_PER_S)
            self._backend.limits.leave(name, 0)

    async def _answer(
        self, request: web.BaseRequest, route: Route, call: Call
    ) -> web.StreamResponse:
        backend = self._backend
        if route.is_read:
            wanted = request.headers.get("XCE-Min-Seq")
            if wanted is not None:
                await self._wait_for(wanted)
        if "Expect" in request.headers:
            # A client with a large body asks whether to send it at all.
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        try:
            if "at=" in request.query_string and "at" in call.query:
                return await self._serve_past(route, call)
            response = await route.handler(backend, call)
        except ProblemError as error:
            if error.denied:
                about = f"{request.method} {route.path} {error.about}".rstrip()
                backend.denials.note(call.caller, error.denied, about)
            raise
        if route.is_read and not response.prepared and backend.replica.stale_s:
            response.headers["XCE-Stale"] = f"{backend.replica.stale_s:.3f}"
        if backend.link.trouble and not response.prepared:
            response.headers["XCE-Trouble"] = _header_text(backend.link.trouble)
        return response

    async def _serve_past(self, route: Route, call: Call) -> web.Response:
        """Answer a read as it was at an instant, to those who may read that now."""
        backend = self._backend
        response = await backend.past_desk.answer(
            route.path,
            call,
            call.query["at"],
            now_us=backend.now_us,
            config=backend.replica.state.config,
        )
        # Clients remember the highest; the one of the instant is in the body.
        response.headers["XCE-Seq"] = str(backend.replica.seq)
        return response

    def _caller(
        self, request: web.BaseRequest, transport: asyncio.BaseTransport, access: Access
    ) -> Caller:
        """Return who asks: whom the kernel names, or whose token it is.

        Raises:
            ProblemError: Nobody was identified, and the route is not for everybody.
        """
        identities, connection = self._backend.identities, transport.get_extra_info("socket")
        if connection.family == socket.AF_UNIX:
            handler = request.protocol
            assert isinstance(handler, Handler)
            return identities.caller(*handler.credentials(connection))
        origin = address_of(transport)
        stranger = Caller(Owner("", NOBODY, NOBODY), is_admin=False, may_run=False, origin=origin)
        if access.about is About.NOTHING:
            return stranger
        token = bearer_of(request.headers.get("Authorization", ""))
        try:
            return self._bearer(token, origin)
        except TokenError as error:
            # Who guesses must not do it fast.
            self._backend.limits.enter(f"address {origin}", STRANGER_PER_S)
            self._backend.limits.leave(f"address {origin}", 0)
            if error.code in (BAD, REVOKED):
                self._backend.denials.note_name("", "login", f"token: {error}", origin=origin)
            raise refused(error.code, str(error), status=401) from error

    def _bearer(self, token: str, origin: str) -> Caller:
        state, backend = self._backend.replica.state, self._backend
        if not token:
            raise TokenError(NOT_LOGGED_IN, "nobody is logged in: xcecli login")
        audience = f"xce:{state.config.cluster_name}"
        login = backend.logins.tokens.read(ACCESS, token, audience, state.logins)
        found = backend.identities.logged_in(login, origin=origin)
        if found is None:
            raise TokenError(REVOKED, f"{login.user} has no account on this machine any more")
        return found

    def _check(self, caller: Caller, permission: Permission, about: str) -> None:
        """Check that a caller may do something about the cluster at large."""
        if not self._backend.rights.basis(caller.actor, permission):
            self._backend.denials.note(caller, permission, about)
            raise denied(permission, f"you lack the permission {permission}")

    def _route(self, path: str, method: str) -> tuple[Route, dict[str, str]]:
        """Return the route of a path and the words in it.

        Raises:
            ProblemError: There is none.
        """
        words: dict[str, str] = {}
        routes = self._fixed.get(path)
        if routes is None:
            for pattern in self._patterns.values():
                match = pattern.expression.fullmatch(path)
                if match is not None:
                    routes, words = pattern.routes, match.groupdict()
                    break
        if routes is None:
            raise refused(NO_ROUTE, f"there is nothing at {path}; see {OPENAPI}", status=404)
        route = routes.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join(sorted(routes))
            raise refused(METHOD_NOT_ALLOWED, f"{path} takes {allowed}, not {method}", status=405)
        return route, words

    async def _wait_until_whole(self) -> None:
        """Wait for a state to answer from; half of one would deny jobs that exist."""
        if not await self._backend.replica.wait_until_whole(WHOLE_S):
            problem = make_problem(
                CONTROLLER_AWAY,
                "there is no state to answer from yet: the controller is away or just starting",
                status=503,
            )
            raise ProblemError(problem, retry_after_s=1)

    async def _wait_for(self, text: str) -> None:
        if not (text.isascii() and text.isdigit() and len(text) <= 19):
            raise refused(RefusalCode.BAD_REQUEST, f"XCE-Min-Seq: {text!r} is no whole number")
        if self._backend.replica.seq < int(text):
            await self._backend.replica.reach(int(text), MIN_SEQ_S)


def bearer_of(header: str) -> str:
    """Return the token of an ``Authorization`` header; empty: it has none."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _check_parameters(route: Route, request: web.BaseRequest) -> None:
    """Check that a route takes what stands behind the question mark.

    Raises:
        ProblemError: It does not know a parameter: ignoring it would answer something else.
    """
    if not request.query_string:
        return
    known = [parameter.name for parameter in route.parameters]
    for name in request.rel_url.query:
        if name not in known:
            takes = f"known are: {', '.join(known)}" if known else "it takes none"
            raise refused(
                RefusalCode.BAD_REQUEST,
                f"{route.method} {route.path} has no parameter {name[:100]!r}; {takes}",
            )


def _header_text(trouble: str) -> str:
    """Return what a header may hold of a text."""
    kept = "".join(char if " " <= char <= "~" else "?" for char in trouble)
    return f"the journal cannot be written: {kept}"


def make_server(backend: Backend, *, is_guarded: bool = False) -> web.Server:
    """Return what speaks HTTP for a backend; guarded: with those who come over the network."""
    kind = GuardedServer if is_guarded else Server
    return kind(
        App(backend).serve,
        access_log=None,
        keepalive_timeout=300.0,
        max_line_size=1024 * 1024,
        max_field_size=64 * 1024,
        read_bufsize=2**18,
        handler_cancellation=True,
        logger=backend.log,
    )
