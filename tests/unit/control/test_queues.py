"""Queues that are opened, closed, activated and inactivated."""

import msgspec
import pytest

from xce.model.command import ApplyConfig, SetQueues
from xce.model.config import GrantConfig, QueueConfig
from xce.model.queue_record import QueuesSwitched
from xce.model.refusal import Refusal, RefusalCode
from xce.state.check import check_state
from xce.state.cluster import ClusterState
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import cluster, replayed, submission, submit, try_submit


@pytest.fixture
def controller():
    return cluster(["h1"])


def switch(controller, *names, **members):
    return controller.tell(SetQueues("root", names, is_admin=True, **members), by="root")


def test_a_closed_queue_takes_no_jobs_until_it_is_opened(controller):
    (result,) = switch(controller, "normal", is_open=False, comment="moving")
    assert (result.text, result.queue) == ("closed", "normal")
    (refusal,) = try_submit(controller, submission())
    assert isinstance(refusal, Refusal)
    assert refusal.lsf == "normal: Queue has been closed"
    assert controller.state.switches["normal"].comment == "moving"
    assert switch(controller, "normal", is_open=True)[0].text == "opened"
    assert submit(controller)


def test_what_is_so_already_leaves_no_entry(controller):
    seq = controller.state.seq
    assert switch(controller, "normal", is_active=True)[0].text == "activated"
    assert controller.state.seq == seq
    (refusal,) = switch(controller, "nope", is_open=True)
    assert refusal.code == RefusalCode.UNKNOWN_QUEUE
    assert refusal.lsf == "nope: No such queue"


def test_a_switch_survives_snapshot_and_replay(controller):
    switch(controller, "normal", is_active=False)
    assert controller.entries[-1].records == (
        QueuesSwitched(["normal"], is_open=None, is_active=False),
    )
    again = load(dump(controller.state))
    assert not again.queues["normal"].active
    assert digest(again) == digest(controller.state)
    assert digest(replayed(controller.entries)) == digest(controller.state)
    check_state(controller.state)


def test_a_configuration_that_says_something_new_wins_and_one_that_does_not_leaves_it(controller):
    switch(controller, "normal", is_open=False, is_active=False)
    config = controller.state.config
    other = msgspec.structs.replace(config, clean_period_us=7)
    controller.tell(ApplyConfig("root", other, is_admin=True), by="root")
    assert not controller.state.queues["normal"].open
    queues = tuple(msgspec.structs.replace(q, active=False) for q in config.queues)
    controller.tell(
        ApplyConfig("root", msgspec.structs.replace(other, queues=queues), is_admin=True), by="root"
    )
    assert controller.state.switches["normal"].is_active is None
    assert controller.state.switches["normal"].is_open is False
    gone = (QueueConfig(name="q2", default=True),)
    controller.tell(
        ApplyConfig("root", msgspec.structs.replace(other, queues=gone), is_admin=True), by="root"
    )
    assert controller.state.switches == {}


def test_who_may_switch_which_queue_is_decided_by_permissions():
    grants = (GrantConfig(role="operator", users=("ann",), queue="night"),)
    queues = (QueueConfig(name="normal", default=True), QueueConfig(name="night"))
    controller = cluster(["h1"], queues=queues, grants=grants)
    refusal, done = controller.tell(
        SetQueues("ann", ("normal", "night"), is_open=False), by="ann", basis="owner"
    )
    assert (refusal.code, refusal.permission) == (RefusalCode.DENIED, "queue:close")
    assert done.text == "closed"
    assert controller.state.queues["normal"].open
    assert controller.entries[-1].cause.basis == "role operator"
    (refusal,) = controller.tell(SetQueues("bob", ("night",), is_active=False), by="bob")
    assert refusal.permission == "queue:inactivate"


def test_who_may_put_a_configuration_in_effect_is_decided_by_permissions(controller):
    config = msgspec.structs.replace(controller.state.config, clean_period_us=7)
    (refusal,) = controller.tell(ApplyConfig("ann", config), by="ann")
    assert (refusal.code, refusal.permission) == (RefusalCode.DENIED, "config:apply")
    assert controller.state.config != config


def test_a_fresh_state_has_no_switches():
    assert ClusterState().switches == {}
