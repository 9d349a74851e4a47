"""What the LSF commands print, against kept texts. ``XCE_GOLDEN=write`` writes them anew."""

from pathlib import Path

import pytest
from command_text import transcript
from fake_api import run_command
from golden_text import check_golden
from job_rows import (
    AT,
    NOW,
    ended,
    hard_rows,
    make_host,
    make_host_reason,
    make_pending,
    make_queue,
    make_reason,
    make_row,
    make_usage,
    running,
    utc,  # noqa: F401 - a fixture
)

from xce.cli.lsf import bhosts, bjobs, bqueues, lsid

FOLDER = Path(__file__).parent / "lsf"
pytestmark = pytest.mark.usefixtures("utc")


def jobs(*rows, missing=()):
    answer = {"seq": 9, "now": NOW, "jobs": list(rows), "missing": list(missing), "next": None}
    return {"GET /jobs": answer}


TABLES = [
    ("bjobs", []),
    ("bjobs-a", ["-a"]),
    ("bjobs-noheader", ["-noheader"]),
    ("bjobs-w", ["-w"]),
    ("bjobs-W-w", ["-a", "-w", "-W"]),
    ("bjobs-s", ["-s"]),
    ("bjobs-pr", ["-p", "-r"]),
    (
        "bjobs-o",
        ["-o", "jobid jobindex stat user queue job_name exec_host slots exit_code exit_reason"],
    ),
    ("bjobs-o-widths", ["-o", "id:6 name:10 name:-14 stat: queue:-"]),
    ("bjobs-o-delimiter", ["-o", "id stat exit_reason exec_host name delimiter='|'"]),
    ("bjobs-o-all", ["-o", "all delimiter=';'"]),
    ("bjobs-json", ["-json"]),
    (
        "bjobs-json-o",
        ["-json", "-o", "id STAT exit_code Exit_Reason kill_reason job_name", "1", "99"],
    ),
    ("bjobs-WF", ["-a", "-WF"]),
    ("bjobs-WL", ["-WL"]),
    ("bjobs-WP", ["-WP", "-noheader"]),
    ("bjobs-sum", ["-sum", "-u", "all"]),
    ("bjobs-l", ["-l"]),
    ("bjobs-UF", ["-UF"]),
]


@pytest.mark.parametrize(("name", "words"), TABLES, ids=[name for name, _ in TABLES])
def test_every_listing_of_hard_jobs_is_as_kept(name, words):
    missing = ["99"] if "99" in words else []
    text = transcript(bjobs, words, jobs(*hard_rows(), missing=missing))
    check_golden(FOLDER / f"{name}.txt", text)


def test_pending_jobs_are_listed_with_their_reasons_and_no_host():
    rows = [
        make_row(
            reason=make_reason(
                "Not enough job slot(s): 12 hosts", "Closed by LSF administrator: 1 host"
            )
        ),
        make_row(jobid=1235, stat="PSUSP", name="a_long_job_name"),
        make_row(jobid=1236, index=1, count=2, name="arr", array="1-2"),
    ]
    text = transcript(bjobs, ["-p"], jobs(*rows)) + transcript(bjobs, ["-wp"], jobs(*rows))
    check_golden(FOLDER / "bjobs-p.txt", text)


BUSY = "Not enough job slot(s)"
CLOSED = "Closed by LSF administrator"
UNFIT = "Job's resource requirements not satisfied"


