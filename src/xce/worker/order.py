"""Orders to the shepherd that the host state machine does not know the form of.

The simple ones (`Signal`, `Suspend`, `SetLimit`, `Forget`, `Lease`) are sent as they are; see
`xce.worker.action`.
"""

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from xce.model.ids import Index, JobId, Micros
from xce.worker.action import KEPT, Forget, Lead, Lease, SetLimit, Signal, Suspend
from xce.worker.streams import Target

SpawnItem: TypeAlias = tuple[JobId, Index, int, dict[str, str], str, Target | None, Target | None]
"""``(job, index, attempt, its own variables, input, output, error)``."""


class ShareOrder(msgspec.Struct, frozen=True, array_like=True):
    """A daemon that attempts of one user share on a host (`xce.worker.mps.share_order`)."""

    name: str
    """The same for all that share it, and for nobody else's."""
    start: list[str]
    """The command that starts it where it does not run, and tells one attempt of it."""
    quit: list[str]
    """The command that ends it."""


class SpawnShared(msgspec.Struct, frozen=True, kw_only=True):
    """What all elements of one spawn order share."""

    note: str
    """The `Launch` as JSON."""
    base: str
    """Names one of the environments that are sent along."""
    env: dict[str, str]
    uid: int
    gid: int
    groups: tuple[int, ...]
    cwd: str
    make_cwd: bool
    umask: int
    script: list[str]
    """The script's path and its arguments."""
    way: str
    limit_kib: int
    terminal: str = ""
    """The mode of an interactive job's terminal."""
    window: tuple[int, int] = (0, 0)
    """Its rows and columns."""
    hooks: tuple[tuple[str, str, str], ...] = ()
    """Commands before and after the job: see `xce.worker.shepherd.hooks.Step`."""
    hook_limit_us: Micros = 0
    requeue_codes: tuple[int, ...] = ()
    """Exit statuses after which post hooks are told that the job waits again."""
    outer: dict[str, str] = {}
    """Beside ``env``, the variables of hooks that are not the job's own."""
    bindings: dict[str, tuple[list[int], list[int], bool]] = {}
    """By index: the processors and NUMA domains that the element is bound to, and whether it may
    take memory of these alone."""
    login: str = ""
    """Path of the shell whose login files are read before."""
    says: bool = False
    """Whether it may leave a last word (`xce.worker.shepherd.rundir.SAID`)."""
    output_dir: str = ""
    """A directory that is made before; empty: none."""
    limit_code: str = ""
    """What a shell does to hold itself to limits of each process; empty: there are none."""
    is_counted: bool = False
    """Whether it is measured for limits beside that of memory."""
    before: dict[str, str] = {}
    """By index: what the job shell does before the script (`xce.worker.mps.mps_code`)."""
    last: dict[str, list[str]] = {}
    """By index: the command that ends what ``before`` has started."""
    shares: dict[str, ShareOrder] = {}
    """By index: the daemon that it shares with others of its user."""


class SpawnOrder(msgspec.Struct, frozen=True, tag="spawn", array_like=True):
    """Start attempts."""

    shared: SpawnShared
    items: list[SpawnItem]


class AppendOrder(msgspec.Struct, frozen=True, tag="append", array_like=True):
    """Add a report to the output file."""

    job: JobId
    index: Index
    attempt: int
    text: str


class TerminalOrder(msgspec.Struct, frozen=True, tag="terminal", array_like=True):
    """Read what an interactive job wrote, type at it, set its window's size, hang up."""

    id: int
    key: tuple[JobId, Index, int]
    offset: int
    """Everything before was read."""
    limit: int
    """0: nothing is read."""
    wait_us: Micros
    place: int
    """Of the first byte of what was typed."""
    typed: str
    """In base 64."""
    is_end: bool
    rows: int
    columns: int
    hangs_up: bool


class PartShared(msgspec.Struct, frozen=True, kw_only=True):
    """What the shepherd must know of a part."""

    note: str
    """The `Launch` as JSON."""
    uid: int
    gid: int
    groups: tuple[int, ...]
    limit_kib: int
    is_counted: bool = False
    """As in `SpawnShared`."""
    last: list[str] = []
    """As in `SpawnShared`, of the part's element."""
    share: ShareOrder | None = None
    """As in `SpawnShared`, likewise."""


