"""The history store, and the spool of mail, in files of SQLite."""

import contextlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from xce.journal.history_schema import TABLES, TABLES_ADDED, UPGRADES, check_schema
from xce.journal.history_store import Claim, Dialect, HistoryError, Row, Step
from xce.model.ids import Seq

_ERRORS: Final = (sqlite3.Error, OverflowError, UnicodeError)
"""Of the database, and of values that it cannot have."""
_NUMBERS: Final = msgspec.msgpack.Decoder(list[int])
DIALECT: Final = Dialect(
    along=" INDEXED BY {}",
    inwards="CROSS JOIN",
    among="{} IN (SELECT value FROM json_each(?))",
    packs_numbers=True,
    like="{} GLOB ?",
    quoted={"[": "[[]", "?": "[?]"},
    is_far=False,
    text_of="EXPLAIN QUERY PLAN",
)


class SqliteStore:
    """A store in a file.

    Args:
        connection: In autocommit mode.
        path: The file, for messages.
    """

    dialect = DIALECT

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection = connection
        connection.create_function("holds_host", 2, _holds_host, deterministic=True)
        self.place = str(path)
        self._lock = threading.RLock()

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Return what a question gives."""
        try:
            with self._lock:
                return self.connection.execute(statement, tuple(values)).fetchall()
        except _ERRORS as error:
            raise HistoryError(f"{self.place}: {error}") from error

    def commit(self, steps: Iterable[Step], *, claim: Claim | None = None) -> bool:
        """Do all steps, or none; return whether ``claim`` changed a row."""
        connection = self.connection
        with self._lock:
            try:
                connection.execute("BEGIN IMMEDIATE")
                if claim is not None and not connection.execute(*claim).rowcount:
                    connection.execute("ROLLBACK")
                    return False
                for statement, rows in steps:
                    connection.executemany(statement, rows)
                connection.execute("COMMIT")
            except _ERRORS as error:
                raise HistoryError(f"{self.place}: {error}") from error
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        return True

    def fill(self, pages: Iterable[tuple[str, Sequence[Row]]]) -> None:
        """Put rows into tables that have none; all or none."""
        inserts = (
            (f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            for table, rows in pages
            if rows
        )
        self.commit(chain([("DELETE FROM cursor", [()])], inserts))

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Let all questions inside, from any thread, find the store as it is now."""
        self.rows("BEGIN")
        try:
            yield
        finally:
            self.rows("ROLLBACK")

    def has(self, table: str) -> bool:
        """Return whether there is a table of a name."""
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self.connection.close()


def connect_sqlite(path: Path, statements: Iterable[str] = ()) -> SqliteStore:
    """Open a file for writing; made where there is none.

    Args:
        path: The file.
        statements: What is run first.

    Raises:
        HistoryError: It cannot be opened.
    """
    try:
        connection = sqlite3.connect(
            path, isolation_level=None, timeout=10.0, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # What is reported as stored may be dropped from the journal: it must be on the disk.
            connection.execute("PRAGMA synchronous = FULL")
            for statement in statements:
                connection.execute(statement)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise HistoryError(f"{path}: {error}") from error
    return SqliteStore(connection, path)


def write_sqlite(path: Path) -> SqliteStore:
    """Open the history store for writing, with tables of this release.

    Raises:
        HistoryError: It cannot be opened, or is of a later release.
    """
    store = connect_sqlite(path)
    try:
        _open_schema(store)
    except BaseException:
        store.close()
        raise
    return store


def read_sqlite(path: Path) -> SqliteStore | None:
    """Open the history store for reading; None: there is none yet.

    Raises:
        HistoryError: It cannot be read, or is of another release.
    """
    if not path.exists():
        return None
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None,
            check_same_thread=False, timeout=5.0,
        )  # fmt: skip
    except sqlite3.Error as error:
        raise HistoryError(f"{path}: {error}") from error
    store = SqliteStore(connection, path)
    try:
        if store.has("schema"):
            check_schema(store)
            return store
    except BaseException:
        store.close()
        raise
    store.close()  # It is being made just now.
    return None


def copy_sqlite(source: Path, target: Path) -> Seq:
    """Copy a history store beside its writer; return how far it reaches; 0: there is none.

    Raises:
        HistoryError: It cannot be copied.
    """
    if not source.exists():
        return 0
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as old,
            contextlib.closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")
            (seq,) = new.execute("SELECT seq FROM cursor").fetchone()
    except sqlite3.Error as error:
        raise HistoryError(f"{source}: {error}") from error
    return int(seq)


def _open_schema(store: SqliteStore) -> None:
    """Make the tables where there are none; bring those of an earlier release up to date."""
    connection = store.connection
    try:
        connection.execute("BEGIN IMMEDIATE")
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        version = 0
        if tables:
            (version,) = connection.execute("SELECT version FROM schema").fetchone()
        for statement in (*(UPGRADES.get(version, ()) if tables else TABLES), *TABLES_ADDED):
            connection.execute(statement)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise HistoryError(f"{store.place}: {error}") from error
    check_schema(store)


def _holds_host(hosts: bytes | None, number: int) -> bool:
    return hosts is not None and number in _NUMBERS.decode(hosts)
