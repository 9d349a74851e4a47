"""What becomes of launches that nothing is missing for."""

import os
import pwd
from pathlib import Path

from specs import asked

from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.step.plan import decode_plan
from xce.worker.accounts import Accounts
from xce.worker.action import Spawn
from xce.worker.launcher import Launcher, Prepared
from xce.worker.store import Store, digest_of

UNIT = """
version: 1
command: serve
roles: [{name: a}, {name: b, count: 2, command: other}]
relations: [{kind: ready-after, from: a, to: b}]
"""


def prepared(tmp_path: Path, text: str) -> tuple[Prepared, Store]:
    """Return what a launch of a jobspec comes to."""
    found = asked(text)
    me = pwd.getpwuid(os.geteuid())
    owner = Owner(me.pw_name, me.pw_uid, me.pw_gid)
    store, accounts = Store(tmp_path), Accounts()
    accounts.load(owner)
    script = b"serve\n"
    digest = digest_of(script)
    store.store_script(digest, script)
    spec = JobSpec(
        command="serve", script=digest, roles=found.roles, relations=found.relations,
        runs_by_roles=found.runs_by_roles, args=("1",),
    )  # fmt: skip
    launch = Launch(
        job=7, indices=[3], attempts=[1], spec=spec, owner=owner, queue="q", project="p",
        cluster="c", hosts=(("h1", 2), ("h2", 1)), tasks_max=3, submit_at_us=0, run_limit_us=0,
        term_grace_us=0, kill_interval_us=1, rows=(("a", "h1", 1), ("b", "h1", 1), ("b", "h2", 1)),
    )  # fmt: skip
    made = Prepared([], [], {})
    Launcher("h1", store, accounts).prepare(Spawn(launch, [(3, 1)]), made, 0)
    return made, store


def test_a_job_that_runs_by_roles_runs_its_step(tmp_path):
    made, _ = prepared(tmp_path, UNIT)
    (order,) = made.orders
    assert order.shared.way == "exec"
    python, *flags, program = order.shared.script
    assert Path(python).exists()
    assert flags == ["-I", "-S"]
    assert Path(program).name == "step_main.py"
    assert Path(program).exists()
    assert order.shared.says
    ((_, index, _, env, *_),) = order.items
    plan = decode_plan(Path(env["XCE_STEP_PLAN"]).read_text())
    assert (plan.job, plan.element, index) == ("7", "3", 3)
    assert [(role.name, role.command, role.args) for role in plan.roles] == [
        ("a", "serve\n", ("1",)), ("b", "other", ()),
    ]  # fmt: skip


def test_another_job_runs_its_script(tmp_path):
    made, store = prepared(tmp_path, "version: 1\ncommand: serve\nroles: [{name: a}, {name: b}]")
    (order,) = made.orders
    assert order.shared.script == [store.script_path(digest_of(b"serve\n")), "1"]
    assert not order.shared.says
    assert "XCE_STEP_PLAN" not in order.items[0][3]
