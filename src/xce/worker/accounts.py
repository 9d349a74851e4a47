"""Users of the host, looked up once in a while: the name service may be slow."""

import os
import pwd
import time
from typing import Final

from xce.model.job import Owner
from xce.worker.environ import Account

_FRESH_S: Final = 60.0


class NoAccountError(Exception):
    """The host has no account for a job's owner, or may not run as it."""


class Accounts:
    """Accounts by user id."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Account, float]] = {}

    def known(self, owner: Owner) -> Account | None:
        """Return an account that was looked up not long ago."""
        found = self._known.get(owner.uid)
        if found is None or time.monotonic() - found[1] > _FRESH_S:
            return None
        return found[0]

    def load(self, owner: Owner) -> Account:
        """Look an account up; may take long.

        Raises:
            NoAccountError: There is none, or we are not root and it is not ours.
        """
        if os.geteuid() not in (0, owner.uid):
            raise NoAccountError(
                f"the worker runs as user id {os.geteuid()} and cannot start jobs of "
                f"{owner.user} ({owner.uid}); run the cluster as root to serve several users"
            )
        try:
            entry = pwd.getpwuid(owner.uid)
        except KeyError:
            raise NoAccountError(
                f"this host has no account for user {owner.user} ({owner.uid})"
            ) from None
        groups: tuple[int, ...] = ()
        if os.geteuid() == 0:
            groups = tuple(sorted(os.getgrouplist(entry.pw_name, entry.pw_gid)))
        account = Account(
            entry.pw_name, owner.uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell
        )
        self._known[owner.uid] = (account, time.monotonic())
        return account
