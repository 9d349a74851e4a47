"""What backfill promises, on small random clusters that live a whole life.

Jobs end exactly when their run limit says. A session runs at every instant at which something
ends or is submitted.
"""

import heapq
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sessions import Scheduled

from xce.model.config import HostConfig
from xce.model.ids import SECOND_US, JobId, Micros
from xce.model.plan import StartRule
from xce.model.reason import ReasonCode
from xce.model.request import Amount, Request
from xce.sim.idle import could_start
from xce.testing.builders import cluster, report_ended, request, submission, submit

UNIT = 100 * SECOND_US
SLACK = 2 * SECOND_US
"""Commands take a millisecond each, and a promise that moves by less than a second is not told."""
ASKS: tuple[Request, ...] = (
    request(),
    request(1, mem_mib=5),
    request(2, mem_mib=2),
    request(3, one_host=True),
    request(4),
    request(6, ptile=3),
    request(8),
    request(12),
    request(1, exclusive=True),
    request(1, amounts=[Amount("seats", 2)]),
    request(2, mem_mib=8),
)

jobs = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, len(ASKS) - 1), st.integers(1, 6)),
    min_size=2,
    max_size=14,
)


@dataclass
class Life:
    world: Scheduled
    ends: list[tuple[Micros, JobId]] = field(default_factory=list)
    starts: dict[JobId, Micros] = field(default_factory=dict)
    promised: dict[JobId, Micros] = field(default_factory=dict)
    rules: dict[JobId, StartRule] = field(default_factory=dict)

    def session(self) -> None:
        controller = self.world.controller
        self.world.run()
        now_us = controller.now_us
        for job_id, job in controller.state.jobs.items():
            if job.live and job_id not in self.starts:
                self.starts[job_id] = now_us
                self.rules[job_id] = job.live[0].rule
                heapq.heappush(self.ends, (now_us + self.limit(job_id), job_id))
        for job_id, kept in controller.state.reservations.items():
            start_us = kept[0].start_at_us
            if start_us:
                self.promised[job_id] = min(self.promised.get(job_id, start_us), start_us)
        self.check_nothing_waits_for_no_reason()

    def limit(self, job_id: JobId) -> Micros:
        state = self.world.controller.state
        return state.key(state.jobs[job_id]).run_limit_us

    def check_nothing_waits_for_no_reason(self) -> None:
        state = self.world.controller.state
        for job_id, _ in could_start(state):
            assert self.world.reason(job_id).code is ReasonCode.RESERVED, job_id
            assert state.reservations, "reserved for nobody"

    def end_due(self, now_us: Micros) -> None:
        while self.ends and self.ends[0][0] <= now_us:
            report_ended(self.world.controller, heapq.heappop(self.ends)[1])


def hosts() -> list[HostConfig]:
    return [
        HostConfig(name="h1", slots=6, mem_mib=12),
        HostConfig(name="h2", slots=4, mem_mib=16),
        HostConfig(name="h3", slots=4, mem_mib=8),
    ]


def live(given_jobs: list[tuple[int, int, int]], **policy: object) -> Life:
    controller = cluster(hosts(), pools={"seats": 3}, **policy)
    queue = replace(controller.state.config.queues[0], exclusive=True)
    controller = cluster(hosts(), pools={"seats": 3}, queues=[queue], **policy)
    life = Life(Scheduled(controller))
    start_us = controller.now_us
    coming = sorted(given_jobs)
    while coming or life.ends:
        at = [start_us + coming[0][0] * UNIT] if coming else []
        at += [life.ends[0][0]] if life.ends else []
        controller.now_us = max(controller.now_us, min(at))
        life.end_due(controller.now_us)
        while coming and start_us + coming[0][0] * UNIT <= controller.now_us:
            _, which, span = coming.pop(0)
            submit(controller, submission(asks=ASKS[which], run_limit_us=span * UNIT))
        life.session()
    return life


@settings(max_examples=120, derandomize=True, deadline=None)
@given(given_jobs=jobs, kind=st.sampled_from(["easy", "conservative"]))
def test_nobody_starts_later_than_promised(
    given_jobs: list[tuple[int, int, int]], kind: str
) -> None:
    life = live(given_jobs, backfill=kind)
    assert len(life.starts) == len(given_jobs)
    for job_id, promised_us in life.promised.items():
        assert life.starts[job_id] <= promised_us + SLACK


@settings(max_examples=60, derandomize=True, deadline=None)
@given(given_jobs=jobs)
def test_the_first_job_never_waits_longer_with_backfill_than_without_any_passing(
    given_jobs: list[tuple[int, int, int]],
) -> None:
    """The job that is blocked first starts as early as if nobody behind it existed."""
    life = live(given_jobs, backfill="easy")
    if not life.promised:
        return
    first = min(life.promised)
    assert life.rules[first] is StartRule.RESERVED
    in_front = sorted(given_jobs)[:first]
    alone = live(in_front, backfill="easy")
    assert life.starts[first] <= alone.starts[first] + SLACK


@settings(max_examples=40, derandomize=True, deadline=None)
@given(spans=st.lists(st.integers(1, 4), min_size=5, max_size=25), limits=st.booleans())
def test_a_stream_of_small_jobs_never_starves_a_large_one(spans: list[int], limits: bool) -> None:
    """It starts as soon as all that came before it has ended, however many come behind."""
    controller = cluster({"h1": 4, "h2": 4}, backfill="easy")
    world = Scheduled(controller)
    running: list[tuple[Micros, JobId]] = []
    ends: dict[JobId, Micros] = {}
    spans_of: dict[JobId, int] = {}
    start_us = controller.now_us
    large = 0
    for tick in range(200):
        controller.now_us = max(controller.now_us, start_us + tick * UNIT)
        while running and running[0][0] <= controller.now_us:
            report_ended(controller, heapq.heappop(running)[1])
        if tick == 4:
            large = submit(controller, submission(tasks=8, run_limit_us=UNIT))
        span = spans[tick % len(spans)]
        for _ in range(4):
            given_job = submission(run_limit_us=span * UNIT if limits else 0)
            spans_of[submit(controller, given_job)] = span
        world.run()
        for job_id, job in controller.state.jobs.items():
            if job.live and job_id not in ends:
                ends[job_id] = controller.now_us + spans_of.get(job_id, 1) * UNIT
                heapq.heappush(running, (ends[job_id], job_id))
        if large in ends:
            in_front = [ends[job_id] for job_id in range(1, large)]
            # An end is seen at the next tick.
            assert controller.now_us <= max(in_front) + 2 * UNIT
            return
    raise AssertionError("it starves")
