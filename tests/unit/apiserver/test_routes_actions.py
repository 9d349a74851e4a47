from rest_cluster import run_rest

from xce.model.effect import Launch
from xce.model.job import JobSpec
from xce.model.observation import (
    AttemptSeen,
    AttemptTold,
    HostDisconnected,
    ReignBegan,
    Reported,
)
from xce.testing.builders import (
    ALICE,
    join_host,
    leave_host,
    place,
    report_ended,
    report_started,
    run_job,
    submit,
)


def test_jobs_are_killed_stopped_and_resumed_by_name():
    async def story(rest):
        job = await rest.submit()
        array = await rest.submit(array="1-9")
        _, document = await rest.post(
            "/jobs/actions", {"action": "stop", "select": {"jobs": [str(job)]}}
        )
        assert document["results"] == [{"job": str(job), "jobid": job, "text": "stopped"}]
        _, row = await rest.get(f"/jobs/{job}")
        assert row["stat"] == "PSUSP"
        _, document = await rest.post(
            "/jobs/actions", {"action": "resume", "select": {"all": True}}
        )
        assert [r["text"] for r in document["results"]] == ["resumed", "resumed"]
        _, document = await rest.post(
            "/jobs/actions",
            {"action": "kill", "select": {"jobs": [f"{array}[2,4-5]", "77", "nonsense"]}},
        )
        texts = {r["job"]: r.get("text") or r["error"]["lsf"] for r in document["results"]}
        assert texts == {
            f"{array}[2]": "killed",
            f"{array}[4-5]": "killed",
            "77": "No matching job found",
            "nonsense": "Illegal job ID",
        }

    run_rest(story)


def test_a_filter_takes_the_callers_own_jobs_unless_it_names_a_user():
    async def story(rest):
        mine = await rest.submit()
        rest.be("bob")
        theirs = await rest.submit()
        _, document = await rest.post("/jobs/actions", {"action": "kill", "select": {"all": True}})
        assert [r["jobid"] for r in document["results"]] == [theirs]
        _, document = await rest.post(
            "/jobs/actions", {"action": "kill", "select": {"all": True, "user": "all"}}
        )
        assert document["results"][0]["job"] == ""
        assert document["results"][0]["error"]["code"] == "unknown-job"
        rest.be("carol", is_admin=True)
        _, document = await rest.post(
            "/jobs/actions", {"action": "kill", "select": {"all": True, "user": "all"}}
        )
        assert [r["jobid"] for r in document["results"]] == [mine]

    run_rest(story)


def test_somebody_elses_job_is_not_touched():
    async def story(rest):
        job = await rest.submit()
        rest.be("bob")
        _, document = await rest.post(
            "/jobs/actions", {"action": "kill", "select": {"jobs": [str(job)]}}
        )
        assert document["results"][0]["error"]["lsf"] == "User permission denied"

    run_rest(story)


def test_a_job_that_only_the_history_knows_has_finished():
    async def story(rest):
        job = submit(rest.controller)
        run_job(rest.controller, job)
        rest.link.pump()
        rest.keep_history()
        del rest.replica.state.jobs[job]
        del rest.controller.state.jobs[job]
        _, document = await rest.post(
            "/jobs/actions", {"action": "kill", "select": {"jobs": [str(job)]}}
        )
        assert document["results"][0]["error"]["lsf"] == "Job has already finished"

    run_rest(story)


def test_a_signal_reaches_a_running_job_and_may_not_be_repeated():
    async def story(rest):
        job = await rest.submit()
        place(rest.controller, job)
        report_started(rest.controller, job)
        rest.link.pump()
        _, document = await rest.post(
            "/jobs/actions", {"action": "signal", "signal": 10, "select": {"jobs": [str(job)]}}
        )
        assert document["results"][0]["text"] == "signaled"
        assert rest.link.asked[-1][3] is False

    run_rest(story)


def test_actions_that_make_no_sense_are_refused():
    async def story(rest):
        for body in (
            {"action": "dance", "select": {"all": True}},
            {"action": "kill", "select": {}},
            {"action": "kill", "select": {"queue": "normal"}},
            {"action": "kill", "select": {"jobs": ["1"], "all": True}},
            {"action": "stop", "force": True, "select": {"all": True}},
            {"action": "signal", "select": {"all": True}},
            {"action": "kill", "signal": 9, "select": {"all": True}},
            {"action": "signal", "signal": 99, "select": {"all": True}},
        ):
            status, document = await rest.post("/jobs/actions", body)
            assert (status, document["code"]) == (400, "bad-request"), body

    run_rest(story)


def test_hosts_are_closed_by_administrators_only():
    async def story(rest):
        body = {"action": "close", "hosts": ["h1", "nope"], "comment": "disk"}
        status, document = await rest.post("/hosts/actions", body)
        assert (status, document["code"]) == (403, "denied")
        rest.be("root", is_admin=True)
        status, document = await rest.post("/hosts/actions", body)
        assert status == 200
        assert document["results"][0] == {"host": "h1", "text": "closed"}
        assert document["results"][1]["error"]["code"] == "unknown-host"
        _, document = await rest.get("/hosts")
        assert (document["hosts"][0]["status"], document["hosts"][0]["comment"]) == (
            "closed_Adm",
            "disk",
        )

    run_rest(story)


def test_administrators_switch_queues():
    async def story(rest):
        status, document = await rest.post(
            "/queues/actions", {"action": "close", "queues": ["normal"]}
        )
        assert (status, document["lsf"]) == (403, "User permission denied")
        rest.be("root", is_admin=True)
        _, document = await rest.post(
            "/queues/actions",
            {"action": "inactivate", "queues": ["normal", "nope"], "comment": "new disks"},
        )
        assert document["results"][0] == {"queue": "normal", "text": "inactivated"}
        assert document["results"][1]["error"]["lsf"] == "nope: No such queue"
        _, document = await rest.get("/queues")
        assert [(q["open"], q["active"], q["comment"]) for q in document["queues"]] == [
            (True, False, "new disks")
        ]

    run_rest(story)


