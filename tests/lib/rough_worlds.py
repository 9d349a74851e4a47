"""Worlds in which much of one kind goes wrong, and what they complain of."""

import msgspec

from xce.journal.interface import JournalOrderError
from xce.model.errors import IllegalTransitionError
from xce.sim.faults import Faults
from xce.sim.untrue import UntrueError
from xce.sim.world import StuckError, World

SEEDS = range(60)
FOUND = (UntrueError, StuckError, IllegalTransitionError, JournalOrderError, AssertionError)


def complaint(world_class, seeds=SEEDS):
    """Return the first complaint, and after how many seeds it came."""
    for count, seed in enumerate(seeds, 1):
        try:
            world_class(seed).live()
        except FOUND as error:
            return error, count
    return None, len(seeds)


class RoughWorld(World):
    """Hosts that fail to start jobs, and connections that break before the answer."""

    def __init__(self, seed):
        faults = Faults(
            until_us=20_000_000, break_permille=40, cuts=10, bad_starts_permille=700,
            worker_crashes=3, delay_us_max=50_000,
        )  # fmt: skip
        super().__init__(seed, faults)


class LonelyWorld(World):
    """Hosts that are out of reach for longer than their grace while their jobs run on."""

    def __init__(self, seed):
        faults = Faults(
            until_us=25_000_000, cutoffs=6, outages=1, controller_crashes=1, clock_jumps=1,
            declarations=3, slow_permille=100, delay_us_max=50_000,
        )  # fmt: skip
        super().__init__(seed, faults)

    def _draw_config(self):
        config = super()._draw_config()
        # Small ones, so that parallel jobs need several.
        hosts = tuple(msgspec.structs.replace(host, slots=2) for host in config.hosts)
        grace = {"host_grace_us": 4_000_000, "self_fence": self.seed % 2 == 0}
        return msgspec.structs.replace(config, hosts=hosts, **grace)


class FencedWorld(World):
    """The same, with jobs that are frozen and killed in time, and workers that come and go."""

    def __init__(self, seed):
        faults = Faults(
            until_us=25_000_000, cutoffs=10, worker_crashes=12, one_ways=4, clock_jumps=1,
            declarations=1, delay_us_max=50_000,
        )  # fmt: skip
        super().__init__(seed, faults)

    def _draw_config(self):
        config = super()._draw_config()
        grace = {"host_grace_us": 10_000_000, "self_fence": True, "fence_after_us": 2_000_000}
        return msgspec.structs.replace(config, **grace)


class DoubtfulWorld(World):
    """Commits that are said to have failed, crashes at seams, and leaders that are deposed."""

    def __init__(self, seed):
        faults = Faults(
            until_us=15_000_000, late_permille=300, seam_crashes=8, controller_crashes=3,
            promotions=2, snapshots=2, commit_us_max=100_000, delay_us_max=50_000, cuts=4,
            linger_permille=500,
        )  # fmt: skip
        super().__init__(seed, faults)


class DistrustfulWorld(World):
    """Much trouble with trust, and some of the other kinds."""

    def __init__(self, seed):
        faults = Faults(
            until_us=15_000_000, break_permille=5, controller_crashes=3, worker_crashes=2, cuts=3,
            partitions=1, snapshots=2, revocations=5, expiries=4, repeats=40,
            enrolments=5,
        )  # fmt: skip
        super().__init__(seed, faults)


class RestoredWorld(World):
    """Journals that are restored from a backup, and hosts that come and go meanwhile."""

    def __init__(self, seed):
        faults = Faults(
            until_us=20_000_000, restores=2, controller_crashes=1, worker_crashes=2, cuts=2,
            cutoffs=2, closures=1, snapshots=2, seam_crashes=2, slow_permille=50,
        )  # fmt: skip
        super().__init__(seed, faults)
