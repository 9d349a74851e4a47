"""Traced sessions for people: what came of each class, and the hosts behind it."""

import time
from typing import Any, Final

_SOURCES: Final = {
    "tried": "tried on what is free",
    "same-request": "not tried: the same request as job {job}, which did not fit in this session",
    "asleep": "not tried again: nothing that could cure it has changed since it did not fit",
    "standing": "not tried: it fits nowhere until hosts or configuration change",
    "pool": "not tried on hosts: a pool is short",
    "job-group": "not tried: its job group runs at its limit",
    "window": "not tried: the run window of its queue closes too early",
    "held": "room is held for it until those who give way are gone",
}
_INDENT: Final = "    "


def render_traces(answer: dict[str, Any]) -> list[str]:
    """Return the lines for an answer of ``GET /trace``."""
    lines: list[str] = []
    for session in answer["sessions"]:
        if lines:
            lines.append("")
        lines += _session_lines(session)
    return lines


def _session_lines(session: dict[str, Any]) -> list[str]:
    head = f"Session {session['session']}, {_instant(session['at'])}, behind entry {session['seq']}"
    classes = f"{_count(session['classes'], 'class', 'classes')} with jobs that may start"
    size = f"{_count(session['hosts'], 'host')}, {_count(session['turns'], 'turn')}"
    lines = [f"{head}: {classes}, {size}"]
    before = ""
    for step in session["steps"]:
        lines += _step_lines(step, before)
        before = _step_head(step)
    if session["steps_left_out"]:
        lines.append(f"  {session['steps_left_out']} more steps were not kept")
    return lines


def _step_head(step: dict[str, Any]) -> str:
    turn = f"Turn {step['turn']}" if step["turn"] else "No turn"
    job = f"job {_label(step['job'], step['index'])} of {step['user']}"
    queue = f"queue {step['queue']} (priority {step['queue_priority']})"
    pending = f"{_count(step['waiting'], 'element')} of class {step['class']} pending"
    return f"  {turn}: {job}, {queue}, {pending}"


def _step_lines(step: dict[str, Any], before: str) -> list[str]:
    """Return the lines of a step; ``before``: the head of the one before."""
    head = _step_head(step)
    lines = [] if head == before else [head]
    lines.append(f"{_INDENT}{_outcome(step)}")
    if step["array_limit"]:
        may = _count(step["may_start"], "element")
        lines.append(f"{_INDENT}limit {step['array_limit']} of the array: {may} may start")
    if step["reason"]:
        lines.append(f"{_INDENT}{step['reason']['text']}")
    if step["source"]:
        source = _SOURCES.get(step["source"], step["source"])
        lines.append(_INDENT + source.format(job=step["proved_by"]))
    if step["victims"]:
        victims = ", ".join(f"{how} {_label(job, index)}" for job, index, how in step["victims"])
        lines.append(f"{_INDENT}who gives way: {victims}")
    for form in step["forms"]:
        lines += _form_lines(form)
    return lines


def _outcome(step: dict[str, Any]) -> str:
    tasks = _count(step["tasks"], "task")
    match step["outcome"]:
        case "starts":
            rule = f" by {step['rule']}" if step["rule"] else ""
            runs = ", ".join(_run(*run) for run in step["starts"])
            return f"STARTS {_count(step['elements'], 'element')}, {tasks}{rule}: {runs}"
        case "reserves":
            when = f"from {_instant(step['at'])}" if step["at"] else "from an instant not yet known"
            return f"RESERVES {tasks} {when}"
        case "preempts":
            return f"PREEMPTS: others give way for {tasks}"
        case "left-out":
            return "LEFT OUT: nothing of it may start, whatever is free"
        case word:
            return str(word).upper()


def _form_lines(form: dict[str, Any]) -> list[str]:
    name = f"{form['form']}: " if form["form"] else ""
    lines = []
    if form["ordered_by"] or form["filters"]:
        out = ", ".join(_filter(item) for item in form["filters"]) or "none"
        order = ", ".join(map(_order, form["ordered_by"])) if form["hosts"] else ""
        left = f"{_count(form['left'], 'host')} left{f', {order}' if order else ''}"
        lines.append(f"{_INDENT}{name}excluded: {out}; {left}")
    if not form["hosts"]:
        return lines
    keys = form["ordered_by"]
    names = [key.removeprefix("-").upper() for key in keys]
    rows = [["#", "HOST", *names, "FITS", "GETS"]]
    for host in form["hosts"]:
        scores = [f"{score:g}" for score in host["scores"]]
        rows.append([str(host["place"]), host["host"], *scores, str(host["fits"]), _gets(host)])
    if not keys:
        rows = [["HOST", "GETS"], *([row[1], row[-1]] for row in rows[1:])]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    host_at = rows[0].index("HOST")
    for row in rows:
        cells = [
            cell.ljust(width) if at == host_at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"{_INDENT}  {'  '.join(cells)}".rstrip())
    listed = sum(1 for host in form["hosts"] if host["place"])
    if form["left"] > listed and keys:
        lines.append(f"{_INDENT}  and {form['left'] - listed} more")
    return lines


def _order(key: str) -> str:
    return f"most {key[1:]} first" if key.startswith("-") else f"least {key} first"


def _gets(host: dict[str, Any]) -> str:
    return str(host["gets"]) if host["gets"] else "-"


def _filter(item: dict[str, Any]) -> str:
    about = f" {item['resource']}" if item["resource"] else ""
    numbers = f" (needs {item['needed']}, best has {item['best']})" if item["needed"] else ""
    return f"{item['hosts']} {item['code']}{about}{numbers}"


def _run(job: int, first: int, last: int) -> str:
    if not first:
        return str(job)
    return f"{job}[{first}]" if first == last else f"{job}[{first}-{last}]"


def _label(job: int, index: int) -> str:
    return f"{job}[{index}]" if index else str(job)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _instant(seconds: float) -> str:
    millis = int(seconds * 1_000)
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(millis // 1_000))
    return f"{text}.{millis % 1_000:03d} UTC"
