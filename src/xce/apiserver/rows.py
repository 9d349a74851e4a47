"""Job rows: what a listing says of the elements of a job, read off the state or the history.

A row has two halves: what all jobs of one spec and class have alike is rendered once for a whole
answer, the rest for each row.
"""

from collections.abc import Mapping
from copy import copy
from typing import Final

import msgspec
import numpy as np

from xce.apiserver.exceptions import exceptions_of
from xce.apiserver.gpu_rows import JobGpuRow, job_gpu_rows
from xce.apiserver.post_rows import PostRow, render_posts
from xce.apiserver.processor_rows import JobProcessorsRow, job_processors_rows
from xce.apiserver.reason_rows import ReasonRow, name_hosts, render_reason
from xce.apiserver.replica import Allocation
from xce.apiserver.role_rows import ProofRow, RoleRow, proof_rows, role_rows
from xce.apiserver.usage import Told, UsageRow, usage_row
from xce.apiserver.veil import Sees, veiled
from xce.model.display import end_cause_keyword, end_cause_text
from xce.model.ids import SECOND_US, JobId, Micros
from xce.model.job import ArraySpec, EndCause, Outcome
from xce.model.ranges import Ranges, from_sorted, intersect, positions, subtract
from xce.model.reason import Reason, ReasonCode
from xce.sched.excluded import Allowance, Excluder
from xce.state.cluster import ClusterState
from xce.state.ineligible import Spans, alike, span_at, spans
from xce.state.job import CHUNK, Attempt, Ended, Job, Withdrawal
from xce.state.view import (
    is_unknown,
    pend_reason,
    stat_of_attempt,
    stop_word,
    waiting_groups,
)

HostSlots = tuple[tuple[str, int], ...]


class Element(msgspec.Struct, gc=False):
    """The other half: one element, or ``count`` of them that are alike."""

    jobid: int
    index: int
    stat: str
    submit_at: float
    count: int = 1
    step: int = 1
    hosts: HostSlots = ()
    """In rank order, each with the slots that it gives."""
    slots: int = 0
    start_at: float | None = None
    end_at: float | None = None
    attempt: int = 0
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    cause_text: str = ""
    ended_by: str = ""
    detail: str = ""
    cpu_s: float | None = None
    max_mem_mib: float | None = None
    pid: int | None = None
    begin_at: float | None = None
    array_limit: int = 0
    ending: bool = False
    """It was decided that it ends, and it is not gone yet."""
    stop: str = ""
    """Why the cluster itself suspends it: ``window`` or ``preempted``."""
    requeued: str = ""
    """Why it was requeued last, as ``TERM_X: text``; empty: never."""
    requeued_at: float | None = None
    requeued_detail: str = ""
    messages: tuple[PostRow, ...] = ()
    """What was posted to it, by the numbers of the boxes."""
    reason: ReasonRow | None = None
    gpus: tuple[JobGpuRow, ...] = ()
    roles: tuple[RoleRow, ...] = ()
    """Where each role is; empty where the job has no named roles, or does not run."""
    relations: tuple[ProofRow, ...] = ()
    """How its relations hold there."""
    processors: tuple[JobProcessorsRow, ...] = ()
    """What each of its tasks is bound to by ``affinity[]``."""
    hosts_lost: tuple[str, ...] = ()
    """Hosts that it had and does without."""
    ineligible_s: float | None = None
    """How long it pended while no session would try it; None: it is not known, or not told here."""
    exceptions: tuple[str, ...] = ()
    """``overrun``, ``underrun``, ``idle``: it runs longer, has run shorter, or uses less CPU time
    than those of its queue shall; the last of one that runs only where its usage was asked for."""
    usage: UsageRow | None = None
    """What it uses now; only where it was asked for, and its hosts have said."""


STATES: Final = ("pend", "psusp", "run", "susp", "done", "exit")
UNFINISHED_STATES: Final = frozenset(STATES[:4])
ALL_STATES: Final = frozenset(STATES)


def at_s(at_us: Micros) -> float | None:
    """Return an instant in seconds; None for 0, which stands for "not yet"."""
    return at_us / SECOND_US if at_us else None


def index_runs(array: ArraySpec | None, first: int, last: int) -> list[tuple[int, int, int]]:
    """Return the elements at positions ``first..last`` as runs ``(index, count, step)``."""
    if array is None:
        return [(0, 1, 1)]
    found: list[tuple[int, int, int]] = []
    before = 0
    for low, high, step in array.runs:
        size = (high - low) // step + 1
        begin, end = max(first - before, 0), min(last - before, size - 1)
        if begin <= end:
            found.append((low + begin * step, end - begin + 1, step))
        before += size
        if before > last:
            break
    return found


