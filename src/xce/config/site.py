"""What ``xce.yaml`` says to the daemons alone: where journal and history are, and who leads where.

It is no part of `xce.model.config.ClusterConfig`, which is in the journal: a daemon must know it
before it can read the journal, and nobody else shall read it there.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from xce.config.document import (
    Key,
    Place,
    Table,
    each_item,
    open_document,
    read_mapping,
    scalar_text,
)
from xce.config.report import Report
from xce.config.values import read_count
from xce.model.address import parse_address
from xce.model.config import ClusterConfig
from xce.model.errors import TextError

FILE: Final = "xce.yaml"
LEASE_S: Final = 3
_DSN: Final = re.compile(r"postgres(ql)?://([^/?]*@)?[^@]*", re.ASCII)
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_JOB_PREFIXES: Final = ("XCE_", "LSB_", "LS_")
"""Variables with these names are not handed to daemons: they may be those of a job."""


class DatabaseSite(msgspec.Struct, frozen=True, kw_only=True):
    """Where something is that may lie in a database."""

    postgres: str = ""
    """The database as ``postgresql://user@host1,host2/database``; empty: SQLite files in the state
    directory."""
    password_file: str = ""
    password_env: str = ""


class JournalSite(DatabaseSite, frozen=True, kw_only=True):
    """Where the journal is."""

    lease_s: int = LEASE_S
    """How long a controller leads that is not heard of any more."""


class SiteConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What daemons must know before anything else."""

    journal: JournalSite = JournalSite()
    history: DatabaseSite = DatabaseSite()
    """It may be in the same database as the journal."""
    cluster_name: str = ClusterConfig().cluster_name
    """Whose history it is."""
    controllers: tuple[str, ...] = ()
    """Where controllers listen, one of which leads: paths of sockets, or ``host:port``; empty: the
    one of the state directory."""


def _read_dsn(place: Place) -> str:
    text = scalar_text(place)
    found = _DSN.fullmatch(text)
    if found is None or any(char.isspace() for char in text):
        raise TextError(
            f"{_hidden(text)!r} names no database: expected postgresql://user@host1,host2/database"
        )
    if ":" in (found[2] or "") or re.search(r"[?&](ssl)?password=", text):
        raise TextError("holds a password: put it into a file and name that as password_file")
    return text


def _hidden(text: str) -> str:
    """Return a text for a message without what may be a password."""
    text = re.sub(r":[^/@]*@", ":...@", text)
    return re.sub(r"(password=)[^&]*", r"\1...", text)[:80]


def _read_path(place: Place) -> str:
    text = scalar_text(place)
    if not text.startswith("/") or "\n" in text:
        raise TextError(f"{text[:80]!r} is no absolute path")
    return text


def _read_env_name(place: Place) -> str:
    text = scalar_text(place)
    if not _ENV_NAME.fullmatch(text):
        raise TextError(f"{text[:80]!r} is no name of an environment variable")
    if text.startswith(_JOB_PREFIXES):
        raise TextError(f"{text} cannot be used: variables named XCE_, LSB_ and LS_ belong to jobs")
    return text


_DATABASE: Final = {
    "postgres": Key("postgres", _read_dsn),
    "password_file": Key("password_file", _read_path),
    "password_env": Key("password_env", _read_env_name),
}
_JOURNAL: Final = Table(
    noun="journal", keys={**_DATABASE, "lease_s": Key("lease_s", read_count(2, 300))}
)
_HISTORY: Final = Table(noun="history", keys=_DATABASE)


def _read_database(place: Place, table: Table) -> dict[str, Any]:
    """Return the fields of a section about a database."""
    fields = read_mapping(place, table)
    if not fields.get("postgres"):
        for key in fields:
            if key != "postgres":
                place.at(key).problem("is for a database: give postgres, too")
    if fields.get("password_file") and fields.get("password_env"):
        place.problem("password_file and password_env exclude each other")
    return fields


def _read_journal(place: Place) -> JournalSite:
    return JournalSite(**_read_database(place, _JOURNAL))


def _read_history(place: Place) -> DatabaseSite:
    return DatabaseSite(**_read_database(place, _HISTORY))


def _read_controllers(place: Place) -> tuple[str, ...]:
    found: list[str] = []
    for item in each_item(place, "where controllers listen"):
        text = scalar_text(item)
        if not text.startswith("/"):
            try:
                text = str(parse_address(text))
            except TextError:
                item.problem(
                    f"{text[:80]!r} names no controller: expected host:port, or the path of its "
                    "socket (run/peer/c.sock of its state directory)"
                )
                continue
        if text in found:
            item.problem(f"{text} stands twice")
        elif len(text.encode()) > 107 and text.startswith("/"):
            item.problem(f"{text[:40]!r}... is too long for a socket: at most 107 bytes")
        found.append(text)
    return tuple(found)


SITE_KEYS: Final[Mapping[str, Key]] = {
    "journal": Key("journal", _read_journal),
    "history": Key("history", _read_history),
    "controllers": Key("controllers", _read_controllers),
}


def parse_site(text: str | None, table: Table) -> SiteConfig:
    """Return what ``xce.yaml`` says to daemons.

    Args:
        text: The file; None: there is none.
        table: All its keys, these among them.

    Raises:
        ConfigError: Something in the file is wrong.
    """
    report = Report()
    place = open_document(FILE, text, report) if text is not None else None
    fields: dict[str, Any] = read_mapping(place, table) if place is not None else {}
    report.raise_if_any()
    names = (*SITE_KEYS, "cluster_name")
    return SiteConfig(**{name: fields[name] for name in names if name in fields})
