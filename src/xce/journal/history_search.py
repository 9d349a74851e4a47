"""Questions to the history store about many jobs: pages of attempts and jobs, and their sums.

Each question runs along one index and names it, so that nothing is scanned that the question does
not ask for: by job, by user and end, by queue and end, by end, by user, queue or name.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from xce.journal.history_schema import HistoryError
from xce.model.ids import Index, JobId, Micros
from xce.model.job import Outcome
from xce.model.request import ClassKey

FOREVER: Final = (0, 1 << 62)
_KEY: Final = msgspec.msgpack.Decoder(ClassKey)
_NUMBERS: Final = msgspec.msgpack.Decoder(list[int])
Span = tuple[Micros, Micros]
"""From and to, both included."""
Cursor = tuple[Micros, JobId, Index, int]
"""End, job, index, attempt of the last row of a page; attempt -1: withdrawn."""
START: Final[Cursor] = (-1, 0, 0, 0)


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempts, or jobs, are wanted; everything given must hold."""

    jobs: tuple[JobId, ...] = ()
    user: str = ""
    queue: str = ""
    name: str = ""
    """With ``*`` for any text."""
    project: str = ""
    host: str = ""
    group: str = ""
    """Of this job group, not of those below it."""
    outcomes: tuple[Outcome, ...] = tuple(Outcome)
    """NONE: attempts whose element went on with another one, if they ran."""
    never_ran: bool = False
    """With NONE: also those that did not, as when the start failed."""
    submitted: Span = FOREVER
    dispatched: Span = FOREVER
    ended: Span = FOREVER
    sees: Callable[[str, str, str], bool] | None = None
    """Only jobs of which this is true: of owner, queue and project."""


class Sums(msgspec.Struct, frozen=True):
    """The numbers of ``bacct``. Spans are seconds."""

    done: int = 0
    exited: int = 0
    cpu_s: float = 0.0
    cpu_s_max: float = 0.0
    cpu_s_min: float = 0.0
    wait_s: float = 0.0
    wait_s_max: float = 0.0
    wait_s_min: float = 0.0
    turnaround_s: float = 0.0
    turnaround_s_max: float = 0.0
    turnaround_s_min: float = 0.0
    hog: float = 0.0
    """Sum of CPU time divided by turnaround."""
    hog_max: float = 0.0
    hog_min: float = 0.0
    expansion: float = 0.0
    """Sum of turnaround divided by run time, of those that ran."""
    expansion_max: float = 0.0
    expansion_min: float = 0.0
    run_s: float = 0.0
    run_s_max: float = 0.0
    run_s_min: float = 0.0
    ran: int = 0
    """How many ran at all."""
    first_end_at: float = 0.0
    last_end_at: float = 0.0


class UsageRow(msgspec.Struct, frozen=True):
    """One attempt that is over, or a run of elements that ended before they started."""

    job: JobId
    index: Index
    last: Index
    """Last index of the run; ``index`` for an attempt."""
    attempt: int
    """-1: withdrawn."""
    ended_at_us: Micros

    @property
    def cursor(self) -> Cursor:
        """Where the next page begins."""
        return (self.ended_at_us, self.job, self.index, self.attempt)


def _tables(search: Search) -> tuple[str, ...]:
    """Return the tables that may hold what is wanted: who was withdrawn never had a host."""
    if Outcome.EXIT not in search.outcomes or search.dispatched != FOREVER or search.host:
        return ("attempts",)
    return ("attempts", "withdrawn")


def _index(table: str, search: Search, *, is_named: bool) -> str:
    """Return along which index rows are found."""
    if search.jobs or is_named:
        return ""
    if search.user:
        return f" INDEXED BY {table}_by_user"
    if search.queue:
        return f" INDEXED BY {table}_by_queue"
    return f" INDEXED BY {table}_by_end"


