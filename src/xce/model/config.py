"""Configuration as values: what ``xce.config`` makes of the files and a record carries.

All of it is in the state, so every follower knows which configuration held when.
"""

from typing import Final

import msgspec

from xce.model.api import ApiConfig
from xce.model.device import MPS_CONTROL, Device
from xce.model.ids import HOUR_US, MINUTE_US, SECOND_US, Micros
from xce.model.job import ARRAY_SIZE_MAX, REQUEUES_MAX
from xce.model.mail import MailConfig
from xce.model.permission import EVERYONE
from xce.model.process_limits import NO_LIMITS, ProcessLimits
from xce.model.processor import Processor

ORDERS: Final = ("fcfs", "sjf", "fairshare")
"""How jobs of a queue are ordered: as submitted, short ones first, by shares of use."""
PREEMPTIONS: Final = ("suspend", "requeue", "kill")
"""How a job gives way: it is stopped and goes on later, starts anew later, or ends."""
MODES: Final = ("production", "test")
"""``test``: processes of the controller's own machine may speak without TLS, and test tools may
submit past the apiserver."""
BACKFILLS: Final = {"none": 0, "easy": 1, "conservative": 100}
"""Kinds of backfill, and how many blocked jobs of a queue hold a reservation unless it is said.

``none``: what fits starts, whatever waits in front. Else a blocked job gets a reservation at the
earliest instant at which it will fit, and what would delay it waits: ``easy`` keeps that promise to
the first blocked job of a queue, ``conservative`` to every one.
"""
GPU_POLICIES: Final = ("default", "best-fit", "spread", "dot-product", "fragmentation")
"""Which hosts are best for requests with GPUs; see `xce.sched.gpu_score`."""
LEVELS: Final = ("switch", "block", "rack", "zone")
"""Levels of domains in which hosts lie, the narrowest first, where none are declared."""
MISSED_BEATS: Final = 3
"""So many beats of a worker may be missed."""
FENCE_KILL_PERCENT: Final = 95
"""After so much of its grace a host that has lost the controller kills what it has frozen."""
BUILT_IN_RESOURCES: Final = ("slots", "mem")
"""The first columns of every host: slots, and memory in MiB."""


class ResourceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A declared resource.

    ``counter``: consumable amounts on hosts. ``pool``: a consumable amount of the whole cluster.
    ``number``, ``string``, ``boolean``: attributes of hosts, for select and order.
    """

    name: str
    kind: str
    unit: str = ""
    description: str = ""


class HostConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One host, or what a pattern of names means for each of them after expansion."""

    name: str
    slots: int | None = None
    """None: the CPUs that the worker reports."""
    mem_mib: int | None = None
    counters: dict[str, int] = {}
    attributes: dict[str, int | str | bool] = {}
    """Numbers are in thousandths."""
    closed: bool = False
    labels: dict[str, str] = {}
    """By level of `ClusterConfig.levels`: in which domain of it the host lies."""
    gpus: tuple[Device, ...] | None = None
    """None: those that the worker reports."""
    processors: tuple[Processor, ...] | None = None
    """None: those that the worker reports; none: jobs are bound to none there."""


class ShareConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A user or a group with shares of what its group gets."""

    name: str
    """A user; with ``members``: a group. ``default``: each user who is not named in the tree."""
    shares: int = 1
    members: tuple["ShareConfig", ...] = ()


class WindowConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a queue runs jobs, by the clock on the wall."""

    start_min: int
    """Minutes since midnight, or since Sunday's midnight when ``weekly``."""
    end_min: int
    """As ``start_min``; not behind it: on the next day, or in the next week."""
    weekly: bool = False


