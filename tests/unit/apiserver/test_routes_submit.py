import base64
import json

import pytest
from rest_cluster import run_rest

from xce.apiserver.routes import submit as submit_route
from xce.model.config import QueueConfig
from xce.model.job import ArraySpec
from xce.model.refusal import Refusal, RefusalCode
from xce.net.message import Answer
from xce.testing.builders import run_job, submit


def lines(*bodies):
    return b"".join(
        (body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n" for body in bodies
    )


NDJSON = {"Content-Type": "application/x-ndjson"}


def test_every_member_of_a_submission_arrives_in_the_job():
    async def story(rest):
        status, document = await rest.post(
            "/jobs",
            {
                "script": "#!/bin/sh\necho $1\n",
                "script_name": "./job.sh",
                "args": ["a b", "c"],
                "env": ["A=1", "B=x y"],
                "cwd": "/work",
                "cwd_given": "sub/%J",
                "name": "n[1-4:3]%2",
                "project": "p",
                "tasks": [1, 2],
                "resreq": ["select[mem>10]", "rusage[mem=1GB]"],
                "hosts": "h1",
                "exclusive": False,
                "hold": True,
                "run_limit_s": 90,
                "estimate_s": 30.5,
                "mem_limit_kib": 4096,
                "input": "in.txt",
                "input_data": base64.b64encode(b"spooled").decode(),
                "output": "o",
                "error": "e",
                "output_append": False,
                "umask": 0o27,
                "priority": 7,
                "from_host": "laptop",
                "home": "/h",
            },
        )
        assert status == 201, document
        (result,) = document["results"]
        assert (result["queue"], result["default_queue"]) == ("normal", True)
        (command, by, basis, repeatable) = rest.link.asked[-1]
        assert (by, basis, repeatable) == ("alice", "owner", False)
        (job,) = command.jobs
        spec = job.spec
        assert spec.name == "n"
        assert spec.command == "./job.sh a b c"
        assert spec.args == ("a b", "c")
        assert (spec.cwd, spec.cwd_asked, spec.home) == ("/work", "sub/%J", "/h")
        assert (spec.files.output, spec.files.output_append) == ("o", False)
        assert spec.files.input == "in.txt"
        assert (spec.umask, spec.mem_limit_kib, spec.from_host) == (0o27, 4096, "laptop")
        assert spec.requested == "select[mem>10] rusage[mem=1GB]"
        assert spec.array == "1-4:3"
        assert job.array == ArraySpec(((1, 4, 3),), 2)
        assert (job.run_limit_us, job.estimate_us) == (90_000_000, 30_500_000)
        assert (job.hold, job.priority, job.project) == (True, 7, "p")
        assert [(a.resource, a.value) for a in job.request.amounts] == [("mem", 1024)]
        assert rest.link.blobs[spec.script] == b"#!/bin/sh\necho $1\n"
        assert rest.link.blobs[spec.env] == b"A=1\0B=x y"
        assert rest.link.blobs[spec.files.input_blob] == b"spooled"

    run_rest(story)


def test_a_command_is_its_own_script_and_a_script_is_shown_on_one_line():
    async def story(rest):
        await rest.submit("echo  hi")
        (command, *_) = rest.link.asked[-1]
        spec = command.jobs[0].spec
        assert (spec.command, rest.link.blobs[spec.script]) == ("echo  hi", b"echo  hi")
        status, _ = await rest.post("/jobs", {"script": "#!/bin/sh\n\na\nb\n"})
        assert status == 201
        (command, *_) = rest.link.asked[-1]
        assert command.jobs[0].spec.command == "#!/bin/sh;;a;b"
        await rest.post("/jobs", {"script_data": base64.b64encode(b"echo \xff").decode()})
        (command, *_) = rest.link.asked[-1]
        assert rest.link.blobs[command.jobs[0].spec.script] == b"echo \xff"

    run_rest(story)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "bad-request"),
        (b"{", 400, "bad-request"),
        (b"[]", 400, "bad-request"),
        (b'{"command":"x","commands":"y"}', 400, "bad-request"),
        (b'{"command":7}', 400, "bad-request"),
        (b'{"command":"\\ud800"}', 400, "bad-request"),
        ({}, 422, "empty-job"),
        ({"command": " "}, 422, "empty-job"),
        ({"command": "a", "script": "b"}, 400, "bad-request"),
        ({"command": "a\0b"}, 400, "bad-request"),
        ({"command": "a", "args": ["b"]}, 400, "bad-request"),
        ({"command": "a", "env": ["NOEQUALS"]}, 400, "bad-request"),
        ({"command": "a", "env": ["=x"]}, 400, "bad-request"),
        ({"command": "a", "env": ["A=\0"]}, 400, "bad-request"),
        ({"command": "a", "cwd": "relative"}, 400, "bad-request"),
        ({"command": "a", "name": "x" * 5000}, 400, "bad-request"),
        ({"command": "a", "name": "x[5-1]"}, 422, "bad-array"),
        ({"command": "a", "array": "1-10000001"}, 422, "array-too-large"),
        ({"command": "a", "tasks": [0, 1]}, 422, "too-few-tasks"),
        ({"command": "a", "tasks": [5, 2]}, 422, "too-few-tasks"),
        ({"command": "a", "tasks": [1, 99999999]}, 422, "too-many-tasks"),
        ({"command": "a", "tasks": [1]}, 400, "bad-request"),
        ({"command": "a", "transfers": [["a", ">", "b"]]}, 400, "bad-request"),
        ({"command": "a", "transfers": [["a", ">>", "b", "1 x"]]}, 400, "bad-request"),
        ({"command": "a", "transfers": [["a\0", ">", "b", "1 x"]]}, 400, "bad-request"),
        ({"command": "a", "resreq": ["select["]}, 422, "bad-resreq"),
        ({"command": "a", "resreq": ["rusage[nope=1]"]}, 422, "bad-resreq"),
        ({"command": "a", "resreq": ["order[ngpus_shared]"]}, 422, "not-built"),
        ({"command": "a", "resreq": ["rusage[tmp=5]"]}, 422, "not-built"),
        ({"command": "a", "hosts": "h1 h9"}, 422, "unknown-host"),
        ({"command": "a", "queue": "nope"}, 422, "unknown-queue"),
        ({"command": "a", "dependency": "done("}, 422, "bad-dependency"),
        ({"command": "a", "dependency": "done(99)"}, 422, "dependency-unknown-job"),
        ({"command": "a", "run_limit_s": -1}, 400, "bad-request"),
        ({"command": "a", "begin_at": 1e18}, 400, "bad-request"),
        ({"command": "a", "deadline_at": 0}, 400, "bad-request"),
        ({"command": "a", "deadline_at": 1}, 400, "bad-request"),
        ({"command": "a", "begin_at": 4e9, "deadline_at": 3e9}, 400, "bad-request"),
        ({"command": "a", "umask": 4096}, 400, "bad-request"),
        ({"jobs": []}, 400, "bad-request"),
    ],
)
def test_a_submission_that_cannot_be_taken_is_a_problem_document(body, status, code):
    async def story(rest):
        found, document = await rest.post("/jobs", body)
        assert (found, document["code"]) == (status, code), document
        assert document["type"] == f"urn:xce:problem:{code}"
        assert document["status"] == status
        assert document["detail"]
        assert not rest.replica.state.jobs

    run_rest(story)


