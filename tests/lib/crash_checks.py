"""What must be true after a crash run: one end for each element, and nothing left anywhere."""

import collections
import contextlib
import functools
from pathlib import Path
from typing import NamedTuple

from live import Live, Row, until

from xce.journal.history_reader import HistoryReader
from xce.journal.past import PastJob
from xce.journal.recover import read_entries
from xce.journal.sqlite import open_sqlite_reader
from xce.model.job import Outcome
from xce.model.record import Ended

LOST = ("TERM_STATUS_LOST", "TERM_HOST_RESTARTED")


class Wanted(NamedTuple):
    """An acknowledged job."""

    job: int
    name: str
    size: int
    """Elements; 0: no array."""
    exit_code: int
    dependency: str = ""
    is_killed: bool = False
    has_output: bool = False

    @property
    def indices(self) -> list[int]:
        """The indices of its elements; 0 without an array."""
        return list(range(1, self.size + 1)) or [0]


class Killed(NamedTuple):
    """A process that was killed."""

    at: float
    kind: str
    name: str


def check_rows(live: Live, wanted: dict[int, Wanted], sent: set[str]) -> dict[tuple[int, int], Row]:
    """Check that every acknowledged element has one end, and that no job is there twice."""
    rows = live.rows(("user", "all"), ("finished", "1"))
    ends: dict[tuple[int, int], Row] = {}
    for row in rows:
        for number in range(row.get("count", 1)):
            key = (row["jobid"], row["index"] + number * row.get("step", 1))
            assert key not in ends, f"{key} is listed twice"
            ends[key] = row
    names = collections.Counter({row["jobid"]: 0 for row in rows})
    jobs_of: dict[str, set[int]] = {}
    for row in rows:
        names[row["jobid"]] += row.get("count", 1)
        jobs_of.setdefault(row["name"].split("[")[0], set()).add(row["jobid"])
    twice = {name: jobs for name, jobs in jobs_of.items() if len(jobs) > 1}
    assert not twice, f"submitted once, there twice: {twice}"
    assert jobs_of.keys() <= sent
    assert set(names) == set(wanted), (
        f"unknown: {sorted(set(names) - set(wanted))[:9]}, "
        f"missing: {sorted(set(wanted) - set(names))[:9]}"
    )
    for job, one in wanted.items():
        for index in one.indices:
            row = ends[job, index]
            assert row["stat"] in ("DONE", "EXIT"), row
    return ends


def check_ledger(
    ledger: Path, wanted: dict[int, Wanted], ends: dict[tuple[int, int], Row], killed: list[Killed]
) -> None:
    """Check what ran against what the cluster says of it."""
    for job, one in wanted.items():
        for index in one.indices:
            row = ends[job, index]
            path = ledger / f"{job}.{index}"
            lines = path.read_text().splitlines() if path.exists() else []
            begun = lines.count(f"b {job} {index} {row['attempt']}")
            ended = lines.count(f"e {job} {index} {row['attempt']}")
            tale = f"{one}, {row}, {lines}"
            assert len(lines) == begun + ended, f"another attempt ran: {tale}"
            assert begun <= 1, f"ran more than once: {tale}"
            assert ended <= begun, f"ran more than once: {tale}"
            if one.has_output and begun:
                check_report(ledger.parent / "out" / f"{job}.{index}", row, killed)
            # No job shell is killed, so each leaves its status (decision X-24).
            assert row["cause"] not in LOST, f"its status was lost: {tale}"
            if one.is_killed:
                assert row["cause"] == "TERM_OWNER", tale
                assert not ended, tale
            elif one.dependency and not begun:
                # What it waited for ended otherwise than it hoped.
                assert row["stat"] == "EXIT", tale
                assert row["cause"] == "TERM_ORPHAN_SYSTEM", tale
            else:
                assert ended == 1, f"did not run to its end: {tale}"
                assert row["stat"] == ("EXIT" if one.exit_code else "DONE"), tale
                assert row["exit_code"] == one.exit_code, tale
    assert len(list(ledger.iterdir())) <= len(ends)


