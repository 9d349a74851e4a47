"""A standby takes over while the leader before lives on and writes."""

import pytest

from xce.journal.interface import JournalOrderError
from xce.sim.disk import Disk
from xce.sim.faults import Faults
from xce.sim.leader import Leader
from xce.sim.world import World

FAULTS = Faults(
    until_us=8_000_000, promotions=4, delay_us_max=50_000, commit_us_max=100_000, break_permille=5
)


class Watched(Leader):
    """Counts what it was told that it could not know: that it leads no more."""

    fenced = 0

    def kill(self) -> None:
        if self.disk.epoch != self.epoch:
            Watched.fenced += 1
        super().kill()


class WatchedWorld(World):
    leader_class = Watched


def lived(seed: int) -> World:
    world = WatchedWorld(seed, FAULTS)
    world.live()
    return world


def live_all() -> None:
    for seed in range(6):
        lived(seed)


def test_nothing_of_a_deposed_leader_is_stored_and_nothing_is_lost() -> None:
    Watched.fenced = 0
    for seed in range(6):
        world = lived(seed)
        epochs = [batch.epoch for batch in (*world.disk.archive, *world.disk.batches)]
        assert epochs == sorted(epochs)
        assert world.disk.epoch == 5
    assert Watched.fenced == 24


def test_a_store_without_a_fence_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Disk._end

    def end(self: Disk, write) -> None:
        if not (write.is_over or write.is_stored):
            self.epoch, mine = write.epoch, self.epoch
            try:
                whole(self, write)
            finally:
                self.epoch = max(mine, self.epoch)
        else:
            whole(self, write)

    monkeypatch.setattr(Disk, "_end", end)
    with pytest.raises(JournalOrderError, match="does not follow entry"):
        live_all()
