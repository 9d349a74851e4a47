"""The load of this host, read from ``/proc``, the file of logins and the directory of terminals.

What has to be counted over a time (``ut``, ``pg``, ``io``) is unknown where that was too short, and
what this machine does not tell is unknown for ever.
"""

import math
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from xce.model.ids import SECOND_US, Micros
from xce.model.load import INDICES, UNKNOWN, Sample

LOOK_US: Final = 5 * SECOND_US
"""At least so much is between two looks."""
_COUNT_US: Final = SECOND_US // 5
"""Over so long at least something is counted."""
_R15S: Final = 15 * SECOND_US
_UTMP: Final = struct.Struct("hi32s4s32s256shhiii16s20s")
"""One login of the GNU C library on Linux; on 64-bit machines the session and the time are 32-bit
too."""
_USER_PROCESS: Final = 7
_MIB: Final = 1024 * 1024


class Login(NamedTuple):
    """Somebody who is logged in."""

    user: str
    line: str
    """His terminal, below ``/dev``."""


class Counted(NamedTuple):
    """What is counted since the machine's start."""

    busy: int
    """Ticks of CPUs."""
    ticks: int
    """All of them, the idle ones too."""
    swapped: int
    """Pages to and from swap space."""
    moved_kib: int
    """To and from disks."""


class Sources(NamedTuple):
    """Where to look."""

    proc: Path = Path("/proc")
    logins: Path = Path("/run/utmp")
    devices: Path = Path("/dev")
    temporary: Path = Path("/tmp")


class LoadMeter:
    """Measures the load of this host.

    Args:
        clock_us: A monotonic clock.
        wall_s: The time as files have it.
        sources: Where to look.
    """

    def __init__(
        self,
        clock_us: Callable[[], Micros],
        wall_s: Callable[[], float],
        sources: Sources = Sources(),  # noqa: B008 - it cannot be changed
    ) -> None:
        self._clock_us, self._wall_s = clock_us, wall_s
        self._sources = sources
        self._last_us: Micros | None = None
        self._counted = self._count()
        self._counted_us = clock_us()
        self._r15s: float | None = None

    def look(self) -> Sample:
        """Return what is measured now; empty: the last look was just now."""
        now_us, before_us = self._clock_us(), self._last_us
        if before_us is not None and now_us - before_us < LOOK_US:
            return ()
        self._last_us = now_us
        span_us = now_us - before_us if before_us is not None else 0
        found = {**self._queues(span_us), **self._rates(now_us), **self._people(), **self._room()}
        return tuple(round(found[name] * 1000) if name in found else UNKNOWN for name in INDICES)

    def _read(self, name: str) -> str:
        try:
            return (self._sources.proc / name).read_text(encoding="ascii", errors="replace")
        except OSError:
            return ""

    def _queues(self, span_us: Micros) -> dict[str, float]:
        """Return the lengths of the run queue."""
        words = self._read("loadavg").split()
        if len(words) < 4 or "/" not in words[3]:
            return {}
        # This process is one of those that run.
        length = max(0.0, float(words[3].partition("/")[0]) - 1)
        if self._r15s is None:
            self._r15s = float(words[0])
        else:
            kept = math.exp(-span_us / _R15S)
            self._r15s = self._r15s * kept + length * (1 - kept)
        return {"r15s": self._r15s, "r1m": float(words[0]), "r15m": float(words[2])}

    def _count(self) -> Counted | None:
        return parse_counted(self._read("stat"), self._read("vmstat"))

    def _rates(self, now_us: Micros) -> dict[str, float]:
        """Return what was used of CPUs, swap space and disks since the last look."""
        before, span_us = self._counted, now_us - self._counted_us
        if span_us < _COUNT_US:
            return {}
        now = self._counted = self._count()
        self._counted_us = now_us
        if before is None or now is None:
            return {}
        ticks = max(1, now.ticks - before.ticks)
        return {
            "ut": min(1.0, max(0, now.busy - before.busy) / ticks),
            "pg": max(0, now.swapped - before.swapped) * SECOND_US / span_us,
            "io": max(0, now.moved_kib - before.moved_kib) * SECOND_US / span_us,
        }

    def _people(self) -> dict[str, float]:
        """Return how many are logged in, and for how many minutes nobody has typed anything."""
        try:
            logins = parse_logins(self._sources.logins.read_bytes())
        except OSError:
            return {}
        idle_s = [self._idle_s(login.line) for login in logins]
        known = [span for span in idle_s if span is not None]
        words = self._read("uptime").split()
        if not known and words:
            known = [float(words[0])]
        found: dict[str, float] = {"ls": float(len({login.user for login in logins}))}
        if known:
            found["it"] = min(known) // 60
        return found

    def _idle_s(self, line: str) -> float | None:
        if not line or ".." in line or line.startswith(("/", ":")):
            return None
        try:
            return max(0.0, self._wall_s() - (self._sources.devices / line).stat().st_atime)
        except OSError:
            return None

    def _room(self) -> dict[str, float]:
        """Return what is free of memory, swap space and room for temporary files, in MiB."""
        kib = parse_sizes(self._read("meminfo"))
        names = {"swp": "SwapFree", "mem": "MemAvailable"}
        found = {name: float(kib[key] // 1024) for name, key in names.items() if key in kib}
        try:
            room = os.statvfs(self._sources.temporary)
        except OSError:
            return found
        return {**found, "tmp": float(room.f_bavail * room.f_frsize // _MIB)}


def parse_counted(stat: str, vmstat: str) -> Counted | None:
    """Return the counts in ``/proc/stat`` and ``/proc/vmstat``; None: they are not there."""
    cpu = stat.partition("\n")[0].split()
    counts = parse_sizes(vmstat)
    if len(cpu) < 6 or cpu[0] != "cpu" or "pgpgin" not in counts:
        return None
    # Time of guests is in that of users already.
    ticks = [int(word) for word in cpu[1:9]]
    idle = ticks[3] + ticks[4]
    return Counted(
        sum(ticks) - idle,
        sum(ticks),
        counts.get("pswpin", 0) + counts.get("pswpout", 0),
        counts["pgpgin"] + counts["pgpgout"],
    )


def parse_sizes(text: str) -> Mapping[str, int]:
    """Return the numbers of lines like ``MemFree:  123 kB`` and ``pgpgin 123``."""
    rows = [line.replace(":", " ").split() for line in text.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def parse_logins(content: bytes) -> list[Login]:
    """Return who is logged in, by the content of the file of logins."""
    whole = len(content) // _UTMP.size * _UTMP.size
    found = []
    for row in _UTMP.iter_unpack(content[:whole]):
        kind, _, line, _, user = row[:5]
        if kind == _USER_PROCESS:
            found.append(Login(_text(user), _text(line)))
    return found


def _text(content: bytes) -> str:
    return content.partition(b"\0")[0].decode("utf-8", "replace")
