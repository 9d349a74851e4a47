"""Observations: what a worker or a connection reports. Late and repeated ones are dropped."""

from typing import Final, TypeAlias

import msgspec

from xce.model.device import Device
from xce.model.effect import Launch
from xce.model.ids import Index, JobId, Micros
from xce.model.job import EndCause
from xce.model.load import Sample
from xce.model.processor import Processor

HOLLOW: Final = "hollow"
"""What a host without real jobs says of its isolation first."""


TOLD_MAX: Final = 100
"""Most attempts of which a host tells all at once: each takes the controller a millisecond."""


class AttemptStarted(msgspec.Struct, frozen=True, array_like=True):
    """A job's processes run."""

    job: JobId
    index: Index
    attempt: int
    pid: int = 0
    age_us: Micros = 0
    """How long ago, measured on the host by its monotonic clock."""


class AttemptEnded(msgspec.Struct, frozen=True, array_like=True):
    """Nothing of the attempt is left on the host (decision X-14), and this is how it ended."""

    job: JobId
    index: Index
    attempt: int
    exit_code: int = 0
    """0..255; 128 + n when its process died of signal n."""
    signal: int = 0
    """The signal that ended its process, or 0."""
    cause: EndCause = EndCause.NONE
    """What the host itself decided before it signalled (limits), or what went wrong."""
    host_fault: bool = False
    """It could not be started and the host is to blame: the job may run elsewhere."""
    detail: str = ""
    """One line for people about a failed start or a lost status."""
    started_age_us: Micros = 0
    ended_age_us: Micros = 0
    user_us: Micros = 0
    system_us: Micros = 0
    max_mem_kib: int = 0
    max_processes: int = 0
    max_threads: int = 0
    post: int = 0
    """How its post hooks ended: `xce.model.job.PostStat`."""


class SuspensionSeen(msgspec.Struct, frozen=True, array_like=True):
    """An attempt was stopped or resumed as wanted."""

    job: JobId
    index: Index
    attempt: int
    suspended: bool


class CheckpointSeen(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint of an attempt was written, or could not be."""

    job: JobId
    index: Index
    attempt: int
    number: int
    """Counts those of the attempt that were begun, from 1."""
    is_good: bool
    detail: str = ""
    """What went wrong."""


class AttemptSeen(msgspec.Struct, frozen=True, array_like=True):
    """An attempt that lives on the host when it (re)joins."""

    job: JobId
    index: Index
    attempt: int
    running: bool
    """False: accepted, not started yet."""


class AttemptTold(msgspec.Struct, frozen=True, array_like=True):
    """All that a host knows of an attempt that lives there: the answer to `Identify`."""

    index: Index
    attempt: int
    launch: Launch
    """Of this attempt and no other, with the limits that it has now."""
    running: bool = False
    """False: accepted, not started yet."""
    pid: int = 0
    age_us: Micros = 0
    """Since it runs."""
    shall_stop: bool = False
    suspended: bool = False
    signals: int = 0
    """How many were sent to it."""
    is_part: bool = False
    """Another host leads it."""


class HostJoined(msgspec.Struct, frozen=True, tag="host-joined", array_like=True):
    """A worker has connected: what the host has, and its whole list of attempts.

    Ended attempts whose end is not acknowledged follow in a `Reported` right behind it.
    """

    host: str
    boot_id: str
    cpus: int
    mem_mib: int
    attempts: tuple[AttemptSeen, ...] = ()
    unreported: tuple[tuple[JobId, Index, int], ...] = ()
    """``(job, index, attempt)`` whose end will be reported next."""
    isolation: str = ""
    version: str = ""
    attributes: dict[str, int | str | bool] = {}
    devices: tuple[Device, ...] = ()
    """The GPUs that it has."""
    processors: tuple[Processor, ...] = ()
    """The processors that jobs may be bound to; empty: it does not tell."""


class HostDisconnected(msgspec.Struct, frozen=True, tag="host-disconnected", array_like=True):
    """A worker's connection ended; its jobs run on."""

    host: str
    silent: bool = False
    """It was ended here, since nothing was heard of the worker for too long."""


class ReignBegan(msgspec.Struct, frozen=True, tag="reign-began", array_like=True):
    """A leader begins, and no worker has joined it yet: every host gets its whole grace."""

    is_jump: bool = False
    """It has begun before, and its clock has gone forward at once: only hosts that are away."""
    is_restored: bool = False
    """It is the first one on a journal that was restored."""


class Reported(msgspec.Struct, frozen=True, tag="reported", array_like=True):
    """A batch of what happened on a host, in order."""

    host: str
    number: int
    """Counts this worker's batches on this connection; acknowledged when durable."""
    started: tuple[AttemptStarted, ...] = ()
    ended: tuple[AttemptEnded, ...] = ()
    suspended: tuple[SuspensionSeen, ...] = ()
    gone: tuple[tuple[JobId, Index, int], ...] = ()
    """``(job, index, attempt)`` that were to be forgotten: nothing of them is left."""
    checkpoints: tuple[CheckpointSeen, ...] = ()
    """What became of them."""
    told: tuple[AttemptTold, ...] = ()
    """What was asked for by `xce.model.effect.Identify`."""


class LoadSeen(msgspec.Struct, frozen=True, tag="load-seen", array_like=True):
    """What some hosts measured of their load has changed enough to be recorded."""

    hosts: tuple[str, ...]
    samples: tuple[Sample, ...]


Observation: TypeAlias = HostJoined | HostDisconnected | ReignBegan | Reported | LoadSeen
