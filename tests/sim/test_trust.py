"""Keys that are revoked, expire and are forgotten, tokens, frames that come again, leaders that are
gone: in worlds.
"""

import msgspec
import pytest
from rough_worlds import DistrustfulWorld

from xce.control import trust
from xce.net.allowlist import Gate
from xce.sim.leader import Leader
from xce.sim.untrue import UntrueError
from xce.sim.world import StuckError
from xce.state import cluster
from xce.state.trust import TrustTable
from xce.worker.core import HostState

SEEDS = range(16)


def complaint(world_class):
    for seed in SEEDS:
        try:
            world_class(seed).live()
        except (UntrueError, StuckError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"
    return ""


def test_worlds_with_much_distrust_are_in_order():
    revoked = expired = repeated = refused = enrolled = tokens = 0
    for seed in SEEDS:
        world = DistrustfulWorld(seed)
        world.live()
        trust = world.truth.state.trust
        revoked += len(trust.revoked)
        expired += sum(item.expires_at_us > 0 for item in trust.keys.values())
        repeated += world.eavesdropper.repeated
        refused += world.leader.refused
        enrolled += world.trust_oracle.enrolled
        tokens += world.tokens_made
    assert revoked > 3 * len(SEEDS)
    assert expired > len(SEEDS)
    assert repeated > 10 * len(SEEDS)
    assert refused > 0
    assert tokens > enrolled > 2 * len(SEEDS)


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
    assert host.meet(3, 10)
    assert not host.meet(2, 10)
    assert host.take_effects(2, [object()], 0) == []


def gullible(**change):
    """Return a decision about enrolments that takes something for what it must not be."""
    decide = trust.decide_enrol

    def decided(state, command, now_us):
        found = state.trust.tokens.get(command.token)
        if found is None:
            return decide(state, command, now_us)
        believed = {name: take(found, command, now_us) for name, take in change.items()}
        tokens = {**state.trust.tokens, found.token: msgspec.structs.replace(found, **believed)}
        kept, state.trust.tokens = state.trust.tokens, tokens
        try:
            return decide(state, command, now_us)
        finally:
            state.trust.tokens = kept

    return decided


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"used_by": lambda *_: ""}, "enrolled two keys"),
        ({"expires_at_us": lambda _found, _command, now_us: now_us + 1}, "when it has expired"),
        ({"digest": lambda _found, command, _now_us: command.digest}, "or a guess"),
        ({"host": lambda _found, command, _now_us: command.host}, "token of"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tokens_that_are_good_for_too_much_are_found(monkeypatch, change, said):
    monkeypatch.setattr(trust, "decide_enrol", gullible(**change))
    assert said in complaint(DistrustfulWorld)


class ForgetfulTable(TrustTable):
    """Knows no more which keys were revoked."""

    def apply_revoked(self, record):
        super().apply_revoked(record)
        del self.revoked[record.revoked.key]


def test_a_revoked_key_that_is_trusted_again_is_found(monkeypatch):
    monkeypatch.setattr(cluster, "TrustTable", ForgetfulTable)
    assert "after it was revoked" in complaint(DistrustfulWorld)
