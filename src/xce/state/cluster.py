"""The cluster state: all that is true, and indexes that `xce.state.apply` keeps in step.

Nothing here decides. Readers take it as it is; the only writer is `apply`.
"""

import heapq
from collections import deque
from typing import TypeAlias

import msgspec

from xce.model.config import AppConfig, ClusterConfig, QueueConfig
from xce.model.group import JobGroup
from xce.model.ids import HostNumber, Index, JobId, Micros, Seq
from xce.model.job import JobSpec
from xce.model.plan import Reservation
from xce.model.reason import NEW, Reason
from xce.model.record import RoomHeld
from xce.model.request import ClassKey
from xce.model.trace import TraceRule
from xce.state.account import Account
from xce.state.hosts import HostTable, PoolTable
from xce.state.job import Attempt, Job
from xce.state.key_use import KeyUse
from xce.state.logins import LoginTable
from xce.state.names import Lookups, Names, forget_name, note_name
from xce.state.needs import Form, compile_forms, delays_of
from xce.state.rights import Rights
from xce.state.sharing import Sharing
from xce.state.trust import TrustTable


class RequestClass:
    """All jobs with an equal key: what it asks for in columns, who waits, and why."""

    __slots__ = (
        "cls", "delays", "forms", "held", "jobs", "key", "live", "misfit", "moved", "pending",
        "reason", "resreq", "sorted", "suspended", "waiting",
    )  # fmt: skip

    def __init__(self, cls: int, key: ClassKey, resreq: str) -> None:
        self.cls = cls
        self.key = key
        self.resreq = resreq
        self.jobs = 0
        """How many jobs of the state are of it, and how many live attempts hold its amounts."""
        self.waiting: dict[JobId, None] = {}
        """Jobs with elements that may start now; in order of submission when ``sorted``."""
        self.sorted = True
        self.moved: dict[JobId, None] = {}
        """Those that were moved to another place in their queue; they are not in ``waiting``."""
        self.reason: Reason = NEW
        self.pending = 0
        """Elements that pend, eligible or not."""
        self.held = 0
        self.live = 0
        self.suspended = 0
        self.forms: tuple[Form, ...] = ()
        """The ways to run it: one for each alternative of its request."""
        self.delays = delays_of(key.request)
        """So long after a job was submitted its request asks for less, rising."""
        self.misfit: tuple[int, str] = (-1, "")
        """Why it fits on no idle cluster, and at which `HostTable.change` that was found out."""

    def compile(self, hosts: HostTable) -> None:
        """Lay the request's amounts out along the rows of ``hosts``."""
        self.forms = compile_forms(self.key.request, hosts.row, hosts.width, hosts.word_row)

    @property
    def has_waiting(self) -> bool:
        """Whether any job has elements that may start now."""
        return bool(self.waiting or self.moved)

    def eligible(self) -> list[JobId]:
        """Return the waiting jobs in order of submission."""
        if not self.sorted:
            self.waiting = dict.fromkeys(sorted(self.waiting))
            self.sorted = True
        return list(self.waiting)


class Window(msgspec.Struct, gc=False, array_like=True):
    """The run windows of a queue."""

    intervals: tuple[tuple[Micros, Micros], ...]
    """``(opens, closes)``, sorted, apart from each other."""
    is_open: bool = False


class Switch(msgspec.Struct, gc=False, array_like=True):
    """What an administrator made of a queue, over what its configuration says."""

    is_open: bool | None = None
    is_active: bool | None = None
    comment: str = ""


class Shut(msgspec.Struct, gc=False, array_like=True):
    """The clock of a queue that goes while it starts nothing: it is inactive or closed by time."""

    total_us: Micros = 0
    since_us: Micros = 0
    """Since when it goes; 0: it stands."""

    def at(self, now_us: Micros) -> Micros:
        """Return what it says."""
        return self.total_us + (max(0, now_us - self.since_us) if self.since_us else 0)


Places: TypeAlias = dict[tuple[JobId, int], None]


