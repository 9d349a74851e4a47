"""The machine's own single-row SQLite commit rate (WAL, synchronous=FULL)."""

import sqlite3
import time
from pathlib import Path


def commit_rate(directory: Path, count: int) -> float:
    """Return commits/s of one row each of 300 bytes, one writer, in ``directory``."""
    path = directory / "floor.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, at INT, content BLOB)"
    )
    content = b"x" * 300
    start = time.monotonic()
    for number in range(count):
        connection.execute("INSERT INTO t (at, content) VALUES (?, ?)", (number, content))
    rate = count / (time.monotonic() - start)
    connection.close()
    for file in directory.glob("floor.db*"):
        file.unlink()
    return rate
