"""The checker finds what it is there to find."""

import pytest

from xce.model.job import EndCause
from xce.model.ranges import EMPTY
from xce.model.request import Amount
from xce.state.check import check_not_over_committed, check_state, find_usage_differences
from xce.testing.builders import cluster, place, report_ended, request, submission, submit


@pytest.fixture
def state():
    """Job 1 lives, job 2 pends, job 3 is over, array 4 pends."""
    controller = cluster(pools={"tokens": 3})
    asks = request(1, amounts=[Amount("tokens", 1, "job")])
    for _ in range(3):
        submit(controller, submission(asks=asks))
    submit(controller, submission(elements="1-3"))
    place(controller, 1)
    place(controller, 3)
    report_ended(controller, 3)
    check_state(controller.state)
    check_not_over_committed(controller.state)
    return controller.state


def lose_an_element(state):
    state.jobs[4].pending = ((0, 1),)


def hold_and_pend(state):
    state.jobs[4].held = ((0, 0),)
    state.jobs[4].size = 4


def finish_early(state):
    state.jobs[2].finished_at_us = 1


def miscount_outcomes(state):
    state.jobs[3].done = 2


def free_a_slot(state):
    state.hosts.used[0, 0] -= 1


def miscount_attempts(state):
    state.hosts.attempts[0] += 1


def miscount_exclusive(state):
    state.hosts.exclusive[0] += 1


def free_a_token(state):
    state.pools.used["tokens"] -= 1


def forget_who_waits(state):
    state.classes[state.jobs[2].cls].waiting.clear()


def miscount_a_class(state):
    state.classes[state.jobs[2].cls].pending += 1


def index_another_user(state):
    state.unfinished["bob"] = {2: None}


def index_a_finished_job(state):
    state.unfinished["alice"][3] = None


def lose_a_job(state):
    del state.unfinished["alice"][2]


def owe_nothing(state):
    state.owed[0].clear()


def owe_for_nothing(state):
    state.jobs[1].live[0].phase = 2
    state.jobs[1].live[0].end_cause = EndCause.NONE


def lose_a_live_one(state):
    state.on_host[0][4, 0] = None


def avoid_without_an_index(state):
    state.jobs[2].avoid = (0,)


@pytest.mark.parametrize(
    "spoil",
    [
        lose_an_element, hold_and_pend, finish_early, miscount_outcomes, free_a_slot,
        miscount_attempts, miscount_exclusive, free_a_token, forget_who_waits, miscount_a_class,
        index_another_user, index_a_finished_job, lose_a_job, owe_nothing, owe_for_nothing,
        lose_a_live_one, avoid_without_an_index,
    ],
)  # fmt: skip
def test_a_spoiled_state_is_found(state, spoil):
    spoil(state)
    with pytest.raises(AssertionError):
        check_state(state)


def over_commit_slots(state):
    state.hosts.used[0, 1] = 5


def share_an_exclusive_host(state):
    state.hosts.exclusive[0] = 1
    state.hosts.attempts[0] = 2


def give_a_host_to_two(state):
    state.hosts.exclusive[0] = 2


def over_commit_a_pool(state):
    state.pools.used["tokens"] = 4


@pytest.mark.parametrize(
    "spoil", [over_commit_slots, share_an_exclusive_host, give_a_host_to_two, over_commit_a_pool]
)
def test_over_commitment_is_found(state, spoil):
    spoil(state)
    with pytest.raises(AssertionError):
        check_not_over_committed(state)


def test_an_empty_range_is_no_place(state):
    state.jobs[2].pending = EMPTY
    with pytest.raises(AssertionError, match="elements in places"):
        check_state(state)


def test_what_is_given_out_and_not_held_is_told_with_place_and_amounts(state):
    assert find_usage_differences(state) == []
    free_a_slot(state)
    free_a_token(state)
    miscount_attempts(state)
    assert find_usage_differences(state) == [
        "slots on host h1: 0 are given out, attempts hold 1",
        "attempts on host h1: 2 are counted, 1 live",
        "pool tokens: 0 are given out, attempts hold 1",
    ]
