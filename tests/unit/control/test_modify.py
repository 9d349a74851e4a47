"""Jobs that are changed after they were submitted, by ``bmod`` and ``bswitch``."""

import msgspec
import pytest

from xce.control.part import as_it_is
from xce.model.command import (
    Accepted,
    ApplyConfig,
    Modification,
    ModifyJobs,
    ProposePlan,
    RequeueJobs,
    ResolveWindows,
    Selection,
    SwitchJobs,
)
from xce.model.config import GrantConfig, QueueConfig, WindowConfig
from xce.model.effect import Launch, SetLimits
from xce.model.ids import SECOND_US
from xce.model.job import Stop
from xce.model.record import StopsChanged
from xce.model.record_modify import JobModified
from xce.model.refusal import Refusal, RefusalCode
from xce.state.job import DOOMED
from xce.state.view import stat_of
from xce.testing.builders import (
    BOB,
    bulk,
    chosen,
    cluster,
    gang,
    join_host,
    kill,
    leave_host,
    modify,
    place,
    plan,
    propose,
    report_ended,
    report_started,
    request,
    run_job,
    submission,
    submit,
    switch,
    tick,
    try_submit,
)
from xce.testing.recorded import check_whole as check

QUEUES = (
    QueueConfig(name="normal", priority=30, default=True),
    QueueConfig(name="night", priority=10, run_limit_us=60 * SECOND_US, tasks_max=2),
    QueueConfig(name="closed", open=False),
    QueueConfig(name="bobs", users=("bob",)),
    QueueConfig(name="alone", exclusive=True),
)


@pytest.fixture
def controller():
    return cluster({"h1": 4, "h2": 4}, queues=QUEUES)


def key(controller, job):
    return controller.state.key(controller.job(job))


def queue_of(controller, job):
    return key(controller, job).queue


def refused(result):
    assert isinstance(result, Refusal), result
    return result.code, result.lsf or result.text


def test_a_pending_job_asks_for_what_it_is_changed_to(controller):
    job = submit(controller, submission(name="a", tasks=4))
    result = modify(
        controller, job, request=request(2, mem_mib=100), name="b", run_limit_us=SECOND_US,
        mem_limit_kib=2048, priority=7, project="p",
    )  # fmt: skip
    assert isinstance(result, Accepted)
    assert (result.text, result.queue) == ("modified", "normal")
    now = key(controller, job)
    assert (now.request, now.run_limit_us) == (request(2, mem_mib=100), SECOND_US)
    assert (now.priority, now.project) == (7, "p")
    assert controller.state.names["alice"] == {"b": job}
    assert list(controller.state.classes) == [controller.job(job).cls], "the old class is gone"
    assert len(controller.state.specs) == 1
    check(controller)
    propose(controller, gang(controller, job, hosts={"h1": 2}))
    (launch,) = [effect for _, effect in controller.effects()]
    assert isinstance(launch, Launch)
    assert (launch.tasks_max, launch.run_limit_us, launch.spec.mem_limit_kib) == (
        2,
        SECOND_US,
        2048,
    )
    check(controller)


def test_jobs_of_one_class_part_and_come_together_again(controller):
    first, second = submit(controller), submit(controller)
    modify(controller, first, priority=1)
    assert controller.job(first).cls != controller.job(second).cls
    modify(controller, second, priority=1)
    assert controller.job(first).cls == controller.job(second).cls
    waiting = controller.state.classes[controller.job(first).cls]
    assert waiting.eligible() == [first, second]
    modify(controller, first, priority=2)
    modify(controller, first, priority=1)
    assert waiting.eligible() == [first, second], "in the order of submission"
    check(controller)


