"""Reading the history store: what became of jobs that have left the state."""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from xce.journal.history import HistoryError, check_history_schema
from xce.journal.past import PastElement, PastJob, PastWithdrawal
from xce.model.ids import Index, JobId, Micros
from xce.model.job import ArraySpec, JobSpec, Outcome, Owner
from xce.model.request import ClassKey
from xce.state.job import Ended

_SPEC: Final = msgspec.msgpack.Decoder(JobSpec)
_KEY: Final = msgspec.msgpack.Decoder(ClassKey)
_ARRAY: Final = msgspec.msgpack.Decoder(ArraySpec)
_NUMBERS: Final = msgspec.msgpack.Decoder(list[int])
_JOB: Final = """SELECT user, uid, gid, spec, key, resreq, submit_at_us, size, array, done, exited
FROM jobs JOIN specs USING (spec_id) JOIN classes USING (cls) WHERE job = ?"""
_ELEMENTS: Final = """SELECT e.idx, outcome, exit_code, signal, cause, attempt, host,
started_at_us, ended_at_us, cpu_us, max_mem_kib, detail, p.hosts, p.tasks
FROM elements e LEFT JOIN details d ON d.job = e.job AND d.idx = e.idx
LEFT JOIN placements p ON p.job = e.job AND p.idx = e.idx
WHERE e.job = ? AND e.idx BETWEEN ? AND ?"""
_EVERYTHING: Final = ((0, (1 << 62)),)

IndexRuns = Sequence[tuple[Index, Index]]


