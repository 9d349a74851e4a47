import os
import random
import time
from collections import Counter

import pytest
from worker_controller import Host, open_host

OPTIONS = ((), ("--no-cgroups",)) if os.geteuid() == 0 else ((),)
SLOTS = 16


def run_jobs_through_crashes(host: Host, *, jobs: int, seed: int) -> None:
    """Run short jobs while worker, shepherd and connection are killed; each must run once."""
    dice = random.Random(seed)
    script = "echo $LSB_JOBINDEX >> ran; sleep 0.0$((LSB_JOBINDEX % 7)); exit $((LSB_JOBINDEX % 5))"
    launched = 0
    next_crash = time.monotonic() + 0.3
    until = time.monotonic() + 120
    while len(ends(host)) < jobs:
        assert time.monotonic() < until, f"{len(ends(host))} of {jobs}; {host.logs()[-3000:]}"
        free = SLOTS - (launched - len(ends(host)))
        if free > 0 and launched < jobs:
            indices = tuple(range(launched + 1, min(jobs, launched + free) + 1))
            launched = indices[-1]
            host.launch(script, indices=indices, array_end=jobs)
        if time.monotonic() > next_crash:
            crash(host, dice)
            # As a controller does for hosts that come back: what is owed is told again.
            known = ends(host)
            owed = tuple(i for i in range(max(1, launched - 200), launched + 1) if i not in known)
            if owed:
                host.launch(script, indices=owed, array_end=jobs)
            next_crash = time.monotonic() + dice.uniform(0.05, 0.6)
        time.sleep(0.002)
    codes = {(one.index, one.exit_code, int(one.cause)) for one in host.controller.ended}
    assert codes == {(index, index % 5, 0) for index in range(1, jobs + 1)}
    assert Counter(map(int, host.text("ran").split())) == dict.fromkeys(range(1, jobs + 1), 1)


def ends(host: Host) -> set[int]:
    return {one.index for one in list(host.controller.ended)}


def crash(host: Host, dice: random.Random) -> None:
    what = dice.choice(("shepherd", "worker", "both", "connection"))
    if what in ("shepherd", "both"):
        host.kill_shepherd()
    if what in ("worker", "both"):
        host.kill_worker()
        host.start_worker()
    if what == "connection":
        host.controller.shut()
        host.controller.open()


@pytest.mark.parametrize("options", OPTIONS, ids=lambda given: "-".join(given) or "default")
def test_jobs_run_once_through_kills_of_worker_and_shepherd(options: tuple[str, ...]) -> None:
    with open_host(*options) as host:
        run_jobs_through_crashes(host, jobs=300, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_many_jobs_run_once_through_many_kills(seed: int) -> None:
    with open_host(*OPTIONS[seed % len(OPTIONS)]) as host:
        run_jobs_through_crashes(host, jobs=3000, seed=seed)
