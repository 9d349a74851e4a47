"""What ``GET /history/jobs`` and ``GET /history/usage`` answer: rows read off the history store."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from xce.apiserver.exceptions import exceptions_of
from xce.apiserver.fields import RowWriter
from xce.apiserver.listing import JobRef, read_place
from xce.apiserver.past_rows import shared_halves
from xce.apiserver.rows import Element, at_s, ended_element_row, withdrawn_element
from xce.control.dependency import matches
from xce.journal.course import WORDS, Course, Step, tell_courses
from xce.journal.history_reader import HistoryReader
from xce.journal.history_schema import Happening
from xce.journal.history_search import START, Cursor, Search, UsageRow
from xce.journal.past import PastJob
from xce.model.config import QueueConfig
from xce.model.display import end_cause_keyword, end_cause_text
from xce.model.ids import SECOND_US, Index, JobId, Micros
from xce.model.job import EndCause, Outcome

_EVERYTHING: Final = ((0, 1 << 62),)
_ENCODER: Final = msgspec.json.Encoder()
JOBS_AT_ONCE: Final = 500
LOOKED_AT: Final = 5_000
"""Most jobs, and pieces of arrays, that are looked at for one page."""
PIECE: Final = 4_096
"""Elements of an array that are looked at at once."""
IndexRuns = tuple[tuple[Index, Index], ...]
_WITH_CAUSE: Final = frozenset(
    ("end-decided", "withdrawn", "requeued", "reopened", "done", "exited", "over")
)
_ALL: Final = frozenset(("pend", "psusp", "run", "ususp", "ssusp", "done", "exit"))
SCOPES: Final[dict[str, frozenset[str]]] = {
    "unfinished": _ALL - {"done", "exit"},
    "all": _ALL,
    "finished": frozenset(("done", "exit")),
    "exited": frozenset(("exit",)),
    "pend": frozenset(("pend", "psusp")),
    "run": frozenset(("run",)),
    "susp": frozenset(("psusp", "ususp", "ssusp")),
}
"""Which states each word of ``scope`` means."""


class StepRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a course."""

    at: float
    what: str
    by: str = ""
    hosts: tuple[tuple[str, int], ...] = ()
    attempt: int = 0
    pid: int = 0
    signal: int = 0
    cause: str = ""
    cause_text: str = ""
    text: str = ""
    exit_code: int | None = None
    """Of an attempt that is over, and has run."""
    cpu_s: float | None = None
    max_mem_mib: float | None = None
    """What that attempt used."""


class HistoryPage(msgspec.Struct, frozen=True):
    """One page of an answer."""

    rows: tuple[msgspec.Raw, ...]
    missing: tuple[str, ...] = ()
    next: str | None = None


class Wanted(msgspec.Struct, frozen=True):
    """Which courses are wanted."""

    search: Search
    states: frozenset[str]
    refs: tuple[JobRef, ...] = ()
    named: bool = False
    """Whether jobs were named: then only they are meant."""
    behind: tuple[JobId, Index] = (0, -1)
    limit: int = 1_000


def tell_page(
    reader: HistoryReader, wanted: Wanted, now_us: Micros, unfinished: tuple[JobId, ...]
) -> HistoryPage:
    """Return the courses of jobs, a page of them.

    Args:
        reader: The store.
        wanted: Which.
        now_us: The time now.
        unfinished: Where only unfinished jobs are wanted: which are.
    """
    with reader.ahead():
        return _told_page(reader, wanted, now_us, unfinished)


def _told_page(
    reader: HistoryReader, wanted: Wanted, now_us: Micros, unfinished: tuple[JobId, ...]
) -> HistoryPage:
    writer = RowWriter()
    rows: list[msgspec.Raw] = []
    missing: list[str] = []
    last = wanted.behind
    for number, (job, runs) in enumerate(_pieces(reader, wanted, unfinished)):
        if number == LOOKED_AT:
            # Others wait for their answers: the rest is for the next page.
            return HistoryPage(tuple(rows), tuple(missing), f"{last[0]}.{last[1]}")
        past = reader.course(job, runs)
        if past is None or not _is_seen(past, wanted.search):
            missing += [text for text, one, _ in wanted.refs if one == job]
        elif _is_wanted(past, wanted):
            shared = shared_halves(writer, past)
            for course in tell_courses(past, runs, now_us):
                if not _is_told(course, wanted):
                    continue
                if len(rows) >= wanted.limit:
                    return HistoryPage(tuple(rows), tuple(missing), f"{last[0]}.{last[1]}")
                rows.append(_render(past, course, writer, shared(course.index)))
                last = (job, course.index + (course.count - 1) * course.step)
        last = (job, runs[-1][1])
    return HistoryPage(tuple(rows), tuple(missing))


