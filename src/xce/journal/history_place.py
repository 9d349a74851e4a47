"""Where a history store is, and how it is opened."""

from pathlib import Path
from typing import TypeAlias

from xce.journal.history_postgres import PostgresHistory, read_postgres, write_postgres
from xce.journal.history_sqlite import read_sqlite, write_sqlite
from xce.journal.history_store import HistoryStore

HistoryPlace: TypeAlias = Path | PostgresHistory
"""A file, or a database."""


def open_for_writing(place: HistoryPlace) -> HistoryStore:
    """Open a history store for writing; made where there is none.

    Raises:
        HistoryHeldError: Another process writes it.
        HistoryAwayError: Its database is away.
        HistoryError: It cannot be opened, or is of a later release.
    """
    if isinstance(place, PostgresHistory):
        return write_postgres(place)
    return write_sqlite(place)


def open_for_reading(place: HistoryPlace, *, is_patient: bool = False) -> HistoryStore | None:
    """Open a history store for reading; None: there is none yet.

    Args:
        place: Where it is.
        is_patient: Whether questions may take long.

    Raises:
        HistoryAwayError: Its database is away.
        HistoryError: It cannot be read, or is of another release.
    """
    if isinstance(place, PostgresHistory):
        return read_postgres(place, is_patient=is_patient)
    return read_sqlite(place)


def place_text(place: HistoryPlace) -> str:
    """Return the name of a place, for messages; it holds no secret."""
    return place.target.dsn if isinstance(place, PostgresHistory) else str(place)
