"""A process that writes a history from recorded entries until it is killed, or has written all.

Prints the last entry that is stored, a line each time. Arguments: where (a file, or the name of a
database), how many jobs there are.
"""

import os
import sys
from pathlib import Path

from xce.journal.history import HistoryWriter
from xce.journal.history_postgres import PostgresHistory
from xce.journal.postgres_line import PostgresTarget
from xce.model.entry import Entry
from xce.testing.builders import cluster, kill, run_job, submission, submit

_AT_ONCE = 7


def make_entries(jobs: int) -> list[Entry]:
    """Return the entries of a cluster in which many things happen, the same ones each time."""
    controller = cluster({"h1": 4})
    for number in range(jobs):
        job = submit(controller, submission(name=f"j{number % 10}"))
        if number % 5:
            run_job(controller, job, exit_code=number % 3)
        else:
            kill(controller, job)
    return controller.entries


def main() -> None:
    where, jobs = sys.argv[1], int(sys.argv[2])
    database = PostgresHistory(PostgresTarget(where))
    writer = HistoryWriter(database if where.startswith("postgresql:") else Path(where))
    entries = [entry for entry in make_entries(jobs) if entry.seq > writer.seq]
    for first in range(0, len(entries), _AT_ONCE):
        writer.take(entries[first : first + _AT_ONCE], crc=1, epoch=1)
        writer.commit()
        os.write(1, b"%d\n" % writer.seq)
    writer.close()


if __name__ == "__main__":
    main()