def _is_seen(past: PastJob, search: Search) -> bool:
    """Return whether who asks may know of a job."""
    sees = search.sees
    return sees is None or sees(past.owner.user, past.key.queue, past.key.project)


def _pieces(
    reader: HistoryReader, wanted: Wanted, unfinished: tuple[JobId, ...]
) -> Iterator[tuple[JobId, IndexRuns]]:
    """Yield what to look at behind the last page: jobs, and arrays piece by piece."""
    for job, runs in _jobs(reader, wanted, unfinished):
        floor = wanted.behind[1] if job == wanted.behind[0] else -1
        left = tuple((max(first, floor + 1), last) for first, last in runs if last > floor)
        if not left:
            continue
        past = reader.job(job, with_elements=False)
        is_told = past is not None and _is_seen(past, wanted.search)
        if past is None or past.array is None or past.size <= PIECE or not is_told:
            yield job, left
            continue
        array = past.array
        begin = array.position_from(left[0][0])
        for position in range(begin, past.size, PIECE):
            low = array.index_of(position)
            high = array.index_of(min(position + PIECE, past.size) - 1)
            inside = tuple(
                (max(first, low), min(last, high))
                for first, last in left
                if first <= high and last >= low
            )
            if inside:
                yield job, inside


def _jobs(
    reader: HistoryReader, wanted: Wanted, unfinished: tuple[JobId, ...]
) -> Iterator[tuple[JobId, IndexRuns]]:
    """Yield the jobs to look at, rising, each with runs of indices."""
    first = wanted.behind[0]
    if wanted.named:
        runs: dict[JobId, tuple[tuple[Index, Index], ...]] = {}
        for _, job, asked in wanted.refs:
            runs[job] = (*runs.get(job, ()), *(asked or _EVERYTHING))
        yield from ((job, _merged(runs[job])) for job in sorted(runs) if job >= first)
        return
    if not wanted.states & {"done", "exit"}:
        yield from ((job, _EVERYTHING) for job in sorted(unfinished) if job >= first)
        return
    search = reader.search()
    behind = first - 1
    while search is not None:
        jobs = search.find_jobs(wanted.search, behind, JOBS_AT_ONCE)
        reader.look_ahead(jobs)
        yield from ((job, _EVERYTHING) for job in jobs)
        if len(jobs) < JOBS_AT_ONCE:
            return
        behind = jobs[-1]


def _merged(runs: tuple[tuple[Index, Index], ...]) -> tuple[tuple[Index, Index], ...]:
    """Return runs of indices in order, none of which meets another."""
    found: list[tuple[Index, Index]] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def _is_wanted(past: PastJob, wanted: Wanted) -> bool:
    search = wanted.search
    if search.user and past.owner.user != search.user:
        return False
    if search.queue and past.key.queue != search.queue:
        return False
    if search.project and past.key.project != search.project:
        return False
    low, high = search.submitted
    return low <= past.submit_at_us <= high and (
        not search.name or matches(past.spec.name, search.name)
    )


def _is_told(course: Course, wanted: Wanted) -> bool:
    search, last = wanted.search, course.last
    if course.stat.lower() not in wanted.states:
        return False
    if search.host and (last is None or all(name != search.host for name, _ in last.hosts)):
        return False
    low, high = search.dispatched
    if low and (last is None or not low <= last.placed_at_us <= high):
        return False
    low, high = search.ended
    if not low and high >= 1 << 62:
        return True
    end_us = course.gone.at_us if course.gone is not None else 0
    if last is not None and not last.is_live and course.gone is None:
        end_us = last.ended.ended_at_us
    return bool(end_us) and low <= end_us <= high


def _render(past: PastJob, course: Course, writer: RowWriter, shared: bytes) -> msgspec.Raw:
    """Return a row: members of a job row, ``spans`` in seconds, and ``steps``."""
    element = _element(past, course)
    (row,) = writer.render([element], shared)
    spans = {word: course.spans_us[word] / SECOND_US for word in WORDS}
    steps = tuple(map(_step_row, course.steps))
    more = _ENCODER.encode({"spans": spans, "steps": steps})
    return msgspec.Raw(row[:-1] + b"," + more[1:])


