"""Mail that is to be sent, in a database of its own beside the history store.

It follows the journal with a cursor in the transaction of its rows, so that an event makes one row
whenever its writer dies. A row is marked before its message leaves: what was marked when the writer
died may have been sent, and is not sent again.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from xce.journal.history_sqlite import connect_sqlite
from xce.journal.history_store import HistoryStore, HistoryTakenError, Row, Step
from xce.model import record as r
from xce.model.entry import Entry
from xce.model.ids import Index, JobId, Micros, Seq
from xce.model.job import JobSpec, Outcome
from xce.model.mail import MailConfig, Notice
from xce.model.ranges import EMPTY, Ranges, contains, subtract, unite
from xce.model.record_modify import JobModified
from xce.state.cluster import ClusterState
from xce.state.job import Job

ROWS_MAX: Final = 100_000
"""With so many messages that wait, no more are taken."""
JOB_MAX: Final = 1_000
"""Most messages about the elements of one job."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_CONFIG: Final = msgspec.msgpack.Decoder(MailConfig)
TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS cursor (seq INTEGER NOT NULL, config BLOB NOT NULL,
    cluster TEXT NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS specs (spec_id INTEGER PRIMARY KEY, notices INTEGER NOT NULL)",
    """CREATE TABLE IF NOT EXISTS jobs (job INTEGER PRIMARY KEY, spec_id INTEGER NOT NULL,
    messages INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE IF NOT EXISTS messages (number INTEGER PRIMARY KEY, job INTEGER NOT NULL,
    idx INTEGER NOT NULL, attempt INTEGER NOT NULL, notice INTEGER NOT NULL,
    at_us INTEGER NOT NULL, is_leaving INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0, next_at_us INTEGER NOT NULL DEFAULT 0,
    UNIQUE (job, idx, attempt, notice))""",
    "CREATE TABLE IF NOT EXISTS wishes (job INTEGER PRIMARY KEY, wishes BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS messages_by_time ON messages (next_at_us, number)",
)


