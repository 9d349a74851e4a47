"""What goes wrong in a world, drawn from its seed."""

from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec

from xce.model.ids import SECOND_US, Micros


class Faults(msgspec.Struct):
    """How much goes wrong. All rates are per thousand; counts are over the whole life."""

    until_us: Micros = 30 * SECOND_US
    """When faults stop."""
    break_permille: int = 0
    """Of messages: the connection breaks, and the message with it."""
    slow_permille: int = 0
    slow_us_max: Micros = 2 * SECOND_US
    delay_us_max: Micros = 2_000
    commit_us_max: Micros = 3_000
    controller_crashes: int = 0
    scheduler_crashes: int = 0
    worker_crashes: int = 0
    shepherd_crashes: int = 0
    reboots: int = 0
    cuts: int = 0
    partitions: int = 0
    disk_troubles: int = 0
    clock_jumps: int = 0
    bad_starts_permille: int = 0
    """Of starts on the one bad host: they fail through the host's fault."""
    lost_status_permille: int = 0
    """Of ends while no shepherd lives: the exit status is gone."""
    snapshots: int = 0
    closures: int = 0
    """Hosts that an administrator closes."""
    growths: int = 0
    """Configurations with more of something."""
    cutoffs: int = 0
    """Hosts that cannot be reached for long while their jobs run on."""
    outages: int = 0
    """Hosts that lose power and stay off for long."""
    declarations: int = 0
    """Hosts that an administrator declares lost, should they be away."""
    promotions: int = 0
    """Standbys that take over while the leader before lives on."""
    revocations: int = 0
    """Keys of hosts that are revoked; the host gets another a while later."""
    expiries: int = 0
    """Keys of hosts that expire; the host gets another a while later."""
    repeats: int = 0
    """Frames that are played again."""
    enrolments: int = 0
    """Hosts that forget their key and enrol another with a token, which somebody has stolen."""
    seam_crashes: int = 0
    """Processes that are killed between two acts of their shell, see `xce.sim.loop`."""
    one_ways: int = 0
    """Connections on which only one side still hears the other."""
    slow_spells: int = 0
    """Times in which the disk takes very long."""
    late_permille: int = 0
    """Of commits: they are said to have failed, and are stored all the same, now or later."""
    races: int = 0
    """Commands about a job that come when something of it is placed, starts or ends."""
    linger_permille: int = 0
    """Of connections that break: what is under way still arrives, beside what is said on the next
    connection."""
    restores: int = 0
    """Backups that are taken, and restored when the cluster has gone on for a while."""

    def stop(self) -> None:
        """Let nothing go wrong any more."""
        self.break_permille = self.slow_permille = self.late_permille = 0
        self.bad_starts_permille = self.lost_status_permille = self.linger_permille = 0

    def leave_out(self, dials: Iterable[str]) -> None:
        """Set dials (see `DIALS`) to where they do least."""
        for name in dials:
            setattr(self, name, DIALS[name])


NONE: Final = Faults()
DIALS: Final = {
    "break_permille": 0,
    "slow_permille": 0,
    "delay_us_max": 500,
    "commit_us_max": 300,
    "bad_starts_permille": 0,
    "lost_status_permille": 0,
    "late_permille": 0,
    "linger_permille": 0,
    "races": 0,
}
"""What is no count, and where it does least."""
COUNTED: Final = (
    "controller_crashes",
    "scheduler_crashes",
    "worker_crashes",
    "shepherd_crashes",
    "reboots",
    "cuts",
    "partitions",
    "disk_troubles",
    "clock_jumps",
    "snapshots",
    "closures",
    "growths",
    "cutoffs",
    "outages",
    "declarations",
    "promotions",
    "seam_crashes",
    "one_ways",
    "slow_spells",
)
"""What happens so many times in a life."""
COUNTED_OF_TRUST: Final = ("revocations", "expiries", "repeats", "enrolments")
COUNTED_OF_RESTORE: Final = ("restores",)
RESTORE_SHARE: Final = 0.04
"""In so many lives the journal is restored."""


def add_trust_faults(faults: Faults, rng: Random) -> None:
    """Let some of the lives have trouble with trust too."""
    for name, most in (("revocations", 4), ("expiries", 3), ("repeats", 25), ("enrolments", 4)):
        if rng.random() < 0.35:
            setattr(faults, name, rng.randint(1, most))


def add_races(faults: Faults, rng: Random) -> None:
    """Let users of most lives be at it when something happens to their jobs."""
    faults.races = rng.choice((0, 3, 6, 12))


def add_restores(faults: Faults, rng: Random) -> None:
    """Let the journal of a few lives be restored from a backup, now and then twice."""
    if rng.random() < RESTORE_SHARE:
        faults.restores = rng.choice((1, 1, 1, 2))


def draw_faults(rng: Random) -> Faults:
    """Return a mix of faults: some lives are calm, some have one kind of trouble, some all."""
    mix = rng.random()
    if mix < 0.08:
        return Faults(snapshots=rng.randrange(2))
    share = 0.35 if mix < 0.6 else 0.8

    def some(most: int) -> int:
        return rng.randint(1, most) if rng.random() < share else 0

    return Faults(
        until_us=rng.randint(6, 25) * SECOND_US,
        break_permille=some(20),
        slow_permille=some(60),
        delay_us_max=rng.choice((500, 2_000, 50_000)),
        commit_us_max=rng.choice((300, 3_000, 100_000)),
        controller_crashes=some(4),
        scheduler_crashes=some(3),
        worker_crashes=some(5),
        shepherd_crashes=some(6),
        reboots=some(2),
        cuts=some(8),
        partitions=some(3),
        disk_troubles=some(3),
        clock_jumps=some(2),
        bad_starts_permille=some(400),
        lost_status_permille=some(900),
        snapshots=some(3),
        closures=some(2),
        growths=some(2),
        cutoffs=some(3),
        outages=some(2),
        declarations=some(3),
        promotions=some(2),
        seam_crashes=some(6),
        one_ways=some(3),
        slow_spells=some(2),
        late_permille=some(100),
        linger_permille=some(900),
    )