class PartOrder(msgspec.Struct, frozen=True, tag="part", array_like=True):
    """Have a place for tasks of an attempt that another host leads."""

    key: tuple[JobId, Index, int]
    shared: PartShared


class StartShared(msgspec.Struct, frozen=True, kw_only=True):
    """What the shepherd must know of a task to start it."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    umask: int
    has_input: bool
    binding: tuple[list[int], list[int], bool] | None = None
    """As in `SpawnShared.bindings`."""


class TaskOrder(msgspec.Struct, frozen=True, tag="task", array_like=True):
    """Start, read, feed, signal or end a task; answered by `TaskTold` under its number."""

    id: int
    key: tuple[JobId, Index, int]
    fields: tuple[str | int | bool | StartShared, ...]
    """What is to be done, the task's name, and what that takes."""


class ReadOrder(msgspec.Struct, frozen=True, tag="read", array_like=True):
    """Read a piece of a job's output."""

    id: int
    key: tuple[JobId, Index, int]
    path: str
    """Empty: output that the cluster keeps."""
    inside: str
    """Name of the file, should ``path`` be a directory."""
    ids: tuple[int, int, tuple[int, ...]]
    offset: int
    limit: int


class UsesOrder(msgspec.Struct, frozen=True, tag="uses", array_like=True):
    """Tell what everything that runs uses; answered by `xce.worker.action.Uses`."""

    id: int


class CheckpointShared(msgspec.Struct, frozen=True, kw_only=True):
    """What the shepherd must know to have a checkpoint written."""

    argv: list[str]
    """Behind them comes the job shell's pid, which is the job's process group."""
    env: dict[str, str]
    cwd: str
    umask: int
    ends: bool
    limit_us: Micros
    """So long it may take; 0: any time."""


class CheckpointOrder(msgspec.Struct, frozen=True, tag="checkpoint", array_like=True):
    """Have a checkpoint written; answered by `Checkpointed`."""

    job: JobId
    index: Index
    attempt: int
    count: int
    shared: CheckpointShared


class WarningShared(msgspec.Struct, frozen=True, kw_only=True):
    """What the shepherd must know to have a warning command run."""

    command: str
    cwd: str
    umask: int
    limit_us: Micros
    """So long it may take; 0: any time."""


class WarningOrder(msgspec.Struct, frozen=True, tag="warning", array_like=True):
    """Have the command run that warns before a limit; its failure is told with the job's end."""

    job: JobId
    index: Index
    attempt: int
    which: Micros
    """As `xce.worker.action.Warn.limit_us`."""
    shared: WarningShared


class EarlierLease(msgspec.Struct, frozen=True, tag="lease", array_like=True):
    """A `Lease` for a shepherd of an older release, which kills and cannot freeze."""

    until: list[tuple[JobId, Index, int, Micros]]
    """By the clock that stands still while the machine sleeps."""


Order: TypeAlias = (
    SpawnOrder
    | Signal
    | Suspend
    | AppendOrder
    | Forget
    | ReadOrder
    | UsesOrder
    | CheckpointOrder
    | WarningOrder
    | TerminalOrder
    | PartOrder
    | TaskOrder
    | Lead
    | Lease
    | EarlierLease
    | SetLimit
)


class OrderFrame(msgspec.Struct, frozen=True):
    """What one frame to the shepherd holds."""

    orders: list[Order]
    bases: dict[str, dict[str, str]]


_ENCODER = msgspec.json.Encoder()


def encode_orders(frame: OrderFrame) -> bytes:
    """Return the frame as JSON; bytes that are no UTF-8 travel as lone surrogates."""
    try:
        return _ENCODER.encode(frame)
    except UnicodeEncodeError:
        plain: Any = msgspec.to_builtins(frame)
        return json.dumps(plain).encode()


def for_earlier(orders: Iterable[Order], asleep_us: Micros) -> list[Order]:
    """Return orders for a shepherd that cannot freeze: it kills instead.

    Args:
        orders: As they are meant.
        asleep_us: How long the machine has slept since it was started.
    """
    told: list[Order] = []
    for order in orders:
        if not isinstance(order, Lease):
            told.append(order)
        elif all(at_us != KEPT for *_, at_us in order.until):
            until = [(job, index, number, at_us) for job, index, number, at_us, _ in order.until]
            told.append(EarlierLease([(*one[:3], one[3] - asleep_us) for one in until]))
    return told
