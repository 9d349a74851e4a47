"""Keys that are revoked and expire, frames that come again, leaders that are gone: in worlds."""

import pytest
from rough_worlds import DistrustfulWorld

from xce.net.allowlist import Gate
from xce.sim.leader import Leader
from xce.sim.oracles import UntrueError
from xce.sim.world import StuckError
from xce.worker.core import HostState

SEEDS = range(15)


def complaint(world_class):
    for seed in SEEDS:
        try:
            world_class(seed).live()
        except (UntrueError, StuckError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"
    return ""


def test_worlds_with_much_distrust_are_in_order():
    revoked = expired = repeated = refused = 0
    for seed in SEEDS:
        world = DistrustfulWorld(seed)
        world.live()
        trust = world.truth.state.trust
        revoked += len(trust.revoked)
        expired += sum(item.expires_at_us > 0 for item in trust.keys.values())
        repeated += world.eavesdropper.repeated
        refused += world.leader.refused
    assert revoked > 3 * len(SEEDS)
    assert expired > len(SEEDS)
    assert repeated > 10 * len(SEEDS)
    assert refused > 0


class CarelessLeader(Leader):
    """A controller that takes everybody."""

    def refuse_key(self, wire, role, name, now_us):
        return ""


class LazyLeader(Leader):
    """A controller that looks at keys only when somebody comes."""

    def look_at_keys(self):
        pass


@pytest.mark.parametrize("leader", [CarelessLeader, LazyLeader])
def test_a_controller_that_keeps_whom_it_must_not_is_found(leader):
    world = type("Careless", (DistrustfulWorld,), {"leader_class": leader})
    assert "is heard with" in complaint(world)


def test_a_gate_that_lets_what_comes_again_through_is_found(monkeypatch):
    monkeypatch.setattr(Gate, "refuse", lambda self, message: "")
    assert complaint(DistrustfulWorld)


class GullibleHost(HostState):
    """A worker that does what any controller says, however old."""

    def take_effects(self, epoch, effects, now_us):
        return super().take_effects(max(epoch, self._epoch), effects, now_us)


def test_a_worker_that_obeys_old_controllers_is_found():
    world = type("Gullible", (DistrustfulWorld,), {"machine_class": GullibleHost})
    assert "was started twice" in complaint(world)


def test_effects_of_an_older_epoch_are_refused():
    host = HostState()
    assert host.meet(3)
    assert not host.meet(2)
    assert host.take_effects(2, [object()], 0) == []
