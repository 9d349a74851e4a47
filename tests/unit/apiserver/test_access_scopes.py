"""Grants that count in a queue, or in a project and all below it: in every face of a job."""

import asyncio
import json

import pytest
from rest_cluster import run_rest

from xce.model.config import GrantConfig, QueueConfig, RoleConfig
from xce.model.permission import EVERYONE
from xce.testing.builders import run_job

OWNER, ASKER = "alice", "bob"
NIGHT_AND_DAY = (QueueConfig(name="normal", default=True), QueueConfig(name="night"))
MEMBER = RoleConfig(name="member", permissions=("project:submit",))
PROJECTS = ("/chip", "/chip/soc7", "/chipper", "chip", "")
BELOW = {"/chip", "/chip/soc7"}


def test_a_role_counts_in_its_scope_only():
    grants = (
        GrantConfig(role="operator", users=(ASKER,), queue="night"),
        GrantConfig(role="operator", groups=("ops",), project="/chip"),
    )

    async def story(rest):
        rest.be(OWNER)
        jobs = {
            "day": await rest.submit(),
            "night": await rest.submit(queue="night"),
            "chip": await rest.submit(project="/chip/soc7"),
            "chipper": await rest.submit(project="/chipper"),
        }

        async def killed(user, **settings):
            rest.be(user, **settings)
            _, document = await rest.post(
                "/jobs/actions",
                {"action": "kill", "select": {"jobs": list(map(str, jobs.values()))}},
            )
            names = {str(job): name for name, job in jobs.items()}
            return {names[item["job"]] for item in document["results"] if "text" in item}

        assert await killed(ASKER) == {"night"}
        assert await killed("carol", groups=("ops",)) == {"chip"}
        assert await killed("dave", groups=("users",)) == set()

    run_rest(story, grants=grants, queues=NIGHT_AND_DAY)


async def submit_to_all(rest):
    """Return the owner's job of each project."""
    rest.be(OWNER)
    return {project: await rest.submit(project=project) for project in PROJECTS}


def test_lists_and_single_jobs_show_what_lies_in_the_scope():
    async def story(rest):
        jobs = await submit_to_all(rest)
        arrays = {name: await rest.submit(array="1-2", project=name) for name in PROJECTS}
        rest.be(ASKER)

        def named(document, member):
            found = {item["jobid"] for item in document[member]}
            both = {**{job: name for name, job in jobs.items()},
                    **{job: name for name, job in arrays.items()}}  # fmt: skip
            return {both[job] for job in found}

        assert named((await rest.get("/jobs", user="all"))[1], "jobs") == BELOW
        assert named((await rest.get("/arrays", user="all"))[1], "arrays") == BELOW
        by_id = ",".join(map(str, jobs.values()))
        _, document = await rest.get("/jobs", ids=by_id)
        assert named(document, "jobs") == BELOW
        assert document["missing"] == [str(jobs[name]) for name in PROJECTS if name not in BELOW]
        for name, job in jobs.items():
            for path in ("", "/why"):
                status, _ = await rest.get(f"/jobs/{job}{path}")
                assert status == (200 if name in BELOW else 404), name
            status, answer = await rest.get("/rbac", permission="job:view", object=f"job:{job}")
            assert (status, answer.get("allowed")) == (
                (200, True) if name in BELOW else (404, None)
            )

    grants = (GrantConfig(role="viewer", users=(ASKER,), project="/chip/"),)
    run_rest(story, everyone=("queue:submit",), grants=grants)


def test_histories_and_watches_tell_what_lies_in_the_scope():
    async def story(rest):
        jobs = await submit_to_all(rest)
        names = {job: name for name, job in jobs.items()}
        seq = rest.replica.seq
        for job in jobs.values():
            run_job(rest.controller, job)
        rest.link.pump()
        rest.keep_history()
        rest.be(ASKER)
        _, document = await rest.get("/history/jobs", user="all", scope="all", limit="1000")
        assert {names[item["jobid"]] for item in document["rows"]} == BELOW
        _, document = await rest.get("/history/sums", user="all")
        assert document["sums"]["done"] == len(BELOW)
        heard = set()
        url = "http://xce/xce/v1/watch"
        async with rest.session.get(url, params={"from_seq": str(seq)}) as answer:
            # His own job comes behind all that he may hear of.
            last = await rest.submit("true")
            while last not in heard:
                line = (await asyncio.wait_for(answer.content.readline(), 5)).decode()
                if line.startswith("data: "):
                    heard.add(json.loads(line[6:])["jobid"])
        assert {names[job] for job in heard - {last}} == BELOW

    grants = (GrantConfig(role="viewer", users=(ASKER,), project="/chip"),)
    run_rest(story, hosts={"h1": 100}, everyone=("queue:submit",), grants=grants)


