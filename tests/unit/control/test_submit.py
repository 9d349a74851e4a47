"""Submit: what is accepted, each refusal by name, keys, defaults, warnings."""

import msgspec
import pytest

from xce.model.command import Accepted, ApplyConfig, SubmitJobs
from xce.model.config import HostConfig, PoolConfig, QueueConfig
from xce.model.ids import HOUR_US, MINUTE_US, SECOND_US
from xce.model.job import COMMAND_MAX, NAME_MAX, ArraySpec
from xce.model.record import ClassStored, JobSubmitted, KeyUsed, SpecStored
from xce.model.refusal import RefusalCode
from xce.model.request import Alternative, Amount, Part, Request
from xce.state.check import check_state
from xce.state.view import stat_of
from xce.testing.builders import (
    ALICE,
    BOB,
    START_US,
    cluster,
    request,
    run_job,
    submission,
    submit,
    tick,
    try_submit,
)

QUEUES = (
    QueueConfig(
        name="normal", priority=30, default=True, default_run_limit_us=HOUR_US,
        run_limit_us=2 * HOUR_US,
    ),
    QueueConfig(name="limited", tasks_min=2, tasks_max=8, run_limit_us=MINUTE_US),
    QueueConfig(name="small", mem_limit_mib=100, hosts=("h1",)),
    QueueConfig(name="closed", open=False),
    QueueConfig(name="alone", exclusive=True),
    QueueConfig(name="bobs", users=("bob",)),
)  # fmt: skip


@pytest.fixture
def controller():
    return cluster(queues=QUEUES, counters=("lic",), pools={"tokens": 4}, max_array_size=100)


def refusal(controller, job, **more):
    before = len(controller.entries)
    (result,) = try_submit(controller, job, **more)
    assert not isinstance(result, Accepted)
    assert len(controller.entries) == before, "a refused submit left an entry"
    return result


def test_a_job_gets_the_next_id_and_pends(controller):
    assert submit(controller) == 1
    assert submit(controller) == 2
    assert stat_of(controller.state, controller.job(2), 0) == "PEND"


def test_equal_specs_and_classes_are_stored_once(controller):
    submit(controller, submission(), submission(), submission(tasks=2))
    records = [type(record) for record in controller.entries[-1].records]
    assert records.count(SpecStored) == 1
    assert records.count(ClassStored) == 2
    assert records.count(JobSubmitted) == 3
    submit(controller)
    assert [type(record) for record in controller.entries[-1].records] == [JobSubmitted]


