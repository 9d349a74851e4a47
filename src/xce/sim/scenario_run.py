"""A scenario lived through: the real controller, state and sessions on a virtual clock.

Time jumps from one instant at which something happens to the next. Sessions run at multiples of
the session interval, before the events of the same instant; what happens at t is seen by the next
session after t. At one instant: ends of jobs, what became due, submissions, events, looks.
"""

import contextlib
import hashlib
import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Final, Protocol

import msgspec

from xce.apiserver.identity import Caller
from xce.apiserver.problems import Problem, ProblemError, from_refusal
from xce.apiserver.spec_body import members_of, read_body_spec
from xce.apiserver.submission import SubmissionCompiler
from xce.apiserver.submission_body import SubmissionBody
from xce.calendars.windows import Resolver
from xce.control.accept import plan_digest
from xce.control.controller import Controller, Input, Step
from xce.control.due import next_due_us
from xce.journal.trace_recorder import Recorder
from xce.model.command import (
    Accepted,
    ApplyConfig,
    Command,
    ProposePlan,
    SetHostsOpen,
    SubmitJobs,
    Tick,
)
from xce.model.effect import Launch
from xce.model.ids import Index, JobId, Micros
from xce.model.job import Owner
from xce.model.load import INDICES
from xce.model.observation import LoadSeen, Observation
from xce.model.refusal import Refusal, RefusalCode
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.sim.placements import Placements
from xce.sim.scenario import PlannedEvent, PlannedJob, Scenario
from xce.sim.scenario_host import Element, ScenarioHost
from xce.state.cluster import ClusterState

ADMIN: Final = "root"
_IN_VAIN_MAX: Final = 3
_TICKS_MAX: Final = 500
"""Ticks in a row, with nothing else to come, that give no session anything to decide. Run windows
open and close for ever."""
_ENDS, _DUE, _SUBMITS, _EVENTS, _LOOKS = range(5)
"""The order of what happens at one instant."""


class Words(Protocol):
    """Reads command lines, as the commands do."""

    def submission(
        self, line: str, *, now_us: Micros, unit: str
    ) -> tuple[dict[str, object], list[str]]:
        """Return the body of a submit request, and the queues to try in order (none: default).

        Raises:
            WordsError: ``bsub`` would refuse the line.
        """
        ...

    def command(self, line: str, *, user: str, is_admin: bool, ids: dict[str, JobId]) -> Command:
        """Return what another command asks for; ``ids`` are the scenario's names of jobs.

        Raises:
            WordsError: The command would refuse the line.
        """
        ...


class WordsError(Exception):
    """A command line would be refused before it is sent; the text says why."""


class Outcome(msgspec.Struct):
    """What became of a submission."""

    planned: PlannedJob
    job: JobId = 0
    """0: not submitted, or refused."""
    refusal: Problem | None = None
    warning: str = ""
    at_us: Micros | None = None


