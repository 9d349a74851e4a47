import asyncio

from rest_cluster import run_rest

from xce.testing.builders import (
    gang,
    leave_host,
    place,
    propose,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
)


def test_a_submitted_job_is_listed_at_once():
    async def story(rest):
        job = await rest.submit("sleep 5", name="nap", queue="normal", env=["A=b"])
        status, document = await rest.get("/jobs")
        assert status == 200
        (row,) = document["jobs"]
        assert (row["jobid"], row["stat"], row["name"], row["named"]) == (job, "PEND", "nap", True)
        assert row["reason"]["code"] == "new"
        assert row["from_host"] == "front"
        assert row["home"] == "/home/1001"
        assert document["missing"] == []
        assert document["next"] is None
        assert rest.headers["XCE-Seq"] == str(document["seq"])

    run_rest(story)


def test_untouched_elements_of_an_array_are_one_row_with_count_and_step():
    async def story(rest):
        job = await rest.submit(name="a", array="1-9:2,20%3")
        _, document = await rest.get("/jobs", fields="stat,array,array_limit")
        assert document["jobs"] == [
            {"jobid": job, "index": 1, "stat": "PEND", "count": 5, "step": 2, "array": "1-9:2,20",
             "array_limit": 3},
            {"jobid": job, "index": 20, "stat": "PEND", "array": "1-9:2,20", "array_limit": 3},
        ]  # fmt: skip

    run_rest(story)


def test_rows_of_an_array_stand_in_index_order_whatever_their_state():
    async def story(rest):
        job = await rest.submit(array="1-9")
        rest.link.pump()
        place(rest.controller, job, 2, 5, host="h1")
        report_started(rest.controller, job, 5)
        report_started(rest.controller, job, 2)
        report_ended(rest.controller, job, 2)
        await rest.post("/jobs/actions", {"action": "kill", "select": {"jobs": [f"{job}[7-8]"]}})
        _, document = await rest.get("/jobs", finished=1, fields="stat,hosts,cause")
        rows = [
            (row["index"], row.get("count", 1), row["stat"], row["hosts"], row["cause"])
            for row in document["jobs"]
        ]
        assert rows == [
            (1, 1, "PEND", [], ""),
            (2, 1, "DONE", [["h1", 1]], ""),
            (3, 2, "PEND", [], ""),
            (5, 1, "RUN", [["h1", 1]], ""),
            (6, 1, "PEND", [], ""),
            (7, 2, "EXIT", [], "TERM_OWNER"),
            (9, 1, "PEND", [], ""),
        ]
        _, document = await rest.get("/jobs", state="run", fields="stat")
        assert [row["index"] for row in document["jobs"]] == [5]

    run_rest(story)


def test_the_callers_unfinished_jobs_are_the_default():
    async def story(rest):
        mine = await rest.submit()
        rest.be("bob")
        theirs = await rest.submit()
        _, document = await rest.get("/jobs", fields="user")
        assert [row["jobid"] for row in document["jobs"]] == [theirs]
        _, document = await rest.get("/jobs", user="all", fields="user")
        assert [(row["jobid"], row["user"]) for row in document["jobs"]] == [
            (mine, "alice"),
            (theirs, "bob"),
        ]
        _, document = await rest.get("/jobs", user="alice", fields="user")
        assert [row["jobid"] for row in document["jobs"]] == [mine]

    run_rest(story)


def test_filters_by_name_queue_host_and_state():
    async def story(rest):
        first = await rest.submit(name="alpha")
        second = await rest.submit(name="beta")
        rest.link.pump()
        run_on = rest.controller
        place(run_on, second, host="h2")
        report_started(run_on, second)
        rest.link.pump()

        async def ids(**query):
            _, document = await rest.get("/jobs", fields="stat", **query)
            return [row["jobid"] for row in document["jobs"]]

        assert await ids(name="al*") == [first]
        assert await ids(name="*a") == [first, second]
        assert await ids(queue="other") == []
        assert await ids(host="h2") == [second]
        assert await ids(host="h9") == []
        assert await ids(state="pend") == [first]
        assert await ids(state="run,pend") == [first, second]
        assert await ids(state="done") == []

    run_rest(story)


