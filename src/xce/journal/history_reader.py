"""Reading the history store: what became of jobs that have left the state."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from xce.journal.history_jobs import timed_from
from xce.journal.history_live import APART
from xce.journal.history_place import HistoryPlace, open_for_reading, place_text
from xce.journal.history_schema import Happening
from xce.journal.history_search import HistorySearch
from xce.journal.history_store import HistoryError, HistoryStore, Row
from xce.journal.past import (
    PastAttempt,
    PastElement,
    PastEvent,
    PastForm,
    PastJob,
    PastWithdrawal,
)
from xce.model.ids import Index, JobId, Micros, Seq
from xce.model.job import ArraySpec, JobSpec, Outcome, Owner
from xce.model.request import ClassKey
from xce.state.ineligible import Spans
from xce.state.job import Ended

_SPEC: Final = msgspec.msgpack.Decoder(JobSpec)
_KEY: Final = msgspec.msgpack.Decoder(ClassKey)
_ARRAY: Final = msgspec.msgpack.Decoder(ArraySpec)
_NUMBERS: Final = msgspec.msgpack.Decoder(list[int])


class _Question(NamedTuple):
    """What is asked about a job, or about many jobs at once."""

    columns: str
    source: str
    key: str
    within: str = ""
    """Holds of elements in a run of indices."""
    order: str = ""

    def of_one(self) -> str:
        """Return the statement whose values are a job and a run of indices."""
        where = f"{self.key} = ?{self.within}{self.order}"
        return f"SELECT {self.columns} FROM {self.source} WHERE {where}"

    def of_many(self, among: str) -> str:
        """Return the statement about all elements of many jobs, which gives the job first."""
        where = f"{among.format(self.key)}{self.order}"
        return f"SELECT {self.key}, {self.columns} FROM {self.source} WHERE {where}"


_JOB: Final = _Question(
    """"user", uid, gid, spec, key, resreq, submit_at_us, size, "array", done, exited, hold""",
    "jobs JOIN specs USING (spec_id) JOIN classes USING (cls)",
    "job",
)
_APART: Final = "SELECT runs FROM apart WHERE job = ?"
_FORM: Final = """SELECT spec, key, resreq FROM specs, classes WHERE spec_id = ? AND cls = ?"""
_ELEMENTS: Final = """SELECT e.idx, outcome, exit_code, signal, cause, e.attempt, host,
started_at_us, ended_at_us, cpu_us, max_mem_kib, detail, p.hosts, p.tasks
FROM attempts e LEFT JOIN details d ON d.job = e.job AND d.idx = e.idx
LEFT JOIN placements p ON p.job = e.job AND p.idx = e.idx AND p.attempt = e.attempt
WHERE e.job = ? AND e.idx BETWEEN ? AND ? AND outcome != 0 AND is_reopened = 0
ORDER BY e.idx"""
_ATTEMPTS: Final = _Question(
    """e.idx, placed_at_us, outcome, exit_code, signal, cause, attempt, host, started_at_us,
    ended_at_us, cpu_us, max_mem_kib, p.hosts, p.tasks, is_reopened""",
    "attempts e LEFT JOIN placements p USING (job, idx, attempt)",
    "e.job",
    " AND e.idx BETWEEN ? AND ?",
)
_LIVE: Final = _Question(
    "e.idx, attempt, host, placed_at_us, started_at_us, pid, p.hosts, p.tasks",
    "live e LEFT JOIN placements p USING (job, idx, attempt)",
    "e.job",
    " AND e.idx BETWEEN ? AND ?",
)
_EVENTS: Final = _Question(
    "first, last, at_us, kind, amount, by, text",
    "events",
    "job",
    " AND last >= ? AND first <= ?",
    f" AND kind != {int(Happening.INELIGIBLE)} ORDER BY number",
)
_WITHDRAWN: Final = _Question(
    "first, last, cause, by, at_us", "withdrawn", "job", order=" ORDER BY first"
)
_COURSE: Final = (_JOB, _ATTEMPTS, _LIVE, _EVENTS, _WITHDRAWN)
_ARE_ALONE: Final = 'SELECT job FROM jobs WHERE {} AND "array" IS NULL'
_SPANS: Final = """SELECT first, last, amount FROM events
WHERE job = ? AND kind = ?"""
_SPECS: Final = "SELECT spec_id, spec FROM specs WHERE spec_id > ? ORDER BY spec_id LIMIT ?"
_SPECS_AT_ONCE: Final = 5_000
_EVERYTHING: Final = ((0, (1 << 62)),)

IndexRuns = Sequence[tuple[Index, Index]]


class HistoryReader:
    """Answers about past jobs; opens the store when it is first asked and there is one.

    Args:
        place: The database that `HistoryWriter` writes.
        is_patient: Whether questions may take long.
    """

    def __init__(self, place: HistoryPlace, *, is_patient: bool = False) -> None:
        self._place = place
        self._is_patient = is_patient
        self._store: HistoryStore | None = None
        self._hosts: dict[int, str] = {}
        self._ahead: dict[_Question, dict[JobId, list[Row]]] = {}
        """What was read ahead."""

    def another(self) -> "HistoryReader":
        """Return one more reader of the same store, for questions that may take long."""
        return HistoryReader(self._place, is_patient=True)

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
        store = self._reading()
        rows = self._ask(store, _JOB, job) if store is not None else []
        if store is None or not rows:
            return None
        user, uid, gid, spec, key, resreq, submit_at_us, size, array, done, exited, hold = rows[0]
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
            hold=bool(hold),
        )
        gone = self._withdrawn(store, job)
        return msgspec.structs.replace(
            past,
            exited=exited + sum(_count(past.array, item) for item in gone),
            elements=self._elements(store, past, runs) if with_elements else (),
            withdrawn=_within(past.array, gone, runs) if with_elements else (),
            apart=tuple(_apart(store, job)) if past.array is not None else (),
            ineligible=_ineligible(store, job) if with_elements else None,
        )

    @contextlib.contextmanager
    def ahead(self, jobs: Sequence[JobId] = ()) -> Iterator[None]:
        """Let courses be told inside of what was read by `look_ahead`, of ``jobs`` to begin with.

        Raises:
            HistoryError: The store cannot be read.
        """
        try:
            self.look_ahead(jobs)
            yield
        finally:
            self._ahead = {}

    def look_ahead(self, jobs: Sequence[JobId]) -> None:
        """Read what courses of ``jobs`` tell, of all of them at once, where the store may be far
        away: one by one each would cost some questions.

        Raises:
            HistoryError: The store cannot be read.
        """
        self._ahead = {}
        store = self._reading()
        if store is None or not store.dialect.is_far or not jobs:
            return
        among, numbers = store.dialect.among, store.dialect.numbers
        # Arrays may have any number of elements, of which few are wanted.
        alone = store.rows(_ARE_ALONE.format(among.format("job")), (numbers(jobs),))
        wanted = [job for (job,) in alone]
        for question in _COURSE:
            found: dict[JobId, list[Row]] = {job: [] for job in wanted}
            for job, *row in store.rows(question.of_many(among), (numbers(wanted),)):
                found[job].append(tuple(row))
            self._ahead[question] = found

    def _ask(self, store: HistoryStore, question: _Question, job: JobId, *run: Index) -> list[Row]:
        """Return what a question gives of a job, or of its elements in a run of indices."""
        found = self._ahead.get(question, {}).get(job)
        if found is None:
            return store.rows(question.of_one(), (job, *run))
        return found if not run or run[0] <= 0 <= run[1] else []

    def course(self, job: JobId, runs: IndexRuns = _EVERYTHING) -> PastJob | None:
        """Return a job with all attempts and events of elements whose index is in ``runs``.

        Raises:
            HistoryError: The store cannot be read.
        """
        past = self.job(job, runs, with_elements=False)
        store = self._reading()
        if past is None or store is None:
            return None
        return msgspec.structs.replace(
            past,
            attempts=self._attempts(store, past, runs),
            withdrawn=_within(past.array, self._withdrawn(store, job), runs),
            events=tuple(
                self._event(store, PastEvent(*row))
                for first, last in runs
                for row in self._ask(store, _EVENTS, job, first, last)
            ),
        )

    def _event(self, store: HistoryStore, event: PastEvent) -> PastEvent:
        """Return an event with the name of the host that it is about, where it is about one."""
        if event.kind != Happening.HOST_LEFT_OUT:
            return event
        return msgspec.structs.replace(event, text=self._host(store, event.amount))

    def _attempts(
        self, store: HistoryStore, past: PastJob, runs: IndexRuns
    ) -> tuple[PastAttempt, ...]:
        found = []
        for first, last in runs:
            for row in self._ask(store, _ATTEMPTS, past.job, first, last):
                index, placed, *columns, hosts, tasks, is_reopened = row
                ended = Ended(*columns)
                places = self._places(store, past, ended.host, hosts, tasks)
                found.append(
                    PastAttempt(index, ended, placed, places, is_reopened=bool(is_reopened))
                )
            for row in self._ask(store, _LIVE, past.job, first, last):
                index, attempt, host, placed, started, pid, hosts, tasks = row
                ended = Ended(attempt=attempt, host=host, started_at_us=started)
                places = self._places(store, past, host, hosts, tasks)
                found.append(PastAttempt(index, ended, placed, places, pid, is_live=True))
        found.sort(key=lambda item: (item.index, item.ended.attempt))
        return tuple(found)

    def _places(
        self,
        store: HistoryStore,
        past: PastJob,
        host: int,
        hosts: bytes | None,
        tasks: bytes | None,
    ) -> tuple[tuple[str, int], ...]:
        """Return the hosts of an attempt in rank order, each with its slots."""
        if hosts is not None and tasks is not None:
            numbers, counts = _NUMBERS.decode(hosts), _NUMBERS.decode(tasks)
            return tuple((self._host(store, n), c) for n, c in zip(numbers, counts, strict=True))
        if host < 0:
            return ()
        request = past.key.request
        return ((self._host(store, host), request.tasks_max if request.is_serial else 1),)

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

    def seq(self) -> Seq:
        """Return up to which entry the store has everything; 0 while there is none.

        Raises:
            HistoryError: The store cannot be read.
        """
        store = self._reading()
        return int(store.rows("SELECT seq FROM cursor")[0][0]) if store is not None else 0

    def search(self) -> HistorySearch | None:
        """Return what answers questions about many jobs; None while there is no store.

        Raises:
            HistoryError: The store cannot be read.
        """
        store = self._reading()
        return None if store is None else HistorySearch(store)

    def specs(self) -> Iterator[JobSpec]:
        """Yield what every job that there ever was runs, identical ones once.

        Raises:
            HistoryError: The store cannot be read, or there is none.
        """
        store = self._reading()
        if store is None:
            raise HistoryError(f"{place_text(self._place)}: there is no history store")
        last = -1
        while rows := store.rows(_SPECS, (last, _SPECS_AT_ONCE)):
            yield from (_SPEC.decode(content) for _, content in rows)
            last = rows[-1][0]

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _exit_code(self, job: JobId) -> int:
        store = self._reading()
        assert store is not None
        ((code,),) = store.rows(
            "SELECT max(exit_code) FROM attempts WHERE job = ? AND outcome = ? AND is_reopened = 0",
            (job, int(Outcome.EXIT)),
        )
        return int(code or 0)

    def _reading(self) -> HistoryStore | None:
        """Return the store, opened; None while there is none."""
        if self._store is None:
            self._store = open_for_reading(self._place, is_patient=self._is_patient)
        return self._store

    def _elements(
        self, store: HistoryStore, past: PastJob, runs: IndexRuns
    ) -> tuple[PastElement, ...]:
        decided = store.rows(
            "SELECT first, last, amount, by FROM events WHERE job = ? AND kind = ? "
            "ORDER BY number DESC",
            (past.job, int(Happening.END_DECIDED)),
        )
        again = _requeues(store, past.job)
        found: list[PastElement] = []
        for first, last in runs:
            for row in store.rows(_ELEMENTS, (past.job, first, last)):
                index, *columns, detail, hosts, tasks = row
                ended = Ended(*columns)
                places = self._places(store, past, ended.host, hosts, tasks)
                by = next(
                    (
                        who
                        for low, high, cause, who in decided
                        if low <= index <= high and cause == ended.cause
                    ),
                    "",
                )
                found.append(PastElement(index, ended, places, by, detail or "", again.get(index)))
        return tuple(found)

    def _withdrawn(self, store: HistoryStore, job: JobId) -> list[PastWithdrawal]:
        return [PastWithdrawal(*row) for row in self._ask(store, _WITHDRAWN, job)]

    def _host(self, store: HistoryStore, number: int) -> str:
        name = self._hosts.get(number)
        if name is None:
            found = store.rows("SELECT name FROM hosts WHERE number = ?", (number,))
            name = self._hosts[number] = found[0][0] if found else f"host-{number}"
        return name


def _apart(store: HistoryStore, job: JobId) -> Iterator[PastForm]:
    """Yield what elements of an array are that were changed apart from the rest."""
    if not store.has("apart"):
        return
    for (content,) in store.rows(_APART, (job,)):
        for one in APART.decode(content):
            ((spec, key, resreq),) = store.rows(_FORM, (one.spec_id, one.cls))
            yield PastForm(one.runs, _SPEC.decode(spec), _KEY.decode(key), resreq)


def _ineligible(store: HistoryStore, job: JobId) -> Spans | None:
    """Return for how long elements of a job were ineligible; None: nobody knows."""
    if not 0 < timed_from(store) <= job:
        return None
    return tuple(sorted(store.rows(_SPANS, (job, int(Happening.INELIGIBLE)))))


def _requeues(store: HistoryStore, job: JobId) -> dict[Index, tuple[int, Micros, str]]:
    """Return why elements of a job were requeued last, by index."""
    rows = store.rows(
        "SELECT first, amount, at_us, text FROM events WHERE job = ? AND kind IN (?, ?) "
        "ORDER BY number",
        (job, int(Happening.REQUEUED), int(Happening.REOPENED)),
    )
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
