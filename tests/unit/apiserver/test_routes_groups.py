from rest_cluster import run_rest

from xce.testing.builders import place, report_ended, report_started, stop


def test_groups_are_made_counted_and_deleted():
    async def story(rest):
        path = "/jobgroups/actions"
        assert (await rest.post(path, {"action": "add", "name": "/a/b/", "limit": 3}))[0] == 200
        job = await rest.submit(group="/a/b", tasks=[2, 2])
        array = await rest.submit(group="/a/b", array="1-4")
        other = await rest.submit(group="/c")
        place(rest.controller, job)
        place(rest.controller, array, 1, host="h2")
        report_started(rest.controller, array, 1)
        report_ended(rest.controller, array, 1)
        stop(rest.controller, (array, 4, 4))
        rest.link.pump()
        _, document = await rest.get("/jobgroups")
        rows = {row["name"]: row for row in document["groups"]}
        assert list(rows) == ["/a", "/a/b", "/c"]
        assert [row["made"] for row in rows.values()] == [True, True, False]
        assert (rows["/a/b"]["limit"], rows["/a"]["limit"]) == (3, None)
        assert (rows["/a/b"]["used"], rows["/a"]["used"]) == (1, 1)
        assert rows["/a/b"]["jobs"] == {"pend": 3, "run": 1, "ssusp": 0, "ususp": 0, "finish": 1}
        assert rows["/a/b"]["slots"]["run"] == 2
        assert rows["/a"]["jobs"]["pend"] == 0
        _, document = await rest.get("/jobs", group="/c")
        assert [row["jobid"] for row in document["jobs"]] == [other]
        assert document["jobs"][0]["group"] == "/c"
        _, document = await rest.post(path, {"action": "delete", "name": "/a/b"})
        assert (document["code"], document["lsf"]) == ("group-in-use", "Job group contains jobs")
        select = {"group": "/c", "all": True}
        _, document = await rest.post("/jobs/actions", {"action": "kill", "select": select})
        assert [result["jobid"] for result in document["results"]] == [other]
        assert (await rest.post(path, {"action": "delete"}))[0] == 404

    run_rest(story)


def test_what_is_no_group_is_refused():
    async def story(rest):
        path = "/jobgroups/actions"
        for body, status in (
            ({"action": "add", "name": "a"}, 400),
            ({"action": "add", "name": ""}, 400),
            ({"action": "add", "name": "/a", "below": True}, 400),
            ({"action": "delete", "name": "/a", "limit": 1}, 400),
            ({"action": "modify", "name": "/a", "limit": 1}, 404),
        ):
            assert (await rest.post(path, body))[0] == status, body
        status, document = await rest.post("/jobs", {"command": "x", "group": "no path"})
        assert (status, document["lsf"]) == (400, "no path: Illegal job group name")

    run_rest(story)
