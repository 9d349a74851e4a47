"""When a job starts if all goes as expected: the state run forward, session by session.

It is the controller and the sessions of life on a clock that jumps from one expected end to the
next. Every job ends well when its run limit (or estimate) is over; a host that is away stays away.
Where there is much to do, ends that are close to each other, as seen from now, are one step.
"""

import heapq
from typing import Final, NamedTuple

import msgspec

from xce.advice.trials import Element, Start, find_start
from xce.control.controller import Controller, Input
from xce.control.due import next_due_us
from xce.model.command import Command, ProposePlan, Tick
from xce.model.ids import HostNumber, JobId, Micros, Seq
from xce.model.job import EndCause, Phase
from xce.model.observation import (
    AttemptEnded,
    AttemptStarted,
    Observation,
    Reported,
    SuspensionSeen,
)
from xce.sched.counts import Counts
from xce.sched.policy import FIRST_COME, Policy
from xce.sched.running import FAR, expected_end
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.state.cluster import ClusterState

STEPS_MAX: Final = 2_000
"""Most sessions that are run."""
WORK_MAX: Final = 25_000_000
"""Most host rows, and a hundred times as many as classes, that all of them may look at."""
_EXACT_WORK: Final = WORK_MAX // 10
"""With so much work done ends are taken together."""
_TOGETHER: Final = 16
"""Those within this part of the time that has passed."""
_CLASS_WORK: Final = 100
_REQUEUED: Final = 143


class Forecast(msgspec.Struct, frozen=True):
    """When an element is expected to start."""

    at_us: Micros = 0
    """0: nobody knows."""
    start: Start | None = None
    is_cut: bool = False
    """So much happens before that it was not followed to its start."""
    until_us: Micros = 0
    """It does not start before; so far was followed."""
    ends: int = 0
    """How many attempts end before it starts."""


def forecast(
    state: ClusterState,
    element: Element,
    now_us: Micros,
    *,
    policy: Policy = FIRST_COME,
    steps_max: int = STEPS_MAX,
) -> Forecast:
    """Return when an element is expected to start.

    The state is run forward: hand over a copy that nobody needs.
    """
    run = _Run(state, max(now_us, state.now_us), policy)
    for _ in range(steps_max):
        run.settle()
        start = run.plan(element)
        if start is not None:
            return Forecast(run.now_us, start, until_us=run.now_us, ends=run.ends)
        if not run.jump(element):
            return Forecast(until_us=run.now_us, ends=run.ends)
        if run.is_tired:
            break
    return Forecast(is_cut=True, until_us=run.now_us, ends=run.ends)


class _End(NamedTuple):
    """When an attempt is expected to end."""

    at_us: Micros
    job: JobId
    position: int
    attempt: int


