"""The history store, and the spool of mail, in PostgreSQL, for any number of machines.

One process writes: it holds a row with a number and a time, and every commit checks that the number
is still its own, so that one that was cut off, or slept, writes nothing more. Another one may step
in when that time, by the database's clock, has run out.
"""

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import count
from typing import Any, Final, NamedTuple

from xce.journal.history_schema import TABLES, TABLES_ADDED, check_schema, in_postgres
from xce.journal.history_store import (
    NUL_SHOWN,
    Claim,
    Dialect,
    HistoryAwayError,
    HistoryError,
    HistoryHeldError,
    HistoryTakenError,
    Row,
    Step,
    Values,
)
from xce.journal.interface import JournalRefusedError, JournalTroubleError
from xce.journal.postgres_line import (
    QUIET_S,
    Connection,
    Line,
    LoopThread,
    PostgresTarget,
)

DIALECT: Final = Dialect(
    along="",
    inwards="JOIN",
    among="{} = ANY(?::bigint[])",
    packs_numbers=False,
    like="{} LIKE ?",
    quoted={"*": "%", "%": r"\%", "_": r"\_", "\\": "\\\\"},
    is_far=True,
    text_of="EXPLAIN",
)
SCHEMA: Final = "xce_history"
MAIL_SCHEMA: Final = "xce_mail"
LEASE_S: Final = 5.0
"""How long a writer is waited for of which nothing is heard any more."""
POINT_S: Final = 10.0
"""Longest wait for the answer to a question about one job."""
SEARCH_S: Final = 120.0
"""... about many jobs."""
COMMIT_S: Final = 600.0
"""A command about a million jobs makes a million rows."""
FILL_S: Final = 24 * 3600.0
_COPIED: Final = 20
"""So many rows for one table are copied and not inserted."""
_PLAIN: Final = re.compile(
    r"INSERT INTO (?P<table>\w+) (\((?P<columns>[^)]*)\)\s+)?VALUES \([?, ]*\)"
)
_NUMBERED: Final = ("events", "audit", "messages")
_NEXT_NUMBER: Final = """SELECT setval(pg_get_serial_sequence('{0}', 'number'), max(number))
FROM {0}"""
_LOCK: Final = "SELECT pg_advisory_xact_lock(74826002)"
_WRITER: Final = f"{SCHEMA}.writer"
_MAKE_WRITER: Final = (
    f"""CREATE TABLE {_WRITER} (only_row BOOLEAN PRIMARY KEY DEFAULT true CHECK (only_row),
    number BIGINT NOT NULL UNIQUE, holder TEXT NOT NULL, until TIMESTAMPTZ NOT NULL,
    renewals BIGINT NOT NULL, cluster TEXT NOT NULL)""",
    f"""INSERT INTO {_WRITER} (number, holder, until, renewals, cluster)
    VALUES (0, '', 'epoch', 0, '')""",
)
# Whether a list of numbers, as msgpack writes it, holds one.
_HOLDS_HOST: Final = """CREATE FUNCTION holds_host(hosts BYTEA, wanted BIGINT) RETURNS BOOLEAN
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE head INT; place INT; items BIGINT; size INT; found BIGINT;
BEGIN
    head := get_byte(hosts, 0);
    CASE
        WHEN head BETWEEN 144 AND 159 THEN items := head - 144; place := 1;
        WHEN head = 220 THEN items := get_byte(hosts, 1) * 256 + get_byte(hosts, 2); place := 3;
        ELSE items := get_byte(hosts, 2) * 65536 + get_byte(hosts, 3) * 256 + get_byte(hosts, 4);
            place := 5;
    END CASE;
    WHILE items > 0 LOOP
        head := get_byte(hosts, place);
        place := place + 1;
        size := CASE WHEN head BETWEEN 204 AND 207 THEN 1 << (head - 204) ELSE 0 END;
        found := CASE size WHEN 0 THEN head ELSE 0 END;
        WHILE size > 0 LOOP
            found := found * 256 + get_byte(hosts, place);
            place := place + 1;
            size := size - 1;
        END LOOP;
        IF found = wanted THEN
            RETURN true;
        END IF;
        items := items - 1;
    END LOOP;
    RETURN false;
END $$"""
_WHO_WRITES: Final = (
    "SELECT number, holder, cluster, until > clock_timestamp() AS holds,"
    f" extract(epoch FROM until - clock_timestamp())::float8 AS left_s FROM {_WRITER}"
)
_TAKE: Final = (
    f"UPDATE {_WRITER} SET number = number + 1, holder = $1, cluster = $2,"
    " renewals = renewals + 1, until = clock_timestamp() + make_interval(secs => $3)"
    " RETURNING number"
)
# Changes no key, so that commits do not wait for it, nor it for them.
# What was given up it does not take back: it may be on its way when that is done.
_RENEW: Final = (
    f"UPDATE {_WRITER} SET renewals = renewals + 1,"
    " until = clock_timestamp() + make_interval(secs => $2)"
    " WHERE number = $1 AND until > 'epoch' RETURNING number"
)
_GIVE_UP: Final = f"UPDATE {_WRITER} SET until = 'epoch' WHERE number = $1"
# Who takes over waits for commits that hold this, and later ones do not find their number.
_FENCE: Final = f"SELECT number FROM {_WRITER} WHERE number = $1 FOR KEY SHARE"


