"""The mutable part of a job, its live attempts and its ended elements.

An element is in exactly one place: ``pending``, ``held``, ``withdrawn`` (ended before it started),
live (an `Attempt`) or ended (a row of an `EndedChunk`). A job that is no array has the one
element at position 0.
"""

from collections.abc import Collection, Iterator
from typing import Final

import msgspec
import numpy as np

from xce.model.constraint import Proof
from xce.model.dependency import Dependency
from xce.model.ids import NO_HOST, HostNumber, JobId, Micros
from xce.model.job import ArraySpec, EndCause, Outcome, Owner, Phase, Stop
from xce.model.plan import StartRule
from xce.model.ranges import EMPTY, Ranges, contains, intersect, subtract, unite
from xce.model.record_post import Post

CHUNK: Final = 4096
"""Elements in one chunk of columns."""

WAITS_BEGIN: Final = 1
WAITS_DEPENDENCY: Final = 2
DOOMED: Final = 4
"""Its dependency can never be satisfied."""


class Attempt(msgspec.Struct, gc=False, array_like=True):
    """A placement that holds amounts: starting or running."""

    number: int
    cls: int
    hosts: list[HostNumber]
    tasks: list[int]
    phase: int = Phase.STARTING
    placed_at_us: Micros = 0
    started_at_us: Micros = 0
    pid: int = 0
    end_cause: int = EndCause.NONE
    """Why it shall end; NONE: nobody decided that it ends."""
    end_by: str = ""
    end_force: bool = False
    suspended: bool = False
    """Stopped, as the host reported."""
    suspension_wanted: bool = False
    suspended_by_admin: bool = False
    signals: list[int] = []
    """Signals asked for, in order; the first is number 1, and later where it was placed before the
    journal was restored, see `xce.control.effects`."""
    rule: StartRule = StartRule.TURN
    stops: int = Stop.NONE
    """Why the cluster itself suspends it, as bits."""
    requeue: bool = False
    """It pends again when it is gone, unless it ends well."""
    gave_slots: bool = False
    """It is suspended and has given its slots back."""
    """Which rule let it start."""
    parts: list[int] = []
    """Of a compound request: the part of each entry of ``hosts``; else empty."""
    alternative: int = 0
    """By which alternative of its request it was placed."""
    returned: int = 0
    """How many times amounts with a duration came back, see `xce.state.needs.Form.offsets`."""
    hold: bool = False
    """With ``requeue``: it is held then."""
    devices: list[list[int]] = []
    """The GPUs of each entry of ``hosts``, see `xce.model.plan.GangStart`; empty: none."""
    alone: list[HostNumber] = []
    """Hosts that it has for itself by its relations, with tasks or without."""
    proofs: tuple[Proof, ...] = ()
    """Its certificate, see `xce.model.plan.GangStart`."""
    topology: int = 0
    has_new_limits: bool = False
    """Its limits are not those that it was launched with."""
    processors: list[list[int]] = []
    """The processors of each entry of ``hosts``, see `xce.model.plan.GangStart`; empty: any."""
    spec_id: int = 0
    """What it runs, where its job was changed since; 0: what its job is to run."""
    checkpoints: int = 0
    """The number of the last of its checkpoints that its host has told of."""
    left_out: list[HostNumber] = []
    """Hosts that it had and has lost."""
    headless: list[int] = []
    """Parts that have lost their first host: what is once for them was held there."""
    ranks: list[int] = []
    """The first rank of each entry of ``hosts``, where some were left out; empty: all are there."""
    signals_before: int = 0
    """So many were sent to it in entries that a restored journal lacks: others count behind them.
    """
    is_adopted: bool = False
    """What it is was told by its host alone, after a restore: no other host begins anything for it.
    """

    @property
    def shall_stop(self) -> bool:
        """Whether it shall be suspended, on whose word ever."""
        return self.suspension_wanted or self.stops != Stop.NONE

    @property
    def is_firm(self) -> bool:
        """Whether neither run windows nor other jobs may suspend it."""
        return self.rule == StartRule.FIRM

    @property
    def is_stopped_by_system(self) -> bool:
        """Whether it is suspended, and not on a user's word."""
        return self.suspended and not self.suspension_wanted and self.stops != Stop.NONE


