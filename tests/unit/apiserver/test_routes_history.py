"""What was: courses, usage and sums, answered from the history store."""

import asyncio
import threading

import msgspec
import pytest
from msgspec.structs import replace
from rest_cluster import run_rest

from xce.apiserver.courses import PIECE, SCOPES, Wanted, tell_page, usage_page
from xce.apiserver.listing import parse_refs
from xce.journal.history_reader import HistoryReader
from xce.journal.history_search import START, Search
from xce.journal.history_store import HistoryAwayError
from xce.model.command import ResumeJobs, Selection, StopJobs, Tick
from xce.model.config import GrantConfig, QueueConfig
from xce.model.ids import HOUR_US, SECOND_US
from xce.model.job import EndCause, Owner
from xce.model.observation import HostDisconnected
from xce.state.rights import Sight
from xce.testing.builders import (
    kill,
    place,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
)


def settle(rest):
    rest.link.pump()
    rest.keep_history()


def wait(rest, seconds):
    rest.controller.now_us += int(seconds * SECOND_US)


def test_the_course_of_a_job_is_told_from_its_submission_to_its_end():
    async def story(rest):
        controller = rest.controller
        job = submit(controller, submission(name="n"))
        wait(rest, 5)
        place(controller, job)
        report_started(controller, job)
        wait(rest, 10)
        report_ended(controller, job, exit_code=3)
        settle(rest)
        _, document = await rest.get(f"/history/jobs?ids={job}")
        (row,) = document["rows"]
        assert (row["stat"], row["exit_code"], row["name"], row["user"]) == (
            "EXIT",
            3,
            "n",
            "alice",
        )
        assert round(row["spans"]["pend"]) == 5
        assert round(row["spans"]["run"]) == 10
        assert [step["what"] for step in row["steps"]] == [
            "submitted",
            "dispatched",
            "started",
            "exited",
        ]
        _, document = await rest.get(f"/history/jobs?ids={job},99")
        assert document["missing"] == ["99"]

    run_rest(story)


def test_holds_and_suspensions_count_in_their_own_states():
    async def story(rest):
        controller = rest.controller
        job = submit(controller, submission(hold=True))
        chosen = Selection(jobs=((job, ()),))
        wait(rest, 3)
        controller.tell(ResumeJobs("alice", False, chosen), by="alice")
        wait(rest, 2)
        place(controller, job)
        report_started(controller, job)
        wait(rest, 4)
        controller.tell(StopJobs("alice", False, chosen), by="alice")
        settle(rest)
        _, document = await rest.get("/history/jobs")
        (row,) = document["rows"]
        assert row["stat"] == "RUN"
        spans = {word: round(span) for word, span in row["spans"].items()}
        assert (spans["psusp"], spans["pend"], spans["run"]) == (3, 2, 4)
        assert [s["what"] for s in row["steps"]][-1] == "stop-asked"
        _, document = await rest.get("/history/jobs?scope=pend")
        assert document["rows"] == []

    run_rest(story)


def test_elements_that_are_alike_share_a_row_and_pages_follow_one_another():
    async def story(rest):
        controller = rest.controller
        array = submit(controller, submission(elements="1-9:2", name="a"))
        place(controller, array, 3)
        report_started(controller, array, 3)
        report_ended(controller, array, 3)
        kill(controller, (array, 7, 9))
        settle(rest)
        _, document = await rest.get(f"/history/jobs?ids={array}")
        rows = [(r["index"], r.get("count", 1), r["stat"]) for r in document["rows"]]
        assert rows == [(1, 1, "PEND"), (3, 1, "DONE"), (5, 1, "PEND"), (7, 2, "EXIT")]
        seen, cursor = [], ""
        while True:
            _, document = await rest.get(f"/history/jobs?ids={array}&limit=2&cursor={cursor}")
            seen += [row["index"] for row in document["rows"]]
            cursor = document["next"]
            if not cursor:
                break
        assert seen == [1, 3, 5, 7]
        _, document = await rest.get(f"/history/jobs?ids={array}&scope=exited")
        assert [row["index"] for row in document["rows"]] == [7]

    run_rest(story)


