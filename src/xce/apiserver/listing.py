"""Which jobs a listing shows: filters, ids, order and pages."""

import re
from collections.abc import AsyncIterator, Callable
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from xce.apiserver.archive import Archive
from xce.apiserver.fields import RowWriter, parse_fields
from xce.apiserver.past_rows import past_elements, shared_halves
from xce.apiserver.problems import refused
from xce.apiserver.replica import Replica
from xce.apiserver.rows import (
    ALL_STATES,
    STATES,
    UNFINISHED_STATES,
    Element,
    Listing,
)
from xce.apiserver.usage import Told, UsageDesk
from xce.apiserver.veil import Sees
from xce.control.dependency import matches
from xce.journal.history_reader import HistoryReader
from xce.journal.past import PastJob
from xce.model.ids import Index, JobId, Micros
from xce.model.ranges import Ranges, count, unite
from xce.model.refusal import RefusalCode
from xce.resreq.array import ID_MAX, parse_job_ref
from xce.resreq.errors import JobRefError
from xce.sched.excluded import Allowance
from xce.state.job import Job
from xce.state.names import all_jobs_of
from xce.state.view import shown_forms

LIMIT_MAX: Final = 1_000_000
SLICE: Final = 5_000
"""So many jobs are rendered before others get a turn."""
IDS_MAX: Final = 100_000

JobRef = tuple[str, JobId, tuple[tuple[Index, Index], ...]]
"""As asked for; the id; index runs, none: the whole job."""


class Query(msgspec.Struct, frozen=True):
    """What ``GET /jobs`` asks for, checked."""

    user: str = ""
    """Only this user's; empty: everybody's."""
    queue: str = ""
    name: str = ""
    host: str = ""
    group: str = ""
    """Only of this job group, not of those below it."""
    app: str = ""
    """Only of this application profile."""
    states: frozenset[str] = UNFINISHED_STATES
    refs: tuple[JobRef, ...] = ()
    by_id: bool = False
    host_names: bool = False
    """Whether reasons are to say which hosts they are about."""
    usage: bool = False
    """Whether hosts are asked what running jobs use."""
    fields: tuple[str, ...] = ()
    limit: int = 0
    """0: all."""
    cursor: tuple[JobId, Index] = (0, -1)
    """Rows behind this one."""


def parse_states(text: str, *, finished: bool, by_id: bool) -> frozenset[str]:
    """Return the states that are wanted.

    Raises:
        ProblemError: There is no such state.
    """
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in STATES:
            raise refused(
                RefusalCode.BAD_REQUEST, f"no state is called {name!r}: {', '.join(STATES)}"
            )
    if names:
        return frozenset(names)
    return ALL_STATES if finished or by_id else UNFINISHED_STATES


def parse_refs(text: str) -> tuple[JobRef, ...]:
    """Return the jobs that ``ids=12,13[1-5]`` names, each once, in the order asked for.

    Raises:
        ProblemError: One is no job id, or there are too many.
    """
    found: dict[str, JobRef] = {}
    for item in split_refs(text):
        try:
            job, runs = parse_job_ref(item)
        except JobRefError as error:
            raise refused(
                RefusalCode.BAD_REQUEST, error.message, lsf=f"{item}: Illegal job ID"
            ) from error
        found[item] = (item, job, runs)
        if len(found) > IDS_MAX:
            raise refused(RefusalCode.BAD_REQUEST, f"more than {IDS_MAX} ids in one request")
    return tuple(found.values())


def split_refs(text: str) -> list[str]:
    """Return the items of a list whose commas inside brackets belong to the items."""
    if "[" not in text:
        return [item.strip() for item in text.split(",") if item.strip()]
    items, depth, start = [], 0, 0
    for place, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth <= 0:
            items.append(text[start:place].strip())
            start = place + 1
    items.append(text[start:].strip())
    return [item for item in items if item]


def parse_cursor(text: str) -> tuple[JobId, Index]:
    """Return the place that a cursor names.

    Raises:
        ProblemError: It is none of ours.
    """
    match read_place(text):
        case (job, index) if min(job, index) >= 0:
            return job, index
    raise refused(RefusalCode.BAD_REQUEST, f"{text[:80]!r} is no cursor; take it from `next`")


