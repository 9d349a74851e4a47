"""Checkpoints of jobs over REST."""

import pytest
from rest_cluster import run_rest

from xce.model.checkpoint import Checkpoints, request_number
from xce.model.effect import SetLimits
from xce.testing.builders import place, report_started

WANTED = {"directory": "/ck", "method": "m", "period_s": 90, "first_s": 30}


def test_what_was_asked_for_is_shown_and_a_request_reaches_the_attempt():
    async def story(rest):
        job = await rest.submit("true", checkpoints=WANTED)
        assert (await rest.get(f"/jobs/{job}"))[1]["checkpoints"] == WANTED
        spec = rest.controller.state.spec(rest.controller.job(job))
        assert spec.checkpoints == Checkpoints("/ck", "m", 90_000_000, 30_000_000)
        place(rest.controller, job)
        report_started(rest.controller, job)
        rest.link.pump()
        for more, number in (
            ({}, request_number(ends=False, forced=False)),
            ({"end": True, "force": True}, request_number(ends=True, forced=True)),
        ):
            body = {"action": "checkpoint", "select": {"jobs": [str(job)]}, **more}
            _, document = await rest.post("/jobs/actions", body)
            assert document["results"] == [{"job": str(job), "jobid": job, "text": "checkpointed"}]
            assert rest.controller.attempt(job).signals[-1] == number
        select = {"jobs": [str(job)]}
        for period_s, status in ((600, 200), (0, 200), (3, 400)):
            change = {"checkpoint_period_s": period_s}
            body = {"action": "modify", "select": select, "change": change}
            assert (await rest.post("/jobs/actions", body))[0] == status
            if status == 200:
                told = [one for _, one in rest.controller.effects() if isinstance(one, SetLimits)]
                assert told[-1].checkpoint_period_us == period_s * 1_000_000
                rest.link.pump()
                row = (await rest.get(f"/jobs/{job}"))[1]
                assert row["checkpoints"] == {**WANTED, "period_s": period_s}
        other = await rest.submit()
        select = {"jobs": [str(other)]}
        body = {"action": "modify", "select": select, "change": {"checkpoint_period_s": 60}}
        _, document = await rest.post("/jobs/actions", body)
        found = document.get("lsf") or document["results"][0]["error"]["lsf"]
        assert found == "Job is not checkpointable"

    run_rest(story, checkpoint_programs="/programs")


def test_a_period_is_changed_of_the_jobs_that_have_one_and_the_others_are_told_of():
    async def story(rest):
        jobs = [
            await rest.submit("true", checkpoints=WANTED),
            await rest.submit(),
            await rest.submit("true", checkpoints=WANTED),
        ]
        select = {"jobs": list(map(str, jobs))}
        body = {"action": "modify", "select": select, "change": {"checkpoint_period_s": 600}}
        status, document = await rest.post("/jobs/actions", body)
        assert status == 200, document
        first, second, third = document["results"]
        assert (first["text"], third["text"]) == ("modified", "modified")
        assert (second["job"], second["error"]["lsf"]) == (
            str(jobs[1]), "Job is not checkpointable",
        )  # fmt: skip

    run_rest(story, checkpoint_programs="/programs")


async def change(rest, job, **members):
    body = {"action": "modify", "select": {"jobs": [str(job)]}, "change": members}
    status, document = await rest.post("/jobs/actions", body)
    rest.link.pump()
    refused = document["results"][0].get("error", {}) if status == 200 else document
    return refused.get("text", refused.get("detail", ""))


def test_checkpoints_of_what_waits_are_written_otherwise_or_not_at_all():
    async def story(rest):
        job = await rest.submit("true", checkpoints=WANTED, warning_signal=100, warning_s=60)
        other = {"directory": "/other", "method": "x", "period_s": 60, "first_s": 0}
        assert not await change(rest, job, checkpoints=other)
        assert (await rest.get(f"/jobs/{job}"))[1]["checkpoints"] == other
        assert rest.controller.entries[-1].records[-1].changes == (
            "checkpoints=/other method=x period_s=60"
        )
        assert "for jobs with -k" in await change(rest, job, unset=["checkpoints"])
        assert "at least 5 s" in await change(rest, job, checkpoints={**other, "period_s": 1})
        members = ["checkpoints", "warning_signal", "warning_s"]
        assert not await change(rest, job, unset=members)
        assert (await rest.get(f"/jobs/{job}"))[1]["checkpoints"] is None
        assert not await change(rest, job, checkpoints=other)
        rest.be("root", is_admin=False)
        assert await change(rest, job, checkpoints=WANTED)
        rest.be("alice", uid=1001)
        place(rest.controller, job)
        report_started(rest.controller, job)
        rest.link.pump()
        assert "has started" in await change(rest, job, checkpoints=WANTED)
        assert not await change(rest, job, checkpoint_period_s=600)

    run_rest(story, checkpoint_programs="/programs")


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"checkpoints": {"directory": "relative"}}, 400),
        ({"checkpoints": {"directory": "/ck", "method": "../m"}}, 400),
        ({"checkpoints": {"directory": "/ck", "period_s": -1}}, 400),
        ({"checkpoints": {"directory": "/ck", "first_s": 60}}, 400),
        ({"checkpoints": WANTED, "terminal": {"mode": "I"}}, 400),
        ({"checkpoints": {"directory": "/ck", "period_s": 4.9}}, 400),
        ({"warning_signal": 100, "warning_s": 60}, 400),
        ({"warning_signal": 70, "warning_s": 60}, 400),
        ({"warning_signal": 10, "warning_command": "save", "warning_s": 60}, 400),
        ({"warning_command": "save"}, 400),
        ({"warning_command": " ", "warning_s": 60}, 400),
        ({"warning_command": "save", "warning_s": 60}, 201),
        ({"warning_signal": 70, "warning_s": 60, "checkpoints": WANTED}, 400),
        ({"warning_signal": 100, "warning_s": 60, "checkpoints": WANTED}, 201),
    ],
)
def test_what_makes_no_sense_is_refused(more, status):
    async def story(rest):
        found, document = await rest.post("/jobs", {"command": "true", **more})
        assert found == status, document
        job = await rest.submit()
        body = {"action": "kill", "end": True, "select": {"jobs": [str(job)]}}
        assert (await rest.post("/jobs/actions", body))[0] == 400

    run_rest(story, checkpoint_programs="/programs")


def test_a_warning_becomes_a_command_a_signal_or_none():
    async def story(rest):
        job = await rest.submit("true", warning_signal=10, warning_s=60)
        told = []
        for changed in (
            {"warning_command": "save"},
            {"warning_s": 30},
            {"warning_signal": 12},
            {"unset": ["warning_signal", "warning_s"]},
        ):
            assert not await change(rest, job, **changed)
            row = (await rest.get(f"/jobs/{job}"))[1]
            told.append((row["warning_signal"], row["warning_command"], row["warning_s"]))
        assert told == [(0, "save", 60), (0, "save", 30), (12, "", 30), (0, "", 0)]

    run_rest(story)


def test_without_programs_nothing_is_accepted():
    async def story(rest):
        status, document = await rest.post("/jobs", {"command": "true", "checkpoints": WANTED})
        assert (status, "checkpoint_programs" in document["detail"]) == (400, True)

    run_rest(story)