def waiting():
    """Return jobs that pend for reasons of all kinds."""
    spanning = "Not enough processors to meet the job's spanning requirement"
    held = make_reason("The job was suspended by the user while pending", code="held")
    parts = [
        make_host_reason("slots-busy", 4, BUSY, candidate=True, role="part 1"),
        make_host_reason("select", 3, UNFIT, candidate=False, role="part 2"),
    ]
    lines = ["Not enough hosts to meet the job's compound resource requirement"]
    lines += [f"{BUSY}: 4 hosts", f"{UNFIT}: 3 hosts"]
    return [
        make_pending(
            1,
            ("closed", 1, CLOSED, False),
            ("slots-busy", 1, BUSY, True),
            ("select", 2, UNFIT, False),
            ("too-small", 1, UNFIT, False),
        ),
        make_pending(2, ("slots-busy", 3, BUSY, True), main=(spanning,)),
        make_pending(3, ("closed", 5, CLOSED, False), index=1, count=2, name="arr", array="1-2"),
        make_row(jobid=4, stat="PSUSP", reason=held),
        make_row(jobid=5, reason=make_reason(*lines, code="parts", parts=parts)),
        make_row(
            jobid=6, reason=make_reason("The job has a specified start time", code="begin-time")
        ),
        running(jobid=7),
    ]


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("bjobs-p1", [["-p1"]]),
        ("bjobs-p2", [["-p2"], ["-p2", "-w", "2"], ["-p2", "-o", "jobid pend_reason"]]),
        ("bjobs-p3", [["-p3"], ["-p3", "-UF", "1"], ["-p3", "-l", "1"]]),
        ("bjobs-pe", [["-pe"], ["-pi"], ["-pi", "-o", "jobid stat"], ["-pe", "-sum"]]),
        ("bjobs-pei", [["-pei"], ["-pei", "-p1", "-w"], ["-pei", "-json"], ["-pei", "-r"]]),
        ("bjobs-psum-levels", [["-psum", level] for level in ("-p1", "-p2", "-p3", "-pe", "-pi")]),
    ],
)
def test_pending_jobs_are_told_apart_as_lsf_does(name, forms):
    def listed(request):
        rows = [row for row in waiting() if str(row["jobid"]) in request.query.get("ids", "123456")]
        return jobs(*rows)["GET /jobs"]

    routes = {"GET /cluster": {"cluster": "test", "hosts": 5}, "GET /jobs": listed}
    check_golden(FOLDER / f"{name}.txt", "".join(transcript(bjobs, one, routes) for one in forms))


def test_the_reasons_of_pending_jobs_are_summed_up():
    busy = "Not enough job slot(s): 12 hosts"
    rows = [
        make_row(reason=make_reason(busy, "Closed by LSF administrator: 1 host")),
        make_row(jobid=1235, index=1, count=3, name="arr", reason=make_reason(busy)),
        make_row(
            jobid=1236,
            stat="PSUSP",
            reason=make_reason("The job was suspended by the user while pending", code="held"),
        ),
        make_row(
            jobid=1237,
            index=5,
            count=2,
            reason=make_reason("The job array has reached its running element limit"),
        ),
        running(jobid=1238),
    ]
    routes = {**jobs(*rows), "GET /cluster": {"cluster": "test"}}
    text = (
        transcript(bjobs, ["-psum"], routes)
        + transcript(bjobs, ["-psum", "-u", "all", "1238"], {**routes, **jobs(rows[-1])})
        + transcript(bjobs, ["-psum", "-l"], routes)
    )
    check_golden(FOLDER / "bjobs-psum.txt", text)


def test_the_variables_of_the_environment_change_the_listings():
    rows = [running(hosts=[["n1", 2], ["n2", 1]], run_limit_s=7200), make_row(jobid=1234567890)]
    texts = [
        transcript(bjobs, ["-w"], jobs(*rows), {"LSB_SHORT_HOSTLIST": "1"}),
        transcript(bjobs, [], jobs(*rows), {"LSB_JOBID_DISP_LENGTH": "10"}),
        transcript(bjobs, [], jobs(*rows), {"LSB_BJOBS_FORMAT": "jobid stat"}),
        transcript(bjobs, ["-w"], jobs(*rows), {"LSB_BJOBS_FORMAT": "jobid stat"}),
        transcript(bjobs, ["-l"], jobs(rows[0]), {"LSB_DISPLAY_YEAR": "Y"}),
        transcript(
            bjobs,
            ["-o", "run_time cpu_used runtimelimit finish_time time_left %complete"],
            jobs(rows[0]),
            {"LSB_HMS_TIME_FORMAT": "Y"},
        ),
        transcript(
            bjobs,
            ["-o", "max_mem max_mem:10:G"],
            jobs(ended(max_mem_mib=5325)),
            {"LSB_UNIT_FOR_JOBS_DISPLAY": "M"},
        ),
    ]
    check_golden(FOLDER / "bjobs-environment.txt", "".join(texts))


