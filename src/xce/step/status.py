"""How the tasks of a step are, as text: written by the step, read by whoever asks. Pure."""

import json
from typing import Any, Final

from xce.step.core import Step
from xce.step.task import Phase, Result, Task

WORDS: Final = {
    Phase.WAITING: "waiting",
    Phase.STARTING: "starting",
    Phase.RUNNING: "running",
    Phase.PAUSED: "restarting",
    Phase.ENDING: "ending",
}
WHY_MAX: Final = 200


def render_status(step: Step) -> str:
    """Return all roles with their tasks as JSON."""
    hosts = step.plan.hosts
    roles = [
        {
            "role": role.plan.name,
            "fate": role.plan.fate,
            "tasks": [_task(task, hosts[task.plan.host], has_probe=role.plan.probe is not None)
                      for task in role.tasks],
        }
        for role in step.roles
    ]  # fmt: skip
    return json.dumps({"roles": roles}, separators=(",", ":"))


def _task(task: Task, host: str, *, has_probe: bool) -> dict[str, Any]:
    word = str(task.result) or WORDS.get(task.phase, "")
    if task.phase is Phase.RUNNING and has_probe and task.is_ready:
        word = "ready"
    found: dict[str, Any] = {"host": host, "state": word}
    if task.plan.rank >= 0:
        found["rank"] = task.plan.rank
    if task.run > 1:
        found["restarts"] = task.run - 1
    if task.why and task.result is not Result.DONE:
        found["why"] = task.why[:WHY_MAX]
    return found
