"""The tables of the history store, and how a store of an earlier release becomes one of this.

Every question is answered along an index: by job, user, queue, name, and by when attempts ended.
An attempt that is over has one row in ``attempts``; whoever asks about usage counts these rows.
Tables are written as SQLite has them; `in_postgres` says the same to PostgreSQL.
"""

import enum
from typing import Final

from xce.journal.history_store import HistoryError, HistoryStore

SCHEMA_VERSION: Final = 3


class Happening(enum.IntEnum):
    """What an event of a job is. Numbers are stored; they never change."""

    HELD = 1
    UNHELD = 2
    MOVED = 3
    END_DECIDED = 4
    SIGNALED = 5
    STOP_ASKED = 6
    RESUME_ASKED = 7
    SUSPENDED = 8
    RESUMED = 9
    SYSTEM_STOPPED = 10
    SYSTEM_RESUMED = 11
    START_FAILED = 12
    REQUEUED = 13
    """An attempt is over, and the element pends again; the amount is why."""
    REOPENED = 14
    """The element had ended, and pends again; the amount is why."""
    UNKNOWN = 15
    """Nothing is heard of the first host."""
    KNOWN = 16
    MODIFIED = 17
    SWITCHED = 18
    """To another queue."""
    CHECKPOINT_ASKED = 19
    CHECKPOINTED = 20
    """A checkpoint is written."""
    CHECKPOINT_FAILED = 21
    HOST_LEFT_OUT = 22
    """It has lost a host that is not its first: that of the amount's number."""
    INELIGIBLE = 23
    """For so long, in microseconds, these pended while no session would try them, in all; written
    when the job left the state. Of job 0: the first job of which that is known."""


