"""Questions to the history store about many jobs: pages of attempts and jobs, and their sums.

Each question runs along one index and names it, so that nothing is scanned that the question does
not ask for: by job, by user and end, by queue and end, by end, by user, queue or name.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from xce.journal.history_store import HistoryStore
from xce.model.ids import Index, JobId, Micros
from xce.model.job import Outcome
from xce.model.request import ClassKey
from xce.state.rights import Sight

FOREVER: Final = (0, 1 << 62)
_KEY: Final = msgspec.msgpack.Decoder(ClassKey)
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
    sees: Sight | None = None
    """Only jobs that may be seen; None: all."""


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
    """Return along which index rows are found; empty: that of the key."""
    if search.jobs or is_named:
        return ""
    if search.user:
        return f"{table}_by_user"
    return f"{table}_by_queue" if search.queue else f"{table}_by_end"


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
        return " AND ".join(self.texts) or "1 = 1"


class HistorySearch:
    """Asks a history store.

    Args:
        store: Open for reading.
    """

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self._dialect = store.dialect
        self._asked: list[tuple[str, Sequence[object]]] | None = None
        """Where it is kept what was asked."""

    def _along(self, index: str) -> str:
        return self._dialect.along.format(index) if index else ""

    def _add_among(self, where: _Where, column: str, numbers: Sequence[int]) -> None:
        where.add(self._dialect.among.format(column), self._dialect.numbers(numbers))

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
            self._add_among(where, "j.job", search.jobs)
        elif search.name and "*" not in search.name:
            index = "jobs_by_name"
        elif search.user:
            index = "jobs_by_user"
        elif search.queue:
            index = "jobs_by_queue"
        if search.user:
            where.add('j."user" = ?', search.user)
        if search.queue:
            where.add("j.queue = ?", search.queue)
        self._add_job_words(where, search)
        if search.submitted != FOREVER:
            low, high = self._job_range(search.submitted)
            where.add("j.job BETWEEN ? AND ?", low, high)
        source = f"jobs j{self._along(index)}"
        rows = self._rows(
            f"SELECT j.job FROM {source} WHERE {where.text} ORDER BY j.job LIMIT ?",
            (*where.values, limit),
        )
        return [job for (job,) in rows]

    def explain(self, search: Search, *, jobs: bool = False) -> str:
        """Return how the database runs a question, for tests: which index it takes."""
        asked = self._asked = []
        if jobs:
            self.find_jobs(search, 0, 1)
        else:
            self.usage(search, START, 1)
            self.sums(search)
        self._asked, word = None, self._dialect.text_of
        rows = [self._rows(f"{word} {text}", values) for text, values in asked]
        return "\n".join(str(row[-1]) for found in rows for row in found)

    def _from(self, table: str, search: Search, bound: Micros = 0) -> tuple[str, _Where]:
        """Return the source of rows and the condition on them."""
        at = _COLUMNS[table][0]
        where = _Where()
        low, high = search.ended
        if table == "attempts":
            where.add(f"t.outcome IN ({_marks(search.outcomes)})", *map(int, search.outcomes))
            if Outcome.NONE in search.outcomes and not search.never_ran:
                where.add("(t.outcome != 0 OR t.started_at_us != 0)")
        is_named = bool(search.name) and "*" not in search.name
        if search.jobs:
            self._add_among(where, "t.job", search.jobs)
        elif is_named:
            where.add("t.job IN (SELECT job FROM jobs WHERE name = ?)", search.name)
        source = f"{table} t{self._along(_index(table, search, is_named=is_named))}"
        if search.user:
            where.add('t."user" = ?', search.user)
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
            source += f" {self._dialect.inwards} jobs j ON j.job = t.job"
            self._add_job_words(where, search)
        return source, where

    def _add_job_words(self, where: _Where, search: Search) -> None:
        if "*" in search.name:
            where.add(self._dialect.like.format("j.name"), self._dialect.pattern(search.name))
        elif search.name:
            where.add("j.name = ?", search.name)
        if search.project:
            where.add("j.project = ?", search.project)
        if search.group:
            self._add_among(where, "j.cls", self._classes_of(search.group))
        if search.sees is not None:
            _add_sight(where, search.sees)

    def _classes_of(self, group: str) -> list[int]:
        """Return the classes of jobs in a job group."""
        rows = self._rows("SELECT cls, key FROM classes", ())
        return [cls for cls, key in rows if _KEY.decode(key).group == group]

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
        if self._asked is not None:
            self._asked.append((statement, values))
        return self._store.rows(statement, values)


def _add_sight(where: _Where, sight: Sight) -> None:
    """Let through only jobs that may be seen: the asker's own, and those that a scope covers."""
    texts: list[str] = ['j."user" = ?']
    values: list[object] = [sight.user]
    for queue, project in sight.scopes:
        parts = []
        if queue:
            parts.append("j.queue = ?")
            values.append(queue)
        if project:
            # As `xce.state.rights.is_under` decides.
            trunk = project.rstrip("/")
            parts.append(
                "(j.project != '' AND (j.project IN (?, ?) OR substr(j.project, 1, ?) = ?))"
            )
            values += [project, trunk, len(trunk) + 1, f"{trunk}/"]
        texts.append(f"({' AND '.join(parts)})" if parts else "1 = 1")
    where.add(f"({' OR '.join(texts)})", *values)


