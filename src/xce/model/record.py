"""Records: facts, past tense, all that `xce.state.apply` needs. Once written, true.

Tags are on disk: never renamed. New fields stand at the end, with a default. Columns: many alike.
"""

from typing import ClassVar, TypeAlias

import msgspec

from xce.model.config import ClusterConfig
from xce.model.constraint import Proof
from xce.model.dependency import Dependency
from xce.model.group import GroupsDeleted, GroupsSet
from xce.model.host_record import NO_WAKES, HostRecord
from xce.model.ids import HostNumber, Index, JobId, Micros, Seq
from xce.model.job import ArraySpec, EndCause, JobSpec, Owner, Stop
from xce.model.plan import Reservation, StartRule, Victim
from xce.model.queue_record import QueuesSwitched
from xce.model.reason import Reason, Wake
from xce.model.record_access import DenialsNoted, LoginBegan, LoginRefreshed, LoginRevoked
from xce.model.record_elements import ElementsDoomed, ElementsReleased
from xce.model.record_modify import JobModified
from xce.model.record_post import Posted
from xce.model.record_trust import HostTokenMade, HostTokenUsed, KeyRevoked, KeyTrusted
from xce.model.record_waiting import DelaysPassed, DependencyDoomed
from xce.model.record_windows import WindowsMoved, WindowsResolved
from xce.model.request import ClassKey
from xce.model.trace import TracesChanged

RESERVED_ROOM: frozenset[Wake] = frozenset({Wake.RESERVATION})
"""Changes when what runs is expected to end, or who holds a reservation."""


class ConfigApplied(msgspec.Struct, frozen=True, tag="config-applied", array_like=True):
    """A configuration is in effect."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CONFIG, Wake.CAPACITY, Wake.POOL})

    version: int
    config: ClusterConfig
    hosts: tuple[str, ...] = ()
    """Names of all hosts in number order, those of earlier configurations included."""


class SpecStored(msgspec.Struct, frozen=True, tag="spec-stored", array_like=True):
    """A job spec that no live job had before."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    spec_id: int
    spec: JobSpec


class ClassStored(msgspec.Struct, frozen=True, tag="class-stored", array_like=True):
    """A request class that no live job had before."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    cls: int
    key: ClassKey
    resreq: str
    """The effective requirement, in canonical text, for people and for the job."""


class JobSubmitted(msgspec.Struct, frozen=True, tag="job-submitted", array_like=True):
    """A job exists."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    job: JobId
    spec_id: int
    cls: int
    owner: Owner
    submit_at_us: Micros
    array: ArraySpec | None = None
    hold: bool = False
    begin_at_us: Micros = 0
    """It may not start before; 0: at once."""
    dependency: Dependency | None = None
    """Resolved; None: none, or satisfied."""


class KeyUsed(msgspec.Struct, frozen=True, tag="key-used", array_like=True):
    """An idempotency key counts from now on for these jobs."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    user: str
    key: str
    line: int
    jobs: list[JobId]
    """One for each line from ``line`` on; 0 where the line was refused."""


class JobsReleased(msgspec.Struct, frozen=True, tag="jobs-released", array_like=True):
    """What these jobs waited for has come: their begin time, or their dependency."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    jobs: list[JobId]
    from_dependency: bool
    """True: the dependency holds. False: the begin time is reached."""


class Held(msgspec.Struct, frozen=True, tag="held", array_like=True):
    """Pending elements were held (PSUSP): runs ``jobs[i]: firsts[i]..lasts[i]``."""

    wakes: ClassVar[frozenset[Wake]] = RESERVED_ROOM

    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]
    by_admin: bool = False


class Unheld(msgspec.Struct, frozen=True, tag="unheld", array_like=True):
    """Held elements pend again."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]


class JobsMoved(msgspec.Struct, frozen=True, tag="jobs-moved", array_like=True):
    """Pending jobs stand at another place in their queue. Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    jobs: list[JobId]
    beside: list[JobId]
    offsets: list[int]
    """Before (negative) or behind the place of the job ``beside``; 0: as it was submitted."""


class Withdrawn(msgspec.Struct, frozen=True, tag="withdrawn", array_like=True):
    """Elements ended while pending or held: outcome EXIT, never (again) started."""

    wakes: ClassVar[frozenset[Wake]] = RESERVED_ROOM

    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]
    cause: EndCause
    by: str
    at_us: Micros


class BulkPlaced(msgspec.Struct, frozen=True, tag="bulk-placed", array_like=True):
    """Single-host elements of one class were given hosts; form as `xce.model.plan.BulkStart`.

    Each element's attempt rises by one. ``amounts`` of the class is what each holds.
    """

    wakes: ClassVar[frozenset[Wake]] = RESERVED_ROOM

    cls: int
    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]
    hosts: list[HostNumber]
    counts: list[int]
    at_us: Micros
    alternative: int = 0
    rule: StartRule = StartRule.TURN
    devices: list[list[int]] = []
    processors: list[list[int]] = []
    """As in `xce.model.plan.BulkStart`."""