def test_a_text_that_cannot_be_read_names_its_column_and_lsf_words():
    async def story(rest):
        _, document = await rest.post("/jobs", {"command": "a", "resreq": ["select[mem>"]})
        assert document["column"] == 12
        assert document["lsf"].startswith("Error in select section")

    run_rest(story)


def test_a_body_that_is_too_large_is_refused():
    async def story(rest):
        status, document = await rest.post(
            "/jobs", {"command": "a", "env": ["A=" + "x" * 5 * 2**20]}
        )
        assert (status, document["code"]) == (413, "too-large")

    run_rest(story)


def test_the_same_key_gives_the_same_job():
    async def story(rest):
        headers = {"Idempotency-Key": f"{rest.controller.now_us // 1_000_000}-abc"}
        first = await rest.post("/jobs", {"command": "a"}, headers)
        again = await rest.post("/jobs", {"command": "a"}, headers)
        assert first[1]["results"][0]["jobid"] == again[1]["results"][0]["jobid"]
        assert len(rest.replica.state.jobs) == 1
        status, document = await rest.post(
            "/jobs", {"command": "a"}, {"Idempotency-Key": "x" * 200}
        )
        assert (status, document["code"]) == (400, "bad-request")

    run_rest(story)


def test_blobs_that_the_journal_has_are_not_sent_again():
    async def story(rest):
        await rest.submit("a", env=["E=1"])
        await rest.submit("b", env=["E=1"])
        first, second = (asked[0] for asked in rest.link.asked)
        assert len(first.blobs) == 2
        assert [content for _, content in second.blobs] == [b"b"]
        await rest.post("/jobs", {"command": "c", "queue": "nope"})
        await rest.submit("c")
        assert [content for _, content in rest.link.asked[-1][0].blobs] == [b"c"]
        rest.replica.begin(())
        assert rest.backend.sent.unsent([("h", b"")]) == (("h", b""),)

    run_rest(story)


