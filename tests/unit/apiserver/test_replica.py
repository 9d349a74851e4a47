import asyncio

from rest_cluster import run_rest

from xce.apiserver import app
from xce.apiserver.replica import Replica
from xce.state.snapshot import dump, load
from xce.testing.builders import (
    cluster,
    gang,
    propose,
    report_ended,
    report_started,
    submission,
    submit,
    tick,
)


def test_it_reaches_an_entry_when_that_is_applied():
    async def story():
        controller, replica = cluster(), Replica()
        assert await replica.reach(0, 1)
        wanted = controller.state.seq
        waiting = asyncio.create_task(replica.reach(wanted, 10))
        assert not await replica.reach(wanted + 1, 0.01)
        replica.take(controller.entries)
        assert await waiting
        assert replica.seq == wanted
        assert dump(replica.state) == dump(controller.state)

    asyncio.run(story())


def test_it_is_stale_until_the_stream_says_it_is_live():
    now = [0.0]
    replica = Replica(clock=lambda: now[0])
    now[0] = 5.0
    assert replica.stale_s == 5.0
    replica.note_live()
    assert replica.stale_s == 0.0
    replica.note_away()
    now[0] = 6.0
    replica.note_away()
    assert replica.stale_s == 1.0


def test_it_keeps_the_hosts_of_parallel_jobs_until_they_are_forgotten():
    controller, replica = cluster({"h1": 4, "h2": 4}), Replica()
    job = submit(controller, submission(tasks=6))
    propose(controller, gang(controller, job, hosts={"h1": 4, "h2": 2}))
    report_started(controller, job)
    report_ended(controller, job)
    replica.take(controller.entries)
    given = len(controller.entries)
    assert replica.gangs == {(job, 0): ([0, 1], [4, 2])}
    tick(controller, after_us=2 * 3_600_000_000, history_seq=controller.state.seq)
    tick(controller, after_us=1_000_000, history_seq=controller.state.seq)
    replica.take(controller.entries[given:])
    assert job not in replica.state.jobs
    assert replica.gangs == {}


def test_a_state_that_is_still_being_built_up_is_not_shown(monkeypatch):
    monkeypatch.setattr(app, "WHOLE_S", 0.05)

    async def story(rest):
        job = await rest.submit()
        rest.replica.begin(())
        status, document = await rest.get(f"/jobs/{job}")
        assert (status, document["code"]) == (503, "controller-away")
        assert rest.headers["Retry-After"] == "1"
        rest.replica.state = load(dump(rest.controller.state))
        rest.replica.note_live()
        status, _ = await rest.get(f"/jobs/{job}")
        assert status == 200

    run_rest(story)
