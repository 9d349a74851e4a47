"""What the host state machine wants done, and what the shepherd tells it: plain values.

An action is carried out by the shell, mostly by passing it on to the shepherd as an order. Both
sides' lists are typed here; the shepherd, which imports the standard library only, uses plain lists
of the same form. New fields only at the end.
"""

from typing import Final, NamedTuple, TypeAlias

import msgspec

from xce.model.effect import Launch
from xce.model.ids import Index, JobId, Micros
from xce.model.observation import AttemptEnded
from xce.model.usage import AttemptUse

Key: TypeAlias = tuple[JobId, Index, int]
"""``(job, index, attempt)``."""
KEPT: Final = -1
"""In a `Lease`: whoever gives it does not know when the controller was there last."""


class Spawn(msgspec.Struct, frozen=True, gc=False):
    """Start elements of a launch: ``(index, attempt)`` each."""

    launch: Launch
    elements: list[tuple[Index, int]]


class SpawnPart(msgspec.Struct, frozen=True, gc=False):
    """Have a place for tasks of an attempt that another host leads."""

    launch: Launch
    index: Index
    attempt: int


class Lead(msgspec.Struct, frozen=True, gc=False, tag="lead", array_like=True):
    """Write down that an attempt may have a part on another host; answered by `Led`."""

    job: JobId
    index: Index
    attempt: int
    host: str


class Signal(msgspec.Struct, frozen=True, gc=False, tag="signal", array_like=True):
    """Send a signal to everything of an attempt."""

    job: JobId
    index: Index
    attempt: int
    number: int
    """The signal."""
    cause: int = 0
    """Why it is being ended; noted in the run directory before the signal is sent."""
    step: int = 0
    """How far its ending is (`xce.worker.ending`); 0: this is not about ending it."""
    count: int = 0
    """The user's signals are counted; one that was delivered is not delivered again."""


class Suspend(msgspec.Struct, frozen=True, gc=False, tag="suspend", array_like=True):
    """Stop everything of an attempt, or let it go on."""

    job: JobId
    index: Index
    attempt: int
    suspended: bool


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """Have a checkpoint written."""

    launch: Launch
    job: JobId
    index: Index
    attempt: int
    ends: bool = False
    """The job ends when it is written."""
    forced: bool = False
    count: int = 0
    """As in `Signal`; 0: it was due."""


class Warn(msgspec.Struct, frozen=True, gc=False):
    """Have the command run that warns before a limit; a second time for the same limit means
    nothing.
    """

    launch: Launch
    job: JobId
    index: Index
    attempt: int
    limit_us: Micros
    """The run limit; 0: there is only a deadline."""


class Report(msgspec.Struct, frozen=True, gc=False):
    """Add the job's report to its output file, then say so (`Appended`)."""

    launch: Launch
    end: AttemptEnded
    """Its ages are relative to ``at_us``."""
    at_us: Micros


class Forget(msgspec.Struct, frozen=True, gc=False, tag="forget", array_like=True):
    """The end is known for good: remove the run directory."""

    job: JobId
    index: Index
    attempt: int
    keep: bool
    """Whether output in it is kept for its retention."""


class Lease(msgspec.Struct, frozen=True, gc=False, tag="lease", array_like=True):
    """Until when attempts may run, and be there, though nothing more is heard; all of them, in
    place of earlier ones.
    """

    until: list[tuple[JobId, Index, int, Micros, Micros]]
    """``(job, index, attempt, frozen at, killed at)``, by the clock that goes on while the machine
    sleeps; `KEPT` twice: as the shepherd has it."""


class SetLimit(msgspec.Struct, frozen=True, gc=False, tag="limit", array_like=True):
    """Hold an attempt to another memory limit, and keep what the worker must know of it."""

    job: JobId
    index: Index
    attempt: int
    mem_limit_kib: int
    limits: tuple[int, ...]
    """As `xce.worker.attempt.Live.limits_of` makes them; given back to a worker that has just
    come."""


Action: TypeAlias = (
    Spawn
    | SpawnPart
    | Lead
    | Signal
    | Suspend
    | Checkpoint
    | Warn
    | Report
    | Forget
    | Lease
    | SetLimit
)


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What became of the last checkpoint of an attempt."""

    number: int = 0
    """Counts those that were begun; 0: there is none."""
    ends: bool = False
    is_good: bool = False
    detail: str = ""


class Greeting(msgspec.Struct, frozen=True, tag="hello", array_like=True):
    """The shepherd's first word."""

    protocol: int
    boot_id: str
    isolation: str
    pid: int
    freezes: bool = False
    """Whether it freezes attempts, and takes instants of leases by the clock that goes on while the
    machine sleeps."""
    orders: int = 1
    """Which orders it knows: `xce.worker.shepherd.loop.ORDERS`."""


