"""The host state machine: hooks, and warnings before the run limit."""

import pytest
from msgspec.structs import replace

from xce.model.effect import Launch, SetLimits, Terminate
from xce.model.job import EndCause, JobSpec, Owner
from xce.worker.action import (
    Ended,
    Lease,
    Listing,
    MainOver,
    Present,
    SetLimit,
    Signal,
    Started,
    Suspend,
)
from xce.worker.core import HostState

S = 1_000_000
LAUNCH = Launch(
    1, [0], [1], JobSpec(command="x"), Owner("u", 1000, 1000), "normal", "p", "c", (("h1", 1),), 1,
    0, 30 * S, 600 * S, 10 * S,
)  # fmt: skip
KILL = Terminate(1, 0, 1, EndCause.OWNER)


def launched():
    state = HostState()
    state.take_effects(1, [LAUNCH], 0)
    return state


def posting():
    state = launched()
    state.take_news([Started(1, 0, 1, 77, 10 * S)], 10 * S)
    state.take_news([MainOver(1, 0, 1)], 20 * S)
    return state


def present(**more):
    fields = {
        "pid": 77, "started_us": 10 * S, "suspended_us": 0, "stopped_us": 0, "number": 0,
        "cause": 0, "step": 0, "step_us": 0, "reported": False,
    }  # fmt: skip
    return Listing(Present(1, 0, 1, "", **(fields | more)), LAUNCH, None)


def test_the_run_limit_does_not_count_on_while_post_hooks_run():
    state = posting()
    assert state.next_due_us() is None
    assert state.tick(10_000 * S) == []


def test_a_kill_of_what_is_over_does_nothing_and_its_end_stays_what_it_was():
    state = posting()
    assert state.take_effects(1, [KILL], 21 * S) == []
    state.take_news([Ended(1, 0, 1, 10 * S, 20 * S, exit_code=0, post=1)], 22 * S)
    (end,) = state.reports(22 * S).ended
    assert (end.cause, end.exit_code, end.post) == (EndCause.NONE, 0, 1)


def test_a_kill_that_was_under_way_goes_no_further():
    state = launched()
    state.take_news([Started(1, 0, 1, 77, 10 * S)], 10 * S)
    state.take_effects(1, [KILL], 11 * S)
    assert state.next_due_us() == 21 * S
    state.take_news([MainOver(1, 0, 1)], 12 * S)
    assert state.next_due_us() is None


def test_another_worker_learns_that_post_hooks_run():
    state = HostState()
    state.take_list([present(is_posting=True)], 20 * S)
    assert state.next_due_us() is None
    assert state.take_effects(1, [KILL], 21 * S) == []


def test_while_a_pre_hook_runs_the_job_has_not_started():
    state = HostState()
    state.take_list([present(pid=0)], 20 * S)
    (seen,), _ = state.joined()
    assert (seen.running, state.next_due_us()) == (False, None)
    state.take_news([Started(1, 0, 1, 78, 25 * S)], 25 * S)
    assert state.next_due_us() == 55 * S


def test_what_is_suspended_goes_on_before_it_is_over():
    state = posting()
    assert Suspend not in map(type, state.take_list([present(is_posting=True)], 21 * S))


def warned(before_us=10 * S, *, command="", **launch):
    # A deadline is of the cluster's clock, which is none of the host's.
    spec = JobSpec(
        command="x", warning_signal=0 if command else 23, warning_command=command,
        warning_us=before_us, deadline_us=1,
    )  # fmt: skip
    state = HostState()
    state.take_effects(1, [replace(LAUNCH, spec=spec, **launch)], 5 * S)
    state.take_news([Started(1, 0, 1, 77, 10 * S)], 10 * S)
    return state


def kept(run_limit_us):
    """Return the order to keep that the warning before this limit is sent."""
    return SetLimit(1, 0, 1, 0, (run_limit_us, 0, 0, 0, 0, 1))


