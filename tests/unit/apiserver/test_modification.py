"""Jobs that are changed over REST: ``modify`` and ``switch``."""

import pytest
from rest_cluster import run_rest

from xce.apiserver.modification import ChangeBody, changed_members, render_changes
from xce.apiserver.problems import ProblemError
from xce.control.modify import OF_OWNER
from xce.model.config import QueueConfig
from xce.model.process_limits import ProcessLimits
from xce.testing.builders import modify as tell_modify
from xce.testing.builders import place, report_started

QUEUES = (
    QueueConfig(name="normal", default=True, default_run_limit_us=60_000_000),
    QueueConfig(name="wide", tasks_min=2),
    QueueConfig(name="small", tasks_max=3),
    QueueConfig(name="middle", tasks_max=5),
)


async def change(rest, job, **members):
    """Change a job; return its result."""
    body = {"action": "modify", "select": {"jobs": [str(job)]}, "change": members}
    status, document = await rest.post("/jobs/actions", body)
    if status != 200:
        return document
    (result,) = document["results"]
    return result


def test_members_take_new_values_and_the_others_stay():
    async def story(rest):
        job = await rest.submit("true", name="a", resreq=["select[mem>1]", "rusage[mem=10]"],
                                tasks=[2, 2], run_limit_s=120, output="o1")  # fmt: skip
        result = await change(
            rest, job, tasks=[4, 4], name="b", output="o2", output_append=False, priority=3,
            dependency="", mem_limit_kib=1024,
        )  # fmt: skip
        assert result == {"job": str(job), "jobid": job, "text": "modified", "queue": "normal"}
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["name"], row["tasks_min"], row["tasks_max"]) == ("b", 4, 4)
        assert (row["output"], row["output_append"], row["priority"]) == ("o2", False, 3)
        assert (row["run_limit_s"], row["mem_limit_kib"]) == (120, 1024)
        assert row["resreq_asked"] == "select[mem>1] rusage[mem=10]"
        assert "rusage[mem=10.00]" in row["resreq"]
        await change(rest, job, resreq=["rusage[mem=20]"], unset=["tasks", "run_limit_s", "name"])
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["tasks_max"], row["run_limit_s"], row["named"]) == (1, 60, False)
        assert row["resreq_asked"] == "rusage[mem=20]"

    run_rest(story, queues=QUEUES)


def test_another_queue_makes_of_a_request_what_it_would_of_a_new_one():
    async def story(rest):
        job = await rest.submit("true", run_limit_s=30)
        assert (await change(rest, job, queue="wide", tasks=[1, 4]))["queue"] == "wide"
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["queue"], row["tasks_min"], row["tasks_max"]) == ("wide", 2, 4)
        assert row["run_limit_s"] == 30
        await change(rest, job, unset=["queue"])
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["queue"], row["tasks_min"]) == ("normal", 1)
        body = {"action": "switch", "select": {"jobs": [str(job)]}, "to_queue": "wide"}
        _, document = await rest.post("/jobs/actions", body)
        assert document["results"] == [
            {"job": str(job), "jobid": job, "text": "switched", "queue": "wide"}
        ]
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["queue"], row["tasks_min"], row["tasks_max"]) == ("wide", 2, 4)

    run_rest(story, queues=QUEUES)


@pytest.mark.parametrize(
    "resreq",
    [
        "mem>=0",
        "1*{mem>=0} + {mem>=0}",
        "1*{mem>=0} + 2*{mem>=0}",
        "{mem>=0} || {mem>=1}",
        "{1*{mem>=0} + {mem>=0}} || {mem>=1}",
        "{1*{mem>=0} + 2*{mem>=0}} || {2*{mem>=0} + {mem>=2}}",
    ],
)
def test_what_one_queue_cuts_of_a_range_the_next_one_gives_back(resreq: str):
    async def story(rest):
        def asked(job):
            return rest.controller.state.key(rest.controller.job(job)).request

        members = {"resreq": [resreq], "tasks": [3, 8]}
        names = ("normal", "small", "middle")
        new = {name: asked(await rest.submit("true", queue=name, **members)) for name in names}
        assert new["small"].tasks_max == 3
        job = await rest.submit("true", queue="normal", **members)
        for name in ("small", "normal", "middle", "small", "middle", "normal"):
            body = {"action": "switch", "select": {"jobs": [str(job)]}, "to_queue": name}
            await rest.post("/jobs/actions", body)
            assert asked(job) == new[name]

    run_rest(story, queues=QUEUES)


def test_another_command_is_what_runs():
    async def story(rest):
        job = await rest.submit("echo one")
        assert (await change(rest, job, command="echo two"))["text"] == "modified"
        _, text = await rest.get(f"/jobs/{job}/script")
        assert text == b"echo two"
        await change(rest, job, script="echo three\n", script_name="s", args=["x"])
        _, row = await rest.get(f"/jobs/{job}")
        assert row["command"] == "s x"
        assert (await change(rest, job, args=["y"]))["code"] == "bad-request"

    run_rest(story)


