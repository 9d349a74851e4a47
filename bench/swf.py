"""How long job logs take: ``python bench/swf.py``, one JSON line for each kind of backfill.

The log is the excerpt of a real one in ``tests/data/swf``, repeated until it has 72,000 jobs; with
``XCE_SWF_DIR`` each log of that directory is run as well.
"""

import json
import os
import sys
import time
from pathlib import Path

from xce.sim.swf import Cleaning, SwfJob, clean, load_log
from xce.sim.swf_core import BACKFILLS, simulate

LOG = Path(__file__).resolve().parents[1] / "tests/data/swf/kth-sp2-1996-excerpt.swf.gz"
JOBS = 72_000


def repeated(jobs: list[SwfJob]) -> list[SwfJob]:
    """Return a log's jobs again and again, each time behind the last."""
    span = jobs[-1].submit - jobs[0].submit + 1
    found: list[SwfJob] = []
    while len(found) < JOBS:
        shift = len(found) // len(jobs) * span
        found += [job._replace(submit=job.submit + shift) for job in jobs]
    return found[:JOBS]


def report(name: str, jobs: list[SwfJob], procs: int, backfill: str) -> None:
    began = time.perf_counter()
    result = simulate(jobs, procs, backfill=backfill)
    seconds = time.perf_counter() - began
    line = {
        "bench": "swf",
        "log": name,
        "backfill": backfill,
        "jobs": len(jobs),
        "sessions": result.sessions,
        "seconds": round(seconds, 2),
        "jobs_per_s": round(len(jobs) / seconds),
    }
    print(json.dumps(line), flush=True)


def main() -> int:
    log = load_log(LOG)
    jobs, _ = clean(log.records, Cleaning(log.processors))
    for backfill in BACKFILLS:
        report("repeated", repeated(jobs), log.processors, backfill)
    directory = os.environ.get("XCE_SWF_DIR")
    for path in sorted(Path(directory).glob("*.swf.gz")) if directory else ():
        log = load_log(path)
        jobs, _ = clean(log.records, Cleaning(log.processors, model=True))
        for backfill in ("easy", "conservative"):
            report(path.name, jobs, log.processors, backfill)
    return 0


if __name__ == "__main__":
    sys.exit(main())
