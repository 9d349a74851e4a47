"""``bjobs -l`` and ``-UF``: everything about a job, in LSF's statements.

``-l`` cuts each statement into lines of exactly 79 characters, in the middle of words: 79 in the
first, then 21 blanks and 58 more (26 and 53 when dates carry the year). Clients join them again by
removing a newline and the blanks, so no character may be lost or added. ``-UF`` cuts nothing.
"""

from __future__ import annotations

from xce.cli.lsf.affinity_text import binding_lines
from xce.cli.lsf.gpu_text import allocation_lines
from xce.cli.lsf.jobs_fields import limit_text, size_text
from xce.cli.lsf.process_limits import limit_blocks as process_blocks
from xce.cli.lsf.rows import (
    counted_hosts,
    ended_line,
    exec_cwd,
    is_finished,
    is_pending,
    job_label,
    one_line,
    pend_times_s,
    reason_block,
    slot_count,
    under_home,
    used,
)
from xce.cli.lsf.signals import warning_action
from xce.cli.lsf.times import render_date, render_minute
from xce.model.exit_values import render_exit_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

SEPARATOR = "-" * 78
_LINE = 79
_INDENT = 21
_INDENT_YEAR = 26
_SPANS_END = 41
"""Where the numbers of pending times end."""
_SCHEDULING = (
    " SCHEDULING PARAMETERS:",
    "           r15s   r1m  r15m   ut      pg    io   ls    it    tmp    swp    mem",
    " loadSched   -     -     -     -       -     -    -     -     -      -      -  ",
    " loadStop    -     -     -     -       -     -    -     -     -      -      -  ",
)


_MESSAGE = " {:<6} {:<10} {:<14} {:<35} {}"
_MESSAGE_HEADS = ("MSG_ID", "FROM", "POST_TIME", "MESSAGE", "ATTACHMENT")


def wrap(statement: str, indent: int) -> list[str]:
    """Return the physical lines of a statement."""
    if len(statement) <= _LINE:
        return [statement]
    lines = [statement[:_LINE]]
    room = _LINE - indent
    for place in range(_LINE, len(statement), room):
        lines.append(" " * indent + statement[place : place + room])
    return lines


def render_long(row: Row, now_s: float, *, wrapped: bool, with_year: bool) -> list[str]:
    """Return the lines about one job, the blank one in front included."""
    indent = _INDENT_YEAR if with_year else _INDENT
    lines = [""]

    def add(statement: str) -> None:
        lines.extend(wrap(statement, indent) if wrapped else [statement])

    def add_dated(at_s: float | None, text: str) -> None:
        add(f"{render_date(at_s, with_year=with_year)}: {text}")

    add(_heading(row))
    add_dated(row.get("submit_at"), submission_text(row))
    lines.extend(limit_blocks(row))
    for at_s, text in _middle(row, now_s):
        add_dated(at_s, text)
    if is_finished(row):
        for text in _ended(row):
            add_dated(row.get("end_at"), text)
    elif row.get("usage"):
        first, *more = _usage(row)
        add_dated(row["usage"]["at"], first)
        for text in more:
            add(f"{'':{indent}}{text}")
    if row.get("detail"):
        lines.append("")
        add(f" {row['detail']}")
    for heading, texts in _paragraphs(row, now_s):
        lines += ["", f" {heading}"]
        for text in texts:
            add(text)
    lines += allocation_lines(row)
    lines += binding_lines(row)
    lines += role_lines(row)
    if row.get("hosts_lost"):
        lines += ["", f" HOSTS LOST: {' '.join(row['hosts_lost'])}"]
    lines += ["", *_SCHEDULING]
    lines += _messages(row)
    asked = row.get("resreq") or "-"
    lines += ["", " RESOURCE REQUIREMENT DETAILS:"]
    add(f" Combined: {asked}")
    add(f" Effective: {asked if row.get('start_at') is not None else '-'}")
    return lines


def _messages(row: Row) -> list[str]:
    """Return what people wrote to the job."""
    lines: list[str] = []
    for one in row.get("messages") or ():
        if not lines:
            lines = ["", " EXTERNAL MESSAGES:", _MESSAGE.format(*_MESSAGE_HEADS).rstrip()]
        attached = "Y" if one.get("attached") else "N"
        at = render_minute(one["at"])
        lines.append(_MESSAGE.format(one["box"], one["by"], at, one["text"], attached).rstrip())
    return lines


def role_lines(row: Row) -> list[str]:
    """Return where each role of a running job is."""
    roles = row.get("roles") or ()
    texts = [
        f"  {role['role']}: " + " ".join([f"{tasks}*{host}" for host, tasks in role["hosts"]])
        for role in roles
    ]
    return ["", " ROLE ALLOCATIONS:", *texts] if texts else []


