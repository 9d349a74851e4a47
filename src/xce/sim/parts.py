"""All parts of a world: the processes of a cluster, its hosts, its disk and its users.

The controller, the state, the scheduler's session, the hosts' state machine, the journal's codec
and recovery and the followers' protocol are those that run live.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from xce.control.controller import Controller, Reply
from xce.journal.interface import StoredBatch
from xce.model.command import EnrolHost
from xce.model.config import ClusterConfig
from xce.model.effect import Launch
from xce.model.entry import Entry
from xce.model.ids import JobId, Micros, Seq
from xce.model.job import Owner
from xce.model.plan import Plan
from xce.model.record import BulkPlaced, GangPlaced
from xce.net import message as m
from xce.sim import workload
from xce.sim.client import Client
from xce.sim.coverage import Strikes
from xce.sim.disk import Disk
from xce.sim.fate_books import FateBooks
from xce.sim.faults import Faults, add_races, add_restores, add_trust_faults, draw_faults
from xce.sim.ground import OWN_CPU_US, Ground
from xce.sim.host import Worker
from xce.sim.keyring import Eavesdropper, Keyring, TrustOracle
from xce.sim.leader import Leader
from xce.sim.ledger import Ledger
from xce.sim.loop import Loop, Process
from xce.sim.network import Network, Wire
from xce.sim.oracles import Mark, Truth
from xce.sim.planner import Planner
from xce.sim.races import Races
from xce.sim.schedule import Item, draw_schedule
from xce.sim.shepherd import Shepherd
from xce.sim.stranger_books import StrangerBooks
from xce.sim.task_books import TaskBooks
from xce.sim.tasks import TASK_CPU_US, HostTasks
from xce.sim.untrue import demand
from xce.state.cluster import ClusterState
from xce.state.snapshot import digest
from xce.worker.action import Key
from xce.worker.core import HostState

_TASK_SEED: Final = 0x7A5C0FF5
_TASK_SHARE: Final = 0.3
_GROUP_SEED: Final = 0x620B_0000
_GROUP_SHARE: Final = 0.3
_DEADLINE_SEED: Final = 0x0DEA_D11E
_DEADLINE_SHARE: Final = 0.25
USERS: Final = (Owner("alice", 1001, 1001), Owner("bob", 1002, 1002))
ROOT: Final = Owner("root", 0, 0)
_RESTORE_SEED: Final = 0x0BAC_C0B1
_RACES: Final = 0x5ACE
"""Sets the dice of races apart from the others."""


class Parts:
    """A cluster, and what will happen to it.

    Subclasses plant bugs by other classes of its parts.
    """

    controller_class: type[Controller] = Controller
    leader_class: type[Leader] = Leader
    planner_class: type[Planner] = Planner
    worker_class: type[Worker] = Worker
    shepherd_class: type[Shepherd] = Shepherd
    machine_class: type[HostState] = HostState

    def __init__(
        self,
        seed: int,
        faults: Faults | None = None,
        *,
        keep: frozenset[int] | None = None,
        without: Iterable[str] = (),
    ) -> None:
        self.seed = seed
        self._rng = Random(seed)
        self._trust_rng = Random(~seed)
        self.faults = faults if faults is not None else self._draw_faults()
        self.start_us, self.zone = workload.draw_start(self._rng)
        self.config = self._draw_config()
        self.schedule = self._draw_schedule(keep)
        """What will happen, by number."""
        self.faults.leave_out(without)
        self.loop = Loop()
        self.truth = Truth()
        self.ledger = Ledger()
        self.fate_books = FateBooks()
        self.stranger_books = StrangerBooks(self.truth)
        self.races = self._draw_races()
        self.truth.on_start, self.truth.on_end = self._note_start, self._note_end
        self.entries: list[Entry] = []
        """What is stored, where it may be restored."""
        self.restorations = self.generation = 0
        """Backups that are yet to be restored; how often the journal was."""
        self.is_shut = False
        """Nothing leads until the journal is restored."""
        self.has_tasks, self.has_groups = self._draws_tasks(seed), self._draws_groups(seed)
        """Whether jobs start tasks on their other hosts, and users delete job groups."""
        self.has_deadlines = Random(seed ^ _DEADLINE_SEED).random() < _DEADLINE_SHARE
        self.task_books = TaskBooks(self.ledger, task_cpu_us=TASK_CPU_US, own_cpu_us=OWN_CPU_US)
        self._contents: dict[Seq, bytes] = {}
        """What is stored, by its last entry."""
        self.strikes = Strikes(self.loop)
        self.network = Network(self.loop, self._fork(), self.faults, self.strikes)
        self.disk = Disk(self.loop, self._fork(), self.faults, self._note_stored, self.strikes)
        self.wall_shift_us: Micros = 0
        self.leader: Leader | None = None
        self.planner: Planner | None = None
        self.grounds = [self._ground(host.name, is_bad=host is self.config.hosts[0])
                        for host in self.config.hosts]  # fmt: skip
        self.workers: dict[str, Worker | None] = {}
        self.keyring = Keyring()
        self._first_keys = tuple(
            (ground.name, self.keyring.make(ground.name)) for ground in self.grounds
        )
        self.eavesdropper = Eavesdropper(self._trust_rng)
        self.trust_oracle = TrustOracle()
        self.tokens_made = 0
        """For hosts that enrol."""
        self.network.watch = self._watch
        self._seam_rng = self._fork()
        self._start_all()
        self.clients = [self._client(owner) for owner in USERS]
        self.admin = self._client(ROOT)
        self.keeper = self._client(ROOT, role="admin")

    def _draw_schedule(self, keep: frozenset[int] | None) -> dict[int, Item]:
        items = draw_schedule(
            self._fork(), self._trust_rng, Random(~(self.seed ^ _RESTORE_SEED)), self.faults,
            users=len(USERS),
        )  # fmt: skip
        return {number: item for number, item in enumerate(items) if keep is None or number in keep}

    def _draw_faults(self) -> Faults:
        faults = draw_faults(self._rng)
        add_trust_faults(faults, self._trust_rng)
        add_races(faults, Random(self.seed ^ _RACES))
        add_restores(faults, Random(self.seed ^ _RESTORE_SEED))
        return faults

    def _start_all(self) -> None:
        self.start_leader()
        self.start_planner()
        for ground in self.grounds:
            self.start_shepherd(ground)
            self.start_worker(ground)

    def _ground(self, name: str, *, is_bad: bool) -> Ground:
        tasks = HostTasks(self.loop, name, self.task_books) if self.has_tasks else None
        ground = Ground(
            self.loop, self._fork(), self.faults, self.truth, name,
            is_bad=is_bad, strikes=self.strikes, tasks=tasks,
        )  # fmt: skip
        ground.others = [host.name for host in self.config.hosts]
        return ground

    def _fork(self) -> Random:
        return Random(self._rng.getrandbits(64))

    @staticmethod
    def _draws_tasks(seed: int) -> bool:
        """Return whether jobs start tasks, by dice that nothing else is drawn from."""
        return Random(seed ^ _TASK_SEED).random() < _TASK_SHARE

    @staticmethod
    def _draws_groups(seed: int) -> bool:
        """Return whether users keep job groups without jobs, by such dice, too."""
        return Random(seed ^ _GROUP_SEED).random() < _GROUP_SHARE

    def _draw_config(self) -> ClusterConfig:
        """Return the cluster to begin with."""
        return workload.draw_config(self._rng, self.start_us, self.zone)

    def wall_us(self) -> Micros:
        """Return what the wall clocks say."""
        return self.start_us + self.loop.now_us + self.wall_shift_us

    def _note_stored(self, batch: StoredBatch, entries: list[Entry]) -> None:
        """Learn that a batch is durable."""
        self._contents[batch.last] = batch.content
        self.trust_oracle.note(entries)
        self.truth.note_stored(entries)
        for entry in entries:
            self.ledger.note((entry,))
            self.fate_books.note(entry)
            if self.has_tasks:
                self.task_books.note(entry)
            self._race(entry)
        if self.faults.restores:
            self.entries.extend(entries)
            self.stranger_books.note(entries)
        self.strikes.note_entries(entries)

    def go_back(self, mark: Mark, entries: list[Entry]) -> None:
        """Learn that the journal was restored, and ends with these entries now."""
        self.truth.go_back(mark, entries)
        self.entries = entries
        batches = (*self.disk.archive, *self.disk.batches)
        self._contents = {batch.last: batch.content for batch in batches}
        self.ledger, self.fate_books = Ledger(), FateBooks()
        self.task_books.go_back(entries, self.ledger, self.truth.forms.lost)
        for entry in entries:
            self.fate_books.note(entry)
        self.trust_oracle = TrustOracle()
        self.trust_oracle.note(entries)
        self.stranger_books.go_back(entries)
        for client in (*self.clients, self.admin, self.keeper):
            client.go_back()

    def _draw_races(self) -> Races:
        return Races(
            self.loop, Random(~(self.seed ^ _RACES)), most=self.faults.races,
            until_us=self.faults.until_us, client_of=self._client_of,
        )  # fmt: skip

    def _race(self, entry: Entry) -> None:
        """Let somebody be at it when something is placed."""
        for record in entry.records:
            match record:
                case GangPlaced():
                    self.races.note(record.job, record.index, self.config)
                case BulkPlaced():
                    for job, first in zip(record.jobs, record.firsts, strict=True):
                        self.races.note(job, first, self.config)
                case _:
                    pass

    def _note_start(self, key: Key, launch: Launch) -> None:
        self.truth.forms.check_start(key, launch)
        self.races.note(*key[:2], self.config)

    def _note_end(self, key: Key) -> None:
        self.races.note(*key[:2], self.config)

    def _note_plan(self, plan: Plan) -> None:
        self.races.note_plan(plan, self.config)

    def _client_of(self, job: JobId) -> Client | None:
        return next((client for client in self.clients if job in client.jobs), None)

    # Processes.

    def _watch(self, wire: Wire, side: int, message: object) -> None:
        """See each message that arrives."""
        if isinstance(message, m.Batch):
            is_stored = self._contents.get(message.last) == message.content
            demand(is_stored, f"a follower is told entry {message.last}, which is not stored")
        elif isinstance(message, m.Effects):
            self._check_effects(message)
        if side == 1 and self.leader is not None and wire.ends[1] is self.leader:
            # One that was deposed cannot know what was revoked since, and is obeyed by nobody.
            self.trust_oracle.check(self.truth.state, wire, self.loop.now_us, self.leader.desk)
        self.eavesdropper.note(wire, side, message)

    def _check_effects(self, message: m.Effects) -> None:
        """A worker is told only what is in the journal."""
        for effect in message.effects:
            if isinstance(effect, Launch):
                for index, attempt in zip(effect.indices, effect.attempts, strict=True):
                    known = self.ledger.last_attempt(effect.job, index)
                    is_lost = (effect.job, index, attempt) in self.truth.forms.lost
                    demand(
                        known >= attempt or is_lost,
                        f"{effect.job}[{index}] is launched, not placed",
                    )

    def _client(self, owner: Owner, *, role: str = "apiserver") -> Client:
        client = Client(
            self.loop, self.network, self._fork(), self.truth,
            owner=owner, wall_us=self.wall_us, is_admin=owner is ROOT, role=role,
        )  # fmt: skip
        client.starts_tasks = self.has_tasks
        client.keeps_groups = self.has_groups
        client.sets_deadlines = self.has_deadlines
        return client

    def start_leader(self) -> None:
        """Begin a reign."""
        self.leader = self.leader_class(
            self.loop, self.network, self.disk, self._fork(),
            config=self.config, wall_us=self.wall_us, controller=self.controller_class,
            first_keys=self._first_keys,
        )  # fmt: skip
        self.leader.on_death = self._lose_leader
        self.check_equal(self.leader.state, "the recovered")

    def start_planner(self) -> None:
        """Start the scheduler."""
        self.planner = self.planner_class(self.loop, self.network, self._fork(), self.wall_us)
        self.planner.on_death = self._lose_planner
        self.planner.on_plan = self._note_plan

    def start_shepherd(self, ground: Ground) -> None:
        """Start the shepherd of a host."""
        shepherd = self.shepherd_class(ground, self._fork())
        shepherd.on_death = lambda _, seam: self._lose_shepherd(ground, seam)

    def start_worker(self, ground: Ground) -> None:
        """Start the worker of a host."""
        worker = self.workers[ground.name] = self.worker_class(
            self.network, ground, self._fork(), cpus=4, mem_mib=8_192,
            machine=self.machine_class, keyring=self.keyring,
        )  # fmt: skip
        worker.on_death = lambda _, seam: self._lose_worker(ground, seam)

    # Ends of processes.

    def down_us(self) -> Micros:
        """Return how long a process is down that was killed at a seam."""
        return self._seam_rng.choice((1_000, 200_000, 3_000_000))

    def _lose_leader(self, leader: Process, seam: str) -> None:
        self.strikes.note_seam("controller", seam)
        leader.kill()
        if leader is self.leader:
            self.leader = None
            self.loop.after(self.down_us(), self.start_leader_again)

    def start_leader_again(self) -> None:
        """Start a controller unless another one leads by now."""
        if self.leader is None and not self.is_shut:
            self.start_leader()

    def _lose_planner(self, planner: Process, seam: str) -> None:
        self.strikes.note_seam("scheduler", seam)
        planner.kill()
        self.planner = None
        self.loop.after(self.down_us(), self.start_planner)

    def _lose_worker(self, ground: Ground, seam: str) -> None:
        self.strikes.note_seam("worker", seam)
        self.end_worker(ground)
        self.loop.after(self.down_us(), self.restart_worker, ground, ground.boot)

    def end_worker(self, ground: Ground) -> None:
        """Kill the worker of a host, if one lives."""
        worker = self.workers[ground.name]
        if worker is not None:
            worker.kill()
            self.workers[ground.name] = None

    def restart_worker(self, ground: Ground, boot: int) -> None:
        """Start a worker unless the host was restarted meanwhile."""
        if ground.boot == boot and self.workers[ground.name] is None:
            self.start_worker(ground)

    def _lose_shepherd(self, ground: Ground, seam: str) -> None:
        self.strikes.note_seam("shepherd", seam)
        self.end_shepherd(ground)
        self.loop.after(self.down_us(), self.restart_shepherd, ground, ground.boot)

    def end_shepherd(self, ground: Ground) -> None:
        """Kill the shepherd of a host, if one lives."""
        if ground.shepherd is not None:
            ground.shepherd.kill()
        worker = self.workers[ground.name]
        if worker is not None:
            worker.note_shepherd_killed()

    def restart_shepherd(self, ground: Ground, boot: int) -> None:
        """Start a shepherd unless the host was restarted meanwhile."""
        if ground.boot == boot and ground.shepherd is None:
            self.start_shepherd(ground)

    def check_equal(self, state: ClusterState, whose: str) -> None:
        """Every state at the last stored entry is the one that the entries made."""
        if state.seq == self.truth.state.seq:
            demand(digest(state) == digest(self.truth.state), f"{whose} state is another")

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong any more."""
        return self.loop.now_us >= self.faults.until_us

    def enrol(
        self, command: EnrolHost, on_reply: Callable[[Reply], object], *, delay_us: Micros
    ) -> None:
        """Let somebody come to the controller with a token; nobody may be there."""

        def arrive() -> None:
            if self.leader is not None:
                self.leader.enrol(command, on_reply)

        self.loop.after(delay_us, arrive)

    def renew_key(self, host: str) -> None:
        """Give a host another key; it may use it before that is trusted."""
        self.keeper.trust(self.keyring.make(host), host)
