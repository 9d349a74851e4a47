import asyncio

from rest_cluster import run_rest

from xce.testing.builders import place, report_ended, report_started


def test_a_condition_is_judged_at_once_or_when_it_holds():
    async def story(rest):
        job = await rest.submit(name="a")
        body = {"condition": "done(a)"}
        assert (await rest.post("/conditions", body))[1]["verdict"] == "waits"
        waiting = asyncio.create_task(rest.post("/conditions", {**body, "timeout_s": 30}))
        await rest.until(lambda: len(rest.backend.waits))
        place(rest.controller, job)
        report_started(rest.controller, job)
        rest.link.pump()
        report_ended(rest.controller, job)
        rest.link.pump()
        status, document = await waiting
        assert (status, document["verdict"]) == (200, "holds")
        document = (await rest.post("/conditions", {"condition": f"exit({job})"}))[1]
        assert document["verdict"] == "never"

    run_rest(story)


def test_what_is_no_condition_is_refused():
    async def story(rest):
        status, document = await rest.post("/conditions", {"condition": "done("})
        assert (status, document["lsf"]) == (422, "Dependency condition syntax error")
        status, document = await rest.post("/conditions", {"condition": "done(77)"})
        assert (status, document["lsf"]) == (422, "No matching job found")

    run_rest(story)
