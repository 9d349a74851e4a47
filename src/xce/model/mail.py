"""Mail to users: what it is about, whom it goes to, and how it leaves the cluster."""

import enum
import re
from typing import Final

import msgspec

RECIPIENTS_MAX: Final = 20
TEXT_MAX: Final = 511
"""Most characters of ``-u``, as in LSF."""
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9._%+=]([A-Za-z0-9._%+=-]{0,62}[A-Za-z0-9._%+=])?"
    r"(@[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)?"
)


class Notice(enum.IntFlag):
    """What a user wants mail about."""

    NONE = 0
    START = 1
    """``-B``: it begins to run."""
    DONE = 2
    """It has ended well."""
    EXIT = 4
    """It has ended otherwise. ``-N``: both; ``-Ne``: this."""


ENDS: Final = Notice.DONE | Notice.EXIT
NOTICE_WORDS: Final = {"start": Notice.START, "done": Notice.DONE, "exit": Notice.EXIT}


class MailConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How mail leaves the cluster; with neither a program nor a server none is sent."""

    sendmail: str = ""
    """Path of a program that takes a message on its standard input."""
    smtp: str = ""
    """``host:port`` of a server."""
    starttls: bool = False
    """Whether the server must speak TLS, with a certificate that this machine trusts."""
    sender: str = ""
    """Who it is from; empty: ``xce``."""
    domain: str = ""
    """What stands behind names without ``@``; empty: they go as they are."""

    @property
    def is_on(self) -> bool:
        """Whether any is sent."""
        return bool(self.sendmail or self.smtp)


def is_address(text: str) -> bool:
    """Return whether a text is a plain address or a user's name: no quotes, no blanks, no options
    of a program.
    """
    return len(text) <= 254 and _ADDRESS.fullmatch(text) is not None


def parse_recipients(text: str) -> tuple[str, ...]:
    """Return the addresses of ``-u``, which stand between blanks or commas.

    Raises:
        ValueError: One is none, or there are too many; the message says which.
    """
    if len(text) > TEXT_MAX:
        raise ValueError(f"it has {len(text)} characters; {TEXT_MAX} are allowed")
    found = tuple(dict.fromkeys(text.replace(",", " ").split()))
    if not found:
        raise ValueError("it names nobody")
    for address in found:
        if not is_address(address):
            raise ValueError(f"{address[:80]!r} is no mail address")
    if len(found) > RECIPIENTS_MAX:
        raise ValueError(f"it has {len(found)} addresses; {RECIPIENTS_MAX} are allowed")
    return found