_LEFT: Final[dict[str, int]] = {}
"""Terms of writing that this process left while the database was away, by database."""


class PostgresHistory(NamedTuple):
    """Where a history in a database is, and whose it is."""

    target: PostgresTarget
    cluster: str = ""
    """The cluster's name; one of another name is refused. Empty: whosever it is."""


@cache
def numbered(statement: str) -> str:
    """Return a statement with ``$1``, ``$2`` ... for each ``?``."""
    numbers = count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", statement)


class PostgresStore:
    """A store in a schema of a database.

    Args:
        target: The database.
        schema: Where its tables are.
        thread: Where the connection lives, of another store; None: in a thread of its own.
        name: What the database shows as the application's name.
        timeout_s: Longest wait for an answer.
        lead: What lets it write.
        quiet_s: So long after a failure questions fail at once.
        only_reads: Whether the database ends what nobody waits for any more.
    """

    dialect = DIALECT

    def __init__(
        self,
        target: PostgresTarget,
        schema: str = SCHEMA,
        *,
        thread: LoopThread | None = None,
        name: str = "xce history reading",
        timeout_s: float = POINT_S,
        lead: "WritingLead | None" = None,
        quiet_s: float = 0.0,
        only_reads: bool = False,
    ) -> None:
        self.target = target
        self.place = target.dsn
        self.thread = thread or LoopThread()
        self.lead = lead
        """Set before it writes."""
        self._owns_thread = thread is None
        self._timeout_s = timeout_s
        self._line = Line(
            self.thread,
            target,
            name,
            quiet_s=quiet_s,
            settings=(
                f"SET search_path = {schema}",
                # Plans for the values at hand: a span may be an hour or for ever.
                "SET plan_cache_mode = force_custom_plan",
                f"SET statement_timeout = {round(timeout_s * 1000) if only_reads else 0}",
            ),
        )

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Return what a question gives."""
        text, given = numbered(statement), _clean(values)

        async def fetch(connection: Connection) -> list[Row]:
            return [tuple(row) for row in await connection.fetch(text, *given)]

        with _named(self.place):
            return self._line.call(fetch, timeout_s=self._timeout_s)

    def commit(self, steps: Iterable[Step], *, claim: Claim | None = None) -> bool:
        """Do all steps, or none; return whether ``claim`` changed a row."""
        lead = self._writing()

        async def write(connection: Connection) -> bool:
            async with connection.transaction():
                await _check_lead(connection, lead)
                if claim is not None:
                    done = await connection.execute(numbered(claim[0]), *claim[1])
                    if done.endswith(" 0"):
                        # What an earlier try may have stored is as safe as this, which follows it.
                        await connection.fetchval(_RENEW, lead.number, LEASE_S)
                        return False
                for statement, rows in steps:
                    await _run(connection, statement, rows)
            return True

        with _named(self.place):
            return self._line.call(write, timeout_s=COMMIT_S)

    def fill(self, pages: Iterable[tuple[str, Sequence[Row]]]) -> None:
        """Put rows into tables that have none; all or none."""
        lead = self._writing()

        async def put(connection: Connection) -> None:
            tables: dict[str, None] = {}
            async with connection.transaction():
                await _check_lead(connection, lead)
                await connection.execute("DELETE FROM cursor")
                for table, rows in pages:
                    tables[table] = None
                    await connection.copy_records_to_table(table, records=map(_clean, rows))
                for table in tables:
                    if table in _NUMBERED:
                        await connection.execute(_NEXT_NUMBER.format(table))
                    await connection.execute(f"ANALYZE {table}")

        with _named(self.place):
            self._line.call(put, timeout_s=FILL_S)

    def _writing(self) -> "WritingLead":
        if self.lead is None:
            raise HistoryError(f"{self.place}: not open for writing")
        return self.lead

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Let all questions inside find the store as it is now."""
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        self.rows(begin)
        try:
            # A connection that was made anew would be in no transaction, whose time stands still.
            began = self.rows("SELECT now()")
            yield
            if self.rows("SELECT now()") != began:
                raise HistoryAwayError(f"{self.place}: the connection was lost meanwhile")
        finally:
            with contextlib.suppress(HistoryError):
                self.rows("ROLLBACK")

    def has(self, table: str) -> bool:
        """Return whether there is a table of a name."""
        return bool(self.rows("SELECT 1 WHERE to_regclass(?) IS NOT NULL", (table,)))

    def beside(self, schema: str) -> "PostgresStore":
        """Return a store in another schema that may write as long as this one may."""
        return PostgresStore(
            self.target, schema, thread=self.thread, name="xce mail", lead=self.lead
        )

    def make(self, schema: str, statements: Sequence[str]) -> None:
        """Make tables where there are none.

        Raises:
            HistoryError: They cannot be made.
        """

        async def make(connection: Connection) -> None:
            encoding = await connection.fetchval("SHOW server_encoding")
            if encoding != "UTF8":
                raise HistoryError(f"{self.place}: has the encoding {encoding}; UTF8 is needed")
            async with connection.transaction():
                await connection.execute(_LOCK)
                if await connection.fetchval("SELECT to_regclass($1)", f"{schema}.cursor"):
                    return
                if await connection.fetchval("SELECT to_regnamespace($1)", schema) is None:
                    await connection.execute(f"CREATE SCHEMA {schema}")
                for statement in statements:
                    await connection.execute(in_postgres(statement))

        with _named(self.place):
            self._line.call(make, timeout_s=self._timeout_s)

    def call(self, statement: str, *values: object) -> list[Any]:
        """Return the rows, by names of columns, that a statement of PostgreSQL's own gives."""

        async def fetch(connection: Connection) -> list[Any]:
            found: list[Any] = await connection.fetch(statement, *values)
            return found

        with _named(self.place):
            return self._line.call(fetch, timeout_s=self._timeout_s)

    def close(self) -> None:
        """End the connection, and give up the writing."""
        if self.lead is not None and self._owns_thread:
            self.lead.give_up()
        self._line.close()
        if self._owns_thread:
            self.thread.close()


