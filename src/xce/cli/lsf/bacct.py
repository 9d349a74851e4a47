"""``bacct``: what ended jobs used, each once, and the sums."""

from __future__ import annotations

from xce.cli.lsf import history_long as long
from xce.cli.lsf.control import user_name
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.history_rows import FILTER_USAGE, FILTERS, REFUSED, Filters, HistoryPages
from xce.cli.lsf.jobs_long import submission_text, wrap
from xce.cli.lsf.options import FLAG, Options
from xce.cli.lsf.rows import (
    counted_hosts,
    expand,
    job_label,
    job_name,
    short_hosts,
    slot_count,
)
from xce.cli.lsf.times import render_date, render_minute
from xce.cli.lsf.values import BadValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

    Row = dict[str, Any]
    Sums = dict[str, Any]

USAGE = f"""\
Usage: bacct [options] [job_ID | "job_ID[index_list]" ...]
  (none)          the sums over own jobs that are over; with ids: over those, whoever's
  -l  -UF         each job as well, with all that is known; without line breaks
  -b              each job as well, on one line
  -d  -e          only those that ended DONE; EXIT
  -w              names are not cut (they never are)
  -x              only exceptions: jobs that ran longer (overrun) or shorter (underrun) than those
                  of their queue shall, or used less CPU time (idle)
{FILTER_USAGE}"""
OPTIONS = Options(
    {**dict.fromkeys(("-l", "-UF", "-b", "-d", "-e", "-w", "-x"), FLAG), **FILTERS},
    {
        **REFUSED,
        "-U": "there are no advance reservations",
        "-E": "waits are whole: bjobs -o 'ependtime ipendtime' tells them apart, job by job",
        "-cname": "there is one cluster",
        "-aff": "affinity is not kept",
        "-gpu": "counters of a job stand in its requirement: bacct -l",
        "-rcacct": "there are no providers yet",
        "-rcalloc": "there are no providers yet",
    },
    bundled=True,
)
_LINE = "-" * 78
_BRIEF_HEADER = (
    "JOBID    USER     QUEUE      SUBMIT_TIME  CPU_T    WAIT   TURNAROUND FROM        EXEC_ON     "
    "JOB_NAME"
)
_INSIDE_HEADER = "     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP"


def render_question(context: Context, filters: Filters) -> list[str]:
    """Return the lines that say which jobs are counted."""
    parsed = context.parsed
    user = parsed.value("-u") or (user_name() if not filters.ids else "all")
    whose = "all users" if user == "all" else f"users {user}"
    if parsed.has("-d") != parsed.has("-e"):
        how = "completed normally." if parsed.has("-d") else "exited."
    else:
        how = "completed normally or exited"
    project = f"projects {parsed.value('-P')}." if parsed.has("-P") else "all projects."
    queue = f"queues {parsed.value('-q')}." if parsed.has("-q") else "all queues."
    host = f"hosts {parsed.value('-m')}." if parsed.has("-m") else "all hosts."
    lines = [
        "",
        "Accounting information about jobs that are:",
        f"  - submitted by {whose},",
        f"  - accounted on {project}",
    ]
    for option, word in (("-C", "completed"), ("-D", "dispatched"), ("-S", "submitted")):
        if parsed.has(option):
            lines.append(f"  - {word} within {parsed.value(option)}.")
    return [
        *lines,
        f"  - {how}",
        f"  - executed on {host}",
        f"  - submitted to {queue}",
        "  - accounted on all service classes.",
        _LINE,
    ]