class GangPlaced(msgspec.Struct, frozen=True, tag="gang-placed", array_like=True):
    """A parallel job or element was given hosts, in rank order."""

    wakes: ClassVar[frozenset[Wake]] = RESERVED_ROOM

    cls: int
    job: JobId
    index: Index
    hosts: list[HostNumber]
    tasks: list[int]
    at_us: Micros
    parts: list[int] = []
    alternative: int = 0
    rule: StartRule = StartRule.TURN
    devices: list[list[int]] = []
    proofs: tuple[Proof, ...] = ()
    """The certificate, as in `xce.model.plan.GangStart`."""
    topology: int = 0
    alone: list[HostNumber] = []
    processors: list[list[int]] = []
    """As in `xce.model.plan.GangStart`."""
    number: int = 0
    """Of an attempt that is taken up again, which may be serial; 0: the next one."""
    signals: int = 0
    """So many signals were sent to it before."""


class Started(msgspec.Struct, frozen=True, tag="started", array_like=True):
    """Attempts run. Columns."""

    wakes: ClassVar[frozenset[Wake]] = RESERVED_ROOM

    jobs: list[JobId]
    indices: list[Index]
    pids: list[int]
    at_us: list[Micros]


class AmountsReturned(msgspec.Struct, frozen=True, tag="amounts-returned", array_like=True):
    """Amounts of running attempts came back before their end (decision X-27). Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY, Wake.POOL})

    jobs: list[JobId]
    indices: list[Index]
    stages: list[int]
    """How many times something has come back now, see `xce.state.needs.Form.offsets`."""


class EndDecided(msgspec.Struct, frozen=True, tag="end-decided", array_like=True):
    """It was decided that these live attempts end, and why; the hosts are told until they are gone.

    Runs ``jobs[i]: firsts[i]..lasts[i]``; elements of a run that are not live are not meant.
    """

    wakes: ClassVar[frozenset[Wake]] = RESERVED_ROOM

    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]
    cause: EndCause
    by: str
    force: bool
    at_us: Micros
    requeue: bool = False
    """They pend again when they are gone; those that gave way do not if they ended well."""
    hold: bool = False
    """With ``requeue``: they are held then."""


class Ended(msgspec.Struct, frozen=True, tag="ended", array_like=True):
    """Attempts are over and their amounts free. Columns; all that history needs is here."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY, Wake.POOL, Wake.PENDING})

    jobs: list[JobId]
    indices: list[Index]
    attempts: list[int]
    outcomes: list[int]
    """`xce.model.job.Outcome`."""
    exit_codes: list[int]
    signals: list[int]
    causes: list[int]
    """`xce.model.job.EndCause`."""
    hosts: list[HostNumber]
    """The first host of each."""
    started_at_us: list[Micros]
    """0: it never ran."""
    ended_at_us: list[Micros]
    cpu_us: list[Micros]
    max_mem_kib: list[int]
    details: list[tuple[int, str]] = []
    """``(position, text)``."""
    posts: list[tuple[int, int]] = []
    """``(position, xce.model.job.PostStat)``."""


class LaunchFailed(msgspec.Struct, frozen=True, tag="launch-failed", array_like=True):
    """The host could not start these; they pend again and avoid it. Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY, Wake.POOL, Wake.PENDING})

    jobs: list[JobId]
    indices: list[Index]
    hosts: list[HostNumber]
    detail: str


class SuspensionAsked(msgspec.Struct, frozen=True, tag="suspension-asked", array_like=True):
    """Live attempts shall be stopped or resumed; the hosts are told until they are."""

    wakes: ClassVar[frozenset[Wake]] = RESERVED_ROOM

    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]
    suspended: bool
    by: str
    by_admin: bool = False


class SuspensionDone(msgspec.Struct, frozen=True, tag="suspension-done", array_like=True):
    """The hosts stopped or resumed attempts as wanted; preempted ones give slots back. Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.RESERVATION, Wake.CAPACITY})

    jobs: list[JobId]
    indices: list[Index]
    suspended: bool


class SignalAsked(msgspec.Struct, frozen=True, tag="signal-asked", array_like=True):
    """A user's signal to live attempts, numbered for each attempt."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]
    signal: int
    by: str


class ReasonsChanged(msgspec.Struct, frozen=True, tag="reasons-changed", array_like=True):
    """Why the waiting jobs of these classes wait."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    classes: list[int]
    reasons: list[Reason]


