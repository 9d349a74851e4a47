"""What a submit may ask of pools."""

from rest_cluster import run_rest


def test_an_amount_of_a_pool_for_each_host_is_refused_where_there_may_be_more_than_one():
    async def story(rest):
        for resreq, tasks, is_refused in (
            ("rusage[seats=1/host]", 2, True),
            ("rusage[seats=1/host] span[hosts=1]", 2, False),
            ("rusage[seats=1/host]", 1, False),
            ("rusage[seats=1/job]", 2, False),
            ("{2*{rusage[seats=1/host]} + 1*{}} || {mem > 1}", 3, True),
        ):
            body = {"command": "a", "resreq": [resreq], "tasks": [tasks, tasks]}
            status, document = await rest.post("/jobs", body)
            assert status == (422 if is_refused else 201), document
            if is_refused:
                assert "seats, a pool, for each of several hosts (/host)" in document["detail"]
                assert "/job or /task" in document["detail"]

    run_rest(story, pools={"seats": 9})
