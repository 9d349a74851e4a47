from rest_cluster import run_rest

from xce.model.config import AppConfig, HostConfig, QueueConfig, ShareConfig
from xce.model.job import Owner
from xce.model.load import INDICES, UNKNOWN
from xce.model.observation import LoadSeen
from xce.testing.builders import place, report_started, submission, submit


def test_users_are_counted_in_slots():
    async def story(rest):
        for tasks in (1, 2):
            job = submit(rest.controller, submission(tasks=tasks))
        submit(rest.controller, submission(), owner=Owner("bob", 1002, 1002))
        place(rest.controller, 1)
        report_started(rest.controller, 1)
        assert job == 2
        rest.link.pump()
        _, document = await rest.get("/users")
        assert document["users"] == [
            {"name": "alice", "njobs": 3, "pend": 2, "run": 1, "ssusp": 0, "ususp": 0, "rsv": 0},
            {"name": "bob", "njobs": 1, "pend": 1, "run": 0, "ssusp": 0, "ususp": 0, "rsv": 0},
        ]

    run_rest(story)


def test_parameters_groups_and_pools_are_told():
    lab = ShareConfig(name="lab", shares=1, members=(ShareConfig(name="bob"),))
    tree = (ShareConfig(name="chip", shares=2, members=(ShareConfig(name="ann"), lab)),)
    hosts = [HostConfig(name="h1", labels={"switch": "s1"}), HostConfig(name="h2")]
    queue = QueueConfig(name="normal", default=True, fairshare=tree)

    async def story(rest):
        _, document = await rest.get("/parameters")
        values = {item["name"]: item["value"] for item in document["parameters"]}
        assert values["DEFAULT_QUEUE"] == "normal"
        _, document = await rest.get("/groups")
        assert [(g["name"], g["kind"], g["members"]) for g in document["groups"]] == [
            ("chip", "users", ["ann", "lab/"]),
            ("lab", "users", ["bob"]),
            ("s1", "switch", ["h1"]),
        ]
        _, document = await rest.get("/pools")
        assert document["pools"] == [{"name": "lic", "total": 4, "used": 0}]

    run_rest(story, hosts=hosts, queues=[queue], pools={"lic": 4})


def test_profiles_are_told_with_what_they_leave_to_the_cluster_and_the_queue():
    apps = [AppConfig(name="plain"), AppConfig(name="safe", self_fence=True, rerunnable=False)]

    async def story(rest):
        _, document = await rest.get("/apps")
        told = {app["name"]: (app["self_fence"], app["rerunnable"]) for app in document["apps"]}
        assert told == {"plain": (None, None), "safe": (True, False)}

    run_rest(story, applications=apps)


def test_hosts_tell_their_load_and_are_selected_by_it():
    async def story(rest):
        seen = {"r1m": 2_500, "ut": 250, "mem": 100_000}
        sample = tuple(seen.get(name, UNKNOWN) for name in INDICES)
        rest.controller.tell(LoadSeen(("h1",), (sample,)))
        rest.link.pump()
        _, document = await rest.get("/hosts")
        load = {host["name"]: host["load"] for host in document["hosts"]}
        assert load == {"h1": {"r1m": 2.5, "ut": 0.25, "mem": 100.0}, "h2": {}}
        for text, names in (("r1m%3E2", ["h1"]), ("!defined(r1m)", ["h2"]), ("mem%3E100", ["h2"])):
            _, document = await rest.get(f"/hosts?select={text}")
            assert [host["name"] for host in document["hosts"]] == names

    run_rest(story, hosts=[HostConfig(name="h1"), HostConfig(name="h2")])


def test_a_select_expression_takes_hosts():
    async def story(rest):
        _, document = await rest.get("/hosts?select=hname%3D%3Dh1")
        assert [host["name"] for host in document["hosts"]] == ["h1"]
        _, document = await rest.get("/hosts?select=slots%3E100000")
        assert document["hosts"] == []
        status, document = await rest.get("/hosts?select=nosuch%3E1")
        assert (status, document["code"]) == (422, "bad-resreq")

    run_rest(story)
