"""Jobs that are frozen and killed by a real shepherd, with nobody there to tell it so."""

import signal
import time
from collections.abc import Iterator

import pytest
from worker_rig import MODES, Shepherd, alive, open_shepherd, wait_until

FAR_US = 3_600_000_000
BEATS = "trap '' INT TERM; touch ready.$I; while :; do echo x >> beat.$I; sleep 0.02; done"


@pytest.fixture(params=MODES)
def shepherd(request: pytest.FixtureRequest) -> Iterator[Shepherd]:
    with open_shepherd(request.param) as one:
        yield one


def boot_us() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def lease(shepherd: Shepherd, *jobs: int, frozen_us: int = FAR_US, killed_us: int = FAR_US) -> None:
    now_us = boot_us()
    rows = [[job, job, 1, now_us + frozen_us, now_us + killed_us] for job in jobs]
    shepherd.order(["lease", rows])


def begin(shepherd: Shepherd, *jobs: int) -> None:
    for job in jobs:
        shepherd.spawn(BEATS, job=job, index=job)
        wait_until((shepherd.root / f"ready.{job}").exists, "the job to begin")


def stands_still(shepherd: Shepherd, job: int) -> bool:
    time.sleep(0.05)
    size = len(shepherd.text(f"beat.{job}"))
    time.sleep(0.3)
    return len(shepherd.text(f"beat.{job}")) == size


def goes_on(shepherd: Shepherd, job: int) -> None:
    wait_until(lambda: not stands_still(shepherd, job), "it to go on")


def test_what_stands_still_without_a_worker_goes_on_but_for_what_was_stopped(
    shepherd: Shepherd,
) -> None:
    assert shepherd.greeting[5] is True
    begin(shepherd, 1, 2)
    shepherd.order(["suspend", 2, 2, 1, True])
    shepherd.expect("suspended", 2, 2, 1)
    lease(shepherd, 1, 2, frozen_us=200_000)
    shepherd.disconnect()
    wait_until(lambda: stands_still(shepherd, 1), "it to be frozen")
    shepherd.restart()
    assert shepherd.expect("present", 1, 1, 1)[-1] > 0
    assert stands_still(shepherd, 1), "also for a shepherd that has just come"
    shepherd.order(["signal", 1, 1, 1, signal.SIGCONT, 0, 0, 1], ["suspend", 1, 1, 1, False])
    shepherd.order(["lease", [[1, 1, 1, -1, -1], [2, 2, 1, -1, -1]]])
    assert stands_still(shepherd, 1), "nobody has heard the controller"
    lease(shepherd, 1, 2)
    assert shepherd.expect("frozen", 1, 1, 1)[4] is False
    goes_on(shepherd, 1)
    assert stands_still(shepherd, 2)
    shepherd.order(["suspend", 2, 2, 1, False])
    shepherd.expect("suspended", 2, 2, 1)
    goes_on(shepherd, 2)
    for job in (1, 2):
        shepherd.order(["signal", job, job, 1, signal.SIGKILL, 8, 4, 0])
        shepherd.ended(job, job)


def test_what_is_frozen_is_killed_in_time_also_by_the_next_shepherd(shepherd: Shepherd) -> None:
    begin(shepherd, 1, 2)
    pid = shepherd.expect("started", 1, 1, 1)[4]
    now_us = boot_us()
    rows = [[1, 1, 1, now_us, now_us + 900_000], [2, 2, 1, now_us, now_us + FAR_US]]
    shepherd.order(["lease", rows])
    assert shepherd.expect("frozen", 1, 1, 1)[4] is True
    shepherd.restart()
    shepherd.disconnect()
    wait_until(lambda: not alive(pid), "its end")
    assert boot_us() >= now_us + 900_000
    shepherd.connect()
    end = shepherd.ended(1, 1)
    assert end["cause"] == 102
    shepherd.order(["signal", 2, 2, 1, signal.SIGTERM, 8, 3, 0])
    assert stands_still(shepherd, 2), "a signal lets nothing run that may run elsewhere"
    shepherd.order(["signal", 2, 2, 1, signal.SIGKILL, 8, 4, 0])
    shepherd.ended(2, 2)


def test_a_shepherd_does_not_stand_still_with_a_part_in_which_it_starts_a_task(
    shepherd: Shepherd,
) -> None:
    shepherd.open_part()
    shepherd.start_task(1, "a", ["/bin/sleep", "600"])
    shepherd.expect("task", 1)
    shepherd.order(["suspend", 1, 0, 1, True])
    shepherd.start_task(2, "b", ["/bin/sleep", "600"])
    shepherd.order(["suspend", 1, 0, 1, False])
    assert shepherd.expect("task", 2)[2:4] == [0, ""]
    shepherd.order(["signal", 1, 0, 1, signal.SIGKILL, 8, 4, 0])
    shepherd.ended()
