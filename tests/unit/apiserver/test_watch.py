import asyncio

from rest_cluster import run_rest

from xce.apiserver import watch as watching
from xce.apiserver.events import JobEvent, render_events
from xce.apiserver.replica import Replica
from xce.apiserver.watch import Watcher, Watchers
from xce.model.observation import AttemptSeen, HostDisconnected
from xce.testing.builders import (
    cluster,
    join_host,
    leave_host,
    place,
    report_started,
    run_job,
    submission,
    submit,
    tick,
)


async def read_events(rest, count, headers=None, **query):
    """Return the first ``count`` events of a watch, as (event, id, data)."""
    found = []
    async with rest.session.get(
        "http://xce/xce/v1/watch", params=query, headers=headers or {}
    ) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        fields = {}
        async for line in answer.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "event" in fields:
                found.append((fields["event"], fields.get("id"), fields["data"]))
                fields = {}
                if len(found) == count:
                    return found
            else:
                fields = {}
    return found


def test_a_watcher_hears_the_life_of_a_job():
    async def story(rest):
        seq = rest.replica.seq
        reading = asyncio.create_task(read_events(rest, 4, from_seq=str(seq)))
        job = submit(rest.controller)
        run_job(rest.controller, job)
        rest.link.pump()
        events = await reading
        assert [name for name, _, _ in events] == ["job"] * 4
        assert '"stat":"PEND"' in events[0][2]
        assert '"stat":"DONE"' in events[-1][2]
        again = await read_events(rest, 1, headers={"Last-Event-ID": str(events[-2][1])})
        assert again[0] == events[-1]

    run_rest(story)


def test_a_watcher_can_ask_for_one_users_or_some_jobs_only():
    async def story(rest):
        seq = rest.replica.seq
        first = submit(rest.controller)
        second = submit(rest.controller)
        rest.link.pump()
        events = await read_events(rest, 1, from_seq=str(seq), jobs=str(second))
        assert f'"jobid":{second}' in events[0][2]
        events = await read_events(rest, 1, from_seq=str(seq), user="alice")
        assert f'"jobid":{first}' in events[0][2]

    run_rest(story)


def test_one_who_asks_for_what_is_no_more_kept_must_begin_anew():
    async def story(rest):
        events = await read_events(rest, 1, from_seq="999999")
        assert events[0][0] == "resync"

    run_rest(story)


def event(seq, job=1, user="alice"):
    return JobEvent(seq=seq, at=0.0, jobid=job, index=0, stat="PEND", user=user)


def test_a_slow_reader_is_dropped_back_to_resync(monkeypatch):
    monkeypatch.setattr(watching, "QUEUE_MAX", 3)
    watcher = Watcher()
    watcher.offer([event(1), event(2)])
    assert not watcher.must_resync
    watcher.offer([event(3), event(4)])
    assert watcher.must_resync
    assert asyncio.run(watcher.next_events(0)) == []


def test_only_the_latest_records_are_kept_for_those_who_come_back(monkeypatch):
    monkeypatch.setattr(watching, "KEPT_RECORDS", 10)
    controller, replica = cluster(), Replica()
    watchers = Watchers(replica)
    replica.take(controller.entries)
    given = len(controller.entries)
    for _ in range(20):
        submit(controller)
    replica.take(controller.entries[given:])
    late, recent = Watcher(), Watcher()
    watchers.add(late, 1)
    watchers.add(recent, replica.seq - 1)
    assert late.must_resync
    assert not recent.must_resync
    assert len(asyncio.run(recent.next_events(0))) == 1
    watchers.remove(late)
    assert len(watchers) == 1
    replica.begin(())
    assert recent.must_resync


def test_a_watcher_hears_that_a_job_is_unknown_and_that_it_is_requeued():
    controller = cluster()
    job = submit(controller, submission(rerunnable=True))
    place(controller, job)
    report_started(controller, job)
    since = len(controller.entries)
    controller.tell(HostDisconnected("h1", silent=True))
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)])
    leave_host(controller, "h1")
    seen = render_events(controller.state, controller.entries[since:])
    assert {event.stat for event in seen} == {"RUN"}
    tick(controller, after_us=20_000_000)
    assert [e.stat for e in render_events(controller.state, controller.entries[-1:])] == ["UNKWN"]
    tick(controller, after_us=120_000_000)
    assert [e.stat for e in render_events(controller.state, controller.entries[-1:])] == ["PEND"]
