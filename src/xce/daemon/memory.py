"""How much memory a controller may use before it takes no new jobs.

What was accepted must go on: a process that the kernel ends for want of memory helps nobody. The
scheduler, an apiserver and a snapshot that is being made need about as much as the controller.
"""

import logging
import os
from pathlib import Path
from typing import Final

from xce.control.desk import Desk

SHARE: Final = 5
"""Without a configured limit: one part of so many of what there is."""
RECOVERED_PERCENT: Final = 95
"""New jobs are taken again below so much of the limit."""
_MIB: Final = 1024 * 1024
_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def used_mib() -> int:
    """Return what this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // _MIB


def present_mib() -> int:
    """Return what the machine has, or the control group where that is less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MIB
    for path in _LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            found = min(found, int(text) // _MIB)
    return found


class MemoryGuard:
    """Tells a desk when there is no room for new jobs.

    Args:
        desk: What takes them.
        log: Where things are told.
    """

    def __init__(self, desk: Desk, log: logging.Logger) -> None:
        self._desk = desk
        self._log = log
        self._present_mib = present_mib()

    def look(self, limit_mib: int, now_mib: int) -> None:
        """Compare what is used with what may be.

        Args:
            limit_mib: As configured; 0: a part of what there is.
            now_mib: What this process has in memory.
        """
        limit_mib = limit_mib or self._present_mib // SHARE
        is_full = bool(self._desk.overload)
        if not is_full and now_mib >= limit_mib:
            self._desk.overload = (
                f"the controller has {now_mib} MiB in memory and takes no new jobs from "
                f"{limit_mib} MiB on (controller_memory)"
            )
            self._log.error("memory-full", extra={"mib": now_mib, "limit_mib": limit_mib})
        elif is_full and now_mib * 100 < limit_mib * RECOVERED_PERCENT:
            self._desk.overload = ""
            self._log.info("memory-recovered", extra={"mib": now_mib, "limit_mib": limit_mib})
