from host_state import S, ended, launch, present, running, started

from xce.model.effect import SendSignal, SetLimits, SetSuspended, Terminate
from xce.model.job import EndCause
from xce.model.observation import AttemptSeen
from xce.worker.action import (
    Appended,
    Forget,
    Lease,
    Listing,
    Present,
    Report,
    SetLimit,
    Signal,
    Spawn,
    Suspend,
    Suspended,
    Usage,
)
from xce.worker.core import HostState
from xce.worker.past import REMEMBER_US


def kill(
    index: int = 0, attempt: int = 1, *, force: bool = False, forget: bool = False
) -> Terminate:
    return Terminate(1, index, attempt, EndCause.OWNER, force, forget)


def test_a_launch_is_ordered_once_however_often_it_comes() -> None:
    state = HostState()
    assert state.take_effects(1, [launch(3, 4)], 0) == [Spawn(launch(3, 4), [(3, 1), (4, 1)])]
    assert state.take_effects(1, [launch(3, 4)], 0) == []
    assert state.take_effects(1, [launch(4, 5)], 0) == [Spawn(launch(4, 5), [(5, 1)])]
    state.take_news([started(3), ended(3)], 20 * S)
    assert state.take_effects(1, [launch(3)], 20 * S) == []
    state.reports(20 * S)
    assert state.acknowledged(1, 20 * S) == [Forget(1, 3, 1, keep=True)]
    assert state.take_effects(1, [launch(3)], 20 * S) == []


def test_a_start_is_told_again_to_who_launches_again_what_runs() -> None:
    """After a restore the controller knows of the launch and not of the start."""
    state = HostState()
    state.take_effects(1, [launch()], 0)
    state.take_news([started()], 10 * S)
    told = state.reports(11 * S)
    assert told is not None
    state.take_effects(1, [launch()], 12 * S)
    assert state.reports(12 * S) is None  # it is on its way
    state.acknowledged(told.number, 13 * S)
    assert state.take_effects(2, [launch()], 14 * S) == []
    again = state.reports(15 * S)
    assert again is not None
    assert [(one.pid, one.age_us) for one in again.started] == [(77, 5 * S)]


def test_effects_of_a_lower_epoch_are_refused() -> None:
    state = HostState()
    state.take_effects(7, [], 0)
    assert state.take_effects(6, [launch()], 0) == []
    assert state.take_effects(7, [launch()], 0) != []
    assert state.take_effects(6, [kill()], 0) == []


def test_start_and_end_are_reported_with_their_ages_and_until_acknowledged() -> None:
    state = HostState()
    assert state.reports(0) is None
    state.take_effects(1, [launch()], 0)
    state.take_news([started()], 10 * S)
    first = state.reports(11 * S)
    assert first is not None
    assert [(one.pid, one.age_us) for one in first.started] == [(77, S)]
    assert state.reports(11 * S) is None
    state.take_news([ended(exit_code=3)], 20 * S)
    second = state.reports(25 * S)
    assert second is not None
    (end,) = second.ended
    assert (end.exit_code, end.started_age_us, end.ended_age_us) == (3, 15 * S, 5 * S)
    assert state.reports_in_flight == 2
    state.disconnected()
    assert state.joined() == ((), ((1, 0, 1),))
    again = state.reports(30 * S)
    assert again is not None
    assert (again.number, len(again.started)) == (1, 1)
    assert again.ended[0].ended_age_us == 10 * S
    assert state.acknowledged(1, 30 * S) == [Forget(1, 0, 1, keep=True)]
    assert state.joined() == ((), ())
    assert not state.has_reports


def test_news_of_an_end_that_was_told_before_change_nothing() -> None:
    state = running()
    state.take_news([ended(), ended(), started()], 20 * S)
    batch = state.reports(20 * S)
    assert batch is not None
    assert len(batch.ended) == 1
    assert batch.started == ()
    assert state.take_news([ended()], 21 * S) == []
    assert not state.has_reports


def test_a_kill_goes_from_int_over_term_to_kill_and_goes_on() -> None:
    state = running()
    assert state.take_effects(1, [kill()], 100 * S) == [Signal(1, 0, 1, 2, EndCause.OWNER, 2)]
    assert state.take_effects(1, [kill()], 101 * S) == []
    assert state.next_due_us() == 110 * S
    assert state.tick(109 * S) == []
    assert state.tick(110 * S) == [Signal(1, 0, 1, 15, EndCause.OWNER, 3)]
    assert state.tick(120 * S) == [Signal(1, 0, 1, 9, EndCause.OWNER, 4)]
    assert state.tick(130 * S) == [Signal(1, 0, 1, 9, EndCause.OWNER, 4)]
    state.take_news([ended(exit_code=130, cause=14)], 131 * S)
    assert state.next_due_us() is None
    batch = state.reports(131 * S)
    assert batch is not None
    assert batch.ended[0].cause is EndCause.OWNER


