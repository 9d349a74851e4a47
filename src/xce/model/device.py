"""Devices: GPUs as things with names on hosts, what a request wants of them, what an attempt gets.

Amounts of a device are in thousandths: a whole one is `WHOLE`. On its host a device is known by its
*place*, which counts from 0 and never means another device as long as anything runs there.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

WHOLE: Final = 1000
"""A whole device, in thousandths."""
DEVICES_MAX: Final = 1024
"""Most devices that one host may have."""
MPS_CONTROL: Final = "nvidia-cuda-mps-control"
"""The program that is NVIDIA's control daemon of MPS."""
NO_LINK: Final = -1
"""The NVLink domain of a device that is linked to no other one."""


class Device(msgspec.Struct, frozen=True, array_like=True):
    """A GPU, or a part of one that is given out as one."""

    index: int
    """As the driver counts; of an instance of MIG, counted on behind the GPUs."""
    uuid: str = ""
    model: str = ""
    mem_mib: int = 0
    """0: nobody said."""
    link: int = NO_LINK
    """Its NVLink domain on this host."""
    numa: int = -1
    """The NUMA domain that it is near to; -1: nobody said."""
    parent: int = -1
    """Of an instance of MIG: the index of its GPU."""
    profile: str = ""
    """Of an instance of MIG: its profile, e.g. ``3g.40gb``."""
    is_enforced: bool = False
    """Whether a share of it is more than advice: the site runs the service that keeps to it."""

    @property
    def name(self) -> str:
        """What jobs call it by: its UUID, else its index."""
        return self.uuid or str(self.index)


class GpuWish(msgspec.Struct, frozen=True, array_like=True, order=True):
    """What a request wants of GPUs."""

    count: int = 1
    """How many, for each ``per``."""
    milli: int = WHOLE
    """How much of each; less than a whole one only where ``count`` is 1."""
    per: str = "task"
    """``task``, ``host`` (once on each host used) or ``job`` (once, on the first host)."""
    model: str = ""
    """Part of the model's name, as `model_words` reads it; empty: any."""
    mem_mib: int = 0
    """Least memory of each."""
    is_linked: bool = False
    """``glink=yes``: those of one task (or host, or job) are in one NVLink domain."""
    mig: str = ""
    """``gi`` or ``gi/ci``: instances of MIG of this size; empty: whole GPUs."""
    is_exclusive: bool = False
    """``mode=exclusive_process``: the device admits one process."""
    is_by_lsf: bool = False
    """Asked for by ``-gpu`` or an LSF name, and shown so."""
    vendor: str = ""
    """``amd``, as ``gvendor`` says; empty: any where ``model`` names one, else NVIDIA's."""
    is_blocked: bool = False
    """``block=yes``: the tasks of a host are split over its GPUs in blocks of neighbours."""
    is_near: bool = False
    """``aff=yes``: tasks are bound to the processors of the NUMA domains of their GPUs."""
    mps: str = ""
    """``yes``: the job has a control daemon of MPS of its own on each of its hosts, and there may
    follow ``,shared`` (with others of its user, where it has parts of GPUs) and ``,nocvd`` (it is
    not told its GPUs in ``CUDA_VISIBLE_DEVICES``); empty: it has none."""
    tile: int = 0
    """``gtile=n``: on a host n of each socket that is used, of one perhaps fewer; -1 (``!``):
    spread evenly over all sockets with such GPUs; 0: no such wish."""

    @property
    def is_whole(self) -> bool:
        """Whether whole devices are wanted."""
        return self.milli == WHOLE

    def items(self, tasks: int, *, is_first: bool = True) -> int:
        """Return how many devices (or shares) it comes to on a host with so many tasks."""
        if self.per == "task":
            return self.count * tasks
        return self.count if self.per == "host" or is_first else 0


def mps_of(wishes: Iterable[GpuWish | None]) -> str:
    """Return what a job with these wishes wants of MPS, as `GpuWish.mps` says it.

    Where any of its roles wants it, the whole job has it.
    """
    return next((wish.mps for wish in wishes if wish is not None and wish.mps), "")


class DeviceGrant(msgspec.Struct, frozen=True, array_like=True):
    """A device, or a share of it, that an attempt has on a host."""

    index: int
    uuid: str = ""
    milli: int = WHOLE
    model: str = ""
    numa: int = -1
    profile: str = ""
    is_enforced: bool = False

    @property
    def name(self) -> str:
        """What jobs call it by: its UUID, else its index."""
        return self.uuid or str(self.index)


_AMD_WORDS: Final = frozenset(("AMD", "ADVANCED", "RADEON", "INSTINCT"))


def vendor_of(model: str) -> str:
    """Return who made a device, by what its model is called: ``amd``, else ``nvidia``."""
    return "amd" if _AMD_WORDS & set(model_words(model)) else "nvidia"


def model_words(text: str) -> tuple[str, ...]:
    """Return the words of a model's name, in capitals: ``NVIDIA H100 80GB`` has three."""
    plain = "".join(letter if letter.isalnum() else " " for letter in text.upper())
    return tuple(plain.split())


def is_model(asked: str, model: str) -> bool:
    """Return whether a device's model is the one asked for: by its full, brand or short name.

    The words asked for stand in it one after the other; blanks make no difference, as in LSF.
    """
    wanted, words = model_words(asked), model_words(model)
    if not wanted:
        return True
    if "".join(wanted) == "".join(words):
        return True
    size = len(wanted)
    return any(words[at : at + size] == wanted for at in range(len(words) - size + 1))


def is_profile(asked: str, profile: str) -> bool:
    """Return whether an instance of MIG has the size asked for, as ``gi`` or ``gi/ci``.

    Args:
        asked: Slices of the GPU, and of these the compute slices (all where it does not say).
        profile: ``3g.40gb``, or ``2c.3g.40gb`` for an instance with fewer compute slices.
    """
    slices, _, compute = asked.partition("/")
    parts = profile.lower().split(".")
    own = [part[:-1] for part in parts if part[:-1].isdecimal() and part[-1:] == "g"]
    own_compute = [part[:-1] for part in parts if part[:-1].isdecimal() and part[-1:] == "c"]
    if own != [slices]:
        return False
    return (own_compute or own) == [compute or slices]


def link_places(devices: tuple[Device, ...] | list[Device]) -> list[int]:
    """Return a number for the NVLink domain of each device; a device without one is alone."""
    numbers: dict[tuple[int, int], int] = {}
    found = []
    for place, device in enumerate(devices):
        key = (device.link, -1 if device.link != NO_LINK else place)
        found.append(numbers.setdefault(key, len(numbers)))
    return found