class ScenarioRun:
    """One life of a scenario.

    Args:
        scenario: What happens.
        words: Reads command lines.
        seed: From which run times are drawn where a span is given for them.
        hear: Is given every step of the controller, e.g. to keep its entries.
        state: Where it begins; None: with nothing.
        recorder: Traces the sessions.
    """

    def __init__(
        self,
        scenario: Scenario,
        words: Words,
        *,
        seed: int = 0,
        hear: Callable[[Step], None] = lambda _: None,
        state: ClusterState | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.scenario = scenario
        self.controller = Controller(state or ClusterState())
        self.placements = Placements()
        self.outcomes = {job.id: Outcome(job) for job in scenario.jobs}
        self.commands: list[dict[str, object]] = []
        """What the given commands came to."""
        self.sessions = 0
        self.events = 0
        self.now_us: Micros = 0
        """From the scenario's 0."""
        self._words = words
        self._rng = Random(seed)
        self._hear = hear
        self._recorder = recorder
        self._memory = Memory()
        self._compiler = SubmissionCompiler(host="sim")
        self._digest = hashlib.blake2b(digest_size=16)
        self._calendar: list[tuple[Micros, int, int, Callable[[], None]]] = []
        self._count = 0
        self._resolver = Resolver()
        self.hosts = {host.name: ScenarioHost(host.name) for host in scenario.config.hosts}
        self.planned: dict[JobId, PlannedJob] = {}
        """What is known of the jobs that were taken, by their number."""
        self._owners: dict[str, Owner] = {}
        self._ended: dict[str, ScenarioHost] = {}
        """Hosts with ends that are not told yet."""
        self._in_vain = 0
        """Sessions in a row that gave nothing."""
        self._ticks = 0
        """Ticks in a row that led to nothing, while nothing else is to come."""
        self._idle_due: tuple[int, Micros] = (0, 0)
        """State and instant for which a tick brought nothing."""

    @property
    def state(self) -> ClusterState:
        """What is true now."""
        return self.controller.state

    @property
    def digest(self) -> str:
        """A hash of all plans so far."""
        return self._digest.hexdigest()

    @property
    def ids(self) -> dict[str, JobId]:
        """The numbers of the jobs that were taken, by their name in the scenario."""
        return {name: outcome.job for name, outcome in self.outcomes.items() if outcome.job}

    def at(self, at_us: Micros, look: Callable[[], None]) -> None:
        """Have ``look`` called at an instant, behind all that happens then."""
        self._put(at_us, _LOOKS, look)

    def run(self) -> None:
        """Live through it."""
        scenario = self.scenario
        self.begin()
        for job in scenario.jobs:
            self._put(job.at_us, _SUBMITS, partial(self._submit, job))
        for event in scenario.events:
            self._put(event.at_us, _EVENTS, partial(self._happen, event))
        until_us = scenario.until_us
        while True:
            at_us, is_session = self._next()
            if at_us is None or (until_us is not None and at_us > until_us):
                break
            self.now_us = at_us
            self._ticks = 0 if self._calendar else self._ticks + 1
            if is_session:
                self._session()
            self._live_instant()
        if until_us is not None:
            self.now_us = until_us

    def begin(self) -> None:
        """Put the configuration in effect and let the hosts come."""
        self.tell(ApplyConfig(ADMIN, self.scenario.config, is_admin=True), by=ADMIN, basis="admin")
        for host in self.hosts.values():
            if not host.is_up and host.name not in self.scenario.down:
                self.tell(host.join(), by=f"host {host.name}", basis="component")

    def _next(self) -> tuple[Micros | None, bool]:
        """Return when something happens next, and whether a session runs then."""
        instants = [self._calendar[0][0]] if self._calendar else []
        due_us = next_due_us(self.state)
        is_idle_due = (self.state.seq, due_us) == self._idle_due or self._is_over()
        if due_us and not is_idle_due:
            instants.append(max(due_us - self.scenario.zero_us, self.now_us))
        session_us = self._next_session(is_quiet=not instants)
        if session_us is not None:
            instants.append(session_us)
        if not instants:
            return None, False
        return min(instants), min(instants) == session_us

    def _is_over(self) -> bool:
        """Return whether ticks alone are left, and will lead to nothing."""
        if self._calendar or self._memory.is_due:
            return False
        if self._ticks > _TICKS_MAX:
            return True
        return all(job.is_finished for job in self.state.jobs.values())

    def _next_session(self, *, is_quiet: bool) -> Micros | None:
        """Return when the next session is worth running, or None.

        Where nothing else will happen, time alone is given up on after some sessions in vain.
        """
        interval_us = self.scenario.interval_us
        following = (self.now_us // interval_us + 1) * interval_us
        if self._memory.is_due:
            return following
        look_us = self._memory.look_at_us - self.scenario.zero_us
        if not self._memory.look_at_us or (is_quiet and self._in_vain >= _IN_VAIN_MAX):
            return None
        return max(following, -(-look_us // interval_us) * interval_us)

    def _session(self) -> None:
        """Run a session and have its plan taken."""
        self.sessions += 1
        trace = self._recorder.open() if self._recorder is not None else None
        plan = run_session(self.state, now_us=self._clock_us(), memory=self._memory, trace=trace)
        if self._recorder is not None and trace is not None:
            self._recorder.keep(trace)
        self._in_vain += 1
        if not plan.is_empty:
            self._in_vain = self._ticks = 0
            self._digest.update(plan_digest(plan).encode())
            self.tell(ProposePlan(plan), by="scheduler", basis="component")

    def _live_instant(self) -> None:
        """Let happen what happens now."""
        windows = self._resolver.due(self.state, self._clock_us())
        if windows is not None:
            self.tell(windows, by="", basis="")
        due_us = next_due_us(self.state)
        if due_us and due_us <= self._clock_us():
            self._put(self.now_us, _DUE, self._tick)
        while self._calendar and self._calendar[0][0] <= self.now_us:
            kind = self._calendar[0][1]
            if kind != _ENDS and self._ended:
                self._report_ends()
                continue
            heapq.heappop(self._calendar)[3]()
        if self._ended:
            self._report_ends()

    def _clock_us(self) -> Micros:
        return self.scenario.zero_us + self.now_us

    def _put(self, at_us: Micros, kind: int, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._calendar, (at_us, kind, self._count, call))

    # What is told to the controller, and what it tells.

    def tell(
        self, *bodies: Command | Observation, by: str, basis: str
    ) -> tuple[Accepted | Refusal, ...]:
        """Have inputs decided; return the results of the last one."""
        inputs = [Input(body, by, basis, ticket=1) for body in bodies]
        step = self._step(inputs)
        results = step.replies[-1].results if step.replies else ()
        while self.controller.has_more:
            step = self._step([])
            results = step.replies[-1].results if step.replies else results
        return results

    def _step(self, inputs: Sequence[Input]) -> Step:
        step = self.controller.step(inputs, self._clock_us())
        for entry in step.entries:
            self._memory.note(entry)
            self.placements.note(self.state, entry)
        self._hear(step)
        told: list[ScenarioHost] = []
        for number, effects in step.effects:
            host = self.hosts.get(self.state.hosts.names[number])
            if host is None or not host.is_up:
                continue
            for effect in effects:
                if isinstance(effect, Launch):
                    self._launch(host, effect)
                else:
                    host.take(effect, self.now_us)
            told.append(host)
        self.report(told)
        return step

    def report(self, hosts: Iterable[ScenarioHost]) -> None:
        """Let hosts report, and put the ends that they foresee on the calendar."""
        inputs: list[Input] = []
        for host in hosts:
            news = host.report()
            if news is not None:
                inputs.append(Input(news, f"host {host.name}", "component"))
            for at_us, element, turn in host.ends:
                self._put(at_us, _ENDS, partial(self._end, host, element, turn))
            host.ends.clear()
        if inputs:
            self._step(inputs)

    def _launch(self, host: ScenarioHost, effect: Launch) -> None:
        planned = self.planned[effect.job]
        runs_us: list[Micros | None] = [self._draw_run(planned) for _ in effect.indices]
        host.launch(effect, planned, runs_us, self.now_us)

    def _draw_run(self, planned: PlannedJob) -> Micros | None:
        if planned.most_us is None or planned.most_us == planned.least_us:
            return planned.most_us
        return self._rng.randint(planned.least_us, planned.most_us)

    # Events.

    def _end(self, host: ScenarioHost, element: Element, turn: int) -> None:
        if host.end_due(element, turn):
            self.events += 1
            self._ended[host.name] = host

    def _report_ends(self) -> None:
        ended, self._ended = self._ended, {}
        self.report(ended.values())

    def _tick(self) -> None:
        seq, due_us = self.state.seq, next_due_us(self.state)
        self.tell(Tick(), by="", basis="")
        if self.state.seq == seq:
            self._idle_due = (seq, due_us)
        else:
            self.events += 1

    def _owner(self, user: str) -> Owner:
        number = 1_000 + len(self._owners)
        return self._owners.setdefault(user, Owner(user, number, number))

    def _is_admin(self, user: str) -> bool:
        return user == ADMIN or user in self.state.config.admins

    def _submit(self, planned: PlannedJob) -> None:
        self.events += 1
        outcome = self.outcomes[planned.id]
        outcome.at_us = self.now_us
        if planned.spec:
            self._submit_to(outcome, spec_body(planned))
            return
        try:
            body, queues = self._words.submission(
                planned.submit,
                now_us=self._clock_us(),
                unit=self.state.config.lsf_unit_for_limits,
            )
        except WordsError as error:
            outcome.refusal = from_refusal(Refusal(RefusalCode.BAD_REQUEST, str(error)))
            return
        body.setdefault("name", planned.id)
        for queue in queues or [""]:
            outcome.refusal = None
            if self._submit_to(outcome, {**body, "queue": queue}):
                return

    def _submit_to(self, outcome: Outcome, body: dict[str, object]) -> bool:
        """Submit to one queue; return whether the job was taken."""
        user = outcome.planned.user
        caller = Caller(self._owner(user), self._is_admin(user))
        try:
            compiled = self._compiler.compile(
                msgspec.convert(body, SubmissionBody), caller, self.state.config
            )
        except ProblemError as error:
            outcome.refusal = error.problem
            return False
        except msgspec.ValidationError as error:
            outcome.refusal = from_refusal(Refusal(RefusalCode.BAD_REQUEST, str(error)))
            return False
        self.planned[self.state.next_job] = outcome.planned
        command = SubmitJobs(caller.owner, (compiled.submission,), compiled.blobs)
        basis = "admin" if caller.is_admin else "owner"
        (result,) = self.tell(command, by=user, basis=basis)
        if isinstance(result, Refusal):
            outcome.refusal = from_refusal(result)
            return False
        outcome.job, outcome.warning = result.job, result.warning
        return True

    def _happen(self, event: PlannedEvent) -> None:
        self.events += 1
        if event.command:
            self._command(event)
        elif event.pool:
            config = self.state.config
            pools = tuple(
                msgspec.structs.replace(pool, total=event.total)
                if pool.name == event.pool
                else pool
                for pool in config.pools
            )
            self.tell(
                ApplyConfig(ADMIN, msgspec.structs.replace(config, pools=pools), is_admin=True),
                by=ADMIN, basis="admin",
            )  # fmt: skip
        elif event.load is not None:
            self.tell(self._measured(event.hosts, event.load), by="", basis="component")
        else:
            self._change_hosts(event)

    def _measured(self, names: tuple[str, ...], load: dict[str, int]) -> LoadSeen:
        """Return what hosts measure when some indices have changed."""
        table = self.state.hosts
        rows = [table.load[:, table.number[name]].tolist() for name in names]
        samples = [
            tuple(load.get(index, known) for index, known in zip(INDICES, row, strict=True))
            for row in rows
        ]
        return LoadSeen(names, tuple(samples))

    def _change_hosts(self, event: PlannedEvent) -> None:
        match event.state:
            case "down":
                for name in event.hosts:
                    if self.hosts[name].is_up:
                        self.tell(self.hosts[name].leave(), by=f"host {name}", basis="component")
            case "up" | "ok" as word:
                if word == "ok":
                    self.tell(
                        SetHostsOpen(ADMIN, event.hosts, True, is_admin=True),
                        by=ADMIN,
                        basis="admin",
                    )
                for name in event.hosts:
                    if not self.hosts[name].is_up:
                        self.tell(self.hosts[name].join(), by=f"host {name}", basis="component")
            case word:
                comment = "" if word == "closed" else word
                self.tell(
                    SetHostsOpen(ADMIN, event.hosts, False, comment, is_admin=True),
                    by=ADMIN,
                    basis="admin",
                )

    def _command(self, event: PlannedEvent) -> None:
        is_admin = self._is_admin(event.user)
        results: list[str] = []
        try:
            command = self._words.command(
                event.command, user=event.user, is_admin=is_admin, ids=self.ids
            )
        except WordsError as error:
            results.append(str(error))
        else:
            basis = "admin" if is_admin else "owner"
            for item in self.tell(command, by=event.user, basis=basis):
                results.append(item.text)
        self.commands.append(
            {
                "at": self.now_us / 1_000_000,
                "do": event.command,
                "as": event.user,
                "results": results,
            }
        )


def spec_body(planned: PlannedJob) -> dict[str, object]:
    """Return the submission of a jobspec; what it leaves out is of no interest to a scenario."""
    body: dict[str, object] = {"spec": planned.spec, "spec_name": f"spec of job {planned.id}"}
    with contextlib.suppress(ProblemError):
        members = members_of(read_body_spec(planned.spec, ""))
        if not {"command", "script"} & set(members):
            body["command"] = "true"
        if "name" not in members:
            body["name"] = planned.id
    return body


def element_name(job: str, index: Index) -> str:
    """Return ``job`` or ``job[3]``."""
    return f"{job}[{index}]" if index else job
