"""The history store: what was submitted and how it ended, for ever, in a SQLite file of its own.

It is made from records only and knows how far it came: the cursor is written in the transaction of
the rows, so an entry is stored once, whenever the writer dies.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from xce.journal.audit import OF_USERS, rows_of
from xce.model import record as r
from xce.model.entry import Entry
from xce.model.errors import XceError
from xce.model.ids import Epoch, Micros, Seq
from xce.model.job import EndCause, Outcome
from xce.model.ranges import Ranges
from xce.state.cluster import ClusterState
from xce.state.job import CHUNK, Job

SCHEMA_VERSION: Final = 1
_REMEMBERED: Final = 50_000
"""Most names and queues that are kept in memory between commits."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_SCHEMA: Final = (
    "CREATE TABLE schema (version INTEGER NOT NULL)",
    "CREATE TABLE cursor (seq INTEGER NOT NULL, crc INTEGER, epoch INTEGER NOT NULL)",
    "INSERT INTO cursor VALUES (0, 0, 0)",
    "CREATE TABLE hosts (number INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE TABLE specs (spec_id INTEGER PRIMARY KEY, spec BLOB NOT NULL)",
    "CREATE TABLE classes (cls INTEGER PRIMARY KEY, key BLOB NOT NULL, resreq TEXT NOT NULL)",
    """CREATE TABLE jobs (job INTEGER PRIMARY KEY, spec_id INTEGER NOT NULL, cls INTEGER NOT NULL,
    user TEXT NOT NULL, uid INTEGER NOT NULL, gid INTEGER NOT NULL, queue TEXT NOT NULL,
    name TEXT NOT NULL, submit_at_us INTEGER NOT NULL, size INTEGER NOT NULL, array BLOB,
    done INTEGER NOT NULL DEFAULT 0, exited INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX jobs_by_user ON jobs (user, job)",
    "CREATE INDEX jobs_by_name ON jobs (name, job)",
    """CREATE TABLE elements (job INTEGER NOT NULL, idx INTEGER NOT NULL,
    outcome INTEGER NOT NULL, exit_code INTEGER NOT NULL, signal INTEGER NOT NULL,
    cause INTEGER NOT NULL, attempt INTEGER NOT NULL, host INTEGER NOT NULL,
    started_at_us INTEGER NOT NULL, ended_at_us INTEGER NOT NULL, cpu_us INTEGER NOT NULL,
    max_mem_kib INTEGER NOT NULL, PRIMARY KEY (job, idx)) WITHOUT ROWID""",
    """CREATE TABLE details (job INTEGER NOT NULL, idx INTEGER NOT NULL, detail TEXT NOT NULL,
    PRIMARY KEY (job, idx)) WITHOUT ROWID""",
    """CREATE TABLE withdrawn (job INTEGER NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, cause INTEGER NOT NULL, by TEXT NOT NULL, at_us INTEGER NOT NULL,
    PRIMARY KEY (job, first)) WITHOUT ROWID""",
    # Where elements that need several hosts run or ran; of others the element's row says it.
    """CREATE TABLE placements (job INTEGER NOT NULL, idx INTEGER NOT NULL, hosts BLOB NOT NULL,
    tasks BLOB NOT NULL, PRIMARY KEY (job, idx)) WITHOUT ROWID""",
    """CREATE TABLE decisions (number INTEGER PRIMARY KEY, job INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, cause INTEGER NOT NULL, by TEXT NOT NULL)""",
    "CREATE INDEX decisions_by_job ON decisions (job, number)",
)
_REQUEUES: Final = """CREATE TABLE IF NOT EXISTS requeues (job INTEGER NOT NULL,
idx INTEGER NOT NULL, cause INTEGER NOT NULL, at_us INTEGER NOT NULL, detail TEXT NOT NULL,
PRIMARY KEY (job, idx)) WITHOUT ROWID"""
"""Why elements were requeued last. Stores of the first release have no such table."""
_AUDIT: Final = """CREATE TABLE IF NOT EXISTS audit (number INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL, at_us INTEGER NOT NULL, user TEXT NOT NULL, action TEXT NOT NULL,
    about TEXT NOT NULL, basis TEXT NOT NULL, origin TEXT NOT NULL, result TEXT NOT NULL,
    count INTEGER NOT NULL)"""
"""Came later than the others, so it may be missing in a file of an earlier release."""
_INSERT: Final = {
    "reopened": "DELETE FROM elements WHERE job = ? AND idx = ?",
    "hosts": "INSERT OR IGNORE INTO hosts VALUES (?, ?)",
    "specs": "INSERT OR IGNORE INTO specs VALUES (?, ?)",
    "classes": "INSERT OR IGNORE INTO classes VALUES (?, ?, ?)",
    "jobs": "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)",
    "placements": "INSERT OR REPLACE INTO placements VALUES (?, ?, ?, ?)",
    "decisions": "INSERT INTO decisions (job, first, last, cause, by) VALUES (?, ?, ?, ?, ?)",
    "elements": "INSERT INTO elements VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "requeues": "INSERT OR REPLACE INTO requeues VALUES (?, ?, ?, ?, ?)",
    "details": "INSERT OR REPLACE INTO details VALUES (?, ?, ?)",
    "withdrawn": "INSERT INTO withdrawn VALUES (?, ?, ?, ?, ?, ?)",
    "audit": """INSERT INTO audit (seq, at_us, user, action, about, basis, origin, result, count)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
}
"""In the order in which a commit writes them; what was opened again is taken out first."""


