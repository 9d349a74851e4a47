"""What is to be drawn of a journal: every attempt that it tells of, and who waited."""

from collections.abc import Iterator
from pathlib import Path

from xce.journal.interface import JournalReader
from xce.journal.sqlite import open_sqlite_reader
from xce.journal.whole import read_whole_entries
from xce.model.entry import Entry
from xce.model.ids import SECOND_US, HostNumber, Index, JobId, Micros, Seq
from xce.model.ranges import count
from xce.model.record import (
    BulkPlaced,
    Ended,
    GangPlaced,
    JobSubmitted,
    LaunchFailed,
    Requeued,
    Withdrawn,
)
from xce.sim.chart import Chart, Run, make_chart
from xce.sim.replay import begin
from xce.state.apply import apply
from xce.state.cluster import ClusterState

_Element = tuple[JobId, Index]


def read_journal_chart(directory: Path, *, title: str = "", to_seq: Seq = 0) -> Chart:
    """Return the chart of a journal; its controller may go on.

    Args:
        directory: Of the journal.
        title: What to call it.
        to_seq: The last entry to take; 0: all.

    Raises:
        CorruptJournalError: There is no journal, or an entry of it is damaged.
        JournalTroubleError: It cannot be read for now.
    """
    reader = open_sqlite_reader(directory)
    try:
        return read_chart(reader, title=title or str(directory), to_seq=to_seq)
    finally:
        reader.close()


def read_chart(reader: JournalReader, *, title: str = "", to_seq: Seq = 0) -> Chart:
    """Return the chart of an open journal; see `read_journal_chart`."""
    state, crc = begin(reader)
    reading = _Reading(state)
    reading.read(read_whole_entries(reader, state.seq, crc), to_seq)
    return reading.chart(title or reader.place())


class _Reading:
    """Entries while they are applied."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._first_us: Micros = state.now_us
        self._slots = 0
        self._live: dict[_Element, tuple[Micros, tuple[tuple[str, int], ...]]] = {}
        self._again: dict[_Element, Micros] = {}
        """Since when elements wait that were placed before."""
        self._runs: list[Run] = []
        self._waits: list[float] = []
        self._queue: list[tuple[float, int]] = []
        for job in state.jobs.values():
            waiting = count(job.pending) + count(job.held)
            if waiting:
                self._count(state.now_us, waiting)
            for position, attempt in (job.live or {}).items():
                hosts = self._hosts(attempt.hosts, attempt.tasks)
                self._live[job.id, job.index(position)] = (attempt.placed_at_us, hosts)

    def read(self, entries: Iterator[Entry], to_seq: Seq) -> None:
        """Apply entries and note what they tell."""
        for entry in entries:
            if to_seq and entry.seq > to_seq:
                break
            apply(self._state, entry)
            self._first_us = self._first_us or entry.at_us
            table = self._state.hosts
            if table.count:
                self._slots = max(self._slots, int(table.total[0].sum()))
            for record in entry.records:
                self._note(record, entry.at_us)

    def chart(self, title: str) -> Chart:
        """Return what was found; what still runs is drawn up to the last entry."""
        last = self._seconds(self._state.now_us)
        runs = [*self._runs]
        for element, (at_us, hosts) in self._live.items():
            runs.append(Run(_name(element), self._seconds(at_us), last, hosts))
        first = min([0.0, *(run.start for run in runs)])
        return make_chart(
            title,
            slots=self._slots,
            first=first,
            last=max([last, *(run.end for run in runs)]),
            runs=runs,
            waits=self._waits,
            queue=self._queue,
        )

    def _seconds(self, at_us: Micros) -> float:
        return (at_us - self._first_us) / SECOND_US

    def _count(self, at_us: Micros, change: int) -> None:
        self._queue.append((self._seconds(at_us), change))

    def _hosts(self, hosts: list[HostNumber], tasks: list[int]) -> tuple[tuple[str, int], ...]:
        names = self._state.hosts.names
        return tuple((names[host], size) for host, size in zip(hosts, tasks, strict=True))

    def _note(self, record: object, at_us: Micros) -> None:
        match record:
            case JobSubmitted():
                self._count(record.submit_at_us, self._state.jobs[record.job].size)
            case Withdrawn():
                self._count(record.at_us, -self._withdrawn(record))
            case GangPlaced():
                hosts = self._hosts(record.hosts, record.tasks)
                self._place((record.job, record.index), record.at_us, hosts)
            case BulkPlaced():
                self._place_bulk(record)
            case Ended():
                for place, element in enumerate(zip(record.jobs, record.indices, strict=True)):
                    self._end(element, record.ended_at_us[place])
            case LaunchFailed() | Requeued():
                for element in zip(record.jobs, record.indices, strict=True):
                    self._end(element, at_us)
                    self._again[element] = at_us
                    self._count(at_us, 1)

    def _withdrawn(self, record: Withdrawn) -> int:
        runs = zip(record.jobs, record.firsts, record.lasts, strict=True)
        return sum(count(self._state.jobs[job].positions(lo, hi)) for job, lo, hi in runs)

    def _place_bulk(self, record: BulkPlaced) -> None:
        size = self._state.classes[record.cls].key.request.tasks_max
        counted = zip(record.hosts, record.counts, strict=True)
        hosts = (host for host, times in counted for _ in range(times))
        for job_id, lo, hi in zip(record.jobs, record.firsts, record.lasts, strict=True):
            job = self._state.jobs[job_id]
            for first, last in job.positions(lo, hi):
                for position in range(first, last + 1):
                    element = job_id, job.index(position)
                    self._place(element, record.at_us, self._hosts([next(hosts)], [size]))

    def _place(self, element: _Element, at_us: Micros, hosts: tuple[tuple[str, int], ...]) -> None:
        since_us = self._again.pop(element, 0) or self._state.jobs[element[0]].submit_at_us
        self._live[element] = (at_us, hosts)
        self._waits.append((at_us - since_us) / SECOND_US)
        self._count(at_us, -1)

    def _end(self, element: _Element, ended_us: Micros) -> None:
        found = self._live.pop(element, None)
        if found is not None:
            start = self._seconds(found[0])
            end = max(start, self._seconds(ended_us))
            self._runs.append(Run(_name(element), start, end, found[1]))


def _name(element: _Element) -> str:
    job, index = element
    return f"{job}[{index}]" if index else str(job)