def render_sums(sums: Sums) -> list[str]:
    """Return the summary."""
    done, exited = sums["done"], sums["exited"]
    count = done + exited or 1
    ran = sums["ran"] or 1
    hours = max(0.0, sums["last_end_at"] - sums["first_end_at"]) / 3600
    lines = [
        "",
        "SUMMARY:      ( time unit: second )",
        _pair("Total number of done jobs:", str(done), "Total number of exited jobs:", str(exited)),
        *_quantity("CPU time consumed", "CPU time of a job", sums, "cpu_s", count),
        _one("Total wait time in queues:", f"{sums['wait_s']:.1f}"),
        _one("Average wait time in queue:", f"{sums['wait_s'] / count:.1f}"),
        _extremes("wait time in queue:", sums, "wait_s", ".1f"),
        _one("Average turnaround time:", f"{sums['turnaround_s'] / count:.0f}") + " (seconds/job)",
        _extremes("turnaround time:", sums, "turnaround_s", ".0f"),
        _one("Average hog factor of a job:", f"{sums['hog'] / count:.2f}")
        + " ( cpu time / turnaround time )",
        _extremes("hog factor of a job:", sums, "hog", ".2f"),
        _one("Average expansion factor of a job:", f" {sums['expansion'] / ran:.2f}")
        + " ( turnaround time / run time )",
        _extremes("expansion factor of a job:", sums, "expansion", ".2f"),
        *_quantity("Run time consumed", "Run time of a job", sums, "run_s", ran),
    ]
    if hours and done + exited > 1:
        first = render_date(sums["first_end_at"], with_year=False)
        last = render_date(sums["last_end_at"], with_year=False)
        lines += [
            (
                f" Total throughput: {(done + exited) / hours:>16.2f} (jobs/hour)  "
                f"during {hours:>8.2f} hours"
            ),
            f" Beginning time:       {first}      Ending time:          {last}",
        ]
    return lines


def _one(label: str, text: str) -> str:
    return f" {label}{text:>{max(len(text), 34 - len(label))}}"


def _pair(label: str, text: str, other: str, other_text: str) -> str:
    width = max(len(other_text), 34 - len(other))
    return f"{_one(label, text)}      {other}{other_text:>{width}}"


def _extremes(what: str, sums: Sums, member: str, form: str) -> str:
    most, least = format(sums[f"{member}_max"], form), format(sums[f"{member}_min"], form)
    gap = " " if len(what) > 25 else ""
    return _pair(f"Maximum {what}", gap + most, f"Minimum {what}", gap + least)


def _quantity(used: str, each: str, sums: Sums, member: str, count: int) -> list[str]:
    total = sums[member]
    return [
        _pair(f"Total {used}:", f"{total:.1f}", f"Average {used}:", f"{total / count:.1f}"),
        _extremes(f"{each}:", sums, member, ".1f"),
    ]


def add_up(rows: list[Row]) -> Sums:
    """Return the sums over rows, as the cluster has them over whole jobs."""
    sums: Sums = dict.fromkeys(
        ("done", "exited", "ran", "first_end_at", "last_end_at", "cpu_s", "wait_s", "turnaround_s",
         "hog", "expansion", "run_s"), 0
    )  # fmt: skip
    values: dict[str, list[float]] = {}
    for row in rows:
        turnaround, cpu = turnaround_s(row), row.get("cpu_s") or 0.0
        sums["done" if row["stat"] == "DONE" else "exited"] += 1
        found = {"cpu_s": cpu, "wait_s": wait_s(row), "turnaround_s": turnaround}
        found["hog"] = cpu / turnaround if turnaround > 0 else 0.0
        run = row["end_at"] - row["start_at"] if row.get("start_at") is not None else 0.0
        if run > 0:
            sums["ran"] += 1
            found |= {"expansion": turnaround / run, "run_s": run}
        for name, value in found.items():
            values.setdefault(name, []).append(value)
    for name in ("cpu_s", "wait_s", "turnaround_s", "hog", "expansion", "run_s"):
        numbers = values.get(name) or [0.0]
        sums[name], sums[f"{name}_max"], sums[f"{name}_min"] = (
            sum(numbers), max(numbers), min(numbers),
        )  # fmt: skip
    ends = [row["end_at"] for row in rows]
    sums["first_end_at"], sums["last_end_at"] = min(ends, default=0), max(ends, default=0)
    return sums


def wait_s(row: Row) -> float:
    """Return how long a job waited before it started, or ended."""
    start = row.get("start_at")
    return float((row["end_at"] if start is None else start) - row["submit_at"])


def turnaround_s(row: Row) -> float:
    """Return the time from the submission to the end."""
    return float(row["end_at"] - row["submit_at"])


