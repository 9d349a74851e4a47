"""The controller's step: entries, replies, effects, in order."""

import pytest

from xce.control import kill as kill_module
from xce.control.controller import Controller, Input
from xce.model.command import KillJobs, ProposePlan, Selection, SubmitJobs, Tick
from xce.state.cluster import ClusterState
from xce.testing.builders import ALICE, bulk, cluster, place, plan, run_job, submission, submit


def test_a_later_input_sees_what_an_earlier_one_of_the_step_did():
    controller = cluster()
    inputs = [
        Input(SubmitJobs(ALICE, (submission(),)), by="alice", basis="owner", ticket=1),
        Input(KillJobs("alice", False, Selection(all=True)), by="alice", ticket=2),
    ]
    step = controller.step(inputs, controller.now_us + 1)
    assert [entry.seq for entry in step.entries] == [4, 5]
    assert [(reply.ticket, reply.seq) for reply in step.replies] == [(1, 4), (2, 5)]
    assert controller.job(1).is_finished


def test_an_entry_says_who_caused_it_and_when():
    controller = cluster()
    given = Input(SubmitJobs(ALICE, (submission(),)), by="alice", basis="owner")
    (entry,) = controller.step([given], controller.now_us + 7).entries
    assert (entry.cause.kind, entry.cause.by, entry.cause.basis) == (
        "submit-jobs",
        "alice",
        "everyone",
    )
    assert entry.at_us == controller.now_us


def test_who_has_no_ticket_gets_no_reply():
    controller = cluster()
    assert controller.step([Input(Tick())], controller.now_us).replies == ()


def test_the_clock_may_not_go_back():
    controller = cluster()
    with pytest.raises(AssertionError, match="clock"):
        controller.step([], controller.state.now_us - 1)


def test_blobs_of_a_repeated_submit_are_not_stored_again():
    controller = Controller(ClusterState())
    cluster_of_one = cluster()
    blobs = (("hash", b"x"),)
    given = Input(SubmitJobs(ALICE, (submission(),), blobs, key="k"))
    now_us = cluster_of_one.now_us
    assert cluster_of_one.step([given], now_us).blobs == blobs
    assert cluster_of_one.step([given], now_us).blobs == ()
    assert controller.step([], 1).blobs == ()


def test_slices_go_on_before_new_inputs_and_their_answer_follows_the_last(monkeypatch):
    monkeypatch.setattr(kill_module, "SLICE", 2)
    controller = cluster()
    for _ in range(5):
        submit(controller)
    now_us = controller.now_us
    first = controller.step(
        [Input(KillJobs("alice", False, Selection(all=True)), ticket=1)], now_us
    )
    assert (len(first.entries), first.replies, controller.has_more) == (1, (), True)
    again = Input(KillJobs("alice", False, Selection(all=True)), ticket=2)
    second = controller.step([again], now_us)
    assert (len(second.entries), second.replies) == (1, ())
    tickets = []
    while controller.has_more:
        tickets += [reply.ticket for reply in controller.step([], now_us).replies]
    assert tickets == [1, 2]
    assert all(job.is_finished for job in controller.state.jobs.values())


def test_effects_are_told_by_host_in_order_of_their_numbers():
    controller = cluster()
    jobs = [submit(controller, submission(f"c{number}")) for number in range(2)]
    place(controller, jobs[0], host="h2")
    place(controller, jobs[1], host="h1")
    command = KillJobs("alice", False, Selection(all=True))
    step = controller.step([Input(command)], controller.now_us)
    assert [host for host, _ in step.effects] == [0, 1]


def test_a_whole_life_leaves_four_entries():
    controller = cluster()
    before = len(controller.entries)
    job = submit(controller)
    run_job(controller, job)
    kinds = [entry.cause.kind for entry in controller.entries[before:]]
    assert kinds == ["submit-jobs", "propose-plan", "reported", "reported"]


def test_a_controller_that_is_halted_takes_everything_but_plans():
    controller = cluster()
    controller.halted = "nothing is started, since the sums differ"
    job = submit(controller)
    (result,) = controller.tell(
        ProposePlan(plan(controller, bulk(controller, job, hosts={"h1": 1})))
    )
    assert result.text == controller.halted
    assert controller.job(job).live is None
