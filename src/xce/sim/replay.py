"""Recorded sessions, run again on the journal that recorded them.

The journal is the recording: all entries, and one `SessionRan` for each session whose plan was not
empty, with the entry that its view ended at, its time and the plan's digest. A session is run again
on the state at that entry; what came between it and the record is applied behind it (decision
X-23). Equal digests mean equal plans, byte for byte. A release that writes plans in another form
gives other digests; then the decisions are compared, as they were accepted.
"""

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from xce.control.accept import decide_plan, plan_digest
from xce.journal.codec import FIRST_CRC
from xce.journal.interface import JournalReader
from xce.journal.sqlite import open_sqlite_reader
from xce.journal.trace_recorder import Recorder
from xce.journal.whole import read_whole_entries, whole_first_seq
from xce.model.entry import Entry
from xce.model.errors import CorruptJournalError
from xce.model.ids import Index, JobId, Micros, Seq
from xce.model.plan import Plan
from xce.model.reason import render_plain
from xce.model.record import (
    BulkPlaced,
    GangPlaced,
    ReasonsChanged,
    Record,
    SessionRan,
)
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import load

_NOTHING: Final = "nothing"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first decision that is another one now."""

    seq: Seq
    """The entry that records the session."""
    view_seq: Seq
    """The entry that its view ended at."""
    now_us: Micros
    cls: int
    """The request class that it is about; 0: none in particular."""
    job: JobId
    """0: no job in particular."""
    index: Index
    what: str
    """``start``, ``reason``, or another kind of record."""
    recorded: str
    found: str


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `replay` found."""

    file: str
    sessions: int
    """How many sessions were run again."""
    last_seq: Seq
    """The last entry that was applied."""
    skipped: int
    """Sessions whose view lies before the snapshot that the replay began at."""
    by_decisions: int
    """Sessions whose plan has another digest and decides the same: another release wrote it."""
    difference: Difference | None

    @property
    def is_identical(self) -> bool:
        """Whether every session decided as it did."""
        return self.difference is None


class _Session(msgspec.Struct, frozen=True):
    """A recorded session."""

    record: SessionRan
    seq: Seq
    """Of the entry that records it."""

    @property
    def rank(self) -> tuple[Seq, Seq]:
        """Sessions are run again in this order."""
        return self.record.view_seq, self.seq


def replay(
    directory: Path, *, fresh: bool = False, recorder: Recorder | None = None
) -> ReplayReport:
    """Run the recorded sessions of a journal again, up to the first that decides otherwise.

    Args:
        directory: Of the journal; a controller may be writing it.
        fresh: Run each session without what those before it remember, which is slow with many
            requests; the plans must be the same.
        recorder: Traces the sessions, in the order in which they are run again.

    Raises:
        CorruptJournalError: There is no journal, or an entry of it is damaged.
        JournalTroubleError: It cannot be read for now.
    """
    reader = open_sqlite_reader(directory)
    try:
        return replay_journal(reader, fresh=fresh, recorder=recorder)
    finally:
        reader.close()


def replay_journal(
    reader: JournalReader, *, fresh: bool = False, recorder: Recorder | None = None
) -> ReplayReport:
    """Run the recorded sessions of an open journal again; see `replay`."""
    state, crc = begin(reader)
    first = state.seq
    sessions: list[tuple[tuple[Seq, Seq], _Session]] = []
    skipped = 0
    last = first
    for entry in read_whole_entries(reader, first, crc):
        last = entry.seq
        for record in entry.records:
            if isinstance(record, SessionRan):
                if record.view_seq < first:
                    skipped += 1
                else:
                    session = _Session(record, entry.seq)
                    heapq.heappush(sessions, (session.rank, session))
    again = _Again(state, sessions, fresh=fresh, recorder=recorder)
    difference = again.run(read_whole_entries(reader, first, crc), last)
    return ReplayReport(
        file=reader.place(),
        sessions=again.done,
        last_seq=state.seq,
        skipped=skipped,
        by_decisions=again.by_decisions,
        difference=difference,
    )


def begin(reader: JournalReader) -> tuple[ClusterState, int]:
    """Return the earliest state from which the entries go on, and the crc of its last entry."""
    if whole_first_seq(reader) <= 1:
        return ClusterState(), FIRST_CRC
    snapshot = reader.load_snapshot()
    if snapshot is None:
        raise CorruptJournalError(
            f"{reader.place()}: begins with entry {reader.first_seq()}, and there is no usable "
            "snapshot of what came before"
        )
    return load(list(snapshot.parts())), snapshot.crc


