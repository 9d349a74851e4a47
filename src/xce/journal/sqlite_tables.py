"""The tables of the journal in SQLite, connections to them, and what its errors mean."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from xce.journal.interface import JournalTroubleError
from xce.model.errors import CorruptJournalError

SCHEMA_VERSION: Final = 1

_SCHEMA: Final = (
    "CREATE TABLE schema (version INTEGER NOT NULL)",
    "CREATE TABLE lead (epoch INTEGER NOT NULL, holder TEXT NOT NULL, at_us INTEGER NOT NULL)",
    # The last seq is the row's number, so that reading from a seq and the end are a seek each.
    """CREATE TABLE batches (last INTEGER PRIMARY KEY, first INTEGER NOT NULL,
    epoch INTEGER NOT NULL, crc_before INTEGER NOT NULL, crc INTEGER NOT NULL,
    content BLOB NOT NULL)""",
    "CREATE TABLE blobs (hash TEXT NOT NULL UNIQUE, content BLOB NOT NULL)",
    "INSERT INTO lead VALUES (0, '', 0)",
)
_TROUBLE_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
    }
)


def check_schema(connection: sqlite3.Connection, database: Path) -> None:
    """Check that this release can read the database.

    Raises:
        CorruptJournalError: It cannot, and the message says why.
    """
    try:
        row = connection.execute("SELECT max(version) FROM schema").fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables == (0,):
            return
        raise CorruptJournalError(f"{database}: this is not a journal of XCE") from error
    if row[0] is None or row[0] > SCHEMA_VERSION:
        raise CorruptJournalError(
            f"{database}: written by a newer release (schema {row[0]}, this release knows "
            f"{SCHEMA_VERSION}): use that release or a later one"
        )


def check_pages(connection: sqlite3.Connection, database: Path) -> None:
    """Check that the pages with entries hang together: a lost page would be lost entries.

    Costs: reads all stored batches once.

    Raises:
        CorruptJournalError: They do not, and the message says where.
    """
    found = connection.execute("PRAGMA quick_check(batches)").fetchone()[0]
    if found != "ok":
        text = " ".join(str(found).split())
        raise CorruptJournalError(f"{database}: damaged: {text}; see `xceadmin journal verify`")


def create_schema(connection: sqlite3.Connection) -> None:
    """Create the tables where there are none, all or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO schema VALUES (?)", (SCHEMA_VERSION,))
    connection.execute("COMMIT")


def connect_reading(database: Path) -> sqlite3.Connection:
    """Return a connection that can only read."""
    connection = sqlite3.connect(
        f"{database.absolute().as_uri()}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=10.0,
    )
    connection.execute("PRAGMA query_only = ON")
    return connection


@contextlib.contextmanager
def errors_named(database: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours: what may pass is trouble, damage is a fault."""
    try:
        yield
    except UnicodeDecodeError as error:
        # SQLite quotes what it cannot read in its message, and the interpreter cannot either.
        raise CorruptJournalError(f"{database}: {error.object!r}") from error
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _TROUBLE_CODES:
            raise JournalTroubleError(f"{database}: {error}") from error
        if isinstance(error, sqlite3.ProgrammingError):
            raise
        # Besides "malformed": a head that names another format, a column that is no text, ...
        raise CorruptJournalError(f"{database}: {error}") from error
