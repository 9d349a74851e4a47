"""Who asks: the credentials of the process at the other end of the unix socket."""

import contextlib
import grp
import os
import pwd
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from xce.apiserver.tokens import Login
from xce.model.job import Owner
from xce.model.permission import Actor

_CREDENTIALS: Final = struct.Struct("iII")
LOCAL: Final = "local"
"""Where requests come from that came over the unix socket."""
GROUPS_MAX: Final = 1_000
UNIX: Final = "unix"
MUNGE: Final = "munge"
OIDC: Final = "oidc"
"""Ways to log in."""
_NAME_S: Final = 60.0
"""How long a user's name is remembered before the system is asked again."""


class Caller(msgspec.Struct, frozen=True):
    """A user who was identified."""

    owner: Owner
    is_admin: bool
    """Root, or the user who runs the cluster."""
    may_run: bool = True
    """Whether the cluster can run jobs as this user."""
    groups: tuple[str, ...] = ()
    """By which roles may be granted."""
    origin: str = LOCAL
    """Where the request came from."""

    @property
    def actor(self) -> Actor:
        """Return who asks, as far as permissions go."""
        return Actor(self.owner.user, self.groups, self.is_admin)

    @property
    def user(self) -> str:
        """The user's name."""
        return self.owner.user


def peer_credentials(connection: Any) -> tuple[int, int]:  # noqa: ANN401 - a socket or uvloop's
    """Return user and group id of the process that connected, as the kernel says.

    Args:
        connection: The socket; uvloop's stand-in for one will do, it only needs a descriptor.
    """
    real = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=connection.fileno())
    try:
        raw = real.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    finally:
        real.detach()
    _, uid, gid = _CREDENTIALS.unpack(raw)
    return uid, gid


def group_names(user: str, gid: int) -> tuple[str, ...]:
    """Return the names of the groups of a user; those without a name are left out."""
    try:
        numbers = os.getgrouplist(user, gid)
    except (KeyError, OSError):
        numbers = [gid]
    found = []
    for number in numbers[:GROUPS_MAX]:
        with contextlib.suppress(KeyError):
            found.append(grp.getgrgid(number).gr_name)
    return tuple(found)


def account_ids(user: str) -> tuple[int, int] | None:
    """Return user and group id of a name; None: the system has no such account."""
    try:
        found = pwd.getpwnam(user)
    except (KeyError, ValueError):
        return None
    return found.pw_uid, found.pw_gid


def user_name(uid: int) -> str:
    """Return the name of a user id; the number in digits where the system knows no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class Identities:
    """Names and groups of users by their id.

    Args:
        own_uid: The user who runs the cluster.
        name_of: Looks a user up.
        groups_of: Looks up in which groups a user is.
        account_of: Looks up user and group id of a name.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        *,
        own_uid: int | None = None,
        name_of: Callable[[int], str] = user_name,
        groups_of: Callable[[str, int], tuple[str, ...]] = group_names,
        account_of: Callable[[str], tuple[int, int] | None] = account_ids,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.own_uid = os.geteuid() if own_uid is None else own_uid
        self._name_of = name_of
        self._groups_of = groups_of
        self._account_of = account_of
        self._clock = clock
        self._known: dict[tuple[int, int], tuple[float, Caller]] = {}

    @property
    def runs_as_root(self) -> bool:
        """Whether jobs of every user can be run."""
        return self.own_uid == 0

    def caller(self, uid: int, gid: int) -> Caller:
        """Return who has these ids."""
        now = self._clock()
        known = self._known.get((uid, gid))
        if known is None or now - known[0] > _NAME_S:
            owner = Owner(self._name_of(uid), uid, gid)
            found = Caller(
                owner,
                is_admin=uid in (0, self.own_uid),
                may_run=self.runs_as_root or uid == self.own_uid,
                groups=self._groups_of(owner.user, gid),
            )
            known = self._known[uid, gid] = (now, found)
        return known[1]

    def account(self, user: str) -> Caller | None:
        """Return who has this name, as if he came over the unix socket; None: there is no account.

        The name must be the one by which the system knows the user id, of which there is one only.
        """
        ids = self._account_of(user)
        if ids is None:
            return None
        found = self.caller(*ids)
        return found if found.user == user else None

    def logged_in(self, login: Login, *, origin: str) -> Caller | None:
        """Return who has logged in; None: his account is gone or is another one now."""
        found = self.account(login.user)
        if found is None or found.owner.uid != login.uid:
            return None
        if login.way != UNIX and found.owner.uid == 0:
            return None
        groups = dict.fromkeys((*found.groups, *login.groups))
        return msgspec.structs.replace(found, groups=tuple(groups), origin=origin)