def test_named_jobs_are_shown_whatever_their_state_and_owner_and_missing_ones_are_told():
    async def story(rest):
        done = submit(rest.controller)
        run_job(rest.controller, done)
        rest.link.pump()
        array = await rest.submit(array="1-5")
        rest.be("bob")
        _, document = await rest.get(
            "/jobs", ids=f"{array}[2-3],{done},99,{array}[7]", fields="stat"
        )
        assert [(r["jobid"], r["index"], r["stat"]) for r in document["jobs"]] == [
            (done, 0, "DONE"),
            (array, 2, "PEND"),
        ]
        assert document["jobs"][1]["count"] == 2
        assert document["missing"] == [f"{array}[7]", "99"]

    run_rest(story)


def test_a_job_that_left_the_state_is_answered_from_the_history_for_ever():
    async def story(rest):
        job = submit(rest.controller, submission("exit 3", name="old", tasks=2))
        place(rest.controller, job)
        report_started(rest.controller, job)
        report_ended(rest.controller, job, exit_code=3)
        rest.link.pump()
        _, before = await rest.get("/jobs", ids=job)
        rest.keep_history()
        del rest.replica.state.jobs[job]
        status, after = await rest.get("/jobs", ids=job)
        assert status == 200
        # For how long it was ineligible the record says that lets it leave; here none came.
        (known,) = ({**row, "ineligible_s": None} for row in before["jobs"])
        assert after["jobs"] == [known]
        _, one = await rest.get(f"/jobs/{job}")
        assert one == known
        _, why = await rest.get(f"/jobs/{job}/why")
        assert why["stat"] == "EXIT"
        status, ended = await rest.get(f"/jobs/{job}/wait")
        assert (status, ended["exit_code"]) == (200, 3)
        status, document = await rest.get(f"/jobs/{job + 1}")
        assert (status, document["code"]) == (404, "unknown-job")

    run_rest(story, hosts={"h1": 4})


def test_pages_hold_every_row_once():
    async def story(rest):
        for _ in range(5):
            await rest.submit()
        await rest.submit(array="1-3,7")
        seen, cursor = [], ""
        while True:
            _, document = await rest.get("/jobs", limit=2, cursor=cursor, fields="stat")
            seen += [(row["jobid"], row["index"]) for row in document["jobs"]]
            assert len(document["jobs"]) <= 2
            cursor = document["next"]
            if not cursor:
                break
        assert seen == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 1), (6, 7)]

    run_rest(story)


def test_parameters_without_meaning_are_refused_by_name():
    async def story(rest):
        for query in (
            {"fields": "stat,colour"},
            {"state": "sleeping"},
            {"ids": "12x"},
            {"ids": "12[0]"},
            {"cursor": "abc"},
            {"limit": "many"},
            {"limit": "-1"},
            {"finished": "perhaps"},
        ):
            status, document = await rest.get("/jobs", **query)
            assert (status, document["code"]) == (400, "bad-request"), query
            assert document["detail"]

    run_rest(story)


def test_one_job_is_shown_with_all_members_and_an_array_with_its_counts():
    async def story(rest):
        job = await rest.submit("sleep 1", tasks=[2, 4], output="o.%J", cwd="/tmp", umask=0o77)
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["tasks_min"], row["tasks_max"], row["output"]) == (2, 4, "o.%J")
        array = await rest.submit(array="1-5")
        _, whole = await rest.get(f"/jobs/{array}")
        assert whole["elements"] == {
            "pend": 5, "psusp": 0, "run": 0, "ususp": 0, "ssusp": 0, "done": 0, "exit": 0,
        }  # fmt: skip
        _, element = await rest.get(f"/jobs/{array}", index=3)
        assert (element["index"], element["stat"]) == (3, "PEND")
        status, document = await rest.get(f"/jobs/{array}", index=9)
        assert (status, document["lsf"]) == (404, f"Job <{array}[9]> is not found")
        status, document = await rest.get("/jobs/abc")
        assert (status, document["lsf"]) == (400, "abc: Illegal job ID")

    run_rest(story)


def test_waiting_ends_with_the_job_and_not_before():
    async def story(rest):
        job = await rest.submit()
        status, content = await rest.get(f"/jobs/{job}/wait", timeout=0)
        assert (status, content) == (204, b"")
        waiting = asyncio.create_task(rest.get(f"/jobs/{job}/wait", timeout=30))
        await rest.until(lambda: len(rest.backend.waits))
        run_job(rest.controller, job)
        rest.link.pump()
        status, row = await waiting
        assert (status, row["stat"]) == (200, "DONE")
        assert len(rest.backend.waits) == 0

    run_rest(story)


