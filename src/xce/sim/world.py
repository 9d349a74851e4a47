"""A whole cluster in one process: virtual clock, network and disk, real deciders, one seed.

The controller, the state, the scheduler's session, the hosts' state machine, the journal's codec
and recovery and the followers' protocol are those that run live. After the faults have stopped,
everything that can end must end.
"""

from random import Random
from typing import Final

from xce.control.controller import Controller
from xce.journal.recover import recover
from xce.model.command import KillJobs, ResumeJobs, Selection
from xce.model.config import ClusterConfig
from xce.model.ids import HOUR_US, SECOND_US, JobId, Micros
from xce.model.job import Owner
from xce.model.reason import ReasonCode
from xce.model.record import JobSubmitted
from xce.sim import workload
from xce.sim.client import Client
from xce.sim.disk import Disk
from xce.sim.faults import Faults, add_trust_faults, draw_faults
from xce.sim.host import Worker
from xce.sim.idle import could_start
from xce.sim.keyring import Eavesdropper, Keyring, TrustOracle
from xce.sim.leader import Leader
from xce.sim.loop import Loop
from xce.sim.network import Network, Wire
from xce.sim.oracles import Truth, demand
from xce.sim.planner import Planner
from xce.sim.shepherd import Ground, Shepherd
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import digest, dump, load
from xce.state.view import pend_reason
from xce.worker.core import HostState

START_US: Final = workload.START_US
USERS: Final = (Owner("alice", 1001, 1001), Owner("bob", 1002, 1002))
ROOT: Final = Owner("root", 0, 0)
SETTLE_US: Final = 4 * SECOND_US
IDLE_US: Final = SECOND_US // 2
ZOMBIE_US_MAX: Final = 3 * SECOND_US
"""So long a leader that was deposed goes on when nothing tells it."""
_WITHOUT: Final = (ReasonCode.NEW, ReasonCode.REQUEUED)
LIMIT_US: Final = 3_600 * SECOND_US
"""So long after the faults everything must have ended."""


class StuckError(AssertionError):
    """Faults have stopped, and still not everything has ended."""