TO_HOLD: Final = "hold"
"""Text of a decided end: the element is held when it is gone."""
_TABLES: Final = (
    "CREATE TABLE schema (version INTEGER NOT NULL)",
    "CREATE TABLE cursor (seq INTEGER NOT NULL, crc INTEGER, epoch INTEGER NOT NULL)",
    "INSERT INTO cursor VALUES (0, 0, 0)",
    "CREATE TABLE hosts (number INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE TABLE specs (spec_id INTEGER PRIMARY KEY, spec BLOB NOT NULL)",
    "CREATE TABLE classes (cls INTEGER PRIMARY KEY, key BLOB NOT NULL, resreq TEXT NOT NULL)",
    """CREATE TABLE jobs (job INTEGER PRIMARY KEY, spec_id INTEGER NOT NULL, cls INTEGER NOT NULL,
    "user" TEXT NOT NULL, uid INTEGER NOT NULL, gid INTEGER NOT NULL, queue TEXT NOT NULL,
    name TEXT NOT NULL, submit_at_us INTEGER NOT NULL, size INTEGER NOT NULL, "array" BLOB,
    done INTEGER NOT NULL DEFAULT 0, exited INTEGER NOT NULL DEFAULT 0,
    project TEXT NOT NULL DEFAULT '', hold INTEGER NOT NULL DEFAULT 0)""",
    'CREATE INDEX jobs_by_user ON jobs ("user", job)',
    "CREATE INDEX jobs_by_name ON jobs (name, job)",
    """CREATE TABLE details (job INTEGER NOT NULL, idx INTEGER NOT NULL, detail TEXT NOT NULL,
    PRIMARY KEY (job, idx)) WITHOUT ROWID""",
)
# Where attempts run or ran that may have several hosts; of others their own row says it.
_PLACEMENTS: Final = """CREATE TABLE placements (job INTEGER NOT NULL, idx INTEGER NOT NULL,
attempt INTEGER NOT NULL, hosts BLOB NOT NULL, tasks BLOB NOT NULL,
PRIMARY KEY (job, idx, attempt)) WITHOUT ROWID"""
_ADDED: Final = (
    "CREATE INDEX jobs_by_queue ON jobs (queue, job)",
    # Attempts that are over. Outcome 0: the element went on with another one. One that was reopened
    # has ended the element, and then it was requeued.
    """CREATE TABLE attempts (job INTEGER NOT NULL, idx INTEGER NOT NULL, attempt INTEGER NOT NULL,
    outcome INTEGER NOT NULL, exit_code INTEGER NOT NULL, signal INTEGER NOT NULL,
    cause INTEGER NOT NULL, host INTEGER NOT NULL, placed_at_us INTEGER NOT NULL,
    started_at_us INTEGER NOT NULL, ended_at_us INTEGER NOT NULL, cpu_us INTEGER NOT NULL,
    max_mem_kib INTEGER NOT NULL, submit_at_us INTEGER NOT NULL, "user" TEXT NOT NULL,
    queue TEXT NOT NULL, is_reopened INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job, idx, attempt)) WITHOUT ROWID""",
    # With all that the sums need: a row elsewhere for each attempt would cost a page each.
    """CREATE INDEX attempts_by_end ON attempts (ended_at_us, outcome, submit_at_us, started_at_us,
    cpu_us)""",
    """CREATE INDEX attempts_by_user ON attempts ("user", ended_at_us, outcome, submit_at_us,
    started_at_us, cpu_us)""",
    "CREATE INDEX attempts_by_queue ON attempts (queue, ended_at_us)",
    """CREATE TABLE withdrawn (job INTEGER NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, cause INTEGER NOT NULL, by TEXT NOT NULL, at_us INTEGER NOT NULL,
    size INTEGER NOT NULL, submit_at_us INTEGER NOT NULL, "user" TEXT NOT NULL,
    queue TEXT NOT NULL, PRIMARY KEY (job, first)) WITHOUT ROWID""",
    "CREATE INDEX withdrawn_by_end ON withdrawn (at_us)",
    'CREATE INDEX withdrawn_by_user ON withdrawn ("user", at_us)',
    "CREATE INDEX withdrawn_by_queue ON withdrawn (queue, at_us)",
    # Attempts that were not over at the last commit.
    """CREATE TABLE live (job INTEGER NOT NULL, idx INTEGER NOT NULL, attempt INTEGER NOT NULL,
    host INTEGER NOT NULL, placed_at_us INTEGER NOT NULL, started_at_us INTEGER NOT NULL,
    pid INTEGER NOT NULL, PRIMARY KEY (job, idx)) WITHOUT ROWID""",
    # What happened to elements first..last beside being placed, started and ended.
    """CREATE TABLE events (number INTEGER PRIMARY KEY, job INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, at_us INTEGER NOT NULL, kind INTEGER NOT NULL,
    amount INTEGER NOT NULL, by TEXT NOT NULL, text TEXT NOT NULL)""",
    "CREATE INDEX events_by_job ON events (job, number)",
)
"""What schema 2 has beside schema 1."""
_AUDIT: Final = """CREATE TABLE IF NOT EXISTS audit (number INTEGER PRIMARY KEY,
seq INTEGER NOT NULL, at_us INTEGER NOT NULL, "user" TEXT NOT NULL, action TEXT NOT NULL,
about TEXT NOT NULL, basis TEXT NOT NULL, origin TEXT NOT NULL, result TEXT NOT NULL,
count INTEGER NOT NULL)"""
"""May stand in a file of either schema, or not."""
_APART: Final = "CREATE TABLE IF NOT EXISTS apart (job INTEGER PRIMARY KEY, runs BLOB NOT NULL)"
"""What was set apart of arrays, as `xce.journal.history_live.Apart`; may stand in any file."""
_UPGRADE_1: Final = (
    "ALTER TABLE jobs ADD COLUMN project TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE jobs ADD COLUMN hold INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE withdrawn RENAME TO withdrawn_1",
    *_ADDED,
    """INSERT INTO attempts SELECT e.job, e.idx, e.attempt, e.outcome, e.exit_code, e.signal,
    e.cause, e.host, e.started_at_us, e.started_at_us, e.ended_at_us, e.cpu_us, e.max_mem_kib,
    j.submit_at_us, j.user, j.queue, 0 FROM elements e JOIN jobs j USING (job)""",
    """INSERT INTO withdrawn SELECT w.job, w.first, w.last, w.cause, w.by, w.at_us,
    CASE WHEN j.array IS NULL THEN 1 ELSE w.last - w.first + 1 END, j.submit_at_us, j.user, j.queue
    FROM withdrawn_1 w JOIN jobs j USING (job)""",
    f"""INSERT INTO events SELECT number, job, first, last, 0, {int(Happening.END_DECIDED)}, cause,
    by, '' FROM decisions""",
    "DROP TABLE elements",
    "DROP TABLE withdrawn_1",
    "DROP TABLE decisions",
)
_UPGRADE_2: Final = (
    "ALTER TABLE placements RENAME TO placements_2",
    _PLACEMENTS,
    # It was kept for the last attempt only.
    """INSERT INTO placements SELECT p.job, p.idx, max(a.attempt), p.hosts, p.tasks
    FROM placements_2 p JOIN (SELECT job, idx, attempt FROM attempts UNION ALL
    SELECT job, idx, attempt FROM live) a ON a.job = p.job AND a.idx = p.idx
    GROUP BY p.job, p.idx""",
    "DROP TABLE placements_2",
)
TABLES: Final = (
    *_TABLES,
    _PLACEMENTS,
    *_ADDED,
    f"INSERT INTO schema VALUES ({SCHEMA_VERSION})",
)
TABLES_ADDED: Final = (_AUDIT, _APART)
"""Are made where they are missing."""
_NOW: Final = f"UPDATE schema SET version = {SCHEMA_VERSION}"
UPGRADES: Final = {1: (*_UPGRADE_1, *_UPGRADE_2, _NOW), 2: (*_UPGRADE_2, _NOW)}
"""What makes a file of an earlier release one of this."""


