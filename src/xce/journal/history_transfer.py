"""A whole history, or spool of mail, copied to another store: a file, or a database."""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from xce.journal import mail_spool
from xce.journal.history_place import HistoryPlace, open_for_reading, open_for_writing, place_text
from xce.journal.history_postgres import MAIL_SCHEMA, PostgresHistory, PostgresStore
from xce.journal.history_schema import KEYS
from xce.journal.history_sqlite import connect_sqlite
from xce.journal.history_store import NUL_SHOWN, HistoryError, HistoryStore, Row, Values
from xce.model.ids import Seq

_AT_ONCE: Final = 5_000
Keys = Mapping[str, tuple[str, ...]]
"""The key of each table: its first columns, by which its rows are in order."""


class HistoryTally(NamedTuple):
    """What a store holds, so that two can be compared."""

    seq: Seq
    rows: int
    digest: str
    """Over every value of all of it."""


def is_empty(place: HistoryPlace) -> bool:
    """Return whether there is no history, or one that has nothing.

    Raises:
        HistoryError: It cannot be read.
    """
    store = open_for_reading(place)
    if store is None:
        return True
    with contextlib.closing(store):
        return store.rows("SELECT seq FROM cursor") == [(0,)]


def has_mail(place: PostgresHistory) -> bool:
    """Return whether a database has the mail of a history, with or without that.

    Raises:
        HistoryError: It cannot be read.
    """
    with contextlib.closing(PostgresStore(place.target, MAIL_SCHEMA)) as store:
        return store.has("cursor") and _seq_of(store) > 0


def copy_store(source: HistoryStore, target: HistoryStore, keys: Keys = KEYS) -> Seq:
    """Give an empty store all that another one has now; return how far that reaches.

    Raises:
        HistoryError: It is not empty, or one of them fails; then nothing was copied.
    """
    if _seq_of(target):
        raise HistoryError(f"{target.place}: holds something already: move that away first")
    with source.whole():
        target.fill(_pages(source, keys))
        return _seq_of(source)


def copy_file_of(source: HistoryPlace, path: Path) -> Seq:
    """Make a file that has what a history has now, beside whoever writes that.

    Raises:
        HistoryError: There is none, or it cannot be read.
    """
    store = open_for_reading(source, is_patient=True)
    if store is None:
        return 0
    with (
        contextlib.closing(store),
        contextlib.closing(open_for_writing(path)) as target,
    ):
        return copy_store(store, target)


def move_history(source: HistoryPlace, target: HistoryPlace, mail_file: Path) -> HistoryTally:
    """Copy a history and the mail that waits elsewhere, read both, and compare.

    Args:
        source: Nobody writes it: for a file the caller sees to that.
        target: Where there is none.
        mail_file: Where the mail is, or goes, when the history is in a file.

    Raises:
        HistoryError: Somebody writes it, there is a history already, or the copy is not equal.
    """
    with contextlib.ExitStack() as opened:
        if not is_empty(target):
            raise HistoryError(f"{place_text(target)}: there is a history already")
        old, new = (
            opened.enter_context(contextlib.closing(open_for_writing(place)))
            for place in (source, target)
        )
        old_mail, new_mail = (
            opened.enter_context(contextlib.closing(open_mail(store, mail_file)))
            for store in (old, new)
        )
        # The history last: without it this may be done again. Mail that was left there earlier has
        # long been copied from there.
        new_mail.commit([(f"DELETE FROM {table}", [()]) for table in ("cursor", *mail_spool.KEYS)])
        for one, other, keys in ((old_mail, new_mail, mail_spool.KEYS), (old, new, KEYS)):
            copy_store(one, other, keys)
            if tally_store(one, keys) != tally_store(other, keys):
                raise HistoryError(f"{other.place}: the copy is not equal; do not use it")
        return tally_store(new)


def open_mail(history: HistoryStore, file: Path) -> HistoryStore:
    """Open what is to be mailed, which is kept where the history is written.

    Args:
        history: Open for writing.
        file: Where the mail is when the history is in a file.

    Raises:
        HistoryError: It cannot be opened.
    """
    if not isinstance(history, PostgresStore):
        return connect_sqlite(file, mail_spool.TABLES)
    beside = history.beside(MAIL_SCHEMA)
    beside.make(MAIL_SCHEMA, mail_spool.TABLES)
    return beside


def tally_store(store: HistoryStore, keys: Keys = KEYS) -> HistoryTally:
    """Return what a store holds, reading all of it."""
    digest = hashlib.blake2b(digest_size=16)
    count = 0
    for table, rows in _pages(store, keys):
        count += len(rows)
        # A database's texts cannot have NUL.
        text = f"{table} {rows!r}".replace("\\x00", NUL_SHOWN)
        digest.update(text.encode())
    return HistoryTally(_seq_of(store), count, digest.hexdigest())


def _seq_of(store: HistoryStore) -> Seq:
    return max((int(seq) for (seq,) in store.rows("SELECT seq FROM cursor")), default=0)


def _pages(store: HistoryStore, keys: Keys) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each table, some at a time."""
    yield "cursor", store.rows("SELECT * FROM cursor")
    for table, key in keys.items():
        if not store.has(table):
            continue  # Of an earlier release.
        columns, marks = ", ".join(key), ", ".join("?" * len(key))
        where: str = "1 = 1"
        values: Values = ()
        while rows := store.rows(
            f"SELECT * FROM {table} WHERE {where} ORDER BY {columns} LIMIT {_AT_ONCE}", values
        ):
            yield table, rows
            where, values = f"({columns}) > ({marks})", rows[-1][: len(key)]