def render_job(row: Row, *, wrapped: bool, with_year: bool) -> list[str]:
    """Return the lines about one job of ``-l``."""
    head = long.heading(row, with_status=True)
    lines = ["", *(wrap(head, 26 if with_year else 21) if wrapped else [head])]

    def add(at_s: float, text: str) -> None:
        lines.extend(long.dated(at_s, text, with_year=with_year, wrapped=wrapped))

    add(row["submit_at"], submission_text(row))
    if row.get("start_at") is not None and row.get("hosts"):
        slots = slot_count(row)
        hosts = " ".join([f"<{host}>" for host in counted_hosts(row)])
        effective = f" Effective RES_REQ <{row['resreq']} >;" if row.get("resreq") else ""
        add(
            row["start_at"],
            f"Dispatched {slots} Task(s) on Host(s) {hosts}, Allocated {slots} Slot(s) on Host(s) "
            f"{hosts}{',' if effective else ';'}{effective}",
        )
    cause = f"; {row['cause_text']}" if row.get("cause_text") else ""
    add(
        row["end_at"], "Completed <done>." if row["stat"] == "DONE" else f"Completed <exit>{cause}."
    )
    turnaround = turnaround_s(row)
    cpu = row.get("cpu_s") or 0.0
    hog = cpu / turnaround if turnaround > 0 else 0.0
    memory = row.get("max_mem_mib")
    status = "done" if row["stat"] == "DONE" else "exit"
    return [
        *lines,
        "",
        "Accounting information about this job:",
        _INSIDE_HEADER,
        (
            f"{cpu:>10.2f} {wait_s(row):>8.0f} {turnaround:>14.0f} {status:>8} {hog:>14.4f} "
            f"{'-' if not memory else f'{-int(-memory // 1)}M':>6} {'-':>7}"
        ),
        _LINE,
    ]


def render_brief(row: Row) -> str:
    """Return the line about one job of ``-b``."""
    return (
        f"{job_label(row):<8} {row['user']:<8} {row['queue']:<10} "
        f"{render_minute(row['submit_at']):<12} {row.get('cpu_s') or 0:>5.1f} {wait_s(row):>7.0f} "
        f"{turnaround_s(row):>12.0f} {row['from_host']:<11} {short_hosts(row) or '-':<11} "
        f"{job_name(row)}"
    )


def execute(context: Context) -> int:
    """Tell what was used."""
    parsed = context.parsed
    try:
        filters = Filters(parsed)
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED
    pairs: list[tuple[str, str]] = []
    if parsed.has("-d") != parsed.has("-e"):
        pairs.append(("scope", "done" if parsed.has("-d") else "exited"))
    for line in render_question(context, filters):
        context.out(line)
    pages = HistoryPages(context.api, "/history/usage", filters, pairs)
    if parsed.has("-x") or any("[" in one for one in filters.ids):
        named: list[Row] = []
        for rows in pages:
            named += [row for row in expand(rows) if is_named(row, filters.ids)]
        if parsed.has("-x"):
            named = [row for row in named if row.get("exceptions")]
        _list_jobs(context, [named])
        sums = add_up(named)
    else:
        if parsed.has("-l") or parsed.has("-UF") or parsed.has("-b"):
            _list_jobs(context, pages)
        query = [*filters.pairs, *pairs]
        if filters.ids:
            query.append(("ids", ",".join(filters.ids)))
        sums = context.api.call("GET", "/history/sums", query)["sums"]
    for line in render_sums(sums):
        context.out(line)
    return 0


def _list_jobs(context: Context, pages: Iterable[list[Row]]) -> None:
    parsed = context.parsed
    if not (parsed.has("-l") or parsed.has("-UF") or parsed.has("-b")):
        return
    with_year = context.environ.get("LSB_DISPLAY_YEAR", "") in {"Y", "y"}
    is_first = True
    for rows in pages:
        for row in expand(rows):
            if parsed.has("-b"):
                if is_first:
                    context.out(_BRIEF_HEADER)
                context.out(render_brief(row))
            else:
                for line in render_job(row, wrapped=not parsed.has("-UF"), with_year=with_year):
                    context.out(line)
            is_first = False
    if parsed.has("-b") and not is_first:
        context.out(_LINE)


def is_named(row: Row, ids: list[str]) -> bool:
    """Return whether a row is of a job, or of an element, that was named."""
    if not ids or str(row["jobid"]) in ids:
        return True
    for one in ids:
        number, bracket, runs = one.partition("[")
        if not bracket or number != str(row["jobid"]):
            continue
        for run in runs[:-1].split(","):
            first, _, last = run.partition(":")[0].partition("-")
            if int(first) <= row["index"] <= int(last or first):
                return True
    return False


def main() -> NoReturn:
    """Run ``bacct``."""
    run_main(OPTIONS, USAGE, execute)
