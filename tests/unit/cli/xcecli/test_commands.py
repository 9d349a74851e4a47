import asyncio
import io
import json

import pytest
import yaml
from rest_cluster import run_rest

from xce.cli.xcecli.main import execute
from xce.cli.xcecli.options import NOT_BUILT
from xce.model.command import ProposePlan
from xce.sched.session import run_session
from xce.testing.builders import place, report_ended, report_started, submission, submit


class Ran:
    """What a command gave."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


async def cli(rest, *words, **environ):
    """Run a command against the cluster."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.StringIO()
    settings = {
        "XCE_API_SOCKET": rest.socket,
        "XCE_WAIT_DAEMON": "0",
        "XDG_RUNTIME_DIR": "/nonexistent",
        "HOME": "/home/alice",
        "PWD": "/",
        **environ,
    }
    code = await asyncio.to_thread(execute, words, settings, out, err)
    return Ran(code, out.buffer.getvalue().decode(), err.getvalue())


def run(story, **settings):
    run_rest(story, **settings)


def test_a_job_is_submitted_listed_and_explained():
    async def story(rest):
        ran = await cli(rest, "submit", "--name", "nap", "sleep 5; true")
        assert (ran.code, ran.out) == (0, "Job 1 is submitted to queue normal.\n")
        ran = await cli(rest, "jobs")
        head, row = ran.out.splitlines()
        assert head.split()[:5] == ["JOB", "USER", "STAT", "QUEUE", "NAME"]
        assert row.split()[:6] == ["1", "alice", "PEND", "normal", "nap", "1"]
        assert "\033" not in ran.out
        ran = await cli(rest, "why", "1")
        first, *rest_of_it = ran.out.splitlines()
        assert first == "Job 1 pends: waiting for the next scheduling session."
        assert rest_of_it[1].startswith("Expected start: now on h1,")
        assert rest_of_it[2] == "  as things are, the next session starts it."
        ran = await cli(rest, "info", "1")
        assert "Command:   sleep 5; true\n" in ran.out

    run(story)


def test_words_keep_their_borders_and_one_word_is_a_command_line(tmp_path):
    async def story(rest):
        await cli(rest, "submit", "-n", "2", "echo", "-n", "a b")
        assert rest.replica.state.specs[1].command == "echo -n 'a b'"
        await cli(rest, "submit", "--", "a && b")
        assert rest.replica.state.specs[2].command == "a && b"
        script = tmp_path / "job.sh"
        script.write_bytes(b"#!/bin/sh\r\necho $1\r\n")
        ran = await cli(rest, "submit", "-f", str(script), "x y")
        assert "CRLF" in ran.err
        spec = rest.replica.state.specs[3]
        assert (spec.args, rest.link.blobs[spec.script]) == (("x y",), b"#!/bin/sh\necho $1\n")

    run(story)


