"""Parts of attempts on other hosts: who leads, who follows, and when the whole is over."""

import pytest

from xce.model.checkpoint import request_number
from xce.model.effect import Launch, SendSignal, SetLimits, SetSuspended, Terminate
from xce.model.job import EndCause, JobSpec, Owner
from xce.model.task import HoldPart, PartSeen
from xce.worker.action import (
    Ended,
    Forget,
    Lead,
    Listing,
    Present,
    SetLimit,
    Signal,
    Spawn,
    SpawnPart,
    Started,
    Suspend,
    Suspended,
    Usage,
)
from xce.worker.core import HostState
from xce.worker.ending import STEP_INT, STEP_KILL
from xce.worker.parts import EARLIER, GONE, HOLD_US

S = 1_000_000
KEY = (1, 0, 1)


def launch(attempt: int = 1, mem_limit_kib: int = 0) -> Launch:
    return Launch(
        1, [0], [attempt], JobSpec(command="x", mem_limit_kib=mem_limit_kib),
        Owner("u", 1000, 1000), "normal", "p", "c", (("h1", 1), ("h2", 1)), 2, 0, 0, 600 * S,
        10 * S,
    )  # fmt: skip


def hold(**more: object) -> HoldPart:
    fields: dict[str, object] = {
        "suspended": False, "number": 0, "signal": 0, "cause": EndCause.NONE, "step": 0,
        "mem_limit_kib": 0, "wait_us": HOLD_US,
    }  # fmt: skip
    return HoldPart(**(fields | more))  # type: ignore[arg-type]


def ended(**more: object) -> Ended:
    return Ended(*KEY, 10 * S, 20 * S, **more)  # type: ignore[arg-type]


def present(**more: object) -> Present:
    fields: dict[str, object] = {
        "pid": 77, "started_us": 10 * S, "suspended_us": 0, "stopped_us": 0, "number": 0,
        "cause": 0, "step": 0, "step_us": 0, "reported": False,
    }  # fmt: skip
    return Present(*KEY, "", **(fields | more))  # type: ignore[arg-type]


@pytest.fixture
def first() -> HostState:
    """The first host: the attempt runs, and may have a part on h2."""
    state = HostState()
    state.take_effects(1, [launch()], 0)
    state.take_news([Started(*KEY, 77, 10 * S)], 10 * S)
    state.reports(10 * S)
    state.acknowledged(1, 10 * S)
    assert state.parts.lead(KEY, "h2") == Lead(*KEY, "h2")
    return state


@pytest.fixture
def other() -> HostState:
    """Another host, which has a part."""
    state = HostState()
    assert state.join_part(launch(), 0, 1, 0) == ([SpawnPart(launch(), 0, 1)], "")
    return state


def wanted(state: HostState) -> HoldPart:
    ((key, host, found),) = state.parts.wanted()
    assert (key, host) == (KEY, "h2")
    return found


def test_a_host_is_written_down_once_before_it_has_a_part(first: HostState) -> None:
    assert first.parts.lead(KEY, "h2") is None
    assert wanted(first) == hold()


def test_an_attempt_that_is_being_ended_gets_no_part(first: HostState) -> None:
    first.take_effects(1, [Terminate(*KEY, EndCause.OWNER)], 20 * S)
    assert first.parts.lead(KEY, "h3") == "the job is being ended"
    assert first.parts.lead((9, 0, 1), "h3") == "the job is being ended"


def test_what_becomes_of_the_attempt_becomes_of_its_part(first: HostState) -> None:
    first.take_effects(1, [SetSuspended(*KEY, suspended=True)], 20 * S)
    assert wanted(first) == hold(suspended=True)
    first.take_effects(1, [SetLimits(*KEY, 0, 4096, 0)], 20 * S)
    assert wanted(first).mem_limit_kib == 4096
    first.take_effects(1, [Terminate(*KEY, EndCause.OWNER)], 21 * S)
    now = wanted(first)
    assert (now.suspended, now.cause, now.step) == (False, EndCause.OWNER, STEP_INT)