def test_force_kills_at_once_also_what_is_being_ended() -> None:
    state = running()
    state.take_effects(1, [kill()], 100 * S)
    assert state.take_effects(1, [kill(force=True)], 101 * S) == [
        Signal(1, 0, 1, 9, EndCause.OWNER, 4)
    ]
    assert state.take_effects(1, [kill(force=True), kill()], 102 * S) == []


def test_an_attempt_that_never_came_is_answered_and_its_late_launch_refused() -> None:
    state = HostState()
    assert state.take_effects(1, [kill(), kill()], S) == []
    batch = state.reports(2 * S)
    assert batch is not None
    (end,) = batch.ended
    assert (end.cause, end.exit_code, end.started_age_us) == (EndCause.OWNER, 0, 0)
    assert state.take_effects(1, [launch()], 3 * S) == []
    assert state.acknowledged(1, 4 * S) == []
    assert state.take_effects(1, [launch()], 5 * S) == []
    assert state.take_effects(1, [launch(attempt=2)], 5 * S) != []


def test_what_is_over_is_forgotten_after_a_while() -> None:
    state = HostState()
    state.take_effects(1, [kill()], 0)
    state.reports(0)
    state.acknowledged(1, 0)
    state.tick(REMEMBER_US - 1)
    assert state.take_effects(1, [launch()], 0) == []
    state.tick(REMEMBER_US + 1)
    assert state.take_effects(1, [launch()], 0) != []


def test_a_newer_attempt_waits_until_the_older_is_gone() -> None:
    state = running()
    newer = launch(attempt=2)
    assert state.take_effects(1, [newer], 50 * S) == [Signal(1, 0, 1, 2, EndCause.HOST_LOST, 2)]
    assert state.take_effects(1, [launch(attempt=1), newer], 51 * S) == []
    assert state.joined()[0] == (
        AttemptSeen(1, 0, 1, running=True),
        AttemptSeen(1, 0, 2, running=False),
    )
    assert state.take_news([ended()], 52 * S) == [Spawn(newer, [(0, 2)])]
    assert state.take_effects(1, [newer], 53 * S) == []


def test_a_waiting_attempt_that_is_ended_does_not_start() -> None:
    state = running()
    state.take_effects(1, [launch(attempt=2)], 50 * S)
    assert state.take_effects(1, [kill(attempt=2)], 51 * S) == []
    assert state.take_news([ended()], 52 * S) == []
    batch = state.reports(53 * S)
    assert batch is not None
    assert {end.attempt for end in batch.ended} == {1, 2}


def only_gone(batch) -> bool:
    """Whether a report says only that the attempt is gone."""
    return batch[1:] == ((), (), (), ((1, 0, 1),), (), ())


def test_an_attempt_that_nobody_wants_to_hear_of_is_ended_and_forgotten() -> None:
    state = running()
    assert state.take_effects(1, [kill(forget=True)], 50 * S) == [
        Signal(1, 0, 1, 2, EndCause.OWNER, 2)
    ]
    assert state.take_news([ended()], 51 * S) == [Forget(1, 0, 1, keep=False)]
    assert only_gone(state.reports(51 * S))
    assert state.take_effects(1, [launch()], 52 * S) == []
    unreported = running()
    unreported.take_news([ended()], 51 * S)
    assert unreported.take_effects(1, [kill(forget=True)], 52 * S) == [Forget(1, 0, 1, keep=False)]
    assert only_gone(unreported.reports(52 * S))
    unknown = HostState()
    assert unknown.take_effects(1, [kill(forget=True), launch()], 0) == []
    assert only_gone(unknown.reports(0))


def test_the_run_limit_warns_and_kills_after_the_grace() -> None:
    state = running(launch(run_limit_us=60 * S))
    assert state.next_due_us() == 70 * S
    assert state.tick(70 * S) == [Signal(1, 0, 1, 12, EndCause.RUNLIMIT, 1)]
    assert state.next_due_us() == 670 * S
    assert state.tick(670 * S) == [Signal(1, 0, 1, 2, EndCause.RUNLIMIT, 2)]
    assert state.tick(680 * S) == [Signal(1, 0, 1, 15, EndCause.RUNLIMIT, 3)]
    state.take_news([ended(exit_code=143)], 681 * S)
    batch = state.reports(681 * S)
    assert batch is not None
    assert batch.ended[0].cause is EndCause.RUNLIMIT


def test_a_kill_within_the_grace_does_not_wait_for_its_end() -> None:
    state = running(launch(run_limit_us=60 * S))
    state.tick(70 * S)
    assert state.take_effects(1, [kill()], 80 * S) == [Signal(1, 0, 1, 2, EndCause.RUNLIMIT, 2)]
    assert state.next_due_us() == 90 * S