def test_a_change_is_judged_as_a_submission_is(controller):
    job = submit(controller, submission(queue="night"))
    two_minutes = 120 * SECOND_US
    assert refused(modify(controller, job, run_limit_us=two_minutes)) == (
        RefusalCode.OVER_QUEUE_LIMIT, "Cannot exceed queue's hard limit(s)",
    )  # fmt: skip
    assert (
        refused(modify(controller, job, request=request(3)))[1] == "Too many processors requested"
    )
    assert refused(modify(controller, job, request=request(1, exclusive=True))) == (
        RefusalCode.QUEUE_REFUSES_EXCLUSIVE, "Queue does not accept EXCLUSIVE jobs",
    )  # fmt: skip
    assert refused(modify(controller, job, queue="nosuch"))[1] == "nosuch: No such queue"
    assert refused(modify(controller, job, queue="closed"))[1] == "closed: Queue has been closed"
    assert refused(modify(controller, job, queue="bobs"))[1] == "bobs: User cannot use the queue"
    assert refused(modify(controller, job, dependency="done(99)"))[1] == "No matching job found"
    assert refused(modify(controller, job, array_limit=3))[1] == "Job array does not exist"
    assert refused(modify(controller, job, (1, 2), priority=1))[1] == "No matching job found"
    check(controller)


def test_what_has_started_keeps_what_it_was_given(controller):
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    code, lsf = refused(modify(controller, job, request=request(2)))
    assert code is RefusalCode.WRONG_STATE
    assert lsf.startswith("Only the following parameters can be used to modify a running job: ")
    assert refused(modify(controller, job, name="b"))[0] is RefusalCode.WRONG_STATE
    result = modify(controller, job, run_limit_us=5 * SECOND_US, mem_limit_kib=64, rerunnable=True)
    assert isinstance(result, Accepted)
    assert controller.effects() == [("h1", SetLimits(job, 0, 1, 5 * SECOND_US, 64, 0))]
    check(controller)
    leave_host(controller, "h1")
    join_host(controller, "h1")
    # A host that comes anew is told again.
    told = [effect for _, effect in controller.effects() if isinstance(effect, SetLimits)]
    assert told == [SetLimits(job, 0, 1, 5 * SECOND_US, 64, 0)] or not controller.job(job).live
    check(controller)


def test_limits_reach_what_is_still_starting_with_its_launch_or_behind_it(controller):
    job = submit(controller)
    place(controller, job)
    modify(controller, job, run_limit_us=SECOND_US)
    launch, limits = [effect for _, effect in controller.effects()]
    assert isinstance(launch, Launch)
    assert launch.run_limit_us == limits.run_limit_us == SECOND_US
    assert isinstance(limits, SetLimits)
    report_started(controller, job)
    assert controller.effects() == [("h1", limits)]


def test_of_an_array_what_waits_is_changed_and_what_runs_has_its_limits(controller):
    job = submit(controller, submission(elements="1-4", tasks=1))
    place(controller, job, 1, 2)
    old = controller.job(job).cls
    modify(controller, job, request=request(2), run_limit_us=SECOND_US)
    found = controller.job(job)
    live = {attempt.cls for attempt in found.live.values()}
    assert live.isdisjoint({old, found.cls})
    (cls,) = live
    assert controller.state.classes[cls].key.request == request(1)
    assert controller.state.classes[cls].key.run_limit_us == SECOND_US
    check(controller)
    for index in (1, 2):
        report_started(controller, job, index)
        report_ended(controller, job, index)
    assert cls not in controller.state.classes, "nobody is of it any more"
    check(controller)
    modify(controller, job, array_limit=1)
    assert controller.job(job).array.limit == 1
    assert isinstance(modify(controller, job, (3, 4), priority=1), Accepted)
    assert not controller.job(job).variants, "these are all that has not ended"
    check(controller)


def test_what_is_requeued_asks_for_what_it_was_changed_to(controller):
    job = submit(controller, submission(elements="1-2"))
    place(controller, job, 1)
    modify(controller, job, request=request(2))
    controller.tell(RequeueJobs("alice", False, chosen(job)), by="alice")
    report_ended(controller, job, 1, exit_code=1)
    check(controller)
    assert controller.state.classes[controller.job(job).cls].pending == 2
    kill(controller, job)
    check(controller)