def test_waiting_for_an_element_does_not_wait_for_the_array():
    async def story(rest):
        job = await rest.submit(array="1-3")
        waiting = asyncio.create_task(rest.get(f"/jobs/{job}/wait", index=2, timeout=30))
        whole = asyncio.create_task(rest.get(f"/jobs/{job}/wait", timeout=1))
        await rest.until(lambda: len(rest.backend.waits))
        place(rest.controller, job, 2)
        report_started(rest.controller, job, 2)
        report_ended(rest.controller, job, 2)
        rest.link.pump()
        status, row = await waiting
        assert (status, row["index"], row["stat"]) == (200, 2, "DONE")
        status, _ = await whole
        assert status == 204

    run_rest(story)


def test_why_names_each_reason_and_what_could_be_done():
    async def story(rest):
        first = await rest.submit()
        held = await rest.submit(hold=True)
        after = await rest.submit(dependency=f"done({first})")
        _, document = await rest.get(f"/jobs/{held}/why")
        assert document["reasons"][0]["code"] == "held"
        assert document["next"] == [f"bresume {held} releases it"]
        _, document = await rest.get(f"/jobs/{after}/why")
        assert document["reasons"][0]["code"] == "dependency"
        assert f"done({first})" in document["sentence"]
        rest.link.pump()
        place(rest.controller, first)
        report_started(rest.controller, first)
        rest.link.pump()
        _, document = await rest.get(f"/jobs/{first}/why")
        assert document["sentence"] == f"Job {first} runs on h1 (1)."

    run_rest(story)


def test_the_script_is_for_its_owner_and_administrators():
    async def story(rest):
        job = await rest.submit("echo 'a b'")
        assert await rest.get(f"/jobs/{job}/script") == (200, b"echo 'a b'")
        rest.be("bob")
        status, document = await rest.get(f"/jobs/{job}/script")
        assert (status, document["code"]) == (403, "not-yours")
        rest.be("carol", is_admin=True)
        status, _ = await rest.get(f"/jobs/{job}/script")
        assert status == 200

    run_rest(story)


def test_the_environment_is_for_its_owner_and_administrators():
    async def story(rest):
        job = await rest.submit("true", env=["A=b", "TOKEN=x\ny"])
        assert await rest.get(f"/jobs/{job}/environment") == (200, b"A=b\0TOKEN=x\ny")
        bare = await rest.submit("true")
        assert await rest.get(f"/jobs/{bare}/environment") == (200, b"")
        status, document = await rest.get("/jobs/99/environment")
        assert (status, document["lsf"]) == (404, "Job <99> is not found")
        rest.be("bob")
        status, document = await rest.get(f"/jobs/{job}/environment")
        assert (status, document["permission"]) == (403, "job:attach")
        rest.be("carol", is_admin=True)
        assert (await rest.get(f"/jobs/{job}/environment"))[0] == 200

    run_rest(story)


def test_a_row_names_the_resources_that_the_job_asks_for():
    async def story(rest):
        await rest.submit()
        await rest.submit(resreq=["rusage[mem=5]"])
        await rest.submit(resreq=["{rusage[mem=5]} || {span[hosts=1]}"])
        _, document = await rest.get("/jobs", fields="rusage")
        assert [row["rusage"] for row in document["jobs"]] == [[], [["mem"]], [["mem"], []]]
        _, document = await rest.get("/cluster")
        assert document["hosts"] == len((await rest.get("/hosts"))[1]["hosts"])

    run_rest(story)


def test_output_is_read_in_pieces_and_says_when_it_is_final():
    async def story(rest):
        job = await rest.submit(output="out.%J", cwd="/data")
        status, document = await rest.get(f"/jobs/{job}/output")
        assert (status, document["lsf"]) == (409, f"Job <{job}> : Not yet started")
        place(rest.controller, job, host="h2")
        report_started(rest.controller, job)
        rest.link.pump()
        rest.link.files[job, 0, "stdout"] = b"hello world\n"
        status, content = await rest.get(f"/jobs/{job}/output", offset=6, limit=5)
        assert (status, content) == (200, b"world")
        assert (rest.headers["XCE-Offset"], rest.headers["XCE-Size"]) == ("11", "12")
        assert "XCE-Final" not in rest.headers
        asked = rest.link.read_requests[-1]
        assert (asked.host, asked.path, asked.cwd, asked.user) == ("h2", "out.%J", "/data", "alice")
        report_ended(rest.controller, job)
        rest.link.pump()
        await rest.get(f"/jobs/{job}/output")
        assert rest.headers["XCE-Final"] == "1"
        status, document = await rest.get(f"/jobs/{job}/output", stream="stderr")
        assert (status, document["code"]) == (404, "no-output")
        rest.be("bob")
        status, document = await rest.get(f"/jobs/{job}/output")
        assert (status, document["code"]) == (403, "not-yours")

    run_rest(story)


