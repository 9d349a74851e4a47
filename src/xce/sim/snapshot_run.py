"""What would happen next on a cluster: its state, run on with what is believed of its jobs.

Nothing of the cluster is touched. A job is believed to run as long as its estimate (``-We``) says,
else to its run limit, else without end.
"""

from typing import Any

import msgspec

from xce.journal.interface import JournalReader
from xce.journal.recover import recover
from xce.model.ids import Micros
from xce.model.job import Phase
from xce.model.observation import AttemptStarted, Reported
from xce.sim.placements import Placement
from xce.sim.scenario import PlannedJob, Scenario
from xce.sim.scenario_expect import Looks
from xce.sim.scenario_host import Live, ScenarioHost
from xce.sim.scenario_rows import render_run
from xce.sim.scenario_run import Outcome, ScenarioRun, Words
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.job import Attempt, Job
from xce.state.snapshot import dump, load


def load_state(reader: JournalReader) -> ClusterState:
    """Return the state at the end of a journal; its controller may go on.

    Raises:
        CorruptJournalError: It is damaged.
        JournalTroubleError: It cannot be read for now.
    """
    state, _, _ = recover(reader, restore=load, empty=ClusterState, apply_entry=apply)
    return state


def run_snapshot(
    state: ClusterState,
    words: Words,
    change: Scenario | None,
    *,
    seed: int = 0,
    now_us: Micros = 0,
) -> dict[str, Any]:
    """Run a state on, with a change and without, and return the object that tells of it.

    With a change the run without it is its member ``baseline``.

    Args:
        state: Where it begins.
        words: Reads command lines.
        change: What is otherwise, and what happens besides; None: nothing.
        seed: From which run times are drawn where a span is given for them.
        now_us: What the time is, if that is later than the state's last instant.
    """
    zero_us = max(state.now_us, now_us, 1)
    parts = dump(state)
    plain = Scenario(name="snapshot", config=state.config, zero_us=zero_us)
    baseline = _run(load(parts), words, plain, seed=seed)
    if change is None:
        return baseline
    change = msgspec.structs.replace(change, zero_us=zero_us)
    document = _run(load(parts), words, change, seed=seed)
    document["baseline"] = baseline
    return document


def _run(state: ClusterState, words: Words, scenario: Scenario, *, seed: int) -> dict[str, Any]:
    run = SnapshotRun(state, scenario, words, seed=seed)
    looks = Looks(run)
    run.run()
    return render_run(run, looks.results())


class SnapshotRun(ScenarioRun):
    """A scenario that begins with a state; its 0 is not before the state's last instant."""

    def __init__(
        self, state: ClusterState, scenario: Scenario, words: Words, *, seed: int = 0
    ) -> None:
        super().__init__(scenario, words, seed=seed, state=state)
        given, self.outcomes = self.outcomes, {}
        for job in state.jobs.values():
            if not job.is_finished:
                self._take_over(job)
        self.outcomes.update(given)
        table = state.hosts
        for number, name in enumerate(table.names):
            host = ScenarioHost(
                name,
                cpus=table.cpus[number] or 1,
                mem_mib=table.mem_mib[number],
                boot_id=table.boot_ids[number],
            )
            host.is_up = bool(table.is_up[number])
            self.hosts[name] = host

    def begin(self) -> None:
        """Let the running go on, then put the configuration in effect."""
        started: dict[str, list[AttemptStarted]] = {}
        known = set(self.state.hosts.names)
        for job in self.state.jobs.values():
            for position, attempt in (job.live or {}).items():
                self._go_on(job, position, attempt, started)
        self.report([host for host in self.hosts.values() if host.is_up])
        for name, items in started.items():
            self.tell(Reported(name, 1, tuple(items)), by=f"host {name}", basis="component")
        away = {name for name in known if not self.hosts[name].is_up}
        self.scenario = msgspec.structs.replace(
            self.scenario, down=self.scenario.down | frozenset(away)
        )
        super().begin()

    def _take_over(self, job: Job) -> None:
        """Note an unfinished job and what is believed of its run time."""
        key = self.state.key(job)
        span_us = key.estimate_us or key.run_limit_us
        planned = PlannedJob(
            id=str(job.id),
            line=0,
            at_us=0,
            submit="",
            user=job.owner.user,
            least_us=span_us,
            most_us=span_us or None,
        )
        self.planned[job.id] = planned
        at_us = job.submit_at_us - self.scenario.zero_us
        self.outcomes[planned.id] = Outcome(planned, job.id, at_us=at_us)

    def _go_on(
        self, job: Job, position: int, attempt: Attempt, started: dict[str, list[AttemptStarted]]
    ) -> None:
        """Let an attempt run on as long as is believed."""
        name = self.state.hosts.names[attempt.hosts[0]]
        host, index = self.hosts[name], job.index(position)
        self.placements.adopt(self.state, job.id, index, _placement(attempt))
        if not host.is_up:
            return
        begun_us = attempt.started_at_us or self.state.now_us
        if attempt.phase == Phase.STARTING:
            started.setdefault(name, []).append(AttemptStarted(job.id, index, attempt.number))
        live = Live(
            attempt.number,
            self._left_us(self.planned[job.id].most_us, begun_us),
            self._left_us(self.state.key(job).run_limit_us or None, begun_us),
            since_us=0,
            exit_code=0,
            suspended=attempt.suspended,
            signals=len(attempt.signals),
        )
        host.adopt((job.id, index), live)

    def _left_us(self, span_us: Micros | None, begun_us: Micros) -> Micros | None:
        """Return how much of a span is left; what is over its time may end any moment."""
        return None if span_us is None else max(0, begun_us + span_us - self.scenario.zero_us)


def _placement(attempt: Attempt) -> Placement:
    return Placement(
        attempt.cls,
        attempt.number,
        attempt.placed_at_us,
        tuple(attempt.hosts),
        tuple(attempt.tasks),
        tuple(attempt.parts),
        attempt.alternative,
    )
