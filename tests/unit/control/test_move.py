"""``btop`` and ``bbot``: where a pending job stands, and whom a move passes."""

import pytest
from sessions import Scheduled

from xce.model.command import Accepted, MoveJobs, SwitchJobs
from xce.model.config import QueueConfig
from xce.model.refusal import RefusalCode
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import (
    BOB,
    RecordedController,
    chosen,
    cluster,
    report_ended,
    stop,
    submission,
    submit,
)


def move(controller, job, *, top=True, position=1, by="alice", is_admin=False):
    command = MoveJobs(by, is_admin, chosen(job), top, position)
    (result,) = controller.tell(command, by=by)
    check_state(controller.state)
    assert digest(load(dump(controller.state))) == digest(controller.state)
    return result


def order(controller: RecordedController) -> list[int]:
    """Return in which order all pending jobs start when they come one by one."""
    world, starts = Scheduled(controller), []
    world.run()
    while True:
        live = [(job, job.live) for job in controller.state.jobs.values() if job.live]
        if not live:
            return starts
        ((job, (position,)),) = live
        starts.append(job.id)
        report_ended(controller, job.id, job.index(position))
        world.run()


@pytest.fixture
def controller():
    return cluster({"h1": 1})


def ids(controller, count, owner=None, **wanted):
    owners = {} if owner is None else {"owner": owner}
    return [submit(controller, submission(**wanted), **owners) for _ in range(count)]


def switch(controller, job, queue):
    (result,) = controller.tell(SwitchJobs("alice", False, chosen(job), queue), by="alice")
    assert (result.job, result.text) == (job, "switched")


def test_jobs_that_were_moved_to_one_place_in_two_queues_start_by_their_ids():
    queues = [QueueConfig(name="normal", default=True), QueueConfig(name="night")]
    controller = cluster({"h1": 1}, queues=queues)
    first, second, third = ids(controller, 3)
    move(controller, third)
    switch(controller, third, "night")
    move(controller, second)
    assert controller.job(second).place[:2] == controller.job(third).place[:2]
    assert controller.job(second).place < controller.job(third).place
    switch(controller, third, "normal")
    assert order(controller) == [second, third, first]


def test_a_job_goes_to_the_top_and_to_the_bottom(controller):
    first, second, third = ids(controller, 3)
    assert move(controller, third) == Accepted(third, text="moved", number=1)
    assert move(controller, first, top=False).number == 1
    assert order(controller) == [third, second, first]


def test_positions_are_counted_from_either_end(controller):
    a, b, c, d = ids(controller, 4)
    assert move(controller, d, position=2).number == 2
    assert move(controller, a, top=False, position=2).number == 2
    assert order(controller) == [d, b, a, c]


def test_a_position_behind_all_is_the_last_one(controller):
    a, b, c = ids(controller, 3)
    assert move(controller, a, position=99).number == 3
    assert order(controller) == [b, c, a]


def test_a_user_passes_others_only_up_to_his_own_first_job(controller):
    theirs = ids(controller, 1, BOB)
    mine = ids(controller, 1)
    more_of_theirs = ids(controller, 1, BOB)
    last = ids(controller, 1)
    move(controller, last[0])
    assert order(controller) == [*theirs, *last, *mine, *more_of_theirs]


def test_an_administrator_passes_everybody(controller):
    theirs, mine = ids(controller, 2, BOB), ids(controller, 1)
    move(controller, mine[0], by="root", is_admin=True)
    assert order(controller) == [*mine, *theirs]


def test_only_jobs_of_the_same_priority_are_passed(controller):
    high = ids(controller, 1, priority=5)
    low = ids(controller, 2)
    move(controller, low[1])
    assert order(controller) == [*high, low[1], low[0]]


def test_many_moves_to_one_place_keep_their_order(controller):
    found = ids(controller, 12)
    for job in found[1:]:
        move(controller, job, position=2)
    assert order(controller) == [found[0], *reversed(found[1:])]


def test_a_job_can_be_moved_again_and_an_array_is_moved_whole(controller):
    a, b = ids(controller, 2)
    array = submit(controller, submission(elements="1-2"))
    move(controller, array)
    move(controller, b)
    assert order(controller) == [b, array, array, a]


def test_a_held_job_keeps_the_place_that_it_was_given(controller):
    a, b = ids(controller, 2)
    stop(controller, b)
    move(controller, b)
    assert order(controller) == [a]


def test_what_runs_and_elements_are_not_moved(controller):
    running, _ = ids(controller, 2)
    Scheduled(controller).run()
    refused = move(controller, running)
    assert (refused.code, refused.lsf) == (RefusalCode.WRONG_STATE, "Job has already started")
    array = submit(controller, submission(elements="1-3"))
    assert move(controller, (array, 1, 1)).code is RefusalCode.NOT_BUILT
    assert move(controller, 99).code is RefusalCode.UNKNOWN_JOB


def test_somebody_elses_job_is_not_moved(controller):
    (theirs,) = ids(controller, 1, BOB)
    assert move(controller, theirs).code is RefusalCode.NOT_YOURS


def test_by_shares_a_job_can_only_go_to_the_top():
    queue = QueueConfig(name="shared", default=True, policy="fairshare")
    controller = cluster({"h1": 1}, queues=[queue])
    first, second = ids(controller, 2)
    for wanted in ({"top": False}, {"position": 2}):
        refused = move(controller, second, **wanted)
        assert refused.lsf == "Can only move to top under FAIRSHARE or HOST PARTITION policy"
    assert move(controller, second).number == 1
    assert order(controller) == [second, first]