def read_place(text: str) -> tuple[int, ...]:
    """Return the numbers of a cursor; none: it has others than a database can have."""
    parts = text.split(".")
    numbers = tuple(map(int, parts)) if all(map(_PLACE.fullmatch, parts)) else ()
    return numbers if all(-ID_MAX <= number <= ID_MAX for number in numbers) else ()


def parse_query(values: dict[str, str], *, caller: str) -> Query:
    """Return what the parameters of ``GET /jobs`` ask for.

    Raises:
        ProblemError: A parameter has no meaning.
    """
    by_id = "ids" in values
    user = values.get("user", "" if by_id else caller)
    limit = parse_number(values, "limit", 0, low=0, high=LIMIT_MAX)
    return Query(
        user="" if user == "all" else user,
        queue=values.get("queue", ""),
        name=values.get("name", ""),
        host=values.get("host", ""),
        group=values.get("group", ""),
        app=values.get("app", ""),
        states=parse_states(
            values.get("state", ""), finished=parse_flag(values, "finished"), by_id=by_id
        ),
        refs=parse_refs(values["ids"]) if by_id else (),
        by_id=by_id,
        host_names=parse_flag(values, "host_names"),
        usage=parse_flag(values, "usage"),
        fields=parse_fields(values.get("fields", "")),
        limit=limit,
        cursor=parse_cursor(values["cursor"]) if values.get("cursor") else (0, -1),
    )


def parse_flag(values: dict[str, str], name: str) -> bool:
    """Return whether a flag is set.

    Raises:
        ProblemError: It is neither 0 nor 1.
    """
    text = values.get(name, "0")
    if text not in {"", "0", "1", "false", "true"}:
        raise refused(RefusalCode.BAD_REQUEST, f"{name}={text}: expected 0 or 1")
    return text in {"1", "true"}


def parse_number(values: dict[str, str], name: str, default: int, *, low: int, high: int) -> int:
    """Return a whole number from the parameters.

    Raises:
        ProblemError: It is none, or out of bounds.
    """
    text = values.get(name)
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdigit() and low <= int(text[:19]) <= high):
        raise refused(
            RefusalCode.BAD_REQUEST, f"{name}={text}: expected a whole number, {low} to {high}"
        )
    return int(text)


_INDEX: Final = attrgetter("index")
_PLACE: Final = re.compile(r"-?[0-9]{1,19}")


