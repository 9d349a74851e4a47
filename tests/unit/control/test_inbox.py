import pytest

from xce.control import inbox
from xce.control.controller import Input
from xce.control.inbox import Inbox, weigh
from xce.model.command import (
    KillJobs,
    Modification,
    ModifyJobs,
    PostMessage,
    ProposePlan,
    Selection,
    SetGroup,
    SubmitJobs,
    Tick,
)
from xce.model.job import Owner
from xce.model.observation import Reported
from xce.model.plan import Plan
from xce.testing.builders import submission

JOB = submission()


def submit(user, count=1, content=b""):
    blobs = (("a" * 32, content),) if content else ()
    return Input(SubmitJobs(Owner(user, 1, 1), (JOB,) * count, blobs), by=user)


def takes(box):
    return [(given.by, len(given.body.jobs)) for given in box.take() if given.by]


@pytest.fixture
def box():
    return Inbox()


def test_a_command_weighs_its_jobs_and_what_it_carries_and_components_weigh_nothing():
    assert weigh(submit("a", 7)) == 7
    assert weigh(submit("a", 1, b"x" * 40_960)) == 11
    assert weigh(Input(KillJobs("a", False, Selection(all=True)), by="a")) == 1
    blobs = (("a" * 32, b"x" * 40_960),)
    assert weigh(Input(PostMessage("a", False, 1, 0, "text", blobs=blobs), by="a")) == 11
    change = Modification(1, 1, 1, JOB)
    assert weigh(Input(ModifyJobs("a", False, (change,) * 3, ("priority",)), by="a")) == 3
    assert weigh(Input(SetGroup("a", False, "/g"), by="a")) == 1
    for body in (Tick(), Reported("h1", 1), ProposePlan(Plan(1, 1, 1))):
        assert weigh(Input(body)) == 0


def test_while_there_is_little_everything_is_taken_in_its_order(box):
    inputs = [submit("a"), Input(Tick()), submit("b"), submit("a")]
    for given in inputs:
        box.add(given)
    assert box.take() == inputs
    assert not box
    assert box.take() == []


def test_what_is_put_first_is_taken_first(box):
    box.add(submit("a"))
    box.add_first(Input(Tick()))
    assert isinstance(box.take()[0].body, Tick)


def test_while_there_is_much_each_user_gets_his_turn_and_components_wait_for_nobody(box):
    for count in range(2_001, 2_010):
        box.add(submit("a", count))
    box.add(submit("b", 1))
    box.add(submit("c", 2))
    box.add(submit("b", 3))
    box.add(Input(Reported("h1", 1)))
    taken = box.take()
    assert isinstance(taken[0].body, Reported)
    assert [(given.by, len(given.body.jobs)) for given in taken[1:]] == [
        ("a", 2_001), ("b", 1), ("c", 2), ("a", 2_002), ("b", 3), ("a", 2_003), ("a", 2_004),
        ("a", 2_005),
    ]  # fmt: skip
    assert takes(box) == [("a", count) for count in range(2_006, 2_010)]
    assert not box


def test_whoever_comes_behind_the_last_one_is_first_next_time(box):
    for _ in range(3):
        for user in "abc":
            box.add(submit(user, 6_000))
    assert [takes(box) for _ in range(4)] == [
        [("a", 6_000), ("b", 6_000)],
        [("c", 6_000), ("a", 6_000)],
        [("b", 6_000), ("c", 6_000)],
        [("a", 6_000), ("b", 6_000)],
    ]
    assert takes(box) == [("c", 6_000)]


def test_one_who_has_his_share_waiting_is_refused_and_others_are_not(box):
    while not box.refuse(submit("a")):
        box.add(submit("a", 2_000))
    assert "jobs in commands of a wait" in box.refuse(submit("a"))
    assert box.refuse(submit("b")) == ""
    assert box.refuse(Input(Reported("h1", 1), by="a")) == ""
    box.take()
    assert box.refuse(submit("a")) == ""


def test_nobody_is_taken_when_all_together_are_too_many(box):
    for user in "abcd":
        while not box.refuse(submit(user)):
            box.add(submit(user, 2_000))
    assert "jobs in commands wait to be decided" in box.refuse(submit("z"))
    assert box.refuse(Input(Tick())) == ""
    while box:
        box.take()
    assert box.refuse(submit("z")) == ""


def test_the_bounds_leave_room_for_several_users():
    assert inbox.TURN_MAX < inbox.SHARE_MAX < inbox.WAITING_MAX
