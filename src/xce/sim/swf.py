"""Job logs in Standard Workload Format: reading, header, cleaning.

The format is of the Parallel Workloads Archive: 18 columns of numbers, -1 for what is unknown,
header lines that begin with ``;``. Real files have quirks, which are taken: blanks before header
keys, no ``MaxProcs``, Unix times, blank lines, more columns.
"""

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from xce.model.errors import XceError

COLUMNS: Final = 18
_MOST: Final = 10**12
"""Larger numbers are no seconds, processors or kilobytes of any machine."""
_GZIP_MAGIC: Final = b"\x1f\x8b"


class SwfError(XceError):
    """A log cannot be read; the message names the file and the line."""


class SwfRecord(NamedTuple):
    """One line of a log, as it stands there; -1: unknown. Fractions are cut off."""

    job: int
    submit: int
    wait: int
    run: int
    processors: int
    """Allocated."""
    average_cpu: int
    used_memory: int
    processors_requested: int
    time_requested: int
    memory_requested: int
    status: int
    user: int
    group: int
    executable: int
    queue: int
    partition: int
    preceding_job: int
    think_time: int


class SwfLog(NamedTuple):
    """A log: what its header says, and its lines in order."""

    header: dict[str, str]
    """By key; the first of several lines with one key counts."""
    records: list[SwfRecord]

    @property
    def processors(self) -> int:
        """The machine's processors: ``MaxProcs``, else ``MaxNodes``; 0: neither is told."""
        for key in ("MaxProcs", "MaxNodes"):
            words = self.header.get(key, "").split()
            if words and words[0].isdecimal() and int(words[0]) > 0:
                return int(words[0])
        return 0


class SwfJob(NamedTuple):
    """A job to be simulated. Whole seconds."""

    number: int
    """Its number in the log."""
    submit: int
    run: int
    """Never more than was requested."""
    request: int
    """What the scheduler believes: the time requested, or the real one."""
    size: int
    """Processors."""
    user: int
    group: int
    queue: int


class Cleaning(NamedTuple):
    """Which lines become jobs, and how."""

    procs: int
    """The machine's processors."""
    model: bool = False
    """Take the run time for the time requested where that is missing; else drop such jobs."""
    field8_only: bool = False
    """Processors are what was requested; else the larger of requested and allocated."""
    actual: bool = False
    """The scheduler knows the real run times."""


def load_log(path: Path) -> SwfLog:
    """Read a log, packed with gzip or not.

    Raises:
        SwfError: It cannot be read, or a line is no job.
    """
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP_MAGIC):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SwfError(f"{path}: cannot be read: {why}") from error
    return parse_log(content.decode("utf-8", "replace").splitlines(), file=str(path))


def parse_log(lines: Iterable[str], *, file: str) -> SwfLog:
    """Return what the lines of a log say.

    Raises:
        SwfError: A line is no job.
    """
    header: dict[str, str] = {}
    records: list[SwfRecord] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(";"):
            key, colon, value = text.lstrip("; \t").partition(":")
            if colon:
                header.setdefault(key.strip(), value.strip())
        elif text:
            words = text.split()
            if len(words) < COLUMNS:
                raise SwfError(
                    f"{file}:{number}: has {len(words)} columns; a job has {COLUMNS} of them"
                )
            records.append(_record(words, file, number))
    return SwfLog(header, records)


def _record(words: list[str], file: str, number: int) -> SwfRecord:
    try:
        record = SwfRecord(*map(int, words[:COLUMNS]))
    except ValueError:
        try:
            record = SwfRecord(*(int(float(word)) for word in words[:COLUMNS]))
        except (ValueError, OverflowError) as error:
            why = str(error)[:100]
            raise SwfError(f"{file}:{number}: {why}; every column is a number") from error
    if max(record) > _MOST or min(record) < -_MOST:
        raise SwfError(f"{file}:{number}: no column holds more than {_MOST:,}")
    return record


def clean(
    records: Sequence[SwfRecord], rule: Cleaning, *, limit: int = 0
) -> tuple[list[SwfJob], dict[str, int]]:
    """Return the jobs of a log in order of (submit, position), and how many were dropped for what.

    Args:
        records: The lines.
        rule: Which of them are jobs.
        limit: At most so many jobs are taken, the first ones in order; 0: all.
    """
    jobs: list[SwfJob] = []
    dropped: Counter[str] = Counter()
    for record in records:
        size = record.processors_requested
        if not rule.field8_only:
            size = max(size, record.processors)
        request = record.time_requested
        if rule.model and request <= 0:
            request = record.run
        why = _objection(record, size, request, rule)
        if why:
            dropped[why] += 1
            continue
        run = min(record.run, request)
        believed = run if rule.actual else request
        jobs.append(
            SwfJob(
                record.job, record.submit, run, believed, size,
                record.user, record.group, record.queue,
            )
        )  # fmt: skip
    jobs.sort(key=_submit)
    return (jobs[:limit] if limit else jobs), dict(dropped)


def _submit(job: SwfJob) -> int:
    return job.submit


def _objection(record: SwfRecord, size: int, request: int, rule: Cleaning) -> str:
    """Return why a line is no job that could be simulated; empty: it is one."""
    if size <= 0:
        return "no processors"
    if size > rule.procs:
        return "wider than the machine"
    if record.run <= 0:
        return "no run time"
    if request <= 0:
        return "no requested time"
    return "negative submit time" if record.submit < 0 else ""