def test_the_long_form_says_everything_that_was_asked_for():
    asked = {
        "named": True,
        "name": "a job, with <brackets>",
        "priority": 50,
        "tasks_min": 2,
        "tasks_max": 8,
        "run_limit_s": 28_800,
        "estimate_s": 90,
        "mem_limit_kib": 4 * 1024 * 1024,
        "resreq_asked": "rusage[mem=100] span[hosts=1]",
        "resreq": "select[type == local] order[r15s:pg] rusage[mem=100.00] span[hosts=1]",
        "dependency": 'done(1) && ended("a b")',
        "hosts_asked": "n1 n2+9",
        "exclusive": True,
        "cwd_given": "/home/alice/work/%J",
        "input": "in.txt",
        "output": "out.%J",
        "error": "err",
        "error_append": False,
        "begin_at": AT + 86_400,
        "deadline_at": AT + 2 * 86_400,
        "command": "./run " + "x" * 200,
    }
    rows = [
        make_row(**asked, reason=make_reason("The job has a specified start time")),
        running(
            **asked,
            index=7,
            array="1-9",
            hosts=[[f"host{n}", n + 1] for n in range(10)],
            usage=make_usage(
                mem_mib=5324.8,
                max_mem_mib=5325.1,
                swap_mib=32.0,
                threads=130,
                pids=list(range(6395, 6425)),
                unknown=["host3", "host9"],
            ),
        ),
        ended(
            "EXIT",
            **asked,
            exit_code=3,
            cause="TERM_RUNLIMIT",
            detail="the output was kept",
            cause_text="TERM_RUNLIMIT: job killed after reaching LSF run time limit",
        ),
    ]
    check_golden(FOLDER / "bjobs-l-full.txt", transcript(bjobs, ["-l"], jobs(*rows)))
    check_golden(FOLDER / "bjobs-UF-full.txt", transcript(bjobs, ["-UF"], jobs(*rows)))


NOTHING = [
    ([], {}),
    (["-p"], {}),
    (["-r"], {}),
    (["-s"], {}),
    (["-a"], {}),
    (["-d"], {}),
    (["-p", "-r"], {}),
    (["-l"], {}),
    (["-w"], {}),
    (["-o", "jobid"], {}),
    (["-json", "-o", "jobid"], {}),
]


def test_nothing_to_show_is_said_on_stderr_only():
    texts = [transcript(bjobs, words, jobs()) for words, _ in NOTHING]
    strict = {"LSB_BJOBS_CONSISTENT_EXIT_CODE": "Y"}
    texts += [transcript(bjobs, words, jobs(), strict) for words, _ in NOTHING[:6]]
    check_golden(FOLDER / "bjobs-nothing.txt", "".join(texts))


def test_unknown_jobs_are_told_on_stderr():
    texts = []
    for environ in ({}, {"LSB_BJOBS_CONSISTENT_EXIT_CODE": "Y"}):
        texts += [
            transcript(bjobs, ["99"], jobs(missing=["99"]), environ),
            transcript(
                bjobs, ["1234", "99", "12[7]"], jobs(ended(), missing=["99", "12[7]"]), environ
            ),
            transcript(bjobs, ["1234"], jobs(ended()), environ),
            transcript(bjobs, ["1234"], jobs(running()), environ),
            transcript(bjobs, ["-noheader", "-o", "stat", "99"], jobs(missing=["99"]), environ),
        ]
    check_golden(FOLDER / "bjobs-unknown.txt", "".join(texts))


