"""Processors that jobs are bound to, as ``bjobs -l`` shows them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

_POLICIES = {"localonly": "local", "localprefer": "pref"}


def binding_lines(row: Row) -> list[str]:
    """Return what each task of a job is bound to; none: it is bound to nothing."""
    tasks = row.get("processors") or []
    if not tasks:
        return []
    head = (
        f" {'HOST':<20} {'TYPE':<6} {'LEVEL':<6} {'EXCL':<6} {'IDS':<22} "
        f"{'POL':<5} {'NUMA':<4} SIZE"
    )
    lines = [
        "",
        " AFFINITY:",
        f" {'':<20} {'CPU BINDING':<43} MEMORY BINDING",
        f" {'':<20} {'-' * 42}  {'-' * 18}",
        head,
    ]
    for task in tasks:
        policy = _POLICIES.get(task["memory"], "-")
        lines.append(
            f" {task['host']:<20} {task['unit']:<6} {task['level']:<6} "
            f"{task['exclusive'] or '-':<6} {' '.join(task['ids']):<22} {policy:<5} "
            f"{task['nodes'] if task['memory'] else '-':<4} -"
        )
    if any(task["kind"] == "told-only" for task in tasks):
        lines.append(" The processors are made up: the job is told of them, and is not bound.")
    return lines