class _Run:
    """A state that is run forward."""

    def __init__(self, state: ClusterState, now_us: Micros, policy: Policy) -> None:
        self.now_us = self._begun_us = now_us
        self.ends = 0
        self._state = state
        self._controller = Controller(state)
        self._memory = Memory()
        self._policy = policy
        self._counts = Counts()
        self._ending: list[_End] = []
        self._idle_due: tuple[Seq, Micros] = (0, 0)
        """A due instant at which nothing came of a tick."""
        for places in state.on_host.values():
            for place in places:
                self._foresee(*place)

    @property
    def _work(self) -> int:
        return self._counts.host_rows + self._counts.classes * _CLASS_WORK

    @property
    def is_tired(self) -> bool:
        """Whether enough work was done."""
        return self._work >= WORK_MAX

    def plan(self, element: Element) -> Start | None:
        """Run a session, have its plan taken; return how the element starts in it."""
        plan = run_session(
            self._state,
            now_us=self.now_us,
            memory=self._memory,
            policy=self._policy,
            counts=self._counts,
        )
        start = find_start(plan, self._state, element)
        if start is None and not plan.is_empty:
            self._tell(ProposePlan(plan))
            self.settle()
        return start

    def settle(self) -> None:
        """Let hosts do at once what they owe: start, suspend and end attempts."""
        state = self._state
        for number in [number for number, owed in state.owed.items() if owed]:
            if not state.hosts.is_up[number]:
                continue
            started, suspended, ended = [], [], []
            places = list(state.owed[number])
            for job_id, position in places:
                attempt = state.attempt(job_id, position)
                assert attempt is not None, f"element {position} of job {job_id} is not live"
                name = job_id, state.jobs[job_id].index(position), attempt.number
                if attempt.end_cause != EndCause.NONE:
                    code = _REQUEUED if attempt.requeue else 0
                    ended.append(AttemptEnded(*name, exit_code=code))
                    continue
                if attempt.phase == Phase.STARTING:
                    started.append(AttemptStarted(*name))
                if attempt.suspended != attempt.shall_stop:
                    suspended.append(SuspensionSeen(*name, attempt.shall_stop))
            self.ends += len(ended)
            host = state.hosts.names[number]
            self._tell(Reported(host, 1, tuple(started), tuple(ended), tuple(suspended)))
            for place in places:
                self._foresee(*place)

    def jump(self, element: Element) -> bool:
        """Go to the next instant at which anything happens; return whether there is one."""
        state = self._state
        job = state.jobs.get(element[0])
        if job is None or job.is_finished:
            return False
        while self._ending and not self._is_true(self._ending[0]):
            heapq.heappop(self._ending)
        instants = [self._ending[0].at_us] if self._ending else []
        due_us = next_due_us(state)
        if due_us and (state.seq, due_us) != self._idle_due:
            instants.append(due_us)
        if not instants:
            return False
        # What is overdue ends any moment.
        self.now_us = max(min(instants), self.now_us + 1)
        if self._work >= _EXACT_WORK:
            self.now_us += (self.now_us - self._begun_us) // _TOGETHER
        self._end()
        seq, due_us = state.seq, next_due_us(state)
        self._tell(Tick())
        if state.seq == seq:
            self._idle_due = seq, due_us
        return True

    def _foresee(self, job_id: JobId, position: int) -> None:
        """Note when a live attempt is expected to end."""
        state = self._state
        attempt = state.attempt(job_id, position)
        if attempt is None or not state.hosts.is_up[attempt.hosts[0]]:
            return
        at_us = expected_end(state.classes[attempt.cls], attempt)
        if at_us < FAR:
            heapq.heappush(self._ending, _End(at_us, job_id, position, attempt.number))

    def _is_true(self, end: "_End") -> bool:
        """Return whether an attempt still is expected to end then."""
        attempt = self._state.attempt(end.job, end.position)
        if attempt is None or attempt.number != end.attempt:
            return False
        return expected_end(self._state.classes[attempt.cls], attempt) == end.at_us

    def _end(self) -> None:
        """Let all attempts end whose time has come."""
        state = self._state
        by_host: dict[HostNumber, list[AttemptEnded]] = {}
        while self._ending and self._ending[0].at_us <= self.now_us:
            end = heapq.heappop(self._ending)
            if not self._is_true(end):
                continue
            attempt = state.attempt(end.job, end.position)
            assert attempt is not None, "it is still expected to end"
            index = state.jobs[end.job].index(end.position)
            ended = AttemptEnded(end.job, index, end.attempt)
            by_host.setdefault(attempt.hosts[0], []).append(ended)
        for number, items in by_host.items():
            self._tell(Reported(state.hosts.names[number], 1, ended=tuple(dict.fromkeys(items))))
            self.ends += len(items)

    def _tell(self, body: Command | Observation) -> None:
        controller = self._controller
        given = [Input(body)]
        while given or controller.has_more:
            step = controller.step(given, self.now_us)
            given = []
            for entry in step.entries:
                self._memory.note(entry)
