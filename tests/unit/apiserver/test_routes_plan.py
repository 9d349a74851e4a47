"""What would let a job start, and what would become of a submission, over REST."""

import asyncio
import os

import pytest
from rest_cluster import run_rest

from xce.apiserver.copies import Copies, CopyError
from xce.model.command import ProposePlan
from xce.model.config import QueueConfig
from xce.sched.session import run_session
from xce.testing.builders import report_started


def session(rest):
    """Run one session, let what it starts run, and let the replica have all of it."""
    plan = run_session(rest.controller.state, now_us=rest.controller.now_us)
    rest.controller.tell(ProposePlan(plan), by="scheduler")
    for gang in plan.gangs:
        report_started(rest.controller, gang.job, gang.index)
    rest.link.pump()


def test_why_tells_what_would_let_a_job_start_and_who_must_end():
    async def story(rest):
        first = await rest.submit(tasks=[3, 3], run_limit_s=600)
        session(rest)
        job = await rest.submit(tasks=[7, 7])
        session(rest)
        _, document = await rest.get(f"/jobs/{job}/why")
        advice = document["advice"]
        assert advice["reason"]["code"] == "hosts"
        assert advice["table"][0]["text"] == "2 hosts busy (needs 7 slots, most free on one is 4)"
        assert [item["text"] for item in advice["suggestions"]] == ["5 tasks instead of 7"]
        assert advice["suggestions"][0]["changes"][0]["option"] == "-n 5"
        assert [item["jobid"] for item in advice["blockers"]] == [first]
        ends_at = advice["blockers"][0]["ends_at"]
        assert advice["expected_start"] == pytest.approx(ends_at)
        assert sum(slots for _, slots in advice["expected_hosts"]) == 7
        assert "run limits" in advice["assumption"]
        _, document = await rest.get(f"/jobs/{job}/why", advice=0)
        assert document["advice"] is None
        _, document = await rest.get(f"/jobs/{first}/why")
        assert document["advice"] is None

    run_rest(story, hosts={"h1": 4, "h2": 4})


def test_why_of_an_array_is_about_its_first_waiting_element():
    async def story(rest):
        job = await rest.submit(array="3-9:2", name="a", hold=True)
        _, document = await rest.get(f"/jobs/{job}/why")
        assert document["advice"]["index"] == 3
        assert document["advice"]["suggestions"][0]["changes"][0]["kind"] == "hold"
        assert document["advice"]["expected_start"] is None
        _, document = await rest.get(f"/jobs/{job}/why", index=7)
        assert document["advice"]["index"] == 7

    run_rest(story)


def test_a_plan_tells_where_a_job_would_run_and_submits_nothing():
    async def story(rest):
        body = {"command": "x", "tasks": [6, 6]}
        status, document = await rest.post("/plan", body)
        assert (status, document["accepted"], document["starts_now"]) == (200, True, True)
        assert sum(slots for _, slots in document["hosts"]) == 6
        assert (document["queue"], document["default_queue"]) == ("normal", True)
        await rest.submit(tasks=[6, 6], run_limit_s=300)
        session(rest)
        _, document = await rest.post("/plan", body)
        assert (document["accepted"], document["starts_now"]) == (True, False)
        assert document["advice"]["expected_start"] is not None
        assert document["advice"]["suggestions"][0]["text"] == "2 tasks instead of 6"
        _, document = await rest.get("/jobs", user="all")
        assert len(document["jobs"]) == 1

    run_rest(story, hosts={"h1": 4, "h2": 4})


def test_a_plan_that_would_be_refused_says_why():
    async def story(rest):
        for body, code in (
            ({"command": "x", "queue": "nowhere"}, "unknown-queue"),
            ({"command": "x", "resreq": ["select[nothing>"]}, "bad-resreq"),
            ({"command": " "}, "empty-job"),
            ({"command": "x", "tasks": [9, 9]}, "too-many-tasks"),
        ):
            status, document = await rest.post("/plan", body)
            assert (status, document["accepted"], document["error"]["code"]) == (200, False, code)
        rest.be("bob", may_run=False)
        _, document = await rest.post("/plan", {"command": "x"})
        assert document["error"]["code"] == "denied"

    run_rest(story, queues=[QueueConfig(name="normal", default=True, tasks_max=8)])


def test_what_could_never_run_is_accepted_with_a_warning_and_never_expected():
    async def story(rest):
        _, document = await rest.post("/plan", {"command": "x", "tasks": [20, 20]})
        assert document["accepted"]
        assert document["warning"]
        advice = document["advice"]
        assert advice["reason"]["unsatisfiable"]
        assert advice["expected_start"] is None
        assert advice["assumption"] == "it could never run on this cluster as it is"
        assert advice["suggestions"][0]["text"] == "8 tasks instead of 20"

    run_rest(story, hosts={"h1": 4, "h2": 4})


def ask(work, **options):
    async def tell():
        return await Copies().ask(work, **options)

    return asyncio.run(tell())


def test_a_copy_sends_parts_and_changes_nothing_here():
    kept = []

    def work():
        kept.append(1)
        yield b"one"
        yield b"x" * 300_000

    assert ask(work) == [b"one", b"x" * 300_000]
    assert kept == []


def test_a_copy_that_fails_says_so_and_one_that_is_slow_gives_what_it_has():
    def fail():
        yield b"one"
        raise ValueError("broken")

    with pytest.raises(CopyError, match="broken"):
        ask(fail)

    def hang():
        yield b"one"
        reading, _ = os.pipe()
        os.read(reading, 1)

    assert ask(hang, timeout_s=0.2) == [b"one"]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
