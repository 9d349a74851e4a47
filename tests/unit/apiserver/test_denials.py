"""Denials on their way into the journal: all of a few, a count of many."""

import asyncio
import logging

from rest_cluster import run_rest

from xce.apiserver import denials
from xce.apiserver.denials import ALL_MAX, USER_MAX, Denials


class Keeper:
    """Takes what is sent."""

    def __init__(self):
        self.rows = []
        self.commands = 0

    async def ask(self, command, **basis):
        assert basis == {"by": "apiserver", "basis": "apiserver"}
        self.rows += command.rows
        self.commands += 1


def gathered(notes, monkeypatch, *, later=()):
    """Return the rows that are kept of ``notes``; ``later`` come in the next period."""

    async def story():
        monkeypatch.setattr(denials, "GATHER_S", 0.001)
        keeper, now = Keeper(), [0.0]
        found = Denials(
            keeper, logging.getLogger("x"), now=lambda: 1_700_000_000.0, clock=lambda: now[0]
        )
        for user, about in notes:
            found.note_name(user, "job:kill", about, origin="local")
        await asyncio.sleep(0.05)
        now[0] = 61.0
        for user, about in later:
            found.note_name(user, "job:kill", about, origin="local")
        await asyncio.sleep(0.05)
        await found.close()
        return keeper

    return asyncio.run(story())


def test_equal_denials_are_one_row_with_a_count(monkeypatch):
    keeper = gathered([("ann", "job 1")] * 50 + [("ann", "job 2")], monkeypatch)
    assert [(row.user, row.about, row.count) for row in keeper.rows] == [
        ("ann", "job 1", 50), ("ann", "job 2", 1),
    ]  # fmt: skip
    assert keeper.rows[0].first_at_us == 1_700_000_000_000_000


def test_a_flood_of_one_user_is_counted_and_leaves_room_for_others(monkeypatch):
    notes = [("ann", f"job {number}") for number in range(5_000)] + [("bob", "job 1")]
    keeper = gathered(notes, monkeypatch)
    mine = [row for row in keeper.rows if row.user == "ann"]
    assert len(mine) == USER_MAX + 1
    assert sum(row.count for row in mine) == 5_000
    assert [row.about for row in keeper.rows if row.user == "bob"] == ["job 1"]


def test_a_flood_under_many_names_is_bounded_too(monkeypatch):
    notes = [(f"u{number}", "job 1") for number in range(10_000)]
    keeper = gathered(notes, monkeypatch)
    assert len(keeper.rows) <= 2 * ALL_MAX + 1
    assert sum(row.count for row in keeper.rows) == 10_000


def test_denials_get_into_the_journal_and_the_answers_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(denials, "GATHER_S", 0.001)

    async def story(rest):
        job = await rest.submit()
        rest.be("bob")
        await rest.post("/jobs/actions", {"action": "kill", "select": {"jobs": [str(job)]}})
        await rest.get(f"/jobs/{job}/output")
        await rest.post("/hosts/actions", {"action": "close", "hosts": ["h1"]})
        await rest.until(lambda: rest.controller.entries[-1].cause.kind == "note-denials")
        rows = [
            row
            for entry in rest.controller.entries
            if entry.cause.kind == "note-denials"
            for row in entry.records[0].rows
        ]
        assert {(row.user, row.permission, row.about, row.origin) for row in rows} == {
            ("bob", "job:kill", f"job {job}", "local"),
            ("bob", "job:output", f"GET /jobs/{{id}}/output job {job}", "local"),
            ("bob", "host:close", "POST /hosts/actions h1", "local"),
        }

    run_rest(story)
