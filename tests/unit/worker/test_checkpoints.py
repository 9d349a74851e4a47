"""The host state machine: checkpoints that are due or asked for, and what comes of them."""

import pytest

from xce.model.checkpoint import Checkpoints, request_number
from xce.model.effect import Launch, SendSignal, SetLimits, SetSuspended, Terminate
from xce.model.job import EndCause, JobSpec, Owner
from xce.model.observation import CheckpointSeen
from xce.worker.accounts import Accounts
from xce.worker.action import (
    Checkpoint,
    Checkpointed,
    Ended,
    Listing,
    Outcome,
    Present,
    SetLimit,
    Signal,
    Started,
    Suspended,
)
from xce.worker.checkpoints import checkpoint_order
from xce.worker.core import HostState
from xce.worker.ending import STEP_KILL, STEP_WARN

S = 1_000_000
KEY = (1, 0, 1)
END = request_number(ends=True, forced=False)


def launch(wanted: Checkpoints | None, *, run_limit_us: int = 0, **spec: object) -> Launch:
    return Launch(
        1, [0], [1], JobSpec(command="x", cwd="/w", checkpoints=wanted, **spec),
        Owner("u", 1000, 1000), "normal", "p", "c", (("h1", 1),), 1, 0, run_limit_us, 600 * S,
        10 * S, checkpoint_programs="/programs", hook_limit_us=9,
    )  # fmt: skip


def running(wanted: Checkpoints | None = None, **more: object) -> HostState:
    state = HostState()
    state.take_effects(1, [launch(wanted or Checkpoints("/ck"), **more)], 0)
    state.take_news([Started(*KEY, 77, 10 * S)], 10 * S)
    return state


def of(action: object) -> tuple[bool, bool, int]:
    assert isinstance(action, Checkpoint)
    assert (action.job, action.index, action.attempt) == KEY
    return action.ends, action.forced, action.count


def written(number: int, *, ends: bool = False, detail: str = "", at: int = 50) -> Checkpointed:
    return Checkpointed(*KEY, at * S, Outcome(number, ends, not detail, detail))


def said(state: HostState) -> tuple[CheckpointSeen, ...]:
    reports = state.reports(99 * S)
    return reports.checkpoints if reports is not None else ()


def test_one_is_due_after_each_period_and_the_first_when_that_was_said():
    state = running(Checkpoints("/ck", period_us=20 * S, first_us=5 * S))
    assert state.next_due_us() == 15 * S
    assert [of(one) for one in state.tick(15 * S)] == [(False, False, 0)]
    assert state.next_due_us() == 35 * S
    state.take_news([written(1, at=16)], 17 * S)
    assert state.next_due_us() == 36 * S
    state = running(Checkpoints("/ck", period_us=20 * S))
    assert state.next_due_us() == 30 * S


def test_none_is_due_without_a_period_or_while_it_is_suspended_or_ends():
    assert running().next_due_us() is None
    state = running(Checkpoints("/ck", period_us=20 * S))
    state.take_effects(1, [SetSuspended(*KEY, suspended=True)], 11 * S)
    state.take_news([Suspended(*KEY, suspended=True)], 12 * S)
    assert state.next_due_us() is None
    state.take_news([Suspended(*KEY, suspended=False)], 90 * S)
    assert [of(one) for one in state.tick(90 * S)] == [(False, False, 0)]
    state.take_effects(1, [Terminate(*KEY, EndCause.OWNER)], 91 * S)
    assert not [one for one in state.tick(130 * S) if isinstance(one, Checkpoint)]


def test_the_run_limit_and_its_warning_come_in_their_time():
    state = running(
        Checkpoints("/ck", period_us=30 * S), run_limit_us=60 * S, warning_signal=10,
        warning_us=15 * S,
    )  # fmt: skip
    assert state.next_due_us() == 40 * S
    assert [of(one) for one in state.tick(40 * S)] == [(False, False, 0)]
    assert state.next_due_us() == 55 * S
    assert state.tick(55 * S)[1:] == [Signal(*KEY, 10)]
    # Checkpoint and end are due at once: what ends writes none.
    assert state.next_due_us() == 70 * S
    assert state.tick(70 * S) == [Signal(*KEY, 12, EndCause.RUNLIMIT, STEP_WARN)]


def test_one_may_be_what_comes_before_the_run_limit():
    warned = {"warning_signal": request_number(ends=False, forced=False), "warning_us": 15 * S}
    state = running(run_limit_us=60 * S, **warned)
    assert state.next_due_us() == 55 * S
    order, one = state.tick(55 * S)
    assert (of(one), order.limits[-1]) == ((False, False, 0), 1)
    assert state.next_due_us() == 70 * S


@pytest.mark.parametrize(("ends", "forced"), [(False, False), (True, False), (False, True)])
def test_one_that_is_asked_for_is_ordered_once(ends, forced):
    state = running()
    effect = SendSignal(*KEY, 1, request_number(ends=ends, forced=forced))
    assert [of(one) for one in state.take_effects(1, [effect], 20 * S)] == [(ends, forced, 1)]
    assert state.take_effects(1, [effect], 21 * S) == []
    assert state.take_effects(1, [SendSignal(*KEY, 2, 10)], 22 * S) == [Signal(*KEY, 10, count=2)]