@pytest.mark.parametrize(
    ("job", "code", "lsf"),
    [
        (submission(queue="nope"), RefusalCode.UNKNOWN_QUEUE, "nope: No such queue"),
        (submission(queue="closed"), RefusalCode.QUEUE_CLOSED, "closed: Queue has been closed"),
        (submission(queue="bobs"), RefusalCode.DENIED, "bobs: User cannot use the queue"),
        (submission(""), RefusalCode.EMPTY_JOB, "Empty job"),
        (submission(name="x" * (NAME_MAX + 1)), RefusalCode.TOO_LARGE, "Bad job name"),
        (submission("x" * (COMMAND_MAX + 1)), RefusalCode.TOO_LARGE, ""),
        (submission(elements="1-200"), RefusalCode.ARRAY_TOO_LARGE, "Job array index too large"),
        (submission(elements="101"), RefusalCode.ARRAY_TOO_LARGE, "Job array index too large"),
        (submission(elements="5-1"), RefusalCode.BAD_ARRAY, "Job array index error"),
        (submission(elements="0-4"), RefusalCode.BAD_ARRAY, "Job array index error"),
        (submission(elements="3-5,4-6"), RefusalCode.BAD_ARRAY, "Job array index error"),
        (submission(elements="1-4", limit=-1), RefusalCode.BAD_ARRAY, "Job array index error"),
        (submission(tasks=0), RefusalCode.TOO_FEW_TASKS, "Too few processors requested"),
        (submission(tasks=(5, 2)), RefusalCode.TOO_FEW_TASKS, "Too few processors requested"),
        (submission(tasks=99_999_999), RefusalCode.TOO_MANY_TASKS, "Too many processors requested"),
        (
            submission(queue="limited", tasks=9),
            RefusalCode.TOO_MANY_TASKS,
            "Too many processors requested",
        ),
        (submission(queue="limited"), RefusalCode.TOO_FEW_TASKS, "Too few processors requested"),
        (
            submission(run_limit_us=3 * HOUR_US),
            RefusalCode.OVER_QUEUE_LIMIT,
            "Cannot exceed queue's hard limit(s)",
        ),
        (
            submission(queue="small", mem_limit_kib=101 * 1024),
            RefusalCode.OVER_QUEUE_LIMIT,
            "Cannot exceed queue's hard limit(s)",
        ),
        (
            submission(asks=request(exclusive=True)),
            RefusalCode.QUEUE_REFUSES_EXCLUSIVE,
            "Queue does not accept EXCLUSIVE jobs",
        ),
        (
            submission(asks=request(hosts=("h9",))),
            RefusalCode.UNKNOWN_HOST,
            "h9: Bad host name, host group name or cluster name",
        ),
        (
            submission(queue="small", asks=request(hosts=("h2",))),
            RefusalCode.UNKNOWN_HOST,
            "h2: Host or host group is not used by the queue",
        ),
        (
            submission(asks=request(amounts=[Amount("gold", 1)])),
            RefusalCode.UNKNOWN_RESOURCE,
            "Bad resource name",
        ),
        (
            submission(after="done("),
            RefusalCode.BAD_DEPENDENCY,
            "Dependency condition syntax error",
        ),
        (submission(after="done(9)"), RefusalCode.DEPENDENCY_UNKNOWN_JOB, "No matching job found"),
        (submission(after="done(zz)"), RefusalCode.DEPENDENCY_UNKNOWN_JOB, "No matching job found"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(controller, job, code, lsf):
    found = refusal(controller, job)
    assert found.code == code
    assert found.lsf == lsf
    assert found.text


def test_an_array_without_elements_is_refused(controller):
    job = msgspec.structs.replace(submission(), array=ArraySpec(()))
    assert refusal(controller, job).code == RefusalCode.BAD_ARRAY


def test_one_refusal_does_not_stop_the_rest(controller):
    results = try_submit(controller, submission(), submission(queue="nope"), submission())
    assert [isinstance(result, Accepted) for result in results] == [True, False, True]
    assert [result.job for result in results] == [1, 0, 2]


def test_of_several_queues_the_first_that_may_take_the_job_is_taken(controller):
    (result,) = try_submit(controller, submission(queue="nope closed bobs alone normal"))
    assert result.queue == "alone"


def test_the_refusal_of_several_queues_is_that_of_the_first(controller):
    assert refusal(controller, submission(queue="closed nope")).code == RefusalCode.QUEUE_CLOSED


def test_a_queue_of_named_users_takes_their_jobs(controller):
    assert submit(controller, submission(queue="bobs"), owner=BOB) == 1


@pytest.mark.parametrize(
    ("queue", "asked", "limit"),
    [("normal", 0, HOUR_US), ("normal", MINUTE_US, MINUTE_US), ("limited", 0, MINUTE_US),
     ("small", 0, 0)],
)  # fmt: skip
def test_the_run_limit_is_the_one_asked_for_else_the_queues(controller, queue, asked, limit):
    job = submit(controller, submission(queue=queue, tasks=2, run_limit_us=asked))
    assert controller.state.key(controller.job(job)).run_limit_us == limit


def test_a_range_of_tasks_is_cut_to_what_the_queue_takes(controller):
    job = submit(controller, submission(queue="limited", tasks=(1, 50)))
    asked = controller.state.key(controller.job(job)).request
    assert (asked.tasks_min, asked.tasks_max) == (2, 8)


def test_so_is_the_last_part_of_a_compound_request(controller):
    parts = (
        Part("a", 1, Request()),
        Part("b", 1, Request(tasks_min=1, tasks_max=49), 49),
    )
    asks = Request(tasks_min=2, tasks_max=50, parts=parts)
    job = submit(controller, submission(queue="limited", asks=asks))
    request = controller.state.key(controller.job(job)).request
    last = request.parts[-1]
    assert (request.tasks_min, request.tasks_max) == (2, 8)
    assert (last.tasks, last.tasks_max) == (1, 7)
    assert (last.request.tasks_min, last.request.tasks_max) == (1, 7)
    assert request.with_tasks(2, 50) == asks
    assert not request.with_tasks(5, 5).parts[-1].is_ranged
    assert request.with_tasks(5, 5).with_tasks(2, 50) == asks
    assert request.with_tasks(1, 4).tasks_min == 2


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        (((1, 1), (2, 2)), RefusalCode.TOO_FEW_TASKS),
        (((9, 9), (2, 2)), RefusalCode.TOO_MANY_TASKS),
        (((1, 9), (2, 12)), None),
    ],
)
def test_each_alternative_has_a_number_of_tasks_that_the_queue_takes(controller, counts, code):
    inner = [Request(tasks_min=low, tasks_max=high) for low, high in counts]
    asks = Request(
        tasks_min=min(low for low, _ in counts),
        tasks_max=max(high for _, high in counts),
        alternatives=tuple(map(Alternative, inner)),
    )
    if code is not None:
        (refusal,) = try_submit(controller, submission(queue="limited", asks=asks))
        assert refusal.code is code
        return
    job = submit(controller, submission(queue="limited", asks=asks))
    request = controller.state.key(controller.job(job)).request
    each = [one.request for one in request.alternatives]
    assert [(one.tasks_min, one.tasks_max) for one in (request, *each)] == [(2, 8)] * 3


def test_a_held_job_is_psusp(controller):
    job = submit(controller, submission(hold=True))
    assert stat_of(controller.state, controller.job(job), 0) == "PSUSP"


def test_a_begin_time_in_the_past_means_at_once(controller):
    job = submit(controller, submission(begin_at_us=START_US))
    assert not controller.job(job).waits


# Keys.


def test_a_repeat_under_the_same_key_gives_the_same_jobs(controller):
    first = try_submit(controller, submission(), submission(), key="k")
    entries = len(controller.entries)
    again = try_submit(controller, submission(), submission(), key="k")
    assert [result.job for result in again] == [result.job for result in first] == [1, 2]
    assert len(controller.entries) == entries


def test_a_key_that_was_used_for_something_else_is_refused(controller):
    (taken,) = try_submit(controller, submission("one"), key="k")
    (again,) = try_submit(controller, submission("one"), key="k")
    assert again.job == taken.job
    for changed in (submission("other"), submission("one", elements="1-2")):
        (refused,) = try_submit(controller, changed, key="k")
        assert refused.code == RefusalCode.KEY_REUSED
        assert f"something else (job {taken.job})" in refused.text


def test_what_the_queue_says_about_reruns_is_no_difference_under_a_key():
    controller = cluster(queues=(QueueConfig(name="normal", default=True, rerunnable=True),))
    (taken,) = try_submit(controller, submission("one"), key="k")
    assert controller.state.spec(controller.job(taken.job)).rerunnable
    for rerunnable in (None, True):
        (again,) = try_submit(controller, submission("one", rerunnable=rerunnable), key="k")
        assert again.job == taken.job
    (refused,) = try_submit(controller, submission("one", rerunnable=False), key="k")
    assert refused.code == RefusalCode.KEY_REUSED


def test_a_key_belongs_to_its_user(controller):
    assert submit(controller, key="k") == 1
    assert submit(controller, key="k", owner=BOB) == 2


def test_the_lines_of_a_bulk_submit_are_numbered_under_one_key(controller):
    try_submit(controller, submission(), key="k", line=0)
    (result,) = try_submit(controller, submission(), key="k", line=1)
    assert result.job == 2
    assert isinstance(controller.entries[-1].records[-1], KeyUsed)
    (again,) = try_submit(controller, submission(), key="k", line=1)
    assert again.job == 2


def test_a_line_that_was_refused_stays_refused(controller):
    try_submit(controller, submission(queue="nope"), key="k")
    (again,) = try_submit(controller, submission(), key="k")
    assert again.code == RefusalCode.KEY_REUSED


def timed(at_us, name="x"):
    return f"{at_us // SECOND_US}-{name}"


def test_a_timed_key_that_is_older_than_the_window_is_refused(controller):
    key = timed(START_US)
    controller.now_us = START_US + HOUR_US + 2 * SECOND_US
    (result,) = try_submit(controller, submission(), key=key)
    assert result.code == RefusalCode.KEY_EXPIRED


def test_a_timed_key_is_answered_from_memory_while_it_is_there(controller):
    key = timed(START_US)
    assert submit(controller, key=key) == 1
    controller.now_us = START_US + HOUR_US + 2 * SECOND_US
    assert submit(controller, key=key) == 1


def test_a_wall_clock_that_was_set_back_does_not_make_new_keys_old(controller):
    wall_us = START_US - 2 * HOUR_US
    command = SubmitJobs(ALICE, (submission(),), key=timed(wall_us), wall_us=wall_us)
    (result,) = controller.tell(command)
    assert isinstance(result, Accepted)


def test_a_key_is_never_forgotten_while_a_repeat_could_be_taken_for_new(controller):
    """A client whose clock goes half an hour before ours."""
    key = timed(START_US + HOUR_US // 2)
    submit(controller, key=key)
    tick(controller, after_us=HOUR_US + 10 * MINUTE_US)
    assert submit(controller, key=key) == 1
    tick(controller, after_us=HOUR_US)
    (result,) = try_submit(controller, submission(), key=key)
    assert result.code == RefusalCode.KEY_EXPIRED


def test_an_untimed_key_counts_as_new_after_the_window(controller):
    assert submit(controller, key="k") == 1
    tick(controller, after_us=HOUR_US + 2 * MINUTE_US)
    assert submit(controller, key="k") == 2


# Dependencies at submit.


def test_a_dependency_that_holds_already_is_dropped(controller):
    job = submit(controller, submission(name="first"))
    run_job(controller, job)
    later = submit(controller, submission(after="done(first)"))
    assert not controller.job(later).waits
    assert controller.job(later).dependency is None


def test_a_name_stands_for_all_jobs_of_the_owner_that_have_it(controller):
    submit(controller, submission(name="ab"), submission(name="ac"), submission(name="x"))
    submit(controller, submission(name="az"), owner=BOB)
    job = submit(controller, submission(after='done("a*")'))
    subjects = controller.job(job).dependency.subjects
    assert [subject.job for subject in subjects] == [1, 2]


def test_an_element_that_an_array_has_not_is_refused(controller):
    job = submit(controller, submission(elements="1-3"))
    found = refusal(controller, submission(after=f"done({job}[7])"))
    assert found.code == RefusalCode.DEPENDENCY_UNKNOWN_JOB
    assert submit(controller, submission(after=f"done({job}[3])"))


@pytest.mark.parametrize(
    ("after", "never"),
    [("done(7)", False), ("exit(7)", True), ("!exit(7)", False), ("ended(7) && started(7)", False),
     ("exit(7) || done(7)", False), ("exit(8, > 2)", False), ("exit(8, < 2)", True),
     ("exit(8, == 3)", False), ("exit(8, != 3)", True), ("exit(8, >= 3)", False),
     ("exit(8, <= 2)", True), ("exit(8)", False), ("post_done(8)", True), ("post_err(7)", True)],
)  # fmt: skip
def test_what_only_the_history_knows_is_settled_at_submit(controller, after, never):
    past = [(7, 1, 0), (8, 2, 3)]
    (result,) = try_submit(controller, submission(after=after), past=past)
    job = controller.job(result.job)
    # What can never hold ends at once, as `orphan_grace` says.
    assert job.is_finished is never
    check_state(controller.state)


@pytest.mark.parametrize(
    ("after", "never"),
    [("done(9)", True), ("exit(9)", True), ("ended(9)", False), ("done(9[1])", False),
     ("exit(9[2], 3)", False), ("exit(9[2], 4)", True), ("done(9[2])", True),
     ("done(9[1]) && exit(9[2])", False)],
)  # fmt: skip
def test_elements_that_only_the_history_knows_are_settled_one_by_one(controller, after, never):
    past, elements = [(9, 0, 3)], [(9, 1, 1, 0), (9, 2, 2, 3)]
    (result,) = try_submit(controller, submission(after=after), past=past, past_elements=elements)
    assert controller.job(result.job).is_finished is never
    (result,) = try_submit(controller, submission(after="done(9[7])"), past=past)
    assert (result.code, result.text) == (
        RefusalCode.DEPENDENCY_UNKNOWN_JOB, "-w: job 9 has no element 7",
    )  # fmt: skip


# Warnings.


@pytest.mark.parametrize(
    ("asks", "warns"),
    [
        (request(8), False),
        (request(9), True),
        (request(5, one_host=True), True),
        (request(2, mem_mib=8_192), False),
        (request(3, mem_mib=8_192), True),
        (request(4, amounts=[Amount("mem", 8_000, "job")]), False),
        (request(4, amounts=[Amount("mem", 9_000, "host")]), True),
        (request(2, hosts=("h1",)), False),
        (request(5, hosts=("h1",)), True),
        (request(2, amounts=[Amount("tokens", 2)]), False),
        (request(3, amounts=[Amount("tokens", 2)]), True),
        (request(1, amounts=[Amount("tokens", 5, "job")]), True),
    ],
)
def test_what_the_idle_cluster_could_not_hold_is_accepted_with_a_warning(controller, asks, warns):
    (result,) = try_submit(controller, submission(asks=asks))
    assert isinstance(result, Accepted)
    assert bool(result.warning) is warns


def test_there_is_no_warning_while_no_host_is_configured():
    controller = cluster(())
    (result,) = try_submit(controller, submission(tasks=50))
    assert result.warning == ""


def test_a_host_without_declared_slots_counts_its_cpus():
    controller = cluster([HostConfig(name="h1")])
    assert try_submit(controller, submission(tasks=4))[0].warning == ""
    assert try_submit(controller, submission(tasks=5))[0].warning


def test_a_warning_follows_what_the_configuration_says_now(controller):
    def warns(asks, **more):
        (result,) = try_submit(controller, submission(asks=asks, **more))
        return bool(result.warning)

    def configure(**changes):
        config = msgspec.structs.replace(controller.state.config, **changes)
        controller.tell(ApplyConfig("root", config, is_admin=True), by="root")

    asks, pools = request(9), request(1, amounts=[Amount("tokens", 5, "job")])
    small = request(3)
    for _ in range(2):
        assert (warns(asks), warns(pools), warns(small, queue="small")) == (True, True, False)
    state = controller.state
    hosts = [msgspec.structs.replace(host, slots=9) for host in state.config.hosts]
    configure(hosts=tuple(hosts))
    assert (warns(asks), warns(pools)) == (False, True)
    configure(pools=(PoolConfig(name="tokens", total=5),))
    assert (warns(asks), warns(pools)) == (False, False)
    hosts = [msgspec.structs.replace(host, slots=2) for host in state.config.hosts]
    configure(hosts=tuple(hosts))
    assert (warns(asks), warns(small, queue="small"), warns(small)) == (True, True, False)
    queues = [
        msgspec.structs.replace(queue, hosts=()) if queue.name == "small" else queue
        for queue in state.config.queues
    ]
    configure(queues=tuple(queues))
    assert not warns(small, queue="small")
