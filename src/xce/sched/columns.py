"""Columns of hosts as select and order expressions read them.

What configuration and workers say is laid out once for each change of the host table; ``mem`` and
``slots`` are what is free on a ground.
"""

import functools
from collections.abc import Mapping
from operator import attrgetter
from typing import Final

import numpy as np

from xce.model.config import LEVELS, ClusterConfig
from xce.model.load import INDICES, UNKNOWN
from xce.resreq.schema import MEASURED, NUMBERS, STATIC, STRINGS
from xce.resreq.select import Bools, Codes, Milli
from xce.sched.gpu_score import NO_MIX, Kind, Mix, Sizes
from xce.state.device_columns import DeviceColumns
from xce.state.hosts import Column, Flags, HostTable

GPU_NUMBERS: Final = ("ngpus", "ngpus_physical")
"""How many GPUs a host has."""
OWN_LEVEL: Final = "host"
"""The topology level at which each host is a domain of its own."""
_UNKNOWN_SIZE: Final = 1 << 40
_CONSTANTS: Final = {"cpuf": 1000, "rexpri": 0}
"""What LSF has of each host, and here is the same everywhere."""
_LOAD_ROW: Final = {name: row for row, name in enumerate(INDICES)}
_SIZES: Final = attrgetter("slots", "mem_mib")


def content_of(table: HostTable) -> tuple[object, ...]:
    """Return all of a host table that facts and shapes are made of, beside the configuration.

    Where it is equal, what was made for one ``change`` is right for another one, too: a host that
    was away is back.
    """
    return (
        table.resources,
        table.word_row,
        table.total.shape,
        table.total.tobytes(),
        table.is_configured.tobytes(),
        table.is_open.tobytes(),
        table.reachable().tobytes(),
        list(map(bool, table.boot_ids)),
        list(table.cpus),
        list(table.reported),
        list(table.processors.codes),
        table.devices.content(),
    )