def test_every_option_of_submit_arrives():
    async def story(rest):
        ran = await cli(
            rest, "submit", "-n", "2,3", "-R", "select[mem>1]", "-R", "rusage[mem=5]", "-q",
            "normal", "-W", "1.5h", "-M", "2G", "-m", "h1", "-P", "p", "--name", "n", "--array",
            "1-4%2", "--env", "A=1,2", "--env", "B=x", "--cwd", "sub", "-i", "in", "-o", "o", "-e",
            "e", "--hold", "--begin", "+10m", "--priority", "3", "--json", "true", B="y", C="z",
        )  # fmt: skip
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["jobid"] == 1
        (job,) = rest.link.asked[-1][0].jobs
        spec = job.spec
        assert (job.request.tasks_min, job.request.tasks_max) == (2, 3)
        assert spec.requested == "select[mem>1] rusage[mem=5]"
        assert (job.run_limit_us, spec.mem_limit_kib) == (5_400_000_000, 2 * 2**20)
        assert (spec.hosts_asked, job.project, spec.name, spec.array) == ("h1", "p", "n", "1-4")
        assert (spec.cwd_asked, spec.files.input, spec.files.output) == ("sub", "in", "o")
        assert (job.hold, job.priority, job.array.limit) == (True, 3, 2)
        env = rest.link.blobs[spec.env].decode().split("\0")
        assert {"A=1,2", "B=x", "C=z"} <= set(env)

    run(story)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["submit"], "nothing to run"),
        (["submit", "-n", "0", "x"], "-n 0"),
        (["submit", "-M", "500", "x"], "a size needs its unit"),
        (["submit", "-W", "soon", "x"], "-W soon"),
        (["submit", "--begin", "tomorrow", "x"], "--begin tomorrow"),
        (["submit", "-f", "/nonexistent", "x"], "No such file"),
        (["submit", "--env", "=x", "y"], "names no variable"),
        (["jobs", "abc"], "no job id"),
        (["why", "1[2-3]"], "name one element"),
        (["kill"], "name jobs, or say --all"),
        (["kill", "1", "--all"], "ids stand alone"),
        (["requeue", "1", "--state", "gone"], "--state: 'gone' is no state"),
        (["requeue"], "name jobs, or say --all"),
    ],
)
def test_what_cannot_be_understood_is_a_usage_error(words, text):
    async def story(rest):
        ran = await cli(rest, *words)
        assert ran.code == 2
        assert text in ran.err
        assert not rest.link.asked

    run(story)


def test_what_argparse_refuses_is_a_usage_error_too(capsys):
    for words in ([], ["dance"], ["jobs", "-o", "xml"], ["wait"], ["--wait-daemon", "-3", "jobs"]):
        with pytest.raises(SystemExit) as left:
            execute(words, {}, io.StringIO(), io.StringIO())
        assert left.value.code == 2
    capsys.readouterr()


@pytest.mark.parametrize("name", sorted(NOT_BUILT))
def test_what_is_not_built_is_refused_by_name(name):
    err = io.StringIO()
    assert execute([name, "x"], {}, io.StringIO(), err) == 2
    assert err.getvalue().startswith(f"xcecli: {name} is not built yet: ")


def test_lists_are_printed_as_json_yaml_wide_and_names():
    async def story(rest):
        await cli(rest, "submit", "--name", 'quo"tes: é', "true")
        await rest.submit(array="1-5")
        ran = await cli(rest, "jobs", "-o", "json")
        rows = json.loads(ran.out)
        assert [row["jobid"] for row in rows] == [1, 2]
        assert rows[0]["name"] == 'quo"tes: é'
        ran = await cli(rest, "jobs", "-o", "yaml")
        assert yaml.safe_load(ran.out) == rows
        ran = await cli(rest, "jobs", "-o", "name")
        assert ran.out == "1\n2[1-5]\n"
        ran = await cli(rest, "jobs", "-o", "wide")
        assert "SUBMITTED" in ran.out
        ran = await cli(rest, "hosts", "-o", "name")
        assert ran.out == "h1\nh2\n"
        ran = await cli(rest, "queues", "-o", "yaml")
        assert yaml.safe_load(ran.out)[0]["name"] == "normal"
        ran = await cli(rest, "info", "-o", "yaml", "1")
        assert yaml.safe_load(ran.out)["jobid"] == 1
        ran = await cli(rest, "why", "-o", "json", "1", "2")
        assert len(json.loads(ran.out)) == 2
        ran = await cli(rest, "hosts")
        assert ran.out.splitlines()[1].split()[:3] == ["h1", "ok", "4"]

    run(story)


def test_no_job_is_said_on_stderr():
    async def story(rest):
        ran = await cli(rest, "jobs")
        assert (ran.code, ran.out, ran.err) == (0, "", "No unfinished job.\n")
        ran = await cli(rest, "jobs", "-o", "json")
        assert (ran.code, ran.out) == (0, "[]\n")

    run(story)


