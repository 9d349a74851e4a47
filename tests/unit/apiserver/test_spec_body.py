from rest_cluster import run_rest

from xce.model.command import ProposePlan
from xce.model.config import HostConfig
from xce.model.constraint import Colocate, Near
from xce.sched.session import run_session
from xce.testing.builders import submit

HOSTS = [HostConfig(name=f"h{at}", slots=4, labels={"switch": f"s{at % 2}"}) for at in range(1, 5)]
UNIT = {
    "version": 1,
    "name": "unit",
    "command": "serve",
    "run_limit": "2h",
    "env": {"MODE": "fast"},
    "roles": [
        {"name": "router", "resreq": "rusage[mem=1G]"},
        {"name": "decode", "count": 4},
    ],
    "relations": [{"kind": "colocate", "roles": ["router", "decode"], "scope": "switch"}],
}


def test_a_jobspec_is_submitted_shown_and_placed():
    async def story(rest):
        status, document = await rest.post(
            "/jobs", {"spec": UNIT, "env": ["A=1", "MODE=slow"], "output": "o"}
        )
        assert status == 201, document
        (job,) = rest.link.asked[-1][0].jobs
        assert (job.spec.name, job.spec.command, job.run_limit_us) == (
            "unit",
            "serve",
            7200 * 10**6,
        )
        assert [role.name for role in job.spec.roles] == ["router", "decode"]
        assert job.request.constraints == (Colocate(0, ("decode", "router"), ("switch",)),)
        assert rest.link.blobs[job.spec.env] == b"A=1\0MODE=fast"
        _, spec = await rest.get("/jobs/1/spec")
        assert spec["roles"] == [
            {"name": "router", "count": 1, "resreq": "rusage[mem=1G]"},
            {"name": "decode", "count": 4},
        ]
        assert (spec["output"], spec["run_limit"], spec["command"]) == ("o", "7200s", "serve")
        controller = rest.link.controller
        controller.tell(
            ProposePlan(run_session(controller.state, now_us=controller.now_us)), by="scheduler"
        )
        rest.link.pump()
        _, row = await rest.get("/jobs/1")
        assert sum(tasks for _, tasks in row["roles"][1]["hosts"]) == 4
        assert row["roles"][0]["ranks"] == [0]
        (proof,) = row["relations"]
        assert (proof["relation"], proof["kind"], proof["met"]) == (1, "colocate", True)
        assert proof["topology"] == controller.state.config_version

    run_rest(story, hosts=HOSTS, levels=("switch",))


def test_members_of_a_group_that_is_spread_are_told_to_be_apart():
    relation = "{kind: spread, from: part0, to: 'group:g', scope: host}"
    text = f"version: 1\ncommand: x\nrelations: [{relation}]\n"

    async def story(rest):
        for _ in range(2):
            await rest.post("/jobs", {"spec": text})
        controller = rest.link.controller
        controller.tell(
            ProposePlan(run_session(controller.state, now_us=controller.now_us)), by="scheduler"
        )
        rest.link.pump()
        _, row = await rest.get("/jobs/2")
        (proof,) = row["relations"]
        assert (proof["kind"], proof["level"], proof["met"]) == ("apart", "host", True)

    run_rest(story, hosts=HOSTS, levels=("switch",))


def test_a_text_names_its_file_and_line():
    async def story(rest):
        text = "version: 1\ncommand: x\nroles:\n  - {name: a, cout: 2}\n"
        status, problem = await rest.post("/jobs", {"spec": text, "spec_name": "unit.yaml"})
        assert (status, problem["code"]) == (422, "bad-spec")
        assert problem["detail"].startswith("unit.yaml:4: roles[1].cout: a role has no key 'cout'")
        status, problem = await rest.post("/jobs", {"spec": "version: 1\nroles: [{name: a}]"})
        assert problem["code"] == "empty-job"

    run_rest(story)


def test_nothing_is_said_twice():
    async def story(rest):
        for member, value in (
            ("name", "other"), ("tasks", [1, 1]), ("resreq", ["mem>1"]), ("command", "x"),
        ):  # fmt: skip
            status, problem = await rest.post("/jobs", {"spec": UNIT, member: value})
            assert (status, problem["code"]) == (400, "bad-request"), member
            assert f"{member} stands beside the jobspec" in problem["detail"]

    run_rest(story, hosts=HOSTS, levels=("switch",))


def test_what_is_not_built_is_refused_by_name():
    async def story(rest):
        spec = {**UNIT, "roles": [{"name": "a", "launch": "mpi"}, {"name": "b"}]}
        status, problem = await rest.post("/jobs", {"spec": {**spec, "relations": []}})
        assert (status, problem["code"]) == (422, "not-built")
        assert problem["detail"] == (
            "launch type mpi beside another one of the same command is not built yet (roles[1])"
        )

    run_rest(story, hosts=HOSTS, levels=("switch",))


def test_any_job_joins_a_placement_group_of_its_owner():
    async def story(rest):
        status, document = await rest.post(
            "/jobs", {"command": "x", "tasks": [2, 2], "placement_group": "exp,soft,switch"}
        )
        assert status == 201, document
        state = rest.link.controller.state
        near = state.key(state.jobs[1]).request.constraints[1]
        assert near == Near(0, ("part0",), "group:alice/exp", ("switch",), required=False)
        status, problem = await rest.post("/jobs", {"command": "x", "placement_group": "a b"})
        assert (status, problem["code"]) == (422, "bad-spec")
        status, problem = await rest.post(
            "/jobs", {"command": "x", "tasks": [1, 2], "placement_group": "exp,switch"}
        )
        assert status == 201
        assert state.key(state.jobs[2]).request.parts[0].is_ranged
        status, problem = await rest.post(
            "/jobs", {"command": "x", "nodes": 2, "placement_group": "exp,switch"}
        )
        assert problem["code"] == "not-built"

    run_rest(story, hosts=HOSTS, levels=("switch",))


def test_jobs_outside_are_named_by_id_or_name_and_must_be_ones_own():
    async def story(rest):
        def near(job):
            relation = {"kind": "colocate", "from": "router", "to": f"job:{job}", "scope": "host"}
            return {**UNIT, "relations": [relation]}

        status, problem = await rest.post("/jobs", {"spec": near(7)})
        assert (status, problem["code"]) == (404, "unknown-job")
        status, problem = await rest.post("/jobs", {"spec": near("trainer")})
        assert problem["code"] == "unknown-job"
        controller = rest.link.controller
        other = submit(controller)
        await rest.post("/jobs", {"command": "x", "name": "trainer"})
        status, _ = await rest.post("/jobs", {"spec": near("trainer")})
        assert status == 201
        state = controller.state
        last = state.jobs[state.next_job - 1]
        assert state.key(last).request.constraints[1].subject == f"job:{other + 1}"
        rest.be("bob")
        status, problem = await rest.post("/jobs", {"spec": near(other)})
        assert (status, problem["code"]) == (403, "not-yours")

    run_rest(story, hosts=HOSTS, levels=("switch",))


def test_a_value_that_rest_does_not_take_is_refused_with_its_member():
    async def story(rest):
        spec = {"version": 1, "command": "a", "login_shell": "no path"}
        status, document = await rest.post("/jobs", {"spec": spec})
        assert (status, document["code"]) == (422, "bad-spec")
        assert "login_shell" in document["detail"]

    run_rest(story, hosts=HOSTS)
