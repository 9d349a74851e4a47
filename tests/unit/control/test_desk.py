"""The order in which things become known."""

import msgspec
import pytest

from xce.control.controller import Input
from xce.control.desk import OPEN_MAX, Batch, Desk
from xce.control.inbox import SHARE_MAX
from xce.model.command import ApplyConfig, KillJobs, ProposePlan, Selection, SubmitJobs, Tick
from xce.model.host_record import JournalRestored, ReignBegun
from xce.model.job import Owner
from xce.model.observation import (
    AttemptStarted,
    HostDisconnected,
    HostJoined,
    ReignBegan,
    Reported,
)
from xce.model.record import ConfigApplied
from xce.model.refusal import RefusalCode
from xce.testing.builders import ALICE, bulk, cluster, place, plan, submission, submit


class Shell:
    """A shell whose disk is told when to be done."""

    def __init__(self):
        self.controller = cluster()
        self.desk = Desk(self.controller)
        self.tickets = 0

    def give(self, body, by=""):
        self.tickets += 1
        self.desk.give(Input(body, by, ticket=self.tickets))
        return self.tickets

    def turn(self):
        self.desk.turn(self.controller.now_us + 1)


@pytest.fixture
def shell():
    return Shell()


def submits():
    return SubmitJobs(ALICE, (submission(),))


def test_nothing_is_told_before_its_commit(shell):
    ticket = shell.give(submits())
    shell.turn()
    assert shell.desk.durable_seq < shell.controller.state.seq
    batch = shell.desk.next_batch()
    assert [reply.ticket for reply in batch.replies] == [ticket]
    assert shell.desk.next_batch() is None
    told = shell.desk.committed(batch)
    assert told is batch
    assert shell.desk.durable_seq == shell.controller.state.seq


def test_what_is_decided_while_one_batch_is_written_is_the_next(shell):
    shell.give(submits())
    shell.turn()
    first = shell.desk.next_batch()
    for _ in range(3):
        shell.give(submits())
        shell.turn()
    assert shell.desk.next_batch() is None
    shell.desk.committed(first)
    second = shell.desk.next_batch()
    assert len(second.entries) == 3
    assert second.entries[0].seq == first.entries[-1].seq + 1


def test_a_reign_begins_with_one_commit(shell):
    """A crash in it leaves a restored journal as it was, and the next reign knows that it is."""
    config = shell.controller.state.config
    shell.give(ApplyConfig("root", msgspec.structs.replace(config, cluster_name="other"), True))
    shell.give(ReignBegan(is_restored=True))
    shell.turn()
    batch = shell.desk.next_batch()
    kinds = [type(record) for entry in batch.entries for record in entry.records]
    assert kinds == [ConfigApplied, JournalRestored, ReignBegun]
    assert shell.desk.next_batch() is None


def test_an_answer_that_needs_no_entry_still_waits_for_what_it_saw(shell):
    shell.give(SubmitJobs(ALICE, (submission(),), key="k"))
    shell.turn()
    flying = shell.desk.next_batch()
    again = shell.give(SubmitJobs(ALICE, (submission(),), key="k"))
    shell.turn()
    assert shell.desk.next_batch() is None
    shell.desk.committed(flying)
    batch = shell.desk.next_batch()
    assert (batch.entries, [reply.ticket for reply in batch.replies]) == ([], [again])
    shell.desk.committed(batch)


def test_batches_are_committed_in_order(shell):
    shell.give(submits())
    shell.turn()
    shell.desk.next_batch()
    with pytest.raises(AssertionError):
        shell.desk.committed(Batch())


def test_while_the_journal_is_in_trouble_writes_are_refused_and_reports_wait(shell):
    waiting = shell.give(submits())
    report = shell.give(Reported("h1", 1))
    shell.desk.set_trouble("disk full")
    late = shell.give(submits())
    proposal = shell.give(ProposePlan(plan(shell.controller)))
    shell.give(Tick())
    refused = {reply.ticket: reply.results for reply in shell.desk.take_refused()}
    assert set(refused) == {waiting, late, proposal}
    assert refused[late][0].code == RefusalCode.JOURNAL_FULL
    assert "disk full" in refused[late][0].text
    assert refused[proposal] == ()
    shell.turn()
    assert shell.desk.next_batch() is None
    shell.desk.set_trouble("")
    shell.turn()
    assert [reply.ticket for reply in shell.desk.next_batch().replies] == [report]
    assert shell.desk.take_refused() == []


def test_a_repeated_submit_that_may_still_become_durable_is_not_refused(shell):
    def keyed():
        return SubmitJobs(ALICE, (submission(),), key="once")

    first = shell.give(keyed())
    shell.turn()
    batch = shell.desk.next_batch()
    shell.desk.set_trouble("disk full")
    again = shell.give(keyed())
    new = shell.give(SubmitJobs(ALICE, (submission(),), key="other"))
    assert [reply.ticket for reply in shell.desk.take_refused()] == [new]
    shell.desk.set_trouble("")
    shell.desk.committed(batch)
    shell.turn()
    (reply,) = shell.desk.next_batch().replies
    assert reply.ticket == again
    assert [(item.ticket, item.results[0].job) for item in batch.replies] == [
        (first, reply.results[0].job)
    ]