class ReservationsChanged(msgspec.Struct, frozen=True, tag="reservations-changed", array_like=True):
    """What is kept for waiting jobs: new and changed reservations, and who holds one no more."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    reserved: list[Reservation]
    jobs: list[JobId]
    indices: list[Index]


class SessionRan(msgspec.Struct, frozen=True, tag="session-ran", array_like=True):
    """A session gave a plan that was not empty: the recording for replay."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    view_seq: Seq
    now_us: Micros
    digest: str
    stale: int = 0
    """How many elements of the plan no longer held."""


class RoomHeld(msgspec.Struct, frozen=True, tag="room-held", array_like=True):
    """Others give way for a blocked element, and their room is held for it."""

    wakes: ClassVar[frozenset[Wake]] = RESERVED_ROOM

    cls: int
    job: JobId
    index: Index
    hosts: list[HostNumber]
    tasks: list[int]
    parts: list[int]
    alternative: int
    victims: list[Victim]
    devices: list[list[int]] = []


class RoomReleased(msgspec.Struct, frozen=True, tag="room-released", array_like=True):
    """Room is held no more for these elements. Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY, Wake.POOL})

    jobs: list[JobId]
    indices: list[Index]


class Requeued(msgspec.Struct, frozen=True, tag="requeued", array_like=True):
    """Attempts are gone or given up, their amounts are free and they pend again. Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY, Wake.POOL, Wake.PENDING})

    jobs: list[JobId]
    indices: list[Index]
    causes: list[int] = []
    """`xce.model.job.EndCause` of each; empty: they gave way."""
    details: list[tuple[int, str]] = []
    """``(position, text)`` for those that have one."""
    held: list[int] = []
    """Positions of those that are held: they were started anew too often."""
    elsewhere: list[int] = []
    """Positions of those that do not use the same hosts again."""
    avoided: list[int] = []
    """Positions of those that do not use the same hosts for a while."""
    exit_codes: list[int] = []
    signals: list[int] = []
    started_at_us: list[Micros] = []
    ended_at_us: list[Micros] = []
    cpu_us: list[Micros] = []
    max_mem_kib: list[int] = []
    """As in `Ended`; these are empty where no host has told how they ended."""


class Reopened(msgspec.Struct, frozen=True, tag="reopened", array_like=True):
    """Elements that had ended pend again, or are held. Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})

    jobs: list[JobId]
    indices: list[Index]
    outcomes: list[int]
    """`xce.model.job.Outcome` that each had."""
    cause: EndCause
    """On whose word: REQUEUE_OWNER or REQUEUE_ADMIN."""
    by: str
    hold: bool = False


class StopsChanged(msgspec.Struct, frozen=True, tag="stops-changed", array_like=True):
    """The cluster itself suspends live attempts, or lets them go on: SSUSP. Runs."""

    wakes: ClassVar[frozenset[Wake]] = RESERVED_ROOM

    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]
    stop: Stop
    is_on: bool


class JobsForgotten(msgspec.Struct, frozen=True, tag="jobs-forgotten", array_like=True):
    """Ended jobs left the state; the history has them."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    jobs: list[JobId]
    ineligible: list[tuple[JobId, Index, Index, Micros]] = []
    """Elements ``first..last`` of such jobs that pended for so long while no session would try
    them; others never did."""
    timed_from: JobId = 0
    """Of jobs before this one nobody knows that; 0: nor of any other."""


class KeysForgotten(msgspec.Struct, frozen=True, tag="keys-forgotten", array_like=True):
    """Idempotency keys used before this instant count no more."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    before_us: Micros


Record: TypeAlias = (
    HostRecord
    | ConfigApplied
    | QueuesSwitched
    | SpecStored
    | ClassStored
    | JobSubmitted
    | KeyUsed
    | JobsReleased
    | DelaysPassed
    | DependencyDoomed
    | ElementsReleased
    | ElementsDoomed
    | Held
    | Unheld
    | JobsMoved
    | JobModified
    | Posted
    | GroupsSet
    | GroupsDeleted
    | Withdrawn
    | BulkPlaced
    | GangPlaced
    | Started
    | AmountsReturned
    | EndDecided
    | Ended
    | LaunchFailed
    | SuspensionAsked
    | SuspensionDone
    | SignalAsked
    | ReasonsChanged
    | ReservationsChanged
    | SessionRan
    | RoomHeld
    | RoomReleased
    | Requeued
    | Reopened
    | WindowsResolved
    | WindowsMoved
    | StopsChanged
    | TracesChanged
    | JobsForgotten
    | KeysForgotten
    | KeyTrusted
    | KeyRevoked
    | HostTokenMade
    | HostTokenUsed
    | DenialsNoted
    | LoginBegan
    | LoginRevoked
    | LoginRefreshed
)