class HistoryError(XceError):
    """The history store cannot be used; the message says why and what to do."""


class HistoryWriter:
    """Gathers rows from entries and commits them with the cursor.

    Args:
        path: The database; made where there is none.

    Raises:
        HistoryError: It cannot be opened, or is of another release.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
            self._connection.execute("PRAGMA journal_mode = WAL")
            # What is reported as stored may be dropped from the journal: it must be on the disk.
            self._connection.execute("PRAGMA synchronous = FULL")
            self._open()
        except sqlite3.Error as error:
            raise HistoryError(f"{path}: {error}") from error
        seq, crc, epoch = self._connection.execute("SELECT seq, crc, epoch FROM cursor").fetchone()
        self.seq: Seq = seq
        """The last entry of which everything is stored."""
        self.crc: int | None = crc
        self.epoch: Epoch = epoch
        found = self._connection.execute("SELECT name FROM hosts ORDER BY number")
        self._hosts: list[str] = [name for (name,) in found]
        self._names: dict[int, str] = {}
        self._queues: dict[int, str] = {}
        """Job names of specs and queues of classes, as far as remembered."""
        self._next = (self.seq, self.crc, self.epoch)
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _INSERT}
        self._at_us: Micros = 0
        """Of the entry whose records are taken."""
        self._done: Counter[int] = Counter()
        self._exited: Counter[int] = Counter()

    def _open(self) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("INSERT INTO schema VALUES (?)", (SCHEMA_VERSION,))
        connection.execute(_REQUEUES)
        connection.execute(_AUDIT)
        connection.execute("COMMIT")
        check_history_schema(connection, self.path)

    @property
    def pending_rows(self) -> int:
        """How many rows wait for the next commit."""
        return sum(map(len, self._rows.values()))

    @property
    def has_news(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._next[0] != self.seq)

    def take(self, entries: Sequence[Entry], *, crc: int | None, epoch: Epoch) -> None:
        """Gather the rows of entries that follow.

        Args:
            entries: In order, behind the last ones taken.
            crc: The checksum of the last one.
            epoch: The reign under which they came.
        """
        for entry in entries:
            self._at_us = entry.at_us
            for record in entry.records:
                take = _TAKE.get(type(record))
                if take is not None:
                    take(self, record)
            if entry.cause.kind in OF_USERS:
                self._audit(entry)
        self._next = (entries[-1].seq, crc, epoch)

    def commit(self) -> None:
        """Store what was gathered, and how far it reaches.

        Raises:
            HistoryError: Nothing of it was stored; it may be tried again.
        """
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for name, statement in _INSERT.items():
                if self._rows[name]:
                    connection.executemany(statement, self._rows[name])
            connection.executemany(
                "UPDATE jobs SET done = done + ?, exited = exited + ? WHERE job = ?",
                [
                    (self._done.get(job, 0), self._exited.get(job, 0), job)
                    for job in {**self._done, **self._exited}
                ],
            )
            connection.execute("UPDATE cursor SET seq = ?, crc = ?, epoch = ?", self._next)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise HistoryError(f"{self.path}: {error}") from error
        self.seq, self.crc, self.epoch = self._next
        for rows in self._rows.values():
            rows.clear()
        self._done.clear()
        self._exited.clear()
        for known in (self._names, self._queues):
            if len(known) > _REMEMBERED:
                known.clear()

    def begin(self, state: ClusterState, *, epoch: Epoch) -> None:
        """Gather the rows of a whole state: the beginning of a history that begins late.

        Raises:
            HistoryError: There is history already: entries between it and this state are lost.
        """
        if self.seq or self.has_news:
            raise HistoryError(
                f"{self.path}: has everything up to entry {self._next[0]}, and was given the state "
                f"at entry {state.seq} to go on from: what happened between is lost, or the "
                "journal is another one. Move the history file away to begin a new one"
            )
        self._add_hosts(state.hosts.names)
        for spec_id, spec in state.specs.items():
            self._rows["specs"].append((spec_id, _ENCODER.encode(spec)))
            self._names[spec_id] = spec.name
        for cls, found in state.classes.items():
            self._rows["classes"].append((cls, _ENCODER.encode(found.key), found.resreq))
            self._queues[cls] = found.key.queue
        for job in state.jobs.values():
            self._add_present(job)
        self._next = (state.seq, None, epoch)

    def close(self) -> None:
        """Close the file; what was not committed comes again from the journal."""
        self._connection.close()

    def _audit(self, entry: Entry) -> None:
        """Gather what an entry tells about users."""
        self._rows["audit"].extend(
            (
                row.seq, round(row.at * 1_000_000), row.user, row.action, row.about, row.basis,
                row.origin, row.result, row.count,
            )
            for row in rows_of(entry, self._hosts)
        )  # fmt: skip

    # Each of these gathers the rows of one kind of record.

    def _add_hosts(self, names: Iterable[str]) -> None:
        self._hosts = list(names)
        self._rows["hosts"].extend(enumerate(self._hosts))

    def _config(self, record: r.ConfigApplied) -> None:
        self._add_hosts(record.hosts)

    def _spec(self, record: r.SpecStored) -> None:
        self._rows["specs"].append((record.spec_id, _ENCODER.encode(record.spec)))
        self._names[record.spec_id] = record.spec.name

    def _class(self, record: r.ClassStored) -> None:
        self._rows["classes"].append((record.cls, _ENCODER.encode(record.key), record.resreq))
        self._queues[record.cls] = record.key.queue

    def _submitted(self, record: r.JobSubmitted) -> None:
        owner, array = record.owner, record.array
        self._rows["jobs"].append(
            (
                record.job, record.spec_id, record.cls, owner.user, owner.uid, owner.gid,
                self._queue(record.cls), self._name(record.spec_id), record.submit_at_us,
                1 if array is None else array.count,
                None if array is None else _ENCODER.encode(array),
            )
        )  # fmt: skip

    def _name(self, spec_id: int) -> str:
        """Return the job name of a spec; one stored before this process began is read back."""
        name = self._names.get(spec_id)
        if name is None:
            (content,) = self._connection.execute(
                "SELECT spec FROM specs WHERE spec_id = ?", (spec_id,)
            ).fetchone()
            name = self._names[spec_id] = msgspec.msgpack.decode(content)[0]
        return name

    def _queue(self, cls: int) -> str:
        queue = self._queues.get(cls)
        if queue is None:
            (content,) = self._connection.execute(
                "SELECT key FROM classes WHERE cls = ?", (cls,)
            ).fetchone()
            queue = self._queues[cls] = msgspec.msgpack.decode(content)[1]
        return queue

    def _placed(self, record: r.GangPlaced) -> None:
        self._rows["placements"].append(
            (
                record.job,
                record.index,
                _ENCODER.encode(record.hosts),
                _ENCODER.encode(record.tasks),
            )
        )

    def _decided(self, record: r.EndDecided) -> None:
        for run in zip(record.jobs, record.firsts, record.lasts, strict=True):
            self._rows["decisions"].append((*run, int(record.cause), record.by))

    def _ended(self, record: r.Ended) -> None:
        self._rows["elements"].extend(
            zip(
                record.jobs, record.indices, record.outcomes, record.exit_codes, record.signals,
                record.causes, record.attempts, record.hosts, record.started_at_us,
                record.ended_at_us, record.cpu_us, record.max_mem_kib, strict=True,
            )
        )  # fmt: skip
        for job, outcome in zip(record.jobs, record.outcomes, strict=True):
            (self._done if outcome == Outcome.DONE else self._exited)[job] += 1
        for place, detail in record.details:
            self._rows["details"].append((record.jobs[place], record.indices[place], detail))

    def _reopened(self, record: r.Reopened) -> None:
        """Forget how elements ended; what becomes of them follows."""
        gone = set(zip(record.jobs, record.indices, strict=True))
        for name in ("elements", "details"):
            self._rows[name] = [row for row in self._rows[name] if row[:2] not in gone]
        self._rows["reopened"].extend(gone)
        for job, outcome in zip(record.jobs, record.outcomes, strict=True):
            (self._done if outcome == Outcome.DONE else self._exited)[job] -= 1
        self._rows["requeues"].extend(
            (job, index, int(record.cause), self._at_us, "")
            for job, index in zip(record.jobs, record.indices, strict=True)
        )

    def _requeued(self, record: r.Requeued) -> None:
        details = dict(record.details)
        causes = record.causes or [int(EndCause.PREEMPT)] * len(record.jobs)
        rows = zip(record.jobs, record.indices, causes, strict=True)
        for place, (job, index, cause) in enumerate(rows):
            self._rows["requeues"].append((job, index, cause, self._at_us, details.get(place, "")))

    def _withdrawn(self, record: r.Withdrawn) -> None:
        # How many elements a run has depends on the array: the reader counts them.
        for job, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
            self._rows["withdrawn"].append(
                (job, first, last, int(record.cause), record.by, record.at_us)
            )

    def _add_present(self, job: Job) -> None:
        """Gather the rows of a job of the state."""
        self._submitted(
            r.JobSubmitted(
                job.id, job.spec_id, job.cls, job.owner, job.submit_at_us, array=job.array
            )
        )
        for position, attempt in (job.live or {}).items():
            index = job.index(position)
            if len(attempt.hosts) > 1 or attempt.tasks[0] > 1:
                self._placed(r.GangPlaced(attempt.cls, job.id, index, attempt.hosts, attempt.tasks,
                                          attempt.placed_at_us))  # fmt: skip
            if attempt.end_cause:
                self._rows["decisions"].append(
                    (job.id, index, index, int(attempt.end_cause), attempt.end_by)
                )
        for position, detail in (job.details or {}).items():
            self._rows["details"].append((job.id, job.index(position), detail))
        for position, requeue in (job.requeues or {}).items():
            self._rows["requeues"].append(
                (job.id, job.index(position), requeue.cause, requeue.at_us, requeue.detail)
            )
        causes = self._add_ended(job)
        for position, by in (job.ended_by or {}).items():
            index = job.index(position)
            self._rows["decisions"].append((job.id, index, index, causes.get(position, 0), by))
        for item in job.withdrawn:
            for first, last in _index_ranges(job, item.ranges):
                self._rows["withdrawn"].append(
                    (job.id, first, last, int(item.cause), item.by, item.at_us)
                )

    def _add_ended(self, job: Job) -> dict[int, int]:
        """Gather the ended elements of a job; return the cause of each that has one."""
        ended = [(0, job.ended)] if job.ended is not None else []
        for number, chunk in (job.chunks or {}).items():
            for place in np.flatnonzero(chunk.rows["outcome"]).tolist():
                found = chunk.load(place)
                if found is not None:
                    ended.append((number * CHUNK + place, found))
        for position, item in ended:
            self._rows["elements"].append(
                (
                    job.id, job.index(position), item.outcome, item.exit_code, item.signal,
                    item.cause, item.attempt, item.host, item.started_at_us, item.ended_at_us,
                    item.cpu_us, item.max_mem_kib,
                )
            )  # fmt: skip
            (self._done if item.outcome == Outcome.DONE else self._exited)[job.id] += 1
        return {position: item.cause for position, item in ended if item.cause}


def _index_ranges(job: Job, ranges: Ranges) -> list[tuple[int, int]]:
    return [(job.index(first), job.index(last)) for first, last in ranges]


def check_history_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a file is a history store of this release.

    Raises:
        HistoryError: It is not.
    """
    (version,) = connection.execute("SELECT version FROM schema").fetchone()
    if version != SCHEMA_VERSION:
        raise HistoryError(
            f"{path}: has schema {version}, this release reads {SCHEMA_VERSION}; use the release "
            "that wrote it, or a later one"
        )


_TAKE: Final[dict[type, Callable[[HistoryWriter, Any], None]]] = {
    r.ConfigApplied: HistoryWriter._config,  # noqa: SLF001 - a table of this class's own methods
    r.SpecStored: HistoryWriter._spec,  # noqa: SLF001
    r.ClassStored: HistoryWriter._class,  # noqa: SLF001
    r.JobSubmitted: HistoryWriter._submitted,  # noqa: SLF001
    r.GangPlaced: HistoryWriter._placed,  # noqa: SLF001
    r.EndDecided: HistoryWriter._decided,  # noqa: SLF001
    r.Reopened: HistoryWriter._reopened,  # noqa: SLF001
    r.Requeued: HistoryWriter._requeued,  # noqa: SLF001
    r.Ended: HistoryWriter._ended,  # noqa: SLF001
    r.Withdrawn: HistoryWriter._withdrawn,  # noqa: SLF001
}
