"""The matrix, cell by cell: every request of every row by every role, about own and other's."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from rest_cluster import run_rest

from xce.apiserver.access import COLUMNS, MATRIX, About, permission_for, render_matrix, route_access
from xce.apiserver.routes.table import ROUTES
from xce.model.command import ApplyConfig, PostMessage, SetGroup, SetHostsOpen, SetQueues
from xce.model.config import GrantConfig
from xce.model.permission import BUILT_IN_ROLES, EVERYONE
from xce.testing.builders import (
    kill,
    place,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
)

OWNER, ASKER = "alice", "bob"
JOB_ROWS = [row for row in MATRIX if row.about is About.JOB]


def settings_of(column):
    grants = ()
    if column in BUILT_IN_ROLES:
        grants = (GrantConfig(role=column, users=(ASKER,)),)
    return {"everyone": () if column == "nobody" else EVERYONE, "grants": grants}


def test_every_route_has_a_row_and_every_row_a_route():
    rows = {(row.method, row.path) for row in MATRIX}
    assert rows == {(route.method, route.path) for route in ROUTES}
    assert len({(row.method, row.path, row.action) for row in MATRIX}) == len(MATRIX)
    with pytest.raises(KeyError):
        route_access("GET", "/nothing-of-the-kind")
    with pytest.raises(KeyError):
        permission_for("/jobs/actions", "dance")


def test_every_row_has_a_cell_for_every_role():
    for row in MATRIX:
        assert len(row.own) == len(COLUMNS), row
        assert set(row.own) <= set("yn-")
        assert bool(row.other) == (row.about in (About.JOB, About.JOBS, About.USER)), row
        assert not row.other or len(row.other) == len(COLUMNS), row


def configure(rest, config):
    rest.controller.tell(ApplyConfig("root", config, is_admin=True), by="root")
    rest.link.pump()


def test_the_users_guide_shows_the_matrix():
    guide = Path(__file__).resolve().parents[3] / "docs" / "people.md"
    assert render_matrix() in guide.read_text()


async def prepared(rest, user):
    """Return a running job of ``user``, and an array that waits."""
    rest.be(user, uid=1001 if user == OWNER else 1002)
    # Whoever may not submit now has jobs from better times.
    before = rest.controller.state.config
    better = {"everyone": EVERYONE, "checkpoint_programs": "/programs"}
    configure(rest, msgspec.structs.replace(before, **better))
    job = await rest.submit("echo hello", checkpoints={"directory": "/ck"})
    array = await rest.submit(array="1-3")
    configure(rest, before)
    rest.controller.tell(SetHostsOpen("root", ("h1",), is_open=True, is_admin=True), by="root")
    place(rest.controller, job)
    report_started(rest.controller, job)
    rest.link.files[job, 0, "stdout"] = b"hello\n"
    blobs = rest.link.blobs["cafe"] = b"attached"
    post = PostMessage("root", True, job, 0, "text", name="a", blobs=(("cafe", blobs),))
    rest.controller.tell(post, by="root")
    rest.link.pump()
    return job, array


async def acted(rest, row, job, array):
    """Send the request of a row that acts on jobs; return ``y``, ``n`` or ``-``."""
    if row.path.endswith("/run"):
        body = {"hosts": ["h1"], "index": 2}
        return judged(row, *await rest.post(row.path.replace("{id}", str(array)), body))
    if row.path.endswith("messages"):
        path = row.path.replace("{id}", str(job))
        return judged(row, *await rest.post(path, {"text": "hello"}))
    if row.path == "/trace/actions":
        return judged(row, *await rest.post(row.path, {"action": "on", "job": array}))
    target = array if row.action in ("top", "bottom") else job
    body = {"action": row.action, "select": {"jobs": [str(target)]}}
    if row.action == "signal":
        body["signal"] = 10
    if row.action == "switch":
        body["to_queue"] = "normal"
    if row.action == "modify":
        body["change"] = {"run_limit_s": 600}
    status, document = await rest.post(row.path, body)
    assert status == 200, document
    (result,) = document["results"]
    if "error" not in result:
        return "y"
    error = result["error"]
    if error["code"] == "not-yours":
        assert error["permission"] == row.permission
        assert error["lsf"] == "User permission denied"
        return "n"
    assert error == ABSENT, error
    return "-"


async def grouped(rest, row, user):
    """Send the request of a row about a job group."""
    body = {"action": row.action, "name": "/mine"}
    if row.action == "add":
        body["name"] = "/new"
    elif row.action == "modify":
        body["limit"] = 3
    rest.controller.tell(SetGroup(ASKER, False, "/mine"), by=ASKER)
    rest.link.pump()
    return judged(row, *await rest.post(row.path, body))


async def queued(rest, row):
    """Send the request of a row about a queue."""
    if row.path == "/plan":
        status, document = await rest.post(row.path, {"command": "true"})
        assert document["accepted"] or document["error"]["permission"] == row.permission
        return "y" if document["accepted"] else "n"
    if row.path == "/queues/actions":
        body = {"action": row.action, "queues": ["normal"]}
        status, document = await rest.post(row.path, body)
        undone = SetQueues("root", ("normal",), is_open=True, is_active=True, is_admin=True)
        rest.controller.tell(undone, by="root")
        return judged(row, status, document)
    return judged(row, *await rest.post("/jobs", {"command": "true"}))


async def outcome(rest, row, job, array, user):
    """Send the request of a row; return ``y``, ``n`` or ``-``."""
    match row.about:
        case About.JOB if row.path.endswith("terminal"):
            status, document = await rest.call(row.method, row.path.replace("{id}", str(job)))
            return "y" if status == 409 else judged(row, status, document)  # it is not interactive
        case About.JOB if row.method == "POST":
            return await acted(rest, row, job, array)
        case About.JOB if row.path == "/trace":
            return judged(row, *await rest.get(row.path, job=str(job)))
        case About.CALLER if row.path == "/conditions":
            body = {"condition": f"started({job})"}
            status, document = await rest.post(row.path, body)
            assert status == 200 or document["lsf"] == "No matching job found"
            return "y"
        case About.CALLER if row.path == "/jobgroups/actions":
            return await grouped(rest, row, user)
        case About.CALLER if row.path == "/trace/actions":
            return judged(row, *await rest.post(row.path, {"action": "off"}))
        case About.QUEUE:
            return await queued(rest, row)
        case About.JOB:
            query = {"timeout": 0} if row.path.endswith("wait") else {}
            return judged(row, *await rest.get(row.path.replace("{id}", str(job)), **query))
        case About.JOBS if row.path == "/watch":
            return await watched(rest, user)
        case About.JOBS if row.path.startswith("/history"):
            return await remembered(rest, row, job, user)
        case About.JOBS:
            return await listed(rest, row, array if row.path == "/arrays" else job)
        case About.USER if row.method == "POST":
            return judged(row, *await rest.post(row.path, {"user": user, "session": "ab12"}))
        case About.NOTHING if row.method == "POST":
            status, document = await rest.post("/login", {"way": "unix"})
            if row.path == "/login/refresh":
                rest.identities.account = lambda _: rest.identities.chosen
                token = {"refresh_token": document["refresh_token"]}
                status, document = await rest.post(row.path, token)
            assert document["access_token"]
            return judged(row, status, document)
        case About.USER:
            return judged(row, *await rest.get(row.path, user=user, permission="job:kill"))
        case _ if row.path == "/config/actions":
            config = rest.controller.state.config
            site = msgspec.structs.replace(rest.backend.site, load_config=lambda: config)
            rest.backend.site = site
            return judged(row, *await rest.post(row.path, {"action": row.action}))
        case _ if row.method == "POST":
            body = {"action": row.action, "hosts": ["h1"]}
            if row.action.endswith("-devices"):
                body["devices"] = ["0"]
            return judged(row, *await rest.post(row.path, body))
        case _:
            return judged(row, *await rest.get(row.path))


ABSENT = {
    "code": "unknown-job",
    "text": "no job has the id {id}",
    "lsf": "No matching job found",
}


def judged(row, status, document):
    if status < 300:
        return "y"
    if status == 404:
        assert document["code"] == "unknown-job"
        assert "permission" not in document
        return "-"
    assert status == 403, document
    assert document["permission"] == row.permission
    return "n"


async def listed(rest, row, wanted):
    """Return whether a job is listed, among all and by its id."""
    member = row.path[1:]
    status, document = await rest.get(row.path, user="all")
    assert status == 200
    found = {item["jobid"] for item in document[member]}
    status, document = await rest.get(row.path, ids=str(wanted))
    assert status == 200
    by_id = {item["jobid"] for item in document[member]}
    assert (wanted in found) == (wanted in by_id)
    assert document["missing"] == ([] if by_id else [str(wanted)])
    return "y" if by_id else "-"


async def remembered(rest, row, job, user):
    """Return whether the history of a job that has ended is told."""
    report_ended(rest.controller, job)
    rest.link.pump()
    rest.keep_history()
    if row.path == "/history/sums":
        _, document = await rest.get(row.path, ids=str(job))
        _, every = await rest.get(row.path, user=user)
        assert bool(every["sums"]["done"]) == bool(document["sums"]["done"])
        return "y" if document["sums"]["done"] else "-"
    _, document = await rest.get(row.path, ids=str(job))
    by_id = {item["jobid"] for item in document["rows"]}
    assert document["missing"] == ([str(job)] if row.path == "/history/jobs" and not by_id else [])
    more = {"scope": "all"} if row.path == "/history/jobs" else {}
    _, document = await rest.get(row.path, user="all", limit="1000", **more)
    found = {item["jobid"] for item in document["rows"]}
    assert (job in found) == (job in by_id)
    return "y" if job in by_id else "-"


async def watched(rest, user):
    """Return whether a watcher hears of a job of ``user``."""
    url = "http://xce/xce/v1/watch"
    seq = rest.replica.seq
    heard = []
    async with rest.session.get(url, params={"from_seq": str(seq)}) as answer:
        chosen = rest.identities.chosen
        rest.be(user, uid=1001 if user == OWNER else 1002, is_admin=True)
        await rest.submit("true")
        rest.be("root", is_admin=True)
        mark = await rest.submit("true")
        rest.identities.chosen = chosen
        # The asker's own job comes behind all that may be seen.
        rest.be(ASKER, is_admin=True)
        last = await rest.submit("true")
        rest.identities.chosen = chosen
        while True:
            line = (await asyncio.wait_for(answer.content.readline(), 5)).decode()
            if line.startswith("data: "):
                event = json.loads(line[6:])
                heard.append(event)
                if event["jobid"] == last:
                    break
    assert mark
    return "y" if any(event["user"] == user and event["jobid"] != last for event in heard) else "-"


@pytest.mark.parametrize("column", COLUMNS)
def test_the_cells_of_a_role(column):
    place_of = COLUMNS.index(column)

    async def story(rest):
        found, wanted = {}, {}
        for row in MATRIX:
            for whose, cells in (("own", row.own), ("other", row.other)):
                if not cells:
                    continue
                user = ASKER if whose == "own" else OWNER
                job, array = await prepared(rest, user)
                rest.be(ASKER)
                ABSENT["text"] = (
                    f"no job has the id {array if row.action in ('top', 'bottom') else job}"
                )
                key = f"{row.method} {row.path} {row.action} {whose}"
                found[key] = await outcome(rest, row, job, array, user)
                wanted[key] = cells[place_of]
                rest.controller.step([], rest.controller.now_us + 1)
        assert found == wanted

    run_rest(story, hosts={"h1": 1000}, **settings_of(column))


def test_an_id_that_may_not_be_known_answers_as_one_that_does_not_exist():
    async def story(rest):
        job, _ = await prepared(rest, OWNER)
        rest.be(ASKER)
        for row in JOB_ROWS:
            if row.method != "GET" or row.path == "/trace":
                continue
            hidden = await rest.get(row.path.replace("{id}", str(job)))
            absent = await rest.get(row.path.replace("{id}", "999999"))
            assert json.dumps(hidden).replace(str(job), "N") == json.dumps(absent).replace(
                "999999", "N"
            )
        # Also as the subject of a dependency, and behind an index that it has or has not.
        for ident in (job, 999_999):
            status, document = await rest.get(f"/jobs/{ident}", index=7)
            assert (status, document["detail"]) == (404, f"no job has the id {ident}")

    run_rest(story, **settings_of("nobody"))


def test_a_hidden_job_of_the_history_is_not_there_either():
    async def story(rest):
        rest.be(OWNER)
        before = rest.controller.state.config
        configure(rest, msgspec.structs.replace(before, everyone=EVERYONE))
        job = submit(rest.controller)
        array = submit(rest.controller, submission(elements="1-2"))
        run_job(rest.controller, job)
        kill(rest.controller, array)
        configure(rest, before)
        rest.keep_history()
        for gone in (job, array):
            del rest.replica.state.jobs[gone]
            del rest.controller.state.jobs[gone]
        assert (await rest.get(f"/jobs/{job}"))[0] == 200
        rest.be(ASKER)
        for path in ("", "/why", "/output", "/script", "/wait"):
            status, document = await rest.get(f"/jobs/{job}{path}")
            assert (status, document["detail"]) == (404, f"no job has the id {job}")
        _, document = await rest.get("/jobs", ids=f"{job},{array}[1]")
        assert (document["jobs"], document["missing"]) == ([], [str(job), f"{array}[1]"])
        _, document = await rest.get("/arrays", ids=str(array))
        assert document["missing"] == [str(array)]
        _, document = await rest.post(
            "/jobs/actions", {"action": "kill", "select": {"jobs": [str(job)]}}
        )
        assert document["results"][0]["error"]["code"] == "unknown-job"
        _, document = await rest.post("/jobs", {"command": "true", "dependency": f"done({job})"})
        assert document["code"] == "dependency-unknown-job"

    run_rest(story, everyone=("queue:submit",))


def test_a_dependency_on_a_hidden_job_is_one_on_no_job():
    async def story(rest):
        job, _ = await prepared(rest, OWNER)
        rest.be(ASKER)
        answers = []
        for ident in (job, 999_999):
            status, document = await rest.post(
                "/jobs", {"command": "true", "dependency": f"done({ident})"}
            )
            answers.append((status, document["code"], document["lsf"]))
        assert answers == [(422, "dependency-unknown-job", "No matching job found")] * 2

    run_rest(story, everyone=("queue:submit",))


def test_results_stand_in_the_order_of_the_names():
    async def story(rest):
        rest.be(OWNER)
        theirs = await rest.submit()
        rest.be(ASKER)
        mine = await rest.submit(array="1-9")
        _, document = await rest.post(
            "/jobs/actions",
            {
                "action": "kill",
                "select": {"jobs": [f"{mine}[2,4]", "x", str(theirs), f"{mine}[3]", "77"]},
            },
        )
        assert [item["job"] for item in document["results"]] == [
            f"{mine}[2]", f"{mine}[4]", "x", str(theirs), f"{mine}[3]", "77",
        ]  # fmt: skip

    run_rest(story)


def test_the_controller_decides_again_with_the_configuration_that_holds_then():
    async def story(rest):
        rest.be(OWNER)
        job = await rest.submit()
        rest.be(ASKER)
        rest.link.holds_entries = True
        config = msgspec.structs.replace(rest.controller.state.config, grants=())
        rest.controller.tell(ApplyConfig("root", config, is_admin=True), by="root")
        ask = rest.link.ask

        async def without_waiting(*args, **kwargs):
            answer = await ask(*args, **kwargs)
            rest.link.pump()
            return answer

        rest.link.ask = without_waiting
        _, document = await rest.post(
            "/jobs/actions", {"action": "kill", "select": {"jobs": [str(job)]}}
        )
        # The apiserver's replica still had the grant.
        assert rest.link.asked[-1][0].by == ASKER
        assert document["results"][0]["error"]["permission"] == "job:kill"

    run_rest(story, grants=(GrantConfig(role="operator", users=(ASKER,)),))


def test_an_entry_says_on_what_ground_it_was_allowed_and_from_where():
    async def story(rest):
        rest.be(OWNER)
        job, other = await rest.submit(), await rest.submit()
        rest.be(ASKER)
        mine = await rest.submit()
        await rest.post(
            "/jobs/actions", {"action": "kill", "select": {"jobs": [str(job), str(mine)]}}
        )
        cause = rest.controller.entries[-1].cause
        assert (cause.by, cause.basis, cause.origin) == (ASKER, "owner, role operator", "local")
        rest.be("root", is_admin=True)
        await rest.post("/jobs/actions", {"action": "kill", "select": {"jobs": [str(other)]}})
        assert rest.controller.entries[-1].cause.basis == "admin"

    run_rest(story, grants=(GrantConfig(role="operator", users=(ASKER,)),))


def test_one_who_asks_about_somebody_is_told_yes_or_no_and_why():
    async def story(rest):
        rest.be(OWNER)
        job = await rest.submit()

        async def asked(**query):
            status, document = await rest.get("/rbac", **query)
            assert status == 200, document
            return document["allowed"], document["why"]

        assert await asked(permission="job:kill", object=f"job:{job}") == (
            True,
            "it is his own job",
        )
        assert await asked(permission="queue:submit", object="queue:normal") == (
            True, "everyone has queue:submit",
        )  # fmt: skip
        assert await asked(permission="host:close") == (
            False, "neither everyone nor any role that he has here has host:close",
        )  # fmt: skip
        rest.be("ops1", groups=("ops",))
        assert (await asked(permission="host:close"))[0]
        assert await asked(user="root", permission="host:open") == (
            True, "he is root, or runs the cluster",
        )  # fmt: skip
        for query in (
            {"permission": "job:dance"},
            {"permission": "job:kill", "object": "queue:nowhere"},
            {"permission": "job:kill", "object": "thing:1"},
            {"permission": "job:kill", "object": "job:77777"},
        ):
            status, _ = await rest.get("/rbac", **query)
            assert status in (400, 404, 422), query

    run_rest(story, grants=(GrantConfig(role="operator", groups=("ops",)),))
