"""Suggestions and blockers on small clusters."""

import pytest

from xce.advice.advise import Advice, advise
from xce.advice.forecast import Forecast, forecast
from xce.advice.trials import Trials
from xce.model.command import ProposePlan, ResolveWindows, SetHostsOpen
from xce.model.config import HostConfig, QueueConfig, WindowConfig
from xce.model.constraint import Colocate, Near
from xce.model.device import Device, GpuWish
from xce.model.ids import MINUTE_US, Index, JobId
from xce.model.reason import ReasonCode, render_plain
from xce.model.request import Amount, Part, Request
from xce.sched.session import run_session
from xce.state.snapshot import dump, load
from xce.testing.builders import (
    BOB,
    RecordedController,
    cluster,
    kill,
    report_ended,
    report_started,
    request,
    stop,
    submission,
    submit,
)

NORMAL = QueueConfig(name="normal", priority=30, default=True, exclusive=True)
NIGHT = QueueConfig(name="night", priority=20, hosts=("h2",))


def run(controller: RecordedController) -> None:
    """Run one session and have its plan taken."""
    plan = run_session(controller.state, now_us=controller.now_us)
    controller.tell(ProposePlan(plan), by="scheduler")


def start(controller: RecordedController, *items: object, **options: object) -> JobId:
    job = submit(controller, submission(**options))
    run(controller)
    assert controller.job(job).live, "it does not run"
    report_started(controller, job)
    return job


def ask(controller: RecordedController, job: JobId, index: Index = 0) -> Advice:
    before = dump(controller.state)
    found = advise(Trials(controller.state, controller.now_us), (job, index))
    assert dump(controller.state) == before
    return found


def foresee(controller: RecordedController, job: JobId, index: Index = 0) -> Forecast:
    state = load(dump(controller.state))
    return forecast(state, (job, index), controller.now_us)


def texts(advice: Advice) -> list[str]:
    return [" and ".join(one.text for one in item.changes) for item in advice.suggestions]


def test_fewer_tasks_are_the_most_that_fit() -> None:
    controller = cluster({"h1": 4, "h2": 4})
    running = start(controller, tasks=3, run_limit_us=10 * MINUTE_US)
    job = submit(controller, submission(tasks=7))
    run(controller)
    found = ask(controller, job)
    assert texts(found) == ["5 tasks instead of 7"]
    assert [one.job for one in found.blockage.blockers] == [running]
    expected = foresee(controller, job)
    began = controller.attempt(running).started_at_us
    assert expected.at_us == began + 10 * MINUTE_US
    assert expected.start is not None


def test_less_memory_another_queue_and_no_select_are_found() -> None:
    controller = cluster({"h1": 4, "h2": 4}, queues=[NORMAL, NIGHT])
    asks = Request(select="hname == 'h1'", amounts=request(mem_mib=9_000).amounts)
    job = submit(controller, submission(asks=asks))
    run(controller)
    found = ask(controller, job)
    assert found.reason.unsatisfiable
    assert texts(found) == ["8192 MiB of mem instead of 9000 MiB"]
    start(controller, tasks=4, asks=request(4, hosts=["h1"]))
    job = submit(controller, submission(asks=Request(select="hname == 'h1'")))
    run(controller)
    assert texts(ask(controller, job)) == ["also hosts that do not satisfy hname == 'h1'"]


def test_two_changes_are_tried_where_none_helps_alone() -> None:
    controller = cluster({"h1": 4, "h2": 2}, queues=[NORMAL])
    start(controller, asks=request(3, hosts=["h1"]))
    asks = Request(
        tasks_min=2,
        tasks_max=2,
        one_host=True,
        select="hname == 'h1'",
        amounts=request(mem_mib=3_000).amounts,
    )
    job = submit(controller, submission(asks=asks))
    run(controller)
    found = ask(controller, job)
    assert "1 task instead of 2" in texts(found)
    asks = Request(tasks_min=3, tasks_max=3, ptile=3, exclusive=True)
    job = submit(controller, submission(asks=asks))
    run(controller)
    found = ask(controller, job)
    assert len(found.suggestions) >= 1
    assert found.trials < 100