class WritingLead:
    """The right to write, held until it is given up or lost.

    Args:
        thread: Where it is renewed.
        target: The database.
        cluster: The cluster's name.
        lease_s: How long it lasts that is not renewed.
    """

    def __init__(
        self, thread: LoopThread, target: PostgresTarget, cluster: str, *, lease_s: float = LEASE_S
    ) -> None:
        self.number = 0
        """Of this term of writing; 0: it does not write."""
        self._thread = thread
        self._target = target
        self._cluster = cluster
        self._lease_s = lease_s
        self._line = Line(thread, target, "xce history lease")

    def take(self) -> None:
        """Begin to write when nobody does.

        Raises:
            HistoryHeldError: Somebody does; the message names it.
            HistoryError: It is another cluster's, or the database cannot be used.
        """
        place, cluster = self._target.dsn, self._cluster
        name = f"{socket.gethostname()} pid {os.getpid()}"

        async def take(connection: Connection) -> tuple[int, Any]:
            async with connection.transaction():
                # We come again: nobody shall wait there for us behind a long commit.
                await connection.execute(f"SET LOCAL lock_timeout = {round(POINT_S * 1000)}")
                found = await connection.fetchrow(f"{_WHO_WRITES} FOR UPDATE")
                is_held = found["holds"] and found["number"] != _LEFT.get(place)
                if is_held or found["cluster"] not in ("", cluster):
                    return 0, found
                return await connection.fetchval(_TAKE, name, cluster, self._lease_s), found

        with _named(place):
            number, found = self._line.call(take, timeout_s=POINT_S)
        check_cluster(place, cluster, found["cluster"])
        if not number:
            raise HistoryHeldError(
                f"{place}: written by {found['holder']}, for {max(found['left_s'], 0.0):.1f} s "
                "more at least"
            )
        self.number = number
        _LEFT.pop(place, None)
        self._thread.start(self._keep(number))

    async def _keep(self, number: int) -> None:
        while self.number == number:
            await asyncio.sleep(self._lease_s / 3)
            with contextlib.suppress(JournalTroubleError, JournalRefusedError):
                # When it is lost, the next commit says so.
                await self._line.acall(
                    lambda connection: connection.fetchval(_RENEW, number, self._lease_s),
                    timeout_s=self._lease_s,
                )

    def lost(self) -> HistoryTakenError:
        """Return the error to raise when it is found lost."""
        return HistoryTakenError(f"{self._target.dsn}: another process writes the history now")

    def give_up(self) -> None:
        """Let another one write at once."""
        number, self.number = self.number, 0
        if number and self._thread.is_alive:
            try:
                self._line.call(
                    lambda connection: connection.execute(_GIVE_UP, number), timeout_s=1.0
                )
            except (JournalTroubleError, JournalRefusedError):
                # Nobody else could be told; we need not wait for it to run out.
                _LEFT[self._target.dsn] = number
        self._line.close()


