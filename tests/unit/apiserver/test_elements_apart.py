"""What is answered about elements of an array that were changed apart from the rest of it."""

from rest_cluster import run_rest

from xce.model.config import QueueConfig
from xce.testing.builders import kill, place, report_ended, report_started, tick

QUEUES = (QueueConfig(name="normal", default=True), QueueConfig(name="night"))
DAY_US = 24 * 3600 * 1_000_000


async def change(rest, named, **members):
    """Change a job, or elements of one."""
    body = {"action": "modify", "select": {"jobs": [named]}, "change": members}
    status, document = await rest.post("/jobs/actions", body)
    assert (status, "error" in document["results"][0]) == (200, False), document
    rest.link.pump()


async def array_of(rest, **members):
    """Submit an array ``[1-9:2]`` and change two elements of it, each in its own way."""
    job = await rest.submit("a", array="1-9:2%2", hold=True, **members)
    await change(rest, f"{job}[5]", command="b", run_limit_s=60)
    await change(rest, f"{job}[9]", queue="night", resreq=["rusage[mem=4M]"])
    return job


def test_the_jobspec_of_an_element_says_what_that_is():
    async def story(rest):
        job = await array_of(rest)
        _, spec = await rest.get(f"/jobs/{job}/spec", index=3)
        assert spec == {
            "version": 1, "command": "a", "queue": "normal", "project": "default", "array": "3",
            "hold": True,
        }  # fmt: skip
        _, five = await rest.get(f"/jobs/{job}/spec", index=5)
        assert five == {**spec, "command": "b", "run_limit": "60s", "array": "5"}
        _, nine = await rest.get(f"/jobs/{job}/spec", index=9)
        mem = {"resreq": "rusage[mem=4M]", "unit": "cluster"}
        assert nine == {**spec, "queue": "night", "array": "9", **mem}
        _, whole = await rest.get(f"/jobs/{job}/spec")
        assert whole == {**spec, "array": "1-3:2,7%2"}
        status, _ = await rest.get(f"/jobs/{job}/spec", index=2)
        assert status == 404

    run_rest(story, queues=QUEUES)


def test_the_jobspec_of_an_element_is_submitted_as_that_element():
    async def story(rest):
        job = await array_of(rest)
        for index in (3, 5, 9):
            _, spec = await rest.get(f"/jobs/{job}/spec", index=index)
            status, document = await rest.post("/jobs", {"spec": spec})
            assert status == 201, document
            again = document["results"][0]["jobid"]
            rest.link.pump()
            _, same = await rest.get(f"/jobs/{again}/spec")
            assert same == spec
            _, row = await rest.get(f"/jobs/{again}", index=index)
            assert (row["index"], row["stat"]) == (index, "PSUSP")

    run_rest(story, queues=QUEUES)


def test_an_element_that_is_released_is_not_held_in_its_jobspec():
    async def story(rest):
        job = await array_of(rest)
        body = {"action": "resume", "select": {"jobs": [f"{job}[7]"]}}
        await rest.post("/jobs/actions", body)
        rest.link.pump()
        _, spec = await rest.get(f"/jobs/{job}/spec", index=7)
        assert "hold" not in spec
        _, spec = await rest.get(f"/jobs/{job}/spec", index=3)
        assert spec["hold"] is True

    run_rest(story, queues=QUEUES)


def test_an_array_of_which_every_element_was_changed_apart_has_no_jobspec_of_its_own():
    async def story(rest):
        job = await rest.submit("a", array="1-2", hold=True)
        await change(rest, f"{job}[1]", command="b")
        await change(rest, f"{job}[2]", command="c")
        status, problem = await rest.get(f"/jobs/{job}/spec")
        assert (status, "name one (index=)" in problem["detail"]) == (400, True)
        _, spec = await rest.get(f"/jobs/{job}/spec", index=2)
        assert spec["command"] == "c"

    run_rest(story, queues=QUEUES)


def test_elements_that_left_the_state_are_told_as_they_were():
    async def story(rest):
        job = await rest.submit("a", array="1-9:2%2")
        await change(rest, f"{job}[5]", command="b", run_limit_s=60)
        await change(rest, f"{job}[9]", queue="night", resreq=["rusage[mem=4M]"])
        controller = rest.controller
        for index in (1, 5):
            place(controller, job, index)
            report_started(controller, job, index)
            report_ended(controller, job, index)
        kill(controller, job)
        before = [await rest.get(f"/jobs/{job}/spec", index=at) for at in (1, 3, 5, 7, 9)]
        _, whole = await rest.get(f"/jobs/{job}/spec")
        rest.keep_history()
        tick(controller, after_us=DAY_US, history_seq=controller.state.seq)
        tick(controller, after_us=1_000_000, history_seq=controller.state.seq)
        rest.keep_history()
        rest.link.pump()
        assert job not in controller.state.jobs
        after = [await rest.get(f"/jobs/{job}/spec", index=at) for at in (1, 3, 5, 7, 9)]
        assert after == before
        _, again = await rest.get(f"/jobs/{job}/spec")
        assert again == whole
        wanted = {1: ("a", "normal"), 3: ("a", "normal"), 5: ("b", "normal"), 7: ("a", "normal"),
                  9: ("a", "night")}  # fmt: skip
        _, document = await rest.get(f"/jobs?ids={job}")
        assert _forms(document["jobs"]) == wanted
        _, document = await rest.get(f"/history/jobs?ids={job}&scope=all")
        assert _forms(document["rows"]) == wanted
        _, document = await rest.get("/history/usage?user=all")
        assert _forms(document["rows"]) == wanted
        _, row = await rest.get(f"/jobs/{job}", index=5)
        assert (row["command"], row["run_limit_s"]) == ("b", 60)

    run_rest(story, queues=QUEUES)


def _forms(rows):
    """Return command and queue of each element."""
    return {
        row["index"] + at * row.get("step", 1): (row["command"], row["queue"])
        for row in rows
        for at in range(row.get("count", 1))
    }


def test_the_course_of_an_element_has_the_changes_that_were_made_to_it():
    async def story(rest):
        job = await rest.submit("a", array="1-4")
        controller = rest.controller
        place(controller, job, 1)
        report_started(controller, job, 1)
        report_ended(controller, job, 1)
        for named, members in ((f"{job}[2]", {"run_limit_s": 60}), (f"{job}", {"queue": "night"})):
            controller.now_us += 1_000_000
            await change(rest, named, **members)
        own, both = ["modified run_limit_s=60"], ["switched night", "modified queue=night"]
        assert await _changes(rest, job) == {1: [], 2: [*own, *both], 3: both, 4: both}
        assert await _changes(rest, f"{job}[2-3]") == {2: [*own, *both], 3: both}
        controller.now_us += 1_000_000
        body = {"action": "requeue", "select": {"jobs": [f"{job}[1]"]}, "states": ["DONE"]}
        _, document = await rest.post("/jobs/actions", body)
        assert document["results"][0]["text"] == "requeued", document
        rest.link.pump()
        assert await _changes(rest, job) == {1: both, 2: [*own, *both], 3: both, 4: both}

    run_rest(story, queues=QUEUES)


async def _changes(rest, named):
    """Return what was changed of each element, in order."""
    rest.keep_history()
    _, document = await rest.get(f"/history/jobs?ids={named}&scope=all")
    return {
        row["index"] + at * row.get("step", 1): [
            f"{step['what']} {step['text']}"
            for step in row["steps"]
            if step["what"] in ("modified", "switched")
        ]
        for row in document["rows"]
        for at in range(row.get("count", 1))
    }
