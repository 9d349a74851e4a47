"""How fast a history of many jobs answers, and how fast it is filled. One JSON line each.

python bench/history.py [JOBS]        (default 10,000,000; about 400 bytes of disk a job)
python bench/history.py JOBS postgres (a PostgreSQL of its own; about 600 bytes of disk a job)
"""

import contextlib
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "lib"))
sys.path.insert(0, str(Path(__file__).parent))
from cluster import report
from postgres import open_postgres

from xce.journal.course import tell_courses
from xce.journal.history import HistoryWriter
from xce.journal.history_postgres import PostgresHistory
from xce.journal.history_reader import HistoryReader
from xce.journal.history_search import START, Search
from xce.journal.postgres_line import PostgresTarget
from xce.testing.builders import cluster, run_job, submission, submit

USERS, QUEUES = 500, 20
DAY_US = 86_400_000_000
SPAN_US = 365 * DAY_US
BEGIN_US = 1_700_000_000_000_000
ALL = ((0, 1 << 62),)
FILLED = 5_000
"""So many real jobs, with all their entries, are stored by the writer."""
AT_ONCE = 8_000
"""Entries of one commit: some 20,000 rows."""


def fill(place):
    """Store real jobs; return how many a second."""
    controller = cluster(["h1"])
    for _ in range(FILLED):
        run_job(controller, submit(controller, submission(name="real")))
    writer = HistoryWriter(place)
    start = time.monotonic()
    for first in range(0, len(controller.entries), AT_ONCE):
        writer.take(controller.entries[first : first + AT_ONCE], crc=1, epoch=1)
        writer.commit()
    seconds = time.monotonic() - start
    writer.close()
    return round(FILLED / seconds)


def make_store(place, count):
    """Make a store of real jobs, then many like them, over a year."""
    report("history-filled", jobs_per_s=fill(place))
    writer = HistoryWriter(place)
    if isinstance(place, Path):
        writer.store.connection.execute("PRAGMA synchronous = OFF")
        writer.store.connection.execute("PRAGMA cache_size = -400000")
    step = SPAN_US // count
    for first in range(FILLED + 1, count + 1, 500_000):
        last = min(first + 500_000 - 1, count)
        numbers = (
            f"WITH RECURSIVE n(i) AS (SELECT CAST({first} AS BIGINT) UNION ALL "
            f"SELECT i + 1 FROM n WHERE i < {last})"
        )
        user, queue = f"'u' || (i * 7919 % {USERS})", f"'q' || (i * 31 % {QUEUES})"
        at = f"{BEGIN_US} + i * {step}"
        jobs = (
            f"INSERT INTO jobs {numbers} SELECT i, 1, 1, {user}, 1, 1, {queue}, 'name' || (i / 50), "
            f"{at}, 1, NULL, 1, 0, 'default', 0 FROM n"
        )
        attempts = (
            f"INSERT INTO attempts {numbers} SELECT i, 0, 1, CASE WHEN i % 10 = 0 THEN 2 ELSE 1 END, "
            f"0, 0, 0, 0, {at} + 5000000, {at} + 6000000, {at} + 6000000 + i * 104729 % 3600000000, "
            f"1000000, 14000, {at}, {user}, {queue}, 0 FROM n"
        )
        writer.store.commit([(jobs, [()]), (attempts, [()])])
    writer.close()


@contextlib.contextmanager
def open_place(kind, directory):
    """Give where the history goes, and what tells how large it is."""
    if kind != "postgres":
        path = directory / "history.db"
        yield path, lambda: path.stat().st_size
        return
    with open_postgres() as server:
        dsn = server.make_database("bench")

        def size():
            server.sql("VACUUM ANALYZE", database="bench")  # as the database itself does in time
            return int(server.sql("SELECT pg_database_size('bench')"))

        yield PostgresHistory(PostgresTarget(dsn)), size


def measured(question, rounds=7):
    """Return the median and the largest of some milliseconds."""
    times = []
    for number in range(rounds):
        start = time.perf_counter()
        question(number)
        times.append((time.perf_counter() - start) * 1000)
    return round(statistics.median(times), 2), round(max(times), 2)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    kind = sys.argv[2] if len(sys.argv) > 2 else "sqlite"
    directory = Path(tempfile.mkdtemp(prefix="xh"))
    with open_place(kind, directory) as (place, size):
        start = time.monotonic()
        make_store(place, count)
        seconds = round(time.monotonic() - start, 1)
        report("history-made", jobs=count, seconds=seconds, bytes_per_job=round(size() / count))
        reader = HistoryReader(place, is_patient=True)
        search = reader.search()
        now_us = BEGIN_US + SPAN_US
        month = 30 * DAY_US

        def window(number, span_us):
            low = BEGIN_US + (number * 37 % 300) * DAY_US
            return low, low + span_us

        questions = {
            "bhist -l of one old job": lambda n: list(
                tell_courses(reader.course(FILLED + 2 + n * count // 9, ALL), ALL, now_us)
            ),
            "page of 1,000 jobs of a user": lambda n: search.usage(
                Search(user=f"u{n}", ended=window(n, SPAN_US)), START, 1_000
            ),
            "jobs of a name": lambda n: search.find_jobs(
                Search(name=f"name{n * count // 500}"), 0, 1_000
            ),
            "sums of a user, one month": lambda n: search.sums(
                Search(user=f"u{n + 20}", ended=window(n, month))
            ),
            "sums of a user, the year": lambda n: search.sums(Search(user=f"u{n + 40}")),
            "sums of a queue, one day": lambda n: search.sums(
                Search(queue=f"q{n}", ended=window(n, DAY_US))
            ),
            "sums of everybody, one day": lambda n: search.sums(Search(ended=window(n, DAY_US))),
            "jobs submitted in an hour": lambda n: search.find_jobs(
                Search(submitted=window(n, DAY_US // 24)), 0, 1_000
            ),
        }
        for what, question in questions.items():
            middle, worst = measured(question)
            report("history", jobs=count, what=what, ms=middle, worst_ms=worst)
        reader.close()
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