def write_postgres(place: PostgresHistory, *, lease_s: float = LEASE_S) -> PostgresStore:
    """Open the history store for writing, with tables of this release.

    Raises:
        HistoryHeldError: Another process writes it.
        HistoryAwayError: The database is away.
        HistoryError: It is another cluster's, of another release, or cannot be used.
    """
    store = PostgresStore(place.target, name="xce history writing")
    try:
        store.lead = WritingLead(store.thread, place.target, place.cluster, lease_s=lease_s)
        store.make(SCHEMA, [*TABLES, *TABLES_ADDED, _HOLDS_HOST, *_MAKE_WRITER])
        check_schema(store)
        store.lead.take()
    except BaseException:
        store.close()
        raise
    return store


def read_postgres(place: PostgresHistory, *, is_patient: bool = False) -> PostgresStore | None:
    """Open the history store for reading; None: there is none yet.

    Args:
        place: Where it is.
        is_patient: Whether questions may take long.

    Raises:
        HistoryAwayError: The database is away.
        HistoryError: It is another cluster's, of another release, or cannot be read.
    """
    timeout_s = SEARCH_S if is_patient else POINT_S
    store = PostgresStore(place.target, timeout_s=timeout_s, quiet_s=QUIET_S, only_reads=True)
    try:
        if store.has("schema"):
            check_schema(store)
            (found,) = store.call(_WHO_WRITES)
            check_cluster(store.place, place.cluster, found["cluster"])
            return store
    except BaseException:
        store.close()
        raise
    store.close()
    return None


def check_cluster(place: str, cluster: str, found: str) -> None:
    """Check that a history is this cluster's.

    Raises:
        HistoryError: It is another one's.
    """
    if cluster and found and found != cluster:
        raise HistoryError(
            f"{place}: holds the history of cluster {found!r}, and here cluster_name is "
            f"{cluster!r}: name another database; or, if the cluster is called so now: "
            f"UPDATE {_WRITER} SET cluster = '{cluster}'"
        )


@contextlib.contextmanager
def _named(place: str) -> Iterator[None]:
    """Give what the connection raises the names that it has here."""
    try:
        yield
    except JournalTroubleError as error:
        text = str(error) if place in str(error) else f"{place}: {error}"
        raise HistoryAwayError(text) from error
    except JournalRefusedError as error:
        raise HistoryError(str(error)) from error


async def _run(connection: Connection, statement: str, rows: Sequence[Values]) -> None:
    """Run a statement for each row; many plain rows are copied, which takes a fraction."""
    plain = _PLAIN.fullmatch(statement) if len(rows) >= _COPIED else None
    if plain is None:
        if rows:
            await connection.executemany(numbered(statement), map(_clean, rows))
        return
    names = plain["columns"]
    columns = [name.strip().strip('"') for name in names.split(",")] if names else None
    await connection.copy_records_to_table(
        plain["table"], columns=columns, records=map(_clean, rows)
    )


async def _check_lead(connection: Connection, lead: WritingLead) -> None:
    """Check that this process may write, until the end of the transaction.

    Raises:
        HistoryTakenError: It may not any more.
    """
    if await connection.fetchval(_FENCE, lead.number) is None:
        raise lead.lost()


def _clean(values: Sequence[object]) -> list[object]:
    """Return values without what PostgreSQL's texts cannot have."""
    return [
        value.replace("\0", NUL_SHOWN) if isinstance(value, str) and "\0" in value else value
        for value in values
    ]
