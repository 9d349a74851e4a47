"""What the history writer remembers of attempts that are not over, and of the jobs they are of.

An attempt that is over before the next commit costs no row in ``live``; one that lasts is written
there, so that a writer that begins anew knows when it was placed and started.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from xce.journal.history_schema import Happening
from xce.journal.history_store import HistoryStore, Row
from xce.model.ids import NO_HOST, HostNumber, Index, JobId, Micros
from xce.model.job import ArraySpec
from xce.model.ranges import Ranges, contains, intersect, subtract, unite

_ARRAY: Final = msgspec.msgpack.Decoder(ArraySpec)
_JOBS_MAX: Final = 50_000
"""Most jobs that are remembered between commits."""
_NUMBERS_MAX: Final = 200_000
"""Most elements whose last attempt is remembered between commits."""
_JOBS_AT_ONCE: Final = 5_000
_PLACES_AT_ONCE: Final = 500
_FACTS: Final = """SELECT job, "user", queue, submit_at_us, "array", cls, spec_id, runs
FROM jobs LEFT JOIN apart USING (job) WHERE """
_PLACE: Final = "(CAST(? AS BIGINT), CAST(? AS BIGINT))"
Place = tuple[JobId, Index]


class LiveAttempt(msgspec.Struct, gc=False):
    """An attempt that is not over."""

    number: int
    host: HostNumber = NO_HOST
    placed_at_us: Micros = 0
    started_at_us: Micros = 0
    pid: int = 0


class Apart(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Elements of an array that were changed apart from the rest of it."""

    runs: Ranges
    """Of indices."""
    cls: int
    spec_id: int
    queue: str


class JobFacts(msgspec.Struct, frozen=True, gc=False):
    """What rows about attempts repeat of their job."""

    user: str
    queue: str
    submit_at_us: Micros
    array: ArraySpec | None
    form: tuple[int, int] = (0, 0)
    """Class and spec of the job itself."""
    apart: tuple[Apart, ...] = ()

    def queue_of(self, index: Index) -> str:
        """Return the queue of an element."""
        for one in self.apart:
            if contains(one.runs, index, index):
                return one.queue
        return self.queue

    def runs_in(self, first: Index, last: Index) -> Iterator[tuple[Index, Index, str]]:
        """Yield the elements in ``first..last`` as runs that are in one queue."""
        rest: Ranges = ((first, last),)
        for one in self.apart:
            mine = intersect(one.runs, rest)
            rest = subtract(rest, mine)
            yield from ((low, high, one.queue) for low, high in mine if self.size(low, high))
        yield from ((low, high, self.queue) for low, high in rest if self.size(low, high))

    def set_apart(self, new: Apart | None, base: tuple[int, int]) -> tuple[Apart, ...]:
        """Return what is apart when some elements are something else; those that are as their job
        (class and spec ``base``) are not.
        """
        found: list[Apart] = []
        for one in self.apart:
            left = one.runs if new is None else subtract(one.runs, new.runs)
            if new is not None and (one.cls, one.spec_id) == (new.cls, new.spec_id):
                new = msgspec.structs.replace(new, runs=unite(new.runs, left))
            elif left:
                found.append(msgspec.structs.replace(one, runs=left))
        found += [new] if new is not None else []
        return tuple(one for one in found if (one.cls, one.spec_id) != base)

    def indices(self, first: Index, last: Index) -> Iterator[Index]:
        """Yield the indices of the elements in ``first..last``."""
        if self.array is None:
            yield 0
            return
        low, high = self.array.position_from(first), self.array.position_from(last + 1)
        for position in range(low, high):
            yield self.array.index_of(position)

    def size(self, first: Index, last: Index) -> int:
        """Return how many elements are in ``first..last``."""
        if self.array is None:
            return 1
        return self.array.position_from(last + 1) - self.array.position_from(first)


APART: Final = msgspec.msgpack.Decoder(tuple[Apart, ...])
"""Reads what was set apart of a job."""
NOBODY: Final = JobFacts("", "", 0, None)
"""Of a job that the store does not have."""