def test_what_became_of_them_is_said_until_it_is_acknowledged():
    state = running()
    state.reports(20 * S)
    state.acknowledged(1, 20 * S)
    state.take_news([written(1), written(2, detail="full")], 50 * S)
    seen = (CheckpointSeen(*KEY, 1, is_good=True), CheckpointSeen(*KEY, 2, False, "full"))
    assert said(state) == seen
    assert said(state) == ()
    state.disconnected()
    assert said(state) == seen


def test_a_job_ends_when_the_checkpoint_that_was_to_end_it_is_written():
    state = running()
    state.take_effects(1, [SendSignal(*KEY, 1, END)], 20 * S)
    assert state.take_news([written(1, ends=True, detail="full")], 50 * S) == []
    (order,) = state.take_news([written(2, ends=True)], 51 * S)
    assert order == Signal(*KEY, 9, EndCause.CHKPNT, STEP_KILL)
    state.take_news([Ended(*KEY, 10 * S, 52 * S, 137, 9)], 52 * S)
    (end,) = state.reports(53 * S).ended
    assert end.cause == EndCause.CHKPNT


def present(**more: object) -> Listing:
    given = Present(*KEY, "", 77, 10 * S, 0, 0, 1, 0, 0, 0, reported=False, **more)
    return Listing(given, launch(Checkpoints("/ck", period_us=20 * S)), None)


def test_a_worker_that_has_just_come_goes_on_where_the_last_one_was():
    state = HostState()
    outcome = Outcome(3, ends=False, is_good=True)
    assert state.take_list([present(saved_us=40 * S, outcome=outcome)], 45 * S) == []
    assert state.next_due_us() == 60 * S
    assert said(state) == (CheckpointSeen(*KEY, 3, is_good=True),)
    state = HostState()
    found = state.take_list([present(saved_us=40 * S, outcome=Outcome(1, True, True))], 45 * S)
    assert found == [Signal(*KEY, 9, EndCause.CHKPNT, STEP_KILL)]


def test_a_request_that_an_earlier_shepherd_did_not_get_is_repeated():
    state = running()
    state.take_effects(1, [SendSignal(*KEY, 2, END)], 20 * S)
    (again,) = state.take_list([present()], 30 * S)
    assert of(again) == (True, False, 2)


def test_the_program_is_told_where_to_write_and_how_and_finds_a_clean_environment():
    action = Checkpoint(launch(Checkpoints("/ck", "mine")), *KEY, ends=True, forced=True, count=4)
    order = checkpoint_order(action, "h1", Accounts())
    shared = order.shared
    assert shared.argv == ["/programs/echkpnt.mine", "-f", "-k", "-d", "/ck/1"]
    assert (order.count, shared.ends, shared.limit_us, shared.cwd) == (4, True, 9, "/w")
    told = {name: shared.env[name] for name in shared.env if name.startswith("LSB_E")}
    assert told["LSB_ECHKPNT_METHOD"] == "mine"
    assert told["LSB_ECHKPNT_METHOD_DIR"] == "/programs"
    assert (shared.env["LSB_CHKPNT_DIR"], shared.env["LS_EXEC_T"]) == ("/ck/1", "CHKPNT")
    action = Checkpoint(launch(Checkpoints("/ck")), 1, 7, 1)
    assert checkpoint_order(action, "h1", Accounts()).shared.env["LSB_CHKPNT_DIR"] == "/ck/1[7]"


def test_another_period_counts_from_the_last_one_and_outlives_the_worker():
    state = running(Checkpoints("/ck", period_us=20 * S))
    state.tick(30 * S)
    limits = SetLimits(*KEY, 0, 0, 0, 0, checkpoint_period_us=60 * S)
    order, *_ = state.take_effects(1, [limits], 31 * S)
    assert order == SetLimit(*KEY, 0, (0, 0, 0, 0, 60 * S))
    assert state.next_due_us() == 90 * S
    assert state.take_effects(1, [limits], 32 * S) == []
    state.take_effects(1, [SetLimits(*KEY, 0, 0, 0, 0)], 33 * S)
    assert state.next_due_us() is None
    state = HostState()
    state.take_list([present(saved_us=30 * S, limits=order.limits)], 45 * S)
    assert state.next_due_us() == 90 * S


def test_another_period_does_not_repeat_the_warning():
    state = running(Checkpoints("/ck"), run_limit_us=60 * S, warning_signal=10, warning_us=30 * S)
    assert state.tick(40 * S)[1:] == [Signal(*KEY, 10)]
    state.take_effects(1, [SetLimits(*KEY, 60 * S, 0, 0, 0, 500 * S)], 41 * S)
    assert state.next_due_us() == 70 * S
    state.take_effects(1, [SetLimits(*KEY, 90 * S, 0, 0, 0, 500 * S)], 42 * S)
    assert state.tick(70 * S)[1:] == [Signal(*KEY, 10)]
