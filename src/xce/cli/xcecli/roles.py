"""How the tasks of a job's roles are, as the job's step has written it on its first host."""

import json
from collections import Counter
from typing import Any, Final

from xce.cli.xcecli.session import Session
from xce.client.plain_text import plain

NAMED_MAX: Final = 8
"""More tasks of one role are counted, and only those that say something are named."""


def add_role_states(session: Session, row: dict[str, Any]) -> None:
    """Add to the row of a running job how the tasks of its roles are, where they can be asked."""
    if not row.get("roles") or row.get("start_at") is None or row.get("end_at") is not None:
        return
    query = [("stream", "roles")]
    if row["index"]:
        query.append(("index", str(row["index"])))
    answer = session.api.request("GET", f"/jobs/{row['jobid']}/output", query)
    if answer.status >= 400:
        return  # it does not run by roles, has only just begun, or its host is away
    row["role_states"] = json.loads(answer.body)["roles"]


def role_lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a line for each role that says how its tasks are."""
    return [
        (f"Tasks of {role['role']}", tasks_text(role["tasks"]))
        for role in row.get("role_states") or ()
    ]


def tasks_text(tasks: list[dict[str, Any]]) -> str:
    """Return how the tasks of one role are."""
    if len(tasks) <= NAMED_MAX:
        return "; ".join(_task(place, task) for place, task in enumerate(tasks))
    counts = Counter(str(task["state"]) for task in tasks)
    texts = [", ".join(f"{count} {state}" for state, count in counts.items())]
    telling = [(place, task) for place, task in enumerate(tasks) if task.get("why")]
    texts += [_task(place, task) for place, task in telling[:NAMED_MAX]]
    return "; ".join(texts)


def _task(place: int, task: dict[str, Any]) -> str:
    text = f"{place} on {task['host']} {task['state']}"
    restarts = task.get("restarts", 0)
    if restarts:
        text += f", restarted {restarts} time{'s' if restarts > 1 else ''}"
    why = task.get("why", "")
    return f"{text} ({plain(why)})" if why else text
