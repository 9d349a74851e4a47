"""Effects: what a worker must be told. Owed until the state owes them no more; safe to repeat.

Every effect travels under the controller's epoch; a worker refuses lower epochs. An effect about
an attempt that the worker knows to be over is answered by its report, never done again.
"""

from typing import TypeAlias

import msgspec

from xce.model.device import DeviceGrant, GpuWish
from xce.model.ids import Index, JobId, Micros
from xce.model.job import ArraySpec, EndCause, JobSpec, Owner
from xce.model.plan import StartRule
from xce.model.processor import Binding
from xce.model.request import ClassKey


class Hook(msgspec.Struct, frozen=True, array_like=True):
    """A command before or after a job, run by the job's user on its first host."""

    kind: str
    """``pre`` or ``post``."""
    command: str
    origin: str
    """Who asks for it: ``queue``, ``application`` or ``job``."""


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """What a launch does not say of its attempts, and a controller needs to take them up again that
    has lost all it knew of them (`xce.control.adopt`). Hosts keep it and do nothing with it.
    """

    key: ClassKey
    array: ArraySpec | None = None
    rule: StartRule = StartRule.TURN
    alternative: int = 0
    rows: tuple[tuple[str, int, int], ...] = ()
    """``(host, tasks, part)`` in rank order; empty: as the launch says, with one part."""
    processors: list[list[list[int]]] = []
    """For each attempt as `xce.model.plan.GangStart.processors`; empty: any."""


class Launch(msgspec.Struct, frozen=True, tag="launch", array_like=True):
    """Start attempts of one job: ``indices[i]`` as attempt ``attempts[i]``, all on this host.

    For a job that is no array, ``indices == [0]``.
    """

    job: JobId
    indices: list[Index]
    attempts: list[int]
    spec: JobSpec
    owner: Owner
    queue: str
    project: str
    cluster: str
    hosts: tuple[tuple[str, int], ...]
    """The allocation of each attempt in rank order: ``(host, slots)``; the first is this host."""
    tasks_max: int
    submit_at_us: Micros
    run_limit_us: Micros
    term_grace_us: Micros
    kill_interval_us: Micros
    resreq: str = ""
    """The effective requirement, in canonical text."""
    array_end: Index = 0
    array_step: int = 1
    mem_request_mib: int = 0
    """What the job reserved in all, for the report."""
    restarted: list[Index] = []
    """Of ``indices``, those that ran before in an earlier attempt."""
    fence_us: Micros = 0
    """So long after the last word of the controller it is frozen; 0: never."""
    devices: list[tuple[tuple[DeviceGrant, ...], ...]] = []
    """The GPUs of each of ``indices``, for each entry of ``hosts``, in the order of tasks; empty:
    none was asked for."""
    gpu: GpuWish | None = None
    """What was asked for; of a compound request, of its first part that asks for any."""
    rows: tuple[tuple[str, str, int], ...] = ()
    """``(role, host, tasks)`` in rank order; empty: the job has no roles."""
    group: str = ""
    """The job group that it is in; empty: none."""
    bindings: list[tuple[Binding, ...]] = []
    """The processors of each of ``indices``, for each entry of ``hosts``; empty: any."""
    success_codes: tuple[int, ...] = ()
    """Exit statuses beside 0 with which it is done."""
    row_gpus: tuple[GpuWish | None, ...] = ()
    """What each of ``rows`` asked for; empty: no role asked for any."""
    hooks: tuple[Hook, ...] = ()
    """In the order in which they run."""
    hook_limit_us: Micros = 0
    """So long each of them may take; 0: any time."""
    mails_report: bool = False
    """Its report is sent by mail: it does not stand in the output file."""
    requeue_codes: tuple[int, ...] = ()
    """Exit statuses for which it is started anew; only told where there are hooks."""
    checkpoint_programs: str = ""
    """Directory of programs that write checkpoints; only told where the job has any."""
    warning_in_us: Micros = 0
    """So long after this is told the warning before its deadline is due; 0: never."""
    warning_at_us: Micros = 0
    """The same by the clock of its host, which notes it when it is told."""
    fence_kill_us: Micros = 0
    """So long after that word what was frozen is killed; 0, as a controller of an older release
    says: at once, instead of being frozen."""
    mps_control: str = ""
    """The program that is MPS's control daemon; only told where the job wants one."""
    claim: Claim | None = None
    """None: a controller of an older release told it."""


class Terminate(msgspec.Struct, frozen=True, tag="terminate", array_like=True):
    """Wanted state: gone. INT, TERM, KILL ``kill_interval_us`` apart; ``force``: KILL at once.

    ``cause`` is what the report will say; 0 with ``forget``: nobody wants to hear of it again.
    """

    job: JobId
    index: Index
    attempt: int
    cause: EndCause
    force: bool = False
    forget: bool = False
    """The attempt is not ours any more: end it, drop its record, report only that it is gone."""
    kill_interval_us: Micros = 10_000_000


class SetSuspended(msgspec.Struct, frozen=True, tag="set-suspended", array_like=True):
    """Wanted state: stopped, or running."""

    job: JobId
    index: Index
    attempt: int
    suspended: bool


class SendSignal(msgspec.Struct, frozen=True, tag="send-signal", array_like=True):
    """A user's own signal: number ``number`` of this attempt, delivered once."""

    job: JobId
    index: Index
    attempt: int
    number: int
    signal: int


class SetLimits(msgspec.Struct, frozen=True, tag="set-limits", array_like=True):
    """Wanted limits of an attempt, in place of those that it was launched with."""

    job: JobId
    index: Index
    attempt: int
    run_limit_us: Micros
    """Of its run time, which counts on; 0: none."""
    mem_limit_kib: int
    """0: none."""
    fence_us: Micros
    """As in `Launch`."""
    cpu_limit_us: Micros = 0
    """0: none."""
    checkpoint_period_us: Micros = 0
    """0: checkpoints are written only when somebody asks."""
    fence_kill_us: Micros = 0
    """As in `Launch`."""


class Identify(msgspec.Struct, frozen=True, tag="identify", array_like=True):
    """Say what it is that runs there (`xce.model.observation.AttemptTold`), or that it is gone."""

    job: JobId
    index: Index
    attempt: int


Effect: TypeAlias = Launch | Terminate | SetSuspended | SendSignal | SetLimits | Identify