def test_several_jobs_in_one_body_are_judged_one_by_one():
    async def story(rest):
        status, document = await rest.post(
            "/jobs", {"jobs": [{"command": "a"}, {"command": ""}, {"command": "b", "queue": "q"}]}
        )
        assert status == 201
        first, second, third = document["results"]
        assert first["jobid"] == 1
        assert second["error"]["code"] == "empty-job"
        assert "job 2 of the request" in second["error"]["detail"]
        assert third["error"]["code"] == "unknown-queue"

    run_rest(story)


def test_lines_are_submitted_in_order_and_bad_ones_are_told_in_their_place():
    async def story(rest):
        body = lines({"command": "a"}, b"", b"{broken", {"command": "b"}, b"  ", {"command": "c"})
        status, document = await rest.post("/jobs", body[:-1], NDJSON)
        assert status == 201
        results = document["results"]
        assert [result.get("jobid") for result in results] == [1, None, 2, 3]
        assert results[1]["error"]["code"] == "bad-request"
        assert [asked[0].line for asked in rest.link.asked] == [0, 2]

    run_rest(story)


def test_a_bulk_submit_that_is_sent_again_makes_no_job_twice():
    async def story(rest):
        headers = {**NDJSON, "Idempotency-Key": "bulk"}
        body = lines(*({"command": f"echo {n}"} for n in range(4_500)))
        _, first = await rest.post("/jobs", body, headers)
        assert len(rest.link.asked) == 3
        _, again = await rest.post("/jobs", body, headers)
        assert [r["jobid"] for r in first["results"]] == [r["jobid"] for r in again["results"]]
        assert len(rest.replica.state.jobs) == 4_500

    run_rest(story)


def test_an_empty_bulk_submit_is_refused():
    async def story(rest):
        status, document = await rest.post("/jobs", b"\n \n", NDJSON)
        assert (status, document["code"]) == (400, "bad-request")

    run_rest(story)


def test_a_dependency_on_a_job_of_the_history_is_answered_from_there():
    async def story(rest):
        job = submit(rest.controller)
        run_job(rest.controller, job)
        rest.link.pump()
        rest.keep_history()
        del rest.replica.state.jobs[job]
        after = await rest.submit(dependency=f"done({job}) || exit({job}, 3)")
        assert rest.link.asked[-1][0].past == ((job, 1, 0),)
        assert rest.link.asked[-1][0].past_elements == ()
        assert rest.replica.state.jobs[after].dependency is None

    run_rest(story)


def test_a_cluster_that_is_not_roots_runs_no_jobs_of_others():
    async def story(rest):
        rest.be("bob", may_run=False)
        status, document = await rest.post("/jobs", {"command": "a"})
        assert (status, document["code"]) == (403, "denied")

    run_rest(story)


