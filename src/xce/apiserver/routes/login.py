"""``/login`` and ``/logins/revoke``: from a proof of who one is to tokens, and their end."""

import asyncio
import os
from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer, decode
from xce.apiserver.identity import LOCAL, MUNGE, OIDC, UNIX, Caller
from xce.apiserver.logins import LoginError
from xce.apiserver.problems import ProblemError, denied, from_refusal, refused
from xce.apiserver.provider import Described, OidcError
from xce.apiserver.tokens import ACCESS, REFRESH, Login, TokenError
from xce.model.command import NoteLogin, RefreshLogin, RevokeLogin
from xce.model.refusal import Refusal, RefusalCode

LOGIN_REFUSED: Final = "login-refused"
BODY_MAX: Final = 256 * 1024
"""Strangers send these."""
Short = Annotated[str, Meta(max_length=4096)]


class LoginWays(msgspec.Struct, frozen=True):
    """How users can log in here."""

    cluster: str
    ways: tuple[str, ...]
    url: str
    """Where the apiserver can be reached over the network; empty: nowhere."""
    fingerprint: str
    """SHA-256 of its certificate, in hexadecimal digits."""
    oidc: Described | UnsetType = UNSET


class LoginBody(msgspec.Struct, forbid_unknown_fields=True):
    """A proof of who one is."""

    way: Literal["unix", "oidc", "munge"]
    code: Short = ""
    """Of OIDC: the authorisation code, the PKCE verifier, the nonce and the redirect URI."""
    verifier: Short = ""
    nonce: Short = ""
    redirect_uri: Short = ""
    credential: Annotated[str, Meta(max_length=65_536)] = ""
    """Of MUNGE: a credential for ``xce:<cluster name>``."""


class RefreshBody(msgspec.Struct, forbid_unknown_fields=True):
    """A token with which a login is prolonged."""

    refresh_token: Annotated[str, Meta(max_length=65_536)]


class LoginAnswer(msgspec.Struct, frozen=True):
    """Tokens."""

    user: str
    session: str
    access_token: str
    access_expires_at: int
    refresh_token: str
    session_ends_at: int
    url: str
    fingerprint: str


class RevokeBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which login shall count no more."""

    user: Annotated[str, Meta(max_length=256)] = ""
    """Whose; empty: the caller's."""
    session: Annotated[str, Meta(max_length=64)] = ""
    """Which; empty: all."""


class RevokeAnswer(msgspec.Struct, frozen=True):
    """What was revoked."""

    seq: int
    user: str
    session: str


_LOGIN: Final = msgspec.json.Decoder(LoginBody)
_REFRESH: Final = msgspec.json.Decoder(RefreshBody)
_REVOKE: Final = msgspec.json.Decoder(RevokeBody)


async def show_login(backend: Backend, call: Call) -> web.StreamResponse:
    """Tell how users can log in."""
    logins, api = backend.logins, backend.replica.state.config.api
    described: Described | UnsetType = UNSET
    if api.oidc is not None:
        try:
            described = await logins.provider(api.oidc).describe()
        except OidcError as error:
            raise refused(LOGIN_REFUSED, str(error), status=502) from error
    ways = [UNIX, *([OIDC] if api.oidc else []), *([MUNGE] if api.munge else [])]
    document = LoginWays(
        backend.replica.state.config.cluster_name,
        tuple(ways),
        backend.door.url,
        backend.door.fingerprint,
        described,
    )
    return answer(backend.replica.seq, document)


async def log_in(backend: Backend, call: Call) -> web.StreamResponse:
    """Log in."""
    body: LoginBody = decode(_LOGIN, await call.body(BODY_MAX))
    try:
        caller, groups = await _prove(backend, call, body)
    except LoginError as error:
        backend.denials.note_name(
            error.user, "login", f"{body.way}: {error}", origin=call.caller.origin
        )
        raise refused(LOGIN_REFUSED, str(error), status=403) from error
    now = backend.now()
    login = Login(
        caller.user,
        caller.owner.uid,
        os.urandom(8).hex(),
        int(now * 1_000_000),
        int(now + backend.replica.state.config.api.session_us / 1_000_000),
        body.way,
        groups,
    )
    await backend.write(
        NoteLogin(login.user, login.session, login.way),
        msgspec.structs.replace(caller, origin=call.caller.origin),
    )
    return answer(backend.replica.seq, _answer(backend, login), status=201)