class LiveAttempts:
    """Attempts that are not over, by element.

    Args:
        store: Where they are stored.
    """

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self._live: dict[Place, LiveAttempt] = {
            (job, index): LiveAttempt(*rest)
            for job, index, *rest in store.rows(
                "SELECT job, idx, attempt, host, placed_at_us, started_at_us, pid FROM live"
            )
        }
        self._stored: set[Place] = set(self._live)
        self._changed: set[Place] = set()
        self._numbers: dict[Place, int] = {}
        """Of the last attempt that is over, as far as remembered; 0: none is."""
        self._whole: set[JobId] = set()
        """Jobs of which all attempts that are over are in `_numbers`."""
        self._by_host: dict[HostNumber, set[Place]] = {}
        """Which attempts each host is the first one of."""
        for place, attempt in self._live.items():
            self._by_host.setdefault(attempt.host, set()).add(place)
        self._unknown = set(_read_unknown(store))
        """Those of hosts of which nothing is heard."""
        self._jobs: dict[JobId, JobFacts] = {}

    def note_job(self, job: JobId, facts: JobFacts, *, is_new: bool = False) -> None:
        """Remember a job; ``is_new``: none of its elements has had an attempt."""
        self._jobs[job] = facts
        if is_new:
            self._whole.add(job)

    def load_jobs(self, jobs: Iterable[JobId]) -> None:
        """Read at once what rows will repeat of jobs that are not remembered."""
        store, wanted = self._store, sorted(set(jobs) - self._jobs.keys())
        where = _FACTS + store.dialect.among.format("job")
        for first in range(0, len(wanted), _JOBS_AT_ONCE):
            some = store.dialect.numbers(wanted[first : first + _JOBS_AT_ONCE])
            for row in store.rows(where, (some,)):
                self._jobs[row[0]] = _facts(row)

    def load_numbers(self, places: Iterable[Place]) -> None:
        """Read at once how many attempts elements have had that are to have another one."""
        numbers = self._numbers
        wanted = [place for place in places if place[0] not in self._whole and place not in numbers]
        for first in range(0, len(wanted), _PLACES_AT_ONCE):
            some = wanted[first : first + _PLACES_AT_ONCE]
            numbers.update(dict.fromkeys(some, 0))
            rows = self._store.rows(
                "SELECT job, idx, max(attempt) FROM attempts WHERE (job, idx) IN "
                f"(VALUES {', '.join([_PLACE] * len(some))}) GROUP BY job, idx",
                [value for place in some for value in place],
            )
            numbers.update(((job, index), number) for job, index, number in rows)

    def runs_of(self, job: JobId, first: Index, last: Index) -> Iterator[Place]:
        """Yield the elements ``first..last`` of a job that is remembered."""
        facts = self._jobs.get(job)
        return ((job, index) for index in facts.indices(first, last)) if facts else iter(())

    def job(self, job: JobId) -> JobFacts:
        """Return what rows about attempts repeat of a job."""
        facts = self._jobs.get(job)
        if facts is None:
            self.load_jobs((job,))
            facts = self._jobs.get(job, NOBODY)
        return facts

    def place(self, place: Place, host: HostNumber, at_us: Micros, *, number: int = 0) -> int:
        """Note that an element was given a host; return the number of the attempt."""
        number = number or self._next_number(place)
        self._live[place] = LiveAttempt(number, host, at_us)
        self._by_host.setdefault(host, set()).add(place)
        self._changed.add(place)
        return number

    def _next_number(self, place: Place) -> int:
        self.load_numbers((place,))
        return self._numbers.get(place, 0) + 1

    def start(self, place: Place, pid: int, at_us: Micros) -> None:
        """Note that an attempt runs."""
        attempt = self._live.get(place)
        if attempt is not None:
            attempt.pid, attempt.started_at_us = pid, at_us
            self._changed.add(place)

    def end(self, place: Place, number: int = 0) -> LiveAttempt | None:
        """Note that an attempt is over; return it, if it was known."""
        attempt = self._live.pop(place, None)
        if attempt is not None:
            self._changed.add(place)
            self._unknown.discard(place)
            on_host = self._by_host[attempt.host]
            on_host.discard(place)
            if not on_host:
                del self._by_host[attempt.host]
            number = number or attempt.number
        if number:
            self._numbers[place] = number
        return attempt

    def lose_sight(self, host: HostNumber) -> list[Place]:
        """Note that nothing is heard of a host; return of which attempts that is news."""
        found = sorted(self._by_host.get(host, set()) - self._unknown)
        self._unknown.update(found)
        return found

    def see_again(self, host: HostNumber) -> list[Place]:
        """Note that a host is back; return which attempts were out of sight."""
        found = sorted(self._by_host.get(host, set()) & self._unknown)
        self._unknown.difference_update(found)
        return found

    def rows(self) -> tuple[list[Place], list[tuple[Any, ...]]]:
        """Return which rows of ``live`` go, and which come, at this commit."""
        gone, come = [], []
        for place in self._changed:
            attempt = self._live.get(place)
            if attempt is not None:
                come.append(
                    (
                        *place, attempt.number, attempt.host, attempt.placed_at_us,
                        attempt.started_at_us, attempt.pid,
                    )
                )  # fmt: skip
            elif place in self._stored:
                gone.append(place)
        return gone, come

    def note_stored(self) -> None:
        """Note that the commit succeeded."""
        for place in self._changed:
            if place in self._live:
                self._stored.add(place)
            else:
                self._stored.discard(place)
        self._changed.clear()
        if len(self._jobs) > _JOBS_MAX or len(self._numbers) > _NUMBERS_MAX:
            for known in (self._jobs, self._numbers, self._whole):
                known.clear()


def _facts(row: Row) -> JobFacts:
    _, user, queue, submit_at_us, array, cls, spec_id, runs = row
    decoded = None if array is None else _ARRAY.decode(array)
    apart = () if runs is None else APART.decode(runs)
    return JobFacts(user, queue, submit_at_us, decoded, (cls, spec_id), apart)


def _read_unknown(store: HistoryStore) -> Iterator[Place]:
    """Yield the attempts that were out of sight at the last commit."""
    rows = store.rows(
        "SELECT e.job, e.first, e.kind FROM live l "
        "JOIN events e ON e.job = l.job AND e.first = l.idx WHERE e.kind IN (?, ?) "
        "AND e.at_us >= l.placed_at_us ORDER BY e.number",
        (int(Happening.UNKNOWN), int(Happening.KNOWN)),
    )
    last = {(job, index): kind for job, index, kind in rows}
    yield from (place for place, kind in last.items() if kind == Happening.UNKNOWN)
