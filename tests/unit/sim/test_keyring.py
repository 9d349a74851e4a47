"""What the oracle of trust says of a worker that is heard with a revoked key."""

from random import Random
from typing import cast

import pytest

from xce.control.controller import Controller
from xce.control.desk import Desk
from xce.model.entry import Cause, Entry
from xce.model.ids import Micros
from xce.model.record_trust import KeyRevoked
from xce.model.trust import RevokedKey
from xce.sim.faults import Faults
from xce.sim.keyring import CUT_US, UNSURE_US, TrustOracle
from xce.sim.loop import Loop
from xce.sim.network import End, Network, Wire
from xce.sim.untrue import UntrueError
from xce.state.apply import apply
from xce.state.cluster import ClusterState

REVOKED = KeyRevoked(RevokedKey("k", "worker", "h1", 1, "root"))


class Heard:
    """A worker that goes on talking after its key was revoked in the first entry."""

    def __init__(self) -> None:
        entry = Entry(1, 1, Cause("test"), (REVOKED,))
        self.state = ClusterState()
        apply(self.state, entry)
        self.oracle = TrustOracle()
        self.oracle.note([entry])
        self.desk = Desk(Controller(ClusterState()))
        end = cast("End", None)
        network = Network(Loop(), Random(1), Faults())
        self.wire = Wire(network, end, end, role="worker", name="h1", key="k")

    def at(self, now_us: Micros) -> None:
        self.oracle.check(self.state, self.wire, now_us, self.desk)


def test_a_leader_whose_journal_does_well_cuts_a_revoked_key_at_once() -> None:
    heard = Heard()
    heard.at(0)
    heard.at(CUT_US)
    with pytest.raises(UntrueError, match="h1 is heard with a revoked key"):
        heard.at(CUT_US + 1)


def test_a_leader_that_was_told_the_commit_had_failed_has_until_its_next_tick() -> None:
    heard = Heard()
    heard.desk.set_trouble("no space left")
    heard.at(0)
    heard.at(UNSURE_US)
    with pytest.raises(UntrueError, match="revoked"):
        heard.at(UNSURE_US + 1)


def test_once_the_commit_has_come_through_nothing_more_is_heard() -> None:
    heard = Heard()
    heard.desk.set_trouble("no space left")
    heard.at(0)
    heard.desk.set_trouble("")
    with pytest.raises(UntrueError, match="revoked"):
        heard.at(CUT_US + 1)


def test_a_trouble_after_the_revocation_excuses_nothing() -> None:
    heard = Heard()
    heard.desk.durable_seq = 1
    heard.desk.set_trouble("no space left")
    heard.at(0)
    with pytest.raises(UntrueError, match="revoked"):
        heard.at(CUT_US + 1)
