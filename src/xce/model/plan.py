"""What a session proposes. The controller re-checks all of it and takes what still holds."""

import msgspec

from xce.model.ids import HostNumber, Index, JobId, Seq
from xce.model.reason import Reason


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

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not (self.bulk or self.gangs or self.reasons)
