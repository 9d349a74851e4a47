"""What runs, as columns: when each attempt is expected to end, and what comes free then.

`Running` follows the journal: it hears which attempts a record is about and looks only at those
again. One that is made anew from a state has the same rows, up to their order.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from xce.model.entry import Entry
from xce.model.host_record import HostsLeftOut, HostUp
from xce.model.ids import HostNumber, Index, JobId, Micros
from xce.model.job import EndCause
from xce.model.ranges import positions
from xce.model.reason import Reason, ReasonCode
from xce.model.record import (
    AmountsReturned,
    BulkPlaced,
    ConfigApplied,
    EndDecided,
    Ended,
    GangPlaced,
    LaunchFailed,
    Record,
    Requeued,
    Started,
    StopsChanged,
    SuspensionAsked,
    SuspensionDone,
)
from xce.model.record_modify import JobModified
from xce.state.cluster import ClusterState, RequestClass
from xce.state.hosts import Column, Flags
from xce.state.job import Attempt
from xce.state.needs import Need, of_pools, on_hosts
from xce.state.usage import yields

FAR: Final[Micros] = 1 << 61
"""Later than every instant that is known: when what has no run limit and no estimate ends."""
_EVERY: Final[Index] = 1 << 62
_NEWS_MAX: Final = 200_000
"""More changed elements than this, and it is cheaper to look at all of them."""


class Releases(NamedTuple):
    """What comes free, a row for each host of each attempt."""

    at_us: Column
    """When it is expected; in the past where it is overdue, `FAR` where nobody knows."""
    numbers: Column
    """The host of each row."""
    amounts: Column
    """Along resources and rows; all slots of a host that an exclusive attempt leaves."""
    pools: Column
    """Along pools (by name) and rows."""
    owners: Column
    """Whose each row is, as `Running.owners` numbers the live attempts."""


class Owners(NamedTuple):
    """The live attempts, by number; a number may be unused."""

    places: list[tuple[JobId, int]]
    """Job and position."""
    classes: Column
    """-1: the number is unused."""
    since_us: Column
    """When each was placed or started."""
    may_yield: Flags
    """Whether it may be made to give way: it is not ending, not stopped, and was not too often."""
    yields: Column
    """Whether it gives way already: 0 not, 1 its slots, 2 all that it holds."""


def expected_span(found: RequestClass) -> Micros:
    """Return for how long an attempt is expected to run: its run limit, else its estimate."""
    return found.key.run_limit_us or found.key.estimate_us or FAR


def expected_end(found: RequestClass, attempt: Attempt) -> Micros:
    """Return when an attempt is expected to end, in the past when it is overdue."""
    if attempt.end_cause != EndCause.NONE:
        return attempt.placed_at_us
    if attempt.suspended or attempt.shall_stop:
        return FAR
    span_us = expected_span(found)
    return span_us if span_us == FAR else (attempt.started_at_us or attempt.placed_at_us) + span_us


class Running:
    """The rows of all live attempts."""

    def __init__(self) -> None:
        self._is_whole = False
        self._news: list[tuple[JobId, Index, Index]] = []
        self._at: dict[JobId, dict[int, tuple[int, ...]]] = {}
        """By job and position: the rows of the live attempt."""
        self._unused: list[int] = []
        self._size = 0
        self._names: tuple[str, ...] = ()
        self._rows = _Rows(0, 0, 0)
        self._found: Releases | None = None
        """What `releases` returned, as long as nothing of it changes."""
        self._owners = _owners_for(0)
        self._unused_owners: list[int] = []

    def note(self, entry: Entry) -> None:
        """Hear of an applied entry."""
        if not self._is_whole:
            return
        for record in entry.records:
            if isinstance(record, ConfigApplied | HostUp):
                self._is_whole = False
                return
            self._news.extend(_runs_of(record))
        if len(self._news) > _NEWS_MAX:
            self._is_whole = False

    def look_again(self, runs: Iterable[tuple[JobId, Index, Index]]) -> None:
        """Have element runs looked at again, without any record about them."""
        if self._is_whole:
            self._news.extend(runs)

    def releases(self, state: ClusterState) -> Releases:
        """Return the rows of what lives now; they are not to be changed."""
        if self._is_whole:
            for run in dict.fromkeys(self._news):
                self._look_at(state, *run)
        else:
            self._look_at_all(state)
        self._news.clear()
        if self._found is None:
            used = (self._rows.columns.at_us[: self._size] >= 0).nonzero()[0]
            self._found = self._rows.taken(used)
        return self._found

    @property
    def owners(self) -> Owners:
        """The live attempts as of the last `releases`."""
        return self._owners

    def _look_at_all(self, state: ClusterState) -> None:
        self._is_whole = True
        self._at, self._unused, self._size = {}, [], 0
        self._names = tuple(sorted(state.pools.total))
        resources = state.hosts.width
        self._rows, self._found = _Rows(0, resources, len(self._names)), None
        self._owners, self._unused_owners = _owners_for(0), []
        everything = chain.from_iterable(state.on_host.values())
        for job_id, position in everything:
            self._add(state, job_id, position)

    def _look_at(self, state: ClusterState, job_id: JobId, first: Index, last: Index) -> None:
        job = state.jobs.get(job_id)
        if job is None:
            for rows in self._at.pop(job_id, {}).values():
                self._drop(rows)
            return
        meant = job.positions(first, last)
        for position in positions(meant):
            rows_before = self._at.get(job_id, {}).pop(position, ())
            self._drop(rows_before)
            if job.live and position in job.live:
                self._add(state, job_id, position)

    def _add(self, state: ClusterState, job_id: JobId, position: int) -> None:
        attempt = state.attempt(job_id, position)
        assert attempt is not None, f"element {position} of job {job_id} is not live"
        found = state.classes[attempt.cls]
        ends_at_us = expected_end(found, attempt)
        form = found.forms[attempt.alternative]
        offsets = form.offsets[attempt.returned :]
        since_us = attempt.started_at_us or attempt.placed_at_us
        instants = [min(since_us + offset_us, ends_at_us) for offset_us in offsets] + [ends_at_us]
        numbers = _numbers(attempt)
        stages = [
            self._held(state, attempt, stage, numbers) for stage in form.stages[attempt.returned :]
        ]
        nothing = np.zeros_like(stages[0][0]), np.zeros_like(stages[0][1])
        if attempt.alone:
            own = np.searchsorted(numbers, attempt.alone)
            for amounts, _ in stages:
                amounts[0, own] = state.hosts.total[0, attempt.alone]
        if found.key.request.exclusive:
            # Its slots come last, all that the host has.
            for amounts, _ in stages:
                amounts[0] = state.hosts.total[0, numbers]
        owner = self._owner(state, job_id, position, attempt)
        self._found = None
        rows: list[int] = []
        for at_us, (amounts, pools), (later, later_pools) in zip(
            instants, stages, [*stages[1:], nothing], strict=True
        ):
            mine = [self._row() for _ in numbers]
            columns = self._rows.columns
            there = mine if len(mine) > 1 else slice(mine[0], mine[0] + 1)
            columns.at_us[there] = at_us
            columns.numbers[there] = numbers
            columns.owners[there] = owner
            columns.amounts[:, there] = amounts - later
            columns.pools[:, there] = 0
            columns.pools[:, mine[0]] = pools - later_pools
            rows += mine
        self._at.setdefault(job_id, {})[position] = tuple(rows)

    def _held(
        self,
        state: ClusterState,
        attempt: Attempt,
        stage: tuple[Need, ...],
        numbers: list[HostNumber],
    ) -> tuple[Column, Column]:
        """Return what an attempt holds on each of ``numbers`` and of each pool at a stage."""
        held = on_hosts(
            stage, attempt.hosts, attempt.tasks, attempt.parts, attempt.devices,
            attempt.processors, attempt.headless,
        )  # fmt: skip
        none = np.zeros(len(self._rows.columns.amounts), np.int64)
        amounts = np.array([held.get(number, none) for number in numbers], np.int64).T
        if attempt.gave_slots:
            amounts[0] = 0
        needs = of_pools(stage, attempt.tasks, attempt.parts)
        pools = np.asarray([needs.get(name, 0) for name in self._names], np.int64)
        return amounts, pools

    def _row(self) -> int:
        """Return a row that is not used."""
        if self._unused:
            return self._unused.pop()
        if self._size == self._rows.size:
            self._rows = self._rows.with_room(2 * self._size + 64)
        self._size += 1
        return self._size - 1

    def _owner(self, state: ClusterState, job_id: JobId, position: int, attempt: Attempt) -> int:
        """Give a live attempt a number and note what is known of it."""
        if not self._unused_owners:
            size = len(self._owners.places)
            old, self._owners = self._owners, _owners_for(2 * size + 64)
            self._owners.places[:size] = old.places
            self._owners.classes[:size] = old.classes
            self._owners.since_us[:size] = old.since_us
            self._owners.may_yield[:size] = old.may_yield
            self._owners.yields[:size] = old.yields
            self._unused_owners = list(range(2 * size + 63, size - 1, -1))
        owner = self._unused_owners.pop()
        self._owners.places[owner] = job_id, position
        self._owners.classes[owner] = attempt.cls
        self._owners.since_us[owner] = attempt.started_at_us or attempt.placed_at_us
        times = (state.jobs[job_id].preempted or {}).get(position, 0)
        self._owners.may_yield[owner] = (
            attempt.end_cause == EndCause.NONE
            and not attempt.suspended
            and not attempt.shall_stop
            and not attempt.is_firm
            and times < state.config.preemptions_max
        )
        self._owners.yields[owner] = yields(attempt)
        return owner

    def _drop(self, rows: tuple[int, ...]) -> None:
        columns = self._rows.columns
        if rows:
            self._found = None
            owner = int(columns.owners[rows[0]])
            self._owners.classes[owner] = -1
            self._unused_owners.append(owner)
        for row in rows:
            columns.at_us[row] = -1
            self._unused.append(row)


def _numbers(attempt: Attempt) -> list[HostNumber]:
    """Return the hosts of an attempt, and those it has for itself, each once."""
    return sorted({*attempt.hosts, *attempt.alone})


class _Rows:
    """Room for rows: all columns one below the other, and the same apart."""

    def __init__(self, size: int, resources: int, pools: int) -> None:
        self.size, self._resources, self._pools = size, resources, pools
        self._whole = np.zeros((3 + resources + pools, size), np.int64)
        self._whole[0] = -1
        self.columns = self._apart(self._whole)

    def taken(self, places: Column) -> Releases:
        """Return some of the rows."""
        return self._apart(self._whole.take(places, axis=1))

    def with_room(self, size: int) -> "_Rows":
        """Return the same rows in front of new ones, so many in all."""
        more = _Rows(size, self._resources, self._pools)
        more._whole[:, : self.size] = self._whole
        return more

    def _apart(self, whole: Column) -> Releases:
        behind = 3 + self._resources
        return Releases(whole[0], whole[1], whole[3:behind], whole[behind:], whole[2])


def _owners_for(size: int) -> Owners:
    return Owners(
        [(0, 0)] * size,
        np.full(size, -1, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.bool_),
        np.zeros(size, np.int64),
    )


def _runs_of(record: Record) -> Iterator[tuple[JobId, Index, Index]]:
    """Yield the element runs that begin, end or are expected to end at another instant."""
    match record:
        case BulkPlaced() | EndDecided() | SuspensionAsked() | StopsChanged():
            yield from zip(record.jobs, record.firsts, record.lasts, strict=True)
        case GangPlaced():
            yield record.job, record.index, record.index
        case JobModified() if record.before:
            yield record.job, 0, _EVERY
        case (
            Started() | Ended() | Requeued() | LaunchFailed() | SuspensionDone() | AmountsReturned()
            | HostsLeftOut()
        ):  # fmt: skip
            yield from zip(record.jobs, record.indices, record.indices, strict=True)
        case _:
            pass


def lateness(state: ClusterState, found: RequestClass, now_us: Micros) -> Reason | None:
    """Return why a job would still run when the run window of its queue closes, if so."""
    if not state.windows:
        return None
    queue = found.key.queue
    closes_us = state.window_closes_us(queue, now_us)
    span_us = found.key.run_limit_us or found.key.estimate_us
    if not closes_us or not span_us or now_us + span_us <= closes_us:
        return None
    return Reason(ReasonCode.DEADLINE, resource=queue)
