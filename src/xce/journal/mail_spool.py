"""Mail that is to be sent, in a SQLite file of its own beside the history store.

It follows the journal with a cursor in the transaction of its rows, so that an event makes one row
whenever its writer dies. A row is marked before its message leaves: what was marked when the writer
died may have been sent, and is not sent again.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from xce.journal.history_schema import HistoryError
from xce.model import record as r
from xce.model.entry import Entry
from xce.model.ids import Index, JobId, Micros, Seq
from xce.model.job import JobSpec, Outcome
from xce.model.mail import MailConfig, Notice
from xce.model.record_modify import JobModified
from xce.state.cluster import ClusterState

ROWS_MAX: Final = 100_000
"""With so many messages that wait, no more are taken."""
JOB_MAX: Final = 1_000
"""Most messages about the elements of one job."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_CONFIG: Final = msgspec.msgpack.Decoder(MailConfig)
_TABLES: Final = (
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
    "CREATE INDEX IF NOT EXISTS messages_by_time ON messages (next_at_us, number)",
)


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


class MailSpool:
    """Gathers what mail is wanted about.

    Args:
        path: The database; made where there is none.

    Raises:
        HistoryError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = MailConfig()
        """As of the last entry; what happens while no mail is sent makes no rows."""
        self.cluster = ""
        self.dropped = 0
        """Messages that were not taken since there were too many."""
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            for statement in _TABLES:
                self._connection.execute(statement)
            (count,) = self._connection.execute("SELECT count(*) FROM cursor").fetchone()
            if not count:
                self._connection.execute(
                    "INSERT INTO cursor VALUES (0, ?, '')", (_ENCODER.encode(self.config),)
                )
            row = self._connection.execute("SELECT seq, config, cluster FROM cursor").fetchone()
            self.seq: Seq = row[0]
            self.config, self.cluster = _CONFIG.decode(row[1]), row[2]
            self._specs: dict[int, int] = dict(
                self._connection.execute("SELECT spec_id, notices FROM specs")
            )
            self._jobs: dict[JobId, int] = dict(
                self._connection.execute("SELECT job, spec_id FROM jobs")
            )
        except sqlite3.Error as error:
            raise HistoryError(f"{path}: {error}") from error
        self._uses = Counter(self._jobs.values())
        self._next: Seq = self.seq
        self._rows: dict[tuple[JobId, Index, int, Notice], Micros] = {}
        self._new_specs: dict[int, int] = {}
        self._new_jobs: dict[JobId, int] = {}
        self._gone: dict[JobId, None] = {}
        self._gone_specs: dict[int, None] = {}

    def begin(self, state: ClusterState) -> None:
        """Begin behind a snapshot: what mail is wanted about is known, what has happened is not."""
        self.config, self.cluster = state.config.mail, state.config.cluster_name
        for spec_id, spec in state.specs.items():
            self._note_spec(spec_id, spec)
        for job in state.jobs.values():
            self._note_job(job.id, job.spec_id)
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
                # What is mailed is the whole job's.
                self._note_job(record.job, record.spec_id)
            case r.Started() if self._jobs:
                for job, index in zip(record.jobs, record.indices, strict=True):
                    self._add(job, index, 0, Notice.START, at_us)
            case r.Ended() if self._jobs:
                columns = (record.jobs, record.indices, record.attempts, record.outcomes)
                for job, index, attempt, outcome in zip(*columns, strict=True):
                    notice = Notice.DONE if outcome == Outcome.DONE else Notice.EXIT
                    self._add(job, index, attempt, notice, at_us)
            case r.JobsForgotten():
                for job in record.jobs:
                    self._forget(job)
            case _:
                pass

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
        if self.config.is_on and self._specs.get(self._jobs.get(job, -1), 0) & notice:
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
            HistoryError: Nothing of it was stored; it may be tried again.
        """
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT OR REPLACE INTO specs VALUES (?, ?)", list(self._new_specs.items())
            )
            connection.executemany(
                "INSERT INTO jobs (job, spec_id) VALUES (?, ?) "
                "ON CONFLICT (job) DO UPDATE SET spec_id = excluded.spec_id",
                list(self._new_jobs.items()),
            )
            dropped = self._store_rows()
            connection.executemany("DELETE FROM jobs WHERE job = ?", [(job,) for job in self._gone])
            connection.executemany(
                "DELETE FROM specs WHERE spec_id = ?", [(one,) for one in self._gone_specs]
            )
            head = (self._next, _ENCODER.encode(self.config), self.cluster)
            connection.execute("UPDATE cursor SET seq = ?, config = ?, cluster = ?", head)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise HistoryError(f"{self.path}: {error}") from error
        has_new: bool = len(self._rows) > dropped
        self.seq = self._next
        self.dropped += dropped
        for kept in (self._rows, self._new_specs, self._new_jobs, self._gone, self._gone_specs):
            kept.clear()
        return has_new

    def _store_rows(self) -> int:
        """Add the messages that there is room for; return how many there was none for."""
        if not self._rows:
            return 0
        connection, dropped = self._connection, 0
        (waiting,) = connection.execute("SELECT count(*) FROM messages").fetchone()
        for (job, index, attempt, notice), at_us in self._rows.items():
            found = connection.execute("SELECT messages FROM jobs WHERE job = ?", (job,)).fetchone()
            if waiting >= ROWS_MAX or (found is not None and found[0] >= JOB_MAX):
                dropped += 1
                continue
            waiting += 1
            connection.execute(
                "INSERT OR IGNORE INTO messages (job, idx, attempt, notice, at_us) "
                "VALUES (?, ?, ?, ?, ?)",
                (job, index, attempt, int(notice), at_us),
            )
            connection.execute("UPDATE jobs SET messages = messages + 1 WHERE job = ?", (job,))
        return dropped

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
        (found,) = self._connection.execute("SELECT min(next_at_us) FROM messages").fetchone()
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
        self._connection.close()

    def _select(self, where: str, values: tuple[int, ...]) -> list[tuple[int, ...]]:
        statement = (
            "SELECT number, job, idx, attempt, notice, at_us, tries FROM messages "
            f"WHERE {where} ORDER BY next_at_us, number LIMIT ?"
        )
        return self._connection.execute(statement, values).fetchall()

    def _write(self, statement: str, *values: int) -> None:
        try:
            self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise HistoryError(f"{self.path}: {error}") from error


def _letter(row: tuple[int, ...]) -> Letter:
    number, job, index, attempt, notice, at_us, tries = row
    return Letter(number, job, index, max(attempt, 0), Notice(notice), at_us, tries)