_INTERACTIVE = {
    "I": "Interactive mode",
    "Ip": "Interactive pseudo-terminal mode",
    "Is": "Interactive pseudo-terminal shell mode",
}


def _heading(row: Row) -> str:
    """Return the statement that says who, where and what."""
    parts = [f"Job <{job_label(row)}>"]
    if row.get("named"):
        parts.append(f"Job Name <{one_line(row.get('name') or '')}>")
    parts += [
        f"User <{row['user']}>",
        f"Project <{row.get('project') or 'default'}>",
        *[f"{name} <{row[member]}>" for name, member in _BEFORE_STATUS if row.get(member)],
        f"Status <{row['stat']}>",
        f"Queue <{row['queue']}>",
    ]
    if row.get("priority"):
        parts.append(f"Job Priority <{row['priority']}>")
    if row.get("interactive"):
        parts.append(_INTERACTIVE[row["interactive"]])
    parts.append(f"Command <{one_line(row.get('command') or '')}>")
    if row.get("description"):
        parts.append(f"Job Description <{one_line(row['description'])}>")
    return ", ".join(parts)


_BEFORE_STATUS = (
    ("Application", "app"),
    ("User Group", "user_group"),
    ("Job Group", "group"),
    ("Mail", "mail_to"),
)
_SWITCHED_ON = (("rerunnable", "Re-runnable"), ("exclusive", "Exclusive Execution"))


def notice_texts(row: Row) -> list[str]:
    """Return what mail about the job was asked for."""
    wanted = row.get("notices") or ()
    texts = ["Notify when job begins"] if "start" in wanted else []
    if "done" in wanted:
        texts.append("Notify when job ends")
    elif "exit" in wanted:
        texts.append("Notify when job exits")
    return texts


def checkpoint_texts(row: Row) -> list[str]:
    """Return where and how often checkpoints of a job are written."""
    found = row.get("checkpoints")
    if not found:
        return []
    name = f"{row['jobid']}[{row['index']}]" if row.get("index") else row["jobid"]
    texts = [f"Checkpoint Directory <{found['directory'].rstrip('/')}/{name}>"]
    if found["period_s"]:
        texts.append(f"Checkpoint Period <{found['period_s'] / 60:g} min>")
    if found["first_s"]:
        texts.append(f"Initial Checkpoint Period <{found['first_s'] / 60:g} min>")
    return [*texts, f"Checkpoint Method <{found['method']}>"]


def submission_text(row: Row, *, to_queue: bool = False) -> str:
    """Return what was asked for at submission; ``bhist`` names the queue here."""
    parts = [
        f"Submitted from host <{row['from_host']}>",
        *([f"to Queue <{row['queue']}>"] if to_queue else []),
        f"CWD <{under_home(row.get('cwd') or '', row)}>",
    ]
    given = row.get("cwd_given")
    if given:
        shown = given if isinstance(given, str) else row.get("cwd") or ""
        parts.append(f"Specified CWD <{under_home(shown, row)}>")
    for name, member in (("Input", "input"), ("Output", "output"), ("Error", "error")):
        path = row.get(member)
        if path:
            over = "" if row.get(f"{member}_append", True) else " (overwrite)"
            parts.append(f"{name} File{over} <{path}>")
    if row.get("output_dir"):
        parts.append(f"Output Directory <{under_home(row['output_dir'], row)}>")
    parts += [f"Copy Files <{' '.join(one[:3])}>" for one in row.get("transfers") or ()]
    parts += checkpoint_texts(row)
    parts += notice_texts(row)
    parts += [text for member, text in _SWITCHED_ON if row.get(member)]
    least, most = row.get("tasks_min") or 1, row.get("tasks_max") or 1
    if most > 1:
        parts.append(f"{most} Task(s)" if least == most else f"{least}-{most} Task(s)")
    parts += _resources_asked(row)
    if row.get("warning_s"):
        parts.append(f"Warning Action <{warning_action(row)}>")
        parts.append(f"Action Warning Time <{row['warning_s'] / 60:g} minutes>")
    if row.get("requeue_codes"):
        codes, elsewhere = row["requeue_codes"], row.get("requeue_elsewhere") or ()
        parts.append(f"Requeue Exit Values <{render_exit_values(codes, elsewhere)}>")
    parts += [
        f"Specified {name} Time <{render_date(row[member], with_year=True)}>"
        for name, member in (("Start", "begin_at"), ("Termination", "deadline_at"))
        if row.get(member)
    ]
    return ", ".join(parts) + ";"


