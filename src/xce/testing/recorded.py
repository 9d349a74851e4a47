"""A controller for tests that has a clock of its own and keeps everything it gave."""

from collections.abc import Iterable, Sequence
from typing import Final

from xce.control.controller import Controller, Input, Step
from xce.model.command import Accepted, Command, ProposePlan
from xce.model.effect import Effect
from xce.model.entry import Entry
from xce.model.ids import SECOND_US, Index, JobId, Micros
from xce.model.observation import Observation
from xce.model.plan import Plan
from xce.model.record import SessionRan
from xce.model.refusal import Refusal
from xce.state.apply import apply
from xce.state.check import check_not_over_committed, check_state
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job
from xce.state.snapshot import digest, dump, load

START_US: Final = 1_700_000_000 * SECOND_US
"""The instant at which a built cluster begins."""


class RecordedController(Controller):
    """A controller with a clock of its own that keeps everything it gave."""

    def __init__(self, state: ClusterState, *, now_us: Micros = START_US) -> None:
        super().__init__(state)
        self.now_us = now_us
        self.entries: list[Entry] = []
        self.steps: list[Step] = []
        self._tickets = 0

    def step(self, inputs: Sequence[Input], now_us: Micros) -> Step:
        """Decide as `Controller.step` and keep the step."""
        self.now_us = now_us
        step = super().step(inputs, now_us)
        self.steps.append(step)
        self.entries.extend(step.entries)
        return step

    @property
    def last(self) -> Step:
        """The step made last."""
        return self.steps[-1]

    def tell(
        self,
        body: Command | Observation,
        *,
        by: str = "",
        basis: str = "owner",
        after_us: Micros = 1_000,
    ) -> tuple[Accepted | Refusal, ...]:
        """Give one input ``after_us`` later, let its slices be decided, return its results."""
        self._tickets += 1
        ticket = self._tickets
        step = self.step([Input(body, by, basis, ticket)], self.now_us + after_us)
        while not any(reply.ticket == ticket for reply in step.replies):
            assert self.has_more, "an input got no reply"
            step = self.step([], self.now_us + 1)
        return next(reply.results for reply in step.replies if reply.ticket == ticket)

    def effects(self, since: int = -1) -> list[tuple[str, Effect]]:
        """Return what hosts were told in the steps from ``since`` on: ``(host, effect)``."""
        return [
            (self.state.hosts.names[number], effect)
            for step in self.steps[since:]
            for number, effects in step.effects
            for effect in effects
        ]

    def job(self, job_id: JobId) -> Job:
        """Return a job of the state."""
        return self.state.jobs[job_id]

    def attempt(self, job_id: JobId, index: Index = 0) -> Attempt:
        """Return the live attempt of an element; it must have one."""
        job = self.state.jobs[job_id]
        position = job.position(index)
        assert position is not None, f"job {job_id} has no element {index}"
        attempt = self.state.attempt(job_id, position)
        assert attempt is not None, f"element {index} of job {job_id} is not live"
        return attempt


def replayed(entries: Iterable[Entry]) -> ClusterState:
    """Return the state that ``entries`` make of nothing."""
    state = ClusterState()
    for entry in entries:
        apply(state, entry)
    return state


def accept_plan(controller: RecordedController, plan: Plan) -> None:
    """Let a controller take a plan, which must hold as a whole."""
    before = len(controller.entries)
    controller.tell(ProposePlan(plan), by="scheduler")
    for entry in controller.entries[before:]:
        for record in entry.records:
            assert not isinstance(record, SessionRan) or record.stale == 0, plan
    check_state(controller.state)
    check_not_over_committed(controller.state)


def check_whole(controller: RecordedController) -> None:
    """Check that the state holds together, and is what its entries and its snapshot make."""
    state = controller.state
    check_state(state)
    assert digest(replayed(controller.entries)) == digest(state)
    assert digest(load(dump(state))) == digest(state)