class HostFacts:
    """What is known of each host beside amounts; valid while `content_of` the table stays."""

    def __init__(self, table: HostTable, config: ClusterConfig) -> None:
        self.table = table
        self.kinds: dict[str, str] = dict.fromkeys((*NUMBERS, *MEASURED, *STATIC), "number")
        self.kinds |= {
            item.name: item.kind
            for item in config.resources
            if item.kind in ("number", "string", "boolean")
        }
        self.kinds.update(dict.fromkeys(("gpu", "server"), "boolean"))
        self.kinds.update(dict.fromkeys(GPU_NUMBERS, "number"))
        counters = table.resources[2:]
        self.totals = {f"max{name}": table.row[name] for name in counters}
        """Names under which the whole of a counter is known, and its row."""
        self.pools = frozenset(
            [pool.name for pool in config.pools]
            + [item.name for item in config.resources if item.kind == "pool"]
        )
        self.kinds |= dict.fromkeys((*counters, *self.totals, *self.pools), "number")
        self.measured = frozenset((*MEASURED, "status")) - {*counters}
        """What hosts measure or are, and nobody gives out."""
        self.moving = self.measured | table.row.keys() | self.pools
        """Names of what changes with what runs."""
        self.attributes: list[Mapping[str, int | str | bool]] = list(
            map(table.attributes, range(table.count))
        )
        self.cpus: Milli = np.asarray(table.cpus, np.int64) * 1000
        joined = np.fromiter(map(bool, table.boot_ids), np.bool_, table.count)
        self.has_joined: Flags = joined & table.is_configured
        self.unknown = _unknown_sizes(table, joined)
        """Along slots and mem: hosts that never joined and whose size only they can tell."""
        self._numbers: dict[str, tuple[Milli, Bools]] = {}
        self._texts: dict[str, tuple[Codes, dict[str, int]]] = {}
        self._flags: dict[str, Bools] = {}
        self._labels: dict[str, Codes] = {}
        self._config = config
        self.asks: dict[int, tuple[tuple[Kind, int], ...]] = {}
        """By class: what one job asks of GPUs, and how often; see `xce.sched.gpu_mix`."""
        self.gpu_policy = config.gpu_policy
        self.mix: Mix = NO_MIX
        """What the jobs of the cluster ask of GPUs; set for each session."""

    def idle(self) -> Column:
        """Return what would be free on an idle cluster; plenty where nobody knows yet."""
        free = self.table.total.copy()
        free[:2][self.unknown] = _UNKNOWN_SIZE
        return free

    @functools.cached_property
    def sizes(self) -> Sizes:
        """The most that any host has, as the scorers of GPUs compare amounts."""
        slots, devices = self.table.total[0], self.table.total[self.table.device_row :]
        return Sizes(
            max(1, int(slots.max(initial=1))), max(1, int(devices.sum(axis=0).max(initial=1)))
        )

    @functools.cached_property
    def sockets(self) -> Column:
        """Return the socket of each GPU, along places and hosts; -1: nobody said where it is.

        Where a host's processors are not known, each of its NUMA domains counts as a socket.
        """
        numa, processors = self.devices.numa, self.table.processors
        sockets, codes = numa.copy(), np.asarray(processors.codes, np.int64)
        for code in np.unique(codes[codes >= 0]).tolist():
            # Hosts that are alike share a layout. Its last entry stands for -1.
            socket_of = {item.numa: item.socket for item in processors.layouts[code].processors}
            table = np.arange(max(int(numa.max(initial=-1)), *socket_of) + 2)
            table[list(socket_of)] = list(socket_of.values())
            table[-1] = -1
            there = codes == code
            sockets[:, there] = table[numa[:, there]]
        return sockets

    @property
    def devices(self) -> DeviceColumns:
        """The devices of hosts."""
        return self.table.devices.columns

    def number(self, name: str) -> tuple[Milli, Bools]:
        """Return an attribute in thousandths and which hosts have it."""
        found = self._numbers.get(name)
        if found is None and name in GPU_NUMBERS:
            counts = self.devices.is_there.sum(axis=0) * 1000
            found = self._numbers[name] = counts, np.ones(self.table.count, np.bool_)
        if found is None and name in _CONSTANTS:
            everywhere = np.ones(self.table.count, np.bool_)
            found = self._numbers[name] = everywhere * np.int64(_CONSTANTS[name]), everywhere
        if found is None:
            values = [row.get(name) for row in self.attributes]
            milli = [0 if isinstance(value, str | None) else int(value) for value in values]
            has = [isinstance(value, int) and not isinstance(value, bool) for value in values]
            found = np.asarray(milli, np.int64), np.asarray(has, np.bool_)
            self._numbers[name] = found
        return found

    def text(self, name: str) -> tuple[Codes, dict[str, int]]:
        """Return a string as codes, and the code of each text."""
        found = self._texts.get(name)
        if found is None:
            if name == "hname":
                values: list[object] = list(self.table.names)
            elif name == "status":
                values = ["ok" if is_there else "unavail" for is_there in self.table.reachable()]
            else:
                values = [row.get(name) for row in self.attributes]
            words = sorted({value for value in values if isinstance(value, str)})
            codes = {word: code for code, word in enumerate(words)}
            column = [codes.get(value, -1) if isinstance(value, str) else -1 for value in values]
            found = self._texts[name] = np.asarray(column, np.int32), codes
        return found

    def flag(self, name: str) -> Bools:
        """Return which hosts have a boolean resource."""
        found = self._flags.get(name)
        if found is None:
            column = [row.get(name) is True for row in self.attributes]
            found = self._flags[name] = np.asarray(column, np.bool_)
            if name == "server":
                found |= self.table.is_configured
            if name == "gpu":
                found |= self.devices.is_there.sum(axis=0) > 0
        return found

    def values(self, name: str) -> Codes:
        """Return a code for each value of an attribute, for ``same[]``; -1: not there."""
        kind = self.kinds.get(name, "")
        if kind == "string" or name in STRINGS:
            return self.text(name)[0]
        if kind == "boolean":
            has = np.asarray([isinstance(row.get(name), bool) for row in self.attributes], np.bool_)
            if name == "server":
                has |= self.table.is_configured
            return np.where(has, self.flag(name).astype(np.int32), np.int32(-1))
        milli, defined = self._static(name)
        _, codes = np.unique(milli, return_inverse=True)
        return np.where(defined, codes, -1).astype(np.int32)

    def _static(self, name: str) -> tuple[Milli, Bools]:
        everywhere: Bools = np.ones(self.table.count, np.bool_)
        match name:
            case "maxslots" | "maxmem":
                return self.table.total[int(name == "maxmem")] * 1000, everywhere
            case "ncpus":
                return self.cpus, everywhere
            case _:
                return self.number(name)

    def level(self, name: str) -> str:
        """Return the topology level that ``cu[type=name]`` means."""
        return self._config.domain_level(name)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of domains, the narrowest first, without hosts themselves."""
        return self._config.levels or LEVELS

    def labels(self, level: str) -> Codes:
        """Return the code of each host's domain at a level; -1: it is in none."""
        found = self._labels.get(level)
        if found is None:
            words = [item.labels.get(level, "") for item in self.table.config]
            codes = {word: code for code, word in enumerate(sorted({*words} - {""}))}
            column = [codes.get(word, -1) for word in words]
            found = self._labels[level] = np.asarray(column, np.int32)
        return found