def test_exit_codes_tell_not_found_denied_and_unreachable():
    async def story(rest):
        job = await rest.submit()
        for words in (["info", "99"], ["why", "99"], ["jobs", "99"], ["kill", "99"],
                      ["wait", "99"], ["output", "99"]):  # fmt: skip
            ran = await cli(rest, *words)
            assert ran.code == 3, words
            assert "99" in ran.err
        rest.be("bob")
        for words in (["kill", str(job)], ["output", str(job)]):
            ran = await cli(rest, *words)
            assert ran.code == 4, words
        ran = await cli(rest, "jobs", XCE_API_SOCKET="/nonexistent/api.sock")
        assert ran.code == 5
        assert "/nonexistent/api.sock" in ran.err
        ran = await cli(rest, "jobs", XCE_WAIT_DAEMON="soon")
        assert ran.code == 2
        ran = await cli(rest, "submit", "-q", "nope", "true")
        assert ran.code == 3
        ran = await cli(rest, "submit", "-R", "select[", "true")
        assert ran.code == 1

    run(story)


def test_jobs_are_killed_stopped_and_resumed():
    async def story(rest):
        await rest.submit(array="1-5")
        await rest.submit()
        ran = await cli(rest, "stop", "2")
        assert (ran.code, ran.out) == (0, "Job 2 is being stopped.\n")
        ran = await cli(rest, "resume", "2")
        assert ran.out == "Job 2 is being resumed.\n"
        ran = await cli(rest, "kill", "1[2-3]", "77")
        assert (ran.code, ran.out) == (3, "Job 1[2-3] is being ended.\n")
        ran = await cli(rest, "kill", "--all", "--json")
        assert [item["jobid"] for item in json.loads(ran.out)] == [1, 2]

    run(story)


def test_jobs_are_requeued_by_state_and_submitted_rerunnable():
    async def story(rest):
        ran = await cli(rest, "submit", "--rerunnable", "true")
        assert ran.code == 0
        place(rest.controller, 1)
        report_started(rest.controller, 1)
        report_ended(rest.controller, 1)
        rest.link.pump()
        ran = await cli(rest, "requeue", "1")
        assert (ran.code, ran.out) == (1, "")
        assert "already finished" in ran.err
        ran = await cli(rest, "requeue", "--hold", "--state", "done,exit", "1")
        assert (ran.code, ran.out) == (0, "Job 1 is being requeued.\n")
        ran = await cli(rest, "info", "1", "-o", "json")
        row = json.loads(ran.out)
        assert (row["stat"], row["rerunnable"]) == ("PSUSP", True)

    run(story)


def test_waiting_gives_the_jobs_own_exit_status():
    async def story(rest):
        job = submit(rest.controller, submission("exit 7"))
        rest.link.pump()
        ran = await cli(rest, "wait", str(job), "--timeout", "0")
        assert ran.code == 1
        assert "has not ended" in ran.err
        waiting = asyncio.create_task(cli(rest, "wait", str(job)))
        await rest.until(lambda: len(rest.backend.waits))
        place(rest.controller, job)
        report_started(rest.controller, job)
        report_ended(rest.controller, job, exit_code=7)
        rest.link.pump()
        assert (await waiting).code == 7
        submitting = asyncio.create_task(cli(rest, "submit", "--wait", "true"))
        await rest.until(lambda: len(rest.backend.waits))
        place(rest.controller, job + 1)
        report_started(rest.controller, job + 1)
        report_ended(rest.controller, job + 1)
        rest.link.pump()
        assert (await submitting).code == 0

    run(story)


def test_output_is_printed_and_followed():
    async def story(rest):
        job = await rest.submit()
        ran = await cli(rest, "output", str(job))
        assert ran.code == 1
        assert "not started" in ran.err
        following = asyncio.create_task(cli(rest, "output", "-f", str(job)))
        place(rest.controller, job)
        report_started(rest.controller, job)
        rest.link.files[job, 0, "stdout"] = b"one \xc3\xa9\n"
        rest.link.pump()
        ran = await cli(rest, "output", str(job))
        assert (ran.code, ran.out) == (0, "one é\n")
        await rest.until(lambda: len(rest.link.read_requests) > 1)
        rest.link.files[job, 0, "stdout"] += b"two\n"
        report_ended(rest.controller, job)
        rest.link.pump()
        ran = await following
        assert (ran.code, ran.out) == (0, "one é\ntwo\n")
        ran = await cli(rest, "output", "--stderr", str(job))
        assert ran.code == 3

    run(story)