def test_the_run_limit_stands_still_while_suspended() -> None:
    state = running(launch(run_limit_us=60 * S))
    suspend = SetSuspended(1, 0, 1, suspended=True)
    assert state.take_effects(1, [suspend], 30 * S) == [Suspend(1, 0, 1, suspended=True)]
    assert state.take_effects(1, [suspend], 30 * S) == []
    state.take_news([Suspended(1, 0, 1, suspended=True)], 30 * S)
    assert state.next_due_us() is None
    assert state.tick(500 * S) == []
    batch = state.reports(500 * S)
    assert batch is not None
    assert batch.suspended[0].suspended is True
    resume = SetSuspended(1, 0, 1, suspended=False)
    assert state.take_effects(1, [resume], 530 * S) == [Suspend(1, 0, 1, suspended=False)]
    state.take_news([Suspended(1, 0, 1, suspended=False)], 530 * S)
    assert state.next_due_us() == 570 * S


def test_a_wish_that_is_fulfilled_is_answered_again() -> None:
    state = running()
    state.take_effects(1, [SetSuspended(1, 0, 1, suspended=True)], 30 * S)
    state.take_news([Suspended(1, 0, 1, suspended=True)], 30 * S)
    state.reports(30 * S)
    state.acknowledged(2, 30 * S)
    assert state.take_effects(1, [SetSuspended(1, 0, 1, suspended=True)], 31 * S) == []
    assert state.has_reports


def test_a_users_signal_is_ordered_once() -> None:
    state = running()
    assert state.take_effects(1, [SendSignal(1, 0, 1, 1, 10)], S) == [Signal(1, 0, 1, 10, count=1)]
    assert state.take_effects(1, [SendSignal(1, 0, 1, 1, 10)], S) == []
    assert state.take_effects(1, [SendSignal(1, 0, 1, 3, 12)], S) == [Signal(1, 0, 1, 12, count=3)]
    assert state.take_effects(1, [SendSignal(1, 0, 2, 9, 12)], S) == []


def test_too_much_memory_ends_the_job_with_its_cause() -> None:
    state = running(launch(mem_limit_kib=100))
    assert state.take_news([Usage(1, 0, 1, 100, out_of_memory=False)], 11 * S) == []
    assert state.take_news([Usage(1, 0, 1, 101, out_of_memory=False)], 12 * S) == [
        Signal(1, 0, 1, 2, EndCause.MEMLIMIT, 2)
    ]
    assert state.take_news([Usage(1, 0, 1, 102, out_of_memory=False)], 13 * S) == []
    alone = running()
    alone.take_news([ended(exit_code=137, signal=9, out_of_memory=True)], 20 * S)
    batch = alone.reports(20 * S)
    assert batch is not None
    assert batch.ended[0].cause is EndCause.MEMLIMIT


def test_limits_that_are_set_hold_in_place_of_those_of_the_launch() -> None:
    state = running(launch(run_limit_us=60 * S))
    due_us = state.next_due_us()
    assert due_us is not None
    began_us = due_us - 60 * S
    wanted = SetLimits(1, 0, 1, 90 * S, 100, 0)
    set_limit = SetLimit(1, 0, 1, 100, (90 * S, 100, 0, 0))
    assert state.take_effects(1, [wanted], 30 * S) == [set_limit, Lease([])]
    assert state.take_effects(1, [wanted], 31 * S) == [], "said twice"
    assert state.next_due_us() == began_us + 90 * S
    assert state.take_news([Usage(1, 0, 1, 101, out_of_memory=False)], 32 * S) == [
        Signal(1, 0, 1, 2, EndCause.MEMLIMIT, 2)
    ]
    assert state.take_effects(1, [SetLimits(1, 0, 2, 1, 1, 1)], 33 * S) == [], "of another attempt"


def test_a_limit_that_has_passed_already_ends_the_job_at_once() -> None:
    state = running()
    state.take_effects(1, [SetLimits(1, 0, 1, S, 0, 0)], 500 * S)
    (warning,) = state.tick(500 * S)
    assert isinstance(warning, Signal)
    assert warning.cause == EndCause.RUNLIMIT


def test_limits_outlive_the_worker_and_are_set_again_for_a_shepherd_that_lacks_them() -> None:
    limits = (90 * S, 100, 0)
    state = HostState()
    found = Listing(present(limits=limits), launch(), None)
    assert state.take_list([found], 5 * S) == [Lease([])]
    assert state.next_due_us() == present().started_us + 90 * S
    again = state.take_list([Listing(present(), launch(), None)], 6 * S)
    assert again == [SetLimit(1, 0, 1, 100, limits), Lease([])]


