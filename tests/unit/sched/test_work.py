"""Counted work: a session costs what is asked for in different ways, not how often."""

import pytest
from sessions import Scheduled

from xce.model.command import SetHostsOpen
from xce.model.config import ClusterConfig, QueueConfig
from xce.resreq.compile import compile_request
from xce.sched.counts import Counts
from xce.sched.place import spot as placing
from xce.sched.session import run_session
from xce.testing.builders import cluster, request, submission, submit

HOSTS = {f"h{number}": 4 for number in range(8)}
ASKS = [
    submission(asks=request(size), run_limit_us=60_000_000 * size) for size in (3, 5, 8, 40, 12)
]


def work(copies: int, *, running: int, **settings: object) -> Counts:
    """Return what a session does that begins without memory."""
    queues = [
        QueueConfig(name="normal", priority=30, default=True, preempt=("low",)),
        QueueConfig(name="low", priority=10, preemption="requeue"),
    ]
    if not settings.pop("preempt", False):
        queues = [QueueConfig(name="normal", priority=30, default=True), queues[1]]
    world = Scheduled(cluster(HOSTS, queues=queues, **settings))
    low = submission(queue="low", run_limit_us=600_000_000)
    submit(world.controller, *[low] * running)
    world.run()
    submit(world.controller, *ASKS * copies)
    counts = Counts()
    run_session(world.controller.state, now_us=world.controller.now_us, counts=counts)
    return counts


@pytest.mark.parametrize(
    "settings",
    [{}, {"backfill": "easy"}, {"backfill": "conservative", "reservations": 5}, {"preempt": True}],
    ids=["none", "easy", "conservative", "preempt"],
)
def test_a_blocked_session_costs_the_same_for_a_few_jobs_and_for_many(
    settings: dict[str, object],
) -> None:
    few, many = (work(copies, running=32, **settings) for copies in (8, 800))
    if settings.get("preempt"):
        # What gives way is used up by the jobs in front; no more of them are looked at.
        assert many.host_rows <= few.host_rows + 8 * len(ASKS) * len(HOSTS)
    else:
        assert few == many
    assert many.host_rows <= 40 * len(ASKS) * len(HOSTS)
    assert many.tries <= 4 * len(ASKS)


def test_parallel_jobs_that_start_cost_one_try_each() -> None:
    counts = work(1, running=0)
    # 3 + 5 + 8 + 12 tasks start; 40 do not fit into 32 slots.
    assert counts.runs == 4
    assert counts.tries <= len(ASKS)
    # The masks of each request, a look at what is free, and where it goes.
    assert counts.host_rows <= 4 * len(ASKS) * len(HOSTS)


def test_what_is_blocked_is_not_tried_again_while_nothing_changes() -> None:
    world = Scheduled(cluster(HOSTS))
    submit(world.controller, *[submission()] * 32)
    world.run()
    submit(world.controller, *ASKS * 100)
    for _ in range(3):
        world.run()
    assert (world.counts.tries, world.counts.host_rows) == (0, 0)


def test_what_is_blocked_is_not_tried_again_when_all_hosts_are_as_they_were() -> None:
    world = Scheduled(cluster(HOSTS))
    submit(world.controller, *[submission()] * 32)
    world.run()
    submit(world.controller, *ASKS * 100)
    world.run()
    work = []
    for is_open in (False, True, False):
        command = SetHostsOpen("root", ("h7",), is_open, is_admin=True)
        world.controller.tell(command, by="root")
        world.run()
        work.append(world.counts.host_rows)
    assert work[0] > 0
    assert work[1:] == [0, 0]


@pytest.mark.parametrize(("gives_up", "sizes"), [(False, [3, 32]), (True, [3, 32]), (None, [3])])
def test_as_many_tasks_as_there_is_room_for_are_searched_for_at_once(monkeypatch, gives_up, sizes):
    seen, find = [], placing.find_whole

    def look(shape, ground, places, trail, steps):
        seen.append(shape.tasks_min)
        trail.is_cut = bool(gives_up) and steps is not None
        return None if trail.is_cut else find(shape, ground, places, trail, steps)

    monkeypatch.setattr(placing, "find_whole", look)
    world = Scheduled(cluster(HOSTS))
    if gives_up is None:
        submit(world.controller, *[submission()] * 30)
        world.run()
    text = "2*{mem>=0} + {slots>0}"
    asks = compile_request([text], config=ClusterConfig(), tasks=(3, 5000))
    job = submit(world.controller, submission(asks=asks))
    world.run()
    # A session is run more than once, with and without what it remembers.
    assert seen == sizes * (len(seen) // len(sizes))
    live = world.controller.job(job).live
    assert sum(live[0].tasks if live else ()) == {False: 32, True: 3, None: 0}[gives_up]


def test_searches_for_more_tasks_share_one_bound(monkeypatch):
    bounds, find = [], placing.find_whole

    def look(shape, ground, places, trail, steps):
        bounds.append(steps)
        return None if shape.tasks_min > 20 else find(shape, ground, places, trail, steps)

    monkeypatch.setattr(placing, "find_whole", look)
    world = Scheduled(cluster(HOSTS))
    asks = compile_request(["2*{mem>=0} + {slots>0}"], config=ClusterConfig(), tasks=(3, 5000))
    submit(world.controller, submission(asks=asks))
    world.run()
    first = bounds[1 : bounds.index(None, 1)]
    assert bounds[0] is None
    assert 4 < len(first) < 7
    assert len(set(map(id, first))) == 1