async def _prove(backend: Backend, call: Call, body: LoginBody) -> tuple[Caller, tuple[str, ...]]:
    """Return who has proven who he is, and his groups beside those that the system knows."""
    api = backend.replica.state.config.api
    if body.way == UNIX:
        if call.caller.origin != LOCAL:
            raise LoginError("by unix one logs in over the unix socket of the cluster's machine")
        return call.caller, ()
    if body.way == MUNGE:
        audience = f"xce:{backend.replica.state.config.cluster_name}"
        # munged is another program: it may take its time.
        proven = await asyncio.to_thread(backend.logins.prove_munge, api, body.credential, audience)
        return proven, ()
    return await backend.logins.prove_oidc(
        api, code=body.code, verifier=body.verifier, nonce=body.nonce,
        redirect_uri=body.redirect_uri,
    )  # fmt: skip


def _answer(backend: Backend, login: Login, turn: int = 0) -> LoginAnswer:
    tokens, config = backend.logins.tokens, backend.replica.state.config
    audience = f"xce:{config.cluster_name}"
    access, expires_at = tokens.write(
        ACCESS, login, audience, life_s=config.api.access_us / 1_000_000
    )
    refresh, _ = tokens.write(
        REFRESH, login, audience, life_s=config.api.session_us / 1_000_000, turn=turn
    )
    return LoginAnswer(
        login.user, login.session, access, expires_at, refresh, login.ends_at,
        backend.door.url, backend.door.fingerprint,
    )  # fmt: skip


async def refresh_login(backend: Backend, call: Call) -> web.StreamResponse:
    """Give new tokens for a login that still counts; the one that was shown is used up by it."""
    body: RefreshBody = decode(_REFRESH, await call.body(BODY_MAX))
    state = backend.replica.state
    try:
        login, turn = backend.logins.tokens.read_turn(
            body.refresh_token, f"xce:{state.config.cluster_name}", state.logins
        )
    except TokenError as error:
        raise refused(error.code, str(error), status=401) from error
    caller = backend.identities.logged_in(login, origin=call.caller.origin)
    if caller is None:
        raise refused(
            LOGIN_REFUSED, f"{login.user} has no account on this machine any more", status=401
        )
    command = RefreshLogin(
        login.user, login.session, turn, login.began_at_us, login.ends_at * 1_000_000
    )
    reply = await backend.write(command, caller)
    (result,) = reply.results
    if isinstance(result, Refusal):
        if result.code is RefusalCode.TOKEN_REUSED:
            about = f"refresh: login {login.session}: {result.text}"
            backend.denials.note_name(login.user, "login", about, origin=call.caller.origin)
        raise ProblemError(from_refusal(result))
    return answer(reply.seq, _answer(backend, login, result.number))


async def revoke_login(backend: Backend, call: Call) -> web.StreamResponse:
    """Let a login, or all of a user, count no more."""
    body: RevokeBody = decode(_REVOKE, await call.body(BODY_MAX))
    caller = call.caller
    user = body.user or caller.user
    if body.session and not (body.session.isascii() and body.session.isalnum()):
        raise refused(RefusalCode.BAD_REQUEST, f"{body.session[:64]!r} is no login")
    command = RevokeLogin(
        caller.user, user, body.session, caller.is_admin, caller.groups, backend.now_us
    )
    if user != caller.user and not backend.rights.basis(caller.actor, call.permission):
        raise denied(
            call.permission,
            f"logins of {user} are revoked by himself, or with the permission {call.permission}",
            about=f"user {user}",
        )
    reply = await backend.write(command, caller)
    (result,) = reply.results
    if isinstance(result, Refusal):
        raise ProblemError(from_refusal(result))
    return answer(backend.replica.seq, RevokeAnswer(reply.seq, user, body.session))