class JobLister:
    """Renders the answer to one query, a slice at a time.

    Args:
        replica: Where the jobs are.
        history: Where those are that left; asked for some at a time.
        query: What is asked for.
        now_us: The time now.
        sees: Which jobs may be shown, by owner, queue and project; None: all.
        desk: Has hosts say what running jobs use.
    """

    def __init__(
        self,
        replica: Replica,
        history: Archive,
        query: Query,
        now_us: Micros,
        *,
        sees: Sees = None,
        desk: UsageDesk | None = None,
    ) -> None:
        self.seq = replica.seq
        self.missing: list[str] = []
        self.next = ""
        """Cursor of the next page; empty: there is none."""
        self._replica = replica
        self._history = history
        self._query = query
        self._writer = RowWriter(query.fields)
        self._now_us = now_us
        self._sees = sees
        self._desk = desk if query.usage and self._writer.has_usage else None
        self._usage: dict[str, Told] = {}
        """What hosts say, for the jobs of one slice."""
        is_named = query.host_names and self._writer.has_reason
        self._naming = Allowance() if is_named else None
        self._shared: dict[tuple[int, int], bytes] = {}
        self._past: dict[JobId, PastJob | None] = {}
        """What the history said, of the jobs of one slice."""
        self._left = query.limit or -1
        self._last: tuple[JobId, Index] = (0, 0)

    async def slices(self) -> AsyncIterator[list[bytes]]:
        """Yield rendered rows; the state may go on between two slices.

        Raises:
            ProblemError: The history cannot be read.
        """
        if self._query.by_id:
            async for part in self._named():
                yield part
            return
        jobs = self._candidates()
        for start in range(0, len(jobs), SLICE):
            rows: list[bytes] = []
            await self._measure(jobs[start : start + SLICE])
            listing = self._listing()
            for job_id in jobs[start : start + SLICE]:
                job = self._replica.state.jobs.get(job_id)
                if job is not None and not self._add(rows, listing, job, None):
                    yield rows
                    return
            yield rows

    def _listing(self) -> Listing:
        listing = Listing(
            self._replica.state,
            self._replica.gangs,
            now_us=self._now_us,
            states=self._query.states,
            with_reason=self._writer.has_reason,
            with_spans=self._writer.has_spans,
            naming=self._naming,
            sees=self._sees,
        )
        listing.usage = self._usage
        return listing

    async def _measure(self, jobs: list[JobId]) -> None:
        """Have the hosts of jobs say what they use."""
        if self._desk is None:
            return
        state = self._replica.state
        found = [state.jobs[job] for job in jobs if job in state.jobs]
        attempts = [one for job in found if self._matches(job) for one in (job.live or {}).values()]
        hosts = {host for attempt in attempts for host in attempt.hosts}
        self._usage = await self._desk.look([state.hosts.names[host] for host in sorted(hosts)])

    def _candidates(self) -> list[JobId]:
        """Return the ids of the jobs that may be shown, rising."""
        state, query = self._replica.state, self._query
        jobs: list[JobId]
        if query.states & {"done", "exit"}:
            jobs = all_jobs_of(state.names, query.user) if query.user else list(state.jobs)
        elif query.user:
            jobs = list(state.unfinished.get(query.user, ()))
        else:
            jobs = [job for ids in state.unfinished.values() for job in ids]
        if query.host and not query.states & {"done", "exit"}:
            there = self._on_host(query.host)
            jobs = [job for job in jobs if job in there]
        jobs.sort()
        first = query.cursor[0]
        return [job for job in jobs if job >= first] if first else jobs

    def _on_host(self, host: str) -> set[JobId]:
        """Return the jobs with a live attempt that holds something on ``host``."""
        state = self._replica.state
        number = state.hosts.number.get(host)
        if number is None:
            return set()
        found: set[JobId] = set()
        for first, places in state.on_host.items():
            for job_id, position in places:
                attempt = state.attempt(job_id, position)
                if first == number or (attempt is not None and number in attempt.hosts):
                    found.add(job_id)
        return found

    def _is_seen(self, job: Job) -> bool:
        if self._sees is None:
            return True
        key = self._replica.state.key(job)
        return self._sees(job.owner.user, key.queue, key.project)

    def _matches(self, job: Job) -> bool:
        state, query = self._replica.state, self._query
        if not self._is_seen(job):
            return False
        if query.user and job.owner.user != query.user:
            return False
        if query.group and state.key(job).group != query.group:
            return False
        return not query.name or matches(state.spec(job).name, query.name)

    def _add(self, rows: list[bytes], listing: Listing, job: Job, among: Ranges | None) -> bool:
        """Add the rows of a job; return whether there is room for more."""
        if not self._matches(job):
            return True
        if not job.is_modified:
            if not self._is_wanted(job.cls):
                return True
            own = job.cls, job.spec_id
            return self._emit(rows, listing.elements(job, among), lambda _: self._half(own))
        whole = ((0, job.size - 1),) if among is None else among
        found: list[Element] = []
        forms: dict[Index, tuple[int, int]] = {}
        for cls, spec_id, part in shown_forms(self._replica.state, job, whole):
            mine = listing.elements(job, part) if self._is_wanted(cls) else []
            forms.update(dict.fromkeys((one.index for one in mine), (cls, spec_id)))
            found += mine
        found.sort(key=_INDEX)
        return self._emit(rows, found, lambda one: self._half(forms[one.index]))

    def _is_wanted(self, cls: int) -> bool:
        """Return whether a class is of the queue and the profile that are asked for."""
        query, key = self._query, self._replica.state.classes[cls].key
        return query.queue in ("", key.queue) and query.app in ("", key.app)

    def _half(self, form: tuple[int, int]) -> bytes:
        """Return what all elements of a class and spec have alike."""
        found = self._shared.get(form)
        if found is None:
            state = self._replica.state
            cls, spec = state.classes[form[0]], state.specs[form[1]]
            found = self._shared[form] = self._writer.shared(spec, cls.key, cls.resreq)
        return found

    def _emit(
        self, rows: list[bytes], elements: list[Element], half_of: Callable[[Element], bytes]
    ) -> bool:
        """Render the rows of one job as far as they are wanted; return whether there is room."""
        query = self._query
        if query.host:
            elements = [e for e in elements if any(h == query.host for h, _ in e.hosts)]
        if elements and elements[0].jobid == query.cursor[0]:
            elements = [e for e in elements if e.index > query.cursor[1]]
        if not elements:
            return True
        if self._left == 0:
            self.next = f"{self._last[0]}.{self._last[1]}"
            return False
        if 0 < self._left < len(elements):
            elements = elements[: self._left]
            self.next = f"{elements[-1].jobid}.{elements[-1].index}"
        for half, alike in groupby(elements, half_of):
            rows += self._writer.render(list(alike), half)
        self._last = (elements[-1].jobid, elements[-1].index)
        if self._left > 0:
            self._left -= len(elements)
        return not self.next

    async def _named(self) -> AsyncIterator[list[bytes]]:
        """Yield the rows of the jobs that were named, by id and index, each once."""
        wanted: dict[JobId, list[JobRef]] = {}
        for ref in self._query.refs:
            wanted.setdefault(ref[1], []).append(ref)
        first = self._query.cursor[0]
        jobs = sorted(job for job in wanted if job >= first)
        for start in range(0, len(jobs), SLICE):
            rows: list[bytes] = []
            part = jobs[start : start + SLICE]
            await self._look_up({job: wanted[job] for job in part})
            await self._measure(part)
            listing = self._listing()
            for job_id in part:
                if not self._add_named(rows, listing, job_id, wanted[job_id]):
                    yield rows
                    return
            yield rows
        if first:
            self.missing.clear()

    async def _look_up(self, refs: dict[JobId, list[JobRef]]) -> None:
        """Ask the history for those jobs that are not in the state."""
        state, self._past = self._replica.state, {}
        # While the history is asked others may leave the state.
        while gone := [job for job in refs if job not in state.jobs and job not in self._past]:
            wanted = [(job, _runs_of(refs[job])) for job in gone]

            def ask(reader: HistoryReader) -> dict[JobId, PastJob | None]:
                return {job: reader.job(job, runs) for job, runs in wanted}  # noqa: B023 - at once

            self._past |= await self._history.ask(ask)
            state = self._replica.state

    def _add_named(
        self, rows: list[bytes], listing: Listing, job_id: JobId, refs: list[JobRef]
    ) -> bool:
        job = self._replica.state.jobs.get(job_id)
        if job is None:
            return self._add_past(rows, job_id, refs)
        if not self._is_seen(job):
            self.missing.extend(text for text, _, _ in refs)
            return True
        among: Ranges | None = ()
        for text, _, runs in refs:
            if not runs:
                among = None
                continue
            for low, high in runs:
                positions = job.positions(low, high)
                if not count(positions):
                    self.missing.append(_part(text, job_id, runs, low, high))
                elif among is not None:
                    among = unite(among, positions)
        return self._add(rows, listing, job, among)

    def _add_past(self, rows: list[bytes], job_id: JobId, refs: list[JobRef]) -> bool:
        """Add the rows of a job that has left the state."""
        past = self._past[job_id]
        sees = self._sees
        if past is None or (sees and not sees(past.owner.user, past.key.queue, past.key.project)):
            self.missing.extend(text for text, _, _ in refs)
            return True
        query = self._query
        if (
            (query.user and past.owner.user != query.user)
            or (query.queue and past.key.queue != query.queue)
            or (query.group and past.key.group != query.group)
            or (query.app and past.key.app != query.app)
            or (query.name and not matches(past.spec.name, query.name))
        ):
            return True
        elements = past_elements(past, query.states, self._replica.state.queues)
        for text, _, asked in refs:
            for low, high in asked:
                if past.array is None or not past.array.position_from(
                    high + 1
                ) > past.array.position_from(low):
                    self.missing.append(_part(text, job_id, asked, low, high))
        shared = shared_halves(self._writer, past)
        return self._emit(rows, elements, lambda one: shared(one.index))


def _runs_of(refs: list[JobRef]) -> tuple[tuple[Index, Index], ...]:
    """Return which elements of a job are named."""
    if any(not runs for _, _, runs in refs):
        return ((0, 1 << 62),)
    return tuple(run for _, _, runs in refs for run in runs)


def _part(
    text: str, job: JobId, runs: tuple[tuple[Index, Index], ...], low: Index, high: Index
) -> str:
    """Return the name of the elements of a reference that do not exist."""
    if len(runs) == 1:
        return text
    return f"{job}[{low}]" if low == high else f"{job}[{low}-{high}]"