_CURSOR: Final = "SELECT seq, config, cluster FROM cursor"
_PUT_SPEC: Final = """INSERT INTO specs VALUES (?, ?)
ON CONFLICT (spec_id) DO UPDATE SET notices = excluded.notices"""
_PUT_JOB: Final = """INSERT INTO jobs (job, spec_id) VALUES (?, ?)
ON CONFLICT (job) DO UPDATE SET spec_id = excluded.spec_id"""
_PUT_WISHES: Final = """INSERT INTO wishes VALUES (?, ?)
ON CONFLICT (job) DO UPDATE SET wishes = excluded.wishes"""
_PUT_MESSAGE: Final = """INSERT INTO messages (job, idx, attempt, notice, at_us)
VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_COUNT_MESSAGE: Final = "UPDATE jobs SET messages = messages + 1 WHERE job = ?"
KEYS: Final = {
    "specs": ("spec_id",), "jobs": ("job",), "messages": ("number",), "wishes": ("job",),
}  # fmt: skip
"""The key of each table but ``cursor``."""


class Letter(msgspec.Struct, frozen=True):
    """A message that is to be sent."""

    number: int
    job: JobId
    index: Index
    attempt: int
    """0: the one that runs or was the last."""
    notice: Notice
    at_us: Micros
    """When it happened."""
    tries: int


class Wishes(msgspec.Struct, array_like=True):
    """About what of a job mail is wanted whose owner changed that: what was placed before has what
    it was placed with.
    """

    first: int
    """Notices of what was placed before the first change."""
    since: dict[int, Ranges] = {}
    """Indices of what was placed since, last with which notices."""

    def place(self, run: tuple[Index, Index], notices: int) -> None:
        """Note that elements are placed."""
        for known in self.since:
            self.since[known] = subtract(self.since[known], (run,))
        self.since[notices] = unite(self.since.get(notices, EMPTY), (run,))

    def of(self, index: Index) -> int:
        """Return the notices that an element was placed with."""
        for notices, indices in self.since.items():
            if contains(indices, index, index):
                return notices
        return self.first


_WISHES: Final = msgspec.msgpack.Decoder(Wishes)


class MailSpool:
    """Gathers what mail is wanted about.

    Args:
        place: The file, made where there is none; or a store with `TABLES`.

    Raises:
        HistoryError: It cannot be opened.
    """

    def __init__(self, place: Path | HistoryStore) -> None:
        self.config = MailConfig()
        """As of the last entry; what happens while no mail is sent makes no rows."""
        self.cluster = ""
        self.dropped = 0
        """Messages that were not taken since there were too many."""
        store = connect_sqlite(place, TABLES) if isinstance(place, Path) else place
        self._store = store
        self.place = store.place
        rows = store.rows(_CURSOR)
        if not rows:
            first = "INSERT INTO cursor VALUES (0, ?, '')"
            store.commit([(first, [(_ENCODER.encode(self.config),)])])
            rows = store.rows(_CURSOR)
        seq, config, self.cluster = rows[0]
        self.seq: Seq = seq
        self.config = _CONFIG.decode(config)
        self._specs: dict[int, int] = dict(store.rows("SELECT spec_id, notices FROM specs"))
        self._jobs: dict[JobId, int] = dict(store.rows("SELECT job, spec_id FROM jobs"))
        self._wishes: dict[JobId, Wishes] = {
            job: _WISHES.decode(content)
            for job, content in store.rows("SELECT job, wishes FROM wishes")
        }
        self._uses = Counter(self._jobs.values())
        self._next: Seq = self.seq
        self._rows: dict[tuple[JobId, Index, int, Notice], Micros] = {}
        self._new_specs: dict[int, int] = {}
        self._new_jobs: dict[JobId, int] = {}
        self._gone: dict[JobId, None] = {}
        self._gone_specs: dict[int, None] = {}
        self._new_wishes: dict[JobId, None] = {}

    def begin(self, state: ClusterState) -> None:
        """Begin behind a snapshot: what mail is wanted about is known, what has happened is not."""
        self.config, self.cluster = state.config.mail, state.config.cluster_name
        for spec_id, spec in state.specs.items():
            self._note_spec(spec_id, spec)
        for job in state.jobs.values():
            self._note_job(job.id, job.spec_id)
            self._note_live(state, job)
        self._next = max(self._next, state.seq)

    def take(self, entries: Iterable[Entry]) -> None:
        """Gather what mail is wanted about; entries that were taken before are passed over."""
        for entry in entries:
            if entry.seq <= self._next:
                continue
            for record in entry.records:
                self._take(record, entry.at_us)
            self._next = entry.seq

    def _take(self, record: r.Record, at_us: Micros) -> None:
        match record:
            case r.ConfigApplied():
                self.config, self.cluster = record.config.mail, record.config.cluster_name
            case r.SpecStored():
                self._note_spec(record.spec_id, record.spec)
            case r.JobSubmitted():
                self._note_job(record.job, record.spec_id)
            case JobModified() if not record.firsts:
                # What is mailed is the whole job's, but for what has started.
                before = self._wish(record.job)
                self._note_job(record.job, record.spec_id)
                if self._wish(record.job) != before:
                    self._wishes.setdefault(record.job, Wishes(before))
                    self._new_wishes[record.job] = None
            case r.JobsForgotten():
                for job in record.jobs:
                    self._forget(job)
            case _ if self._jobs or self._wishes:
                self._take_attempts(record, at_us)
            case _:
                pass

    def _take_attempts(self, record: r.Record, at_us: Micros) -> None:
        """Gather what mail is wanted about of attempts."""
        match record:
            case r.BulkPlaced() if self._wishes:
                for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
                    self._place(job, (first, last))
            case r.GangPlaced() if self._wishes:
                self._place(record.job, (record.index, record.index))
            case r.Started():
                for job, index in zip(record.jobs, record.indices, strict=True):
                    self._add(job, index, 0, Notice.START, at_us)
            case r.Ended():
                columns = (record.jobs, record.indices, record.attempts, record.outcomes)
                for job, index, attempt, outcome in zip(*columns, strict=True):
                    notice = Notice.DONE if outcome == Outcome.DONE else Notice.EXIT
                    self._add(job, index, attempt, notice, at_us)
            case _:
                pass

    def _wish(self, job: JobId) -> int:
        """Return about what of a job mail is wanted now."""
        return self._specs.get(self._jobs.get(job, -1), 0)

    def _wish_of(self, job: JobId, index: Index) -> int:
        """Return about what mail is wanted of what was placed last of an element."""
        wishes = self._wishes.get(job)
        return self._wish(job) if wishes is None else wishes.of(index)

    def _place(self, job: JobId, run: tuple[Index, Index]) -> None:
        wishes = self._wishes.get(job)
        if wishes is not None:
            wishes.place(run, self._wish(job))
            self._new_wishes[job] = None

    def _note_live(self, state: ClusterState, job: Job) -> None:
        """Note with what the live attempts of a job were placed, where it is something else now."""
        for position in job.live or ():
            index, notices = job.index(position), state.spec_at(job, position).notices
            if notices != self._wish_of(job.id, index):
                wishes = self._wishes.setdefault(job.id, Wishes(self._wish(job.id)))
                wishes.place((index, index), notices)
                self._new_wishes[job.id] = None

    def _note_spec(self, spec_id: int, spec: JobSpec) -> None:
        if spec.notices:
            self._specs[spec_id] = self._new_specs[spec_id] = spec.notices

    def _note_job(self, job: JobId, spec_id: int) -> None:
        before = self._jobs.get(job)
        if before is None and not self._specs.get(spec_id):
            return
        self._jobs[job] = self._new_jobs[job] = spec_id
        self._uses[spec_id] += 1
        self._leave_spec(before)

    def _forget(self, job: JobId) -> None:
        before = self._jobs.pop(job, None)
        self._new_jobs.pop(job, None)
        if self._wishes.pop(job, None) is not None:
            self._new_wishes.pop(job, None)
            self._gone[job] = None
        if before is not None:
            self._gone[job] = None
            self._leave_spec(before)

    def _leave_spec(self, spec_id: int | None) -> None:
        """Note that a job has this spec no more; one that none has is stored anew when it is."""
        if spec_id is None:
            return
        self._uses[spec_id] -= 1
        if self._uses[spec_id] <= 0:
            del self._uses[spec_id]
            self._specs.pop(spec_id, None)
            self._new_specs.pop(spec_id, None)
            self._gone_specs[spec_id] = None

    def _add(self, job: JobId, index: Index, attempt: int, notice: Notice, at_us: Micros) -> None:
        if self.config.is_on and self._wish_of(job, index) & notice:
            # An element that begins again after it was requeued is another event.
            number = attempt or -(at_us // 1_000)
            self._rows[job, index, number, notice] = at_us

    @property
    def has_news(self) -> bool:
        """Whether there is something to store."""
        return self._next != self.seq

    def commit(self) -> bool:
        """Store what was gathered; return whether there are new messages.

        Raises:
            HistoryTakenError: Another process keeps the mail now.
            HistoryError: It may be tried again: what has come through already is not stored twice.
        """
        steps, dropped = self._steps()
        head = (self._next, _ENCODER.encode(self.config), self.cluster)
        claim = "UPDATE cursor SET seq = ?, config = ?, cluster = ? WHERE seq = ?"
        is_done = self._store.commit(steps, claim=(claim, (*head, self.seq)))
        if not is_done and self._store.rows(_CURSOR) != [head]:
            # Else an earlier try has come through whose answer was lost.
            raise HistoryTakenError(f"{self.place}: another process keeps the mail, too")
        has_new: bool = len(self._rows) > dropped
        self.seq = self._next
        self.dropped += dropped
        for kept in (
            self._rows, self._new_specs, self._new_jobs, self._gone, self._gone_specs,
            self._new_wishes,
        ):  # fmt: skip
            kept.clear()
        return has_new

    def _steps(self) -> tuple[list[Step], int]:
        """Return what is to be stored, and how many messages there is no room for."""
        messages, dropped = self._fitting()
        gone = [(job,) for job in self._gone]
        steps: list[Step] = [
            (_PUT_SPEC, list(self._new_specs.items())),
            (_PUT_JOB, list(self._new_jobs.items())),
            (_PUT_WISHES, [(job, _ENCODER.encode(self._wishes[job])) for job in self._new_wishes]),
            (_PUT_MESSAGE, messages),
            (
                "UPDATE jobs SET messages = messages + 1 WHERE job = ?",
                [row[:1] for row in messages],
            ),
            ("DELETE FROM jobs WHERE job = ?", gone),
            ("DELETE FROM wishes WHERE job = ?", gone),
            ("DELETE FROM specs WHERE spec_id = ?", [(one,) for one in self._gone_specs]),
        ]
        return steps, dropped

    def _fitting(self) -> tuple[list[Row], int]:
        """Return the messages that there is room for, and for how many there is none."""
        if not self._rows:
            return [], 0
        store = self._store
        ((waiting,),) = store.rows("SELECT count(*) FROM messages")
        jobs = list(dict.fromkeys(job for job, *_ in self._rows))
        among = store.dialect.among.format("job")
        counts: Counter[JobId] = Counter(
            dict(
                store.rows(
                    f"SELECT job, messages FROM jobs WHERE {among}", (store.dialect.numbers(jobs),)
                )
            )
        )
        taken: list[Row] = []
        for (job, index, attempt, notice), at_us in self._rows.items():
            if waiting + len(taken) < ROWS_MAX and counts[job] < JOB_MAX:
                taken.append((job, index, attempt, int(notice), at_us))
                counts[job] += 1
        return taken, len(self._rows) - len(taken)

    # Sending.

    def forget_leaving(self) -> list[Letter]:
        """Remove what was leaving when the writer ended: it may have been sent. Return it."""
        found = [_letter(row) for row in self._select("is_leaving = 1", (1 << 30,))]
        self._write("DELETE FROM messages WHERE is_leaving = 1")
        return found

    def due(self, now_us: Micros, limit: int) -> list[Letter]:
        """Return messages whose time has come, in order."""
        rows = self._select("is_leaving = 0 AND next_at_us <= ?", (now_us, limit))
        return [_letter(row) for row in rows]

    def next_at_us(self) -> Micros | None:
        """Return when the next message is to be tried; None: there is none."""
        ((found,),) = self._store.rows("SELECT min(next_at_us) FROM messages")
        return None if found is None else int(found)

    def leave(self, letter: Letter) -> None:
        """Mark a message as leaving, on the disk, before it does."""
        self._write("UPDATE messages SET is_leaving = 1 WHERE number = ?", letter.number)

    def remove(self, letter: Letter) -> None:
        """Forget a message that was sent, or never will be."""
        self._write("DELETE FROM messages WHERE number = ?", letter.number)

    def put_back(self, letter: Letter, next_at_us: Micros) -> None:
        """Have a message that was certainly not sent tried again later."""
        self._write(
            "UPDATE messages SET is_leaving = 0, tries = tries + 1, next_at_us = ? "
            "WHERE number = ?",
            next_at_us,
            letter.number,
        )

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def _select(self, where: str, values: tuple[int, ...]) -> list[tuple[int, ...]]:
        statement = (
            "SELECT number, job, idx, attempt, notice, at_us, tries FROM messages "
            f"WHERE {where} ORDER BY next_at_us, number LIMIT ?"
        )
        return self._store.rows(statement, values)

    def _write(self, statement: str, *values: int) -> None:
        self._store.commit([(statement, [values])])


def _letter(row: tuple[int, ...]) -> Letter:
    number, job, index, attempt, notice, at_us, tries = row
    return Letter(number, job, index, max(attempt, 0), Notice(notice), at_us, tries)
