"""Preemption comes to an end: whole lives of small clusters with queues that preempt."""

import heapq

from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import Scheduled

from xce.model.config import HostConfig, QueueConfig
from xce.model.ids import SECOND_US, JobId, Micros
from xce.model.job import EndCause
from xce.model.observation import SuspensionSeen
from xce.model.record import RoomHeld
from xce.state.check import check_state
from xce.testing.builders import (
    cluster,
    report,
    report_ended,
    report_started,
    request,
    submission,
    submit,
)

UNIT = 10 * SECOND_US
ASKS = (request(), request(2), request(3, mem_mib=2), request(4, one_host=True), request(5))
jobs = st.lists(
    st.tuples(
        st.integers(0, 8),
        st.sampled_from(["top", "middle", "bottom"]),
        st.integers(0, len(ASKS) - 1),
        st.integers(1, 5),
    ),
    min_size=2,
    max_size=14,
)


def queues(middle: str, bottom: str) -> list[QueueConfig]:
    return [
        QueueConfig(name="top", priority=30, preempt=("middle", "bottom")),
        QueueConfig(name="middle", priority=20, preempt=("bottom",), preemption=middle),
        QueueConfig(name="bottom", priority=10, preemption=bottom, default=True),
    ]


class Life:
    """Jobs run for a fixed time without those in which they are suspended."""

    def __init__(self, world: Scheduled, spans: dict[JobId, Micros]) -> None:
        self.world = world
        self.left = spans
        self.since: dict[JobId, Micros] = {}

    def settle(self) -> None:
        """Let hosts do at once what they are told."""
        controller = self.world.controller
        for job_id, job in list(controller.state.jobs.items()):
            attempt = (job.live or {}).get(0)
            if attempt is None:
                self.since.pop(job_id, None)
                continue
            if not attempt.started_at_us and attempt.end_cause == EndCause.NONE:
                report_started(controller, job_id)
                self.since[job_id] = controller.now_us
            if attempt.end_cause != EndCause.NONE:
                report_ended(controller, job_id, signal=15)
                self.since.pop(job_id, None)
            elif attempt.suspended != attempt.shall_stop:
                host = controller.state.hosts.names[attempt.hosts[0]]
                stopped = attempt.shall_stop
                report(controller, host, SuspensionSeen(job_id, 0, attempt.number, stopped))
                if stopped:
                    self.left[job_id] -= controller.now_us - self.since.pop(job_id)
                else:
                    self.since[job_id] = controller.now_us

    def next_end(self) -> tuple[Micros, JobId] | None:
        ends = [(at + max(self.left[job], 1), job) for job, at in self.since.items()]
        return min(ends, default=None)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    given_jobs=jobs,
    middle=st.sampled_from(["suspend", "requeue", "kill"]),
    bottom=st.sampled_from(["suspend", "requeue", "kill"]),
    most=st.integers(1, 3),
)
def test_every_job_ends_and_nobody_gives_way_upward_or_too_often(
    given_jobs: list[tuple[int, str, int, int]], middle: str, bottom: str, most: int
) -> None:
    hosts = [HostConfig(name="h1", slots=4, mem_mib=8), HostConfig(name="h2", slots=3, mem_mib=8)]
    controller = cluster(hosts, queues=queues(middle, bottom), preemptions_max=most)
    world, spans = Scheduled(controller), {}
    life = Life(world, spans)
    coming = [(at * UNIT + controller.now_us, place) for place, (at, *_) in enumerate(given_jobs)]
    heapq.heapify(coming)
    for _ in range(2_000):
        for _ in range(8):
            if world.run().is_empty:
                break
            life.settle()
        check_state(controller.state)
        end = life.next_end()
        if not coming and end is None:
            break
        if coming and (end is None or coming[0][0] <= end[0]):
            at_us, place = heapq.heappop(coming)
            controller.now_us = max(controller.now_us, at_us)
            _, queue, asks, span = given_jobs[place]
            job = submit(controller, submission(asks=ASKS[asks], queue=queue))
            spans[job] = span * UNIT
        else:
            assert end is not None
            controller.now_us = max(controller.now_us, end[0])
            life.since.pop(end[1])
            report_ended(controller, end[1])
    state = controller.state
    assert all(job.is_finished for job in state.jobs.values()), "somebody never ends"
    assert not state.hosts.used.any()
    assert not state.hosts.held.any()
    for job in state.jobs.values():
        assert max((job.preempted or {}).values(), default=0) <= most
    for entry in controller.entries:
        for record in entry.records:
            if isinstance(record, RoomHeld):
                mine = state.queues[state.classes[record.cls].key.queue].priority
                for victim in record.victims:
                    assert state.queues[state.key(state.jobs[victim.job]).queue].priority < mine
