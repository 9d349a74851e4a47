"""An alarm by the clock that goes on while the machine sleeps."""

import os
import select
import time

from xce.worker.shepherd.boot_clock import BootAlarm, boot_us


def rings(alarm: BootAlarm, within_ms: int) -> bool:
    return bool(select.select([alarm.fd], [], [], within_ms / 1000)[0])


def test_the_clock_is_that_of_the_kernel() -> None:
    before_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    assert before_us <= boot_us() <= before_us + 5_000_000


def test_an_alarm_rings_when_it_is_due_until_it_is_taken_and_may_be_set_again() -> None:
    alarm = BootAlarm()
    try:
        assert alarm.fd >= 0
        assert not rings(alarm, 0)
        alarm.set(boot_us() + 20_000)
        assert rings(alarm, 5_000)
        alarm.take()
        assert not rings(alarm, 50)
        alarm.set(1)
        assert rings(alarm, 5_000), "what has passed is due at once"
        alarm.set(boot_us() + 3_600_000_000)
        assert not rings(alarm, 50)
        alarm.set(0)
        assert not rings(alarm, 0)
    finally:
        os.close(alarm.fd)
