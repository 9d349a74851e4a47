"""How fast a history of many jobs answers. One JSON line each.

python bench/history.py [JOBS]        (default 10,000,000; about 400 bytes of disk a job)
"""

import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cluster import report

from xce.journal.course import tell_courses
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.journal.history_search import START, Search
from xce.testing.builders import cluster, run_job, submission, submit

USERS, QUEUES = 500, 20
DAY_US = 86_400_000_000
SPAN_US = 365 * DAY_US
BEGIN_US = 1_700_000_000_000_000
ALL = ((0, 1 << 62),)


def make_store(path, count):
    """Make a store of one real job, then many like it, over a year."""
    controller = cluster(["h1"])
    run_job(controller, submit(controller, submission(name="real")))
    writer = HistoryWriter(path)
    writer.take(controller.entries, crc=1, epoch=1)
    writer.commit()
    writer.close()
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA synchronous = OFF")
    database.execute("PRAGMA cache_size = -400000")
    step = SPAN_US // count
    for first in range(2, count + 1, 500_000):
        last = min(first + 500_000 - 1, count)
        numbers = f"WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})"
        user, queue = f"'u' || (i * 7919 % {USERS})", f"'q' || (i * 31 % {QUEUES})"
        at = f"{BEGIN_US} + i * {step}"
        database.execute("BEGIN")
        database.execute(
            f"INSERT INTO jobs {numbers} SELECT i, 1, 1, {user}, 1, 1, {queue}, 'name' || (i / 50), {at}, "
            "1, NULL, 1, 0, 'default', 0 FROM n"
        )
        database.execute(
            f"INSERT INTO attempts {numbers} SELECT i, 0, 1, 1 + (i % 10 = 0), 0, 0, 0, 0, {at} + 5000000, "
            f"{at} + 6000000, {at} + 6000000 + i * 104729 % 3600000000, 1000000, 14000, {at}, {user}, "
            f"{queue} FROM n"
        )
        database.execute("COMMIT")
    database.close()


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
    directory = Path(tempfile.mkdtemp(prefix="xh"))
    try:
        start = time.monotonic()
        make_store(directory / "history.db", count)
        report(
            "history-made",
            jobs=count,
            seconds=round(time.monotonic() - start, 1),
            bytes_per_job=round((directory / "history.db").stat().st_size / count),
        )
        reader = HistoryReader(directory / "history.db")
        search = reader.search()
        now_us = BEGIN_US + SPAN_US
        month = 30 * DAY_US

        def window(number, span_us):
            low = BEGIN_US + (number * 37 % 300) * DAY_US
            return low, low + span_us

        questions = {
            "bhist -l of one old job": lambda n: list(
                tell_courses(reader.course(2 + n * count // 9, ALL), ALL, now_us)
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
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
