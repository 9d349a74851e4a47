"""What a session proposes. The controller re-checks all of it and takes what still holds."""

import enum
from typing import Final

import msgspec

from xce.model.constraint import Proof
from xce.model.ids import HostNumber, Index, JobId, Micros, Seq
from xce.model.reason import Reason


class StartRule(enum.StrEnum):
    """Which rule let a job start. Stable words."""

    TURN = ""
    """Its turn came in the order of its queue."""
    BACKFILL = "backfill"
    """A job in front holds a reservation, which this one does not delay."""
    RESERVED = "reserved"
    """It held a reservation itself."""
    PREEMPT = "preempt"
    """Others gave way for it, and their room was held for it."""
    FORCED = "forced"
    """An administrator started it out of its turn (``brun``)."""
    FIRM = "firm"
    """So, and neither run windows nor other jobs suspend it (``brun -f``)."""


FORCED_RULES: Final = frozenset((StartRule.FORCED, StartRule.FIRM))
"""Of these nothing is in the plan of a scheduler."""


class Reservation(msgspec.Struct, frozen=True, array_like=True):
    """What is kept for one waiting job or element: which hosts, and from when."""

    cls: int
    job: JobId
    index: Index
    start_at_us: Micros
    """When it can start at the latest if what runs ends as expected; in the past: as soon as what
    is overdue ends; 0: unknown, since something in its way has no run limit and no estimate."""
    hosts: list[HostNumber]
    tasks: list[int]


class Victim(msgspec.Struct, frozen=True, array_like=True):
    """A live attempt that gives way."""

    job: JobId
    index: Index
    attempt: int
    action: str
    """``suspend``, ``requeue`` or ``kill``."""


class Preemption(msgspec.Struct, frozen=True, array_like=True):
    """Room for a blocked element: where it will run when the victims are gone."""

    cls: int
    job: JobId
    index: Index
    hosts: list[HostNumber]
    tasks: list[int]
    parts: list[int]
    alternative: int
    victims: list[Victim]
    devices: list[list[int]] = []
    """As `GangStart.devices`."""


class BulkStart(msgspec.Struct, frozen=True, array_like=True):
    """Start many single-host elements of one class.

    The elements are the runs ``jobs[i]: firsts[i]..lasts[i]`` in this order (0..0 for a job that
    is no array); element k goes to the host whose share of ``counts``, summed up, covers k.
    ``sum(lasts - firsts + 1) == sum(counts)``.
    """

    cls: int
    jobs: list[JobId]
    firsts: list[Index]
    lasts: list[Index]
    hosts: list[HostNumber]
    counts: list[int]
    alternative: int = 0
    """Which alternative of the request they were placed by, from 0."""
    rule: StartRule = StartRule.TURN
    devices: list[list[int]] = []
    """The GPUs of each element, as `GangStart.devices` has them of an entry; empty: none is asked
    for."""
    processors: list[list[int]] = []
    """The processors of each element, as `GangStart.processors` has them of an entry."""


class GangStart(msgspec.Struct, frozen=True, array_like=True):
    """Start one parallel job or element, all or nothing; hosts in rank order."""

    cls: int
    job: JobId
    index: Index
    hosts: list[HostNumber]
    tasks: list[int]
    """Tasks on each of ``hosts``; at least 1 each."""
    parts: list[int] = []
    """Of a compound request: the part of each entry; then a host may stand in several entries."""
    alternative: int = 0
    """Which alternative it was placed by, from 0."""
    rule: StartRule = StartRule.TURN
    devices: list[list[int]] = []
    """The places of the GPUs of each entry on its host, in the order of tasks: of each item that
    `GpuWish.items` counts, one; empty: none is asked for."""
    proofs: tuple[Proof, ...] = ()
    """The certificate: how each constraint of the request holds."""
    topology: int = 0
    """Version of the configuration whose levels and labels the certificate is about; 0: none."""
    alone: list[HostNumber] = []
    """Hosts that it has for itself by its relations, with tasks or without; rising."""
    processors: list[list[int]] = []
    """The processors of each entry on its host: the words of the set that it holds, then those of
    what each of its tasks is bound to; empty: none are asked for. See `xce.model.processor`."""


class Plan(msgspec.Struct, frozen=True, array_like=True):
    """A session's proposal."""

    seq: Seq
    """The last entry in the view that it was made from."""
    config_version: int
    now_us: int
    bulk: tuple[BulkStart, ...] = ()
    gangs: tuple[GangStart, ...] = ()
    reasons: tuple[tuple[int, Reason], ...] = ()
    """``(class, reason)`` for classes whose reason changed."""
    reserved: tuple[Reservation, ...] = ()
    """Reservations that are new or changed."""
    unreserved: tuple[tuple[JobId, Index], ...] = ()
    """Elements that hold a reservation no more."""
    preemptions: tuple[Preemption, ...] = ()
    released: tuple[tuple[JobId, Index], ...] = ()
    """Elements for which room is held in vain: those who gave way are gone, and it does not fit."""
    resumed: tuple[tuple[JobId, Index, int], ...] = ()
    """``(job, index, attempt)`` of preempted attempts that may go on."""

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not (
            self.bulk
            or self.gangs
            or self.reasons
            or self.reserved
            or self.unreserved
            or self.preemptions
            or self.released
            or self.resumed
        )
