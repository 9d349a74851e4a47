"""What of sessions is traced, and what a traced session leaves: tables, kept column by column.

Names in the columns (outcomes, sources) are stable words: they are in files that people keep.
"""

import enum
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from xce.model.ids import Index, JobId, Micros, Seq
from xce.model.reason import Reason, Wake

RULES_MAX: Final = 100
"""Rules of one cluster at a time."""
SPAN_US_MAX: Final = 7 * 24 * 3_600_000_000
"""The longest that a rule lasts."""
SESSIONS_MAX: Final = 10_000
Row = TypeVar("Row", bound=msgspec.Struct)


class TraceKind(enum.StrEnum):
    """What a rule is about."""

    JOB = "job"
    USER = "user"
    QUEUE = "queue"
    SESSION = "session"
    """Everything, in the next sessions."""


class TraceRule(msgspec.Struct, frozen=True, array_like=True):
    """Sessions tell of this until an instant."""

    number: int
    kind: TraceKind
    until_us: Micros
    by: str
    job: JobId = 0
    name: str = ""
    """Of a user or queue."""
    sessions: int = 0
    """Of kind ``session``: how many."""


EVERYTHING: Final = TraceRule(0, TraceKind.SESSION, 0, "")
"""What a simulation traces."""


class Outcome(enum.StrEnum):
    """What a session did with a class."""

    STARTS = "starts"
    WAITS = "waits"
    RESERVES = "reserves"
    """It waits, and holds a reservation now."""
    PREEMPTS = "preempts"
    """Others give way for it."""
    RESUMES = "resumes"
    """A preempted attempt goes on."""
    LEFT_OUT = "left-out"
    """Nothing of it may start, whatever is free: held, a dependency, a limit, its queue."""


class Source(enum.StrEnum):
    """How a session knew that a class must wait."""

    NONE = ""
    TRIED = "tried"
    """It was tried on what is free."""
    SAME_REQUEST = "same-request"
    """An equal request did not fit earlier in this session; ``proved_by`` tells whose."""
    ASLEEP = "asleep"
    """It did not fit before, and nothing that could cure that has changed."""
    STANDING = "standing"
    """It fits on no host until hosts or configuration change."""
    POOL = "pool"
    """A pool is short, so that hosts were not looked at."""
    WINDOW = "window"
    """The run window of its queue closes too early."""
    GROUP = "job-group"
    """Its job group runs at its limit."""
    HELD = "held"
    """Room is held for it until others are gone."""


class Step(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What a session did with a class in one turn."""

    order: int
    """The how many-th turn of the session it was; 0: it had none."""
    cls: int
    outcome: Outcome
    user: str
    queue: str
    priority: int
    """Of the queue."""
    rank: tuple[int, ...]
    """What it was ordered by; smaller goes first."""
    job: JobId
    """The first job in this turn."""
    index: Index
    waiting: int
    """Elements of the class that pend."""
    jobs: tuple[tuple[JobId, JobId], ...] = ()
    """Runs of ids of its waiting jobs, as far as they are listed."""
    traced: tuple[JobId, ...] = ()
    """Its jobs that rules name."""
    array_limit: int = 0
    may_start: int = 0
    """With ``array_limit``: how many elements of the first job it let start."""
    rule: str = ""
    elements: int = 0
    """That start."""
    tasks: int = 0
    """That start, or that a reservation or the held room is for."""
    starts: tuple[tuple[JobId, Index, Index], ...] = ()
    """``(job, first, last)`` of those that start, as far as they are listed."""
    reason: Reason | None = None
    source: Source = Source.NONE
    proved_by: JobId = 0
    at_us: Micros = 0
    """When a reservation begins; 0: unknown."""
    victims: tuple[tuple[JobId, Index, str], ...] = ()
    """Who gives way, and how."""


class Sifted(msgspec.Struct, frozen=True, array_like=True):
    """How many hosts a filter took out, or (code ``left``) how many none did."""

    step: int
    """Place of the step in its table."""
    form: str
    """The part or alternative; empty for a simple request."""
    code: str
    hosts: int
    resource: str = ""
    needed: int = 0
    best: int = 0
    """The most that any of these hosts has."""
    keys: tuple[str, ...] = ()
    """Of code ``left``: what they were ordered by, the most important first; ``-`` in front: more
    is better."""


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A host that no filter took out, and how good it was."""

    step: int
    form: str
    place: int
    """In the order of hosts, from 1; 0: not among those that were listed."""
    host: str
    scores: tuple[int, ...]
    """In thousandths, one for each of the form's ``keys``."""
    free: int
    """Slots."""
    fits: int
    """Tasks."""
    gets: int
    """Tasks."""


class Table(Generic[Row]):
    """Rows of one kind, kept as columns."""

    def __init__(self, kind: type[Row], columns: list[list[Any]] | None = None) -> None:
        self._kind = kind
        self.columns: list[list[Any]] = columns or [[] for _ in kind.__struct_fields__]

    def __len__(self) -> int:
        return len(self.columns[0])

    def append(self, row: Row) -> None:
        """Add a row."""
        for column, value in zip(self.columns, msgspec.structs.astuple(row), strict=True):
            column.append(value)

    def rows(self) -> Iterator[Row]:
        """Yield the rows.

        Raises:
            msgspec.ValidationError: The columns hold something else.
            ValueError: They are of different lengths.
        """
        for values in zip(*self.columns, strict=True):
            yield msgspec.convert(list(values), self._kind)


class SessionTrace(msgspec.Struct, array_like=True, kw_only=True):
    """A traced session: its head, and three tables as columns."""

    number: int = 0
    """Counted by whoever keeps it, from 1."""
    seq: Seq
    """The last entry that it saw."""
    now_us: Micros
    classes: int
    """That have jobs which might start."""
    hosts: int
    turns: int
    """How many turns it had."""
    left_out: int = 0
    """Steps that were beyond the bound."""
    steps: list[list[Any]]
    sifted: list[list[Any]]
    candidates: list[list[Any]]


class TracesChanged(msgspec.Struct, frozen=True, tag="traces-changed", array_like=True):
    """Rules of what is traced began, were ended, or have run out."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.PENDING})
    """Of whom somebody wants to know at once, a session is to tell at once."""

    started: tuple[TraceRule, ...] = ()
    stopped: tuple[int, ...] = ()