def test_what_cannot_be_read_or_is_not_allowed_is_refused():
    async def story(rest):
        job = await rest.submit()
        array = await rest.submit(array="1-3")
        assert (await change(rest, job, resreq=["rusage["]))["code"] == "bad-resreq"
        assert (await change(rest, job, name="a[1-3]"))["lsf"] == "Job array index error"
        assert (await change(rest, 99, priority=1))["error"]["code"] == "unknown-job"
        assert (await change(rest, job))["code"] == "bad-request"
        assert (await change(rest, job, priority=1, unset=["priority"]))["code"] == "bad-request"
        assert (await change(rest, f"{array}[2]", array_limit=1))["error"]["code"] == "not-built"
        assert (await change(rest, f"{array}[9]", priority=1))["error"]["code"] == "unknown-job"
        result = await change(rest, f"{array}[1-3]", array_limit=1)
        assert (result["job"], result["text"]) == (f"{array}[1-3]", "modified")
        assert (await change(rest, f"{array}[1,3]", priority=9))["job"] == f"{array}[1,3]"
        place(rest.controller, job)
        report_started(rest.controller, job)
        rest.link.pump()
        error = (await change(rest, job, priority=1))["error"]
        assert error["lsf"].startswith("Only the following parameters can be used")
        for body in (
            {"action": "modify", "select": {"jobs": [str(job)]}},
            {"action": "kill", "select": {"jobs": [str(job)]}, "change": {"priority": 1}},
            {"action": "switch", "select": {"jobs": [str(job)]}},
            {"action": "modify", "select": {"all": True}, "change": {"priority": 1}},
        ):
            status, document = await rest.post("/jobs/actions", body)
            assert (status, document["code"]) == (400, "bad-request")

    run_rest(story)


def test_a_job_that_somebody_else_changed_meanwhile_is_made_out_again():
    async def story(rest):
        job = await rest.submit("true", name="a")
        rest.link.holds_entries = True
        tell_modify(rest.controller, job, priority=7)

        async def arrive(*_):
            rest.link.pump()

        rest.replica.reach = arrive
        result = await change(rest, job, name="b")
        assert result["text"] == "modified"
        rest.link.pump()
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["name"], row["priority"]) == ("b", 7), "both changes hold"

    run_rest(story)


def test_changes_are_told_in_words():
    body = ChangeBody(tasks=(1, 2), resreq=["a", "b"], run_limit_s=60.0, unset=["name"])
    assert render_changes(body) == "tasks=1,2, resreq=a b, run_limit_s=60, name unset"
    assert changed_members(body) == ("name", "resreq", "run_limit_s", "tasks")
    assert len(render_changes(ChangeBody(command="x" * 9_000))) == 1024
    assert changed_members(ChangeBody(script_data=b"x")) == ("script",)
    with pytest.raises(ProblemError, match="nothing"):
        changed_members(ChangeBody())


def test_what_roles_say_is_changed_in_their_jobspec():
    async def story(rest):
        roles = [{"name": "a", "command": "x"}, {"name": "b", "command": "y", "count": 2}]
        status, _ = await rest.post("/jobs", {"spec": {"version": 1, "roles": roles}})
        assert status == 201
        for members in ({"tasks": [4, 4]}, {"command": "z"}, {"hosts": "h1"}):
            refused = await change(rest, 1, **members)
            (name,) = members
            assert refused.get("error", refused)["code"] == "not-built", refused
            assert f"job 1 has roles, which say its {name}" in str(refused)
        _, before = await rest.get("/jobs/1/spec")
        assert (await change(rest, 1, queue="wide", name="n"))["queue"] == "wide"
        _, after = await rest.get("/jobs/1/spec")
        assert after["roles"] == before["roles"]

    run_rest(story, queues=QUEUES)


def test_mail_shell_shares_and_description_of_a_pending_job_are_changed():
    async def story(rest):
        job = await rest.submit("true", notices=["exit"], login_shell="/bin/sh")
        result = await change(
            rest, job, mail_start=True, mail_exit=False, mail_to="a@b.org", description="what",
            output_dir="out/%J", ends_as_orphan=True, unset=["login_shell"],
        )  # fmt: skip
        assert result["text"] == "modified"
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["notices"], row["mail_to"], row["login_shell"]) == (["start"], "a@b.org", "")
        assert (row["description"], row["output_dir"]) == ("what", "out/%J")
        await change(rest, job, unset=["mail_to", "description", "output_dir"])
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["mail_to"], row["description"], row["output_dir"]) == ("", "", "")
        assert row["notices"] == ["start"]
        refusal = await change(rest, job, user_group="nobody")
        assert refusal["error"]["lsf"] == "Bad user group name"
        assert (await change(rest, job, mail_to="a b c@d@e"))["code"] == "bad-request"

    run_rest(story, queues=QUEUES)