def test_output_is_followed_until_the_job_is_over():
    async def story(rest):
        job = await rest.submit()
        place(rest.controller, job)
        report_started(rest.controller, job)
        rest.link.pump()
        rest.link.files[job, 0, "stdout"] = b"one\n"
        following = asyncio.create_task(rest.get(f"/jobs/{job}/output", follow=1))
        await rest.until(lambda: rest.link.read_requests)
        rest.link.files[job, 0, "stdout"] += b"two\n"
        report_ended(rest.controller, job)
        rest.link.pump()
        assert await following == (200, b"one\ntwo\n")

    run_rest(story)


def test_a_read_says_that_it_is_stale_while_the_controller_is_away():
    async def story(rest):
        await rest.submit()
        rest.replica.note_away()
        status, document = await rest.get("/jobs")
        assert (status, len(document["jobs"])) == (200, 1)
        assert float(rest.headers["XCE-Stale"]) >= 0
        status, document = await rest.get("/ready")
        assert (status, document["code"]) == (503, "controller-away")

    run_rest(story)


def test_a_read_waits_for_the_entry_that_it_asks_for():
    async def story(rest):
        rest.link.holds_entries = True
        job = submit(rest.controller)
        wanted = str(rest.controller.state.seq)
        reading = asyncio.create_task(
            rest.call("GET", "/jobs", headers={"XCE-Min-Seq": wanted}, user="all")
        )
        await asyncio.sleep(0.05)
        assert not reading.done()
        rest.link.pump()
        _, document = await reading
        assert [row["jobid"] for row in document["jobs"]] == [job]
        status, document = await rest.call("GET", "/jobs", headers={"XCE-Min-Seq": "soon"})
        assert (status, document["code"]) == (400, "bad-request")

    run_rest(story)


def test_parallel_jobs_show_all_their_hosts_also_after_the_end():
    async def story(rest):
        job = await rest.submit(tasks=[6, 6])
        propose(rest.controller, gang(rest.controller, job, hosts={"h2": 4, "h1": 2}))
        report_started(rest.controller, job)
        rest.link.pump()
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["hosts"], row["slots"]) == ([["h2", 4], ["h1", 2]], 6)
        report_ended(rest.controller, job)
        rest.link.pump()
        _, ended = await rest.get(f"/jobs/{job}")
        assert (ended["hosts"], ended["slots"]) == ([["h2", 4], ["h1", 2]], 6)
        rest.keep_history()
        del rest.replica.state.jobs[job]
        _, past = await rest.get(f"/jobs/{job}")
        assert past["hosts"] == [["h2", 4], ["h1", 2]]

    run_rest(story)


def test_hosts_queues_arrays_and_the_cluster_are_shown():
    async def story(rest):
        job = await rest.submit(tasks=[2, 2], resreq=["rusage[mem=100] span[hosts=1]"])
        place(rest.controller, job, host="h1")
        report_started(rest.controller, job)
        await rest.submit(array="1-4")
        leave_host(rest.controller, "h2")
        rest.link.pump()
        _, document = await rest.get("/hosts")
        first, second = document["hosts"]
        assert (first["name"], first["status"], first["njobs"], first["run"]) == ("h1", "ok", 2, 2)
        assert first["mem_used_mib"] in (100, 200)
        assert second["status"] == "unreach"
        _, document = await rest.get("/queues")
        (queue,) = document["queues"]
        assert (queue["njobs"], queue["pend"], queue["run"]) == (6, 4, 2)
        _, document = await rest.get("/arrays")
        (array,) = document["arrays"]
        assert (array["njobs"], array["pend"]) == (4, 4)
        _, document = await rest.get("/arrays", ids=f"{job},77")
        assert document == {"arrays": [], "missing": [str(job), "77"]}
        _, document = await rest.get("/cluster")
        assert (document["user"], document["is_admin"]) == ("alice", False)
        assert document["default_queue"] == "normal"

    run_rest(story)