def test_an_attempt_is_over_when_its_part_is_gone_and_what_it_used_is_added(
    first: HostState,
) -> None:
    assert first.take_news([ended(exit_code=3, user_us=5, max_mem_kib=100)], 20 * S) == []
    assert first.reports(20 * S) is None
    assert wanted(first).step == STEP_KILL
    first.parts.take_word(KEY, "h2", PartSeen(), 21 * S)
    assert first.reports(21 * S) is None
    first.parts.take_word(KEY, "h2", PartSeen(True, EndCause.NONE, 7, 1, 50, 2, 3), 22 * S)
    batch = first.reports(22 * S)
    assert batch is not None
    (end,) = batch.ended
    assert (end.exit_code, end.user_us, end.system_us, end.max_mem_kib) == (3, 12, 1, 150)
    assert first.parts.wanted() == []


def test_what_a_part_used_that_is_gone_earlier_is_not_forgotten(first: HostState) -> None:
    first.parts.take_word(KEY, "h2", PartSeen(is_gone=True, user_us=7), 15 * S)
    first.take_news([ended(user_us=5)], 20 * S)
    batch = first.reports(20 * S)
    assert batch is not None
    assert batch.ended[0].user_us == 12


def test_what_a_part_used_counts_once_though_it_is_asked_about_again(first: HostState) -> None:
    first.parts.take_word(KEY, "h2", PartSeen(is_gone=True, user_us=7), 15 * S)
    # Another shepherd tells again where parts may be.
    first.take_list([Listing(present(parts=("h2",)), launch(), None)], 16 * S)
    first.parts.take_word(KEY, "h2", PartSeen(is_gone=True, user_us=7), 17 * S)
    first.take_list([Listing(present(parts=("h2",)), launch(), None)], 18 * S)
    first.parts.take_word(KEY, "h2", PartSeen(is_gone=True), 19 * S)
    first.take_news([ended(user_us=5)], 20 * S)
    batch = first.reports(20 * S)
    assert batch is not None
    assert batch.ended[0].user_us == 12


def test_a_host_that_finds_a_reason_to_end_the_attempt_ends_it_all(first: HostState) -> None:
    actions = first.parts.take_word(KEY, "h2", PartSeen(cause=EndCause.MEMLIMIT), 20 * S)
    assert actions == [Signal(*KEY, 2, EndCause.MEMLIMIT, STEP_INT)]
    assert wanted(first).cause is EndCause.MEMLIMIT


def test_a_worker_that_comes_again_knows_where_parts_may_be(first: HostState) -> None:
    again = HostState()
    again.take_list([Listing(present(parts=("h2",)), launch(), None)], 30 * S)
    assert wanted(again) == hold()


def test_an_end_that_was_not_told_yet_still_waits_for_the_part_after_a_restart() -> None:
    again = HostState()
    again.take_list([Listing(present(parts=("h2",)), launch(), ended())], 30 * S)
    early = again.reports(30 * S)
    assert early is not None
    assert (len(early.started), early.ended) == (1, ())
    again.parts.take_word(KEY, "h2", PartSeen(is_gone=True), 31 * S)
    batch = again.reports(31 * S)
    assert batch is not None
    assert len(batch.ended) == 1


def test_a_shepherd_that_does_not_know_of_a_part_is_told_again(first: HostState) -> None:
    assert Lead(*KEY, "h2") in first.take_list([Listing(present(), launch(), None)], 30 * S)


def test_a_part_is_made_once_and_the_controller_hears_nothing_of_it(other: HostState) -> None:
    assert other.join_part(launch(), 0, 1, S) == ([], "")
    assert other.reports(S) is None
    assert [(one.job, one.attempt) for one in other.joined()[0]] == [(1, 1)]


def test_a_part_follows_and_a_repeat_changes_nothing(other: HostState) -> None:
    assert other.parts.hold(KEY, hold(suspended=True), S) == [Suspend(*KEY, suspended=True)]
    assert other.parts.hold(KEY, hold(suspended=True), S) == []
    other.take_news([Suspended(*KEY, suspended=True)], S)
    assert other.reports(S) is None
    signalled = hold(suspended=True, number=1, signal=10)
    assert other.parts.hold(KEY, signalled, S) == [Signal(*KEY, 10, count=1)]
    assert other.parts.hold(KEY, signalled, S) == []
    (limit,) = other.parts.hold(KEY, hold(suspended=True, number=1, mem_limit_kib=64), S)
    assert isinstance(limit, SetLimit)
    step = hold(step=STEP_INT, cause=EndCause.OWNER, number=1, mem_limit_kib=64)
    assert other.parts.hold(KEY, step, S) == [Signal(*KEY, 2, EndCause.OWNER, STEP_INT)]
    assert other.next_due_us() is None, "whoever leads keeps time"