def test_array_summaries_are_as_kept():
    counts = {
        "njobs": 0,
        "pend": 0,
        "done": 0,
        "run": 0,
        "exit": 0,
        "ssusp": 0,
        "ususp": 0,
        "psusp": 0,
    }
    arrays = [
        {
            **counts,
            "jobid": 456,
            "name": "arr",
            "array": "1-10",
            "array_limit": 0,
            "user": "alice",
            "njobs": 10,
            "pend": 9,
            "run": 1,
        },
        {
            **counts,
            "jobid": 1234567,
            "name": "a_long_name",
            "array": "1-10000000:2,15",
            "array_limit": 5,
            "user": "a_very_long_user",
            "njobs": 5_000_001,
            "done": 4_999_999,
            "exit": 2,
        },
    ]
    routes = {"GET /arrays": {"arrays": arrays, "missing": []}}
    texts = [
        transcript(bjobs, words, routes) for words in (["-A"], ["-A", "-w"], ["-A", "-noheader"])
    ]
    texts.append(transcript(bjobs, ["-A"], {"GET /arrays": {"arrays": [], "missing": []}}))
    texts.append(transcript(bjobs, ["-A", "9"], {"GET /arrays": {"arrays": [], "missing": ["9"]}}))
    texts.append(transcript(bjobs, ["-A", "9[1]"], routes))
    check_golden(FOLDER / "bjobs-A.txt", "".join(texts))


def test_hosts_are_listed_as_kept():
    hosts = [
        make_host(),
        make_host(
            name="a-host-with-a-very-long-name.example.org", status="closed_Full", njobs=16, run=16
        ),
        make_host(
            name="h3", status="closed_Adm", comment="disk is broken", counters={"lic_a": [10, 3]}
        ),
        make_host(name="h4", status="unavail", slots_max=None, mem_mib=None),
        make_host(name="h5", status="closed_Excl", slots_max=1000000, njobs=1000000, ususp=1000000),
    ]
    routes = {"GET /hosts": {"hosts": hosts}}
    texts = [
        transcript(bhosts, words, routes)
        for words in ([], ["-w"], ["-l"], ["h3", "hosta", "h3"], ["h3", "nosuch"], ["-json"])
    ]
    texts.append(transcript(bhosts, [], {"GET /hosts": {"hosts": []}}))
    check_golden(FOLDER / "bhosts.txt", "".join(texts))


def test_queues_are_listed_as_kept():
    queues = [
        make_queue(),
        make_queue(
            name="a_queue_with_a_long_name",
            priority=100,
            default=False,
            open=False,
            max=10,
            njobs=1000000,
            active=False,
        ),
        make_queue(
            name="short",
            priority=70,
            default=False,
            description="short jobs",
            run_limit_s=3600,
            default_run_limit_s=600,
            tasks_min=2,
            tasks_max=8,
            mem_limit_mib=4096,
            exclusive=True,
            users=["alice", "bob"],
            hosts=["h1", "h2"],
        ),
    ]
    routes = {"GET /queues": {"queues": queues}}
    texts = [
        transcript(bqueues, words, routes)
        for words in ([], ["-w"], ["-l"], ["normal"], ["normal", "nosuch"], ["-o", "x"])
    ]
    check_golden(FOLDER / "bqueues.txt", "".join(texts))
    group = {"name": "rack1", "kind": "rack", "members": ["h2", "h9"]}
    routes |= {
        "GET /hosts": {"hosts": [{"name": name} for name in ("h1", "h3")]},
        "GET /groups": {"groups": [group]},
    }
    for host, names in (("h1", "a n s"), ("h3", "a n"), ("rack1", "a n s"), ("all", "a n s")):
        status, out, _ = run_command(bqueues, ["-noheader", "-m", host], routes)
        assert (status, sorted(line[0] for line in out.splitlines())) == (0, names.split()), host
    status, out, err = run_command(bqueues, ["-m", "nosuch"], routes)
    assert (status, out) == (255, "")
    assert err == "nosuch: Bad host name, host group name or cluster name\n"


def test_lsid_names_the_cluster():
    cluster = {"cluster": "lab", "controller_host": "h1", "version": "0.1.0", "product_line": ""}
    product = "IBM Spectrum LSF Standard 10.1.0.0, Jan 1 2026"
    texts = [
        transcript(lsid, [], {"GET /cluster": cluster}),
        transcript(lsid, [], {"GET /cluster": {**cluster, "product_line": product}}),
        transcript(lsid, ["x"], {"GET /cluster": cluster}),
        transcript(lsid, ["-V"], {}),
    ]
    check_golden(FOLDER / "lsid.txt", "".join(texts))