class ExitValues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of exit statuses, rising; see `xce.model.exit_values`."""

    codes: tuple[int, ...] = ()
    elsewhere: tuple[int, ...] = ()
    """Those of ``EXCLUDE()``, which are in ``codes`` too."""


INTERACTIVES: Final = ("allow", "refuse", "only")
"""What a queue does with interactive jobs; ``only``: it takes no others."""


class QueueConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue: policy and ceilings."""

    name: str
    priority: int = 1
    """Larger goes first."""
    description: str = ""
    default: bool = False
    open: bool = True
    active: bool = True
    run_limit_us: Micros = 0
    """Ceiling on ``-W``; 0: none."""
    default_run_limit_us: Micros = 0
    tasks_max: int = 0
    """Ceiling on ``-n``; 0: none."""
    tasks_min: int = 0
    mem_limit_mib: int = 0
    exclusive: bool = False
    """Whether it takes ``-x`` jobs."""
    users: tuple[str, ...] = ()
    """Who may submit; empty: all."""
    hosts: tuple[str, ...] = ()
    """Which hosts its jobs may use; empty: all."""
    backfill: str = ""
    """`BACKFILLS`; empty: the cluster's."""
    run_windows: tuple[WindowConfig, ...] = ()
    """When its jobs may run; empty: always."""
    preempt: tuple[str, ...] = ()
    """Queues of lower priority whose jobs give way for its own."""
    preemption: str = ""
    """`PREEMPTIONS`: how its jobs give way; empty: the cluster's."""
    policy: str = ""
    """`ORDERS`; empty: the cluster's."""
    fairshare: tuple[ShareConfig, ...] = ()
    """Who has which shares; empty: all users the same."""
    reservations: int = 0
    """How many blocked jobs hold a reservation; 0: the cluster's."""
    rerunnable: bool = False
    """Whether jobs that do not say are started anew when their host fails."""
    interactive: str = "allow"
    """`INTERACTIVES`."""
    load_sched: dict[str, int] = {}
    """By load index, in thousandths: on a host on which it is worse none of its jobs starts."""
    load_stop: dict[str, int] = {}
    """Likewise: where it is worse its jobs are suspended, one after the other."""
    requeue_exit_values: ExitValues = ExitValues()
    """Exit statuses for which jobs that do not say are started anew."""
    success_exit_values: ExitValues = ExitValues()
    """Exit statuses beside 0 with which a job is done."""
    max_requeues: int = 0
    """So often an element is started anew for its exit status; 0: as the cluster has it."""
    pre_exec: str = ""
    """A command that runs before each of its jobs, as the job's user."""
    post_exec: str = ""
    """One that runs after each of them, however it ended."""
    limits: ProcessLimits = NO_LIMITS
    """Of jobs that say none, and ceilings on ``-c -v -p -T -S -D -F -C``."""
    default_cpu_limit_us: Micros = 0
    """Of jobs that say none, in place of the ceiling; 0: that one."""
    overrun_us: Micros = 0
    """Jobs that run longer are told to be exceptions; 0: none is."""
    underrun_us: Micros = 0
    """Likewise: those that are over sooner."""
    idle_milli: int = 0
    """Likewise: those that use less CPU time than so many thousandths of the time that they run."""
    idle_after_us: Micros = 20 * MINUTE_US
    """Before that none is told to be idle."""


class AppConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An application profile: what jobs of an application need, and how they run."""

    name: str
    description: str = ""
    resreq: str = ""
    """Under the job's own: `xce.resreq.base`."""
    run_limit_us: Micros = 0
    """Of jobs that say none, and a ceiling on ``-W``; 0: none."""
    estimate_us: Micros = 0
    """Of jobs that say none."""
    mem_limit_mib: int = 0
    """Of jobs that say none, and a ceiling on ``-M``; 0: none."""
    tasks_min: int = 0
    tasks_max: int = 0
    rerunnable: bool | None = None
    """Whether jobs that do not say are started anew when their host fails; None: as the queue."""
    requeue_exit_values: ExitValues = ExitValues()
    """Exit statuses for which jobs that do not say are started anew."""
    success_exit_values: ExitValues = ExitValues()
    """Exit statuses beside 0 with which a job is done."""
    max_requeues: int = 0
    """So often an element is started anew for its exit status; 0: as the queue has it."""
    pre_exec: str = ""
    """Runs before each job, behind the queue's."""
    post_exec: str = ""
    """Runs after each job, before the queue's."""
    limits: ProcessLimits = NO_LIMITS
    """Of jobs that say none, and ceilings, as of queues."""
    self_fence: bool | None = None
    """As of the cluster, for its rerunnable jobs; None: as there."""


class PoolConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A counter that lives nowhere in particular."""

    name: str
    total: int


class RoleConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A role: a set of permissions with a name."""

    name: str
    permissions: tuple[str, ...]
    """``job:kill``, ``job:*`` or ``*``."""


class GrantConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Gives a role to users and groups: in the whole cluster, or in a queue or project only."""

    role: str
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    queue: str = ""
    project: str = ""
    """With everything below it."""


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that configuration says, checked together; sorted by name where order is free."""

    cluster_name: str = "xce"
    hosts: tuple[HostConfig, ...] = ()
    resources: tuple[ResourceConfig, ...] = ()
    queues: tuple[QueueConfig, ...] = (
        QueueConfig(name="normal", priority=30, default=True, description="built-in queue"),
    )
    pools: tuple[PoolConfig, ...] = ()
    applications: tuple[AppConfig, ...] = ()
    default_application: str = ""
    """The profile of jobs that name none; empty: none."""
    admins: tuple[str, ...] = ()
    clean_period_us: Micros = HOUR_US
    max_array_size: int = ARRAY_SIZE_MAX
    orphan_grace_us: Micros = 0
    """How long a job whose dependency can never hold pends before it ends; -1: for ever."""
    term_grace_us: Micros = 600 * SECOND_US
    """From the run limit's USR2 to the first INT, as LSF."""
    kill_interval_us: Micros = 10 * SECOND_US
    """Between INT, TERM and KILL."""
    key_window_us: Micros = HOUR_US
    default_project: str = "default"
    session_gather_us: Micros = 2_000
    lsf_product_line: str = ""
    """What ``lsid`` prints first, where a client looks for LSF's product line; empty: XCE's own."""
    lsf_unit_for_limits: str = "MB"
    lsf_parse_script: bool = True
    output_retention_us: Micros = 30 * 24 * HOUR_US
    time_zone: str = "UTC"
    """IANA name of the zone in which run windows are meant."""
    preemption: str = "suspend"
    """`PREEMPTIONS`: of queues that do not say."""
    preemptions_max: int = 3
    """So often an element may be made to give way."""
    policy: str = "fcfs"
    """`ORDERS`: of queues that do not say."""
    fairshare_chunk: int = 100
    """After so many placements in a session the order of fairshare is computed again."""
    fairshare_half_life_us: Micros = 90 * 60 * SECOND_US
    """In which past use counts for half; 0: it never fades."""
    backfill: str = "none"
    """`BACKFILLS`: of queues that do not say."""
    reservations: int = 0
    """Of queues that do not say; 0: as the kind of backfill has it."""
    max_requeues: int = REQUEUES_MAX
    """Of queues that do not say."""
    pre_exec_tries: int = 5
    """So often a job is tried whose pre-execution command fails; then it ends."""
    hook_limit_us: Micros = 600 * SECOND_US
    """So long a pre- or post-execution command may take, or a program that writes a checkpoint."""
    start_failures_max: int = 3
    """Failed starts through the host's fault, one after another, until it is closed."""
    start_retry_us: Micros = 300 * SECOND_US
    """So long after a host's last such failure, jobs that failed there may try it again."""
    gpu_policy: str = "default"
    """Which hosts are best for requests with GPUs: `GPU_POLICIES`."""
    levels: tuple[str, ...] = ()
    """Levels of domains in which hosts lie, the narrowest first; empty: `LEVELS`."""
    default_level: str = ""
    """The level of ``cu[]`` that names none; empty: the narrowest one."""
    heartbeat_us: Micros = 5 * SECOND_US
    """How often a worker says that it is there."""
    host_grace_us: Micros = 120 * SECOND_US
    """So long a host may be away before it is given up."""
    self_fence: bool = False
    """Whether a host that has lost the controller freezes rerunnable jobs, and then kills them."""
    fence_after_us: Micros = 0
    """So long after the last word of the controller they are frozen; 0: most of the grace."""
    losses_max: int = 3
    """A host that is lost so often within ``losses_window_us`` is closed."""
    losses_window_us: Micros = HOUR_US
    settle_max_us: Micros = 60 * SECOND_US
    """So long at most a new reign waits for the hosts that were up, before any is given up."""
    mail: MailConfig = MailConfig()
    checkpoint_programs: str = ""
    """Directory of programs that write checkpoints on all hosts; empty: there are none."""
    mps_control: str = MPS_CONTROL
    """The program that is MPS's control daemon on all hosts."""
    controller_memory_mib: int = 0
    """With so much in memory a controller takes no new jobs; 0: a fifth of what its machine, or its
    control group, has."""

    @property
    def silence_us(self) -> Micros:
        """How long nothing may be heard of a host until its jobs are shown as unknown."""
        return MISSED_BEATS * self.heartbeat_us

    @property
    def has_fences(self) -> bool:
        """Whether any job may be frozen and killed by a host that has lost the controller."""
        return self.self_fence or any(app.self_fence for app in self.applications)

    def fence_spans(self, wanted: bool | None = None) -> tuple[Micros, Micros]:
        """Return how long after the last word of the controller a job is frozen, and killed.

        What is frozen goes on if the controller is heard again before it is killed. Both are
        shorter than the grace, so that it is gone before it can be started elsewhere, though the
        clocks of two machines do not run alike and a kill takes its time.

        Args:
            wanted: What its profile says of it; None: nothing.

        Returns:
            Two spans; zeros: it runs on as it likes.
        """
        if not (self.self_fence if wanted is None else wanted):
            return 0, 0
        frozen_us = self.fence_after_us or self.host_grace_us * 3 // 4
        return frozen_us, self.host_grace_us * FENCE_KILL_PERCENT // 100

    mode: str = "production"
    """`MODES`; in effect from the next start of the controller."""
    listen: str = ""
    """``host:port`` at which the controller hears components of other machines; empty: it does not.
    In effect from the next start of the controller."""

    everyone: tuple[str, ...] = EVERYONE
    """Permissions of every user who was identified."""
    roles: tuple[RoleConfig, ...] = ()
    """Beside `xce.model.permission.BUILT_IN_ROLES`."""
    grants: tuple[GrantConfig, ...] = ()
    api: ApiConfig = ApiConfig()
    new_privileges: bool = False
    """Whether jobs may gain privileges by set-id programs, on hosts whose workers `xce up` starts.
    """
    load_interval_us: Micros = 15 * SECOND_US
    """How often a changed load of hosts is recorded; 0: never."""

    def domain_level(self, name: str) -> str:
        """Return the level that ``cu[type=name]`` means; an empty name: the default one."""
        return name or self.default_level or (self.levels or LEVELS)[0]