def test_a_warning_comes_so_long_before_the_run_limit_and_once():
    state = warned()
    assert state.next_due_us() == 30 * S
    assert state.tick(30 * S) == [kept(30 * S), Signal(1, 0, 1, 23)]
    assert state.next_due_us() == 40 * S
    (last,) = state.tick(40 * S)
    assert (last.number, last.cause) == (12, EndCause.RUNLIMIT)


def test_a_warning_command_is_ordered_before_it_is_kept_that_it_was():
    state = warned(command="save")
    warn, order = state.tick(30 * S)
    assert (warn.launch.spec.warning_command, warn.limit_us) == ("save", 30 * S)
    assert order == kept(30 * S)
    assert state.next_due_us() == 40 * S
    # A worker that came in between orders it again; the shepherd knows the limit by its number.
    again = HostState()
    spec = JobSpec(command="x", warning_command="save", warning_us=10 * S)
    listed = present(started_us=10 * S)._replace(launch=replace(LAUNCH, spec=spec))
    again.take_list([listed], 31 * S)
    assert again.tick(31 * S)[0].limit_us == warn.limit_us


def test_a_warning_longer_than_the_run_limit_comes_at_once():
    assert warned(100 * S).next_due_us() == 10 * S


@pytest.mark.parametrize(("in_us", "warned_us"), [(20 * S, 25 * S), (80 * S, 30 * S)])
def test_a_warning_comes_before_the_deadline_where_that_is_earlier(in_us, warned_us):
    state = warned(warning_in_us=in_us)
    assert state.next_due_us() == warned_us
    assert state.tick(warned_us) == [kept(30 * S), Signal(1, 0, 1, 23)]
    assert state.next_due_us() == 40 * S  # whoever decides about deadlines ends it before
    alone = warned(warning_in_us=in_us, run_limit_us=0)
    assert alone.next_due_us() == 5 * S + in_us
    assert alone.tick(5 * S + in_us) == [kept(0), Signal(1, 0, 1, 23)]
    assert alone.next_due_us() is None


def test_a_warning_that_was_due_before_the_start_comes_at_the_start():
    assert warned(warning_in_us=1, run_limit_us=0).next_due_us() == 10 * S


def test_a_warning_before_the_deadline_is_known_to_the_worker_that_comes_next():
    state = HostState()
    spec = JobSpec(command="x", warning_signal=23, warning_us=S, deadline_us=1)
    launch = replace(LAUNCH, spec=spec, run_limit_us=0, warning_in_us=20 * S)
    (spawn,) = state.take_effects(1, [launch], 5 * S)
    again = HostState()
    again.take_list([present(started_us=6 * S)._replace(launch=spawn.launch)], 8 * S)
    assert again.next_due_us() == 25 * S


def test_a_warning_that_was_sent_is_known_to_the_worker_that_comes_next():
    state = warned(warning_in_us=20 * S)
    order, _ = state.tick(25 * S)
    again = HostState()
    listed = present(started_us=10 * S, limits=order.limits)
    spec = JobSpec(command="x", warning_signal=23, warning_us=10 * S)
    given = replace(LAUNCH, spec=spec, warning_at_us=25 * S)
    assert again.take_list([listed._replace(launch=given)], 26 * S) == [Lease([])]
    assert again.next_due_us() == 40 * S
    same = SetLimits(1, 0, 1, 30 * S, 0, 0)
    assert again.take_effects(1, [same], 26 * S) == []
    other, *_ = again.take_effects(1, [replace(same, run_limit_us=60 * S)], 27 * S)
    assert other.limits == (60 * S, 0, 0, 0)
    assert again.next_due_us() == 25 * S


def test_a_shepherd_that_did_not_hear_of_a_warning_is_told_again():
    state = warned()
    order, _ = state.tick(30 * S)
    assert state.take_list([present(started_us=10 * S)], 31 * S) == [order, Lease([])]


def test_another_run_limit_brings_another_warning():
    state = warned()
    state.tick(30 * S)
    state.take_effects(1, [SetLimits(1, 0, 1, 60 * S, 0, 0)], 31 * S)
    assert state.next_due_us() == 60 * S