_COLUMNS: Final = {
    "attempts": ("t.ended_at_us", "t.idx", "t.attempt"),
    "withdrawn": ("t.at_us", "t.first", "CAST(-1 AS BIGINT)"),
}
_SECOND: Final = "CAST(1000000 AS DOUBLE PRECISION)"
_ZERO: Final = "CAST(0 AS DOUBLE PRECISION)"
_TURN: Final = f"(t.ended_at_us - t.submit_at_us) / {_SECOND}"
_RUN: Final = f"(t.ended_at_us - t.started_at_us) / {_SECOND}"
_HAS_RUN: Final = "t.started_at_us > 0 AND t.ended_at_us > t.started_at_us"
_WAIT: Final = (
    "(CASE WHEN t.started_at_us > 0 THEN t.started_at_us ELSE t.ended_at_us END - t.submit_at_us)"
    f" / {_SECOND}"
)
_CPU: Final = f"t.cpu_us / {_SECOND}"
_HOG: Final = f"CASE WHEN {_TURN} > 0 THEN {_CPU} / ({_TURN}) ELSE {_ZERO} END"
_EXPANSION: Final = f"CASE WHEN {_HAS_RUN} THEN {_TURN} / ({_RUN}) END"
_RAN: Final = f"CASE WHEN {_HAS_RUN} THEN {_RUN} END"
_GONE: Final = f"(t.at_us - t.submit_at_us) / {_SECOND}"


def _three(text: str, total: str = "") -> str:
    return f"coalesce(sum({total or text}), 0), max({text}), min({text})"


_ALL_GONE: Final = _three(_GONE, f"{_GONE} * t.size")
_SUMS: Final = {
    "attempts": (
        f"count(*), count(CASE WHEN t.outcome = {int(Outcome.DONE)} THEN 1 END), "
        f"count({_RAN}), min(t.ended_at_us) / {_SECOND}, max(t.ended_at_us) / {_SECOND}, "
        + ", ".join(map(_three, (_CPU, _WAIT, _TURN, _HOG, _EXPANSION, _RAN)))
    ),
    "withdrawn": (
        f"coalesce(sum(t.size), 0), 0, 0, min(t.at_us) / {_SECOND}, max(t.at_us) / {_SECOND}, "
        f"{_ZERO}, {_ZERO}, {_ZERO}, {_ALL_GONE}, {_ALL_GONE}, {_ZERO}, {_ZERO}, {_ZERO}, "
        "NULL, NULL, NULL, NULL, NULL, NULL"
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