def test_an_end_is_told_only_when_its_report_is_in_the_output_file() -> None:
    state = running(launch(output="out"))
    (report,) = state.take_news([ended(wants_report=True)], 25 * S)
    assert isinstance(report, Report)
    assert (report.end.started_age_us, report.end.ended_age_us) == (15 * S, 5 * S)
    assert not state.has_reports
    (again,) = state.take_list(
        [Listing(present(), launch(output="out"), ended(wants_report=True))], 26 * S
    )
    assert isinstance(again, Report)
    state.take_news([Appended(1, 0, 1)], 27 * S)
    state.reports(28 * S)
    state.take_news([Appended(1, 0, 1)], 29 * S)
    assert not state.has_reports


def test_a_new_worker_takes_over_what_its_shepherd_has() -> None:
    state = HostState()
    over = Listing(present(), launch(run_limit_us=60 * S), ended(exit_code=3))
    two = Present(2, 0, 1, "", 78, 12 * S, 0, 5 * S, 2, 0, 0, 0, reported=False)
    lives = Listing(two, launch(job=2, run_limit_us=60 * S), None)
    assert state.take_list([over, lives], 30 * S) == []
    assert state.joined() == ((AttemptSeen(2, 0, 1, running=True),), ((1, 0, 1),))
    assert state.next_due_us() == 77 * S
    batch = state.reports(30 * S)
    assert batch is not None
    assert [one.job for one in batch.started] == [2]
    assert [one.exit_code for one in batch.ended] == [3]
    assert state.take_effects(1, [launch(), launch(job=2)], 31 * S) == []
    assert state.take_effects(1, [SendSignal(2, 0, 1, 2, 10)], 31 * S) == []


def test_an_ending_goes_on_where_it_was() -> None:
    state = HostState()
    seen = present(cause=5, step=2, step_us=100 * S)
    assert state.take_list([Listing(seen, launch(), None)], 105 * S) == []
    assert state.next_due_us() == 110 * S
    assert state.tick(110 * S) == [Signal(1, 0, 1, 15, EndCause.RUNLIMIT, 3)]


def test_what_a_lost_shepherd_may_not_have_done_is_ordered_again() -> None:
    state = running()
    state.take_effects(1, [SendSignal(1, 0, 1, 4, 10)], 50 * S)
    state.take_effects(1, [SetSuspended(1, 0, 1, suspended=True)], 50 * S)
    assert state.take_list([Listing(present(), launch(), None)], 51 * S) == [
        Signal(1, 0, 1, 10, count=4),
        Suspend(1, 0, 1, suspended=True),
    ]
    state.take_effects(1, [kill()], 52 * S)
    assert state.take_list([Listing(present(number=4), launch(), None)], 53 * S) == [
        Signal(1, 0, 1, 2, EndCause.OWNER, 2)
    ]


def test_what_a_shepherd_does_not_have_has_not_begun_and_is_started() -> None:
    state = HostState()
    state.take_effects(1, [launch()], 0)
    assert state.take_list([], S) == [Spawn(launch(), [(0, 1)])]
    state.take_effects(1, [kill()], 2 * S)
    assert state.take_list([], 3 * S) == []
    batch = state.reports(3 * S)
    assert batch is not None
    assert batch.ended[0].cause is EndCause.OWNER
    assert state.joined()[0] == ()


def test_an_acknowledged_end_that_comes_back_is_only_forgotten_again() -> None:
    state = running()
    state.take_news([ended()], 20 * S)
    state.reports(20 * S)
    state.acknowledged(2, 20 * S)
    assert state.take_list([Listing(present(), launch(), ended())], 21 * S) == [
        Forget(1, 0, 1, keep=True)
    ]
    assert not state.has_reports


def test_two_attempts_of_one_element_are_told_apart_in_a_list() -> None:
    state = HostState()
    older = Listing(present(1), launch(), ended())
    newer = Listing(present(2, pid=79), launch(attempt=2), None)
    assert state.take_list([newer, older], 30 * S) == []
    assert state.joined() == ((AttemptSeen(1, 0, 2, running=True),), ((1, 0, 1),))


def test_of_two_living_attempts_only_the_newer_one_waits_for_the_other() -> None:
    for ordered, found, spawned in ((2, 1, [(0, 2)]), (1, 2, None)):
        state = HostState()
        state.take_effects(1, [launch(attempt=ordered)], 0)
        state.take_list([Listing(present(found), launch(attempt=found), None)], 20 * S)
        assert AttemptSeen(1, 0, found, running=True) in state.joined()[0]
        actions = state.take_news([ended(attempt=found)], 30 * S)
        assert [one.elements for one in actions if isinstance(one, Spawn)] == (
            [spawned] if spawned else []
        )
