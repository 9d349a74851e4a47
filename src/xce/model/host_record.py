"""Records about hosts: they come and go, are opened and closed, given up and rid of what is stale;
and what they tell of jobs' checkpoints.

See `xce.model.record` for what holds of all records.
"""

from typing import ClassVar, Final, TypeAlias

import msgspec

from xce.model.device import Device
from xce.model.ids import HostNumber, Index, JobId
from xce.model.processor import Processor
from xce.model.reason import Wake

NO_WAKES: Final[frozenset[Wake]] = frozenset()


class HostUp(msgspec.Struct, frozen=True, tag="host-up", array_like=True):
    """A worker joined: the host can take work."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY})

    host: HostNumber
    boot_id: str
    cpus: int
    mem_mib: int
    isolation: str = ""
    version: str = ""
    attributes: dict[str, int | str | bool] = {}
    stale: tuple[tuple[JobId, Index, int], ...] = ()
    """``(job, index, attempt)`` that were given up and still run there: nothing new starts there
    until they are gone."""
    devices: tuple[Device, ...] = ()
    """The GPUs that the worker found."""
    processors: tuple[Processor, ...] = ()
    """The processors that jobs may be bound to; empty: the worker does not tell."""


class HostDown(msgspec.Struct, frozen=True, tag="host-down", array_like=True):
    """The worker's connection ended; nothing new starts there."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    host: HostNumber
    silent: bool = False
    """Nothing had been heard of it for too long: its jobs are shown as unknown."""


class ReignBegun(msgspec.Struct, frozen=True, tag="reign-begun", array_like=True):
    """A leader begins, or its clock has jumped: these hosts are away, and get their whole grace."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    hosts: list[HostNumber]


class HostsSilent(msgspec.Struct, frozen=True, tag="hosts-silent", array_like=True):
    """These hosts have been away for so long that their jobs are shown as unknown."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    hosts: list[HostNumber]


class HostsLost(msgspec.Struct, frozen=True, tag="hosts-lost", array_like=True):
    """These hosts are given up; what becomes of their attempts follows in the same entry.

    What still runs there is stale from now on: its reports are refused, and it is ended before the
    host may take new work.
    """

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY})
    """Others may have waited for them to come, see `JournalRestored.hosts`."""

    hosts: list[HostNumber]
    fences: list[int]
    """How often each has been given up now."""
    by: str = ""
    """The administrator who said so; empty: their grace was over."""


class StaleGone(msgspec.Struct, frozen=True, tag="stale-gone", array_like=True):
    """Nothing is left of these stale attempts on a host. Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY})

    host: HostNumber
    jobs: list[JobId]
    indices: list[Index]
    attempts: list[int]


class PartsLeft(msgspec.Struct, frozen=True, tag="parts-left", array_like=True):
    """These attempts were given up with their first host; what they have on others is stale there.

    Columns, one for each attempt on each of its other hosts that are up.
    """

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    hosts: list[HostNumber]
    jobs: list[JobId]
    indices: list[Index]
    attempts: list[int]


class HostsLeftOut(msgspec.Struct, frozen=True, tag="hosts-left-out", array_like=True):
    """These attempts have lost a host that is not their first: they hold nothing there any more.

    What may still run of them there is stale. Whether they go on without it follows from their
    fates (`xce.control.fates`); those that do not are ended by what follows. Columns.
    """

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY, Wake.POOL})

    hosts: list[HostNumber]
    jobs: list[JobId]
    indices: list[Index]
    attempts: list[int]


class HostsOpened(msgspec.Struct, frozen=True, tag="hosts-opened", array_like=True):
    """An administrator opened or closed hosts."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY})

    hosts: list[HostNumber]
    is_open: bool
    comment: str = ""


class DevicesOpened(msgspec.Struct, frozen=True, tag="devices-opened", array_like=True):
    """An administrator opened or closed devices of a host."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY})

    host: HostNumber
    places: list[int]
    is_open: bool
    comment: str = ""


class AvoidanceLifted(msgspec.Struct, frozen=True, tag="avoidance-lifted", array_like=True):
    """Jobs that failed to start on these hosts long ago may try them again."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.CAPACITY})

    hosts: list[HostNumber]


class LoadChanged(msgspec.Struct, frozen=True, tag="load-changed", array_like=True):
    """Hosts measured another load than is known. Columns."""

    wakes: ClassVar[frozenset[Wake]] = frozenset({Wake.LOAD})

    hosts: list[HostNumber]
    indices: list[list[int]]
    """For each of `xce.model.load.INDICES` the values of these hosts, in thousandths."""


class CheckpointsSeen(msgspec.Struct, frozen=True, tag="checkpoints-seen", array_like=True):
    """Checkpoints of attempts were written, or could not be. Columns."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    jobs: list[JobId]
    indices: list[Index]
    numbers: list[int]
    """Counted for each attempt."""
    faults: list[str]
    """Empty: it is written."""


class JournalRestored(msgspec.Struct, frozen=True, tag="journal-restored", array_like=True):
    """The first reign on a journal that was restored: entries behind it are lost.

    Whatever hosts know of them must not be taken for something that is given out from now on.
    """

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    next_job: JobId
    """Ids below it that no job has are not given out any more."""
    attempts_above: int
    """What is placed from now on of jobs that were there has numbers above this; unchanged: only
    ids are left out, since a host knows of higher ones."""
    hosts: list[HostNumber] = []
    """Which may run something that is lost: nothing is started until each has come, or is given
    up."""


class StrangersSeen(msgspec.Struct, frozen=True, tag="strangers-seen", array_like=True):
    """All attempts on a host that were begun by entries which a restored journal lacks. Columns."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    host: HostNumber
    jobs: list[JobId]
    indices: list[Index]
    attempts: list[int]


class StrangersGone(msgspec.Struct, frozen=True, tag="strangers-gone", array_like=True):
    """These strangers have ended, or are known again: they were taken up. Columns."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    hosts: list[HostNumber]
    jobs: list[JobId]
    indices: list[Index]
    attempts: list[int]


class AdoptionAsked(msgspec.Struct, frozen=True, tag="adoption-asked", array_like=True):
    """An administrator wants strangers on a host taken up; the host is asked what they are.

    It owes the answer until they are taken up, refused or gone. Columns.
    """

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    host: HostNumber
    jobs: list[JobId]
    indices: list[Index]
    attempts: list[int]


class AdoptionRefused(msgspec.Struct, frozen=True, tag="adoption-refused", array_like=True):
    """A stranger cannot be taken up as things are, and why. It stays what it was."""

    wakes: ClassVar[frozenset[Wake]] = NO_WAKES

    host: HostNumber
    job: JobId
    index: Index
    attempt: int
    reason: str


HostRecord: TypeAlias = (
    HostUp
    | HostDown
    | ReignBegun
    | HostsSilent
    | HostsLost
    | StaleGone
    | PartsLeft
    | HostsLeftOut
    | HostsOpened
    | DevicesOpened
    | AvoidanceLifted
    | LoadChanged
    | CheckpointsSeen
    | JournalRestored
    | StrangersSeen
    | StrangersGone
    | AdoptionAsked
    | AdoptionRefused
)
