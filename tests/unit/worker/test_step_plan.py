from typing import Any

from msgspec.structs import replace
from specs import asked

from xce.model.device import DeviceGrant, GpuWish
from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.step.plan import Plan, ProbePlan, RolePlan, TaskPlan, Wait
from xce.worker.step_plan import plan_of

SECOND = 1_000_000
UNIT = """
version: 1
roles:
  - {name: router, command: route}
  - {name: decode, count: 3, command: decode, cwd: d, env: {A: 1}, output: "%R.%T",
     ready: {http: "$XCE_PORT/health", period: 2s, timeout: 3s, failures: 4}}
  - {name: fetch, count: 1, command: fetch, launch: script}
  - {name: metrics, attach: decode, command: watch}
relations:
  - {kind: ready-after, from: router, to: decode, timeout: 5m}
  - {kind: init-of, from: fetch, to: decode}
"""


def launch(text: str, **more: Any) -> Launch:
    found = asked(text)
    spec = JobSpec(
        roles=found.roles, relations=found.relations, runs_by_roles=found.runs_by_roles,
        args=("1", "2"),
    )  # fmt: skip
    rows = (
        ("router", "h1", 1), ("decode", "h1", 1), ("decode", "h2", 2), ("fetch", "h2", 1),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "job": 12, "indices": [0, 4], "attempts": [1, 1], "spec": spec,
        "owner": Owner("ann", 1000, 1000), "queue": "normal", "project": "p", "cluster": "c",
        "hosts": (("h1", 2), ("h2", 3)), "tasks_max": 5, "submit_at_us": 0, "run_limit_us": 0,
        "term_grace_us": 0, "kill_interval_us": 9 * SECOND, "rows": rows,
    }  # fmt: skip
    return Launch(**(fields | more))


def with_relations(*relations: str) -> Plan:
    roles = ", ".join(f"{{name: {name}, command: x}}" for name in "abcd")
    listed = ", ".join(f"{{{relation}}}" for relation in relations)
    text = f"version: 1\nroles: [{roles}]\nrelations: [{listed}]"
    rows = tuple((name, "h1", 1) for name in "abcd")
    return plan_of(launch(text, hosts=(("h1", 4),), rows=rows), 0, "")


def test_roles_become_tasks_on_hosts_with_their_ranks():
    plan = plan_of(launch(UNIT), 4, "script")
    assert (plan.hosts, plan.grace_us, plan.job, plan.element) == (
        ("h1", "h2"), 9 * SECOND, "12", "4",
    )  # fmt: skip
    assert plan.roles[0] == RolePlan(
        "router", "route", (TaskPlan(0, 0),),
        waits=(Wait(1, "ready", "relation 1 (ready-after)", 300 * SECOND),), group=0,
    )  # fmt: skip
    assert plan.roles[1] == RolePlan(
        "decode", "decode", (TaskPlan(0, 1), TaskPlan(1, 2), TaskPlan(1, 3)), env=("A=1",),
        cwd="d", output="%R.%T",
        probe=ProbePlan("http", "$XCE_PORT/health", 2 * SECOND, 3 * SECOND, 4),
        waits=(Wait(2, "succeeded", "relation 2 (init-of)"),), group=1,
    )  # fmt: skip
    assert plan.roles[2].tasks == (TaskPlan(1, 4),)
    assert plan.roles[3].tasks == (TaskPlan(0, -1), TaskPlan(1, -1)), "one task on each host"


def test_the_launch_type_of_a_role_stands_in_the_plan():
    text = UNIT.replace("env: {A: 1}", "launch: torch")
    plan = plan_of(launch(text), 0, "")
    assert [role.launch for role in plan.roles] == ["tasks", "torch", "script", "tasks"]
    assert plan.meetings() == {1: {0, 1}}


def test_of_an_mpi_role_one_task_is_started_on_the_steps_host_and_it_knows_the_members():
    text = UNIT.replace("env: {A: 1}", "launch: mpi")
    plan = plan_of(launch(text, hosts=(("h0", 1), ("h1", 2), ("h2", 2)), rows=(
        ("router", "h0", 1), ("decode", "h1", 1), ("decode", "h2", 2), ("fetch", "h1", 1),
    )), 0, "")  # fmt: skip
    decode = plan.roles[1]
    assert (decode.launch, decode.tasks) == ("mpi", (TaskPlan(0, 1),))
    assert decode.started == decode.members == (TaskPlan(1, 1), TaskPlan(2, 2), TaskPlan(2, 3))
    assert plan.meetings() == {1: {0, 1, 2}}
    assert plan.roles[3].tasks == (TaskPlan(1, -1), TaskPlan(2, -1)), "attached to the members"


def test_a_role_that_is_launched_as_a_script_has_its_first_task_only():
    text = UNIT.replace("env: {A: 1}", "launch: script")
    assert plan_of(launch(text), 0, "").roles[1].tasks == (TaskPlan(0, 1),)


