from rest_cluster import run_rest

from xce.model.command import ProposePlan
from xce.sched.session import run_session
from xce.testing.builders import report_started

SPEC = {"version": 1, "roles": [{"name": "a", "command": "x"}, {"name": "b", "command": "y"}]}


async def start(rest, job):
    controller = rest.link.controller
    plan = run_session(controller.state, now_us=controller.now_us)
    controller.tell(ProposePlan(plan), by="scheduler")
    report_started(rest.controller, job)
    rest.link.pump()


def test_how_the_tasks_of_roles_are_is_read_where_the_step_wrote_it():
    async def story(rest):
        status, document = await rest.post("/jobs", {"spec": SPEC, "output": "out"})
        assert status == 201, document
        (job,) = rest.link.asked[-1][0].jobs
        assert job.spec.runs_by_roles
        assert job.spec.command == "x"
        await start(rest, 1)
        rest.link.files[1, 0, "roles"] = b'{"roles":[]}'
        assert await rest.get("/jobs/1/output", stream="roles") == (200, b'{"roles":[]}')
        asked = rest.link.read_requests[-1]
        assert (asked.stream, asked.path, asked.user) == ("roles", "", "alice")
        rest.be("bob")
        status, document = await rest.get("/jobs/1/output", stream="roles")
        assert (status, document["code"]) == (403, "not-yours")

    run_rest(story)


def test_a_job_with_one_command_has_no_such_thing():
    async def story(rest):
        await rest.submit()
        await start(rest, 1)
        status, document = await rest.get("/jobs/1/output", stream="roles")
        assert (status, document["code"]) == (404, "no-output")
        assert "does not run by roles" in document["detail"]
        status, document = await rest.get("/jobs/1/output", stream="x")
        assert (status, document["detail"]) == (400, "stream=x: expected stdout, stderr or roles")

    run_rest(story)