class Requeue(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Why an element pends again, or did when it was requeued last."""

    cause: int
    """`xce.model.job.EndCause`."""
    attempt: int
    """The attempt that came to nothing."""
    host: HostNumber
    """Its first host."""
    at_us: Micros
    by: str = ""
    detail: str = ""
    has_run: bool = False
    """Whether this or an earlier attempt had begun to run."""
    times: int = 0
    """How often it was started anew for its exit status; counts anew when somebody asks for it."""
    pre_times: int = 0
    """How often for a pre-execution command that failed; likewise."""


class Ended(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How one element ended."""

    outcome: int = Outcome.NONE
    exit_code: int = 0
    signal: int = 0
    cause: int = EndCause.NONE
    attempt: int = 0
    host: HostNumber = NO_HOST
    started_at_us: Micros = 0
    ended_at_us: Micros = 0
    cpu_us: Micros = 0
    max_mem_kib: int = 0


_ENDED_TYPE: Final = np.dtype(
    [
        ("outcome", "u1"),
        ("exit_code", "u1"),
        ("signal", "u1"),
        ("cause", "u1"),
        ("attempt", "<u4"),
        ("host", "<i4"),
        ("started_at_us", "<i8"),
        ("ended_at_us", "<i8"),
        ("cpu_us", "<i8"),
        ("max_mem_kib", "<i8"),
    ]
)


class EndedChunk:
    """Ended elements of up to ``CHUNK`` neighbouring positions, 44 bytes each.

    The last chunk of an array is as short as the array, so that a small array is small.
    """

    __slots__ = ("count", "rows")

    def __init__(self, content: bytes | None = None, *, size: int = CHUNK) -> None:
        if content is None:
            self.rows = np.zeros(min(size, CHUNK), _ENDED_TYPE)
        else:
            self.rows = np.frombuffer(content, _ENDED_TYPE).copy()
        self.count = int(np.count_nonzero(self.rows["outcome"]))

    def store(self, place: int, ended: Ended) -> None:
        """Set the row at ``place`` (0 .. CHUNK - 1)."""
        if not self.rows[place]["outcome"]:
            self.count += 1
        self.rows[place] = (
            ended.outcome,
            ended.exit_code,
            ended.signal,
            ended.cause,
            ended.attempt,
            ended.host,
            ended.started_at_us,
            ended.ended_at_us,
            ended.cpu_us,
            ended.max_mem_kib,
        )

    def erase(self, place: int) -> None:
        """Forget the row at ``place``: it has not ended after all."""
        if self.rows[place]["outcome"]:
            self.count -= 1
        self.rows[place] = np.zeros(1, _ENDED_TYPE)[0]

    def load(self, place: int) -> Ended | None:
        """Return the row at ``place``, or None when that element has not ended."""
        row = self.rows[place]
        if not row["outcome"]:
            return None
        return Ended(*row.tolist())


class Withdrawal(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Elements that ended before they started."""

    ranges: Ranges
    cause: int
    by: str
    at_us: Micros


class Variant(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Elements of an array that were changed apart from the rest of it."""

    ranges: Ranges
    cls: int
    spec_id: int


class Job(msgspec.Struct, gc=False, array_like=True):
    """A job or array as it is now. Written by `xce.state.apply` only."""

    id: JobId
    spec_id: int
    cls: int
    owner: Owner
    submit_at_us: Micros
    size: int = 1
    """Number of elements."""
    array: ArraySpec | None = None
    pending: Ranges = EMPTY
    held: Ranges = EMPTY
    held_by_admin: bool = False
    waits: int = 0
    """What it waits for, as bits; 0: it is eligible."""
    begin_at_us: Micros = 0
    dependency: Dependency | None = None
    doomed_until_us: Micros = 0
    live: dict[int, Attempt] | None = None
    """Live attempts by position; None: none."""
    ended: Ended | None = None
    """Of a job that is no array."""
    chunks: dict[int, EndedChunk] | None = None
    """Of an array, by position // CHUNK."""
    withdrawn: tuple[Withdrawal, ...] = ()
    attempts: dict[int, int] | None = None
    """Attempt numbers of elements that were placed before and pend again."""
    avoid: tuple[HostNumber, ...] = ()
    """Hosts on which it is not started: an attempt failed through the host's fault, or said so."""
    details: dict[int, str] | None = None
    """One line about an ended element, by position."""
    ended_by: dict[int, str] | None = None
    done: int = 0
    exited: int = 0
    finished_at_us: Micros = 0
    """When its last element ended; 0: not yet."""
    revision: int = 0
    waiting_since_us: Micros = 0
    """Since when elements of it may start and wait, without a break; 0: none does."""
    beside: JobId = 0
    offset: int = 0
    """Where it stands in its queue: before (negative) or behind the place of the job ``beside``;
    0: as it was submitted."""
    waited_us: Micros = 0
    """The longest of the delays in its request that have passed since it was submitted."""
    preempted: dict[int, int] | None = None
    """How often elements gave way, by position."""
    requeues: dict[int, Requeue] | None = None
    """Of elements that were requeued, the last time, by position."""
    is_modified: bool = False
    """It is not what was submitted."""
    posts: dict[int, dict[int, Post]] | None = None
    """Messages in their boxes, by position; at -1 those to the whole job."""
    awaiting: Ranges = EMPTY
    """Those of the pending and held elements that wait for elements of other arrays."""
    dooms: tuple[tuple[Micros, Ranges], ...] = ()
    """Those of ``awaiting`` that wait in vain, and until when (0: for ever)."""
    excluded: tuple[HostNumber, ...] = ()
    """Those of ``avoid`` that it does not use again, for its exit status there."""
    post_stats: dict[int, int] | None = None
    """`xce.model.job.PostStat` of ended elements that had post-execution commands, by position."""
    variants: tuple[Variant, ...] = ()
    """Elements that were changed apart from the rest, each in one of them; the rest is as the job.
    No two are alike, and none is as the job."""
    ineligible_us: Micros = 0
    ineligible: tuple[tuple[int, int, Micros], ...] = ()
    """How far elements are behind their clocks of `xce.state.ineligible`; and ``first..last``, in
    order, of which it is another span than of the rest."""

    def other_specs(self) -> list[int]:
        """Return the specs beside its own one that it uses, each as often as it does."""
        found = [variant.spec_id for variant in self.variants]
        found += [attempt.spec_id for attempt in (self.live or {}).values() if attempt.spec_id]
        return found

    def own_forms(self) -> list[tuple[int, int]]:
        """Return class and spec of the job and of each of its variants."""
        return [(self.cls, self.spec_id), *((one.cls, one.spec_id) for one in self.variants)]

    def form_at(self, position: int) -> tuple[int, int]:
        """Return class and spec of the element at ``position``, when it starts next."""
        for variant in self.variants:
            if contains(variant.ranges, position, position):
                return variant.cls, variant.spec_id
        return self.cls, self.spec_id

    def forms(self, among: Ranges) -> list[tuple[int, int, Ranges]]:
        """Return class, spec and positions of the elements in ``among``, those alike together."""
        found: list[tuple[int, int, Ranges]] = []
        for variant in self.variants:
            part = intersect(among, variant.ranges)
            if part:
                found.append((variant.cls, variant.spec_id, part))
                among = subtract(among, part)
        if among:
            found.insert(0, (self.cls, self.spec_id, among))
        return found

    def of_class(self, cls: int, among: Ranges) -> Ranges:
        """Return the elements in ``among`` that are of a class."""
        if not self.variants:
            return among if cls == self.cls else EMPTY
        found = EMPTY
        for own, _, part in self.forms(among):
            if own == cls:
                found = unite(found, part)
        return found

    def classes(self) -> tuple[int, ...]:
        """Return the classes of its elements, its own one first; each once."""
        if not self.variants:
            return (self.cls,)
        return tuple(dict.fromkeys((self.cls, *(variant.cls for variant in self.variants))))

    @property
    def live_count(self) -> int:
        """Number of live attempts."""
        return len(self.live) if self.live else 0

    @property
    def is_finished(self) -> bool:
        """Whether every element has ended."""
        return self.finished_at_us != 0

    @property
    def retried(self) -> tuple[HostNumber, ...]:
        """The hosts that it avoids for a while only."""
        return tuple(host for host in self.avoid if host not in self.excluded)

    @property
    def ready(self) -> Ranges:
        """The pending elements that wait for no other array's; what the job waits for aside."""
        return subtract(self.pending, self.awaiting) if self.awaiting else self.pending

    @property
    def is_conditional(self) -> bool:
        """Whether it waits for other jobs, or elements of it do."""
        return bool(self.waits & WAITS_DEPENDENCY or self.awaiting)

    def is_doomed(self, position: int) -> bool:
        """Return whether the element at ``position`` waits in vain for another array's."""
        return any(contains(ranges, position, position) for _, ranges in self.dooms)

    def position(self, index: int) -> int | None:
        """Return the position of the element with this index, or None when there is none."""
        if self.array is None:
            return 0 if index == 0 else None
        return self.array.position_from(index) if self.array.has(index) else None

    def index(self, position: int) -> int:
        """Return the index of the element at ``position``."""
        return 0 if self.array is None else self.array.index_of(position)

    def positions(self, first: int, last: int) -> Ranges:
        """Return the positions of the elements whose index is in ``first..last``."""
        if self.array is None:
            return ((0, 0),) if first <= 0 <= last else EMPTY
        lo, hi = self.array.position_from(first), self.array.position_from(last + 1) - 1
        return ((lo, hi),) if lo <= hi else EMPTY

    @property
    def place(self) -> tuple[JobId, int, JobId]:
        """Where it stands among the jobs of its rank: smaller goes first.

        Its id, or beside another job, at an offset. Jobs that were moved in two lines may come
        into one with the same of both, so that the id decides: no two places are equal.
        """
        return (self.beside, self.offset, self.id) if self.offset else (self.id, 0, self.id)

    def posts_of(self, position: int) -> dict[int, Post]:
        """Return the messages to an element, those to the whole job included, by box."""
        posts = self.posts or {}
        found = {**posts.get(-1, {}), **posts.get(position, {})}
        return dict(sorted(found.items()))

    def ended_places(self, outcomes: Collection[int], among: Ranges) -> Iterator[int]:
        """Yield the positions in ``among`` that ended so after they had been placed, in order."""
        if self.ended is not None and self.ended.outcome in outcomes and among:
            yield 0
        for first, last in among:
            for number in range(first // CHUNK, last // CHUNK + 1):
                chunk = self.chunks.get(number) if self.chunks else None
                if chunk is None:
                    continue
                begin = max(first, number * CHUNK)
                rows = chunk.rows["outcome"][begin - number * CHUNK : last - number * CHUNK + 1]
                for place in np.flatnonzero(np.isin(rows, tuple(outcomes))).tolist():
                    yield begin + int(place)

    def ended_at(self, position: int) -> Ended | None:
        """Return how the element at ``position`` ended after it had been placed, if it has."""
        if self.array is None:
            return self.ended
        chunk = self.chunks.get(position // CHUNK) if self.chunks else None
        return chunk.load(position % CHUNK) if chunk else None
