"""What the host state machine says of attempts that shall not outlive a lost contact."""

import msgspec
from host_state import S, ended, launch, present, running

from xce.model.effect import Launch, SetLimits
from xce.worker.action import (
    KEPT,
    Frozen,
    Lease,
    Listing,
    SetLimit,
    Signal,
    Spawn,
    Suspended,
)
from xce.worker.core import HostState


def fenced(attempt: int = 1) -> Launch:
    """A launch of a job that shall not outlive a lost contact by more than 80 s."""
    one = launch(attempt=attempt, run_limit_us=300 * S)
    return msgspec.structs.replace(one, fence_us=60 * S, fence_kill_us=80 * S)


def test_a_job_that_is_to_be_fenced_has_a_lease_from_its_launch_on() -> None:
    state = HostState()
    state.contact(10 * S)
    actions = state.take_effects(1, [fenced()], 30 * S)
    assert actions == [Spawn(fenced(), [(0, 1)]), Lease([(1, 0, 1, 70 * S, 90 * S)])]
    assert state.contact(40 * S) == [Lease([(1, 0, 1, 100 * S, 120 * S)])]
    assert state.contact(35 * S) == [Lease([(1, 0, 1, 100 * S, 120 * S)])]


def test_without_any_answer_a_lease_counts_from_the_welcome() -> None:
    state = HostState()
    assert state.meet(1, 25 * S)
    assert state.take_effects(1, [fenced()], 30 * S)[1] == Lease([(1, 0, 1, 85 * S, 105 * S)])


def test_a_worker_that_has_just_come_prolongs_no_lease_by_itself() -> None:
    state = HostState()
    assert state.take_list([Listing(present(), fenced(), None)], 30 * S) == [
        Lease([(1, 0, 1, KEPT, KEPT)])
    ]
    assert state.meet(1, 40 * S)
    assert state.contact(41 * S) == [Lease([(1, 0, 1, 101 * S, 121 * S)])]


def test_a_newer_attempt_that_waited_for_an_older_one_has_its_lease_at_once() -> None:
    state = running(fenced())
    state.contact(20 * S)
    state.take_effects(1, [fenced(attempt=2)], 20 * S)
    assert state.take_news([ended()], 30 * S) == [
        Spawn(fenced(attempt=2), [(0, 2)]), Lease([(1, 0, 2, 80 * S, 100 * S)])
    ]  # fmt: skip


def test_the_run_limit_stands_still_while_the_job_is_frozen() -> None:
    state = running(fenced())
    assert state.next_due_us() == 310 * S
    state.take_news([Frozen(1, 0, 1, frozen=True)], 70 * S)
    assert state.next_due_us() is None
    state.take_news([Suspended(1, 0, 1, suspended=True)], 75 * S)
    state.take_news([Frozen(1, 0, 1, frozen=False)], 80 * S)
    assert state.next_due_us() is None, "somebody has stopped it meanwhile"
    state.take_news([Suspended(1, 0, 1, suspended=False)], 90 * S)
    assert state.next_due_us() == 330 * S


def test_a_worker_that_has_just_come_learns_what_is_frozen() -> None:
    state = HostState()
    found = present(frozen_us=50 * S, stopped_us=5 * S)
    state.take_list([Listing(found, fenced(), None)], 60 * S)
    assert state.next_due_us() is None
    state.take_news([Frozen(1, 0, 1, frozen=False)], 70 * S)
    assert state.next_due_us() == 335 * S


def test_limits_that_are_set_hold_the_instants_of_the_lease_too_also_for_the_next_worker() -> None:
    state = running(fenced())
    state.contact(20 * S)
    wanted = SetLimits(1, 0, 1, 300 * S, 0, 6 * S, fence_kill_us=8 * S)
    limits = (300 * S, 0, 6 * S, 0, 0, 0, 8 * S)
    assert state.take_effects(1, [wanted], 30 * S) == [
        SetLimit(1, 0, 1, 0, limits), Lease([(1, 0, 1, 26 * S, 28 * S)])
    ]  # fmt: skip
    again = HostState()
    again.take_list([Listing(present(limits=limits), fenced(), None)], 30 * S)
    assert again.contact(30 * S) == [Lease([(1, 0, 1, 36 * S, 38 * S)])]
    off = SetLimits(1, 0, 1, 300 * S, 0, 0)
    assert Lease([]) in again.take_effects(1, [off], 31 * S)


def test_no_later_welcome_prolongs_the_lease_of_what_was_launched_before_it() -> None:
    """A welcome may have lain unread, or be that of a leader who does not know yet of another."""
    state = running(fenced())
    assert state.meet(1, 20 * S)
    state.take_effects(1, [fenced(attempt=2)], 20 * S)
    state.disconnected()
    assert state.meet(1, 900 * S)
    assert state.take_news([ended()], 901 * S)[1] == Lease([(1, 0, 2, 80 * S, 100 * S)])


def test_what_waits_for_an_attempt_that_is_found_keeps_the_lease_that_it_was_launched_with() -> (
    None
):
    state = HostState()
    assert state.meet(1, 20 * S)
    state.take_effects(1, [fenced(attempt=2)], 20 * S)
    assert state.meet(1, 900 * S)
    state.take_list([Listing(present(), fenced(), None)], 900 * S)
    assert state.take_news([ended()], 901 * S)[1] == Lease([(1, 0, 2, 80 * S, 100 * S)])


def test_a_new_shepherd_hears_that_a_lease_is_over_which_an_earlier_one_may_have_kept() -> None:
    state = running(fenced())
    state.contact(20 * S)
    state.take_effects(1, [SetLimits(1, 0, 1, 300 * S, 0, 0)], 30 * S)
    limits = (300 * S, 0, 0, 0)
    for one in (state, HostState()):  # of which neither knows what that one has stored
        told = one.take_list([Listing(present(limits=limits), fenced(), None)], 31 * S)
        assert told == [Lease([])]


def test_a_new_shepherd_is_told_of_the_leases() -> None:
    state = HostState()
    state.contact(10 * S)
    state.take_effects(1, [fenced()], 30 * S)
    assert Lease([(1, 0, 1, 70 * S, 90 * S)]) in state.take_list([], 31 * S)


def test_other_jobs_have_no_lease() -> None:
    state = running()
    assert state.contact(40 * S) == []


def test_that_a_fenced_job_was_warned_is_kept_with_when_it_is_killed() -> None:
    one = fenced()
    spec = msgspec.structs.replace(one.spec, warning_signal=10, warning_us=60 * S)
    one = msgspec.structs.replace(one, spec=spec)
    state = running(one)
    kept, sent = state.tick(250 * S)
    assert isinstance(kept, SetLimit)
    assert kept.limits == (300 * S, 0, 60 * S, 0, 0, 1, 80 * S)
    assert isinstance(sent, Signal)
    again = HostState()
    again.take_list([Listing(present(limits=kept.limits), one, None)], 260 * S)
    assert again.contact(260 * S) == [Lease([(1, 0, 1, 320 * S, 340 * S)])]
    assert again.next_due_us() == 310 * S, "it is not warned again"
