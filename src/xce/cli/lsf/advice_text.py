"""What would let a job start, and what would become of one, as text for people."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

_WIDTH = 100
_OF_GPUS = ("no-device", "devices-busy", "devices-split")
"""Codes of reasons that count GPUs; where their resource is ``milli``, thousandths of one."""


def render_advice(advice: Row, now_s: float) -> list[str]:
    """Return the lines about a job that waits: table, suggestions, blockers, expected start."""
    blocks = [
        _table(advice["table"]),
        _suggestions(advice["suggestions"]),
        _blockers(advice, now_s),
        _start(advice, now_s),
    ]
    lines: list[str] = []
    for block in blocks:
        if block:
            lines += ["", *block]
    if advice["note"]:
        lines += ["", f"Note: {advice['note']}."]
    return lines[1:]


def render_plan(plan: Row, now_s: float) -> list[str]:
    """Return the lines about a job that would be taken if it were submitted."""
    kind = "the default queue" if plan["default_queue"] else "queue"
    head = f"The job would be taken by {kind} {plan['queue']}"
    advice = plan["advice"]
    if plan["starts_now"]:
        return [f"{head} and start at once on {hosts_text(plan['hosts'])}."]
    reason = advice["reason"]
    if reason is None:
        return [f"{head}.", "", *render_advice(advice, now_s)]
    return [f"{head} and pend: {reason['text']}.", "", *render_advice(advice, now_s)]


def hosts_text(hosts: list[list[Any]]) -> str:
    """Return hosts with their slots: ``h1 h2*4``."""
    return " ".join(name if count == 1 else f"{name}*{count}" for name, count in hosts)


def _table(rows: list[Row]) -> list[str]:
    """Return how many hosts each filter takes out."""
    if not rows:
        return []
    has_roles = any(row["role"] for row in rows)
    cells = [["HOSTS", "WHY NOT", "NEEDED", "BEST"]]
    for row in rows:
        words = row["text"].split(" ", 2)[2].partition(" (")[0]
        cells.append([str(row["hosts"]), words, *_amounts(row)])
    if has_roles:
        for line, row in zip(cells, [{"role": "PART"}, *rows], strict=True):
            line.insert(0, row["role"] or "all")
    right = (0, 2, 3) if not has_roles else (1, 3, 4)
    return _columns(cells, right)


def _amounts(row: Row) -> list[str]:
    """Return how much a host must have, with its unit, and how much the best one has."""
    needed, best = row["needed"], row["best"]
    if not needed:
        return ["", ""]
    if row["code"] not in _OF_GPUS:
        return [f"{needed} {row['resource'] or 'slots'}", str(best)]
    if row["resource"] == "milli":
        return [f"{needed / 1000:g} GPU", f"{best / 1000:g}"]
    return [f"{needed} GPU{'' if needed == 1 else 's'}", str(best)]


def _suggestions(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    cells = [["IT WOULD START AT ONCE WITH", "OPTION", "ON"]]
    for row in rows:
        options = "  ".join(change["option"] for change in row["changes"] if change["option"])
        cells.append([row["text"], options, hosts_text(row["hosts"])])
    return _columns(cells)


def _blockers(advice: Row, now_s: float) -> list[str]:
    lines: list[str] = []
    if advice["waits_for"]:
        lines.append(f"It waits for: {' '.join(map(str, advice['waits_for']))}")
    ahead = advice["ahead"]
    if ahead:
        jobs = "1 job is" if ahead == 1 else f"{ahead} jobs are"
        besides = "; apart from that, these must end:" if advice["blockers"] else "."
        lines.append(f"{jobs} in front of it, and what comes free goes there first{besides}")
    if not advice["blockers"]:
        return lines
    head = "MUST END" if ahead else "MUST END FIRST"
    cells = [[head, "USER", "QUEUE", "HOSTS", "EXPECTED END"]]
    for row in advice["blockers"]:
        name = f"{row['jobid']}[{row['index']}]" if row["index"] else str(row["jobid"])
        end = when(row["ends_at"], now_s) if row["ends_at"] is not None else "unknown"
        cells.append([name, row["user"], row["queue"], " ".join(row["hosts"]), end])
    return [*lines, *_columns(cells)]


def _start(advice: Row, now_s: float) -> list[str]:
    """Return when it is expected to start, and of what that is true."""
    start, assumption = advice["expected_start"], advice["assumption"]
    if start is not None:
        hosts = f" on {hosts_text(advice['expected_hosts'])}" if advice["expected_hosts"] else ""
        instant = "now" if start <= now_s + 1 else when(start, now_s)
        head = f"Expected start: {instant}{hosts}"
    elif advice["not_before"] is not None:
        head = f"Expected start: unknown, not before {when(advice['not_before'], now_s)}"
    else:
        head = "Expected start: unknown"
    return [f"{head},", *_folded(f"{assumption}.")] if assumption else [f"{head}."]


def when(at_s: float, now_s: float) -> str:
    """Return an instant in local time, and how far off it is."""
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
    if at_s <= now_s:
        return f"{text} (overdue)"
    return f"{text} (in {_span(at_s - now_s)})"


def _span(seconds: float) -> str:
    rest = max(1, int(seconds))
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        if rest >= size:
            parts.append(f"{rest // size}{unit}")
            rest %= size
    return " ".join(parts[:2])


def _folded(text: str) -> list[str]:
    """Return a text in lines that are not too long, each a little to the right."""
    lines, line = [], " "
    for word in text.split():
        if len(line) + len(word) >= _WIDTH:
            lines.append(line)
            line = " "
        line += f" {word}"
    return [*lines, line]


def _columns(cells: list[list[str]], right: tuple[int, ...] = ()) -> list[str]:
    widths = [max(len(line[place]) for line in cells) for place in range(len(cells[0]))]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
