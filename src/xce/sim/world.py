"""A whole cluster in one process: virtual clock, network and disk, real deciders, one seed.

After the faults have stopped, everything that can end must end.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

from xce.model.command import KillJobs, ResumeJobs, Selection
from xce.model.ids import HOUR_US, SECOND_US, JobId, Micros
from xce.model.reason import ReasonCode
from xce.model.record import JobSubmitted
from xce.sim import workload
from xce.sim.agreement import check_books
from xce.sim.faults import Faults
from xce.sim.havoc import happen
from xce.sim.idle import SHUT, could_start, is_kept_back
from xce.sim.parts import Parts
from xce.sim.restoration import rid_hosts
from xce.sim.schedule import PAPER, WISH, Item
from xce.sim.untrue import demand
from xce.state.snapshot import digest
from xce.state.view import pend_reason

SETTLE_US: Final = 4 * SECOND_US
IDLE_US: Final = SECOND_US // 2
_WITHOUT: Final = (ReasonCode.NEW, ReasonCode.REQUEUED)
LIMIT_US: Final = 3_600 * SECOND_US
"""So long after the faults everything must have ended."""
LATER_US: Final = 2 * HOUR_US


class StuckError(AssertionError):
    """Faults have stopped, and still not everything has ended."""


class World(Parts):
    """One life of a cluster.

    Subclasses plant bugs by other classes of its parts.
    """

    def __init__(
        self,
        seed: int,
        faults: Faults | None = None,
        *,
        keep: frozenset[int] | None = None,
        without: Iterable[str] = (),
    ) -> None:
        super().__init__(seed, faults, keep=keep, without=without)
        self._without_reason: set[tuple[JobId, int]] = set()

    # A life.

    def live(self) -> None:
        """Live: faults, then calm, until all has ended.

        Raises:
            UntrueError: Something happened that must never happen.
            StuckError: Something that can end has not.
        """
        self.truth.fencing_is_sure = not self.faults.shepherd_crashes
        self.begin()
        self._run_until(self.faults.until_us)
        while self.restorations:
            self._run_until(self.loop.now_us + SECOND_US)
        self.faults.stop()
        self.disk.is_failing = False
        self._forget_dooms()
        if self.faults.revocations or self.faults.expiries or self.faults.enrolments:
            for ground in self.grounds:
                self.renew_key(ground.name)
        self._run_until(self.loop.now_us + SETTLE_US)
        self.admin.open_hosts(tuple(host.name for host in self.config.hosts))
        self.admin.switch_queues(tuple(queue.name for queue in self.config.queues))
        for host in self.config.hosts:
            self.admin.open_devices(host.name, tuple(str(gpu.index) for gpu in host.gpus or ()))
        limit_us = self.loop.now_us + LIMIT_US
        while not self._is_over():
            if self.faults.restores:
                rid_hosts(self)
            if self.loop.now_us > limit_us:
                raise StuckError(self._describe_stuck())
            self._run_until(self.loop.now_us + SETTLE_US)
            self.truth.forms.check_counts(self.ledger, self.truth.state)
            self._check_nothing_idles()
        # Much later: what is kept for a while is forgotten.
        self.wall_shift_us += LATER_US
        self._run_until(self.loop.now_us + SETTLE_US)
        self._check_end()

    def _forget_dooms(self) -> None:
        """Let nobody die any more at a seam that he has not come to yet."""
        shepherds = [ground.shepherd for ground in self.grounds]
        for process in (self.leader, self.planner, *self.workers.values(), *shepherds):
            if process is not None:
                process.doom = None

    def _run_until(self, at_us: Micros) -> None:
        self.loop.run_until(at_us)

    def begin(self) -> None:
        """Put everything that will happen on the calendar."""
        for item in self.schedule.values():
            self.loop.at(item.at_us, self._happen, item)

    def _happen(self, item: Item) -> None:
        dice = Random(item.dice)
        if item.kind == PAPER:
            client = dice.choice((self.clients[0], self.admin, self.keeper))
            client.note_something(dice)
            return
        if item.kind != WISH:
            self.strikes.note(item.kind)
            happen(self, item.kind, dice)
            return
        client = self.clients[item.user]
        workload.act(dice, self.config, client, self.wall_us())
        if dice.random() < 0.4:
            span_us = dice.choice((10_000, 300_000, 2_000_000))
            self.loop.after(dice.randrange(span_us), workload.control, dice, self.config, client)

    def _is_over(self) -> bool:
        """Return whether all has ended; let go what is held, end what is hopeless."""
        if not all(client.is_content for client in (*self.clients, self.admin, self.keeper)):
            return False
        unended = self.truth.unended()
        if not unended:
            # Whoever was cut off comes back, and is rid of what was given up.
            table = self.truth.state.hosts
            return bool(table.is_up.all()) and not (table.stale or table.strange)
        stopped = tuple((job, ()) for job in unended if self._is_stopped(job))
        if stopped and not self.truth.strangers:
            self.admin.control(ResumeJobs, Selection(jobs=stopped))
        hopeless = [job for job in unended if self._is_hopeless(self.truth.jobs[job])]
        for job_id in hopeless:
            job = self.truth.state.jobs[job_id]
            reason = pend_reason(self.truth.state, job)
            demand(
                reason.unsatisfiable
                or bool(job.waits or job.held or job.awaiting)
                or reason.code in SHUT,
                f"job {job_id} can never run; its reason is {reason}",
            )
        self._check_reasons(unended)
        if hopeless:
            self.admin.control(KillJobs, Selection(jobs=tuple((job, ()) for job in hopeless)))
        return False

    def _check_reasons(self, unended: list[JobId]) -> None:
        """In calm no job is without a reason at two looks in a row."""
        state = self.truth.state
        new = set()
        for job_id in unended:
            job = state.jobs[job_id]
            if job.pending and pend_reason(state, job).code in _WITHOUT:
                new.add((job_id, job.revision))
        demand(not new & self._without_reason, f"no reason for {sorted(new)}")
        self._without_reason = new

    def _check_nothing_idles(self) -> None:
        """In calm nothing that could start waits while nothing happens."""
        seq = self.truth.state.seq
        self._run_until(self.loop.now_us + IDLE_US)
        assert self.leader is not None
        if self.leader.state.seq == self.truth.state.seq == seq:
            state = self.truth.state
            able = [able for able in could_start(state) if not is_kept_back(state, *able)]
            found = sorted({job for job, _ in able})
            demand(not found, f"jobs {found} could start, and nothing happens")

    def _is_stopped(self, job_id: JobId) -> bool:
        job = self.truth.state.jobs[job_id]
        return bool(job.held) or any(
            attempt.suspended or attempt.suspension_wanted for attempt in (job.live or {}).values()
        )

    def _is_hopeless(self, record: JobSubmitted) -> bool:
        found = self.truth.state.classes.get(record.cls)
        return found is not None and found.key.request.tasks_min == workload.HOPELESS_TASKS

    def _describe_stuck(self) -> str:
        state = self.truth.state
        lines = []
        for client in self.clients:
            lines += [f"{client.owner.user} waits" for wish in client.wishes if not wish.results]
        for job_id in self.truth.unended():
            job = state.jobs[job_id]
            lines.append(
                f"job {job_id}: pending {job.pending}, held {job.held}, live {job.live}, "
                f"reason {pend_reason(state, job)}"
            )
        return "; ".join(lines)

    def _check_end(self) -> None:
        assert self.leader is not None
        assert self.planner is not None
        if not self.faults.repeats:
            demand(not self.leader.refused, "something that is allowed was refused")
        self.truth.check_quiet()
        self.task_books.check_quiet()
        self.truth.check_recovery(self.disk)
        check_books(self.ledger, self.truth.state)
        self.truth.forms.check_counts(self.ledger, self.truth.state)
        for _ in range(50):
            if self.leader.state.seq == self.truth.state.seq == self.planner.state.seq:
                break
            self._run_until(self.loop.now_us + 100_000)  # something is just being told
        expected = digest(self.truth.state)
        demand(digest(self.leader.state) == expected, "the controller's state is another")
        demand(digest(self.planner.state) == expected, "the scheduler's state is another")
        for ground in self.grounds:
            left = list(ground.directories)
            demand(not left, f"host {ground.name} still has run directories: {left}")

    def content(self) -> bytes:
        """Return all that the disk has: equal for equal seeds."""
        return b"".join(batch.content for batch in self.disk.batches)
