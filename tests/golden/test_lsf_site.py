"""What the commands about hosts, queues, users and parameters print, against kept texts."""

from pathlib import Path

import pytest
from command_text import transcript
from golden_text import check_golden
from job_rows import make_host, make_queue, utc  # noqa: F401 - a fixture

from xce.cli.lsf import (
    absent,
    badmin,
    bapp,
    bhosts,
    bmgroup,
    bparams,
    bqueues,
    bresources,
    bugroup,
    busers,
    lsadmin,
    lsclusters,
    lshosts,
    lsinfo,
    lsload,
)
from xce.config.lsf_parameters import lsf_parameters, view_files
from xce.model.config import ClusterConfig
from xce.resreq.schema import MEASURED, NUMBERS, STATIC, STRINGS

FOLDER = Path(__file__).parent / "lsf"
pytestmark = pytest.mark.usefixtures("utc")

HOSTS = [
    make_host(
        attributes={
            "type": "X86_64",
            "model": "Xeon",
            "fast_io": True,
            "weight": 2500,
            "nprocs": 2_000,
            "ncores": 16_000,
            "nthreads": 32_000,
            "ndisks": 3_000,
            "maxswp": 0,
            "maxtmp": 500_000_000,
        },
        load={
            "r15s": 0.25,
            "r1m": 4.0,
            "r15m": 12.04,
            "ut": 0.255,
            "pg": 0,
            "io": 1234.5,
            "ls": 3,
            "it": 12,
            "tmp": 20_480,
            "swp": 0,
            "mem": 30_000,
        },
    ),
    make_host(
        name="a-host-with-a-very-long-name.example.org",
        status="closed_Excl",
        mem_mib=2_000_000,
        attributes={"tier": "größe", "slow": False},
        counters={"scratch": [900, 300]},
    ),
    make_host(name="down", status="unavail", cpus=0, mem_mib=0, mem_used_mib=0),
    make_host(name="h4", status="closed_Adm", comment="new disks", counters={"scratch": [100, 0]}),
]
QUEUES = [
    make_queue(user_shares=[["chip", 10], ["default", 1]], policies=["FAIRSHARE"]),
    make_queue(
        name="night",
        priority=50,
        users=["ann"],
        hosts=["h4"],
        comment="moving",
        run_limit_s=3600,
        requeue_exit_values="all ~1 EXCLUDE(9)",
        success_exit_values="3",
        max_requeues=5,
        rerunnable=True,
    ),
    make_queue(name="a_queue_with_a_long_name", priority=1, open=False, njobs=1_000_000),
]
APPS = [
    {
        "name": "fluid", "description": "flow around things", "is_default": True, "njobs": 12,
        "pend": 4, "run": 6, "ssusp": 1, "ususp": 1, "rsv": 0, "resreq": "select[big]",
        "run_limit_s": 1800.0, "estimate_s": 300.0, "mem_limit_mib": 512, "tasks_min": 2,
        "tasks_max": 8, "rerunnable": True, "requeue_exit_values": "7 EXCLUDE(9)",
        "success_exit_values": "3", "max_requeues": 2, "self_fence": False,
    },
    {
        "name": "an_application_with_a_long_name", "description": "", "is_default": False,
        **dict.fromkeys(("njobs", "pend", "run", "ssusp", "ususp", "rsv"), 0), "rerunnable": None,
    },
]  # fmt: skip
GROUPS = [
    {
        "name": "chip",
        "kind": "users",
        "members": ["ann", "lab/"],
        "shares": [["ann", 3], ["lab", 1]],
        "queue": "normal",
    },
    {
        "name": "lab",
        "kind": "users",
        "members": ["bob", "eve"],
        "shares": [["bob", 1], ["eve", 1]],
        "queue": "normal",
    },
    {"name": "sw1", "kind": "switch", "members": ["hosta", "down"], "shares": [], "queue": ""},
]
USERS = [
    {"name": "alice", "njobs": 12, "pend": 4, "run": 8, "ssusp": 0, "ususp": 0, "rsv": 0},
    {
        "name": "a_very_long_user_name",
        "njobs": 1_000_000,
        "pend": 1_000_000,
        "run": 0,
        "ssusp": 0,
        "ususp": 0,
        "rsv": 0,
    },
]
CLUSTER = {
    "cluster": "lab", "controller_host": "h1.example.org", "version": "0.1.0", "seq": 17,
    "resources": [
        {"name": "scratch", "kind": "counter", "unit": "GB", "description": "local disk"},
        {"name": "tier", "kind": "string", "unit": "", "description": ""},
        {"name": "fast_io", "kind": "boolean", "unit": "", "description": "an SSD"},
    ],
    "pools": ["lic"],
}  # fmt: skip
PARAMETERS = [
    {"name": p.name, "value": p.value, "file": p.file, "text": p.text}
    for p in lsf_parameters(ClusterConfig(), view_dir="/v", version="1.2.3")
]
ROUTES = {
    "GET /hosts": {"hosts": HOSTS},
    "GET /queues": {"queues": QUEUES},
    "GET /apps": {"apps": APPS},
    "GET /groups": {"groups": GROUPS},
    "GET /users": {"users": USERS},
    "GET /pools": {"pools": [{"name": "lic", "total": 10, "used": 3}]},
    "GET /cluster": CLUSTER,
    "GET /parameters": {"parameters": PARAMETERS},
}
EMPTY = {
    "GET /hosts": {"hosts": []},
    "GET /apps": {"apps": []},
    "GET /groups": {"groups": []},
    "GET /users": {"users": []},
    "GET /pools": {"pools": []},
    "GET /queues": {"queues": []},
}
LISTINGS = {
    "bapp": (bapp, [[], ["-w"], ["-l"], ["fluid", "nosuch"], ["-l", "nosuch"]]),
    "bhosts-more": (
        bhosts,
        [
            ["-noheader"],
            ["-a", "-e", "-X", "-alloc"],
            ["-json"],
            ["-s"],
            ["-s", "lic", "nosuch"],
            ["-o", "host_name:-12 status: max njobs available_mem total_mem comments"],
            ["-o", "hname status delimiter=';'", "h4"],
            ["-json", "-o", "host_name comments", "h4"],
            ["-o", "nosuch"],
            ["-o", "max", "-l"],
            ["-aff"],
            ["-x"],
            ["-gpu"],
            ["-rc"],
        ],
    ),
    "bqueues-more": (
        bqueues,
        [
            ["-noheader"],
            ["-u", "bob"],
            ["-u", "all"],
            ["-m", "hosta"],
            ["-r", "normal"],
            ["-json", "-o", "queue_name status max_runlimit users"],
            ["-json"],
            ["-o", "qname:20 prio:-4 stat pend run delimiter='^'"],
            ["-l", "night"],
            ["-json", "-noheader"],
            ["-alloc", "night"],
        ],
    ),
    "busers": (
        busers,
        [
            ["all"],
            ["-w", "all"],
            ["alice", "nobody"],
            ["-json", "-o", "user pend run", "all"],
            ["-noheader", "alice"],
        ],
    ),
    "bgroups": (bugroup, [[], ["-l"], ["-r"], ["chip"], ["nosuch"], ["lab", "nosuch"]]),
    "bmgroup": (bmgroup, [[], ["-l"], ["-cu"], ["sw1/"], ["nosuch"]]),
    "bresources": (bresources, [["-s"], ["-s", "lic"], ["-s", "nosuch"], [], ["-g"]]),
    "bparams": (bparams, [[], ["-a"], ["-l"], ["-a", "-l"], ["x"]]),
    "lsclusters": (lsclusters, [[], ["-w"], ["-l"], ["lab"], ["other"]]),
    "lsinfo": (
        lsinfo,
        [[], ["-r"], ["-t"], ["-m"], ["scratch", "nosuch"], ["-l", "mem", "r1m", "lic"]],
    ),
    "lshosts": (lshosts, [[], ["-w"], ["-l", "hosta"], ["h4", "nosuch"], ["-T"], ["-s"]]),
    "lsload": (
        lsload,
        [
            [],
            ["-l"],
            ["-w"],
            ["-I", "mem:ut"],
            ["-I", "nosuch"],
            ["h4", "x"],
            ["-E"],
            ["-N", "h4"],
            ["-o"],
        ],
    ),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_listings_of_the_site_are_as_kept(name):
    module, lines = LISTINGS[name]
    texts = [transcript(module, words, ROUTES) for words in lines]
    if module not in (bparams, lsclusters):
        empty = {bresources: ["-s"], busers: ["all"]}.get(module, [])
        texts.append(transcript(module, empty, {**EMPTY, "GET /cluster": CLUSTER}))
    check_golden(FOLDER / f"{name}.txt", "".join(texts))


def test_subcommands_of_badmin_and_lsadmin_are_as_kept(monkeypatch):
    monkeypatch.setattr("xce.cli.lsf.badmin.time.time", lambda: 1_720_085_460.25)
    queues = {
        "results": [
            {"queue": "normal", "text": "closed"},
            {"queue": "x", "error": {"lsf": "x: No such queue", "text": "t"}},
        ]
    }
    hosts = {
        "results": [
            {"host": "h1", "text": "closed"},
            {"host": "x", "error": {"lsf": "", "text": "no host is called 'x'"}},
        ]
    }
    applied = {"seq": 1, "text": "applied", "new_hosts": ["h7"]}
    routes = {
        **ROUTES,
        "POST /queues/actions": queues,
        "POST /hosts/actions": hosts,
        "POST /config/actions": applied,
    }
    wrong = {"code": "bad-config", "detail": "queues.yaml:1: is wrong\nhosts.yaml:2: is wrong, too"}
    refusing = {"POST /config/actions": (422, {}, wrong)}
    lines = [
        (badmin, words)
        for words in (
            ["qclose", "-C", "moving", "normal", "x"],
            ["qopen", "all"],
            ["qact", "normal"],
            ["qinact", "normal"],
            ["hclose", "-C", "why", "h1", "x"],
            ["hopen", "all"],
            ["qclose"],
            ["hopen"],
            ["reconfig"],
            ["hhist"],
            ["mbddebug"],
            ["nosuch"],
            [],
            ["showconf", "mbd"],
            ["showconf", "sbd"],
            ["showstatus"],
            ["-i", "x", "hclose", "h1"],
            ["showstatus", "-C", "x"],
        )
    ] + [
        (lsadmin, words)
        for words in (
            ["showconf", "lim"],
            ["showconf", "lim", "nosuch"],
            ["limlock"],
            ["x"],
            [],
            ["showconf"],
        )
    ]
    text = "".join(transcript(module, words, routes) for module, words in lines)
    text += transcript(badmin, ["reconfig"], refusing)
    check_golden(FOLDER / "badmin.txt", text)


def test_the_files_for_readers_of_lsf_say_what_the_commands_say():
    config = ClusterConfig(cluster_name="lab")
    files = view_files(config, view_dir="/v", version="1.2.3")
    check_golden(FOLDER / "view-lsf.conf.txt", files["conf/lsf.conf"])
    check_golden(FOLDER / "view-lsb.params.txt", files["conf/lsbatch/lab/configdir/lsb.params"])
    classic = ClusterConfig(lsf_unit_for_limits="classic", orphan_grace_us=-1)
    names = {p.name for p in lsf_parameters(classic)}
    assert not names & {"LSF_UNIT_FOR_LIMITS", "ORPHAN_JOB_TERM_GRACE_PERIOD", "LSF_CONFDIR"}


def test_lsinfo_names_what_select_takes_on_every_host():
    known = {name for name, *_ in lsinfo.BUILT_IN}
    assert {*NUMBERS, *MEASURED, *STATIC, *STRINGS, "server"} <= known


@pytest.mark.parametrize("name", sorted(absent.ABSENT))
def test_a_command_that_is_absent_says_what_to_use_instead(name, capfd, monkeypatch):
    monkeypatch.setattr("sys.argv", [f"/x/{name}", "-z", "12"])
    monkeypatch.setattr("os._exit", exit_with)
    with pytest.raises(SystemExit) as caught:
        absent.main()
    assert caught.value.code == 255
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"{name}: this command of LSF is not in XCE; ")


def exit_with(status):
    raise SystemExit(status)
