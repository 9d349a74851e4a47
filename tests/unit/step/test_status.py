import json

from steps import PROBE, Driven, plan, role

from xce.step.plan import RESTART_ON_FAILURE
from xce.step.status import render_status


def states(step: Driven) -> dict[str, list[dict]]:
    return {one["role"]: one["tasks"] for one in json.loads(render_status(step.step))["roles"]}


def test_how_each_task_is_and_why():
    again = {"restart": RESTART_ON_FAILURE, "restarts_max": 2, "back_off_us": 1}
    step = Driven(plan(role("a", 0, 1, probe=PROBE), role("b", **again), role("c", 1)))
    assert states(step)["c"] == [{"host": "h1", "state": "starting", "rank": 0}]
    step.started(0, 0)
    step.started(0, 1)
    step.started(1)
    step.started(2)
    step.after(0)
    step.ready(0, 0, is_ready=False)
    step.ready(0, 1)
    step.exited(1, code=2)
    step.exited(2)
    found = states(step)
    assert found["a"] == [
        {"host": "h0", "state": "running", "rank": 0, "why": "is not ready: refused"},
        {"host": "h1", "state": "ready", "rank": 1},
    ]
    assert found["b"] == [
        {"host": "h0", "state": "restarting", "rank": 0, "why": "ended with exit code 2"}
    ]
    assert found["c"] == [{"host": "h1", "state": "done", "rank": 0}]
    step.after(1)
    step.ready(0, 0)
    assert states(step)["b"][0]["restarts"] == 1
    assert "why" not in states(step)["a"][0]