def test_a_held_job_is_released() -> None:
    controller = cluster({"h1": 4})
    job = submit(controller, submission(hold=True))
    found = ask(controller, job)
    assert found.reason.code is ReasonCode.HELD
    assert texts(found) == ["released"]
    assert found.suggestions[0].changes[0].option == f"bresume {job}"


def test_begin_time_dependency_and_array_limit_are_gates() -> None:
    controller = cluster({"h1": 4})
    first = start(controller)
    later = submit(controller, submission(begin_at_us=controller.now_us + 30 * MINUTE_US))
    after = submit(controller, submission(after=f"done({first})"))
    array = submit(controller, submission(name="a", elements="1-3", limit=1))
    run(controller)
    assert texts(ask(controller, later)) == ["without a begin time"]
    assert foresee(controller, later).at_us == controller.job(later).begin_at_us
    found = ask(controller, after)
    assert found.waits_for == (first,)
    assert texts(found) == [f"without the dependency done({first})"]
    assert foresee(controller, after).at_us == 0
    found = ask(controller, array, 2)
    assert texts(found) == ["without the array's limit of 1"]
    assert [(one.job, one.index) for one in found.blockage.blockers] == [(array, 1)]


def test_who_is_in_front_is_told() -> None:
    controller = cluster({"h1": 4})
    running = start(controller, tasks=3, run_limit_us=5 * MINUTE_US)
    wide = submit(controller, submission(tasks=4, run_limit_us=MINUTE_US), owner=BOB)
    job = submit(controller, submission(tasks=2))
    run(controller)
    found = ask(controller, job)
    assert found.blockage.ahead == 1
    assert [one.job for one in found.blockage.blockers] == [running]
    expected = foresee(controller, job)
    assert expected.at_us == controller.attempt(running).started_at_us + 6 * MINUTE_US
    assert wide


def test_a_shorter_run_limit_fits_before_a_reservation() -> None:
    queue = QueueConfig(name="normal", priority=30, default=True, backfill="easy")
    controller = cluster({"h1": 4}, queues=[queue])
    start(controller, tasks=2, run_limit_us=30 * MINUTE_US)
    submit(controller, submission(tasks=4, run_limit_us=MINUTE_US))
    job = submit(controller, submission(tasks=2, run_limit_us=90 * MINUTE_US))
    run(controller)
    found = ask(controller, job)
    assert found.reason.code is ReasonCode.RESERVED
    assert texts(found) == ["a run limit of 29 minutes instead of 90 minutes"]


def test_a_job_that_fits_is_said_to_start() -> None:
    controller = cluster({"h1": 4})
    job = submit(controller, submission(tasks=2))
    found = ask(controller, job)
    assert found.start is not None
    assert (found.start.hosts, found.start.tasks) == (("h1",), (2,))
    assert foresee(controller, job).start == found.start


def test_stopped_by_admin_is_held_too() -> None:
    controller = cluster({"h1": 4})
    start(controller, tasks=4)
    job = submit(controller, submission(tasks=2))
    stop(controller, job)
    found = ask(controller, job)
    assert found.suggestions == ()
    assert found.trials > 1


def test_another_queue_is_tried_where_the_own_one_starts_nothing() -> None:
    idle = QueueConfig(name="idle", priority=50, active=False)
    private = QueueConfig(name="private", priority=45, users=("bob",))
    controller = cluster({"h1": 4, "h2": 4}, queues=[NORMAL, NIGHT, idle, private])
    job = submit(controller, submission(queue="idle"))
    run(controller)
    found = ask(controller, job)
    assert found.reason.code is ReasonCode.QUEUE_CLOSED
    assert texts(found) == ["in queue normal", "in queue night"]
    assert found.suggestions[1].hosts == ("h2",)
    assert foresee(controller, job).at_us == 0


