"""Which resources exist, and what each may be used for."""

from typing import Final

from xce.model.config import ClusterConfig
from xce.resreq.errors import NotBuiltError, ResreqError

NUMBERS: Final = ("ncpus", "maxmem", "mem", "slots", "maxslots")
"""Numbers that every host has, for select and order."""
STRINGS: Final = ("hname", "type")
"""Strings that a host may have, for select."""
SIZES: Final = ("mem", "maxmem")
"""Numbers that are sizes in MiB."""

_ALIASES: Final = {"swap": "swp", "idle": "it", "login": "ls", "cpu": "r1m"}
_LOAD: Final = ("r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "swp", "tmp")
_STATIC: Final = (
    "status", "model", "cpuf", "server", "rexpri", "ndisks", "nprocs", "ncores", "nthreads",
    "maxswp", "maxtmp", "cu",
)  # fmt: skip
_GPU: Final = ("ngpus", "gpu_", "gmem")
_NOT_CONSUMABLE: Final = (
    *NUMBERS, *STRINGS, *_STATIC, "ut", "ls", "it", "r15s", "r1m", "r15m", "pg", "io",
)  # fmt: skip


class Schema:
    """The resources of one configuration."""

    def __init__(self, config: ClusterConfig) -> None:
        self.kinds: dict[str, str] = dict.fromkeys(NUMBERS, "number")
        self.kinds.update(dict.fromkeys(STRINGS, "string"))
        self.units: dict[str, str] = {"mem": "MB"}
        """Consumable resources with their units."""
        for resource in config.resources:
            if resource.kind in ("counter", "pool"):
                self.units[resource.name] = resource.unit
            else:
                self.kinds[resource.name] = resource.kind
        for pool in config.pools:
            self.units.setdefault(pool.name, "")

    def kind(self, name: str, section: str) -> str:
        """Return ``number``, ``string`` or ``boolean``: what ``name`` is in select and order.

        Raises:
            ResreqError: It is nothing there.
        """
        kind = self.kinds.get(name)
        if kind is not None:
            return kind
        if name in self.units:
            raise NotBuiltError(
                f"{name} in {section}[] is not built yet: it is a consumable", word=name
            )
        raise self._unknown(name, section, self.kinds)

    def unit(self, name: str) -> str:
        """Return the unit of a consumable resource.

        Raises:
            ResreqError: It is none.
        """
        unit = self.units.get(name)
        if unit is not None:
            return unit
        if name == "slots":
            raise ResreqError(
                "slots are not asked for in rusage[]: each task has one, see -n",
                word=name,
                lsf="Non-consumable resource in the RUSAGE section",
            )
        if name in self.kinds or _ALIASES.get(name, name) in _NOT_CONSUMABLE:
            raise ResreqError(
                f"{name} cannot be consumed; what can is: {', '.join(sorted(self.units))}",
                word=name,
                lsf="Non-consumable resource in the RUSAGE section",
            )
        raise self._unknown(name, "rusage", self.units)

    def _unknown(self, name: str, section: str, known: dict[str, str]) -> ResreqError:
        real = _ALIASES.get(name, name)
        if real in _LOAD or real in _STATIC or name.startswith(_GPU):
            return NotBuiltError(f"{name} in {section}[] is not built yet", word=name)
        return ResreqError(
            f"no resource is called {name!r}; known in {section}[] are: "
            + ", ".join(sorted(known)),
            word=name,
            lsf="Bad resource name",
        )
