"""Daemons that nobody waits for leave the processors to those that somebody waits for."""

import contextlib
import os
from pathlib import Path
from typing import Final

AUTOGROUP: Final = Path("/proc/self/autogroup")


def give_way(nice: int, autogroup: Path = AUTOGROUP) -> None:
    """Lower the priority of this process by ``nice``, against the other daemons too.

    Where the kernel groups processes by session (``sched_autogroup_enabled``), a nice value counts
    within one session only, and each daemon leads its own: the group of the session has a nice
    value beside it (sched(7)). A process that leads none shares its group with one that may not be
    slowed down, and leaves it as it is.
    """
    value = os.nice(nice)
    if os.getsid(0) == os.getpid():
        # There is no such file where the kernel does not group.
        with contextlib.suppress(OSError):
            autogroup.write_text(str(value), encoding="ascii")