def test_what_is_owed_is_told_again_behind_what_is_still_to_be_written(shell):
    job = submit(shell.controller)
    place(shell.controller, job)
    shell.desk.repeat(0)
    shell.desk.repeat(1)
    batch = shell.desk.next_batch()
    assert [host for host, _ in batch.effects] == [0]
    assert batch.effects[0][1][0].job == job


def test_a_connection_is_told_only_what_was_decided_from_its_own_join_on(shell):
    """An effect of before may be about an attempt that a restarted host has lost."""
    controller = shell.controller
    job = submit(controller)
    place(controller, job)
    shell.desk.repeat(0)
    shell.give(Reported("h1", 1, started=(AttemptStarted(job, 0, 1),)))
    shell.turn()
    shell.give(HostDisconnected("h1"))
    joined = shell.give(HostJoined("h1", "boot-2", 4, 8_192))
    shell.turn()
    batch = shell.desk.next_batch()
    assert [reply.ticket for reply in batch.joins] == [joined]
    assert joined not in [reply.ticket for reply in batch.replies]
    assert batch.effects == []
    assert controller.job(job).is_finished


def test_a_join_is_told_with_all_that_its_host_is_owed(shell):
    controller = shell.controller
    job = submit(controller)
    place(controller, job)
    shell.give(HostJoined("h1", "boot-1", 4, 8_192))
    shell.turn()
    batch = shell.desk.next_batch()
    assert [(host, effects[0].job) for host, effects in batch.effects] == [(0, job)]


def test_effects_leave_with_the_entry_that_brought_them(shell):
    job = submit(shell.controller)
    shell.give(ProposePlan(plan(shell.controller, bulk(shell.controller, job, hosts={"h1": 1}))))
    shell.turn()
    batch = shell.desk.next_batch()
    assert len(batch.entries) == len(batch.effects) == 1


def test_blobs_leave_with_the_entry_that_names_them(shell):
    shell.give(SubmitJobs(ALICE, (submission(),), blobs=(("hash", b"content"),)))
    shell.turn()
    assert shell.desk.next_batch().blobs == [("hash", b"content")]


def test_a_jump_of_the_clock_is_decided_first_also_behind_trouble():
    desk = Desk(cluster())
    desk.give(Input(Tick()))
    desk.give_first(Input(ReignBegan(is_jump=True)))
    desk.set_trouble("no space left")
    assert not desk.take_refused()
    assert desk.has_work


def test_a_user_who_asks_for_too_much_is_told_to_come_again_and_nothing_of_it_is_done(shell):
    many = SubmitJobs(ALICE, (submission(),) * 2_000)
    tickets = [shell.give(many) for _ in range(SHARE_MAX // 2_000 + 2)]
    refused = {reply.ticket: reply.results for reply in shell.desk.take_refused()}
    assert list(refused) == tickets[-2:]
    (refusal,) = refused[tickets[-1]]
    assert refusal.code == RefusalCode.OVERLOADED
    assert "come again" in refusal.text
    while shell.desk.has_work:
        shell.turn()
        shell.desk.committed(shell.desk.next_batch())
    assert len(shell.controller.state.jobs) == SHARE_MAX


def test_while_a_batch_is_written_no_more_is_decided_than_may_wait_for_the_disk(shell):
    shell.give(submits())
    shell.turn()
    flying = shell.desk.next_batch()
    for user in ("u1", "u2"):
        owner = Owner(user, 5, 5)
        for _ in range(20):
            shell.give(SubmitJobs(owner, (submission(),) * 2_000), by=user)
    while shell.desk.has_work:
        shell.turn()
    assert OPEN_MAX <= len(shell.controller.state.jobs) < OPEN_MAX + 2 * 10_000
    shell.desk.committed(flying)
    batch = shell.desk.next_batch()
    assert shell.desk.has_work
    while shell.desk.has_work:
        shell.turn()
    shell.desk.committed(batch)
    assert len(shell.controller.state.jobs) == 80_001


def test_an_overloaded_controller_refuses_new_jobs_and_nothing_else(shell):
    done = shell.give(SubmitJobs(ALICE, (submission(),), key="k"))
    shell.turn()
    shell.desk.committed(shell.desk.next_batch())
    shell.desk.overload = "there is no memory left"
    new = shell.give(submits())
    again = shell.give(SubmitJobs(ALICE, (submission(),), key="k"))
    end = shell.give(KillJobs("alice", False, Selection(all=True)))
    (reply,) = shell.desk.take_refused()
    assert (reply.ticket, reply.results[0].code) == (new, RefusalCode.OVERLOADED)
    assert "no memory left" in reply.results[0].text
    shell.turn()
    replies = {reply.ticket: reply.results for reply in shell.desk.next_batch().replies}
    assert set(replies) == {again, end}
    assert done
    shell.desk.overload = ""
    shell.give(submits())
    assert shell.desk.take_refused() == []