class _Where:
    """A condition in the making."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.values: list[Any] = []

    def add(self, text: str, *values: object) -> None:
        self.texts.append(text)
        self.values.extend(values)

    @property
    def text(self) -> str:
        return " AND ".join(self.texts) or "1"


class HistorySearch:
    """Asks a history store.

    Args:
        connection: The store, open for reading.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.create_function("holds_host", 2, _holds_host, deterministic=True)

    def usage(self, search: Search, cursor: Cursor, limit: int) -> list[UsageRow]:
        """Return the next attempts and withdrawn runs behind ``cursor``, by their ends.

        Raises:
            HistoryError: The store cannot be read.
        """
        found: list[UsageRow] = []
        for table in _tables(search):
            source, where = self._from(table, search, bound=cursor[0])
            at, index, number = _COLUMNS[table]
            where.add(f"({at}, t.job, {index}, {number}) > (?, ?, ?, ?)", *cursor)
            last = "t.idx" if table == "attempts" else "t.last"
            rows = self._rows(
                f"SELECT t.job, {index}, {last}, {number}, {at} FROM {source} "
                f"WHERE {where.text} ORDER BY 5, 1, 2, 4 LIMIT ?",
                (*where.values, limit),
            )
            found += [UsageRow(*row) for row in rows]
        found.sort(key=_cursor)
        return found[:limit]

    def sums(self, search: Search) -> Sums:
        """Return the sums over all attempts and withdrawn elements that are wanted.

        Raises:
            HistoryError: The store cannot be read.
        """
        parts = []
        for table in _tables(search):
            source, where = self._from(table, search)
            ((*values,),) = self._rows(
                f"SELECT {_SUMS[table]} FROM {source} WHERE {where.text}", where.values
            )
            if values[0]:
                parts.append(values)
        if not parts:
            return Sums()
        return _joined(parts)

    def find_jobs(self, search: Search, behind: JobId, limit: int) -> list[JobId]:
        """Return the next jobs behind ``behind`` that are wanted, by id.

        Raises:
            HistoryError: The store cannot be read.
        """
        where = _Where()
        where.add("j.job > ?", behind)
        index = ""
        if search.jobs:
            where.add("j.job IN (SELECT value FROM json_each(?))", _json(search.jobs))
        elif search.name and "*" not in search.name:
            index = "INDEXED BY jobs_by_name"
        elif search.user:
            index = "INDEXED BY jobs_by_user"
        elif search.queue:
            index = "INDEXED BY jobs_by_queue"
        if search.user:
            where.add("j.user = ?", search.user)
        if search.queue:
            where.add("j.queue = ?", search.queue)
        self._add_job_words(where, search)
        if search.submitted != FOREVER:
            low, high = self._job_range(search.submitted)
            where.add("j.job BETWEEN ? AND ?", low, high)
        rows = self._rows(
            f"SELECT j.job FROM jobs j {index} WHERE {where.text} ORDER BY j.job LIMIT ?",
            (*where.values, limit),
        )
        return [job for (job,) in rows]

    def explain(self, search: Search, *, jobs: bool = False) -> str:
        """Return how SQLite runs a question, for tests: which index it takes."""
        plans: list[str] = []
        self._connection.set_trace_callback(plans.append)
        try:
            if jobs:
                self.find_jobs(search, 0, 1)
            else:
                self.usage(search, START, 1)
                self.sums(search)
        finally:
            self._connection.set_trace_callback(None)
        lines = [
            str(row[3])
            for statement in plans
            for row in self._connection.execute(f"EXPLAIN QUERY PLAN {statement}")
        ]
        return "\n".join(lines)

    def _from(self, table: str, search: Search, bound: Micros = 0) -> tuple[str, _Where]:
        """Return the source of rows and the condition on them."""
        at = _COLUMNS[table][0]
        where = _Where()
        low, high = search.ended
        if table == "attempts":
            where.add(f"t.outcome IN ({_marks(search.outcomes)})", *map(int, search.outcomes))
            if Outcome.NONE in search.outcomes and not search.never_ran:
                where.add("(t.outcome OR t.started_at_us)")
        is_named = bool(search.name) and "*" not in search.name
        if search.jobs:
            where.add("t.job IN (SELECT value FROM json_each(?))", _json(search.jobs))
        elif is_named:
            where.add("t.job IN (SELECT job FROM jobs WHERE name = ?)", search.name)
        source = f"{table} t{_index(table, search, is_named=is_named)}"
        if search.user:
            where.add("t.user = ?", search.user)
        if search.queue:
            where.add("t.queue = ?", search.queue)
        where.add(f"{at} BETWEEN ? AND ?", max(low, bound), high)
        if search.submitted != FOREVER:
            where.add("t.submit_at_us BETWEEN ? AND ?", *search.submitted)
        if table == "attempts" and search.dispatched != FOREVER:
            where.add("t.placed_at_us BETWEEN ? AND ?", *search.dispatched)
        if table == "attempts" and search.host:
            self._add_host(where, search.host)
        has_words = search.project or search.sees or search.group
        if has_words or (search.name and not is_named):
            source += " CROSS JOIN jobs j ON j.job = t.job"
            self._add_job_words(where, search)
        return source, where

    def _add_job_words(self, where: _Where, search: Search) -> None:
        if search.name:
            pattern = search.name.replace("[", "[[]").replace("?", "[?]")
            where.add("j.name GLOB ?" if "*" in pattern else "j.name = ?",
                      pattern if "*" in pattern else search.name)  # fmt: skip
        if search.project:
            where.add("j.project = ?", search.project)
        if search.group:
            where.add("j.cls IN (SELECT value FROM json_each(?))", self._classes_of(search.group))
        if search.sees is not None:
            # One question at a time: it holds for this one.
            self._connection.create_function("is_seen", 3, search.sees)
            where.add("is_seen(j.user, j.queue, j.project)")

    def _classes_of(self, group: str) -> str:
        """Return the classes of jobs in a job group, as JSON."""
        rows = self._rows("SELECT cls, key FROM classes", ())
        found = [cls for cls, key in rows if _KEY.decode(key).group == group]
        return msgspec.json.encode(found).decode()

    def _add_host(self, where: _Where, name: str) -> None:
        rows = self._rows("SELECT number FROM hosts WHERE name = ?", (name,))
        numbers = [number for (number,) in rows]
        number = numbers[0] if numbers else -2
        where.add(
            "(t.host = ? OR EXISTS (SELECT 1 FROM placements p WHERE p.job = t.job AND "
            "p.idx = t.idx AND p.attempt = t.attempt AND holds_host(p.hosts, ?)))",
            number,
            number,
        )

    def _job_range(self, submitted: Span) -> tuple[JobId, JobId]:
        """Return the ids of the jobs that were submitted in a span: ids rise with time."""
        low = self._first_job(lambda at_us: at_us >= submitted[0])
        return low, self._first_job(lambda at_us: at_us > submitted[1]) - 1

    def _first_job(self, is_behind: Callable[[Micros], bool]) -> JobId:
        ((last,),) = self._rows("SELECT max(job) FROM jobs", ())
        low, high = 1, (last or 0) + 1
        while low < high:
            middle = (low + high) // 2
            rows = self._rows(
                "SELECT job, submit_at_us FROM jobs WHERE job >= ? ORDER BY job LIMIT 1", (middle,)
            )
            if not rows or is_behind(rows[0][1]):
                high = middle
            else:
                low = int(rows[0][0]) + 1
        return low

    def _rows(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise HistoryError(f"the history store: {error}") from error


_COLUMNS: Final = {
    "attempts": ("t.ended_at_us", "t.idx", "t.attempt"),
    "withdrawn": ("t.at_us", "t.first", "-1"),
}
_TURN: Final = "(t.ended_at_us - t.submit_at_us) / 1e6"
_RUN: Final = "(t.ended_at_us - t.started_at_us) / 1e6"
_HAS_RUN: Final = "t.started_at_us > 0 AND t.ended_at_us > t.started_at_us"
_WAIT: Final = (
    "(CASE WHEN t.started_at_us > 0 THEN t.started_at_us ELSE t.ended_at_us END - t.submit_at_us)"
    " / 1e6"
)
_HOG: Final = f"CASE WHEN {_TURN} > 0 THEN t.cpu_us / 1e6 / ({_TURN}) ELSE 0.0 END"
_EXPANSION: Final = f"CASE WHEN {_HAS_RUN} THEN {_TURN} / ({_RUN}) END"
_RAN: Final = f"CASE WHEN {_HAS_RUN} THEN {_RUN} END"
_GONE: Final = "(t.at_us - t.submit_at_us) / 1e6"


def _three(text: str) -> str:
    return f"total({text}), max({text}), min({text})"


_SUMS: Final = {
    "attempts": (
        f"count(*), count(CASE WHEN t.outcome = {int(Outcome.DONE)} THEN 1 END), "
        f"count({_RAN}), min(t.ended_at_us) / 1e6, max(t.ended_at_us) / 1e6, "
        + ", ".join(map(_three, ("t.cpu_us / 1e6", _WAIT, _TURN, _HOG, _EXPANSION, _RAN)))
    ),
    "withdrawn": (
        "total(t.size), 0, 0, min(t.at_us) / 1e6, max(t.at_us) / 1e6, 0.0, 0.0, 0.0, "
        f"total({_GONE} * t.size), max({_GONE}), min({_GONE}), "
        f"total({_GONE} * t.size), max({_GONE}), min({_GONE}), "
        "0.0, 0.0, 0.0, NULL, NULL, NULL, NULL, NULL, NULL"
    ),
}
"""Count, done, ran, first and last end, then sum, maximum and minimum of each quantity."""
_QUANTITIES: Final = ("cpu_s", "wait_s", "turnaround_s", "hog", "expansion", "run_s")


def _joined(parts: list[list[Any]]) -> Sums:
    """Return the sums of attempts and of withdrawn elements together."""
    count, done, ran = (int(sum(part[place] or 0 for part in parts)) for place in range(3))
    values: dict[str, float] = {}
    for number, name in enumerate(_QUANTITIES):
        place = 5 + 3 * number
        triples = [part[place : place + 3] for part in parts if part[place + 1] is not None]
        values[name] = sum(item[0] or 0.0 for item in triples)
        values[f"{name}_max"] = max((item[1] for item in triples), default=0.0)
        values[f"{name}_min"] = min((item[2] for item in triples), default=0.0)
    return Sums(
        done=done,
        exited=count - done,
        ran=ran,
        first_end_at=min(part[3] for part in parts),
        last_end_at=max(part[4] for part in parts),
        **values,
    )


def _cursor(row: UsageRow) -> Cursor:
    return row.cursor


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _json(values: Sequence[int]) -> str:
    return f"[{','.join(map(str, values))}]"


def _holds_host(hosts: bytes | None, number: int) -> bool:
    return hosts is not None and number in _NUMBERS.decode(hosts)
