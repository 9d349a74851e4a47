"""Hosts and pools as columns: what each has, what is given out, and whether it may take work."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from xce.model.config import BUILT_IN_RESOURCES, ClusterConfig, HostConfig
from xce.model.device import WHOLE
from xce.model.ids import HostNumber, Index, JobId, Micros
from xce.model.load import INDICES, UNKNOWN
from xce.state.devices import DeviceTable
from xce.state.processors import ProcessorTable

Column: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Key: TypeAlias = tuple[JobId, Index, int]
"""``(job, index, attempt)``."""
Keys: TypeAlias = dict[Key, None]
_Said = TypeVar("_Said", None, str)


def drop_key(table: dict[HostNumber, dict[Key, _Said]], number: HostNumber, key: Key) -> None:
    """Forget an attempt of a host."""
    found = table.get(number, {})
    found.pop(key, None)
    if not found:
        table.pop(number, None)


class HostTable:
    """All hosts that ever were, by number; a host that left the configuration stays, closed.

    ``total[r, h]`` and ``used[r, h]`` are in base units; row 0 is slots, row 1 memory in MiB, the
    others the declared counters in the order of ``resources``. Behind them each device has a row:
    ``device_row + place``, in thousandths. Last come the words of sets of processors, from
    ``word_row`` on: there a bit is one processor. What an attempt holds is in ``used`` until its
    end, also on a host that is down.
    """

    load_change = 0
    """Counts changes of ``load``."""
    change = 0
    """Counts changes of anything here but ``used``, ``attempts``, ``exclusive`` and ``load``."""

    _members: tuple[int, Mapping[str, list[HostNumber]]] = (-1, {})
    """By name of a domain: its hosts, and for which ``change``."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.number: dict[str, HostNumber] = {}
        self.resources: tuple[str, ...] = BUILT_IN_RESOURCES
        self.row: dict[str, int] = {name: row for row, name in enumerate(BUILT_IN_RESOURCES)}
        self.total: Column = np.zeros((2, 0), np.int64)
        self.used: Column = np.zeros((2, 0), np.int64)
        self.held: Column = np.zeros((2, 0), np.int64)
        """Room for elements for which others give way."""
        self.attempts: Column = np.zeros(0, np.int64)
        """Live attempts that hold something there."""
        self.exclusive: Column = np.zeros(0, np.int64)
        """Of these, attempts that want the host for themselves."""
        self.is_configured: Flags = np.zeros(0, np.bool_)
        self.is_open: Flags = np.zeros(0, np.bool_)
        self.is_up: Flags = np.zeros(0, np.bool_)
        self.failures: list[int] = []
        """Failed starts through the host's fault since the last start that worked."""
        self.fault_at_us: list[int] = []
        """When the last of them was; 0: no job avoids the host."""
        self.is_fencing: Flags = np.zeros(0, np.bool_)
        """Something stale still runs there: it takes nothing new until that is gone."""
        self.stale, self.strange, self.adopting = (dict[HostNumber, Keys]() for _ in range(3))
        """Attempts that were given up and still run on a host that is back; and those that were
        begun by entries which a restored journal lacks, until they are gone, or ended or taken up
        again on somebody's word. Of these, the ones that shall be taken up, so that their host is
        asked what they are."""
        self.unadopted, self.down_at_us = dict[HostNumber, dict[Key, str]](), list[Micros]()
        """Those that cannot be, and why. Since when it is away, or how long ago the reign began; 0:
        it is up, or never came."""
        self.is_silent: list[bool] = []
        """It is away for so long that its jobs are shown as unknown."""
        self.is_lost: list[bool] = []
        """It was given up and has not come back."""
        self.fences: list[int] = []
        """How often it was given up."""
        self.losses_us: list[list[Micros]] = []
        """When it was given up lately; none since it was opened by hand."""
        self.away, self.unasked = dict[HostNumber, None](), dict[HostNumber, None]()
        """Hosts that are away and not given up; and those of them that were not there since the
        journal was restored: they may run anything, so nothing is started until they say what."""
        self.boot_ids: list[str] = []
        self.cpus: list[int] = []
        self.mem_mib: list[int] = []
        self.isolation: list[str] = []
        self.versions: list[str] = []
        self.comments: list[str] = []
        self.reported: list[dict[str, int | str | bool]] = []
        """Attributes that the worker reported."""
        self.config: list[HostConfig] = []
        self.devices = DeviceTable()
        self.load: Column = np.zeros((len(INDICES), 0), np.int64)
        """Along `INDICES`: what hosts measured, in thousandths; `UNKNOWN`: nothing is known."""
        self.processors = ProcessorTable()
        self._words = 0
        """Rows that are words of sets of processors."""

    @property
    def count(self) -> int:
        """Number of hosts."""
        return len(self.names)

    @property
    def device_row(self) -> int:
        """The row of the first device."""
        return len(self.resources)

    @property
    def word_row(self) -> int:
        """The first row that is a word of a set of processors."""
        return self.width - self._words

    @property
    def width(self) -> int:
        """Number of rows, those of devices and processors too."""
        return len(self.total)

    def named(self, name: str) -> list[HostNumber]:
        """Return the host of a name, or else the hosts of all domains of that name, rising."""
        number = self.number.get(name)
        if number is not None:
            return [number]
        if self._members[0] != self.change:
            members: dict[str, list[HostNumber]] = {}
            for place in np.flatnonzero(self.is_configured).tolist():
                for label in set(self.config[place].labels.values()):
                    members.setdefault(label, []).append(place)
            self._members = (self.change, members)
        return self._members[1].get(name, [])

    def add(self, name: str) -> HostNumber:
        """Make room for one more host and return its number."""
        number = len(self.names)
        self.names.append(name)
        self.number[name] = number
        more = np.zeros((self.width, 1), np.int64)
        self.total = np.concatenate((self.total, more), axis=1)
        self.used = np.concatenate((self.used, more), axis=1)
        self.held = np.concatenate((self.held, more), axis=1)
        unknown = np.full((len(INDICES), 1), UNKNOWN, np.int64)
        self.load = np.concatenate((self.load, unknown), axis=1)
        self.attempts = np.append(self.attempts, np.int64(0))
        self.exclusive = np.append(self.exclusive, np.int64(0))
        self.is_configured = np.append(self.is_configured, np.False_)
        self.is_open = np.append(self.is_open, np.True_)
        self.is_up = np.append(self.is_up, np.False_)
        self.is_fencing = np.append(self.is_fencing, np.False_)
        for column in (self.boot_ids, self.isolation, self.versions, self.comments):
            column.append("")
        for numbers in (
            self.cpus, self.mem_mib, self.failures, self.fault_at_us, self.down_at_us, self.fences,
        ):  # fmt: skip
            numbers.append(0)
        self.is_silent.append(False)
        self.is_lost.append(False)
        self.losses_us.append([])
        self.reported.append({})
        self.config.append(HostConfig(name=name))
        self.devices.add()
        self.processors.add()
        self.change += 1
        return number

    def configure(self, config: ClusterConfig, names: tuple[str, ...]) -> None:
        """Take the hosts and declared counters of ``config``; ``names`` lists all, in order."""
        counters = sorted(item.name for item in config.resources if item.kind == "counter")
        is_idle = (self.attempts == 0) & ~self.held.any(axis=0)
        self._set_resources((*BUILT_IN_RESOURCES, *counters))
        for name in names[self.count :]:
            self.add(name)
            is_idle = np.append(is_idle, np.True_)
        by_name = {host.name: host for host in config.hosts}
        for number, name in enumerate(self.names):
            host = by_name.get(name)
            was = self.config[number]
            self.is_configured[number] = host is not None
            # A host that left is forgotten, so that it comes back as one that is new.
            self.config[number] = host if host is not None else HostConfig(name=name)
            if self.config[number].closed != was.closed:
                self.is_open[number] = not self.config[number].closed
            self.devices.settle(number, self.config[number].gpus, is_idle=bool(is_idle[number]))
            self.processors.settle(number, self.config[number].processors)
        self._widen()
        for number in range(self.count):
            self._set_total(number)
        self.change += 1

    def join(self, number: HostNumber, *, is_loading: bool = False) -> bool:
        """Note that what the worker reported about ``number`` has changed.

        Args:
            number: The host.
            is_loading: Its devices are as a snapshot has them.

        Returns:
            Whether there are more rows now, so that what asks for amounts is laid out anew.
        """
        if not is_loading:
            is_idle = not self.attempts[number] and not self.held[:, number].any()
            self.devices.settle(number, self.config[number].gpus, is_idle=is_idle)
        self.processors.settle(number, self.config[number].processors)
        is_wider = self._widen()
        self._set_total(number)
        self.change += 1
        return is_wider

    def _widen(self) -> bool:
        """Make room for the rows of all devices and processors; return whether there was too
        little.
        """
        devices = self.device_row + self.devices.width - self.word_row
        words = self.processors.words - self._words
        if devices <= 0 and words <= 0:
            return False
        row, behind = self.word_row, np.zeros((max(words, 0), self.count), np.int64)
        between = np.zeros((max(devices, 0), self.count), np.int64)
        self.total, self.used, self.held = (
            np.concatenate((column[:row], between, column[row:], behind))
            for column in (self.total, self.used, self.held)
        )
        self._words += max(words, 0)
        return True

    def _set_total(self, number: HostNumber) -> None:
        host = self.config[number]
        slots = host.slots if host.slots is not None else self.cpus[number]
        mem = host.mem_mib if host.mem_mib is not None else self.mem_mib[number]
        self.total[0, number] = slots
        self.total[1, number] = mem
        for name in self.resources[2:]:
            self.total[self.row[name], number] = host.counters.get(name, 0)
        if self._words:
            self.total[self.word_row :, number] = self.processors.total(number)
        if self.devices.width:
            self.total[self.device_row : self.word_row, number] = 0
            devices = self.devices.hosts[number]
            for place in range(len(devices.devices)):
                self.total[self.device_row + place, number] = WHOLE

    def _set_resources(self, resources: tuple[str, ...]) -> None:
        if resources == self.resources:
            return
        self.resources = resources
        self.row = {name: row for row, name in enumerate(resources)}
        width = len(resources) + self.devices.width + self._words
        self.total = np.zeros((width, self.count), np.int64)
        self.used = np.zeros_like(self.total)
        self.held = np.zeros_like(self.total)

    def free(self) -> Column:
        """Return what is neither given out nor held; negative where room is held that others
        still use.
        """
        free: Column = self.total - self.used - self.held
        if self._words:
            row = self.word_row
            # A processor that is gone may still be in use.
            free[row:] = self.total[row:] & ~(self.used[row:] | self.held[row:])
        return free

    def usable(self) -> Flags:
        """Return which hosts may take new work: configured, up, open, and nobody's alone."""
        mask: Flags = self.is_configured & self.reachable() & self.is_open & (self.exclusive == 0)
        return mask

    def reachable(self) -> Flags:
        """Return which hosts are up and rid of everything stale."""
        mask: Flags = self.is_up & ~self.is_fencing
        return mask if not self.unasked else np.zeros_like(mask)

    def leave(self, number: HostNumber, at_us: Micros, *, silent: bool = False) -> None:
        """Note that the worker of a host is not there."""
        self.is_up[number] = False
        self.set_load([number], [[UNKNOWN]] * len(INDICES))
        self.down_at_us[number] = at_us
        self.is_silent[number] = self.is_silent[number] or silent
        self.away[number] = None
        self.change += 1

    def come(self, number: HostNumber, stale: Iterable[tuple[JobId, Index, int]]) -> None:
        """Note that the worker of a host is there, and what runs there in vain."""
        self.is_up[number] = True
        self.down_at_us[number] = 0
        self.is_silent[number] = self.is_lost[number] = False
        self.await_no_more(number)
        self.set_stale(number, stale)

    def await_no_more(self, number: HostNumber) -> None:
        """Note that a host is there, or is given up."""
        self.away.pop(number, None)
        self.unasked.pop(number, None)
        self.change += 1

    def set_stale(self, number: HostNumber, stale: Iterable[tuple[JobId, Index, int]]) -> None:
        """Note what runs on a host in vain."""
        found = dict.fromkeys(stale)
        self.stale.pop(number, None)
        if found:
            self.stale[number] = found
        self.is_fencing[number] = bool(found)
        self.change += 1

    def drop_stranger(self, number: HostNumber, key: Key) -> None:
        """Note that an attempt on a host is no stranger there any more."""
        drop_key(self.strange, number, key)
        drop_key(self.adopting, number, key)
        drop_key(self.unadopted, number, key)

    def set_load(self, numbers: list[HostNumber], indices: list[list[int]]) -> None:
        """Note what hosts measured, along `INDICES`."""
        self.load[:, numbers] = indices
        self.load_change += 1

    def resource_of(self, row: int) -> str:
        """Return what a row is of, for people."""
        if row < self.device_row:
            return self.resources[row]
        if row >= self.word_row:
            return f"word {row - self.word_row} of processors"
        return f"device {row - self.device_row}"

    def attributes(self, number: HostNumber) -> Mapping[str, int | str | bool]:
        """Return the host's attributes: those of the configuration win over reported ones."""
        return {**self.reported[number], **self.config[number].attributes}


class PoolTable:
    """Counters that live nowhere in particular: ``total[name]`` and ``used[name]``."""

    def __init__(self) -> None:
        self.total: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.held: dict[str, int] = {}

    def configure(self, config: ClusterConfig) -> None:
        """Take the pools of ``config``; `xce.state.usage.recount` says what is used of them."""
        self.total = {pool.name: pool.total for pool in config.pools}
        self.used = dict.fromkeys(self.total, 0)
        self.held = dict.fromkeys(self.total, 0)

    def free(self, name: str) -> int:
        """Return what is free; negative when the pool shrank below its use, 0 if unknown."""
        return self.total.get(name, 0) - self.used.get(name, 0) - self.held.get(name, 0)
