"""Load indices: what a worker measures of its host, beside what is given out there.

They are measured at the beats of a worker, and what has changed is recorded at a bounded rate
(see `xce.control.load`); what a session reads of them is in the journal like all else.
"""

from typing import Final, TypeAlias

INDICES: Final = ("r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem")
"""In the order of LSF. All are held in thousandths: of processes, of the whole (``ut``), of pages
and KiB a second, of logins, of minutes, of MiB."""
RISING: Final = ("r15s", "r1m", "r15m", "ut", "pg", "io", "ls")
"""Of these, those that rise with the load."""
SIZES: Final = ("tmp", "swp", "mem")
"""Of these, sizes in MiB."""
UNKNOWN: Final = -1
"""Stands for a value that was not measured."""
MILLI_MAX: Final = 10**15
"""No value is above it."""

Sample: TypeAlias = tuple[int, ...]
"""A value for each of `INDICES`; empty: nothing was measured."""


def is_sample(values: Sample) -> bool:
    """Return whether ``values`` can be what a host measured."""
    return len(values) == len(INDICES) and min(values) >= UNKNOWN and max(values) <= MILLI_MAX