INSERT: Final = {
    "reopened": "UPDATE attempts SET is_reopened = 1 WHERE job = ? AND idx = ?",
    "details_gone": "DELETE FROM details WHERE job = ? AND idx = ?",
    "hosts": "INSERT INTO hosts VALUES (?, ?) ON CONFLICT DO NOTHING",
    "specs": "INSERT INTO specs VALUES (?, ?) ON CONFLICT DO NOTHING",
    "classes": "INSERT INTO classes VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
    "jobs": """INSERT INTO jobs (job, spec_id, cls, "user", uid, gid, queue, name, submit_at_us,
    size, "array", project, hold) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
    "modified": """UPDATE jobs SET spec_id = ?, cls = ?, queue = ?, name = ?, project = ?,
    "array" = ? WHERE job = ?""",
    "apart": """INSERT INTO apart VALUES (?, ?)
    ON CONFLICT (job) DO UPDATE SET runs = excluded.runs""",
    "placements": """INSERT INTO placements VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (job, idx, attempt) DO UPDATE SET hosts = excluded.hosts, tasks = excluded.tasks""",
    "attempts": "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "details": """INSERT INTO details VALUES (?, ?, ?)
    ON CONFLICT (job, idx) DO UPDATE SET detail = excluded.detail""",
    "withdrawn": "INSERT INTO withdrawn VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    # A run of jobs that are no arrays; what the row repeats of its job stands there already.
    "withdrawn_runs": """INSERT INTO withdrawn SELECT job, 0, 0, ?, ?, ?, 1, submit_at_us,
    "user", queue FROM jobs WHERE job BETWEEN ? AND ? AND "array" IS NULL""",
    "events": """INSERT INTO events (job, first, last, at_us, kind, amount, by, text)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
    "audit": """INSERT INTO audit (seq, at_us, "user", action, about, basis, origin, result, count)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
}
"""In the order in which a commit writes them; what was opened again comes first."""
LIVE_GONE: Final = "DELETE FROM live WHERE job = ? AND idx = ?"
LIVE_COME: Final = """INSERT INTO live VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job, idx) DO UPDATE SET attempt = excluded.attempt, host = excluded.host,
placed_at_us = excluded.placed_at_us, started_at_us = excluded.started_at_us, pid = excluded.pid"""
COUNTED: Final = "UPDATE jobs SET done = done + ?, exited = exited + ? WHERE job = ?"
KEYS: Final = {
    "hosts": ("number",),
    "specs": ("spec_id",),
    "classes": ("cls",),
    "jobs": ("job",),
    "details": ("job", "idx"),
    "placements": ("job", "idx", "attempt"),
    "attempts": ("job", "idx", "attempt"),
    "withdrawn": ("job", "first"),
    "live": ("job", "idx"),
    "events": ("number",),
    "audit": ("number",),
    "apart": ("job",),
}
"""The key of each table but ``schema`` and ``cursor``."""


def in_postgres(statement: str) -> str:
    """Return a statement that makes a table, or an index, as PostgreSQL has it."""
    for ours, theirs in (
        ("number INTEGER", "number BIGINT GENERATED BY DEFAULT AS IDENTITY"),
        ("INTEGER", "BIGINT"),
        ("BLOB", "BYTEA"),
        (" WITHOUT ROWID", ""),
    ):
        statement = statement.replace(ours, theirs)
    if "INDEX attempts_by_user" in statement:
        # SQLite has the key of a table in each of its indexes. The attempts of a user lie apart: to
        # read each one's key would cost a page each.
        statement = f"{statement.removesuffix(')')}, {', '.join(KEYS['attempts'])})"
    return statement


def check_schema(store: HistoryStore) -> None:
    """Check that a store is of this release.

    Raises:
        HistoryError: It is not.
    """
    ((version,),) = store.rows("SELECT version FROM schema")
    if version != SCHEMA_VERSION:
        raise HistoryError(
            f"{store.place}: has schema {version}, this release reads {SCHEMA_VERSION}; use the "
            "release that wrote it, or a later one"
        )