def test_a_plan_for_what_a_job_asked_for_before_does_not_start_it(controller):
    job = submit(controller)
    old = plan(controller, bulk(controller, job, hosts={"h1": 1}))
    modify(controller, job, request=request(3))
    controller.tell(ProposePlan(old), by="scheduler")
    assert stat_of(controller.state, controller.job(job), 0) == "PEND"
    again = plan(controller, gang(controller, job, hosts={"h1": 3}))
    modify(controller, job, dependency="", begin_at_us=controller.now_us + 60 * SECOND_US)
    controller.tell(ProposePlan(again), by="scheduler")
    assert stat_of(controller.state, controller.job(job), 0) == "PEND"
    tick(controller, after_us=61 * SECOND_US)
    propose(controller, gang(controller, job, hosts={"h1": 3}))
    assert stat_of(controller.state, controller.job(job), 0) == "RUN"
    check(controller)


def test_a_change_that_was_made_out_from_an_older_job_is_stale(controller):
    job = submit(controller)
    before = controller.job(job)
    item = Modification(job, before.spec_id, before.cls, as_it_is(controller.state, before))
    modify(controller, job, priority=1)
    (result,) = controller.tell(ModifyJobs("alice", False, (item,), ("name",)), by="alice")
    assert refused(result)[0] is RefusalCode.STALE
    (result,) = controller.tell(
        ModifyJobs("alice", False, (Modification(77, 1, 1, item.submission),), ("name",))
    )
    assert refused(result) == (RefusalCode.UNKNOWN_JOB, "No matching job found")


def test_another_condition_takes_the_place_of_the_one_before(controller):
    first, other = submit(controller, submission(hold=True)), submit(controller)
    job = submit(controller, submission(after=f"done({first})"))
    assert set(controller.state.dependents) == {first}
    modify(controller, job, dependency=f"done({other})")
    assert set(controller.state.dependents) == {other}
    check(controller)
    run_job(controller, other)
    assert controller.job(job).waits == 0
    modify(controller, job, dependency=f"exit({other})")
    assert controller.job(job).is_finished, "it can never hold, and the cluster waits for nobody"
    again = submit(controller, submission(after=f"done({first})"))
    modify(controller, again, dependency="")
    assert controller.job(again).waits == 0
    assert controller.state.dependents == {}
    check(controller)


def test_a_job_does_not_wait_for_itself(controller):
    first = submit(controller, submission(hold=True))
    second = submit(controller, submission(after=f"done({first})"))
    third = submit(controller, submission(after=f"done({second})"))
    for after in (first, third):
        code, text = refused(modify(controller, first, dependency=f"ended({after})"))
        assert code is RefusalCode.BAD_DEPENDENCY
        assert f"job {first} would wait for itself" in text
    assert isinstance(modify(controller, second, dependency=f"ended({first})"), Accepted)


def test_a_job_that_could_never_start_may_start_after_a_change():
    controller = cluster(orphan_grace_us=-1)
    first = submit(controller)
    run_job(controller, first, exit_code=1)
    job = submit(controller, submission(after=f"done({first})"))
    assert controller.job(job).waits & DOOMED
    modify(controller, job, name="b")
    assert controller.job(job).waits & DOOMED, "another name does not help"
    modify(controller, job, dependency=f"ended({first})")
    assert controller.job(job).waits == 0
    check(controller)


def test_only_its_owner_says_what_a_job_runs(controller):
    config = msgspec.structs.replace(
        controller.state.config, grants=(GrantConfig(role="operator", users=("carol",)),)
    )
    controller.tell(ApplyConfig("root", config, is_admin=True), by="root")
    job = submit(controller)
    assert refused(modify(controller, job, by="bob", priority=1)) == (
        RefusalCode.NOT_YOURS, "User permission denied",
    )  # fmt: skip
    assert isinstance(modify(controller, job, by="carol", priority=1), Accepted)
    assert controller.entries[-1].cause.basis == "role operator"
    for program in ("command", "pre_exec", "post_exec"):
        found = refused(modify(controller, job, by="carol", **{program: "rm"}))
        assert found[0] is RefusalCode.NOT_YOURS, program
    done = modify(controller, job, by="root", is_admin=True, command="true", script="blob of true")
    assert isinstance(done, Accepted)
    run_job(controller, job)
    assert refused(modify(controller, job, priority=2))[1] == "Job has already finished"