def _unknown_sizes(table: HostTable, joined: Flags) -> Flags:
    """Return, along slots and mem, which hosts never joined and have no configured size."""
    sizes = list(map(_SIZES, table.config))
    unknown = np.asarray([value is None for pair in sizes for value in pair], np.bool_)
    return unknown.reshape(table.count, 2).T & ~joined & table.is_configured


class HostColumns:
    """The columns of a session: facts, what is free on its ground, and what hosts measure.

    Of a size that is given out and measured too (``mem``), there is as much as the lesser of both
    says: somebody else may use it, and what was given out need not be used yet.

    Args:
        facts: What is known of hosts.
        free: What is free, along resources and hosts.
        pools: What pools have: of that each host has all.
        is_idle: It is what would be free if nothing ran: then no load is known.
    """

    def __init__(
        self,
        facts: HostFacts,
        free: Column,
        pools: Mapping[str, int] | None = None,
        *,
        is_idle: bool = False,
    ) -> None:
        self._facts = facts
        self._free = free
        self._pools = pools or {}
        self._is_idle = is_idle
        self.unsettled = facts.measured if is_idle else frozenset[str]()
        """Numbers that may be anything."""
        self._all: Bools = np.ones(facts.table.count, np.bool_)

    @property
    def count(self) -> int:
        """Number of hosts."""
        return self._facts.table.count

    def number(self, name: str) -> tuple[Milli, Bools]:
        """Return a number's column in thousandths, and which hosts have it."""
        total = self._facts.table.total
        match name:
            case "slots":
                return self._free[0] * 1000, self._all
            case "mem":
                return self._least("mem", 1), self._all
            case "maxslots":
                return total[0] * 1000, self._all
            case "maxmem":
                return total[1] * 1000, self._all
            case "ncpus":
                return self._facts.cpus, self._all
            case _ if name in self._facts.pools:
                return self._all * np.int64(self._pools.get(name, 0) * 1000), self._all
            case _:
                return self._counter(name) or self._load(name) or self._facts.number(name)

    def row(self, name: str) -> int | None:
        """Return the resource that a number is what is free of; None: it is another."""
        return 0 if name == "slots" else self._facts.table.row.get(name)

    def left(self, row: int) -> Milli:
        """Return what is free of a resource, in thousandths."""
        free: Milli = self._free[row] * 1000
        return free

    def _least(self, name: str, row: int) -> Milli:
        """Return what is free of a resource, in thousandths, where no less was measured."""
        free: Milli = self._free[row] * 1000
        if not self._is_idle and name in _LOAD_ROW:
            seen = self._facts.table.load[_LOAD_ROW[name]]
            free = np.where(seen == UNKNOWN, free, np.minimum(free, seen))
        return free

    def _load(self, name: str) -> tuple[Milli, Bools] | None:
        """Return what hosts measured; None: it is nothing that they do."""
        row = _LOAD_ROW.get(name)
        if row is None:
            return None
        seen = self._facts.table.load[row]
        return seen, seen != UNKNOWN

    def _counter(self, name: str) -> tuple[Milli, Bools] | None:
        """Return what is free of a counter, or the whole of it; None: ``name`` is no counter's."""
        table = self._facts.table
        whole = self._facts.totals.get(name)
        if whole is not None:
            return table.total[whole] * 1000, table.total[whole] > 0
        row = table.row.get(name)
        return None if row is None else (self._least(name, row), table.total[row] > 0)

    def text(self, name: str) -> tuple[Codes, dict[str, int]]:
        """Return a string's column as codes (-1: not there), and the code of each text."""
        return self._facts.text(name)

    def flag(self, name: str) -> Bools:
        """Return which hosts have a boolean resource."""
        return self._facts.flag(name)

    def kind(self, name: str) -> str:
        """Return ``number``, ``string`` or ``boolean``; empty: no host has such a thing."""
        return self._facts.kinds.get(name, "")