def test_elements_named_twice_are_told_once_and_a_page_ends_after_many_jobs(monkeypatch):
    monkeypatch.setattr("xce.apiserver.courses.LOOKED_AT", 2)

    async def story(rest):
        controller = rest.controller
        array = submit(controller, submission(elements="1-6"))
        for _ in range(4):
            submit(controller, submission())
        settle(rest)
        _, document = await rest.get(f"/history/jobs?ids={array}[2-3],{array}[3-4],{array}[6]")
        found = [(row["index"], row.get("count", 1)) for row in document["rows"]]
        assert sum(count for _, count in found) == 4
        seen, cursor, pages = [], "", 0
        while pages < 9:
            _, document = await rest.get(f"/history/jobs?cursor={cursor}")
            seen += [row["jobid"] for row in document["rows"]]
            pages, cursor = pages + 1, document["next"]
            if not cursor:
                break
        assert (seen, pages) == ([1, 2, 3, 4, 5], 3)

    run_rest(story)


def test_a_large_array_is_read_piece_by_piece(monkeypatch):
    monkeypatch.setattr("xce.apiserver.courses.PIECE", 10)
    monkeypatch.setattr("xce.apiserver.courses.LOOKED_AT", 2)

    async def story(rest):
        controller = rest.controller
        array = submit(controller, submission(elements="1-99:2,200"))
        kill(controller, (array, 31, 49))
        place(controller, array, 7)
        settle(rest)
        seen, cursor = [], ""
        while True:
            _, document = await rest.get(f"/history/jobs?ids={array}&limit=3&cursor={cursor}")
            for row in document["rows"]:
                count, step = row.get("count", 1), row.get("step", 1)
                seen += [(row["index"] + n * step, row["stat"]) for n in range(count)]
            cursor = document["next"]
            if not cursor:
                break
        assert [index for index, _ in seen] == [*range(1, 100, 2), 200]
        assert [index for index, stat in seen if stat == "EXIT"] == [*range(31, 50, 2)]
        assert [index for index, stat in seen if stat == "RUN"] == [7]

    run_rest(story)


def test_usage_and_sums_count_every_attempt_once():
    async def story(rest):
        controller = rest.controller
        first = submit(controller, submission(name="x"))
        run_job(controller, first)
        second = submit(controller, submission(name="y"), owner=Owner("bob", 1002, 1002))
        run_job(controller, second)
        array = submit(controller, submission(elements="1-4", name="x"))
        kill(controller, (array, 2, 4))
        settle(rest)
        _, document = await rest.get("/history/usage?user=all")
        rows = [(r["jobid"], r["index"], r.get("count", 1), r["stat"]) for r in document["rows"]]
        assert rows == [(first, 0, 1, "DONE"), (second, 0, 1, "DONE"), (array, 2, 3, "EXIT")]
        assert document["rows"][2]["cause"] == "TERM_OWNER"
        _, document = await rest.get("/history/usage?user=all&limit=1")
        cursor = document["next"]
        _, document = await rest.get(f"/history/usage?user=all&limit=5&cursor={cursor}")
        assert [row["jobid"] for row in document["rows"]] == [second, array]
        for query, done, exited in (
            ("user=all", 2, 3),
            ("", 1, 3),
            ("user=bob", 1, 0),
            ("user=all&name=x", 1, 3),
            ("user=all&name=x*&queue=normal", 1, 3),
            ("user=all&scope=done", 2, 0),
            ("user=all&scope=exited", 0, 3),
            ("user=all&host=h1", 2, 0),
            ("user=all&host=nosuch", 0, 0),
            ("user=all&project=nosuch", 0, 0),
            (f"ids={second}", 1, 0),
            ("user=all&ended=,1", 0, 0),
            ("user=all&submitted=,9999999999&dispatched=0,9999999999", 2, 0),
        ):
            _, document = await rest.get(f"/history/sums?{query}")
            sums = document["sums"]
            assert (sums["done"], sums["exited"]) == (done, exited), query
        assert EndCause.OWNER

    run_rest(story)