def test_a_role_without_command_runs_the_jobs_with_its_arguments():
    text = "version: 1\nscript: given\nroles: [{name: router}, {name: decode, command: y}]"
    router, decode = plan_of(launch(text), 0, "the text").roles
    assert (router.command, router.args) == ("the text", ("1", "2"))
    assert (decode.command, decode.args) == ("y", ())


def test_relations_become_waits_restarts_and_fates():
    plan = with_relations(
        "kind: sidecar-of, from: a, to: [b, c]",
        "kind: after, from: c, to: b, outcome: ended",
        "kind: after, from: d, to: b",
        "kind: fate, roles: c, policy: tolerate",
        "kind: fate, roles: d, policy: restart-member, restarts_max: 7, back_off: 5s",
    )
    a, b, c, d = plan.roles
    assert (a.parents, a.is_fatal, a.restart, a.restarts_max) == ((1, 2), False, "on-failure", 10)
    assert b.waits == (Wait(0, "beside", "relation 1 (sidecar-of)"),)
    assert [wait.until for wait in c.waits] == ["beside", "ended"]
    assert (c.is_fatal, c.restart, c.fate) == (False, "never", "tolerate")
    assert d.waits == (Wait(1, "succeeded", "relation 3 (after)"),)
    assert (d.is_fatal, d.restart, d.restarts_max, d.back_off_us) == (
        True, "on-failure", 7, 5 * SECOND,
    )  # fmt: skip
    assert (b.is_fatal, b.fate) == (True, "fail-together")


def test_the_fate_of_a_sidecar_counts_wherever_it_stands():
    plan = with_relations(
        "kind: fate, roles: [a, b]", "kind: sidecar-of, from: a, to: b, restart: always"
    )
    assert (plan.roles[0].is_fatal, plan.roles[0].restart) == (True, "never")
    tolerated = with_relations(
        "kind: fate, roles: a, policy: tolerate",
        "kind: sidecar-of, from: a, to: b, restart: always",
    )
    assert (tolerated.roles[0].is_fatal, tolerated.roles[0].restart) == (False, "always")


def test_roles_that_start_together_are_one_group():
    plan = with_relations("kind: with, roles: [a, b]", "kind: with, from: d, to: b")
    assert [role.group for role in plan.roles] == [0, 0, 2, 0]


def test_each_task_sees_its_own_gpus_and_who_is_beside_them_all():
    one = GpuWish(count=2)
    grants = [tuple(DeviceGrant(n) for n in range(2)), tuple(DeviceGrant(n) for n in range(4, 8))]
    given = launch(
        UNIT, devices=[((), ()), tuple(grants)], gpu=one, row_gpus=(None, one, one, None)
    )
    plan = plan_of(given, 4, "")
    seen = [[dict(task.env)["CUDA_VISIBLE_DEVICES"] for task in role.tasks] for role in plan.roles]
    assert seen == [[""], ["0,1", "4,5", "6,7"], [""], ["0,1", "4,5,6,7"]]
    assert dict(plan.roles[0].tasks[0].env)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert plan_of(launch(UNIT), 0, "").roles[0].tasks[0].env == ()


def test_gpus_for_a_host_are_seen_by_all_tasks_there():
    one = GpuWish(count=1, per="host")
    grants = ((DeviceGrant(3),), (DeviceGrant(5),))
    given = launch(UNIT, devices=[grants, grants], gpu=one, row_gpus=(None, one, one, None))
    seen = [dict(task.env)["XCE_GPUS"] for task in plan_of(given, 0, "").roles[1].tasks]
    assert seen == ["3", "5", "5"]


def test_where_one_role_wants_mps_all_are_told_gpus_as_their_daemons_count_them():
    plain, one = GpuWish(count=2), GpuWish(count=2, mps="yes")
    grants = (tuple(DeviceGrant(n) for n in (2, 3)), tuple(DeviceGrant(n) for n in range(4, 8)))
    given = launch(UNIT, devices=[grants, grants], gpu=plain, row_gpus=(None, plain, one, None))
    plan = plan_of(given, 4, "")
    seen = [[dict(task.env)["CUDA_VISIBLE_DEVICES"] for task in role.tasks] for role in plan.roles]
    assert seen == [[""], ["0,1", "0,1", "2,3"], [""], ["0,1", "0,1,2,3"]]
    assert dict(plan.roles[1].tasks[2].env)["XCE_GPUS"] == "6,7"
    hidden = replace(given, row_gpus=(None, GpuWish(count=2, mps="yes,nocvd"), one, None))
    envs = [dict(task.env) for role in plan_of(hidden, 4, "").roles for task in role.tasks]
    assert not any("CUDA_VISIBLE_DEVICES" in env for env in envs)