def test_a_write_while_the_controller_is_away_asks_to_come_again():
    async def story(rest):
        rest.link.is_connected = False
        status, document = await rest.post("/jobs", {"command": "a"})
        assert (status, document["code"]) == (503, "controller-away")
        assert rest.headers["Retry-After"] == "1"

    run_rest(story)


def test_a_misfit_is_taken_with_a_warning():
    async def story(rest):
        status, document = await rest.post("/jobs", {"command": "a", "tasks": [999, 999]})
        assert status == 201
        assert "999" in document["results"][0]["warning"]

    run_rest(story)


def test_whole_hosts_are_asked_for_by_number():
    async def story(rest):
        body = {"command": "a", "nodes": 1, "tasks": [2, 2]}
        assert (await rest.post("/jobs", body))[0] == 201
        (job,) = rest.link.asked[-1][0].jobs
        request = job.request
        assert (request.whole_hosts, request.ptile, request.tasks_min) == (1, -1, 2)
        _, document = await rest.post("/jobs", {"command": "a", "nodes": 99})
        assert "99 whole hosts" in document["results"][0]["warning"]
        for bad in (
            {"resreq": ["span[ptile=2]"]},
            {"resreq": ["1*{rusage[mem=1]}+1*{rusage[mem=2]}"]},
            {"resreq": ["{rusage[mem=1]} || {rusage[mem=2]}"]},
        ):
            status, document = await rest.post("/jobs", {"command": "a", "nodes": 1, **bad})
            assert status == 422
            assert "-nnodes" in document["detail"]

    run_rest(story)


def test_the_queue_that_was_named_is_not_the_default_one():
    async def story(rest):
        _, document = await rest.post("/jobs", {"command": "a", "queue": "short"})
        assert document["results"][0]["queue"] == "short"
        assert document["results"][0]["default_queue"] is False

    run_rest(story, queues=[QueueConfig(name="normal", default=True), QueueConfig(name="short")])


def test_nothing_in_a_body_says_who_asks():
    async def story(rest):
        rest.be("bob", uid=1002)
        for members in (
            {"user": "root"}, {"uid": 0}, {"gid": 0}, {"owner": "root"}, {"basis": "admin"},
            {"is_admin": True}, {"groups": ["root"]}, {"by": "root"},
        ):  # fmt: skip
            status, document = await rest.post("/jobs", {"command": "true", **members})
            assert (status, document["code"]) == (400, "bad-request"), members
            status, _ = await rest.post(
                "/jobs/actions", {"action": "kill", "select": {"all": True}, **members}
            )
            assert status == 400, members
        job = await rest.submit(home="/root", from_host="elsewhere")
        assert rest.controller.job(job).owner.uid == 1002

    run_rest(story)


def test_what_is_too_large_or_too_much_is_refused_with_what_is_allowed():
    async def story(rest):
        for members, said in (
            ({"queue": "q" * 1025}, "1024"),
            ({"project": "p" * 1025}, "1024"),
            ({"resreq": ["mem>1"] * 65}, "64"),
            ({"resreq": ["m" * 70_000]}, "65536"),
            ({"name": "n" * 70_000}, "65536"),
            ({"env": ["A=b"] * 100_001}, "100000"),
            ({"env": ["A=" + "b" * (5 * 1024 * 1024)]}, str(4 * 1024 * 1024)),
            ({"cwd": "/" + "d" * 4096}, "4096"),
            ({"output": "d" * 4097}, "4096"),
            ({"dependency": "d" * 70_000}, "65536"),
            ({"hosts": "d" * 70_000}, "65536"),
        ):
            status, document = await rest.post("/jobs", {"command": "true", **members})
            assert status in (400, 413), document
            assert said in document["detail"], document["detail"]
        status, document = await rest.post(
            "/jobs", {"script": "true", "args": ["a"] * 10_001, "script_name": "s"}
        )
        assert (status, "10000" in document["detail"]) == (400, True)


@pytest.mark.parametrize("raw", [rb"\ud800", rb"a\udc80b", b"\xff", b"\xed\xa0\x80"])
def test_text_that_is_no_unicode_is_refused_with_words(raw):
    async def story(rest):
        for member in (b"command", b"name", b"cwd"):
            body = b'{"command": "true", "' + member + b'": "' + raw + b'"}'
            status, problem = await rest.call("POST", "/jobs", body)
            assert (status, problem["code"]) == (400, "bad-request"), problem
            assert "no JSON" in problem["detail"] or "UTF-8" in problem["detail"], problem

    run_rest(story)


