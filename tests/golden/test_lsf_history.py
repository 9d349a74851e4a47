"""What ``bhist`` and ``bacct`` print, against kept texts."""

from pathlib import Path

import pytest
from command_text import transcript
from golden_text import check_golden
from job_rows import AT, NOW, ended, make_row, running, utc  # noqa: F401 - a fixture

from xce.cli.lsf import bacct, bhist

FOLDER = Path(__file__).parent / "lsf"
pytestmark = pytest.mark.usefixtures("utc")
SPANS = dict.fromkeys(("pend", "psusp", "run", "ususp", "ssusp", "unkwn"), 0.0)
LONG = {
    "named": True,
    "name": "größe-naïve-日本語-" + "x" * 90,
    "command": "./run --with " + "option " * 30,
    "resreq": "select[type == local] order[r15s:pg] rusage[mem=100.00]",
    "run_limit_s": 7200,
    "mem_limit_kib": 4 * 1024 * 1024,
    "output": "out.%J",
    "tasks_min": 20,
    "tasks_max": 20,
}


def step(at, what, **members):
    return {"at": AT + at, "what": what, **members}


TEN_HOSTS = [[f"host{n:02d}", 2] for n in range(10)]
EVERY_STEP = [
    step(0, "submitted", by="alice"),
    step(1, "held", by="alice"),
    step(2, "released", by="alice"),
    step(3, "moved", by="root"),
    step(4, "dispatched", hosts=[["n060", 1]], attempt=1),
    step(5, "start-failed", text="no such directory"),
    step(6, "dispatched", hosts=TEN_HOSTS, attempt=2),
    step(7, "started", hosts=TEN_HOSTS, attempt=2, pid=6395),
    step(8, "signaled", by="alice", signal=10),
    step(9, "stop-asked", by="root"),
    step(10, "suspended"),
    step(11, "resume-asked", by="root"),
    step(12, "resumed"),
    step(13, "system-stopped"),
    step(14, "system-resumed"),
    step(
        14.5, "over", hosts=TEN_HOSTS, attempt=2, exit_code=17, cpu_s=0.34, max_mem_mib=12.5,
        cause="TERM_REQUEUE_EXIT", cause_text="TERM_REQUEUE_EXIT: job requeued for its exit status",
    ),
    step(15, "requeued"),
    step(16, "dispatched", hosts=TEN_HOSTS, attempt=3),
    step(17, "started", hosts=TEN_HOSTS, attempt=3),
    step(
        18, "end-decided", by="alice", cause="TERM_OWNER",
        cause_text="TERM_OWNER: job killed by owner",
    ),
    step(65.5, "exited", hosts=TEN_HOSTS, attempt=3),
]  # fmt: skip
KILLED = {"cause": "TERM_OWNER", "cause_text": "TERM_OWNER: job killed by owner"}
ROWS = [
    ended(
        "EXIT", jobid=1240, **LONG, **KILLED, hosts=TEN_HOSTS, exit_code=130,
        spans={**SPANS, "pend": 5.9, "run": 60.5, "ususp": 2.0}, steps=EVERY_STEP,
    ),
    ended(
        jobid=1241, name="prep", spans={**SPANS, "pend": 5.0, "run": 60.5},
        steps=[
            step(0, "submitted"), step(5, "dispatched", hosts=[["n060", 1]]),
            step(5, "started", pid=77), step(65.5, "done"),
        ],
    ),
    running(jobid=1242, index=3, name="arr", array="1-9", spans={**SPANS, "run": 3595.0}, steps=[]),
    make_row(
        jobid=1242, index=4, count=3, name="arr", array="1-9", spans={**SPANS, "psusp": 1e7},
        steps=[step(0, "submitted")],
    ),
    make_row(
        jobid=1243, stat="EXIT", user="a_very_long_user", end_at=AT + 9, **KILLED,
        name="a_long_job_name", spans={**SPANS, "pend": 9.0},
        steps=[step(0, "submitted"), step(9, "withdrawn", by="alice", **KILLED)],
    ),
]  # fmt: skip
SUMS = {
    "done": 1, "exited": 1, "cpu_s": 4.2, "cpu_s_max": 2.1, "cpu_s_min": 2.1, "wait_s": 10.0,
    "wait_s_max": 5.0, "wait_s_min": 5.0, "turnaround_s": 131.0, "turnaround_s_max": 65.5,
    "turnaround_s_min": 65.5, "hog": 0.064, "hog_max": 0.032, "hog_min": 0.032, "expansion": 2.16,
    "expansion_max": 1.08, "expansion_min": 1.08, "run_s": 121.0, "run_s_max": 60.5,
    "run_s_min": 60.5, "ran": 2, "first_end_at": AT, "last_end_at": AT + 7200,
}  # fmt: skip
NO_SUMS = dict.fromkeys(SUMS, 0)


