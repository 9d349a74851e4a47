"""Which resources exist, and what each may be used for."""

from typing import Final

from xce.model.config import ClusterConfig
from xce.model.load import INDICES
from xce.resreq.errors import ResreqError

NUMBERS: Final = ("ncpus", "maxmem", "mem", "slots", "maxslots")
"""Numbers that every host has, for select and order."""
MEASURED: Final = tuple(name for name in INDICES if name not in NUMBERS)
"""Numbers that hosts measure, for select and order."""
STATIC: Final = (
    "cpuf", "rexpri", "ndisks", "nprocs", "ncores", "nthreads", "maxswp", "maxtmp",
)  # fmt: skip
"""Numbers that tell of what a host is made, for select and order."""
STRINGS: Final = ("hname", "model", "status", "type")
"""Strings that a host may have, for select."""
SIZES: Final = ("mem", "maxmem", "swp", "maxswp")
"""Numbers that are sizes in MiB; a bare number beside one is in the unit for limits."""
MEGABYTES: Final = ("tmp", "maxtmp")
"""Sizes in MiB beside which a bare number is always in MiB."""
HOST_LEVEL: Final = "host"
"""The level at which each host is a domain of its own."""
LEVELS: Final = (HOST_LEVEL, "switch", "block", "rack", "zone")
"""Levels of the topology, from the inside, where the configuration names none."""

ALIASES: Final = {"swap": "swp", "idle": "it", "login": "ls", "cpu": "r1m"}
"""Second names of what LSF has on every host."""
_GPU_COUNTS: Final = ("ngpus", "ngpus_physical", "ngpus_shared", "ngpus_excl_t", "ngpus_excl_p")
_BUILT_IN_KINDS: Final = {**dict.fromkeys(_GPU_COUNTS, "number"), "cu": "string"}
"""What LSF has beside the above; a declared resource of the same name wins."""
_BUILT_IN_UNITS: Final = {
    "swp": "MB", "tmp": "MB", "gmem": "MB", "mig": "", "gtile": "",
    **dict.fromkeys(_GPU_COUNTS, ""),
}  # fmt: skip
_NOT_CONSUMABLE: Final = (
    *NUMBERS, *MEASURED, *STATIC, *STRINGS, "server", *_BUILT_IN_KINDS,
)  # fmt: skip
_NOT_CONSUMABLE_LSF: Final = "Non-consumable resource in the RUSAGE section"


class Schema:
    """The resources of one configuration, and those that LSF has everywhere.

    Args:
        config: What is declared.
        is_open: Take a name that does not exist for what its place makes it, and note it in
            ``unknown``, instead of refusing it.
    """

    def __init__(self, config: ClusterConfig, *, is_open: bool = False) -> None:
        self.is_open = is_open
        self.unknown: dict[str, str] = {}
        """Names that do not exist, each with the section where it stood first."""
        self.levels = (HOST_LEVEL, *config.levels) if config.levels else LEVELS
        """Levels of the topology, from the inside."""
        self.kinds: dict[str, str] = dict.fromkeys((*NUMBERS, *MEASURED, *STATIC), "number")
        """Attributes of hosts with their kinds."""
        self.kinds.update(dict.fromkeys(STRINGS, "string"))
        self.kinds.update(dict.fromkeys(("gpu", "server"), "boolean"))
        self.kinds.update(dict.fromkeys(("ngpus", "ngpus_physical"), "number"))
        self.units: dict[str, str] = {"mem": "MB", "gpu": ""}
        """Consumable resources with their units."""
        self.pools: set[str] = {pool.name for pool in config.pools}
        """Of these, those that no host has by itself."""
        for resource in config.resources:
            if resource.kind in ("counter", "pool"):
                self.units[resource.name] = resource.unit
                if resource.kind == "pool":
                    self.pools.add(resource.name)
            else:
                self.kinds[resource.name] = resource.kind
        for pool in config.pools:
            self.units.setdefault(pool.name, "")

    def name(self, name: str) -> str:
        """Return the one name of what may have two: ``swap`` is ``swp``."""
        return name if name in self.kinds or name in self.units else ALIASES.get(name, name)

    def is_string(self, name: str) -> bool:
        """Whether ``name`` is a string resource; a name that is none may be a literal."""
        return self.known_kind(name) == "string"

    def known_kind(self, name: str) -> str:
        """Return ``number``, ``string`` or ``boolean``; empty: it is nothing that select knows."""
        kind = self.kinds.get(name)
        if kind is None:
            if name in self.units:
                return "number"
            kind = _BUILT_IN_KINDS.get(name, "")
            if not kind and name.startswith("gpu_"):
                return "number"
        return kind

    def kind(self, name: str, section: str) -> str:
        """Return ``number``, ``string`` or ``boolean``: what ``name`` is in select and order.

        Raises:
            ResreqError: It is nothing there.
        """
        kind = self.known_kind(name)
        if kind:
            return kind
        self.note_unknown(name, section, self.kinds)
        return "boolean" if section == "select" else "number"

    def unit(self, name: str) -> str:
        """Return the unit of a consumable resource.

        Raises:
            ResreqError: It is none.
        """
        unit = self.units.get(name)
        if unit is None and (name not in self.kinds or name in (*_GPU_COUNTS, *MEASURED)):
            unit = _BUILT_IN_UNITS.get(name)
        if unit is not None:
            return unit
        if name == "slots":
            raise ResreqError(
                "slots are not asked for in rusage[]: each task has one, see -n",
                word=name,
                lsf=_NOT_CONSUMABLE_LSF,
            )
        if name in self.kinds or name in _NOT_CONSUMABLE:
            raise ResreqError(
                f"{name} cannot be consumed; what can is: {', '.join(sorted(self.units))}",
                word=name,
                lsf=_NOT_CONSUMABLE_LSF,
            )
        self.note_unknown(name, "rusage", self.units)
        return ""

    def check_level(self, level: str) -> None:
        """Check that the topology has a level.

        Raises:
            ResreqError: It has none of that name.
        """
        if level not in self.levels:
            if not self.is_open:
                raise ResreqError(
                    f"the topology has no level {level!r}; it has: {', '.join(self.levels)}",
                    word=level,
                    lsf="Bad compute unit type",
                )
            self.unknown.setdefault(level, "cu")

    def note_unknown(self, name: str, section: str, known: dict[str, str]) -> None:
        """Note a name that does not exist, or refuse it.

        Raises:
            ResreqError: The schema is not open.
        """
        if not self.is_open:
            raise ResreqError(
                f"no resource is called {name!r}; known in {section}[] are: "
                + ", ".join(sorted(known)),
                word=name,
                lsf="Bad resource name",
            )
        self.unknown.setdefault(name, section)
