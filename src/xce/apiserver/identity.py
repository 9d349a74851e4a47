"""Who asks: the credentials of the process at the other end of the unix socket, nothing else."""

import os
import pwd
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from xce.model.job import Owner

_CREDENTIALS: Final = struct.Struct("iII")
_NAME_S: Final = 60.0
"""How long a user's name is remembered before the system is asked again."""


class Caller(msgspec.Struct, frozen=True):
    """A user who was identified."""

    owner: Owner
    is_admin: bool
    """May touch everybody's jobs."""
    may_run: bool = True
    """Whether the cluster can run jobs as this user."""

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


def user_name(uid: int) -> str:
    """Return the name of a user id; the number in digits where the system knows no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class Identities:
    """Names of users by their id, and who is an administrator.

    Args:
        own_uid: The user who runs the cluster.
        name_of: Looks a user up.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        *,
        own_uid: int | None = None,
        name_of: Callable[[int], str] = user_name,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.own_uid = os.geteuid() if own_uid is None else own_uid
        self._name_of = name_of
        self._clock = clock
        self._known: dict[tuple[int, int], tuple[float, Owner]] = {}

    @property
    def owner_name(self) -> str:
        """The user who runs the cluster."""
        return self._name_of(self.own_uid)

    @property
    def runs_as_root(self) -> bool:
        """Whether jobs of every user can be run."""
        return self.own_uid == 0

    def caller(self, uid: int, gid: int, admins: tuple[str, ...]) -> Caller:
        """Return who has these ids; ``admins`` are the names that the configuration trusts."""
        now = self._clock()
        known = self._known.get((uid, gid))
        if known is None or now - known[0] > _NAME_S:
            known = self._known[uid, gid] = (now, Owner(self._name_of(uid), uid, gid))
        owner = known[1]
        is_admin = uid in (0, self.own_uid) or owner.user in admins
        return Caller(owner, is_admin, self.runs_as_root or uid == self.own_uid)
