"""Job groups in whole worlds: users delete them, and none that is in use."""

from rough_worlds import complaint

from xce.control import groups
from xce.sim.world import World


class GroupWorld(World):
    """A world whose users make groups without jobs, and delete them."""

    @staticmethod
    def _draws_groups(seed):
        return True


def test_groups_are_deleted_in_worlds_that_are_in_order():
    worlds = [GroupWorld(seed) for seed in (4, 11)]
    for world in worlds:
        world.live()
    assert sum(world.content().count(b"groups-deleted") for world in worlds) > 2


def test_a_group_that_is_deleted_with_jobs_in_it_is_found(monkeypatch):
    monkeypatch.setattr(groups, "named_groups", lambda _: {})
    error, _ = complaint(GroupWorld, (5, 6))
    assert "is deleted, and job" in str(error)