def test_a_job_is_requeued_and_tells_why_it_pends_again():
    async def story(rest):
        job = await rest.submit(rerunnable=True)
        place(rest.controller, job)
        report_started(rest.controller, job)
        rest.link.pump()
        select = {"jobs": [str(job)]}
        _, document = await rest.post("/jobs/actions", {"action": "requeue", "select": select})
        assert document["results"] == [{"job": str(job), "jobid": job, "text": "requeued"}]
        report_ended(rest.controller, job, signal=2)
        rest.link.pump()
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["stat"], row["rerunnable"]) == ("PEND", True)
        assert row["requeued"] == "TERM_REQUEUE_OWNER: job killed and requeued by owner"
        assert row["reason"]["code"] == "requeued"
        status, _ = await rest.post(
            "/jobs/actions", {"action": "kill", "select": select, "states": ["RUN"]}
        )
        assert status == 400

    run_rest(story)


def test_elements_that_were_requeued_have_rows_of_their_own():
    async def story(rest):
        job = await rest.submit(array="1-5")
        place(rest.controller, job, 3)
        report_started(rest.controller, job, 3)
        select = {"jobs": [str(job)]}
        await rest.post("/jobs/actions", {"action": "requeue", "select": select})
        report_ended(rest.controller, job, 3, signal=2)
        rest.link.pump()
        _, document = await rest.get("/jobs")
        rows = [(r["index"], r.get("count", 1), bool(r["requeued"])) for r in document["jobs"]]
        assert rows == [(1, 2, False), (3, 1, True), (4, 2, False)]

    run_rest(story)


def test_a_host_that_is_away_is_given_up_by_an_administrator():
    async def story(rest):
        job = await rest.submit()
        place(rest.controller, job)
        leave_host(rest.controller, "h1")
        rest.link.pump()
        body = {"action": "lost", "hosts": ["h1"]}
        status, _ = await rest.post("/hosts/actions", body)
        assert status == 403
        rest.be("root", is_admin=True)
        _, document = await rest.post("/hosts/actions", body)
        assert document["results"] == [{"host": "h1", "text": "lost"}]
        _, row = await rest.get(f"/jobs/{job}")
        assert (row["stat"], row["cause"]) == ("EXIT", "TERM_HOST_LOST")
        assert row["detail"] == "host h1 was declared lost by root"
        _, document = await rest.get("/hosts")
        host = document["hosts"][0]
        assert (host["status"], host["lost"], host["losses"]) == ("unavail", True, 1)

    run_rest(story)


def test_a_job_whose_host_is_away_is_unknown_and_why_says_so():
    async def story(rest):
        job = await rest.submit()
        place(rest.controller, job)
        report_started(rest.controller, job)
        rest.controller.tell(HostDisconnected("h1", silent=True))
        rest.link.pump()
        _, document = await rest.get(f"/jobs/{job}/why")
        assert document["stat"] == "UNKWN"
        assert "h1 (1), which is away" in document["sentence"]
        assert any("given up" in text for text in document["next"])

    run_rest(story)


def test_jobs_that_follow_one_another_are_one_result_for_who_asks_for_runs():
    async def story(rest):
        jobs = [await rest.submit() for _ in range(3)]
        body = {"action": "stop", "select": {"all": True}}
        _, document = await rest.post("/jobs/actions", body)
        assert document["results"] == [
            {"job": str(job), "jobid": job, "text": "stopped"} for job in jobs
        ]
        body = {"action": "kill", "select": {"all": True}}
        _, document = await rest.post("/jobs/actions", body, headers={"XCE-Runs": "1"})
        assert document["results"] == [
            {"job": str(jobs[0]), "jobid": jobs[0], "text": "killed", "count": 3}
        ]

    run_rest(story)


def test_what_a_restored_journal_lacks_is_adopted_by_an_administrator_and_hosts_tell_the_rest():
    async def story(rest):
        rest.controller.tell(ReignBegan(is_restored=True))
        leave_host(rest.controller, "h1")
        seen = [AttemptSeen(77, 3, 2, running=True), AttemptSeen(78, 0, 1, running=True)]
        join_host(rest.controller, "h1", attempts=seen)
        rest.link.pump()
        body = {"action": "adopt", "hosts": ["h1"]}
        assert (await rest.post("/hosts/actions", body))[0] == 403
        rest.be("root", is_admin=True)
        _, document = await rest.post("/hosts/actions", body)
        assert document["results"][0]["text"] == "2 unknown attempts are being adopted"
        _, document = await rest.get("/hosts")
        host = document["hosts"][0]
        assert (host["strangers"], host["adopting"], host["unadopted"]) == (2, 2, [])
        launch = Launch(
            77, [3], [2], JobSpec(), ALICE, "q", "", "c", (("h1", 1),), 1, 0, 0, 0, 0
        )  # fmt: skip
        told = (AttemptTold(3, 2, launch),)
        rest.controller.tell(Reported("h1", 1, gone=((78, 0, 1),), told=told))
        rest.link.pump()
        _, document = await rest.get("/hosts")
        host = document["hosts"][0]
        assert (host["strangers"], host["adopting"]) == (1, 0)
        (left,) = host["unadopted"]
        assert (left["job"], left["attempt"]) == ("77[3]", 2)
        assert "an older release" in left["reason"]

    run_rest(story)