def test_an_attempt_that_was_requeued_is_told_with_what_it_used():
    async def story(rest):
        controller = rest.controller
        given = submission(rerunnable=True)
        job = submit(controller, replace(given, spec=replace(given.spec, requeue_codes=(7,))))
        run_job(controller, job, exit_code=7)
        place(controller, job)
        report_started(controller, job)
        controller.tell(HostDisconnected("h1"))
        wait(rest, 600)
        controller.tell(Tick())
        settle(rest)
        _, document = await rest.get("/history/usage")
        first, second = document["rows"]
        assert (first["attempt"], first["stat"], first["cause"]) == (1, "EXIT", "TERM_REQUEUE_EXIT")
        assert (first["exit_code"], first["cpu_s"], first["max_mem_mib"]) == (7, 0.003, 1.0)
        assert (first["requeued"], first["requeued_at"]) == (first["cause_text"], first["end_at"])
        assert (second["attempt"], second["cause"]) == (2, "TERM_HOST_LOST")
        assert [second[name] for name in ("exit_code", "cpu_s", "max_mem_mib")] == [None] * 3
        for query, exited in (("", 2), ("scope=exited", 2), ("scope=done", 0)):
            _, document = await rest.get(f"/history/sums?{query}")
            assert document["sums"]["exited"] == exited, query
        _, document = await rest.get(f"/history/jobs?ids={job}")
        (row,) = document["rows"]
        (over,) = [step for step in row["steps"] if step["what"] == "over"]
        assert (over["exit_code"], over["cpu_s"], over["max_mem_mib"]) == (7, 0.003, 1.0)
        assert over["cause"] == "TERM_REQUEUE_EXIT"

    run_rest(story)


def test_words_that_mean_nothing_are_refused():
    async def story(rest):
        for query in ("jobs?scope=x", "usage?cursor=1.2", "usage?ended=5", "usage?ended=x,y"):
            status, document = await rest.get(f"/history/{query}")
            assert (status, document["code"]) == (400, "bad-request"), query

    run_rest(story)


@pytest.mark.parametrize("number", ["9" * 19, "9" * 5000, "\N{SUPERSCRIPT TWO}", "--1", "1_0"])
def test_numbers_that_no_database_has_are_refused_or_not_found(number):
    async def story(rest):
        run_job(rest.controller, submit(rest.controller))
        settle(rest)
        query = {"user": "all", "finished": 1}
        for path, given in (
            ("/jobs", {"cursor": f"{number}.1", **query}),
            ("/jobs", {"cursor": f"1.{number}", **query}),
            ("/history/jobs", {"cursor": f"1.{number}"}),
            ("/history/usage", {"cursor": f"1.1.1.{number}"}),
            ("/jobs", {"ids": number}),
        ):
            status, document = await rest.get(path, **given)
            assert (status, document["code"]) == (400, "bad-request"), path
        status, document = await rest.get(f"/jobs/{number}")
        assert document["code"] in ("bad-request", "unknown-job"), document
        status, document = await rest.get("/rbac", permission="job:view", object=f"job:{number}")
        assert document["code"] in ("bad-request", "unknown-job"), document

    run_rest(story)


def test_jobs_that_a_caller_may_not_see_are_not_told():
    async def story(rest):
        controller = rest.controller
        run_job(controller, submit(controller, submission()))
        run_job(controller, submit(controller, submission(), owner=Owner("bob", 1002, 1002)))
        settle(rest)

        reader = HistoryReader(rest.history_file)
        search = Search(sees=Sight("bob"))
        wanted = Wanted(search=search, states=SCOPES["all"])
        page = tell_page(reader, wanted, controller.now_us, ())
        assert [msgspec.json.decode(row)["user"] for row in page.rows] == ["bob"]
        refs = parse_refs("1,2")
        named = Wanted(search=search, states=SCOPES["all"], refs=refs, named=True)
        page = tell_page(reader, named, controller.now_us, ())
        assert page.missing == ("1",)
        page = usage_page(reader, search, START, 9, {})
        assert [msgspec.json.decode(row)["jobid"] for row in page.rows] == [2]
        queue = QueueConfig(name="normal", underrun_us=HOUR_US)
        page = usage_page(reader, search, START, 9, {"normal": queue})
        assert [msgspec.json.decode(row)["exceptions"] for row in page.rows] == [["underrun"]]
        asked = reader.search()
        assert [asked.sums(search).done, asked.sums(Search()).done] == [1, 2]
        assert asked.find_jobs(search, 0, 9) == [2]
        reader.close()

    run_rest(story)


