"""The two clocks of a host: one stands still while the machine sleeps, one does not."""

import time

from xce.model.ids import Micros


def clock_us() -> Micros:
    """Return the clock that stands still with the machine, by which jobs have run."""
    return time.monotonic_ns() // 1000


def boot_us() -> Micros:
    """Return the clock that goes on meanwhile, by which others wait for us."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