def test_gpus_stay_when_something_else_is_changed_and_go_when_they_are_unset():
    async def story(rest):
        job = await rest.submit("true", gpu={"num": 2}, tasks=[2, 2])
        await change(rest, job, tasks=[3, 3], resreq=["select[mem>1]"])
        _, row = await rest.get(f"/jobs/{job}")
        assert row["gpu_asked"].startswith("num=2:")
        state = rest.controller.state
        assert state.key(state.jobs[job]).request.gpu.count == 2
        await change(rest, job, gpu={"num": 1, "mode": "exclusive_process"})
        assert state.key(state.jobs[job]).request.gpu.count == 1
        assert "mode=exclusive_process" in (await rest.get(f"/jobs/{job}"))[1]["gpu_asked"]
        await change(rest, job, unset=["gpu"])
        assert state.key(state.jobs[job]).request.gpu is None
        assert (await rest.get(f"/jobs/{job}"))[1]["gpu_asked"] == ""
        await change(rest, job, nodes=2, unset=["resreq"])
        assert state.key(state.jobs[job]).request.whole_hosts == 2
        await change(rest, job, unset=["nodes"])
        assert state.key(state.jobs[job]).request.whole_hosts == 0

    run_rest(story, queues=QUEUES)


def test_of_a_running_job_the_description_can_be_changed_and_its_mail_cannot():
    async def story(rest):
        job = await rest.submit("true")
        place(rest.controller, job)
        rest.link.pump()
        assert (await change(rest, job, description="new"))["text"] == "modified"
        assert (await rest.get(f"/jobs/{job}"))[1]["description"] == "new"
        assert (await change(rest, job, mail_done=True))["error"]["code"] == "wrong-state"

    run_rest(story, queues=QUEUES)


def test_limits_of_processes_are_changed_each_on_its_own_and_told():
    async def story(rest):
        given = {"cpu_limit_s": 60, "process_limit": 5, "core_limit_kib": 0}
        job = await rest.submit("true", limits=given)
        assert (await rest.get(f"/jobs/{job}"))[1]["limits"] == given
        await change(rest, job, limits={"cpu_limit_s": 1.5, "stack_limit_kib": 8})
        expected = {**given, "cpu_limit_s": 1.5, "stack_limit_kib": 8}
        assert (await rest.get(f"/jobs/{job}"))[1]["limits"] == expected
        await change(rest, job, unset=["core_limit_kib", "process_limit"])
        assert (await rest.get(f"/jobs/{job}"))[1]["limits"] == {
            "cpu_limit_s": 1.5, "stack_limit_kib": 8,
        }  # fmt: skip
        place(rest.controller, job)
        rest.link.pump()
        assert (await change(rest, job, limits={"cpu_limit_s": 9}))["text"] == "modified"
        error = (await change(rest, job, limits={"stack_limit_kib": 9}))["error"]
        assert error["code"] == "wrong-state"

    run_rest(story, queues=QUEUES)


def test_a_jobs_limits_are_its_new_queues_where_they_were_its_old_ones():
    loose = QueueConfig(name="loose", limits=ProcessLimits(processes=9))
    tight = QueueConfig(name="tight", default=True, limits=ProcessLimits(processes=5, threads=7))

    async def story(rest):
        job = await rest.submit("true", limits={"stack_limit_kib": 8})
        limits = (await rest.get(f"/jobs/{job}"))[1]["limits"]
        assert limits == {"process_limit": 5, "thread_limit": 7, "stack_limit_kib": 8}
        await change(rest, job, queue="loose")
        limits = (await rest.get(f"/jobs/{job}"))[1]["limits"]
        assert limits == {"process_limit": 9, "stack_limit_kib": 8}

    run_rest(story, queues=(tight, loose))


def test_files_to_copy_are_changed_as_a_whole_by_the_owner():
    async def story(rest):
        before, after = ["/a", ">", "b", "1 x"], ["/c", "<<", "d", "1 y"]
        job = await rest.submit("true", transfers=[before])
        assert (await rest.get(f"/jobs/{job}"))[1]["transfers"] == [before]
        assert (await change(rest, job, transfers=[after, before]))["text"] == "modified"
        assert (await rest.get(f"/jobs/{job}"))[1]["transfers"] == [after, before]
        assert (await change(rest, job, priority=3))["text"] == "modified"
        assert (await rest.get(f"/jobs/{job}"))[1]["transfers"] == [after, before]
        assert (await change(rest, job, unset=["transfers"]))["text"] == "modified"
        assert (await rest.get(f"/jobs/{job}"))[1]["transfers"] == []

    run_rest(story)
    body = ChangeBody(transfers=[("/a", ">", "b", "1 x"), ("c", "<", "c", "1 x")])
    assert render_changes(body) == "transfers=/a > b; c < c"
    assert "transfers" in OF_OWNER