def check_report(output: Path, row: Row, killed: list[Killed]) -> None:
    """Check that the job's report was added to its output once.

    It is left out rather than added twice where the shepherd was killed meanwhile.
    """
    text = output.read_text()
    count = text.count("Resource usage summary")
    assert count <= 1, f"{output} has {count} reports: {row}"
    assert count or _was_shepherd_killed(row, killed), f"{output} has no report: {row}"


def _was_shepherd_killed(row: Row, killed: list[Killed]) -> bool:
    """Whether the shepherd of a job's host was killed while the job ran or just before it."""
    host = row["hosts"][0][0] if row["hosts"] else ""
    return any(
        one.kind == "shepherd" and one.name == host and one.at <= (row["end_at"] or 0) + 1
        and one.at >= (row["start_at"] or row["submit_at"]) - 1
        for one in killed
    )  # fmt: skip


def check_history(live: Live, wanted: dict[int, Wanted], ends: dict[tuple[int, int], Row]) -> None:
    """Check that the history says of each element what the cluster says."""
    with contextlib.closing(HistoryReader(live.layout.history_file)) as history:
        last = max(wanted)
        until(lambda: history.job(last) is not None, "the history has the last job")
        for job, one in wanted.items():
            past = until(
                functools.partial(_finished, history, job),
                f"the history knows how job {job} ended",
                patience_s=10,
            )
            there = {element.index: element for element in past.elements}
            gone = len(one.indices) - len(there)
            assert gone == sum((job, index) in ends and index not in there for index in one.indices)
            for index, element in there.items():
                row = ends[job, index]
                wanted_outcome = Outcome.DONE if row["stat"] == "DONE" else Outcome.EXIT
                assert element.ended.outcome == wanted_outcome, (row, element)


def _finished(history: HistoryReader, job: int) -> PastJob | None:
    past = history.job(job)
    return past if past is not None and past.is_finished else None


def check_rest_is_clean(live: Live) -> None:
    """Check that nothing is used any more and nothing of any job is left on the hosts."""
    until(lambda: not live.job_processes(), "no process of a job is left", patience_s=15)
    with live.api() as api:
        for host in api.call("GET", "/hosts")["hosts"]:
            used = (host["njobs"], host["run"], host["ssusp"], host["ususp"], host["rsv"])
            assert used == (0, 0, 0, 0, 0), host
            assert host["status"] == "ok", host
            assert all(amount[1] == 0 for amount in host["counters"].values()), host
            assert host["mem_used_mib"] == 0, host

    def left() -> list[str]:
        return [
            entry.name
            for runs in live.layout.hosts.glob("*/attempts")
            for entry in runs.iterdir()
            if entry.name[0].isdigit()
        ]

    until(lambda: not live.job_groups(), "control groups are removed", patience_s=15)
    try:
        until(lambda: not left(), "run directories are cleaned", patience_s=15)
    except AssertionError as error:
        raise AssertionError(f"{error}: {left()[:9]}") from None


def check_journal(live: Live, wanted: dict[int, Wanted]) -> None:
    """Check that the journal is whole and that each element ends once in what it still holds."""
    said = live.xceadmin("journal", "verify")
    assert "DAMAGED" not in said, said
    journal = open_sqlite_reader(live.layout.journal)
    counts: collections.Counter[tuple[int, int]] = collections.Counter()
    try:
        snapshot = journal.load_snapshot() if journal.first_seq() > 1 else None
        seq, crc = (snapshot.seq, snapshot.crc) if snapshot is not None else (0, 0)
        for entries, _ in read_entries(journal, seq, crc):
            for entry in entries:
                for record in entry.records:
                    if isinstance(record, Ended):
                        counts.update(zip(record.jobs, record.indices, strict=True))
    finally:
        journal.close()
    twice = {key for key, count in counts.items() if count > 1}
    assert not twice, f"ended more than once: {sorted(twice)[:9]}"
    assert {job for job, _ in counts} <= set(wanted)
