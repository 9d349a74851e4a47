"""What a submit is warned of."""

from rest_cluster import run_rest


def test_an_amount_of_a_pool_for_each_host_is_warned_of_where_there_may_be_more_than_one():
    async def story(rest):
        for resreq, tasks, is_warned in (
            ("rusage[seats=1/host]", 2, True),
            ("rusage[seats=1/host] span[hosts=1]", 2, False),
            ("rusage[seats=1/host]", 1, False),
            ("rusage[seats=1/job]", 2, False),
            ("{2*{rusage[seats=1/host]} + 1*{}} || {mem > 1}", 3, True),
        ):
            body = {"command": "a", "resreq": [resreq], "tasks": [tasks, tasks]}
            status, document = await rest.post("/jobs", body)
            assert status == 201
            warning = document["results"][0].get("warning") or ""
            assert ("1/host is taken once for the job" in warning) == is_warned

    run_rest(story, pools={"seats": 9})