class Present(msgspec.Struct, frozen=True, tag="present", array_like=True):
    """An attempt that the shepherd has; if it is over, its `Ended` follows."""

    job: JobId
    index: Index
    attempt: int
    note: str
    """The `Launch` that it came from, as JSON."""
    pid: int
    started_us: Micros
    suspended_us: Micros
    """Since when it is stopped; 0: it is not."""
    stopped_us: Micros
    """How long it was stopped before that."""
    number: int
    """The last of the user's signals that was delivered."""
    cause: int
    step: int
    step_us: Micros
    reported: bool
    limits: tuple[int, ...] = ()
    """The last ones that were set (`SetLimit.limits`); empty: those of the launch."""
    is_part: bool = False
    """Another host leads the attempt."""
    parts: tuple[str, ...] = ()
    """Other hosts that may have a part of it (`Lead`)."""
    is_posting: bool = False
    """The job itself is over, and post hooks run."""
    saved_us: Micros = 0
    """When the last checkpoint was begun; 0: none was."""
    outcome: Outcome = Outcome()
    frozen_us: Micros = 0
    """Since when it stands still for want of the controller; 0: it does not."""

    @property
    def key(self) -> Key:
        """Which attempt."""
        return self.job, self.index, self.attempt


class Listed(msgspec.Struct, frozen=True, tag="listed", array_like=True):
    """That was all there is; what follows is news."""


class Started(msgspec.Struct, frozen=True, tag="started", array_like=True):
    """The job shell runs."""

    job: JobId
    index: Index
    attempt: int
    pid: int
    started_us: Micros


class Ended(msgspec.Struct, frozen=True, tag="ended", array_like=True):
    """Nothing of the attempt is left."""

    job: JobId
    index: Index
    attempt: int
    started_us: Micros
    ended_us: Micros
    exit_code: int = 0
    signal: int = 0
    cause: int = 0
    host_fault: bool = False
    detail: str = ""
    user_us: int = 0
    system_us: int = 0
    max_mem_kib: int = 0
    max_processes: int = 0
    max_threads: int = 0
    out_of_memory: bool = False
    wants_report: bool = False
    """Whether there is an output file that a report belongs into."""
    post: int = 0
    """How its post hooks ended: `xce.model.job.PostStat`."""

    @property
    def key(self) -> Key:
        """Which attempt."""
        return self.job, self.index, self.attempt


class Listing(NamedTuple):
    """An attempt in the shepherd's list, with its launch, and its end if it is over."""

    present: Present
    launch: Launch
    ended: Ended | None


class MainOver(msgspec.Struct, frozen=True, tag="over", array_like=True):
    """The job itself is over; its post hooks run, and nothing that is decided reaches them."""

    job: JobId
    index: Index
    attempt: int


class Suspended(msgspec.Struct, frozen=True, tag="suspended", array_like=True):
    """It was stopped, or goes on."""

    job: JobId
    index: Index
    attempt: int
    suspended: bool


class Frozen(msgspec.Struct, frozen=True, tag="frozen", array_like=True):
    """It stands still for want of the controller, or goes on as far as it is not suspended."""

    job: JobId
    index: Index
    attempt: int
    frozen: bool


class Checkpointed(msgspec.Struct, frozen=True, tag="checkpointed", array_like=True):
    """A checkpoint is written, or could not be."""

    job: JobId
    index: Index
    attempt: int
    saved_us: Micros
    """When it was begun."""
    outcome: Outcome


class Usage(msgspec.Struct, frozen=True, tag="usage", array_like=True):
    """It uses more memory than it may, or is measured for other limits."""

    job: JobId
    index: Index
    attempt: int
    mem_kib: int
    """0: not too much."""
    out_of_memory: bool
    cpu_us: Micros = 0
    """Of everything that it had here."""
    swap_kib: int = 0
    """Memory and swap of what it has now."""
    processes: int = 0
    """Without the job shell."""
    threads: int = 0


class Appended(msgspec.Struct, frozen=True, tag="appended", array_like=True):
    """The report is in the output file, or cannot be."""

    job: JobId
    index: Index
    attempt: int


class Led(msgspec.Struct, frozen=True, tag="led", array_like=True):
    """It is written down that another host may have a part."""

    job: JobId
    index: Index
    attempt: int
    host: str


class TaskTold(msgspec.Struct, frozen=True, tag="task", array_like=True):
    """Answer to an order about a task."""

    id: int
    fault: int
    """`xce.model.task.TaskFault`."""
    text: str
    pid: int
    out_from: int
    out: str
    """In base 64."""
    err_from: int
    err: str
    taken: int
    is_over: bool
    code: int


class TerminalLost(msgspec.Struct, frozen=True, tag="terminal-lost", array_like=True):
    """Nobody is at the terminal of an interactive job any more."""

    job: JobId
    index: Index
    attempt: int


class TerminalRead(msgspec.Struct, frozen=True, tag="terminal", array_like=True):
    """Answer to an order about a terminal."""

    id: int
    offset: int
    content: str
    """In base 64."""
    taken: int
    """Place behind what was typed and taken."""
    is_over: bool
    """Nothing comes behind this."""
    error: str


class Piece(msgspec.Struct, frozen=True, tag="read", array_like=True):
    """A piece of a job's output, in base 64."""

    id: int
    content: str
    size: int
    error: str


class Uses(msgspec.Struct, frozen=True, tag="uses", array_like=True):
    """What the attempts that run use."""

    id: int
    rows: tuple[AttemptUse, ...]


News: TypeAlias = (
    Started | Ended | MainOver | Suspended | Frozen | Checkpointed | Usage | Appended | TerminalLost
)
"""What the host state machine is told."""
Answer: TypeAlias = Piece | TerminalRead | TaskTold | Uses
"""What it says when it was asked."""
Event: TypeAlias = News | Greeting | Present | Listed | Led | Answer
"""What the shepherd says."""