def test_a_submit_that_is_repeated_finds_the_job_though_it_was_changed(controller):
    given = submission(name="a")
    job = submit(controller, given, key="k1")
    modify(controller, job, name="b")
    (result,) = try_submit(controller, given, key="k1")
    assert isinstance(result, Accepted)
    assert result.job == job


# bswitch


def test_pending_jobs_are_switched_with_what_the_new_queue_says(controller):
    plain = submit(controller)
    limited = submit(controller, submission(run_limit_us=600 * SECOND_US))
    wide = submit(controller, submission(tasks=4))
    results = switch(controller, "night", plain, limited, wide)
    assert [getattr(item, "lsf", "") or item.text for item in results] == [
        "switched", "Cannot exceed queue's hard limit(s)", "Too many processors requested",
    ]  # fmt: skip
    assert queue_of(controller, plain) == "night"
    assert key(controller, plain).run_limit_us == 60 * SECOND_US, "the new queue's"
    assert queue_of(controller, limited) == "normal"
    switch(controller, "normal", plain)
    assert key(controller, plain).run_limit_us == 0
    assert [item.text for item in switch(controller, "normal", plain, plain)] == ["switched"] * 2
    assert refused(switch(controller, "nosuch", plain)[0])[1] == "nosuch: No such queue"
    assert refused(switch(controller, "closed", plain)[0])[1] == "closed: Queue has been closed"
    check(controller)


def test_what_runs_is_switched_with_its_limits(controller):
    job = submit(controller, submission(run_limit_us=600 * SECOND_US))
    place(controller, job)
    report_started(controller, job)
    (result,) = switch(controller, "night", job)
    assert result.text == "switched"
    attempt = controller.attempt(job)
    assert controller.state.classes[attempt.cls].key.queue == "night"
    assert key(controller, job).run_limit_us == 600 * SECOND_US
    assert controller.effects() == []
    assert controller.state.shares["night", "alice"].slots == 1
    assert controller.state.shares["normal", "alice"].slots == 0
    check(controller)
    report_ended(controller, job)
    check(controller)


def test_a_filter_switches_all_that_match(controller):
    jobs = [submit(controller, submission(name="a")) for _ in range(3)]
    others = submit(controller, submission(name="b"), owner=BOB)
    place(controller, jobs[1])
    selection = Selection(all=True, user="alice", queue="normal", name="a*")
    results = controller.tell(SwitchJobs("alice", False, selection, "night"), by="alice")
    assert [item.job for item in results] == jobs
    assert {queue_of(controller, job) for job in jobs} == {"night"}
    assert queue_of(controller, others) == "normal"
    assert refused(switch(controller, "night", others)[0])[0] is RefusalCode.NOT_YOURS
    results = switch(controller, "bobs", others, by="root", is_admin=True)
    assert results[0].text == "switched"
    check(controller)


def test_the_windows_of_the_new_queue_stop_what_runs():
    window = WindowConfig(start_min=0, end_min=1)
    controller = cluster(
        queues=(
            QueueConfig(name="normal", default=True),
            QueueConfig(name="night", run_windows=(window,)),
        )
    )
    controller.tell(ResolveWindows((("night", ((1, 2),)),)))
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    switch(controller, "night", job)
    assert controller.attempt(job).stops == Stop.WINDOW
    switch(controller, "normal", job)
    assert controller.attempt(job).stops == Stop.NONE
    kinds = [type(record) for record in controller.entries[-1].records]
    assert kinds[-2:] == [JobModified, StopsChanged]
    check(controller)
