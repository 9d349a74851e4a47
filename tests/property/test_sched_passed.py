"""Blocked classes are passed over many at once, and plans are those of sessions that try each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xce.model.command import ProposePlan
from xce.model.config import HostConfig, QueueConfig, ResourceConfig
from xce.model.request import Amount
from xce.sched import passed
from xce.sched.counts import Counts
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.testing.builders import (
    RecordedController,
    cluster,
    kill,
    report_ended,
    request,
    submission,
    submit,
)

numbers = st.integers(0, 9)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["submit", "submit", "session", "session", "lose", "end", "end", "fail", "kill"]
        ),
        numbers,
        numbers,
    ),
    min_size=20,
    max_size=120,
)


class World:
    """A small cluster, a memory that lives on, and how many were passed over."""

    def __init__(self, policy: str) -> None:
        hosts = [
            HostConfig(name=f"h{place}", slots=slots, mem_mib=mem, counters={"lic": 2})
            for place, (slots, mem) in enumerate(((1, 9), (2, 6), (3, 4), (1, 2)), 1)
        ]
        queues = [
            QueueConfig(name="normal", priority=30, default=True, exclusive=True),
            QueueConfig(name="urgent", priority=50, exclusive=True),
        ]
        self.controller: RecordedController = cluster(
            hosts,
            queues=queues,
            policy=policy,
            resources=(ResourceConfig(name="lic", kind="counter"),),
        )
        self.memory = Memory()
        self.heard = 0
        self.passed = 0

    def plan(self):
        controller = self.controller
        for entry in controller.entries[self.heard :]:
            self.memory.note(entry)
        self.heard = len(controller.entries)
        counts, many = Counts(), len(controller.state.waiting)
        plan = run_session(
            controller.state, now_us=controller.now_us, memory=self.memory, counts=counts
        )
        assert plan == run_session(controller.state, now_us=controller.now_us)
        self.passed += max(0, many - counts.classes)
        return plan

    def do(self, what: str, first: int, second: int) -> None:
        controller, state = self.controller, self.controller.state
        live = sorted(job.id for job in state.jobs.values() if job.live)
        match what:
            case "submit":
                amounts = [Amount("mem", first)] * bool(first) + [Amount("lic", 1)] * (second % 2)
                queue = "urgent" if second == 9 else "normal"
                asks = request(
                    1 + (second == 8), amounts=sorted(amounts), exclusive=second in (6, 9)
                )
                wanted = submission(
                    asks=asks, queue=queue, run_limit_us=(first * 7 + second % 2) % 5 * 1_000_000
                )
                submit(controller, wanted)
            case "end" | "fail" if live:
                job = live[first % len(live)]
                report_ended(controller, job, host_fault=what == "fail")
            case "kill" if state.jobs:
                kill(controller, sorted(state.jobs)[first % len(state.jobs)])
            case "lose":
                self.plan()
            case "session":
                controller.tell(ProposePlan(self.plan()), by="scheduler")


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed, "PASS_FROM", 1)


def live_through(life: list[tuple[str, int, int]], policy: str = "fcfs") -> World:
    world = World(policy)
    for step in life:
        world.do(*step)
    for _ in range(3):
        world.do("session", 0, 0)
    assert world.plan().is_empty
    return world


@settings(max_examples=250, derandomize=True, deadline=None)
@given(life=steps, policy=st.sampled_from(["fcfs", "sjf"]))
def test_plans_are_those_of_sessions_that_try_each(
    life: list[tuple[str, int, int]], policy: str
) -> None:
    live_through(life, policy)


def test_who_is_passed_over_still_stands_between_others() -> None:
    """Two jobs of one class with a blocked one between them are two starts, not one."""
    life = [("submit", 0, 0)] * 7 + [("session", 0, 0)]
    for _ in range(12):
        life += [("submit", 9, 0), ("submit", 8, 0), ("submit", 1, 0), ("submit", 7, 0)]
    life += [("session", 0, 0)] * 2 + [("end", 5, 0), ("end", 4, 0), ("end", 3, 0)]
    live_through([*life, ("session", 0, 0), ("session", 0, 0)])


@settings(max_examples=60, derandomize=True, deadline=None)
@given(life=steps, most=st.integers(0, 2))
def test_they_are_when_it_is_given_up_in_the_middle(
    life: list[tuple[str, int, int]], most: int
) -> None:
    before = passed._NOTES_MAX
    passed._NOTES_MAX = most
    try:
        live_through(life)
    finally:
        passed._NOTES_MAX = before


def test_most_are_passed_over() -> None:
    life = [("submit", 1 + place % 9, place % 8) for place in range(60)]
    life += [("session", 0, 0), ("end", 0, 0)] * 12
    assert live_through(life).passed > 200