def _resources_asked(row: Row) -> list[str]:
    """Return where, on what, after what and between what it shall run."""
    parts = []
    if row.get("resreq_asked"):
        parts.append(f"Requested Resources <{row['resreq_asked']}>")
    if row.get("dependency"):
        parts.append(f"Dependency Condition <{row['dependency']}>")
    if row.get("login_shell"):
        parts.append(f"Login Shell <{row['login_shell']}>")
    for name, member in (("Pre", "pre_exec"), ("Post", "post_exec")):
        if row.get(member):
            parts.append(f"{name}-execute Command <{one_line(row[member])}>")
    if row.get("hosts_asked"):
        parts.append("Specified Hosts " + ", ".join([f"<{h}>" for h in row["hosts_asked"].split()]))
    if row.get("gpu_asked"):
        parts.append(f"Requested GPU <{row['gpu_asked']}>")
    return parts


def limit_blocks(row: Row) -> list[str]:
    """Return the limits, each as a heading with its value below."""
    lines = []
    if row.get("run_limit_s"):
        lines += [" RUNLIMIT                ", f" {row['run_limit_s'] / 60:.1f} min"]
    if row.get("estimate_s"):
        lines += [" ESTIMATED_RUNTIME       ", f" {row['estimate_s'] / 60:.1f} min"]
    if row.get("mem_limit_kib"):
        lines += [" MEMLIMIT", f"{limit_text(row['mem_limit_kib']):>9} "]
    lines += process_blocks(row.get("limits") or {})
    return ["", *lines] if lines else []


def _usage(row: Row) -> list[str]:
    """Return what a running job uses now."""
    use = row["usage"]
    first = f"Resource usage collected. The CPU time used is {int(use['cpu_s'])} seconds."
    memory, swap = size_text(use["mem_mib"], ""), size_text(use["swap_mib"], "")
    lines = [first, f"MEM: {memory};  SWAP: {swap};  NTHREAD: {use['threads']}"]
    if use["pids"] and row.get("pid"):
        lines.append(f"PGID: {row['pid']};  PIDs: {' '.join(map(str, use['pids']))}")
    if use["unknown"]:
        lines.append(f"Not known of: {' '.join(use['unknown'])}")
    return lines


def _started(row: Row) -> str:
    """Return where the job started."""
    hosts = " ".join([f"<{host}>" for host in counted_hosts(row)])
    slots = slot_count(row)
    verb = f"[{row['index']}] started" if row.get("index") else "Started"
    return (
        f"{verb} {slots} Task(s) on Host(s) {hosts}, Allocated {slots} Slot(s) on Host(s) {hosts}, "
        f"Execution Home <{row.get('home') or ''}>, Execution CWD <{exec_cwd(row)}>;"
    )


def _middle(row: Row, now_s: float) -> list[tuple[float | None, str]]:
    """Return the statements between the submission and the end, with their instants."""
    found: list[tuple[float | None, str]] = []
    if row.get("requeued"):
        why = f", {row['requeued_detail']}" if row.get("requeued_detail") else ""
        found.append((row.get("requeued_at"), f"Requeued; {row['requeued']}{why};"))
    if row.get("start_at") is not None:
        found.append((row["start_at"], _started(row)))
    if row["stat"] in {"UNKWN", "ZOMBI"}:
        found.append((now_s, "Unknown; unable to reach the execution host;"))
    return found


def _ended(row: Row) -> list[str]:
    """Return the statements about the end."""
    first = ended_line(row, ".")
    if row["stat"] == "DONE":
        return [first]
    cause = f"; {row['cause_text']}" if row.get("cause_text") else ""
    return [first, f"Completed <exit>{cause}."]


def _pend_times(row: Row, now_s: float) -> list[tuple[str, list[str]]]:
    """Return for how long a pending job was eligible for scheduling, and for how long not."""
    found = pend_times_s(row, now_s)
    if found is None:
        return []
    kinds = zip(("Eligible", "Ineligible"), found, strict=True)
    texts = [(f" {kind} pending time (seconds):", span_s) for kind, span_s in kinds]
    lines = [f"{text}{span_s:>{_SPANS_END - len(text)}}" for text, span_s in texts]
    return [("PENDING TIME DETAILS:", lines)]


def _paragraphs(row: Row, now_s: float) -> list[tuple[str, list[str]]]:
    """Return why the job does not run, and what it used."""
    found = []
    if is_pending(row):
        found.append(("PENDING REASONS:", reason_block(row)))
        found += _pend_times(row, now_s)
    elif row["stat"] in {"USUSP", "SSUSP"}:
        found.append(("SUSPENDING REASONS:", reason_block(row)))
    if row.get("exceptions"):
        found.append(("EXCEPTION STATUS:", [f" {' '.join(row['exceptions'])}"]))
    use = row.get("usage") or {}
    most_mib = used(row, "max_mem_mib")
    if most_mib and row.get("start_at") is not None:
        text = f" MAX MEM: {-int(-most_mib // 1)} Mbytes;"
        if use:
            text += f"  AVG MEM: {-int(-use['avg_mem_mib'] // 1)} Mbytes"
        found.append(("MEMORY USAGE:", [text]))
    return found