def test_a_window_that_opens_is_foreseen() -> None:
    windows = (WindowConfig(start_min=0, end_min=60),)
    night = QueueConfig(name="normal", priority=30, default=True, run_windows=windows)
    controller = cluster({"h1": 4}, queues=[night])
    opens_us = controller.now_us + 90 * MINUTE_US
    resolved = ResolveWindows((("normal", ((opens_us, opens_us + 60 * MINUTE_US),)),))
    controller.tell(resolved)
    job = submit(controller, submission())
    run(controller)
    found = ask(controller, job)
    assert found.reason.code is ReasonCode.WINDOW
    assert found.suggestions == ()
    assert foresee(controller, job).at_us == opens_us


def test_a_job_that_would_outlast_the_window_may_run_shorter() -> None:
    windows = (WindowConfig(start_min=0, end_min=60),)
    night = QueueConfig(name="normal", priority=30, default=True, run_windows=windows)
    controller = cluster({"h1": 4}, queues=[night])
    closes_us = controller.now_us + 45 * MINUTE_US + MINUTE_US // 2
    controller.tell(ResolveWindows((("normal", ((controller.now_us, closes_us),)),)))
    job = submit(controller, submission(run_limit_us=60 * MINUTE_US))
    run(controller)
    found = ask(controller, job)
    assert found.reason.code is ReasonCode.DEADLINE
    assert texts(found) == ["a run limit of 45 minutes instead of 60 minutes"]


def test_less_of_a_pool_is_found() -> None:
    controller = cluster({"h1": 8}, pools={"lic": 5})
    lic = Amount("lic", 4, per="job")
    holder = start(controller, asks=Request(amounts=(lic,)), run_limit_us=MINUTE_US)
    job = submit(controller, submission(asks=Request(amounts=(lic,))))
    run(controller)
    found = ask(controller, job)
    assert found.reason.code is ReasonCode.POOL
    assert texts(found) == ["1 of lic per job instead of 4"]
    assert [one.job for one in found.blockage.blockers] == [holder]
    assert foresee(controller, job).at_us == controller.attempt(holder).started_at_us + MINUTE_US


def test_those_who_give_way_are_the_blockers_of_who_preempts() -> None:
    low = QueueConfig(name="low", priority=10, default=True, preemption="requeue")
    high = QueueConfig(name="high", priority=50, preempt=("low",))
    controller = cluster({"h1": 2}, queues=[low, high])
    victim = start(controller, tasks=2)
    job = submit(controller, submission(tasks=2, queue="high"))
    run(controller)
    run(controller)
    found = ask(controller, job)
    assert found.reason.code is ReasonCode.PREEMPTING
    assert found.suggestions == ()
    assert [one.job for one in found.blockage.blockers] == [victim]
    expected = foresee(controller, job)
    assert expected.at_us - controller.now_us < MINUTE_US
    assert expected.at_us


def test_parts_are_relaxed_one_by_one() -> None:
    controller = cluster({"h1": 4, "h2": 4}, queues=[NORMAL])
    start(controller, asks=request(3, hosts=["h2"]))
    big = Request(tasks_min=4, tasks_max=4, one_host=True)
    small = Request(tasks_min=2, tasks_max=2, one_host=True)
    asks = Request(tasks_min=6, tasks_max=6, parts=(Part("big", 4, big), Part("small", 2, small)))
    job = submit(controller, submission(asks=asks))
    run(controller)
    found = ask(controller, job)
    assert found.reason.code is ReasonCode.PARTS
    assert texts(found) == [
        "2 tasks instead of 4 in part big",
        "1 task instead of 2 in part small",
    ]


def test_a_bound_on_trials_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xce.advice.advise.TRIALS_MAX", 4)
    controller = cluster({"h1": 4, "h2": 4})
    for _ in range(6):
        start(controller, tasks=1)
    job = submit(controller, submission(tasks=8))
    run(controller)
    found = ask(controller, job)
    assert found.blockage.is_cut
    assert found.blockage.blockers == ()


def test_those_over_their_time_end_at_once() -> None:
    controller = cluster({"h1": 2})
    start(controller, tasks=2, run_limit_us=MINUTE_US)
    job = submit(controller, submission(tasks=2))
    controller.now_us += 10 * MINUTE_US
    run(controller)
    expected = foresee(controller, job)
    assert 0 < expected.at_us - controller.now_us < MINUTE_US