class ClusterState:
    """What is true after entry ``seq``."""

    def __init__(self) -> None:
        self.seq, self.now_us = 0, 0
        self.config, self.config_version, self.windows_version = ClusterConfig(), 0, 0
        """Windows: of the configuration whose windows were resolved last."""
        self.long_grace_us: tuple[Micros, Micros] = (0, 0)
        """``(before, grace)``: attempts that were placed by that instant may outlive a lost contact
        by nearly that grace, though it is shorter now."""
        self.next_job, self.next_spec, self.next_class, self.next_trace = 1, 1, 1, 1
        self.lost_jobs, self.attempts_above = list[tuple[JobId, JobId]](), 0
        """Ids, from .. to, that are not given out since the journal was restored: hosts may know
        jobs of theirs that it lacks. What is placed anew of a job up to the last of them, which are
        those of the last restore, has a number above the other one."""
        self.hosts, self.pools = HostTable(), PoolTable()
        self.specs, self.spec_uses = dict[int, JobSpec](), dict[int, int]()
        """How many jobs use a spec, unless it is one."""
        self.sharing, self._lookups = Sharing(), Lookups()
        # By spec: when jobs of it must be over, where it says so; and what of ``due`` is for that.
        self.deadlines, self.awaited = dict[int, Micros](), set[tuple[Micros, JobId]]()
        self.classes, self.class_ids = dict[int, RequestClass](), dict[ClassKey, int]()
        self.jobs, self.keys = dict[JobId, Job](), dict[tuple[str, str], KeyUse]()
        self.reservations: dict[JobId, dict[Index, Reservation]] = {}
        """What is kept for waiting elements; theirs until they are placed or wait no more."""
        self.shares: dict[tuple[str, str], Account] = {}
        """By queue and user: what fairshare goes by."""
        self.holds: dict[tuple[JobId, Index], RoomHeld] = {}
        """Room that is held for waiting elements until they are placed or wait no more."""
        self.windows, self.shut, self.timed_from = dict[str, Window](), dict[str, Shut](), 0
        """By queue: when its run windows are open, as far as that is resolved; how long it started
        nothing. Of jobs before the last one nobody knows for how long they were ineligible."""
        self.switches, self.groups = dict[str, Switch](), dict[str, JobGroup]()
        """By queue: what an administrator opened, closed, activated or inactivated. Job groups that
        somebody has made, by name."""
        self.trust, self.logins, self.traces = TrustTable(), LoginTable(), dict[int, TraceRule]()
        """Rules of what sessions tell stand by their numbers, which are never used again."""
        # Indexes; not part of a snapshot but where it is said.
        self.waiting: dict[int, RequestClass] = {}
        """Classes with waiting jobs, by number: a session looks at no others."""
        self.unfinished: dict[str, dict[JobId, None]] = {}
        """By user."""
        self.on_host, self.members = dict[HostNumber, Places](), dict[str, Places]()
        """Live attempts ``(job, position)`` by their first host, and by the placement group of
        their job."""
        self.owed: dict[HostNumber, dict[tuple[JobId, int], None]] = {}
        """Of these, the ones about which the host must be told something."""
        self.left_classes, self.stopped = dict[int, None](), dict[tuple[JobId, int], None]()
        """Classes of which live attempts are left, and no job is: it was modified; live attempts
        that the cluster itself suspends."""
        self.dependents: dict[JobId, dict[JobId, None]] = {}
        """By the job waited for."""
        self.avoiders: dict[HostNumber, dict[JobId, None]] = {}
        """Unfinished jobs that failed to start on a host through its fault."""
        self.due: list[tuple[Micros, JobId]] = []
        """Heap of instants at which a job must be looked at again."""
        self.returns: list[tuple[Micros, JobId, int, int]] = []
        """Heap of instants at which amounts come back: ``(at, job, position, attempt)``."""
        self.returns_gone = 0
        """About how many of them are of attempts that are over."""
        self.finished: deque[tuple[Micros, JobId, Seq]] = deque()
        """Finished jobs in the order of their end, with the ending entry. In a snapshot."""
        self.set_queues()

    # Two indexes of which a start of everything does without: they are made when first asked for.

    def begin_loading(self) -> None:
        """Let the specs and jobs that come now be in no index until somebody asks."""
        self._lookups.names = self._lookups.spec_ids = None

    @property
    def names(self) -> Names:
        """Jobs by user and name, finished ones too."""
        if self._lookups.names is None:
            self._lookups.names = {}
            for job in self.jobs.values():
                self.note_name(job)
        return self._lookups.names

    def note_name(self, job: Job) -> None:
        """Let a job be found by its name."""
        names = self._lookups.names
        if names is not None:
            note_name(names, job.owner.user, self.specs[job.spec_id].name, job.id)

    def forget_name(self, job: Job) -> None:
        """Let a job not be found by its name any more."""
        names = self._lookups.names
        if names is not None:
            forget_name(names, job.owner.user, self.specs[job.spec_id].name, job.id)

    @property
    def spec_ids(self) -> dict[JobSpec, int]:
        """The id of each spec."""
        if self._lookups.spec_ids is None:
            self._lookups.spec_ids = {spec: spec_id for spec_id, spec in self.specs.items()}
        return self._lookups.spec_ids

    def note_spec(self, spec_id: int, spec: JobSpec) -> None:
        """Have a spec."""
        self.specs[spec_id] = spec
        if spec.deadline_us:
            self.deadlines[spec_id] = spec.deadline_us
        if self._lookups.spec_ids is not None:
            self._lookups.spec_ids[spec] = spec_id

    def forget_spec(self, spec_id: int) -> None:
        """Have a spec no more."""
        spec = self.specs.pop(spec_id)
        if spec.deadline_us:
            self.deadlines.pop(spec_id, None)
        if self._lookups.spec_ids is not None:
            del self._lookups.spec_ids[spec]

    def set_queues(self) -> None:
        """Index queues and profiles by name as configuration and operators want them; compile the
        rights.
        """
        self.rights = Rights(self.config)
        self.queues: dict[str, QueueConfig] = {
            q.name: self._switched(q) for q in self.config.queues
        }
        self.apps: dict[str, AppConfig] = {app.name: app for app in self.config.applications}
        self.default_queue = next((q.name for q in self.config.queues if q.default), "")

    def _switched(self, queue: QueueConfig) -> QueueConfig:
        switch = self.switches.get(queue.name)
        if switch is None:
            return queue
        return msgspec.structs.replace(
            queue,
            open=queue.open if switch.is_open is None else switch.is_open,
            active=queue.active if switch.is_active is None else switch.is_active,
        )

    def is_window_open(self, queue: str) -> bool:
        """Return whether jobs of a queue may run now: it has no windows, or one is open."""
        if queue in self.windows:
            return self.windows[queue].is_open
        return queue not in self.queues or not self.queues[queue].run_windows

    def next_window_us(self, queue: str) -> Micros:
        """Return when a closed queue's next window opens; 0: nobody knows."""
        window = self.windows.get(queue)
        intervals = window.intervals if window is not None else ()
        return next((opens_us for opens_us, _ in intervals if opens_us > self.now_us), 0)

    def window_closes_us(self, queue: str, now_us: Micros) -> Micros:
        """Return when the run window of a queue closes in which ``now_us`` lies; 0: never."""
        window = self.windows.get(queue)
        intervals = window.intervals if window is not None else ()
        return next((ends_us for opens_us, ends_us in intervals if opens_us <= now_us < ends_us), 0)

    def spec(self, job: Job) -> JobSpec:
        """Return what ``job`` runs."""
        return self.specs[job.spec_id]

    def spec_at(self, job: Job, position: int) -> JobSpec:
        """Return what the element at ``position`` runs, or is to run when it starts."""
        return self.specs[self.spec_id_at(job, position)]

    def spec_id_at(self, job: Job, position: int) -> int:
        """Return the id of that."""
        attempt = job.live.get(position) if job.live else None
        return (attempt.spec_id if attempt is not None else 0) or job.form_at(position)[1]

    def class_at(self, job: Job, position: int) -> RequestClass:
        """Return the class of the element at ``position``, or of what it holds while it lives."""
        attempt = job.live.get(position) if job.live else None
        return self.classes[attempt.cls if attempt is not None else job.form_at(position)[0]]

    def key(self, job: Job) -> ClassKey:
        """Return the key of the class of ``job``."""
        return self.classes[job.cls].key

    def wait_until(self, at_us: Micros, job: JobId) -> None:
        """Have ``job`` looked at again at ``at_us``."""
        heapq.heappush(self.due, (at_us, job))

    def attempt(self, job: JobId, position: int) -> Attempt | None:
        """Return the live attempt of an element, or None."""
        found = self.jobs.get(job)
        return found.live.get(position) if found is not None and found.live else None

    def attempt_of(self, job: JobId, index: Index) -> Attempt | None:
        """Return the live attempt of the element with an index, or None: there may be no such."""
        found = self.jobs.get(job)
        position = found.position(index) if found is not None else None
        return self.attempt(job, position) if position is not None else None

    def is_from_before(self, job: JobId, number: int) -> bool:
        """Return whether an attempt was placed before the journal was restored."""
        lost = self.lost_jobs
        is_old = bool(lost) and number <= self.attempts_above
        return is_old and (job <= lost[-1][1] or self.is_lost(job))

    def is_lost(self, job: JobId) -> bool:
        """Return whether a job may have had this id that a restored journal lacks."""
        return any(first <= job <= last for first, last in self.lost_jobs)

    def room(self, job: Job) -> int:
        """Return how many more elements of ``job`` its array limit lets run now."""
        limit = job.array.limit if job.array is not None else 0
        return job.size if limit == 0 else max(0, limit - job.live_count)