def test_a_large_array_that_a_caller_may_not_see_is_missing_once():
    async def story(rest):
        controller = rest.controller
        array = submit(controller, submission(elements=f"1-{PIECE + 1}"))
        settle(rest)
        search = Search(sees=Sight("nobody"))
        refs = parse_refs(str(array))
        wanted = Wanted(search=search, states=SCOPES["all"], refs=refs, named=True)
        reader = HistoryReader(rest.history_file)
        page = tell_page(reader, wanted, controller.now_us, ())
        assert page.missing == (str(array),)
        reader.close()

    run_rest(story)


def test_a_viewer_of_one_queue_sees_its_history_only():
    grants = (GrantConfig(role="viewer", users=("carol",), queue="night"),)
    queues = (QueueConfig(name="normal", default=True), QueueConfig(name="night"))

    async def story(rest):
        controller = rest.controller
        for queue in ("normal", "night"):
            run_job(controller, submit(controller, submission(queue=queue)))
        submit(controller, submission())
        submit(controller, submission(queue="night"))
        settle(rest)
        rest.be("carol")
        for path, member in (("/history/jobs", "scope=finished&"), ("/history/usage", "")):
            _, document = await rest.get(f"{path}?{member}user=all")
            assert [row["queue"] for row in document["rows"]] == ["night"]
        _, document = await rest.get("/history/sums?user=all")
        assert document["sums"]["done"] == 1
        _, document = await rest.get("/users")
        assert [(row["name"], row["njobs"]) for row in document["users"]] == [("alice", 1)]

    run_rest(story, grants=grants, queues=queues, everyone=("cluster:view", "queue:submit"))


class Away:
    """A history whose database does not answer."""

    def close(self):
        """Nothing is open."""

    def __getattr__(self, name):
        def fail(*_, **__):
            raise HistoryAwayError("postgresql://db/xce: refused")

        return fail


def test_while_its_database_is_away_what_only_the_history_knows_is_refused_for_now():
    async def story(rest):
        job = await rest.submit("true")
        place(rest.controller, job)
        rest.link.pump()
        rest.controller.state.next_job = rest.replica.state.next_job = 99
        for archive in (rest.backend.history, rest.backend.archive):
            archive._reader.close()
            archive._reader = Away()
        for path in ("/jobs/7", "/jobs?ids=7", f"/jobs?ids=7,{job}", "/arrays?ids=7",
                     "/history/jobs?ids=7", "/history/usage", "/history/sums"):  # fmt: skip
            status, document = await rest.get(path)
            assert (status, document["code"]) == (503, "history-away"), path
            assert rest.headers["Retry-After"] == "1"
            assert "postgresql" not in document["detail"]
        status, document = await rest.post("/jobs", {"command": "a", "dependency": "done(7)"})
        assert (status, document["code"]) == (503, "history-away")
        # What the state has is answered as ever, and what was done is told as done.
        assert (await rest.get("/jobs", ids=job))[0] == 200
        status, document = await rest.post(
            "/jobs/actions", {"action": "kill", "select": {"jobs": [str(job), "7"]}}
        )
        assert status == 200
        codes = [item.get("error", {}).get("code") for item in document["results"]]
        assert codes == [None, "unknown-job"]

    run_rest(story)


def test_a_question_that_takes_long_holds_up_nobody_else():
    async def story(rest):
        await rest.submit("true")
        settle(rest)
        asked, go_on = threading.Event(), threading.Event()
        real = rest.backend.history._reader.job

        def slow(*given, **more):
            asked.set()
            assert go_on.wait(10)
            return real(*given, **more)

        rest.backend.history._reader.job = slow
        question = asyncio.create_task(rest.get("/jobs", ids="77"))
        await rest.until(asked.is_set)
        assert (await rest.get("/hosts"))[0] == 200
        assert (await rest.get("/history/jobs", ids="1"))[0] == 200
        assert not question.done()
        go_on.set()
        assert (await question)[1]["missing"] == ["77"]

    run_rest(story)
