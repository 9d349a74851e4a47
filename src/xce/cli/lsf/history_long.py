"""``bhist -l`` and ``bacct -l``: what happened to a job, in LSF's statements, cut at 79 columns."""

from __future__ import annotations

from xce.cli.lsf.jobs_long import SEPARATOR, limit_blocks, submission_text, wrap
from xce.cli.lsf.rows import (
    counted_hosts,
    ended_line,
    exec_cwd,
    is_finished,
    job_label,
    one_line,
    slot_count,
)
from xce.cli.lsf.times import render_date

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Row = dict[str, Any]

__all__ = ("SEPARATOR", "dated", "heading", "label", "render_history", "statements")
_BRIEF = frozenset(("submitted", "dispatched", "started", "done", "exited", "withdrawn"))
label = job_label


def dated(at_s: float, text: str, *, with_year: bool, wrapped: bool = True) -> list[str]:
    """Return the physical lines of a statement with its date in front."""
    statement = f"{render_date(at_s, with_year=with_year)}: {text}"
    return wrap(statement, 26 if with_year else 21) if wrapped else [statement]


def heading(row: Row, *, with_status: bool = False) -> str:
    """Return the statement that says whose job it is, and what runs."""
    parts = [f"Job <{job_label(row)}>"]
    if row.get("named"):
        parts.append(f"Job Name <{one_line(row.get('name') or '')}>")
    parts += [f"User <{row['user']}>", f"Project <{row.get('project') or 'default'}>"]
    if row.get("group"):
        parts.append(f"Job Group <{row['group']}>")
    if with_status:
        parts += [f"Status <{row['stat']}>", f"Queue <{row['queue']}>"]
    parts.append(f"Command <{one_line(row.get('command') or '')}>")
    if row.get("description"):
        parts.append(f"Job Description <{one_line(row['description'])}>")
    return ", ".join(parts)


def _placed(row: Row, step: Row) -> str:
    """Return where an attempt was dispatched to."""
    there = {"hosts": step.get("hosts") or []}
    slots = slot_count(there)
    hosts = " ".join([f"<{host}>" for host in counted_hosts(there)])
    resreq = f" Effective RES_REQ <{row['resreq']} >;" if row.get("resreq") else ""
    end = "," if resreq else ";"
    return (
        f"Dispatched {slots} Task(s) to Host(s) {hosts}, Allocated {slots} Slot(s) on Host(s) "
        f"{hosts}{end}{resreq}"
    )


def _ended(row: Row, step: Row) -> list[str]:
    """Return how an attempt ended; the last one, where the step does not tell."""
    if step.get("cpu_s") is not None:
        stat = "DONE" if step["what"] == "done" else "EXIT"
        told = ("exit_code", "signal", "cause_text", "cpu_s")
        row = {**row, "stat": stat, "start_at": 0.0, **{name: step.get(name) for name in told}}
    first = ended_line(row, ";")
    if step["what"] == "over":
        return [first]
    if row["stat"] == "DONE":
        return [first]
    cause = f" {row['cause_text']};" if row.get("cause_text") else ""
    return [first, f"Completed <exit>;{cause}"]


def _by(step: Row) -> str:
    return f" by user or administrator <{step['by']}>" if step.get("by") else ""


def _why(step: Row) -> str:
    """Return why an element pends again."""
    known = [text for text in (step.get("cause_text"), step.get("text")) if text]
    return f" {', '.join(known)};" if known else ""


_FIXED = {
    "held": "Suspended by the user or administrator;",
    "released": "Pending: Waiting for scheduling after resumed by administrator or user;",
    "suspended": "Suspended;",
    "resumed": "Running;",
    "system-stopped": "Suspended by the cluster: preempted, run windows closed, or load of a host;",
    "system-resumed": "The cluster lets it go on;",
    "unknown": "Unknown; unable to reach the execution host;",
    "known": "Running; the execution host is back;",
}
"""Events that are told in the same words always."""


def _asked(step: Row) -> str:
    """Return who wanted what."""
    words = {
        "end-decided": f"Termination requested{_by(step)}; {step.get('cause_text') or ''};",
        "signaled": f"Signal <{step.get('signal')}> requested{_by(step)};",
        "checkpoint-asked": f"Checkpoint requested{_by(step)};",
        "checkpointed": "Checkpoint succeeded;",
        "checkpoint-failed": f"Checkpoint failed: {step.get('text')};",
        "stop-asked": f"Suspension requested{_by(step)};",
        "resume-asked": f"Resumption requested{_by(step)};",
        "switched": f"Switched to queue <{step.get('text')}>{_by(step)};",
        "modified": f"Parameters of Job are changed{_by(step)}: {step.get('text')};",
        "moved": f"Moved in its queue{_by(step)};",
        "requeued": f"Pending: Requeued job is waiting for rescheduling;{_why(step)}",
        "reopened": f"Pending: Requeued job is waiting for rescheduling{_by(step)};{_why(step)}",
        "host-left-out": f"Host <{step.get('text')}> is lost; the job has nothing there any more;",
        "start-failed": f"Pending: the start failed: {step.get('text') or 'nobody knows why'};",
    }
    return words.get(step["what"], f"{step['what']};")


def _started(row: Row, step: Row) -> list[str]:
    pid = f" (Pid {step['pid']})" if step.get("pid") else ""
    home, cwd = row.get("home") or "", exec_cwd(row)
    tail = f", Execution Pid <{step['pid']}>;" if step.get("pid") else ";"
    return [
        f"Starting{pid};",
        f"Running with execution home <{home}>, Execution CWD <{cwd}>{tail}",
    ]


def _texts(row: Row, step: Row) -> list[str]:
    """Return the statements about one step."""
    match step["what"]:
        case "submitted":
            return [submission_text(row, to_queue=True)]
        case "dispatched":
            return [_placed(row, step)]
        case "started":
            return _started(row, step)
        case "done" | "exited" | "withdrawn" | "over":
            return _ended(row, step)
    return [_FIXED.get(step["what"]) or _asked(step)]


def statements(
    row: Row, *, with_year: bool = False, brief: bool = False
) -> Iterator[tuple[float, str]]:
    """Yield when something happened, and the statement about it."""
    for step in row.get("steps") or ():
        if brief and step["what"] not in _BRIEF:
            continue
        for text in _texts(row, step):
            yield step["at"], text


def render_history(
    row: Row, spans: list[int], now_s: float, *, wrapped: bool, with_year: bool, brief: bool
) -> list[str]:
    """Return the lines about one job, the blank one in front included."""
    indent = 26 if with_year else 21
    head = heading(row)
    lines = ["", *(wrap(head, indent) if wrapped else [head])]
    for at, text in statements(row, with_year=with_year, brief=brief):
        lines += dated(at, text, with_year=with_year, wrapped=wrapped)
    if brief:
        return lines
    lines += limit_blocks(row)
    end = row.get("end_at") if is_finished(row) else None
    date = render_date(now_s if end is None else end, with_year=with_year)
    cells = "".join([f"{span:<9}" for span in spans]).rstrip()
    return [
        *lines,
        "",
        f"Summary of time in seconds spent in various states by  {date}",
        "  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL",
        f"  {cells}",
    ]