def answer(*rows, missing=()):
    return {"seq": 1, "now": NOW, "rows": list(rows), "missing": list(missing), "next": None}


def routes(*rows, missing=(), sums=SUMS):
    return {
        "GET /history/jobs": answer(*rows, missing=missing),
        "GET /history/usage": answer(*rows, missing=missing),
        "GET /history/sums": {"seq": 1, "sums": sums},
    }


def test_the_history_of_jobs_is_told_as_kept():
    texts = [
        transcript(bhist, words, routes(*ROWS))
        for words in (
            ["-a"], ["-a", "-w"], ["-la"], ["-a", "-UF"], ["-b", "-a"], ["-l", "-n2", "1241"],
            ["-t", "-a"], ["-t", "-T", "2024/07/04/09:31,2024/07/04/09:31", "-a"],
        )
    ]  # fmt: skip
    texts.append(transcript(bhist, ["-l", "1241"], routes(ROWS[1]), {"LSB_DISPLAY_YEAR": "Y"}))
    check_golden(FOLDER / "bhist.txt", "".join(texts))


def test_a_history_of_nothing_and_words_without_meaning():
    texts = [
        transcript(bhist, words, routes())
        for words in (
            [], ["-a"], ["-d"], ["-e"], ["-p"], ["-r"], ["-s"], ["-d", "-r"], ["-f", "x"], ["-N"],
            ["-app", "x"], ["-g", "/x"], ["-n", "x"], ["-T", "1,2"], ["-C", "x"], ["-C", "2,1"],
            ["-u", "a b"], ["12x"],
        )
    ]  # fmt: skip
    texts.append(transcript(bhist, ["99"], routes(missing=["99"])))
    texts.append(transcript(bhist, ["1241", "99"], routes(ROWS[1], missing=["99"])))
    check_golden(FOLDER / "bhist-nothing.txt", "".join(texts))


def test_accounts_are_told_as_kept():
    rows = [ROWS[0], ROWS[1], ROWS[4]]
    texts = [
        transcript(bacct, words, routes(*rows))
        for words in (
            ["-u", "alice"], ["-u", "all", "-l"], ["-u", "all", "-b"], ["-u", "all", "-UF", "-d"],
            ["-e", "-u", "bob", "-q", "night", "-m", "h1", "-P", "p", "-C", "2024/7/1,2024/8/1"],
            ["-l", "1241"], ["-E"], ["-f", "x"], ["-sla", "x"], ["-U", "x"], ["12[3]"],
            ["-l", "1240[3]"], ["1242[3]", "1241[1-2]"],
        )
    ]  # fmt: skip
    texts.append(transcript(bacct, ["-l", "99"], routes(missing=["99"], sums=NO_SUMS)))
    short = [{**ROWS[0], "exceptions": ["underrun"]}, ROWS[1]]
    texts.append(transcript(bacct, ["-x", "-b", "-u", "all"], routes(*short)))
    check_golden(FOLDER / "bacct.txt", "".join(texts))