class HistoryReader:
    """Answers about past jobs; opens the file when it is first asked and it exists.

    Args:
        path: The database that `HistoryWriter` writes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._hosts: dict[int, str] = {}

    def job(
        self, job: JobId, runs: IndexRuns = _EVERYTHING, *, with_elements: bool = True
    ) -> PastJob | None:
        """Return what is known of a job, or None when there never was one or it is too new.

        Args:
            job: The job.
            runs: Only elements whose index is in one of these runs.
            with_elements: Whether elements are wanted at all.

        Raises:
            HistoryError: The store cannot be read.
        """
        with self._reading() as connection:
            if connection is None:
                return None
            row = connection.execute(_JOB, (job,)).fetchone()
            if row is None:
                return None
            user, uid, gid, spec, key, resreq, submit_at_us, size, array, done, exited = row
            past = PastJob(
                job=job,
                owner=Owner(user, uid, gid),
                spec=_SPEC.decode(spec),
                key=_KEY.decode(key),
                resreq=resreq,
                submit_at_us=submit_at_us,
                size=size,
                array=None if array is None else _ARRAY.decode(array),
                done=done,
                exited=exited,
            )
            gone = self._withdrawn(connection, past)
            return msgspec.structs.replace(
                past,
                exited=exited + sum(_count(past.array, item) for item in gone),
                elements=self._elements(connection, past, runs) if with_elements else (),
                withdrawn=_within(past.array, gone, runs) if with_elements else (),
            )

    def outcomes(self, jobs: Iterable[JobId]) -> list[tuple[JobId, int, int]]:
        """Return ``(job, outcome, exit code)`` of those of ``jobs`` that are over.

        An array's exit code is the largest of its elements'. The outcome of an array of which some
        elements are done and some have exited is NONE.
        """
        found = []
        for job in jobs:
            past = self.job(job, with_elements=False)
            if past is not None and past.is_finished:
                is_mixed = past.done > 0 and past.exited > 0
                outcome = Outcome.NONE if is_mixed else past.outcome
                found.append((job, int(outcome), self._exit_code(job)))
        return found

    def element_outcomes(
        self, elements: Iterable[tuple[JobId, Index]]
    ) -> list[tuple[JobId, Index, int, int]]:
        """Return ``(job, index, outcome, exit code)`` of those of ``elements`` that are over."""
        found = []
        for job, index in elements:
            past = self.job(job, ((index, index),))
            if past is None or past.array is None:
                continue
            for element in past.elements:
                ended = element.ended
                found.append((job, index, int(ended.outcome), ended.exit_code))
            if not past.elements and past.withdrawn:
                found.append((job, index, int(Outcome.EXIT), 0))
        return found

    def specs(self) -> Iterator[JobSpec]:
        """Yield what every job that there ever was runs, identical ones once.

        Raises:
            HistoryError: The store cannot be read, or there is none.
        """
        with self._reading() as connection:
            if connection is None:
                raise HistoryError(f"{self._path}: there is no history store")
            for (content,) in connection.execute("SELECT spec FROM specs"):
                yield _SPEC.decode(content)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exit_code(self, job: JobId) -> int:
        with self._reading() as connection:
            assert connection is not None
            (code,) = connection.execute(
                "SELECT max(exit_code) FROM elements WHERE job = ? AND outcome = ?",
                (job, int(Outcome.EXIT)),
            ).fetchone()
        return int(code or 0)

    @contextlib.contextmanager
    def _reading(self) -> Any:  # noqa: ANN401 - a context manager of a connection or None
        try:
            if self._connection is None and self._path.exists():
                connection = sqlite3.connect(
                    f"{self._path.absolute().as_uri()}?mode=ro",
                    uri=True,
                    isolation_level=None,
                    check_same_thread=False,
                    timeout=5.0,
                )
                try:
                    (tables,) = connection.execute(
                        "SELECT count(*) FROM sqlite_master WHERE name = 'schema'"
                    ).fetchone()
                    if not tables:  # It is being made just now.
                        connection.close()
                        yield None
                        return
                    check_history_schema(connection, self._path)
                except BaseException:
                    connection.close()
                    raise
                self._connection = connection
            yield self._connection
        except sqlite3.Error as error:
            raise HistoryError(f"{self._path}: {error}") from error

    def _withdrawn(self, connection: sqlite3.Connection, past: PastJob) -> list[PastWithdrawal]:
        rows = connection.execute(
            "SELECT first, last, cause, by, at_us FROM withdrawn WHERE job = ? ORDER BY first",
            (past.job,),
        )
        return [PastWithdrawal(*row) for row in rows]

    def _elements(
        self, connection: sqlite3.Connection, past: PastJob, runs: IndexRuns
    ) -> tuple[PastElement, ...]:
        decided = connection.execute(
            "SELECT first, last, cause, by FROM decisions WHERE job = ? ORDER BY number DESC",
            (past.job,),
        ).fetchall()
        again = _requeues(connection, past.job)
        request = past.key.request
        slots = request.tasks_max if request.is_serial else 1
        found = []
        for first, last in runs:
            for row in connection.execute(_ELEMENTS, (past.job, first, last)):
                index, *columns, detail, hosts, tasks = row
                ended = Ended(*columns)
                places: list[tuple[str, int]] = []
                if hosts is not None:
                    numbers, counts = _NUMBERS.decode(hosts), _NUMBERS.decode(tasks)
                    places = [
                        (self._host(connection, n), c) for n, c in zip(numbers, counts, strict=True)
                    ]
                elif ended.host >= 0:
                    places = [(self._host(connection, ended.host), slots)]
                by = next(
                    (
                        who
                        for low, high, cause, who in decided
                        if low <= index <= high and cause == ended.cause
                    ),
                    "",
                )
                found.append(
                    PastElement(index, ended, tuple(places), by, detail or "", again.get(index))
                )
        return tuple(found)

    def _host(self, connection: sqlite3.Connection, number: int) -> str:
        name = self._hosts.get(number)
        if name is None:
            row = connection.execute("SELECT name FROM hosts WHERE number = ?", (number,))
            found = row.fetchone()
            name = self._hosts[number] = found[0] if found else f"host-{number}"
        return name


def _requeues(connection: sqlite3.Connection, job: JobId) -> dict[Index, tuple[int, Micros, str]]:
    """Return why elements of a job were requeued, by index."""
    try:
        rows = connection.execute(
            "SELECT idx, cause, at_us, detail FROM requeues WHERE job = ?", (job,)
        ).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return {}  # a store of the first release that nobody has written to since
    return {index: (cause, at_us, detail) for index, cause, at_us, detail in rows}


def _count(array: ArraySpec | None, gone: PastWithdrawal) -> int:
    if array is None:
        return 1
    return array.position_from(gone.last + 1) - array.position_from(gone.first)


def _within(
    array: ArraySpec | None, gone: Sequence[PastWithdrawal], runs: IndexRuns
) -> tuple[PastWithdrawal, ...]:
    """Return the parts of withdrawn runs that lie in ``runs``."""
    if array is None or tuple(runs) == _EVERYTHING:
        return tuple(gone)
    return tuple(
        PastWithdrawal(
            max(item.first, first), min(item.last, last), item.cause, item.by, item.at_us
        )
        for first, last in runs
        for item in gone
        if item.first <= last and first <= item.last
    )
