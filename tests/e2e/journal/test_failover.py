"""Two controllers on one database: one dies or sleeps, the other one goes on."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from live import Live, open_live, until
from pair import LEASE_S, Pair, open_pair, open_pair_on
from postgres import Postgres, find_binaries, open_directory, open_postgres

from xce.client.rest import Api, UnreachableError, make_key
from xce.daemon.components import find_daemons

pytestmark = pytest.mark.skipif(find_binaries() is None, reason="there is no PostgreSQL")


@pytest.fixture
def pair(server: Postgres) -> Iterator[Pair]:
    with open_pair(server, f"pair{time.monotonic_ns()}") as made:
        made.live.xce("up", "--hosts", "h[1-2]", "--slots", "8", "--timeout", "60")
        made.start_second()
        made.until_second("standby-warm")
        yield made


class Ledger(threading.Thread):
    """Submits jobs one after another, and keeps what was acknowledged."""

    def __init__(self, live: Live, number: int) -> None:
        super().__init__(daemon=True)
        self.live = live
        self.number = number
        self.jobs: dict[str, int] = {}
        self.is_over = threading.Event()
        self.fault: BaseException | None = None
        self.api = live.api(wait_s=120)

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                name = f"c{self.number}-{len(self.jobs)}"
                body = self.live.submission(f"echo x >> ran-{name}", name=name)
                answer = self.api.call("POST", "/jobs", document=body, key=make_key())
                self.jobs[name] = answer["results"][0]["jobid"]
                time.sleep(0.05)
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self.fault = error


def check_ledgers(live: Live, ledgers: list[Ledger]) -> None:
    for ledger in ledgers:
        ledger.is_over.set()
        ledger.join(120)
        assert ledger.fault is None
        assert len(ledger.jobs) > 5
        assert len(set(ledger.jobs.values())) == len(ledger.jobs)
        for name, job in ledger.jobs.items():
            row = live.until_ended(job)
            assert (row["stat"], row["name"]) == ("DONE", name)
            assert live.file(f"ran-{name}") == "x\n"


def check_epochs(pair: Pair, expected: int) -> None:
    """No reign wrote behind the beginning of the next one."""
    reader = pair.reader()
    epochs = [batch.epoch for batch in reader.read(1)]
    assert epochs == sorted(epochs)
    assert epochs[-1] == reader.lead_epoch() == expected
    reader.close()


def test_a_killed_leader_is_followed_by_the_standby_and_no_acknowledged_job_is_lost(
    pair: Pair,
) -> None:
    live = pair.live
    ledgers = [Ledger(live, number) for number in (1, 2)]
    for ledger in ledgers:
        ledger.start()
    until(lambda: all(len(ledger.jobs) > 5 for ledger in ledgers), "jobs are submitted")
    for epoch in (2, 3, 4):
        # Whichever of the two it is: the one that was killed is started again, and stands by.
        os.kill(pair.leader_pid(), signal.SIGKILL)
        if pair.process("controller").poll() is not None:
            pair.start("controller")
        until(lambda: pair.epoch() == epoch, "another one leads")  # noqa: B023 - used at once
        count = len(ledgers[0].jobs)
        until(lambda: len(ledgers[0].jobs) > count + 5, "jobs go on")  # noqa: B023 - as above
    check_ledgers(live, ledgers)
    check_epochs(pair, 4)


def test_a_leader_that_slept_through_its_lease_writes_nothing_any_more(pair: Pair) -> None:
    live = pair.live
    first = live.victims("controller")["controller"]
    ledger = Ledger(live, 1)
    ledger.start()
    until(lambda: len(ledger.jobs) > 5, "jobs are submitted")
    live.kill("controller", signal.SIGSTOP)
    pair.until_second("controller-started")
    count = len(ledger.jobs)
    until(lambda: len(ledger.jobs) > count + 3, "jobs go on")
    live.kill("controller", signal.SIGCONT)
    live.until_replaced("controller", [first])
    log = live.lines_of("controller")
    assert any("another controller took over" in str(line.get("why")) for line in log)
    check_ledgers(live, [ledger])
    check_epochs(pair, 2)


def test_a_leader_that_is_told_to_end_hands_over_at_once(pair: Pair) -> None:
    live = pair.live
    job = live.submit("sleep 2; echo through")
    live.until_stat(job, "run")
    began = time.monotonic()
    live.kill("controller", signal.SIGTERM)
    until(lambda: pair.epoch() == 2, "another one leads")
    assert time.monotonic() - began < LEASE_S
    assert live.until_ended(job)["stat"] == "DONE"
    assert live.output(job) == b"through\n"


def courses(api: Api, job: int) -> list[str]:
    """Return what the history says happened to a job."""
    rows = api.call("GET", "/history/jobs", query=[("ids", str(job))])["rows"]
    return [step["what"] for row in rows for step in row["steps"]]


def usage(live: Live, last: int) -> list[dict[str, Any]]:
    """Return the attempts that are over, when the last job's is there."""
    query = [("user", "all")]
    return until(
        lambda: [
            rows
            for rows in [live.api().call("GET", "/history/usage", query=query)["rows"]]
            if any(row["jobid"] == last for row in rows)
        ],
        "the history has it",
    )[0]


