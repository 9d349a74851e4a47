"""REST of the decision trace: rules, what is shown to whom, and a session for the answer only."""

from rest_cluster import run_rest

from xce.journal.trace_store import TraceWriter
from xce.model.trace import EVERYTHING
from xce.sched.session import run_session
from xce.sched.traced import Trace
from xce.testing.builders import run_job


def record(rest):
    """Run a traced session as the scheduler does, without its plan."""
    trace = Trace([EVERYTHING])
    run_session(rest.controller.state, now_us=rest.controller.now_us, trace=trace)
    return TraceWriter(rest.backend.site.traces).write(trace.session)


async def act(rest, **body):
    return await rest.post("/trace/actions", body)


def test_rules_are_made_listed_and_ended():
    async def story(rest):
        job = await rest.submit()
        status, document = await act(rest, action="on", job=job, for_s=60)
        (result,) = document["results"]
        assert (status, result["rule"], result["text"]) == (200, 1, "traced")
        rest.be("root", is_admin=True)
        await act(rest, action="on", queue="normal")
        _, document = await rest.get("/trace/rules")
        rules = document["rules"]
        assert [(r["rule"], r["kind"], r["job"], r["name"], r["by"]) for r in rules] == [
            (1, "job", job, "", "alice"), (2, "queue", 0, "normal", "root"),
        ]  # fmt: skip
        assert rules[0]["until"] == result["until"]
        rest.be("alice")
        _, document = await rest.get("/trace/rules")
        assert [r["rule"] for r in document["rules"]] == [1], "those of others are not told"
        _, document = await act(rest, action="off", rules=[2, 1, 7])
        codes = [r.get("text") or (r["rule"], r["error"]["code"]) for r in document["results"]]
        assert codes == [(2, "denied"), "not-traced", (7, "unknown-rule")]
        _, document = await rest.get("/trace/rules")
        assert document["rules"] == []

    run_rest(story)


def test_what_cannot_be_traced_is_refused_by_its_name():
    async def story(rest):
        job = await rest.submit()
        rest.be("bob")
        cases = (
            ({"action": "on", "job": job}, 403, "not-yours"),
            ({"action": "on", "job": 99}, 404, "unknown-job"),
            ({"action": "on", "user": "bob"}, 403, "denied"),
            ({"action": "on"}, 400, "bad-request"),
            ({"action": "on", "job": job, "queue": "normal"}, 400, "bad-request"),
            ({"action": "on", "job": job, "rules": [1]}, 400, "bad-request"),
            ({"action": "on", "job": 0}, 400, "bad-request"),
            ({"action": "on", "job": job, "for_s": 10**9}, 400, "bad-request"),
            ({"action": "off", "job": job}, 400, "bad-request"),
            ({"action": "up"}, 400, "bad-request"),
            ({"action": "on", "job": job, "what": 1}, 400, "bad-request"),
        )
        for body, status, code in cases:
            answer = await act(rest, **body)
            assert (answer[0], answer[1]["code"]) == (status, code), body

    run_rest(story)


def test_a_trace_is_shown_to_the_owner_and_all_of_it_to_an_administrator(tmp_path):
    async def story(rest):
        rest.backend.site = type(rest.backend.site)(traces=tmp_path)
        mine = await rest.submit()
        rest.be("bob")
        theirs = await rest.submit()
        assert record(rest) == 1
        _, document = await rest.get("/trace")
        (session,) = document["sessions"]
        assert [step["job"] for step in session["steps"]] == [theirs]
        status, document = await rest.get("/trace", job=mine)
        assert (status, document["code"]) == (403, "not-yours")
        rest.be("root", is_admin=True)
        _, document = await rest.get("/trace", session=1)
        assert {step["job"] for step in document["sessions"][0]["steps"]} == {mine, theirs}
        _, document = await rest.get("/trace", user="bob", queue="normal", limit=3)
        (step,) = document["sessions"][0]["steps"]
        assert step["outcome"] == "starts"
        assert step["forms"][0]["ordered_by"] == ["-slots"]
        for query in ({"job": "x"}, {"session": "0"}, {"limit": "0"}, {"limit": "2000"}):
            status, document = await rest.get("/trace", **query)
            assert (status, document["code"]) == (400, "bad-request")

    run_rest(story)


def test_a_damaged_file_is_named_as_is_an_unusable_directory(tmp_path):
    async def story(rest):
        rest.backend.site = type(rest.backend.site)(traces=tmp_path)
        await rest.submit()
        record(rest)
        (tmp_path / "000000000009.trace").write_text("rubbish")
        _, document = await rest.get("/trace")
        assert len(document["sessions"]) == 1
        assert document["damaged"] == [
            f"{tmp_path}/000000000009.trace: is no file of traces; it is skipped"
        ]
        (tmp_path / "file").touch()
        rest.backend.site = type(rest.backend.site)(traces=tmp_path / "file")
        _, document = await rest.get("/trace")
        assert document["sessions"] == []
        assert document["damaged"] == [f"{tmp_path / 'file'}: Not a directory"]

    run_rest(story)


def test_a_session_is_run_for_the_answer_and_changes_nothing():
    async def story(rest):
        job = await rest.submit()
        other = await rest.submit(tasks=[9, 9])
        seq = rest.controller.state.seq
        _, document = await rest.get("/trace", job=other, now=1)
        (session,) = document["sessions"]
        (step,) = session["steps"]
        assert (session["session"], step["outcome"], step["source"]) == (0, "waits", "standing")
        assert rest.controller.state.seq == seq
        run_job(rest.controller, job)
        rest.link.pump()
        for query, status, code in (
            ({"job": job, "now": 1}, 409, "wrong-state"),
            ({"job": 99, "now": 1}, 404, "unknown-job"),
            ({"now": 1}, 400, "bad-request"),
            ({"job": other, "now": 1, "session": 2}, 400, "bad-request"),
            ({"job": other, "now": 2}, 400, "bad-request"),
        ):
            answer = await rest.get("/trace", **query)
            assert (answer[0], answer[1]["code"]) == (status, code), query

    run_rest(story)