class _Again:
    """Sessions while they are run again."""

    def __init__(
        self,
        state: ClusterState,
        sessions: list[tuple[tuple[Seq, Seq], _Session]],
        *,
        fresh: bool,
        recorder: Recorder | None,
    ) -> None:
        self._recorder = recorder
        self.done = 0
        self.by_decisions = 0
        self._state = state
        self._sessions = sessions
        self._fresh = fresh
        self._memory = Memory()
        self._others: dict[Seq, tuple[_Session, Plan]] = {}
        """Plans with another digest, by the entry that records the session."""

    def run(self, entries: Iterator[Entry], last: Seq) -> Difference | None:
        """Apply the entries up to ``last``, run the sessions in between, up to a difference."""
        for entry in entries:
            if entry.seq > last:
                break
            self._run_due()
            other = self._others.pop(entry.seq, None)
            if other is not None:
                found = _compare(self._state, entry, *other)
                if found is not None:
                    return found
                self.by_decisions += 1
            apply(self._state, entry)
            self._memory.note(entry)
        return None

    def _run_due(self) -> None:
        """Run the sessions whose view is the state as it is now."""
        while self._sessions and self._sessions[0][1].record.view_seq == self._state.seq:
            session = heapq.heappop(self._sessions)[1]
            trace = self._recorder.open() if self._recorder is not None else None
            plan = run_session(
                self._state,
                now_us=session.record.now_us,
                memory=None if self._fresh else self._memory,
                trace=trace,
            )
            if self._recorder is not None and trace is not None:
                self._recorder.keep(trace)
            self.done += 1
            if plan_digest(plan) != session.record.digest:
                self._others[session.seq] = (session, plan)


def _compare(state: ClusterState, entry: Entry, session: _Session, plan: Plan) -> Difference | None:
    """Return where a plan decides otherwise than what was accepted of the recorded one."""
    recorded = _decisions(state, _until_session(entry.records))
    found = _decisions(state, tuple(decide_plan(state, plan, entry.at_us)))
    for key in (*recorded, *found):
        if recorded.get(key) != found.get(key):
            what, cls, job, index = key
            return Difference(
                seq=session.seq,
                view_seq=session.record.view_seq,
                now_us=session.record.now_us,
                cls=cls,
                job=job,
                index=index,
                what=what,
                recorded=recorded.get(key, _NOTHING),
                found=found.get(key, _NOTHING),
            )
    return None


def _until_session(records: tuple[Record, ...]) -> tuple[Record, ...]:
    """Return the records of a plan without what followed from them."""
    for place, record in enumerate(records):
        if isinstance(record, SessionRan):
            return records[:place]
    return records


_Key = tuple[str, int, JobId, Index]


def _decisions(state: ClusterState, records: tuple[Record, ...]) -> dict[_Key, str]:
    """Return what records decide, each decision by what it is about."""
    decisions: dict[_Key, str] = {}
    names = state.hosts.names
    for record in records:
        match record:
            case BulkPlaced():
                hosts = iter(
                    [
                        names[host]
                        for host, count in zip(record.hosts, record.counts, strict=True)
                        for _ in range(count)
                    ]
                )
                for job_id, first, last in zip(
                    record.jobs, record.firsts, record.lasts, strict=True
                ):
                    job = state.jobs[job_id]
                    for lo, hi in job.positions(first, last):
                        for position in range(lo, hi + 1):
                            key = ("start", record.cls, job_id, job.index(position))
                            decisions[key] = f"starts on {next(hosts)}"
            case GangPlaced():
                pairs = zip(record.hosts, record.tasks, strict=True)
                placed = " ".join(f"{names[host]}:{tasks}" for host, tasks in pairs)
                decisions["start", record.cls, record.job, record.index] = f"starts on {placed}"
            case ReasonsChanged():
                for cls, reason in zip(record.classes, record.reasons, strict=True):
                    text = render_plain(reason, now_us=state.now_us)
                    decisions["reason", cls, 0, 0] = f"{reason.code}: {text}"
            case SessionRan():
                pass
            case _:
                tag = str(type(record).__struct_config__.tag)
                decisions[tag, 0, 0, 0] = repr(record)
    return decisions
