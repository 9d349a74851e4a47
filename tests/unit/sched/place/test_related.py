"""Choices of domains, orders of ranks and bounds that the property tests do not name."""

import numpy as np
import pytest
from relations import look_around, placements

from xce.model.config import HostConfig, QueueConfig
from xce.model.constraint import Colocate, Constraint, Near, Spread
from xce.model.ids import SECOND_US
from xce.model.reason import ReasonCode, render_plain
from xce.model.request import Amount, Part, Request
from xce.sched.counts import Counts
from xce.sched.place import related
from xce.sched.place.narrow import Demand, Rooms, narrow
from xce.sched.session import run_session
from xce.sched.ties import Bond
from xce.sched.waiting import Memory
from xce.testing.builders import RecordedController, cluster, submission, submit
from xce.testing.recorded import accept_plan

QUEUE = QueueConfig(name="normal", default=True)
LEVELS = ("switch", "block")


def site(*rows: tuple[int, str, str], mem_mib: int = 64) -> RecordedController:
    """Return hosts h1, h2, ... with so many slots in these switches and blocks."""
    hosts = [
        HostConfig(
            name=f"h{number}",
            slots=slots,
            mem_mib=mem_mib,
            labels={"switch": switch, "block": block},
        )
        for number, (slots, switch, block) in enumerate(rows, 1)
    ]
    return cluster(hosts, queues=[QUEUE], levels=LEVELS)


def asks(*constraints: Constraint, **parts: object) -> Request:
    found = []
    for name, value in parts.items():
        request = value if isinstance(value, Request) else Request(value, value)
        found.append(Part(name, request.tasks_min, request))
    total = sum(part.tasks for part in found)
    return Request(total, total, parts=tuple(found), constraints=constraints)


def run(controller: RecordedController, wanted: Request) -> list[tuple[str, str, int]]:
    """Return the entries of a start: host, part, tasks; none: it did not start."""
    job = submit(controller, submission(asks=wanted))
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    live = controller.job(job).live
    if not live:
        return []
    (attempt,) = live.values()
    names = controller.state.hosts.names
    return [
        (names[host], wanted.parts[part].name, tasks)
        for host, part, tasks in zip(attempt.hosts, attempt.parts, attempt.tasks, strict=True)
    ]


def test_the_best_fit_is_taken():
    controller = site((4, "s1", "b1"), (4, "s1", "b1"), (4, "s2", "b1"), (4, "s3", "b2"))
    found = run(controller, asks(Colocate(0, ("a",), ("switch",)), a=4))
    assert [host for host, _, _ in found] == ["h3"]


def test_ranks_stand_domain_by_domain_and_role_by_role():
    controller = site((2, "s1", "b1"), (2, "s2", "b2"), (2, "s3", "b1"), (2, "s4", "b2"))
    wanted = asks(Spread(0, ("a", "b"), "switch", 2), Spread(1, ("a",), "host", 1), a=4, b=4)
    found = run(controller, wanted)
    assert [host for host, _, _ in found] == ["h1", "h1", "h3", "h3", "h2", "h2", "h4", "h4"]
    assert [part for _, part, _ in found] == ["a", "b"] * 4


def test_where_a_first_host_carries_more_parts_stand_one_after_the_other():
    controller = site((2, "s1", "b1"), (2, "s2", "b1"), mem_mib=8)
    lead = Request(2, 2, amounts=(Amount("mem", 8, "job"),))
    wanted = asks(Spread(0, ("a",), "host", 1), Spread(1, ("b",), "host", 1), a=lead, b=lead)
    found = run(controller, wanted)
    assert [part for _, part, _ in found] == ["a", "a", "b", "b"]
    assert found[0][0] != found[2][0]


def test_domains_that_could_not_hold_all_are_never_tried():
    bond = Bond((0, 1), np.asarray([0, 0, 1, 1]), 2)
    one = np.asarray([1], np.int64)
    demands = [Demand(2, one, one_host=False), Demand(2, one, one_host=False)]
    caps = (np.asarray([2, 0, 2, 2]), np.asarray([2, 0, 2, 2]))
    free = np.asarray([[2, 0, 2, 2]])
    left = narrow(demands, Rooms(caps, free), [bond], [])
    assert left is not None
    assert left[0].tolist() == [0, 0, 2, 2]
    assert narrow(demands, Rooms(caps, free[:, [0, 1, 0, 1]] * 0 + 1), [bond], []) is None


def test_large_tasks_are_counted_whole():
    controller = site(*[(4, "s1", "b1")] * 5, mem_mib=10)
    large = Request(3, 3, amounts=(Amount("mem", 6),))
    job = submit(
        controller, submission(asks=asks(Colocate(0, ("a", "b"), ("switch",)), a=large, b=large))
    )
    plan = run_session(controller.state, now_us=controller.now_us)
    ((_, reason),) = plan.reasons
    assert reason.code is ReasonCode.RELATION
    assert reason.unsatisfiable
    assert (
        "b: no switch with 3 free near a (needs 3 x 6 mem; 1 switch has room for any; best is "
        in (render_plain(reason, now_us=0))
    )
    assert job


def test_a_bound_that_was_hit_is_the_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(related, "TRIES_MAX", 0)
    monkeypatch.setattr(related, "NODES_MAX", 0)
    monkeypatch.setattr(related, "NODES_MIN", 0)
    controller = site((4, "s1", "b1"), (4, "s2", "b1"))
    submit(controller, submission(asks=asks(Colocate(0, ("a",), ("switch",)), a=4)))
    plan = run_session(controller.state, now_us=controller.now_us)
    ((_, reason),) = plan.reasons
    assert reason.code is ReasonCode.SEARCH


def test_jobs_of_one_request_are_tried_once():
    controller = site(*[(4, f"s{at}", "b1") for at in range(4)])
    wanted = [asks(Colocate(0, ("a",), ("switch",)), a=5 + kind) for kind in range(3)]
    for number in range(30):
        limit_us = (number + 1) * SECOND_US
        submit(controller, submission(asks=wanted[number % 3], run_limit_us=limit_us))
    counts = Counts()
    run_session(controller.state, now_us=controller.now_us, memory=Memory(), counts=counts)
    assert counts.classes == 30
    assert counts.tries == 0  # all are proved impossible before anything is tried
    assert counts.host_rows == 3 * 4


def test_a_member_that_starts_ties_the_next_one_in_the_same_session():
    controller = site((2, "s1", "b1"), (2, "s2", "b1"), (4, "s3", "b1"))
    near = Near(1, ("a",), "group:g", ("switch",))
    together = Colocate(0, ("a",), ("switch",))
    for _ in range(3):
        submit(controller, submission(asks=asks(together, near, a=2)))
    around = look_around(controller)
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    jobs = controller.state.jobs.values()
    used = [attempt.hosts for job in jobs for attempt in (job.live or {}).values()]
    labels = [controller.state.hosts.config[hosts[0]].labels["switch"] for hosts in used]
    assert len(set(labels)) == 1
    assert around.where["job:1"] == []
    assert not list(placements(controller, asks(together, near, a=9), around))
