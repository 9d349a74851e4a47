"""History stores for tests: in a file, and in a PostgreSQL that all tests of a process share."""

import contextlib
import functools
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from postgres import Postgres, find_binaries, make_directory

from xce.journal.history_place import HistoryPlace, open_for_reading
from xce.journal.history_postgres import PostgresHistory
from xce.journal.postgres_line import PostgresTarget

DATABASE = "history"
only_files = pytest.mark.parametrize("store", ["sqlite"], indirect=True)
"""Of a test that is about the file itself."""


@functools.cache
def shared_server() -> Postgres:
    """Return the server, started when it is first wanted; nothing in it is worth a sync."""
    binaries = find_binaries()
    assert binaries is not None
    server = Postgres(make_directory(), binaries)
    server.make()
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        server.set(setting, "off")
    server.start_aside()
    server.make_database(DATABASE)
    return server


def make_place(kind: str, directory: Path) -> HistoryPlace:
    """Return where a history may be made: ``sqlite`` in a directory, or ``postgres``."""
    if kind == "sqlite":
        return directory / "history.db"
    if find_binaries() is None:
        pytest.skip("no PostgreSQL: install it, or pip install -e '.[dev]'")
    server = shared_server()
    server.sql("DROP SCHEMA IF EXISTS xce_history, xce_mail CASCADE", database=DATABASE)
    return PostgresHistory(PostgresTarget(server.dsn(DATABASE), section="history"), "xce")


def read_rows(place: HistoryPlace, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Return what a statement gives."""
    store = open_for_reading(place)
    assert store is not None
    with contextlib.closing(store):
        return store.rows(statement, values)


def run_sql(place: HistoryPlace, statement: str) -> None:
    """Change something behind everybody's back."""
    if isinstance(place, PostgresHistory):
        text = f"SET search_path = xce_history; {statement}"
        shared_server().sql(text, database=DATABASE)
        return
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute(statement)