def test_a_second_machine_runs_some_daemons_and_serves_users_too(server: Postgres) -> None:
    with open_pair(server, f"pair{time.monotonic_ns()}", with_history=True) as pair:
        live, second = pair.live, pair.second
        live.xce("up", "--hosts", "h[1-2]", "--slots", "8", "--timeout", "60")
        assert f"history:    {pair.dsn}" in live.xce("status")
        job = live.submit("sleep 3; echo through")
        pair.configure_second()
        there = ["--dir", str(second.root)]
        assert "no daemon is called proxy" in live.xce("up", "--only", "proxy", *there, status=1)
        only = "controller,scheduler,history,apiserver"
        try:
            said = live.xce("up", "--only", only, "--timeout", "60", *there)
            assert "cluster xce is up" in said
            names = set(find_daemons(second.root))
            assert names == {*only.split(","), "node-manager"}
            with contextlib.closing(Api(str(second.api_socket), wait_s=30)) as api:
                assert api.call("GET", f"/jobs/{job}")["user"] == live.row(job)["user"]
                until(lambda: courses(api, job), "one history is told on both machines")
                live.xce("down")
                until(lambda: "controller-started" in pair.log("controller"), "the second leads")
                until(lambda: "history-opened" in pair.log("history"), "the second writes")
                body = live.submission("echo held", hold=True)
                answer = api.call("POST", "/jobs", document={"jobs": [body]}, key=make_key())
                assert answer["results"][0]["jobid"] == job + 1
                until(lambda: courses(api, job + 1), "the second's entries are stored")
            live.xce("up", "--timeout", "60")
            assert "scheduler" in live.xceadmin("peers"), "the one of this machine stands by"
            assert live.until_ended(job)["stat"] == "DONE"
            live.act("resume", job + 1)
            assert live.until_ended(job + 1)["stat"] == "DONE"
            assert [row["jobid"] for row in usage(live, job + 1)] == [job, job + 1]
            told = courses(live.api(), job)
            assert [told.count(what) for what in ("submitted", "dispatched", "done")] == [1, 1, 1]
            log = [line["event"] for line in live.lines_of("history")]
            assert "standing-by" in log, "the second writes"
        finally:
            live.xce("down", *there, status=None)


def test_a_standby_takes_over_when_the_database_comes_back_without_the_leader() -> None:
    with open_postgres() as server, open_pair(server, "pair") as pair:
        live = pair.live
        live.xce("up", "--hosts", "h1", "--slots", "2", "--timeout", "60")
        pair.start_second()
        pair.until_second("standby-warm")
        job = live.submit("sleep 3; echo through")
        live.until_stat(job, "run")
        server.stop(signal.SIGKILL)
        pair.until_second("journal-away")
        live.kill("controller")
        time.sleep(1)
        server.start()
        assert live.until_ended(job)["stat"] == "DONE"
        after = live.submit("echo after")
        assert live.until_ended(after)["stat"] == "DONE"


