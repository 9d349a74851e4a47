"""Open OnDemand's LSF adapter: what it sends, and its way to read what comes, restated here.

It calls `bsub`, `bjobs`, `bstop`, `bresume` and `bkill`; success is exit status 0, else stderr is
the user's message. Lists are read by position, cell by cell.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from live import Live, open_live, until

HEADS = [
    "JOBID", "USER", "STAT", "QUEUE", "FROM_HOST", "EXEC_HOST", "JOB_NAME", "SUBMIT_TIME",
    "PROJ_NAME", "CPU_USED", "MEM", "SWAP", "PIDS", "START_TIME", "FINISH_TIME",
]  # fmt: skip
STATES = ("RUN", "PEND", "DONE", "EXIT", "PSUSP", "USUSP", "SSUSP", "WAIT", "ZOMBI", "UNKWN")
AT = re.compile(r"(?P<month>\d\d)/(?P<day>\d\d)-(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)")
CPU = re.compile(r"(\d+):(\d\d):(\d\d)\.(\d\d)")
Job = dict[str, Any]


def read_submitted(text: str) -> str | None:
    """Return the id: the adapter's pattern is greedy, so nothing with ``> `` may follow."""
    found = re.search(r"Job <(.*)> ", text)
    return found[1] if found else None


def read_jobs(text: str) -> list[Job]:
    """Return the jobs of a list, or fail as the adapter does."""
    lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
    lines = [line for line in lines if line.strip()]
    if not lines:
        return []
    heads = lines[0].split()
    assert heads[: len(HEADS)] == HEADS, heads
    assert len(lines) > 1, "a head without jobs is an error"
    return [read_job(line, len(heads)) for line in lines[1:]]


def read_job(line: str, width: int) -> Job:
    """Return one job: only the name may hold blanks, so it takes the words that are too many."""
    words = line.split()
    assert len(words) >= width, line
    surplus = len(words) - width
    place = HEADS.index("JOB_NAME")
    name = " ".join(words[place : place + surplus + 1])
    cells = [*words[:place], name, *words[place + surplus + 1 :]]
    job: Job = {
        head: None if cell == "-" else cell for head, cell in zip(HEADS, cells, strict=False)
    }
    element = re.search(r"\[(\d+)\]$", name)
    job["id"] = f"{job['JOBID']}[{element[1]}]" if element else job["JOBID"]
    assert job["STAT"] in STATES
    for head in ("SUBMIT_TIME", "START_TIME", "FINISH_TIME"):
        assert job[head] is None or AT.fullmatch(job[head]), line
    if job["CPU_USED"] is not None:
        assert CPU.fullmatch(job["CPU_USED"]), line
    return job


def hosts_of(text: str | None) -> dict[str, int]:
    """Return the slots on each host: ``host``, ``4*host1:8*host2`` or ``host:host``."""
    found: dict[str, int] = {}
    for item in (text or "").split(":") if text else []:
        count, _, name = item.rpartition("*")
        found[name] = found.get(name, 0) + int(count or 1)
    return found


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with open_live() as cluster:
        cluster.xce("up", "--hosts", "n1,n2", "--slots", "4")
        yield cluster


def submit(live: Live, script: str, *words: str) -> str:
    found = read_submitted(live.run("bsub", *words, stdin=script).stdout)
    assert found is not None
    assert found.isdigit()
    return found


def info(live: Live, job: str) -> Job:
    (found,) = read_jobs(live.run("bjobs", "-a", "-w", "-W", job).stdout)
    return found


@pytest.mark.parametrize("name", ["plain", "two  words", "a>b", "x> y", "x]y", "q(1)=2,3:/"])
def test_a_job_goes_through_its_life_under_any_name(live: Live, name: str) -> None:
    words = ["-P", "science", "-cwd", str(live.home), "-J", name, "-q", "normal", "-n", "2"]
    words += ["-W", "5", "-env", "all,GREETING", "-o", "out.%J", "-e", "err.%J"]
    job = submit(live, "#!/bin/bash\nsleep 300\n", *words)
    until(lambda: info(live, job)["STAT"] == "RUN", "it runs")
    found = info(live, job)
    assert found["JOB_NAME"] == " ".join(name.split())
    assert (found["PROJ_NAME"], found["QUEUE"]) == ("science", "normal")
    assert sum(hosts_of(found["EXEC_HOST"]).values()) == 2
    assert found["START_TIME"] is not None
    live.run("bstop", job)
    until(lambda: info(live, job)["STAT"] == "USUSP", "it is stopped")
    live.run("bresume", job)
    until(lambda: info(live, job)["STAT"] == "RUN", "it goes on")
    live.run("bkill", job)
    until(lambda: info(live, job)["STAT"] == "EXIT", "it is over")
    assert info(live, job)["FINISH_TIME"] is not None


def test_a_held_job_is_released_by_who_names_the_cluster_first(live: Live) -> None:
    cluster = ("-m", "xce")  # what the adapter says where its file has `cluster: xce`
    job = submit(live, "true\n", *cluster, "-H")
    (found,) = read_jobs(live.run("bjobs", *cluster, "-a", "-w", "-W", job).stdout)
    assert (found["STAT"], found["EXEC_HOST"], found["START_TIME"]) == ("PSUSP", None, None)
    listed = read_jobs(live.run("bjobs", *cluster, "-u", "all", "-a", "-w", "-W").stdout)
    assert job in [one["JOBID"] for one in listed]
    live.run("bresume", *cluster, job)
    until(lambda: info(live, job)["STAT"] == "DONE", "it is over")


def test_elements_of_an_array_are_told_and_ended_by_their_own_ids(live: Live) -> None:
    job = submit(live, "sleep 300\n", "-J", "many[1-3]")
    found = read_jobs(live.run("bjobs", "-a", "-w", "-W", job).stdout)
    assert [one["id"] for one in found] == [f"{job}[{index}]" for index in (1, 2, 3)]
    live.run("bkill", f"{job}[2]")
    until(
        lambda: (
            info(live, f"{job}[2]")["STAT"] == "EXIT" and info(live, f"{job}[1]")["STAT"] == "RUN"
        ),
        "only the second is over",
    )
    live.run("bkill", job)


def test_all_jobs_of_a_user_and_of_everybody_are_read(live: Live) -> None:
    job = submit(live, "true\n", "-J", "one of all")
    until(lambda: info(live, job)["STAT"] == "DONE", "it is over")
    for user in ("all", info(live, job)["USER"]):
        found = read_jobs(live.run("bjobs", "-u", user, "-a", "-w", "-W").stdout)
        assert job in [one["JOBID"] for one in found]


def test_a_variable_that_is_named_reaches_the_job(live: Live) -> None:
    live.environ["GREETING"] = "hello, on demand"
    job = submit(live, 'echo "$GREETING"\n', "-env", "none,GREETING", "-o", "told.%J")
    until(lambda: info(live, job)["STAT"] == "DONE", "it is over")
    assert live.file(f"told.{job}").startswith("hello, on demand\n")


def test_a_later_start_is_asked_for_by_the_clock(live: Live) -> None:
    later = time.strftime("%Y:%m:%d:%H:%M", time.localtime(time.time() + 7200))
    job = submit(live, "true\n", "-b", later)
    assert info(live, job)["STAT"] == "PEND"
    live.run("bkill", job)


def test_what_fails_says_why_on_stderr(live: Live) -> None:
    done = live.run("bsub", "-q", "nowhere", stdin="true\n", status=255)
    assert "No such queue" in done.stderr
    assert done.stdout == ""
    done = live.run("bkill", "999999", status=255)
    assert "No matching job found" in done.stderr
