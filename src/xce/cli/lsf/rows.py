"""What several listings of ``bjobs`` read off one job row of REST."""

from __future__ import annotations

from xce.cli.lsf.times import render_minute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Row = dict[str, Any]

KILLED_WHILE_PENDING = 130
"""Exit code of a job that was killed before it ran, as if INT had ended it: clients that wait for
an exit code (toil) would wait for ever otherwise."""
_KILLED = frozenset(
    (
        "TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER", "TERM_FORCE_ADMIN", "TERM_ORPHAN_SYSTEM",
    )
)  # fmt: skip


def expand(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield one row for each element; a row that stands for many is repeated with each index."""
    for row in rows:
        count = row.get("count", 1)
        if count == 1:
            yield row
            continue
        step = row.get("step", 1)
        first = row["index"]
        for index in range(first, first + count * step, step):
            yield {**row, "index": index, "count": 1, "step": 1}


def one_line(text: str) -> str:
    """Return a text of several lines on one, with ``;`` for newlines, as LSF shows commands."""
    return text.rstrip("\n").replace("\n", ";") if "\n" in text else text


def job_name(row: Row) -> str:
    """Return the name as LSF shows it: with the index of an element."""
    name = one_line(row.get("name") or "")
    index = row.get("index") or 0
    return f"{name}[{index}]" if index else name


def job_label(row: Row) -> str:
    """Return ``12`` or ``12[3]``."""
    index = row.get("index") or 0
    return f"{row['jobid']}[{index}]" if index else str(row["jobid"])


def short_hosts(row: Row, most: int | None = None) -> str:
    """Return ``4*h1:2*h2``; a count of 1 is left out. Empty while there are no hosts.

    ``most`` hosts at most are named.
    """
    hosts = (row.get("hosts") or [])[:most]
    return ":".join([name if slots == 1 else f"{slots}*{name}" for name, slots in hosts])


def repeated_hosts(row: Row) -> str:
    """Return each host as often as it gives slots: ``h1:h1:h2``."""
    return ":".join([":".join([name] * slots) for name, slots in row.get("hosts") or ()])


def counted_hosts(row: Row) -> list[str]:
    """Return ``["4*h1", "2*h2"]``; the name alone for a job of one slot."""
    hosts = row.get("hosts") or []
    if len(hosts) == 1 and hosts[0][1] == 1:
        return [hosts[0][0]]
    return [f"{slots}*{name}" for name, slots in hosts]


def used(row: Row, name: str) -> float | None:
    """Return what a job has used, or uses now while it runs; None: it is not known."""
    found: float | None = row.get(name)
    return (row.get("usage") or {}).get(name) if found is None else found


def pids_text(row: Row) -> str:
    """Return the processes of a job that runs; where its host has not said, its job shell."""
    found = (row.get("usage") or {}).get("pids") or filter(None, [row.get("pid")])
    return ",".join(map(str, found))


def slot_count(row: Row) -> int:
    """Return how many slots the job has now; 0 while it pends."""
    return sum(slots for _, slots in row.get("hosts") or ())


def exit_code(row: Row) -> int | None:
    """Return the exit code of a job that ended EXIT as LSF counts it, else ``None``."""
    if row.get("stat") != "EXIT":
        return None
    code = row.get("exit_code")
    if code:
        return int(code)
    if row.get("signal"):
        return 128 + int(row["signal"])
    if row.get("start_at") is None and row.get("cause") in _KILLED:
        return KILLED_WHILE_PENDING
    return None


def run_time_s(row: Row, now_s: float) -> float:
    """Return how long the job has run."""
    start = row.get("start_at")
    if start is None:
        return 0.0
    end = row.get("end_at")
    return max(0.0, float(now_s if end is None else end) - float(start))


def pend_time_s(row: Row, now_s: float) -> int:
    """Return how long the job has pended, or did before it started or ended."""
    end = row.get("start_at")
    if end is None:
        end = row.get("end_at")
    return max(0, int((now_s if end is None else end) - row["submit_at"]))


def pend_times_s(row: Row, now_s: float) -> tuple[int, int] | None:
    """Return how long of that it was eligible for scheduling, and was not; None: nobody knows."""
    ineligible = row.get("ineligible_s")
    if ineligible is None:
        return None
    whole = pend_time_s(row, now_s)
    out = min(whole, round(ineligible))
    return whole - out, out


def is_finished(row: Row) -> bool:
    """Return whether the job is over."""
    return row.get("stat") in {"DONE", "EXIT"}


def is_pending(row: Row) -> bool:
    """Return whether the job waits to be dispatched, held or not."""
    return row.get("stat") in {"PEND", "PSUSP"}


_STOPS = {
    "window": "The run windows of the queue are closed",
    "load": "Host load exceeded threshold",
    "preempted": "Job was suspended by mbatchd because its priority is lower (preempted)",
}


_INELIGIBLE = frozenset(
    (
        "held", "begin-time", "dependency", "dependency-never", "queue-inactive", "window-closed",
    )
)  # fmt: skip
"""Codes of the reasons for which LSF calls a pending job ineligible for scheduling: those whose
time the cluster counts as such (``ineligible_s``)."""


def is_eligible(row: Row) -> bool:
    """Return whether a pending job is one that a session tries to place."""
    reason = row.get("reason") or {"code": ""}
    return row["stat"] == "PEND" and reason["code"] not in _INELIGIBLE


def reason_lines(row: Row) -> list[str]:
    """Return LSF's texts of why a job pends or is suspended, without the final ``;``."""
    stat = row.get("stat")
    if stat == "USUSP":
        return ["The job was suspended by user"]
    if stat == "SSUSP":
        return [_STOPS.get(row.get("stop") or "", "The job is waiting to be resumed")]
    reason = row.get("reason")
    if reason:
        return list(reason.get("lsf") or [reason.get("text") or ""])
    if stat == "PSUSP":
        return ["The job was suspended by the user while pending"]
    return ["New job is waiting for scheduling"] if stat == "PEND" else []


def reason_block(row: Row) -> list[str]:
    """Return the lines about why a job pends or is suspended, as they stand below its row."""
    block: list[str] | None = row.get("reason_block")
    return [f" {line};" for line in reason_lines(row)] if block is None else block


def expand_pattern(path: str, row: Row) -> str:
    """Return a path with ``%J`` and ``%I`` filled in."""
    if "%" not in path:
        return path
    return path.replace("%J", str(row["jobid"])).replace("%I", str(row.get("index") or 0))


def expand_directory(asked: str, row: Row) -> str:
    """Return a directory of ``-cwd`` or ``-outdir`` with its patterns filled in."""
    if "%" not in asked:
        return asked
    index = str(row.get("index") or 0)
    values = (
        ("%EJ", str(row["jobid"])),
        ("%EI", index),
        ("%JG", row.get("group") or ""),
        ("%J", str(row["jobid"])),
        ("%I", index),
        ("%U", row.get("user") or ""),
        ("%P", row.get("project") or ""),
        ("%G", row.get("user_group") or ""),
        ("%H", row["hosts"][0][0] if row.get("hosts") else "%H"),
    )
    for pattern, value in values:
        asked = asked.replace(pattern, value)
    return asked


def exec_cwd(row: Row) -> str:
    """Return where the job runs: the directory of ``-cwd`` from where it was submitted."""
    cwd: str = row.get("cwd") or ""
    asked = expand_directory(row.get("cwd_given") or "", row)
    if not asked or asked.startswith("/"):
        return asked or cwd
    return f"{cwd.rstrip('/')}/{asked}"


def under_home(path: str, row: Row) -> str:
    """Return a path with ``$HOME`` for the submitter's home, as LSF shows it."""
    home = (row.get("home") or "").rstrip("/")
    if home and (path == home or path.startswith(home + "/")):
        return "$HOME" + path[len(home) :]
    return path


def finish_text(row: Row) -> str:
    """Return when the job ended, or when its limit ends it, with LSF's mark for the latter."""
    if row.get("end_at") is not None:
        return render_minute(row["end_at"])
    start, limit, estimate = row.get("start_at"), row.get("run_limit_s"), row.get("estimate_s")
    if start is None or is_finished(row):
        return ""
    if estimate:
        return f"{render_minute(start + estimate)} E"
    return f"{render_minute(start + limit)} L" if limit else ""


def ended_line(row: Row, end: str) -> str:
    """Return how the last attempt ended and what it used; ``end`` ends the line."""
    used = f"The CPU time used is {row.get('cpu_s') or 0:.1f} seconds{end}"
    if row["stat"] == "DONE":
        return f"Done successfully. {used}"
    code = exit_code(row)
    if row.get("signal"):
        return f"Exited by signal {row['signal']}. {used}"
    if code is None or row.get("start_at") is None:
        return f"Exited. {used}"
    return f"Exited with exit code {code}. {used}"