def test_a_warning_goes_to_stderr():
    async def story(rest):
        ran = await cli(rest, "submit", "-n", "99", "true")
        assert ran.code == 0
        assert ran.out.startswith("Job 1 is submitted")
        assert "99 tasks asked for" in ran.err

    run(story)


def test_watching_prints_again_when_something_changed(monkeypatch):
    async def story(rest):
        await rest.submit()
        turns = []

        def wait(seconds):
            turns.append(seconds)
            if len(turns) == 3:
                raise KeyboardInterrupt
            if len(turns) == 2:
                submit(rest.controller)
                rest.link.pump()

        monkeypatch.setattr("xce.cli.xcecli.listing.time.sleep", wait)
        ran = await cli(rest, "jobs", "--watch")
        assert ran.code == 130
        assert ran.out.count("JOB") == 2

    run(story)


def start_all(rest):
    """Run a session, let all that it places run."""
    plan = run_session(rest.controller.state, now_us=rest.controller.now_us)
    rest.controller.tell(ProposePlan(plan), by="scheduler")
    for gang in plan.gangs:
        report_started(rest.controller, gang.job, gang.index)
    rest.link.pump()


def test_why_shows_the_table_suggestions_blockers_and_the_expected_start():
    async def story(rest):
        await cli(rest, "submit", "-n", "3", "-W", "10m", "a")
        start_all(rest)
        await cli(rest, "submit", "-n", "7", "b")
        start_all(rest)
        ran = await cli(rest, "why", "2", TZ="UTC")
        lines = ran.out.splitlines()
        assert lines[0].startswith("Job 2 pends: needs 7 slots, 5 usable now: 2 hosts busy")
        blank = lines.index("")
        assert lines[blank + 1 : blank + 3] == [
            "HOSTS  WHY NOT   NEEDED  BEST",
            "    2  busy     7 slots     4",
        ]
        assert "IT WOULD START AT ONCE WITH  OPTION  ON" in lines
        assert "5 tasks instead of 7         -n 5    h2*4 h1" in lines
        (row,) = [line for line in lines if line.startswith("1 ")]
        assert row.split()[:4] == ["1", "alice", "normal", "h1"]
        assert "run limits (or estimates)" in ran.out

    run(story, hosts={"h1": 4, "h2": 4})


def test_a_plan_is_told_and_nothing_is_submitted():
    async def story(rest):
        ran = await cli(rest, "plan", "-n", "6", "a")
        assert ran.out == (
            "The job would be taken by the default queue normal and start at once on h1*4 h2*2.\n"
        )
        ran = await cli(rest, "plan", "-n", "9", "a")
        assert "warning: 9 tasks asked for, the cluster could take 8" in ran.err
        assert ran.out.startswith(
            "The job would be taken by the default queue normal and pend: unsatisfiable"
        )
        assert "8 tasks instead of 9" in ran.out
        assert "Expected start: unknown,\n  it could never run" in ran.out
        ran = await cli(rest, "plan", "-q", "nowhere", "a")
        assert (ran.code, ran.out) == (3, "")
        assert ran.err.startswith("xcecli: the job would be refused: no queue is called 'nowhere'")
        ran = await cli(rest, "plan", "--json", "-n", "2", "a")
        assert json.loads(ran.out)["hosts"] == [["h1", 2]]
        ran = await cli(rest, "plan", "--wait", "a")
        assert ran.code == 2
        ran = await cli(rest, "jobs", "-u", "all")
        assert ran.err == "No unfinished job.\n"

    run(story, hosts={"h1": 4, "h2": 4})