@pytest.mark.parametrize("member", ["name", "project", "from_host"])
@pytest.mark.parametrize("character", ["\n", "\x1b", "\x7f", "\x9b"])
def test_a_word_of_listings_holds_no_control_character(member, character):
    async def story(rest):
        body = {"command": "true", member: f"a{character}b"}
        status, document = await rest.post("/jobs", body)
        assert status == 400
        assert f"may not hold {character!r} (column 2)" in document["detail"]
        assert not rest.link.asked
        status, document = await rest.post("/jobs", {"command": "true", member: "naïve\xa0☃"})
        assert status == 201, document

    run_rest(story)


def test_what_has_not_the_right_form_is_named_first():
    async def story(rest):
        for body, detail in (
            ({"command": "true", "dependency": "x" * 70_000},
             "dependency: expected `str` of length <= 65536"),
            ({"command": "true", "env": ["A=1", 2]}, "env[1]: expected `str`, got `int`"),
            ({"jobs": [{"command": "true", "umask": 512}]}, "jobs[0].umask: expected `int` <= 511"),
            ({"commando": "true"}, "Object contains unknown field `commando`"),
        ):  # fmt: skip
            status, document = await rest.post("/jobs", body)
            assert status == 400
            assert document["detail"].startswith(detail), document["detail"]

    run_rest(story)


def overloaded(times):
    """Return a link's `ask` that is refused so often first."""

    def wrap(link):
        ask = link.ask

        async def asked(command, **more):
            nonlocal times
            if times:
                times -= 1
                refusal = Refusal(RefusalCode.OVERLOADED, "5 jobs wait; come again a little later")
                return Answer(1, 0, (refusal,))
            return await ask(command, **more)

        link.ask = asked

    return wrap


def test_a_controller_with_too_much_to_do_makes_clients_come_again():
    async def story(rest):
        overloaded(1)(rest.link)
        status, document = await rest.post("/jobs", {"command": "x"})
        assert (status, document["code"]) == (429, "overloaded")
        assert rest.headers["Retry-After"] == "1"
        status, _ = await rest.post("/jobs", {"command": "x"})
        assert status == 201

    run_rest(story)


def test_a_bulk_waits_for_a_controller_with_too_much_to_do(monkeypatch):
    monkeypatch.setattr(submit_route, "OVERLOAD_PAUSE_S", 0.001)

    async def story(rest):
        overloaded(3)(rest.link)
        body = lines({"command": "a"}, {"command": "b"})
        status, document = await rest.post("/jobs", body, NDJSON)
        assert status == 201
        assert [result["jobid"] for result in document["results"]] == [1, 2]

    run_rest(story)


def test_a_bulk_of_which_nothing_is_taken_is_told_to_come_again(monkeypatch):
    monkeypatch.setattr(submit_route, "OVERLOAD_S", 0.0)

    async def story(rest):
        overloaded(1)(rest.link)
        body = lines({"command": "a"}, {"command": "b"})
        status, document = await rest.post("/jobs", body, NDJSON)
        assert (status, document["code"]) == (429, "overloaded")
        assert rest.headers["Retry-After"] == "1"
        status, document = await rest.post("/jobs", body, NDJSON)
        assert [result["jobid"] for result in document["results"]] == [1, 2]

    run_rest(story)


def test_a_bulk_of_which_a_part_is_refused_says_so_of_each_line(monkeypatch):
    monkeypatch.setattr(submit_route, "OVERLOAD_S", 0.0)

    async def story(rest):
        overloaded(1)(rest.link)
        body = lines({"command": "a"}, {"command": "b", "cwd": 7})
        status, document = await rest.post("/jobs", body, NDJSON)
        assert status == 201
        codes = [result["error"]["code"] for result in document["results"]]
        assert codes == ["overloaded", "bad-request"]

    run_rest(story)