def test_a_closed_host_may_be_opened() -> None:
    controller = cluster({"h1": 4, "h2": 4})
    controller.tell(SetHostsOpen("root", ("h1", "h2"), False, is_admin=True), by="root")
    job = submit(controller, submission(tasks=2))
    run(controller)
    assert texts(ask(controller, job)) == ["host h1 opened", "host h2 opened"]
    kill(controller, job)
    wide = submit(controller, submission(tasks=6))
    run(controller)
    assert texts(ask(controller, wide)) == ["hosts h1 h2 opened"]


def test_a_job_that_avoids_a_host_may_be_submitted_again() -> None:
    controller = cluster({"h1": 4})
    job = submit(controller, submission(tasks=2))
    run(controller)
    report_ended(controller, job, host_fault=True, exit_code=1)
    run(controller)
    found = ask(controller, job)
    assert texts(found) == ["submitted again as it is: it would avoid no host then"]


def test_a_wider_level_is_found_for_roles_that_lie_together() -> None:
    hosts = [
        HostConfig(name=f"h{at}", slots=2, labels={"switch": f"s{at}", "block": "b1"})
        for at in (1, 2)
    ]
    controller = cluster(hosts, queues=[NORMAL], levels=("switch", "block"))
    part = Part("w", 3, Request(3, 3))
    together = Colocate(0, ("w",), ("switch",))
    job = submit(controller, submission(asks=Request(3, 3, parts=(part,), constraints=(together,))))
    run(controller)
    assert texts(ask(controller, job)) == [
        "w in one block instead of one switch",
        "w only preferably together",
        "2 tasks instead of 3 in part w",
    ]


def unit_in_one_switch() -> Request:
    """Return a request of two roles whose tasks want all GPUs of a host, all in one switch."""
    wish = GpuWish(8, per="task")
    one, more = (Request(count, count, ptile=1, gpu=wish) for count in (1, 3))
    parts = (Part("prefill", 1, one), Part("decode", 3, more))
    together = Colocate(0, ("prefill", "decode"), ("switch",))
    return Request(4, 4, parts=parts, constraints=(together,))


def gpu_hosts(*labels: tuple[str, str, str]) -> list[HostConfig]:
    """Return hosts with eight GPUs each, at these switches, blocks and zones."""
    levels = ("switch", "block", "zone")
    gpus = [
        tuple(Device(place, f"GPU-{at}-{place}") for place in range(8)) for at in range(len(labels))
    ]
    return [
        HostConfig(
            name=f"h{at}", slots=8, labels=dict(zip(levels, names, strict=True)), gpus=gpus[at]
        )
        for at, names in enumerate(labels)
    ]


@pytest.mark.parametrize(
    ("blocks", "first"),
    [
        ("b1 b1 b1 b1 b1 b1", "prefill, decode in one block instead of one switch"),
        ("b1 b1 b1 b2 b2 b2", "prefill, decode in one zone instead of one switch"),
    ],
)
def test_the_nearest_level_that_is_enough_is_named_first(blocks: str, first: str) -> None:
    labels = [(f"s{at // 3}", block, "z1") for at, block in enumerate(blocks.split())]
    controller = cluster(gpu_hosts(*labels), queues=[NORMAL], levels=("switch", "block", "zone"))
    job = submit(controller, submission(asks=unit_in_one_switch()))
    run(controller)
    found = ask(controller, job)
    told = render_plain(found.reason, now_us=0)
    assert "decode: no switch with 3 free near prefill (needs 3 x 8 GPUs; " in told
    assert texts(found)[0] == first


def test_a_job_of_a_group_is_advised_where_the_group_runs() -> None:
    controller = cluster({"h1": 2, "h2": 2}, queues=[NORMAL])
    part = Part("w", 2, Request(2, 2))
    constraints = (
        Colocate(0, ("w",), ("host",)),
        Near(0, ("w",), "group:g", ("host",)),
    )
    asks = Request(2, 2, parts=(part,), constraints=constraints)
    first = submit(controller, submission(asks=asks))
    run(controller)
    second = submit(controller, submission(asks=asks))
    run(controller)
    assert controller.job(first).live
    assert not controller.job(second).live
    assert "w only preferably together" in texts(ask(controller, second))