def test_a_part_that_is_killed_is_killed_again_until_it_is_gone(other: HostState) -> None:
    kill = Signal(*KEY, 9, EndCause.NONE, STEP_KILL)
    assert other.parts.hold(KEY, hold(step=STEP_KILL), S) == [kill]
    due_us = other.next_due_us()
    assert due_us is not None
    assert other.tick(due_us) == [kill]


def test_a_part_that_is_gone_tells_what_it_used_and_is_not_made_again(other: HostState) -> None:
    other.parts.hold(KEY, hold(step=STEP_KILL), S)
    assert other.take_news([ended(user_us=4)], 2 * S) == [Forget(*KEY, keep=False)]
    assert other.parts.seen(KEY) == PartSeen(is_gone=True, user_us=4)
    batch = other.reports(2 * S)
    assert batch is not None
    assert (batch.ended, batch.gone) == ((), (KEY,))
    assert other.join_part(launch(), 0, 1, 2 * S) == ([], GONE)


def test_a_part_that_is_not_there_yet_is_waited_for_unless_it_shall_end() -> None:
    state = HostState()
    state.parts.hold(KEY, hold(), S)
    assert not state.parts.seen(KEY).is_gone
    state.parts.hold(KEY, hold(step=STEP_KILL), S)
    assert state.parts.seen(KEY).is_gone
    assert state.join_part(launch(), 0, 1, 2 * S) == ([], GONE), "what was on its way comes late"


def test_a_part_with_too_much_memory_says_so(other: HostState) -> None:
    state = HostState()
    state.join_part(launch(mem_limit_kib=100), 0, 1, 0)
    state.take_news([Usage(*KEY, 200, out_of_memory=False)], S)
    assert state.parts.seen(KEY) == PartSeen(cause=EndCause.MEMLIMIT)


def test_a_part_of_a_newer_attempt_waits_until_the_older_one_is_killed(other: HostState) -> None:
    actions, trouble = other.join_part(launch(2), 0, 2, S)
    assert trouble == EARLIER
    assert actions == [Signal(*KEY, 9, EndCause.HOST_LOST, STEP_KILL)]
    other.take_news([ended()], 2 * S)
    assert other.join_part(launch(2), 0, 2, 3 * S)[1] == ""


def test_an_older_attempt_has_no_part_here_any_more() -> None:
    state = HostState()
    state.join_part(launch(2), 0, 2, 0)
    assert state.join_part(launch(), 0, 1, 0) == ([], GONE)


def test_a_part_given_up_by_the_controller_is_killed_and_reported_gone(other: HostState) -> None:
    effect = Terminate(*KEY, EndCause.NONE, force=True, forget=True)
    assert other.take_effects(1, [effect], S) == [Signal(*KEY, 9, EndCause.NONE, STEP_KILL)]
    other.take_news([ended()], 2 * S)
    batch = other.reports(2 * S)
    assert batch is not None
    assert batch.gone == (KEY,)


def test_a_part_is_found_again_by_another_worker_and_made_again_for_another_shepherd(
    other: HostState,
) -> None:
    again = HostState()
    again.take_list([Listing(present(pid=0, is_part=True), launch(), None)], S)
    assert again.join_part(launch(), 0, 1, S) == ([], "")
    assert again.reports(S) is None
    assert other.take_list([], S) == [SpawnPart(launch(), 0, 1)]


def test_the_end_of_a_part_that_nobody_waits_for_is_forgotten() -> None:
    state = HostState()
    actions = state.take_list([Listing(present(pid=0, is_part=True), launch(), ended())], S)
    assert actions == [Forget(*KEY, keep=False)]
    assert state.parts.seen(KEY).is_gone


def test_a_newer_launch_waits_until_a_part_is_gone(other: HostState) -> None:
    actions = other.take_effects(1, [launch(2)], S)
    assert Signal(*KEY, 2, EndCause.HOST_LOST, STEP_INT) in actions
    assert other.take_news([ended()], 2 * S)[-1] == Spawn(launch(2), [(0, 2)])


def test_requests_for_checkpoints_are_none_of_the_parts_concern(first):
    request = request_number(ends=True, forced=False)
    first.take_effects(2, [SendSignal(*KEY, 1, 10), SendSignal(*KEY, 2, request)], 11 * S)
    assert (wanted(first).number, wanted(first).signal) == (1, 10)
