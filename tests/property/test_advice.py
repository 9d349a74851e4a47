"""What is suggested works, who is named must end, on random small clusters."""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from placement import HostShape, alternatives, build, clusters, compound, loads, simple

from xce.advice.advise import Advice, Suggestion, advise, first_waiting, resubmission
from xce.advice.forecast import forecast
from xce.advice.trials import Element, Trials, find_start
from xce.model.command import Accepted, ApplyConfig, ProposePlan, SetHostsOpen, SubmitJobs
from xce.model.config import QueueConfig
from xce.model.ids import MINUTE_US
from xce.model.reason import NEW, ReasonCode, render_lsf, render_plain
from xce.model.request import Request
from xce.sched.session import run_session
from xce.state.snapshot import dump, load
from xce.state.view import pend_reason
from xce.testing.builders import (
    ALICE,
    BOB,
    RecordedController,
    kill,
    report_ended,
    report_started,
    resume,
    stop,
    submission,
    try_submit,
)


@dataclass
class Waiting:
    """One more job of a case."""

    asks: Request
    limit_min: int
    queue: str
    is_array: bool
    array_limit: int
    is_held: bool
    is_bobs: bool


requests = st.one_of(simple(), simple(), compound(), alternatives())
jobs = st.builds(
    Waiting,
    requests,
    st.sampled_from([0, 5, 10, 30]),
    st.sampled_from(["normal", "normal", "small"]),
    st.sampled_from([False, False, True]),
    st.sampled_from([0, 1]),
    st.sampled_from([False, False, False, True]),
    st.booleans(),
)
policies = st.tuples(
    st.sampled_from(["none", "none", "easy", "conservative"]),
    st.sampled_from(["fcfs", "fcfs", "sjf", "fairshare"]),
    st.sampled_from([False, False, True]),
)


def make(
    shape: list[HostShape],
    load: list[tuple[int, int]],
    wanted: list[Waiting],
    policy: tuple[str, str, bool],
) -> RecordedController:
    """Return a cluster on which some of ``wanted`` run and others wait."""
    controller = build(shape, load)
    backfill, order, is_closed = policy
    if is_closed:
        controller.tell(SetHostsOpen("root", ("h2",), False, is_admin=True), by="root")
    queues = (
        QueueConfig(
            name="normal",
            priority=30,
            default=True,
            exclusive=True,
            backfill=backfill,
            policy=order,
        ),
        QueueConfig(name="small", priority=40, tasks_max=3, hosts=("h1", "h2"), exclusive=True),
    )
    config = replace(controller.state.config, queues=queues)
    controller.tell(ApplyConfig("root", config), by="root")
    for item in wanted:
        sent = submission(
            asks=item.asks,
            run_limit_us=item.limit_min * MINUTE_US,
            queue=item.queue,
            elements="1-3" if item.is_array else "",
            name="a" if item.is_array else "",
            limit=item.array_limit if item.is_array else 0,
        )
        (result,) = try_submit(controller, sent, owner=BOB if item.is_bobs else ALICE)
        if isinstance(result, Accepted):
            if item.is_held:
                stop(controller, result.job, by="bob" if item.is_bobs else "alice")
            session(controller)
    return controller


def session(controller: RecordedController) -> None:
    """Run sessions until nothing starts any more, and let what is placed run."""
    for _ in range(4):
        plan = run_session(controller.state, now_us=controller.now_us)
        if plan.is_empty:
            break
        controller.tell(ProposePlan(plan), by="scheduler")
    for job in list(controller.state.jobs.values()):
        for position in list(job.live or {}):
            report_started(controller, job.id, job.index(position))


def copied(controller: RecordedController) -> RecordedController:
    return RecordedController(load(dump(controller.state)), now_us=controller.now_us)


def starts(controller: RecordedController, element: Element) -> bool:
    """Return whether the next session starts an element."""
    plan = run_session(controller.state, now_us=controller.now_us)
    controller.tell(ProposePlan(plan), by="scheduler")
    planned = find_start(plan, controller.state, element)
    position = controller.job(element[0]).position(element[1])
    assert bool(planned) == (position in (controller.job(element[0]).live or {}))
    return planned is not None