def _element(past: PastJob, course: Course) -> Element:
    run = (course.index, course.count, course.step)
    last = course.last
    if course.gone is not None:
        element = withdrawn_element(
            past.job, past.submit_at_us, run, course.gone.cause, course.gone.by
        )
        element.end_at = at_s(course.gone.at_us)
    elif last is not None and last.ended.outcome and not last.is_reopened:
        element = ended_element_row(
            past.job, course.index, past.submit_at_us, last.ended, last.hosts
        )
    else:
        element = Element(past.job, course.index, course.stat, past.submit_at_us / SECOND_US)
        element.count, element.step = course.count, course.step
        if last is not None and last.is_live:
            element.hosts = last.hosts
            element.slots = sum(slots for _, slots in last.hosts)
            element.start_at = at_s(last.ended.started_at_us or last.placed_at_us)
            element.attempt, element.pid = last.ended.attempt, last.pid or None
    element.array_limit = past.array.limit if past.array is not None else 0
    decided = [step for step in course.steps if step.what == "end-decided"]
    if decided and element.cause:
        element.ended_by = decided[-1].by
    return element


def _step_row(step: Step) -> StepRow:
    cause = EndCause(step.amount) if step.what in _WITH_CAUSE else EndCause.NONE
    ended = step.ended
    signal = step.amount if step.what == "signaled" else 0
    return StepRow(
        at=step.at_us / SECOND_US,
        what=step.what,
        by=step.by,
        hosts=step.hosts,
        attempt=step.attempt,
        pid=step.pid,
        signal=signal if ended is None else ended.signal,
        cause=end_cause_keyword(cause),
        cause_text=end_cause_text(cause),
        text=step.text,
        exit_code=ended.exit_code if ended is not None and ended.started_at_us else None,
        cpu_s=ended.cpu_us / SECOND_US if ended is not None else None,
        max_mem_mib=round(ended.max_mem_kib / 1024, 2) if ended is not None else None,
    )


def usage_page(
    reader: HistoryReader,
    search: Search,
    cursor: Cursor,
    limit: int,
    queues: Mapping[str, QueueConfig],
) -> HistoryPage:
    """Return one row for each attempt that is over, by their ends, a page of them.

    Args:
        reader: The store.
        search: Which.
        cursor: Those behind this one.
        limit: So many at most.
        queues: As they are now: what is unusual is said by what they say.
    """
    asked = reader.search()
    if asked is None:
        return HistoryPage(())
    found = asked.usage(search, cursor, limit + 1)
    more = len(found) > limit
    writer = RowWriter()
    known: dict[JobId, PastJob | None] = {}
    rows: list[msgspec.Raw] = []
    with reader.ahead([item.job for item in found[:limit]]):
        for item in found[:limit]:
            past = known.get(item.job)
            if past is None:
                past = known[item.job] = reader.job(item.job, with_elements=False)
            if past is None:
                continue
            shared = shared_halves(writer, past)
            for element in _elements(reader, past, item):
                queue = queues.get(past.at(element.index).key.queue)
                element.exceptions = exceptions_of(
                    queue, element.start_at, element.end_at, 0, element.cpu_s
                )
                rows += map(msgspec.Raw, writer.render([element], shared(element.index)))
    last = ".".join(map(str, found[limit - 1].cursor)) if more else None
    return HistoryPage(tuple(rows), next=last)


def _elements(reader: HistoryReader, past: PastJob, item: UsageRow) -> Iterator[Element]:
    told = reader.course(past.job, ((item.index, item.last),))
    if told is None:
        return
    for attempt in told.attempts:
        if item.attempt == attempt.ended.attempt and not attempt.is_live:
            element = ended_element_row(
                past.job, attempt.index, past.submit_at_us, attempt.ended, attempt.hosts
            )
            element.ended_by = _decided_by(told, attempt.index, attempt.ended.cause)
            if not attempt.ended.outcome:
                element.requeued, element.requeued_at = element.cause_text, element.end_at
            if not attempt.is_measured:
                element.exit_code = element.cpu_s = element.max_mem_mib = None
            yield element
    if item.attempt >= 0:
        return
    for course in tell_courses(told, ((item.index, item.last),), item.ended_at_us):
        if course.gone is not None:
            yield _element(told, course)


def _decided_by(past: PastJob, index: Index, cause: int) -> str:
    found = [
        event.by
        for event in past.events
        if event.first <= index <= event.last
        and (event.kind, event.amount) == (Happening.END_DECIDED, cause)
    ]
    return found[-1] if found and cause else ""


def parse_outcomes(scope: str) -> tuple[Outcome, ...]:
    """Return the outcomes that a word means: ``done``, ``exited`` (or requeued), or all."""
    known = {"done": (Outcome.DONE,), "exited": (Outcome.EXIT, Outcome.NONE)}
    return known.get(scope, tuple(Outcome))


def parse_usage_cursor(text: str) -> Cursor | None:
    """Return the place that the cursor of `usage_page` names; None: it is none."""
    if not text:
        return START
    match read_place(text):
        case (at_us, job, index, attempt):
            return at_us, job, index, attempt
    return None
