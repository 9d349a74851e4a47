"""The clock that goes on while the machine sleeps, and an alarm by it."""

import ctypes
import os
import struct
import time
from typing import Final

_TIMER: Final = struct.Struct("=4q")
"""Interval and instant, each in seconds and nanoseconds."""
_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC
_ABSOLUTE: Final = 1


def boot_us() -> int:
    """Return the clock that goes on while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class BootAlarm:
    """A descriptor that is readable from an instant of that clock on.

    Waiting for a span would not do: what waits when the machine falls asleep waits for the rest of
    it after it woke up.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.timerfd_create(time.CLOCK_BOOTTIME, _FLAGS)
        """Negative: the kernel has no such thing."""
        self._at_us = 0

    def set(self, at_us: int) -> None:
        """Wait for an instant from now on; 0: for nothing."""
        if at_us == self._at_us or self.fd < 0:
            return
        self._at_us = at_us
        # All zeros would be no alarm, and what has passed is due at once.
        seconds, micros = divmod(max(at_us, 1), 1_000_000) if at_us else (0, 0)
        setting = ctypes.create_string_buffer(_TIMER.pack(0, 0, seconds, micros * 1000))
        self._libc.timerfd_settime(self.fd, _ABSOLUTE, setting, None)

    def take(self) -> None:
        """Note that it rang."""
        self.set(0)