def test_a_leader_outlives_a_short_outage_of_the_database() -> None:
    with open_postgres() as own, open_pair(own, "pair", lease_s=10, with_history=True) as pair:
        live = pair.live
        live.xce("up", "--hosts", "h1", "--slots", "2", "--timeout", "60")
        first = live.victims("controller")["controller"]
        keeper = live.victims("history")["history"]
        own.stop(signal.SIGKILL)
        answers: list[int] = []
        waiting = threading.Thread(target=lambda: answers.append(live.submit("echo late")))
        waiting.start()
        time.sleep(1.5)
        assert answers == []
        with live.api(wait_s=0) as api, pytest.raises(UnreachableError, match="^The history can"):
            api.call("GET", "/jobs", [("ids", "77")])
        own.start()
        waiting.join(60)
        assert live.until_ended(answers[0])["stat"] == "DONE"
        assert live.victims("controller")["controller"] == first
        assert [row["jobid"] for row in usage(live, answers[0])] == answers
        assert live.victims("history")["history"] == keeper


def test_the_database_itself_fails_over_under_load_and_nothing_acknowledged_is_lost() -> None:
    with open_postgres() as primary, open_directory() as place:
        standby = Postgres(place, primary.binaries)
        standby.copy_from(primary, "s2")
        primary.set("synchronous_standby_names", "s2")
        primary.reload()
        standby.start()
        primary.make_database("pair")
        both = f"postgresql://xce@/pair?host={primary.directory},{standby.directory}"
        try:
            with open_pair_on(both, lease_s=10) as pair:
                live = pair.live
                live.xce("up", "--hosts", "h[1-2]", "--slots", "8", "--timeout", "60")
                pair.start_second()
                pair.until_second("standby-warm")
                ledgers = [Ledger(live, number) for number in (1, 2)]
                for ledger in ledgers:
                    ledger.start()
                until(lambda: all(len(ledger.jobs) > 5 for ledger in ledgers), "jobs are submitted")
                primary.stop(signal.SIGKILL)
                time.sleep(1)
                standby.promote()
                counts = [len(ledger.jobs) for ledger in ledgers]
                until(
                    lambda: all(
                        len(ledger.jobs) > count + 5
                        for ledger, count in zip(ledgers, counts, strict=True)
                    ),
                    "jobs go on",
                )
                check_ledgers(live, ledgers)
                check_epochs(pair, pair.epoch())
        finally:
            standby.stop(signal.SIGKILL)


def test_a_history_whose_database_hangs_holds_up_nothing_but_questions_to_it() -> None:
    with open_postgres() as server, open_live() as live:
        live.configure(f"history: {{postgres: '{server.make_database('history')}'}}\n")
        live.xce("up", "--hosts", "h1", "--slots", "4", "--timeout", "60")
        first = live.submit("true")
        live.until_ended(first)
        usage(live, first)
        server.pause()
        asked: list[int] = []
        asking = threading.Thread(target=lambda: asked.append(len(usage(live, first))))
        asking.start()
        jobs = [live.submit("true") for _ in range(20)]
        for job in jobs:
            assert live.until_ended(job)["stat"] == "DONE"
        assert [host["status"] for host in live.hosts()] == ["ok"]
        with live.api(wait_s=0) as api, pytest.raises(UnreachableError, match="^The history can"):
            api.call("GET", "/jobs", [("ids", "77")])
        assert asked == []
        server.go_on()
        asking.join(60)
        until(lambda: len(usage(live, jobs[-1])) > len(jobs), "the history has caught up")
        rows = usage(live, jobs[-1])
        assert sorted(row["jobid"] for row in rows) == [first, *jobs], "each once"
