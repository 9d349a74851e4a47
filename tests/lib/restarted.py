"""A scenario whose controller is stopped and started again at chosen events, from its journal."""

from collections.abc import Callable
from random import Random

from xce.control.controller import Controller, Step
from xce.journal.batch import make_batch
from xce.journal.codec import FIRST_CRC, decode_batch
from xce.journal.interface import StoredBatch
from xce.model.command import Accepted, Command
from xce.model.observation import AttemptSeen, HostJoined, Observation, ReignBegan
from xce.model.refusal import Refusal
from xce.sched.waiting import Memory
from xce.sim.scenario import Scenario
from xce.sim.scenario_host import ScenarioHost
from xce.sim.scenario_rows import elements
from xce.sim.scenario_run import ScenarioRun, Words
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import digest, dump, load

SNAPSHOT_EVERY = 40
"""Batches."""


class RestartedRun(ScenarioRun):
    """Stops the controller after events.

    Args:
        scenario: What happens.
        words: Reads command lines.
        stops: Whether to stop after the event of this number, from 1.
        with_scheduler: The scheduler forgets, too, what it knew.
    """

    def __init__(
        self,
        scenario: Scenario,
        words: Words,
        *,
        stops: Callable[[int], bool],
        with_scheduler: bool,
    ) -> None:
        super().__init__(scenario, words, hear=self._store)
        self.restarts = 0
        self.happened = 0
        self._stops = stops
        self._with_scheduler = with_scheduler
        self._depth = 0
        self._batches: list[StoredBatch] = []
        self._crc = FIRST_CRC
        self._parts: list[bytes] = []

    def _store(self, step: Step) -> None:
        if step.entries:
            self._batches.append(make_batch(step.entries, crc_before=self._crc))
            self._crc = self._batches[-1].crc

    def tell(
        self, *bodies: Command | Observation, by: str, basis: str
    ) -> tuple[Accepted | Refusal, ...]:
        self._depth += 1
        results = super().tell(*bodies, by=by, basis=basis)
        self._depth -= 1
        self._note_event()
        return results

    def _report_ends(self) -> None:
        self._depth += 1
        super()._report_ends()
        self._depth -= 1
        self._note_event()

    def _note_event(self) -> None:
        if self._depth == 0:
            self.happened += 1
            if self._stops(self.happened):
                self._restart()

    def _restart(self) -> None:
        """End the controller and begin another reign: the hosts and their jobs live on."""
        self.restarts += 1
        state = self._recover()
        assert digest(state) == digest(self.state)
        self.controller = Controller(state)
        if self._with_scheduler:
            self._memory = Memory()
        self._depth += 1
        super().tell(ReignBegan(), by="controller", basis="component")
        for host in self.hosts.values():
            if host.is_up:
                super().tell(_rejoin(host), by=f"host {host.name}", basis="component")
        self._depth -= 1

    def _recover(self) -> ClusterState:
        state = load(self._parts) if self._parts else ClusterState()
        for batch in self._batches:
            entries, _ = decode_batch(
                batch.content, previous_crc=batch.crc_before, expected_seq=batch.first
            )
            for entry in entries:
                apply(state, entry)
        if len(self._batches) > SNAPSHOT_EVERY:
            self._parts, self._batches = list(dump(state)), []
            state = load(self._parts)
        return state


def _rejoin(host: ScenarioHost) -> HostJoined:
    attempts = tuple(
        AttemptSeen(job, index, one.attempt, running=True)
        for (job, index), one in host.live.items()
    )
    boot = f"{host.name}-{host._boots}"
    return HostJoined(host.name, boot, cpus=1, mem_mib=0, attempts=attempts, version="sim")


def schedule_of(run: ScenarioRun) -> list[tuple[object, ...]]:
    """Return what became of each element: where and when it ran, in which attempt, how it ended."""
    return [
        (
            one.id, one.index, one.stat, one.submit_us, one.start_us, one.end_us, one.attempt,
            one.exit_code, tuple(one.slots_by_host(run).items()),
        )
        for outcome in run.outcomes.values()
        for one in elements(run, outcome)
    ]  # fmt: skip


def draw_scenario(rng: Random) -> str:
    """Return a scenario with a bit of everything, as text."""
    hosts = rng.randint(1, 3)
    slots = rng.choice((2, 4))
    low = f"policy: {rng.choice(('fcfs', 'sjf', 'fairshare'))}"
    low += f", backfill: {rng.choice(('none', 'easy', 'conservative'))}"
    low += f", preemption: {rng.choice(('suspend', 'requeue', 'kill'))}"
    high = rng.choice(("", ", preempt: [low]"))
    lines = [
        "cluster:",
        f'  hosts: [{{names: "h[1-{hosts}]", slots: {slots}, mem: 8G}}]',
        "  queues:",
        f"    - {{name: high, priority: 50{high}}}",
        f"    - {{name: low, priority: 10, default: true, {low}}}",
        # Who is away when a reign begins gets his whole grace again: none is given up here.
        "  xce: {host_grace_s: 100000}",
        "jobs:",
    ]
    at = 0
    jobs = rng.randint(6, 16)
    for number in range(jobs):
        at += rng.choice((0, 0, 1, 7, 20))
        lines.append(
            f"  - {{id: j{number}, at: {at}, user: u{rng.randint(1, 2)}, "
            f'submit: "{_draw_words(rng, number, slots * hosts)}", '
            f"runtime: {rng.choice((1, 5, 20, 60))}s}}"
        )
    lines.append("events:")
    for _ in range(rng.randint(1, 6)):
        lines.append("  - " + _draw_event(rng, jobs, hosts, rng.randint(1, at + 40)))
    return "\n".join([*lines, "until: 2000"])


def _draw_words(rng: Random, number: int, most: int) -> str:
    words = f"bsub -q {rng.choice(('low', 'low', 'high'))}"
    if rng.random() < 0.3:
        words += f" -n {rng.randint(2, most)}"
    elif rng.random() < 0.4:
        words += f" -J 'a{number}[1-{rng.randint(2, 6)}]%{rng.choice((1, 2, 9))}'"
    if rng.random() < 0.3:
        words += f" -R 'rusage[mem={rng.choice((1, 2, 5))}G]'"
    if number and rng.random() < 0.25:
        words += f" -w '{rng.choice(('done', 'ended', 'exit'))}(j{rng.randrange(number)})'"
    if rng.random() < 0.4:
        words += f" -W {rng.choice((1, 2))}"
    return words + (" -r" if rng.random() < 0.4 else "")


def _draw_event(rng: Random, jobs: int, hosts: int, at: int) -> str:
    if rng.random() < 0.35:
        state = rng.choice(("down", "up", "closed", "ok"))
        return f"{{at: {at}, host: h{rng.randint(1, hosts)}, state: {state}}}"
    word = rng.choice(("bkill", "bstop", "bresume", "brequeue", "btop"))
    return f'{{at: {at}, as: root, do: "{word} j{rng.randrange(jobs)}"}}'