def render_indices(array: ArraySpec, ranges: Ranges) -> str:
    """Return the indices of elements as ``-J`` takes them: ``1-7:2,9``."""
    words: list[str] = []
    for low, high in ranges:
        for first, size, step in index_runs(array, low, high):
            last = first + (size - 1) * step
            more = f"-{last}" + (f":{step}" if step > 1 else "")
            words.append(f"{first}{more if size > 1 else ''}")
    return ",".join(words)


class Listing:
    """What the rows of one answer are made from.

    Args:
        state: The state now.
        gangs: Where ended elements ran on several hosts.
        now_us: The time now.
        states: Which elements are wanted.
        with_reason: Whether anybody will look at the reasons.
        with_spans: Whether at how long elements were ineligible.
        naming: How much reasons may say about which hosts they are about; None: nothing.
        sees: Which jobs they may name.
    """

    def __init__(
        self,
        state: ClusterState,
        gangs: dict[tuple[JobId, int], Allocation],
        *,
        now_us: Micros,
        states: frozenset[str] = ALL_STATES,
        with_reason: bool = True,
        with_spans: bool = True,
        naming: Allowance | None = None,
        sees: Sees = None,
    ) -> None:
        self._sees = sees
        self.usage: Mapping[str, Told] = {}
        """What hosts say that is used there."""
        self._with_spans = with_spans
        self._excluder = Excluder(state, naming) if naming is not None else None
        self._spans: Spans | None = ()
        self._judges = any(
            q.overrun_us or q.underrun_us or q.idle_milli for q in state.queues.values()
        )
        self.state = state
        self.states = states
        self._gangs = gangs
        self._now_us = now_us
        self._with_reason = with_reason
        self._names = state.hosts.names
        self._reasons: dict[int, tuple[Reason, ReasonRow]] = {}
        self._ended_wanted = bool(states & {"done", "exit"})

    def elements(self, job: Job, among: Ranges | None = None) -> list[Element]:
        """Return the rows of a job in index order.

        Args:
            job: A job of the state.
            among: Only elements at these positions; None: all.
        """
        if self._with_spans:
            asked = ((0, job.size - 1),) if among is None else among
            self._spans = spans(self.state, job, asked, self._now_us)
        if job.size == 1 and (among is None or among):
            return self._complete(job, self._single(job))
        found: list[tuple[int, Element]] = []
        states = self.states
        if "pend" in states and job.pending:
            self._add_waiting(found, job, _within(job.pending, among), held=False)
        if "psusp" in states and job.held:
            self._add_waiting(found, job, _within(job.held, among), held=True)
        for position, attempt in (job.live or {}).items():
            if _has(among, position) and self._wants_live(attempt):
                found.append((position, self._live(job, position, attempt)))
        if self._ended_wanted:
            self._add_ended(found, job, among)
        found.sort(key=_position)
        return self._complete(job, [element for _, element in found])

    def _complete(self, job: Job, elements: list[Element]) -> list[Element]:
        """Add what was posted, how long elements were ineligible, and what is unusual; a run of
        elements of which some have messages of their own tells those that all have.
        """
        if self._judges:
            for element in elements:
                if element.start_at is None:
                    continue
                position = job.position(element.index)
                queue = self.state.class_at(job, position or 0).key.queue
                usage = element.usage
                element.exceptions = exceptions_of(
                    self.state.queues.get(queue), element.start_at, element.end_at,
                    self._now_us / SECOND_US, element.cpu_s if usage is None else usage.cpu_s,
                )  # fmt: skip
        if self._with_spans:
            for element in elements:
                position = job.position(element.index)
                span_us = span_at(self._spans, 0 if position is None else position)
                element.ineligible_s = None if span_us is None else span_us / SECOND_US
        if job.posts:
            for element in elements:
                position = job.position(element.index)
                if position is None or element.count > 1:
                    position = -1
                element.messages = render_posts(job.posts_of(position))
        return elements

    def _single(self, job: Job) -> list[Element]:
        states = self.states
        if job.live:
            position, attempt = next(iter(job.live.items()))
            return [self._live(job, position, attempt)] if self._wants_live(attempt) else []
        if job.pending:
            return [self._waiting(job, held=False)] if "pend" in states else []
        if job.held:
            return [self._waiting(job, held=True)] if "psusp" in states else []
        found: list[tuple[int, Element]] = []
        if self._ended_wanted:
            self._add_ended(found, job, None)
        return [element for _, element in found]

    def _wants_live(self, attempt: Attempt) -> bool:
        return ("susp" if attempt.suspended else "run") in self.states

    def _waiting(self, job: Job, *, held: bool, position: int | None = None) -> Element:
        """Return the row of a job whose first element pends or is held.

        Args:
            job: The job.
            held: Whether it is held.
            position: Of the element whose reason is told; None: of one that may start first.
        """
        element = Element(
            job.id,
            0 if job.array is None else job.array.runs[0][0],
            "PSUSP" if held else "PEND",
            job.submit_at_us / SECOND_US,
        )
        if job.begin_at_us:
            element.begin_at = at_s(job.begin_at_us)
        if job.array is not None:
            element.array_limit = job.array.limit
        elif job.requeues:
            self._note_requeue(element, job, 0)
        if self._with_reason:
            element.reason = self._reason(job, held=held, position=position)
        return element

    @staticmethod
    def _note_requeue(element: Element, job: Job, position: int) -> None:
        """Say why an element was requeued, if it was."""
        requeue = (job.requeues or {}).get(position)
        if requeue is not None:
            element.requeued = end_cause_text(EndCause(requeue.cause))
            element.requeued_at = at_s(requeue.at_us)
            element.requeued_detail = requeue.detail

    def _add_waiting(
        self, found: list[tuple[int, Element]], job: Job, ranges: Ranges, *, held: bool
    ) -> None:
        for group in waiting_groups(job, ranges):
            for part in alike(self._spans, group):
                self._add_alike(found, job, part, held=held)

    def _add_alike(
        self, found: list[tuple[int, Element]], job: Job, ranges: Ranges, *, held: bool
    ) -> None:
        """Add the rows of elements that wait for the same."""
        if not ranges:
            return
        first_row = self._waiting(job, held=held, position=ranges[0][0])
        again = from_sorted(sorted(job.requeues or ()))
        for position in positions(intersect(ranges, again)):
            element = copy(first_row)
            element.index = job.index(position)
            self._note_requeue(element, job, position)
            found.append((position, element))
        for first, last in subtract(ranges, again):
            position = first
            for index, count, step in index_runs(job.array, first, last):
                element = copy(first_row)
                element.index, element.count, element.step = index, count, step
                found.append((position, element))
                position += count

    def _reason(self, job: Job, *, held: bool, position: int | None = None) -> ReasonRow:
        reason = pend_reason(self.state, job, held=held, position=position)
        if self._excluder is not None and (reason.host_reasons or reason.under):
            return self._named_reason(self._excluder, reason, job, position)
        known = self._reasons.get(id(reason))
        if known is None:
            row = render_reason(veiled(reason, self.state, self._sees), self._now_us)
            # Only what the state keeps has an address that nobody takes over meanwhile.
            known = (reason, row)
            if reason.code not in _MADE_ANEW:
                self._reasons[id(reason)] = known
        return known[1]

    def _named_reason(
        self, excluder: Excluder, reason: Reason, job: Job, position: int | None
    ) -> ReasonRow:
        """Return a reason with the names of its hosts, as far as that is allowed."""
        row = render_reason(veiled(reason, self.state, self._sees), self._now_us)
        if excluder.allowance.names <= 0:
            return row
        first = (job.ready or job.pending or job.held)[0][0]
        excluded = excluder.hosts_of(job, first if position is None else position)
        row = name_hosts(row, excluded, self._names)
        excluder.allowance.names -= sum(len(one.names) for one in (*row.hosts, *row.parts))
        return row

    def _live(self, job: Job, position: int, attempt: Attempt) -> Element:
        names = self._names
        element = Element(
            jobid=job.id,
            index=0 if job.array is None else job.array.index_of(position),
            stat=stat_of_attempt(attempt, unknown=is_unknown(self.state, attempt)),
            submit_at=job.submit_at_us / SECOND_US,
            hosts=tuple((names[h], n) for h, n in zip(attempt.hosts, attempt.tasks, strict=True)),
            slots=sum(attempt.tasks),
            start_at=at_s(attempt.started_at_us or attempt.placed_at_us),
            attempt=attempt.number,
            ended_by=attempt.end_by,
            pid=attempt.pid or None,
            begin_at=at_s(job.begin_at_us),
            array_limit=job.array.limit if job.array is not None else 0,
            ending=attempt.end_cause != EndCause.NONE,
            stop=stop_word(attempt),
            gpus=job_gpu_rows(self.state, attempt),
            roles=role_rows(self.state, job, attempt),
            relations=proof_rows(self.state, attempt),
            processors=job_processors_rows(self.state, attempt),
            hosts_lost=tuple(names[host] for host in attempt.left_out),
        )
        if job.requeues:
            self._note_requeue(element, job, position)
        if self.usage:
            key = job.id, element.index, attempt.number
            element.usage = usage_row((name for name, _ in element.hosts), key, self.usage)
        return element

    def _add_ended(self, found: list[tuple[int, Element]], job: Job, among: Ranges | None) -> None:
        if job.ended is not None:
            self._add_one_ended(found, job, 0, job.ended)
        for number, chunk in (job.chunks or {}).items():
            places = np.flatnonzero(chunk.rows["outcome"])
            for place, row in zip(places.tolist(), chunk.rows[places].tolist(), strict=True):
                position = number * CHUNK + place
                if _has(among, position):
                    self._add_one_ended(found, job, position, Ended(*row))
        if "exit" not in self.states:
            return
        for item in job.withdrawn:
            for part in alike(self._spans, _within(item.ranges, among)):
                self._add_withdrawn(found, job, part, item)

    def _add_withdrawn(
        self, found: list[tuple[int, Element]], job: Job, part: Ranges, item: Withdrawal
    ) -> None:
        for first, last in part:
            position = first
            for index, count, step in index_runs(job.array, first, last):
                element = withdrawn_element(
                    job.id, job.submit_at_us, (index, count, step), item.cause, item.by
                )
                element.end_at = at_s(item.at_us)
                element.array_limit = job.array.limit if job.array is not None else 0
                found.append((position, element))
                position += count

    def _add_one_ended(
        self, found: list[tuple[int, Element]], job: Job, position: int, ended: Ended
    ) -> None:
        if ("done" if ended.outcome == Outcome.DONE else "exit") not in self.states:
            return
        gang = self._gangs.get((job.id, position))
        hosts: HostSlots = ()
        if gang is not None:
            hosts = tuple((self._names[h], n) for h, n in zip(*gang, strict=True))
        elif ended.host >= 0:
            cls, _ = job.form_at(position)
            request = self.state.classes[cls].key.request
            hosts = ((self._names[ended.host], request.tasks_max if request.is_serial else 1),)
        index = 0 if job.array is None else job.array.index_of(position)
        element = ended_element_row(job.id, index, job.submit_at_us, ended, hosts)
        element.array_limit = job.array.limit if job.array is not None else 0
        element.ended_by = job.ended_by.get(position, "") if job.ended_by else ""
        element.detail = job.details.get(position, "") if job.details else ""
        if job.requeues:
            self._note_requeue(element, job, position)
        found.append((position, element))