def grant(project, *users):
    return GrantConfig(role="member", users=users, project=project)


def test_as_soon_as_a_role_names_project_submit_it_is_needed():
    async def story(rest):
        async def tried(user, project, **settings):
            rest.be(user, **settings)
            status, document = await rest.post("/jobs", {"command": "true", "project": project})
            _, planned = await rest.post("/plan", {"command": "true", "project": project})
            assert planned["accepted"] == (status == 201)
            if status != 201:
                assert (status, document["permission"]) == (403, "project:submit")
                assert document["lsf"] == "User permission denied"
                assert f"in project {project or 'default'}: " in document["detail"]
            return status == 201

        assert {name for name in PROJECTS if await tried(ASKER, name)} == BELOW
        assert {name for name in PROJECTS if await tried("carol", name)} == {"/chipper"}
        assert {name for name in PROJECTS if await tried("dave", name)} == set()
        assert {name for name in PROJECTS if await tried("root", name, is_admin=True)} == {
            *PROJECTS
        }
        rest.be(ASKER)
        ask = {"permission": "project:submit"}
        assert (await rest.get("/rbac", **ask, object="project:/chip/x"))[1]["allowed"]
        assert not (await rest.get("/rbac", **ask, object="project:/chipper"))[1]["allowed"]
        cause = [entry.cause for entry in rest.controller.entries if entry.cause.by == ASKER][-1]
        assert cause.basis == "everyone, role member"

    grants = (grant("/chip", ASKER), grant("/chipper", "carol"))
    run_rest(story, roles=(MEMBER,), grants=grants, everyone=EVERYONE)


def test_before_that_whoever_may_submit_may_name_any_project():
    async def story(rest):
        rest.be(ASKER)
        assert await rest.submit(project="/anything")
        query = {"permission": "project:submit", "object": "project:/anything"}
        assert (await rest.get("/rbac", **query))[1]["why"] == "everyone has project:submit"
        assert rest.controller.entries[-1].cause.basis == "everyone"

    run_rest(story)


@pytest.mark.parametrize(
    ("user", "change", "permission"),
    [
        (OWNER, {"project": "/chip/soc7"}, ""),
        (OWNER, {"project": "/chipper"}, "project:submit"),
        (OWNER, {"unset": ["project"]}, "project:submit"),
        (ASKER, {"project": "/chip/soc7"}, ""),
        (ASKER, {"project": "/chipper"}, "job:modify"),
        (ASKER, {"queue": "night"}, ""),
        ("carol", {"queue": "night"}, "job:modify"),
        ("carol", {"priority": 2}, ""),
    ],
)
def test_nobody_moves_a_job_out_of_where_he_may_act(user, change, permission):
    grants = (
        grant("/chip", OWNER),
        GrantConfig(role="operator", users=(ASKER,), project="/chip"),
        GrantConfig(role="operator", users=("carol",), queue="normal"),
    )

    async def story(rest):
        rest.be(OWNER)
        job = await rest.submit(project="/chip")
        rest.be(user)
        bodies = [{"action": "modify", "select": {"jobs": [str(job)]}, "change": change}]
        if "queue" in change:
            bodies.append({"action": "switch", "select": {"jobs": [str(job)]}, "to_queue": "night"})
        for body in bodies:
            _, document = await rest.post("/jobs/actions", body)
            (result,) = document["results"]
            assert result.get("error", {}).get("permission", "") == permission, result

    run_rest(story, roles=(MEMBER,), grants=grants, queues=NIGHT_AND_DAY)


def test_a_project_is_a_word_however_it_comes_to_a_job():
    async def story(rest):
        rest.be(OWNER)
        job = await rest.submit()
        body = {
            "action": "modify",
            "select": {"jobs": [str(job)]},
            "change": {"project": "a\x1b[2J"},
        }
        _, document = await rest.post("/jobs/actions", body)
        assert "may not hold '\\x1b'" in document["detail"]

    run_rest(story)
