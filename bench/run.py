"""Runs the benchmarks and prints a table: bar, measured, met or not, command.

    python bench/run.py [noop array bulk single pending commands session swf core journal ...]

Never part of the tests. Medians on a quiet machine.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent
RUNS: Final = {
    "noop": ["endtoend.py", "noop"],
    "array": ["endtoend.py", "array"],
    "bulk": ["endtoend.py", "bulk"],
    "single": ["endtoend.py", "single"],
    "pending": ["endtoend.py", "pending"],
    "commands": ["endtoend.py", "commands"],
    "session": ["session.py"],
    "relations": ["relations.py"],
    "swf": ["swf.py"],
    "core": ["core.py"],
    "journal": ["journal_commit.py"],
    "worker": ["worker_noop.py"],
    "history": ["history.py"],
    "polling": ["polling.py"],
    "tls": ["tls.py"],
    "hollow": ["hollow.py", "join", "failover"],
    "million": ["hollow.py", "million"],
}


class Bar(NamedTuple):
    """One line of the table."""

    text: str
    bench: str
    field: str
    relation: str
    limit: float
    unit: str
    run: str
    where: dict[str, object] = {}  # noqa: RUF012 - a value, never changed


BARS: Final = [
    Bar("no-op job, all processes", "noop", "cpu_ms_per_job", "<=", 2.5, "CPU ms", "noop"),
    Bar("of it controller and scheduler", "noop", "core_ms", "<=", 0.3, "CPU ms", "noop"),
    Bar("jobs/s against 2 / CPU seconds a job", "noop", "share_of_bound", ">=", 0.8, "", "noop"),
    Bar("1,000,000-element array acknowledged", "array", "ack_ms", "<", 50, "ms", "array"),
    Bar("100,000 separate jobs in bulk", "bulk", "per_s", ">=", 20_000, "/s", "bulk"),
    Bar("single submits against bare commits", "single", "ratio", ">=", 0.3, "", "single"),
    Bar("session, nothing to place, 100,000 pending on 100 hosts", "session", "ms", "<", 20, "ms",
        "session", {"case": "100,000 jobs pend, nothing to place, fresh memory"}),
    Bar("session, nothing to place, 1,000,000 pending on 1,000 hosts", "session", "ms", "<", 50,
        "ms", "session", {"case": "1,000,000 jobs pend on 1,000 hosts, fresh memory"}),
    Bar("placements of one shape, 1,000,000 tasks on 10,000 hosts", "session", "placed_per_s", ">=",
        1_000_000, "/s", "session", {"case": "1,000,000 tasks of one shape placed on 10,000 hosts"}),
    Bar("jobs of a real log decided, no backfill", "session", "decided_per_s", ">=", 50_000, "/s",
        "session", {"case": "2,997 jobs of a real log decided, 100 hosts"}),
    Bar("the same on 1,000 hosts, where half of them start", "session", "decided_per_s", ">=",
        50_000, "/s", "session", {"case": "2,997 jobs of a real log decided, 1,000 hosts"}),
    Bar("session, 10,000 blocked requests, a host comes free", "session", "ms", "<", 100, "ms",
        "session", {"case": "10,000 blocked requests, one host comes free"}),
    Bar("512 hosts of 10,000 with nested relations, placed", "relations", "ms", "<", 200, "CPU ms",
        "relations", {"case": "512 hosts, nested, placed"}),
    Bar("512 hosts of 10,000 with relations, proved impossible", "relations", "ms", "<", 200,
        "CPU ms", "relations", {"case": "512 hosts, no block has room"}),
    Bar("1,000 related jobs of ten requests against ten jobs", "relations", "ratio", "<", 3, "x",
        "relations", {"case": "1,000 pending against ten"}),
    Bar("72,000 jobs of a log, EASY", "swf", "seconds", "<", 20, "s", "swf",
        {"log": "repeated", "backfill": "easy"}),
    Bar("cancel 100,000 jobs", "pending-cancel", "seconds", "<", 1, "s", "pending"),
    Bar("list 100,000 jobs", "pending-list", "seconds", "<", 2, "s", "pending"),
    Bar("memory a pending job in the controller", "pending-memory", "kib_per_job", "<", 2, "KiB",
        "pending"),
    Bar("restart to first dispatch", "pending-restart", "first_dispatch_s", "<", 5, "s",
        "pending"),
    Bar("1,000 hollow hosts join", "hollow-join", "seconds", "<", 30, "s", "hollow"),
    Bar("failover to first dispatch, 100,000 pending, 1,000 hosts", "hollow-failover",
        "first_dispatch_s", "<", 5, "s", "hollow"),
    Bar("1,000,000 pending on 1,000 hosts: memory of the controller", "million-memory",
        "controller_gib", "<", 2, "GiB", "million"),
    Bar("1,000,000 pending on 1,000 hosts: cancel all", "million-cancel", "seconds", "<", 5, "s",
        "million"),
    Bar("1,000,000 pending on 1,000 hosts: restart to first dispatch", "million-restart",
        "first_dispatch_s", "<", 15, "s", "million"),
    Bar("no-op jobs over TLS against unix sockets", "tls", "loss_percent", "<", 15, "% fewer", "tls"),
    Bar("no-op jobs over TLS: CPU of the cluster for a job", "tls", "cpu_more_percent", "<", 15,
        "% more", "tls"),
    Bar("bsub -h against the bare interpreter", "command", "ratio", "<=", 2.2, "x", "commands",
        {"command": "bsub -h"}),
    Bar("bjobs ID against the bare interpreter", "command", "ratio", "<=", 2.2, "x", "commands",
        {"command": "bjobs ID"}),
    Bar("200 clients ask once a second: time from submission to start", "polling", "ratio", "<",
        1.1, "x", "polling"),
    Bar("10,000,000 jobs of history: bhist -l of one", "history", "ms", "<", 20, "ms", "history",
        {"what": "bhist -l of one old job"}),
    Bar("10,000,000 jobs of history: a page of a user", "history", "ms", "<", 100, "ms", "history",
        {"what": "page of 1,000 jobs of a user"}),
    Bar("10,000,000 jobs of history: sums of a user's month", "history", "ms", "<", 500, "ms",
        "history", {"what": "sums of a user, one month"}),
]  # fmt: skip


def main() -> int:
    """Run what was named (all when nothing was), print the lines and the table."""
    words = sys.argv[1:]
    unknown = [word for word in words if word not in RUNS]
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; known: {', '.join(RUNS)}")
        return 2
    lines: list[dict[str, object]] = []
    for name in words or RUNS:
        done = subprocess.run(
            [sys.executable, str(HERE / RUNS[name][0]), *RUNS[name][1:]],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            print(f"{name} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
        for text in done.stdout.splitlines():
            print(text, flush=True)
            if text.startswith("{"):
                lines.append(json.loads(text))
    print_table(lines)
    return 0


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:,g}"


def print_table(lines: list[dict[str, object]]) -> None:
    """Print the bars that were measured, as a Markdown table."""
    print("\n| what | bar | measured | met | command |\n|---|---|---|---|---|")
    for bar in BARS:
        found = [
            line
            for line in lines
            if line.get("bench") == bar.bench
            and all(line.get(key) == value for key, value in bar.where.items())
        ]
        if not found or not isinstance(found[-1].get(bar.field), int | float):
            continue
        value = float(found[-1][bar.field])  # type: ignore[arg-type]
        met = {
            "<": value < bar.limit, "<=": value <= bar.limit, ">=": value >= bar.limit,
        }[bar.relation]  # fmt: skip
        print(
            f"| {bar.text} | {bar.relation} {bar.limit:,.10g} {bar.unit} | {_figure(value)} {bar.unit} | "
            f"{'yes' if met else 'NO'} | `make bench BENCH={bar.run}` |"
        )


if __name__ == "__main__":
    sys.exit(main())
