"""What is shown of times past is what was shown then."""

import json
import sqlite3
import subprocess
import sys
import time
from typing import Any

import pytest
from live import Live, Row, open_live, until

from xce.client.rest import ProblemError
from xce.journal.sqlite import SqliteJournal

QUERIES = (
    ("/jobs", (("user", "all"), ("finished", "1"))),
    ("/jobs", (("user", "all"), ("state", "run,pend,psusp"), ("fields", "stat,hosts,reason"))),
    ("/hosts", ()),
    ("/queues", ()),
)


class Look:
    """What was answered at an instant."""

    def __init__(self, live: Live, jobs: list[int]) -> None:
        self.queries = [
            *QUERIES,
            *((f"/jobs/{job}", ()) for job in jobs),
            ("/jobs", (("ids", ",".join(map(str, [*jobs, jobs[-1] + 5]))),)),
        ]
        self.at, self.answers = settled(live, self.queries)


def settled(live: Live, queries: list[Any]) -> tuple[str, list[Row]]:
    """Return answers between which nothing happened, and when that was."""
    while True:
        with live.api() as api:
            before = api.call("GET", "/cluster")
            answers = [api.call("GET", path, list(query)) for path, query in queries]
            after = api.call("GET", "/cluster")
        if before["seq"] == after["seq"]:
            return f"{after['now']:.6f}", answers
        time.sleep(0.05)


GOES_ON = ("now", "seq", "ineligible_s")
"""What is another one a moment later though nothing has happened."""


def without_times(answer: Any) -> Any:
    if isinstance(answer, list):
        return [without_times(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    return {name: without_times(one) for name, one in answer.items() if name not in GOES_ON}


def asked_again(live: Live, look: Look) -> list[Row]:
    with live.api() as api:
        return [api.call("GET", path, [*query, ("at", look.at)]) for path, query in look.queries]


def check(live: Live, looks: list[Look]) -> None:
    for look in looks:
        for wanted, found in zip(look.answers, asked_again(live, look), strict=True):
            assert without_times(found) == without_times(wanted)


def test_the_past_is_shown_as_the_present_was() -> None:
    with open_live() as live:
        live.configure("clean_period_s: 1\n")
        live.xce("up", "--hosts", "h[1-2]", "--slots", "4", "--timeout", "60")
        looks: list[Look] = []
        began = time.time()
        first = live.submit("echo first", name="first", resreq=["rusage[mem=10]"])
        array = live.submit("sleep 300", array="1-20%3", name="array")
        live.until_ended(first)
        until(lambda: live.row(array)["elements"].get("run") == 3, "three elements run")
        looks.append(Look(live, [first, array]))
        held = live.submit("echo held", hold=True)
        wide = live.submit("sleep 300", tasks=[6, 6])
        live.xceadmin("hosts", "close", "h2", "-C", "dust")
        looks.append(Look(live, [first, array, held, wide]))
        live.act("kill", array)
        until(lambda: live.row(array)["elements"].get("exit") == 20, "all elements have ended")
        live.act("resume", held)
        live.until_ended(held)
        until(
            lambda: not live.rows(("user", "all"), ("finished", "1")) or True, "some time goes by"
        )
        time.sleep(3)
        looks.append(Look(live, [first, array, held, wide]))
        check(live, looks)
        said = live.run("xcecli", "jobs", "-u", "all", "--at", f"@{looks[0].at}", "-o", "json")
        rows = json.loads(said.stdout)
        assert {row["jobid"] for row in rows} == {array}
        said = live.run("xcecli", "info", str(held), "--at", f"@{looks[1].at}").stdout
        assert "PSUSP" in said
        said = live.run("xcecli", "hosts", "--at", f"@{looks[1].at}").stdout
        assert "closed_Adm" in said
        said = live.run("xcecli", "info", str(held), "--at", f"@{looks[0].at}", status=3).stderr
        assert f"no job has the id {held}" in said
        for at, code, status in (
            ("tomorrow", "bad-request", 400),
            (f"{time.time() + 100:.6f}", "bad-request", 400),
            (f"{began - 1000:.6f}", "gone", 410),
        ):
            with live.api() as api, pytest.raises(ProblemError) as caught:
                api.call("GET", "/jobs", [("at", at)])
            assert (caught.value.code, caught.value.status) == (code, status)
        with live.api() as api, pytest.raises(ProblemError, match="has no parameter 'at'"):
            api.call("GET", f"/jobs/{held}/output", [("at", looks[0].at)])
        snapshot_and_trim(live)
        check(live, looks)


def snapshot_and_trim(live: Live) -> None:
    """Have a snapshot made and all before it archived, as a busy cluster does by itself."""
    live.xce("down")
    done = subprocess.run(
        [sys.executable, "-m", "xce.daemon.snapshot", "--dir", str(live.root)], check=False
    )
    assert done.returncode == 0
    journal = SqliteJournal(live.layout.journal)
    journal.lead("test")
    while journal.trim(journal.last_seq):
        pass
    journal.close()
    connection = sqlite3.connect(live.layout.journal / "archive.db")
    (count,) = connection.execute("SELECT count(*) FROM batches").fetchone()
    connection.close()
    assert count > 5
    live.xce("up", "--timeout", "60")