def apply_suggestion(
    controller: RecordedController, element: Element, suggestion: Suggestion
) -> None:
    """Do what is suggested, as a user would, and see the job start at once."""
    job_id, index = element
    job = controller.job(job_id)
    other = copied(controller)
    run = (job_id, index, index)
    if [change.kind for change in suggestion.changes] == ["hold"]:
        resume(other, run, by=job.owner.user)
        assert starts(other, element)
        return
    if suggestion.wish.opened:
        other.tell(SetHostsOpen("root", suggestion.wish.opened, True, is_admin=True), by="root")
    if [change.kind for change in suggestion.changes] == ["open"]:
        assert starts(other, element)
        return
    kill(other, run, by=job.owner.user)
    sent = resubmission(controller.state, job, index, suggestion.wish)
    (result,) = other.tell(SubmitJobs(job.owner, (sent,)), by=job.owner.user)
    assert isinstance(result, Accepted), result
    assert starts(other, (result.job, index)), suggestion


def check_blockers(controller: RecordedController, element: Element, advice: Advice) -> None:
    """End those who are named, all and all but one of them."""
    blockage = advice.blockage
    named = [(one.job, one.index) for one in blockage.blockers]
    for spared in [None, *named]:
        other = copied(controller)
        if blockage.ahead:
            for found in list(other.state.jobs.values()):
                if found.id != element[0] and found.pending:
                    kill_waiting(other, found.id)
        for name in named:
            if name != spared:
                report_ended(other, *name)
        assert starts(other, element) == (spared is None), (named, spared, blockage)


def kill_waiting(controller: RecordedController, job_id: int) -> None:
    job = controller.job(job_id)
    for first, last in job.pending:
        kill(controller, (job_id, job.index(first), job.index(last)), by=job.owner.user)


def check_case(controller: RecordedController) -> int:
    told = 0
    for job in list(controller.state.jobs.values()):
        index = first_waiting(job)
        if index is None:
            continue
        reason = pend_reason(controller.state, job, held=not job.pending)
        assert render_plain(reason, now_us=controller.now_us)
        assert job.waits or reason != NEW or not job.pending
        before = dump(controller.state)
        advice = advise(Trials(controller.state, controller.now_us), (job.id, index))
        assert dump(controller.state) == before, "advice changed the state"
        assert render_plain(advice.reason, now_us=controller.now_us)
        for suggestion in advice.suggestions:
            apply_suggestion(controller, (job.id, index), suggestion)
        if advice.blockage.blockers or advice.blockage.ahead:
            check_blockers(controller, (job.id, index), advice)
        expected = forecast(copied(controller).state, (job.id, index), controller.now_us)
        assert not expected.at_us or expected.at_us >= controller.now_us
        told += len(advice.suggestions) + len(advice.blockage.blockers)
    return told


def check_reasons(controller: RecordedController) -> None:
    """No element pends without a reason that says something, in plain words and in LSF's."""
    for job in controller.state.jobs.values():
        for held in (False, True):
            if not (job.held if held else job.pending):
                continue
            reason = pend_reason(controller.state, job, held=held)
            assert reason.code != NEW.code
            text = render_plain(reason, now_us=controller.now_us)
            lines = render_lsf(reason)
            assert text
            assert lines
            assert all(line and "{" not in line and not line.startswith(":") for line in lines)
            assert "{" not in text
            if reason.code in (ReasonCode.PARTS, ReasonCode.ALTERNATIVES, ReasonCode.HOSTS):
                has_more = reason.host_reasons or reason.under
                assert has_more or reason.needed, "it says nothing about hosts"


SHARE = settings(
    max_examples=50, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
LONG = settings(max_examples=3_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SHARE
@given(
    shape=clusters(3),
    load=loads,
    wanted=st.lists(jobs, min_size=1, max_size=4),
    policy=policies,
)
def test_every_suggestion_works_and_every_blocker_is_in_the_way(
    shape: list[HostShape],
    load: list[tuple[int, int]],
    wanted: list[Waiting],
    policy: tuple[str, str, bool],
) -> None:
    check_case(make(shape, load, wanted, policy))


@settings(SHARE, max_examples=200)
@given(
    shape=clusters(),
    load=loads,
    wanted=st.lists(jobs, min_size=1, max_size=5),
    policy=policies,
)
def test_no_job_pends_without_a_reason(
    shape: list[HostShape],
    load: list[tuple[int, int]],
    wanted: list[Waiting],
    policy: tuple[str, str, bool],
) -> None:
    check_reasons(make(shape, load, wanted, policy))


@pytest.mark.long
@pytest.mark.timeout(7200)
@LONG
@given(
    shape=clusters(),
    load=loads,
    wanted=st.lists(jobs, min_size=1, max_size=6),
    policy=policies,
)
def test_long_every_suggestion_works_and_every_blocker_is_in_the_way(
    shape: list[HostShape],
    load: list[tuple[int, int]],
    wanted: list[Waiting],
    policy: tuple[str, str, bool],
) -> None:
    check_case(make(shape, load, wanted, policy))
