"""Columns of the tables of jobs, hosts and queues."""

import time
from typing import Any, Final

from xce.cli.xcecli.render import Column

Row = dict[str, Any]


def label(row: Row) -> str:
    """Return ``12``, ``12[3]``, or ``12[3-9:2]`` for a run of elements."""
    index, count, step = row.get("index") or 0, row.get("count", 1), row.get("step", 1)
    if not index:
        return str(row["jobid"])
    if count == 1:
        return f"{row['jobid']}[{index}]"
    last = index + (count - 1) * step
    return f"{row['jobid']}[{index}-{last}{f':{step}' if step != 1 else ''}]"


def span(seconds: float) -> str:
    """Return a span in its two largest units."""
    rest = max(0, int(seconds))
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        if rest >= size:
            parts.append(f"{rest // size}{unit}")
            rest %= size
    return " ".join(parts[:2]) or "0s"


def instant(at: float | None) -> str:
    """Return an instant in local time."""
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def hosts_text(row: Row) -> str:
    """Return the hosts with their slots: ``h1 h2*4``."""
    return " ".join(name if n == 1 else f"{name}*{n}" for name, n in row.get("hosts") or ())


def run_time(row: Row, now: float) -> str:
    """Return how long a job has run, empty when it has not."""
    start = row.get("start_at")
    if start is None:
        return ""
    end = row.get("end_at")
    return span((now if end is None else end) - start)


def note(row: Row) -> str:
    """Return why a job pends, or how it ended."""
    reason = row.get("reason")
    if reason:
        return str(reason["text"])
    if row.get("cause_text"):
        return str(row["cause_text"])
    if row.get("stat") == "EXIT" and row.get("exit_code") is not None:
        return f"exit code {row['exit_code']}"
    return "is being ended" if row.get("ending") else ""


JOB_FIELDS: Final = (
    "stat,user,queue,name,hosts,slots,tasks_min,submit_at,start_at,end_at,reason,cause_text,"
    "exit_code,ending,project,from_host"
)


def job_columns(now: float) -> list[Column]:
    """Return the columns of jobs."""
    return [
        Column("JOB", label),
        Column("USER", lambda row: str(row["user"])),
        Column("STAT", lambda row: str(row["stat"])),
        Column("QUEUE", lambda row: str(row["queue"])),
        Column("NAME", lambda row: str(row["name"])),
        Column("TASKS", lambda row: str(row["slots"] or row["tasks_min"]), right=True),
        Column("HOSTS", hosts_text),
        Column("SUBMITTED", lambda row: instant(row["submit_at"]), wide=True),
        Column("PROJECT", lambda row: str(row["project"]), wide=True),
        Column("FROM", lambda row: str(row["from_host"]), wide=True),
        Column("RUN TIME", lambda row: run_time(row, now), right=True),
        Column("NOTE", note),
    ]


def _size(mib: float) -> str:
    return f"{mib / 1024:.1f}G" if mib >= 1024 else f"{mib:.0f}M"


def _gpus(row: Row) -> str:
    """Return the GPUs of a host: how many are given out, and how many there are."""
    there = [gpu for gpu in row.get("gpus") or () if gpu["state"] in {"ok", "closed"}]
    if not there:
        return ""
    used = sum(gpu["used"] for gpu in there)
    return f"{used:g}/{len(there)}"


def gpus_text(row: Row) -> str:
    """Return the GPUs that a job has: ``h1: 0,1``; shares with how much and of what kind."""
    found: dict[str, list[str]] = {}
    for gpu in row.get("gpus") or ():
        share = "" if gpu["kind"] == "whole" else f" ({gpu['share']:g} {gpu['kind']})"
        found.setdefault(gpu["host"], []).append(f"{gpu['index']}{share}")
    return "; ".join(f"{host}: {','.join(dict.fromkeys(ids))}" for host, ids in found.items())


def processors_text(row: Row) -> str:
    """Return what the tasks of a job are bound to: ``h1: 0-1 2-3``, a list for each task."""
    found: dict[str, list[str]] = {}
    for task in row.get("processors") or ():
        told = " (told only)" if task["kind"] == "told-only" else ""
        found.setdefault(task["host"], []).append(f"{task['cpus']}{told}")
    return "; ".join(f"{host}: {' '.join(lists)}" for host, lists in found.items())


HOST_COLUMNS: Final = (
    Column("HOST", lambda row: str(row["name"])),
    Column("STATUS", lambda row: str(row["status"])),
    Column("SLOTS", lambda row: str(row["slots_max"]), right=True),
    Column("USED", lambda row: str(row["njobs"]), right=True),
    Column("RUN", lambda row: str(row["run"]), right=True),
    Column("SUSP", lambda row: str(row["ususp"] + row["ssusp"]), right=True),
    Column("MEM", lambda row: _size(row["mem_mib"]), right=True),
    Column("MEM USED", lambda row: _size(row["mem_used_mib"]), right=True),
    Column("CPUS", lambda row: str(row["cpus"]), right=True, wide=True),
    Column("ISOLATION", lambda row: str(row["isolation"]), wide=True),
    Column(
        "COUNTERS",
        lambda row: " ".join(f"{k}={used}/{all_}" for k, (all_, used) in row["counters"].items()),
        wide=True,
    ),
    Column("GPUS", _gpus, right=True),
    Column("COMMENT", lambda row: str(row["comment"])),
)
QUEUE_COLUMNS: Final = (
    Column("QUEUE", lambda row: f"{row['name']}{'*' if row['default'] else ''}"),
    Column("PRIORITY", lambda row: str(row["priority"]), right=True),
    Column("STATUS", lambda row: "open" if row["open"] and row["active"] else "closed"),
    Column("PEND", lambda row: str(row["pend"]), right=True),
    Column("RUN", lambda row: str(row["run"]), right=True),
    Column("SUSP", lambda row: str(row["susp"]), right=True),
    Column(
        "RUN LIMIT", lambda row: span(row["run_limit_s"]) if row["run_limit_s"] else "", right=True
    ),
    Column("USERS", lambda row: " ".join(row["users"]) or "all", wide=True),
    Column("HOSTS", lambda row: " ".join(row["hosts"]) or "all", wide=True),
    Column("DESCRIPTION", lambda row: str(row["description"])),
)
