"""An administrator who takes a backup, goes back to it later, and sets in order what that left.

What was acknowledged behind the backup is forgiven; what was before, or comes after, is not.
"""

from random import Random
from typing import Final

from xce.model.command import KillJobs, RequeueJobs, ResumeJobs, Selection, StopJobs
from xce.model.host_record import JournalRestored
from xce.model.ids import SECOND_US
from xce.sim.client import Client
from xce.sim.loop import Doom
from xce.sim.parts import Parts

_DOOMED: Final = 0.4
"""So often the first reign ends at one of the first places at which it can."""
_MEDDLING: Final = 0.4
"""So often a user does something to all his jobs behind the backup."""
_ADOPTED: Final = 0.5
"""So often what hosts run and the journal does not know is taken up again, not ended."""
_LOOK_US: Final = SECOND_US


class Restoration:
    """One backup, and what becomes of it.

    Args:
        world: Where it is.
        dice: What decides about all of it.
    """

    def __init__(self, world: Parts, dice: Random) -> None:
        self._world = world
        self._dice = dice
        self._copied = world.disk.copy()
        self._mark = world.truth.mark()
        self._entries = list(world.entries)
        if self._entries:
            world.restorations += 1
            span_us = dice.choice((300_000, 2_000_000, 5_000_000))
            world.loop.after(span_us, self._stop)
            for client in world.clients:
                if dice.random() < _MEDDLING:
                    world.loop.after(dice.randrange(span_us), self._meddle, client)

    def _meddle(self, client: Client) -> None:
        """Let a user do something to all his jobs that the backup does not know."""
        kind = self._dice.choice((StopJobs, StopJobs, ResumeJobs, RequeueJobs, KillJobs))
        client.control(kind, Selection(all=True, user=client.owner.user))

    def _stop(self) -> None:
        """Let nothing lead any more."""
        world = self._world
        if world.is_shut or self._count_restores() != world.generation:
            # Another one came first: this backup is never used.
            world.restorations -= 1
            return
        world.is_shut = True
        if world.leader is not None:
            world.leader.kill()
            world.leader = None
        down_us = self._dice.choice((50_000, 500_000, 3_000_000))
        if world.planner is not None:
            if self._dice.random() < 0.5:
                world.planner.kill()
                world.planner = None
                world.loop.after(down_us, world.start_planner)
            else:
                world.planner.hang_up()
        # On this machine nothing is under way any more when nothing runs there.
        for client in (*world.clients, world.admin, world.keeper):
            client.hang_up()
        world.loop.after(down_us, self._restore)

    def _count_restores(self) -> int:
        """Return how often the journal had been restored when the backup was taken."""
        records = (record for entry in self._entries for record in entry.records)
        return sum(isinstance(record, JournalRestored) and bool(record.hosts) for record in records)

    def _restore(self) -> None:
        """Let the journal be what the backup says, and begin a reign on it."""
        world = self._world
        world.disk.restore(self._copied)
        world.go_back(self._mark, self._entries)
        world.truth.check_recovery(world.disk)
        world.is_shut = False
        world.generation += 1
        world.start_leader()
        if world.leader is not None and self._dice.random() < _DOOMED:
            world.leader.doom = Doom("", self._dice.choice((1, 2, 3, 4, 6, 9, 15)))
        faults = world.faults
        if faults.revocations or faults.expiries or faults.enrolments:
            # Which keys are trusted is as it was then, too.
            for ground in world.grounds:
                world.renew_key(ground.name)
        world.restorations -= 1
        world.loop.after(self._dice.randrange(2 * _LOOK_US), self._look)

    def _look(self) -> None:
        """Rid hosts of what the journal does not know, or let it run to its end."""
        world = self._world
        if world.is_shut or world.is_calm:
            return
        table = world.truth.state.hosts
        strange = tuple(table.names[number] for number in table.strange)
        if strange and self._dice.random() < _ADOPTED:
            world.admin.adopt_strangers(strange)
        elif self._dice.random() < 0.7:
            rid_hosts(world)
        world.loop.after(self._dice.randrange(2 * _LOOK_US), self._look)


def rid_hosts(world: Parts) -> None:
    """Have ended what hosts run that the journal does not know; open those that are rid of it."""
    table = world.truth.state.hosts
    strange = [table.names[number] for number in table.strange]
    if strange:
        world.admin.end_strangers(tuple(strange))
    closed = [
        name
        for number, name in enumerate(table.names)
        if not (table.is_open[number] or number in table.strange or number in table.stale)
    ]
    if closed:
        world.admin.open_hosts(tuple(closed))