class World:
    """One life of a cluster.

    Subclasses plant bugs by other classes of its parts.
    """

    controller_class: type[Controller] = Controller
    leader_class: type[Leader] = Leader
    planner_class: type[Planner] = Planner
    worker_class: type[Worker] = Worker
    shepherd_class: type[Shepherd] = Shepherd
    machine_class: type[HostState] = HostState

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.seed = seed
        self._rng = Random(seed)
        self.faults = faults if faults is not None else draw_faults(self._rng)
        self._trust_rng = Random(~seed)
        if faults is None:
            add_trust_faults(self.faults, self._trust_rng)
        self.config = self._draw_config()
        self.loop = Loop()
        self.truth = Truth()
        self.network = Network(self.loop, self._fork(), self.faults)
        self.disk = Disk(self.loop, self._fork(), self.faults, self.truth.note_stored)
        self._wall_shift_us: Micros = 0
        self._without_reason: set[tuple[JobId, int]] = set()
        self.leader: Leader | None = None
        self.planner: Planner | None = None
        self.grounds = [
            Ground(self.loop, self._fork(), self.faults, self.truth, host.name, is_bad=number == 0)
            for number, host in enumerate(self.config.hosts)
        ]
        self.workers: dict[str, Worker | None] = {}
        self.keyring = Keyring()
        self._first_keys = tuple(
            (ground.name, self.keyring.make(ground.name)) for ground in self.grounds
        )
        self.eavesdropper = Eavesdropper(self._trust_rng)
        self.trust_oracle = TrustOracle()
        self.network.watch = self._watch
        self._start_leader()
        self._start_planner()
        for ground in self.grounds:
            self._start_shepherd(ground)
            self._start_worker(ground)
        self.clients = [self._client(owner) for owner in USERS]
        self.admin = self._client(ROOT)
        self.keeper = self._client(ROOT, role="admin")

    def _fork(self) -> Random:
        return Random(self._rng.getrandbits(64))

    def _draw_config(self) -> ClusterConfig:
        """Return the cluster to begin with."""
        return workload.draw_config(self._rng)

    def wall_us(self) -> Micros:
        """Return what the wall clocks say."""
        return START_US + self.loop.now_us + self._wall_shift_us

    # Processes.

    def _watch(self, wire: Wire, side: int, message: object) -> None:
        """See each message that arrives."""
        if side == 1:
            self.trust_oracle.check(self.truth.state, wire, self.loop.now_us)
        self.eavesdropper.note(wire, side, message)

    def _client(self, owner: Owner, *, role: str = "apiserver") -> Client:
        return Client(
            self.loop, self.network, self._fork(), self.truth,
            owner=owner, wall_us=self.wall_us, is_admin=owner is ROOT, role=role,
        )  # fmt: skip

    def _start_leader(self) -> None:
        self.leader = self.leader_class(
            self.loop, self.network, self.disk, self._fork(),
            config=self.config, wall_us=self.wall_us, controller=self.controller_class,
            first_keys=self._first_keys,
        )  # fmt: skip
        self._check_equal(self.leader.state, "the recovered")

    def _start_planner(self) -> None:
        self.planner = self.planner_class(self.loop, self.network, self._fork(), self.wall_us)

    def _start_shepherd(self, ground: Ground) -> None:
        self.shepherd_class(ground, self._fork())

    def _start_worker(self, ground: Ground) -> None:
        self.workers[ground.name] = self.worker_class(
            self.network, ground, self._fork(), cpus=4, mem_mib=8_192,
            machine=self.machine_class, keyring=self.keyring,
        )  # fmt: skip

    def _check_equal(self, state: ClusterState, whose: str) -> None:
        """Every state at the last stored entry is the one that the entries made."""
        if state.seq == self.truth.state.seq:
            demand(digest(state) == digest(self.truth.state), f"{whose} state is another")

    # Faults.

    def _draw_faults(self) -> None:
        kinds = (
            (self.faults.controller_crashes, self._crash_controller),
            (self.faults.scheduler_crashes, self._crash_scheduler),
            (self.faults.worker_crashes, self._crash_worker),
            (self.faults.shepherd_crashes, self._crash_shepherd),
            (self.faults.reboots, self._reboot),
            (self.faults.cuts, self._cut),
            (self.faults.partitions, self._part),
            (self.faults.disk_troubles, self._fill_disk),
            (self.faults.clock_jumps, self._jump),
            (self.faults.snapshots, self._snapshot),
            (self.faults.closures, self._close_host),
            (self.faults.growths, self._grow),
            (self.faults.cutoffs, self._cut_off),
            (self.faults.outages, self._lose_power),
            (self.faults.declarations, self._declare_lost),
            (self.faults.promotions, self._promote),
        )
        of_trust = (
            (self.faults.revocations, self._revoke),
            (self.faults.expiries, self._expire),
            (self.faults.repeats, self._repeat),
        )
        for rng, found in ((self._rng, kinds), (self._trust_rng, of_trust)):
            for count, fault in found:
                for _ in range(count):
                    self.loop.at(rng.randrange(self.faults.until_us), fault)

    def _down_us(self) -> Micros:
        return self._rng.choice((1_000, 200_000, 3_000_000))

    def _crash_controller(self) -> None:
        if self.leader is not None:
            self._check_equal(self.leader.state, "the controller's")
            self.leader.kill()
            self.leader = None
            self.loop.after(self._down_us(), self._start_leader)

    def _promote(self) -> None:
        """Let a standby take over from a leader that lives on for a while and does not know it."""
        old = self.leader
        if old is not None:
            self._start_leader()
            self.loop.after(self._rng.randrange(ZOMBIE_US_MAX), self._end_deposed, old)

    def _end_deposed(self, old: Leader) -> None:
        if old.is_alive:
            old.kill()

    def _crash_scheduler(self) -> None:
        if self.planner is not None:
            self._check_equal(self.planner.state, "the scheduler's")
            self.planner.kill()
            self.planner = None
            self.loop.after(self._down_us(), self._start_planner)

    def _crash_worker(self) -> None:
        ground = self._rng.choice(self.grounds)
        worker = self.workers[ground.name]
        if worker is not None:
            worker.kill()
            self.workers[ground.name] = None
            self.loop.after(self._down_us(), self._restart_worker, ground, ground.boot)

    def _restart_worker(self, ground: Ground, boot: int) -> None:
        if ground.boot == boot and self.workers[ground.name] is None:
            self._start_worker(ground)

    def _crash_shepherd(self) -> None:
        ground = self._rng.choice(self.grounds)
        if ground.shepherd is not None:
            self._kill_shepherd(ground)
            self.loop.after(self._down_us(), self._restart_shepherd, ground, ground.boot)

    def _kill_shepherd(self, ground: Ground) -> None:
        if ground.shepherd is not None:
            ground.shepherd.kill()
        worker = self.workers[ground.name]
        if worker is not None:
            worker.note_shepherd_killed()

    def _restart_shepherd(self, ground: Ground, boot: int) -> None:
        if ground.boot == boot and ground.shepherd is None:
            self._start_shepherd(ground)

    def _reboot(self) -> None:
        ground = self._rng.choice(self.grounds)
        self._stop_host(ground)
        self._boot(ground, self._down_us())

    def _stop_host(self, ground: Ground) -> None:
        worker = self.workers[ground.name]
        if worker is not None:
            worker.kill()
            self.workers[ground.name] = None
        if ground.shepherd is not None:
            ground.shepherd.kill()
        ground.reboot()
        self.truth.note_reboot(ground.name)

    def _boot(self, ground: Ground, span_us: Micros) -> None:
        self.loop.after(span_us, self._restart_shepherd, ground, ground.boot)
        self.loop.after(span_us, self._restart_worker, ground, ground.boot)

    def _cut_off(self) -> None:
        """Let a host be out of reach, for less or for more than its grace."""
        span_us = self._rng.randrange(2 * SECOND_US, 20 * SECOND_US)
        self.network.part(self._rng.choice(self.grounds).name, span_us)

    def _lose_power(self) -> None:
        ground = self._rng.choice(self.grounds)
        self._stop_host(ground)
        self._boot(ground, self._rng.randrange(20 * SECOND_US))

    def _declare_lost(self) -> None:
        table = self.truth.state.hosts
        away = [table.names[number] for number in table.away]
        if away:
            self.admin.declare_lost((self._rng.choice(away),))

    def _cut(self) -> None:
        self.network.cut_one(self._rng)

    def _part(self) -> None:
        names = [*(host.name for host in self.config.hosts), "scheduler", "alice"]
        self.network.part(self._rng.choice(names), self._rng.randrange(5 * SECOND_US))

    def _fill_disk(self) -> None:
        self.disk.is_failing = True
        self.loop.after(self._rng.randrange(4 * SECOND_US), self._free_disk)

    def _free_disk(self) -> None:
        self.disk.is_failing = False

    def _jump(self) -> None:
        self._wall_shift_us += self._rng.choice((-HOUR_US, -HOUR_US, 30 * SECOND_US, -SECOND_US))

    def _snapshot(self) -> None:
        state, seq, crc = recover(self.disk, restore=load, empty=ClusterState, apply_entry=apply)
        if seq:
            self.disk.store_snapshot(seq, crc, dump(state))

    def _close_host(self) -> None:
        self.admin.open_hosts((self._rng.choice(self.grounds).name,), is_open=False)
        # Without a draw of its own, so that a seed's other faults stay what they are.
        queues = self.config.queues
        self.admin.switch_queues((queues[self.loop.now_us % len(queues)].name,), is_active=False)

    def _grow(self) -> None:
        self.config = workload.grow(self._rng, self.config)
        self.keeper.configure(lambda: self.config)

    # Trust.

    def _revoke(self) -> None:
        ground = self._trust_rng.choice(self.grounds)
        self.keeper.revoke(self.keyring.key(ground.name))
        self.loop.after(self._trust_rng.randrange(4 * SECOND_US), self._renew, ground.name)

    def _expire(self) -> None:
        ground = self._trust_rng.choice(self.grounds)
        for_us = self._trust_rng.randrange(1, 3 * SECOND_US)
        certificate = self.keyring.certificate(ground.name)
        self.keeper.trust(certificate, ground.name, for_us=for_us)
        self.loop.after(self._trust_rng.randrange(6 * SECOND_US), self._renew, ground.name)

    def _renew(self, host: str) -> None:
        """Give a host another key; it may use it before that is trusted."""
        self.keeper.trust(self.keyring.make(host), host)

    def _repeat(self) -> None:
        if self.leader is not None:
            self.eavesdropper.repeat(self.network.wires)

    # A life.

    def live(self) -> None:
        """Live: faults, then calm, until all has ended.

        Raises:
            UntrueError: Something happened that must never happen.
            StuckError: Something that can end has not.
        """
        self.truth.fencing_is_sure = not self.faults.shepherd_crashes
        self._draw_faults()
        self._draw_wishes()
        self._run_until(self.faults.until_us)
        self.faults.stop()
        self.disk.is_failing = False
        if self.faults.revocations or self.faults.expiries:
            for ground in self.grounds:
                self._renew(ground.name)
        self._run_until(self.loop.now_us + SETTLE_US)
        self.admin.open_hosts(tuple(host.name for host in self.config.hosts))
        self.admin.switch_queues(tuple(queue.name for queue in self.config.queues))
        limit_us = self.loop.now_us + LIMIT_US
        while not self._is_over():
            if self.loop.now_us > limit_us:
                raise StuckError(self._describe_stuck())
            self._run_until(self.loop.now_us + SETTLE_US)
            self._check_nothing_idles()
        self._run_until(self.loop.now_us + SETTLE_US)
        self._check_end()

    def _run_until(self, at_us: Micros) -> None:
        self.loop.run_until(at_us, lambda: None)

    def _draw_wishes(self) -> None:
        for client in self.clients:
            for _ in range(self._rng.randint(4, 14)):
                at_us = self._rng.randrange(self.faults.until_us * 3 // 4)
                self.loop.at(at_us, self._wish, client)

    def _wish(self, client: Client) -> None:
        workload.act(self._rng, self.config, client, self.wall_us())
        if self._rng.random() < 0.4:
            span_us = self._rng.choice((10_000, 300_000, 2_000_000))
            self.loop.after(
                self._rng.randrange(span_us), workload.control, self._rng, self.config, client
            )

    def _is_over(self) -> bool:
        """Return whether all has ended; let go what is held, end what is hopeless."""
        if not all(client.is_content for client in (*self.clients, self.admin, self.keeper)):
            return False
        unended = self.truth.unended()
        if not unended:
            # Whoever was cut off comes back, and is rid of what was given up.
            table = self.truth.state.hosts
            return bool(table.is_up.all()) and not table.stale
        stopped = tuple((job, ()) for job in unended if self._is_stopped(job))
        if stopped:
            self.admin.control(ResumeJobs, Selection(jobs=stopped))
        hopeless = [job for job in unended if self._is_hopeless(self.truth.jobs[job])]
        for job_id in hopeless:
            job = self.truth.state.jobs[job_id]
            reason = pend_reason(self.truth.state, job)
            demand(
                reason.unsatisfiable
                or bool(job.waits or job.held)
                or reason.code is ReasonCode.WINDOW,
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
            found = [job for job in could_start(self.truth.state) if not self._is_kept_back(job)]
            demand(not found, f"jobs {found} could start, and nothing happens")

    def _is_kept_back(self, job_id: JobId) -> bool:
        """Whether what is free for a job is reserved, or the window of its queue keeps it back."""
        state = self.truth.state
        code = pend_reason(state, state.jobs[job_id]).code
        if code in (ReasonCode.WINDOW, ReasonCode.DEADLINE):
            return True
        return code is ReasonCode.RESERVED and bool(state.reservations)

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
        self.truth.check_recovery(self.disk)
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