_MADE_ANEW: Final = frozenset(
    (
        ReasonCode.HELD, ReasonCode.DEPENDENCY, ReasonCode.DEPENDENCY_NEVER,
        ReasonCode.BEGIN_TIME, ReasonCode.ARRAY_LIMIT, ReasonCode.QUEUE_CLOSED,
    )
)  # fmt: skip
"""Reasons that are read off the job, so that each is an object of its own."""


def _position(item: tuple[int, Element]) -> int:
    return item[0]


def _within(ranges: Ranges, among: Ranges | None) -> Ranges:
    return ranges if among is None else intersect(ranges, among)


def _has(among: Ranges | None, position: int) -> bool:
    return among is None or any(first <= position <= last for first, last in among)


def ended_element_row(
    job: JobId, index: int, submit_at_us: Micros, ended: Ended, hosts: HostSlots
) -> Element:
    """Return the row of an element that ended after it had been placed."""
    cause = EndCause(ended.cause)
    return Element(
        jobid=job,
        index=index,
        stat="DONE" if ended.outcome == Outcome.DONE else "EXIT",
        submit_at=submit_at_us / SECOND_US,
        hosts=hosts,
        slots=sum(slots for _, slots in hosts),
        start_at=at_s(ended.started_at_us),
        end_at=at_s(ended.ended_at_us),
        attempt=ended.attempt,
        exit_code=ended.exit_code,
        signal=ended.signal or None,
        cause=end_cause_keyword(cause),
        cause_text=end_cause_text(cause),
        cpu_s=ended.cpu_us / SECOND_US,
        max_mem_mib=round(ended.max_mem_kib / 1024, 2),
    )


def withdrawn_element(
    job: JobId, submit_at_us: Micros, run: tuple[int, int, int], cause: int, by: str
) -> Element:
    """Return the row of elements that ended before they started."""
    index, count, step = run
    return Element(
        jobid=job,
        index=index,
        stat="EXIT",
        submit_at=submit_at_us / SECOND_US,
        count=count,
        step=step,
        cause=end_cause_keyword(EndCause(cause)),
        cause_text=end_cause_text(EndCause(cause)),
        ended_by=by,
    )
