"""What running jobs use: hosts are asked once for all who ask, and never waited for long."""

import asyncio

import pytest
from rest_cluster import run_rest

from xce.apiserver import usage
from xce.apiserver.usage import Told, UsageDesk, usage_row
from xce.model.usage import AttemptUse
from xce.net.message import HostUsage
from xce.testing.builders import place, report_started

KEY = (1, 0, 1)


def use(job=1, mem_kib=2048, pids=(7, 8), **members):
    fields = {
        "index": 0, "attempt": 1, "cpu_us": 1_500_000, "max_mem_kib": 4096, "avg_mem_kib": 1024,
        "swap_kib": 512, "threads": 3, "pid": 7,
    }  # fmt: skip
    return AttemptUse(job=job, mem_kib=mem_kib, pids=pids, **fields | members)


class Link:
    """Hosts that say what a test wants, when it wants."""

    def __init__(self):
        self.asked = []
        self.rows = {}
        self.errors = {}
        self.open = asyncio.Event()
        self.open.set()

    async def read_usage(self, make):
        ask = make(1)
        self.asked.append(ask.host)
        await self.open.wait()
        return HostUsage(1, self.rows.get(ask.host, ()), self.errors.get(ask.host, ""))


class Hours:
    """Clocks that a test sets."""

    def __init__(self):
        self.s = 100.0

    def __call__(self):
        return self.s


def run(story):
    async def whole():
        link, clock = Link(), Hours()
        await story(link, clock, UsageDesk(link, lambda: 1_000_000 + clock.s, clock))

    asyncio.run(whole())


def test_many_who_ask_at_once_have_a_host_asked_once():
    async def story(link, clock, desk):
        link.rows["h1"] = (use(),)
        found = await asyncio.gather(*(desk.look(["h1", "h1", "h2"]) for _ in range(200)))
        assert sorted(link.asked) == ["h1", "h2"]
        assert all(one == {"h1": Told(1_000_100, {KEY: use()}), "h2": Told(1_000_100, {})}
                   for one in found)  # fmt: skip
        clock.s += usage.FRESH_S / 2
        await desk.look(["h1"])
        assert len(link.asked) == 2
        clock.s += usage.FRESH_S
        await desk.look(["h1"])
        assert link.asked[2:] == ["h1"]

    run(story)


def test_who_does_not_answer_in_time_is_done_without(monkeypatch):
    monkeypatch.setattr(usage, "WAIT_S", 0.01)

    async def story(link, clock, desk):
        link.open.clear()
        assert await desk.look(["h1"]) == {}
        assert await desk.look(["h1"]) == {}
        assert link.asked == ["h1"], "it was asked, and may answer yet"
        link.open.set()
        await asyncio.sleep(0)
        assert list(await desk.look(["h1"])) == ["h1"]

    run(story)


def test_a_host_that_cannot_say_it_is_asked_again_by_the_next():
    async def story(link, clock, desk):
        link.errors["h1"] = "host h1 is not connected"
        for _ in range(2):
            assert await desk.look(["h1"]) == {}
        assert link.asked == ["h1", "h1"]

    run(story)


def test_what_was_told_long_ago_is_not_told_and_forgotten():
    async def story(link, clock, desk):
        link.rows["h1"] = (use(),)
        await desk.look(["h1"])
        clock.s += 10
        link.errors["h1"] = "it is gone"
        assert await desk.look(["h1"]) == {}
        clock.s += usage.KEPT_S
        await desk.look(["h2"])
        assert list(desk._told) == ["h2"]

    run(story)


def test_the_parts_of_a_job_are_summed_over_its_hosts():
    told = {
        "h1": Told(5.0, {KEY: use()}),
        "h2": Told(4.0, {KEY: use(pids=(70,)), (9, 0, 1): use(9)}),
        "h3": Told(6.0, {}),
    }
    row = usage_row(["h1", "h2", "h1", "h3", "h4"], KEY, told)
    assert (row.at, row.cpu_s, row.mem_mib, row.max_mem_mib) == (4.0, 3.0, 4.0, 8.0)
    assert (row.avg_mem_mib, row.swap_mib, row.threads) == (2.0, 1.0, 6)
    assert (row.pids, row.unknown) == ((7, 8), ("h4",))


@pytest.mark.parametrize("hosts", [[], ["h4"], ["h3", "h1"]])
def test_without_the_word_of_its_first_host_nothing_is_said(hosts):
    told = {"h1": Told(5.0, {KEY: use()}), "h3": Told(6.0, {})}
    assert usage_row(hosts, KEY, told) is None


def row_of(answer, job):
    status, found = answer
    assert status == 200, found
    return next(row for row in found["jobs"] if row["jobid"] == job)


def test_over_rest_those_who_ask_for_it_are_told():
    async def story(rest):
        rest.backend.usage._clock = lambda: 5.0
        runs, waits = await rest.submit("sleep"), await rest.submit("sleep")
        place(rest.controller, runs)
        report_started(rest.controller, runs)
        rest.link.pump()
        ((host, _),) = row_of(await rest.get("/jobs", user="all"), runs)["hosts"]
        rest.link.usage[host] = (use(runs), use(999))
        plain = await rest.get("/jobs", user="all")
        assert row_of(plain, runs)["usage"] is None
        assert rest.link.usage_asked == []
        told = await rest.get("/jobs", user="all", usage=1)
        assert row_of(told, runs)["usage"]["mem_mib"] == 2.0
        assert row_of(told, waits)["usage"] is None
        for query in ({"ids": str(runs)}, {"user": "all", "fields": "usage"}):
            found = row_of(await rest.get("/jobs", usage=1, **query), runs)
            assert found["usage"]["pids"] == [7, 8]
        _, one = await rest.get(f"/jobs/{runs}", usage=1)
        assert one["usage"]["threads"] == 3
        assert rest.link.usage_asked == [host], "all that within two seconds"
        bare = await rest.get("/jobs", user="all", usage=1, fields="stat")
        assert "usage" not in row_of(bare, runs)
        status, problem = await rest.get("/jobs", user="all", usage="often")
        assert (status, problem["detail"]) == (400, "usage=often: expected 0 or 1")
        status, problem = await rest.get("/jobs", user="all", usage=1, at="1")
        assert (status, problem["code"]) == (400, "bad-request")
        assert "of the present only" in problem["detail"]

    run_rest(story)
