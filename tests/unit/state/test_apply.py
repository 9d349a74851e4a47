"""Records to state: it obeys, and a record that does not fit is a fault."""

import typing

import pytest

from xce.model import record as r
from xce.model.entry import Cause, Entry
from xce.model.errors import IllegalTransitionError
from xce.model.job import EndCause, JobSpec, Owner, Phase
from xce.model.reason import NEW
from xce.model.request import Amount, ClassKey, Request
from xce.state.apply import _APPLY, apply
from xce.state.check import check_state
from xce.state.key_use import key_time_us
from xce.testing.builders import (
    cluster,
    gang,
    kill,
    place,
    propose,
    report_ended,
    report_started,
    request,
    resume,
    run_job,
    stop,
    submission,
    submit,
)


@pytest.fixture
def controller():
    return cluster()


def entry(state, *records, seq=None, at_us=None):
    number = state.seq + 1 if seq is None else seq
    return Entry(number, state.now_us if at_us is None else at_us, Cause("test"), records)


def test_entries_follow_each_other(controller):
    state = controller.state
    for seq in (state.seq, state.seq + 2):
        with pytest.raises(IllegalTransitionError, match="does not follow"):
            apply(state, entry(state, seq=seq))


def test_every_record_has_a_place_in_the_table():
    assert set(_APPLY) == set(typing.get_args(r.Record))


@pytest.mark.parametrize(
    "record",
    [
        r.Held([9], [0], [0]),
        r.Held([1], [0], [0]),
        r.Unheld([1], [0], [0]),
        r.Withdrawn([1], [0], [0], EndCause.OWNER, "alice", 1),
        r.BulkPlaced(1, [1], [0], [0], [0], [1], 1),
        r.GangPlaced(1, 1, 0, [0], [1], 1),
        r.GangPlaced(1, 1, 7, [0], [1], 1),
        r.Started([2], [0], [1], [1]),
        r.Started([9], [0], [1], [1]),
        r.SuspensionDone([2], [0], True),
        r.LaunchFailed([2], [0], [0], "x"),
        r.Ended([2], [0], [1], [1], [0], [0], [0], [0], [0], [1], [0], [0]),
        r.Ended([1], [0], [2], [1], [0], [0], [0], [0], [0], [1], [0], [0]),
        r.JobSubmitted(1, 1, 1, Owner("alice", 1, 1), 5),
        r.JobsReleased([9], True),
    ],
)
def test_a_record_that_does_not_fit_is_a_fault(controller, record):
    """Job 1 runs, job 2 pends."""
    first, _ = submit(controller), submit(controller)
    place(controller, first)
    report_started(controller, first)
    with pytest.raises(IllegalTransitionError):
        apply(controller.state, entry(controller.state, record))


def test_columns_of_unequal_length_are_a_fault(controller):
    submit(controller)
    with pytest.raises(ValueError, match="shorter"):
        apply(controller.state, entry(controller.state, r.Held([1], [0], [])))


def test_the_life_of_a_job_in_records(controller):
    state = controller.state
    job = submit(controller)
    found = controller.job(job)
    cls = state.classes[found.cls]
    assert (cls.pending, cls.live, list(cls.waiting)) == (1, 0, [job])
    place(controller, job)
    attempt = controller.attempt(job)
    assert (attempt.number, attempt.phase, attempt.hosts, attempt.tasks) == (
        1, Phase.STARTING, [0], [1],
    )  # fmt: skip
    assert (cls.pending, cls.live, list(cls.waiting)) == (0, 1, [])
    assert state.hosts.used[0].tolist() == [1, 0]
    assert state.hosts.attempts.tolist() == [1, 0]
    report_started(controller, job)
    assert controller.attempt(job).phase == Phase.RUNNING
    report_ended(controller, job)
    assert found.is_finished
    assert (found.done, found.exited, found.live) == (1, 0, None)
    assert not state.hosts.used.any()
    assert list(state.finished) == [(found.finished_at_us, job, state.seq)]
    assert "alice" not in state.unfinished
    check_state(state)


def test_a_revision_rises_with_whatever_the_scheduler_sees(controller):
    job = submit(controller)
    seen = [controller.job(job).revision]
    for act in (
        lambda: stop(controller, job),
        lambda: resume(controller, job),
        lambda: place(controller, job),
        lambda: report_ended(controller, job, host_fault=True),
    ):
        act()
        seen.append(controller.job(job).revision)
    assert seen == sorted(set(seen))


def test_waiting_jobs_stay_in_order_of_submission(controller):
    jobs = [submit(controller) for _ in range(4)]
    stop(controller, jobs[0])
    resume(controller, jobs[0])
    cls = controller.state.classes[controller.job(jobs[0]).cls]
    assert list(cls.waiting) != jobs
    assert cls.eligible() == jobs
    check_state(controller.state)


def test_an_array_at_its_limit_does_not_wait(controller):
    job = submit(controller, submission(elements="1-4", limit=2))
    cls = controller.state.classes[controller.job(job).cls]
    place(controller, job, 1, 2)
    assert not cls.waiting
    report_ended(controller, job, 1)
    assert list(cls.waiting) == [job]
    check_state(controller.state)


def test_ended_elements_are_kept_in_columns(controller):
    job = submit(controller, submission(elements="1-3"))
    place(controller, job)
    report_ended(controller, job, 2, exit_code=7, detail="why")
    found = controller.job(job)
    assert found.ended_at(1).exit_code == 7
    assert found.ended_at(0) is None
    assert found.details == {1: "why"}
    (chunk,) = found.chunks.values()
    assert (chunk.count, len(chunk.rows)) == (1, 3)


def test_a_large_array_has_full_chunks():
    controller = cluster({"h1": 4})
    job = submit(controller, submission(elements="1-5000"))
    place(controller, job, 1, 4096, 4097)
    for index in (1, 4096, 4097):
        report_ended(controller, job, index)
    assert [len(chunk.rows) for chunk in controller.job(job).chunks.values()] == [4096, 904]
    check_state(controller.state)


def test_who_ended_an_element_is_remembered(controller):
    job = submit(controller)
    place(controller, job)
    kill(controller, job)
    report_ended(controller, job, signal=2)
    assert controller.job(job).ended_by == {0: "alice"}


def test_parallel_jobs_hold_amounts_on_each_of_their_hosts(controller):
    asks = request(3, mem_mib=10, amounts=[Amount("mem", 5, "host"), Amount("mem", 2, "job")])
    job = submit(controller, submission(asks=asks))
    propose(controller, gang(controller, job, hosts={"h1": 2, "h2": 1}))
    assert controller.state.hosts.used.tolist() == [[2, 1], [27, 15]]
    report_ended(controller, job)
    assert not controller.state.hosts.used.any()


def test_a_finished_jobs_instant_keeps_the_order_of_the_queue(controller):
    first, second = submit(controller), submit(controller)
    place(controller, first)
    place(controller, second)
    report_ended(controller, first)
    report_ended(controller, second)
    instants = [at_us for at_us, _, _ in controller.state.finished]
    assert instants == sorted(instants)


def test_forgetting_out_of_order_keeps_the_rest(controller):
    jobs = [submit(controller) for _ in range(3)]
    for job in jobs:
        run_job(controller, job)
    apply(controller.state, entry(controller.state, r.JobsForgotten([jobs[1]])))
    assert [job for _, job, _ in controller.state.finished] == [jobs[0], jobs[2]]
    check_state(controller.state)


def test_a_reason_of_a_class_that_is_gone_is_nobodys(controller):
    before = controller.state.seq
    apply(controller.state, entry(controller.state, r.ReasonsChanged([7], [NEW])))
    assert controller.state.seq == before + 1


def test_specs_and_classes_are_counted_by_their_jobs(controller):
    state = controller.state
    records = (
        r.SpecStored(1, JobSpec(script="x")),
        r.ClassStored(1, ClassKey(Request(), "normal", "alice"), "select[type == any]"),
        r.JobSubmitted(1, 1, 1, Owner("alice", 1, 1), 5),
    )
    apply(state, entry(state, *records))
    assert (list(state.specs), state.spec_uses) == ([1], {})
    assert state.classes[1].jobs == 1
    assert (state.next_spec, state.next_class, state.next_job) == (2, 2, 2)
    for job in (2, 3):
        apply(state, entry(state, r.JobSubmitted(job, 1, 1, Owner("alice", 1, 1), 5)))
    assert state.spec_uses == {1: 3}
    withdrawn = r.Withdrawn([1, 2, 3], [0, 0, 0], [0, 0, 0], EndCause.OWNER, "alice", 6)
    apply(state, entry(state, withdrawn))
    for jobs, uses in (([1], {1: 2}), ([3], {}), ([2], {})):
        apply(state, entry(state, r.JobsForgotten(jobs)))
        assert state.spec_uses == uses
    assert (state.specs, state.spec_ids, state.names) == ({}, {}, {})


@pytest.mark.parametrize(
    ("key", "at_us"),
    [("1700000000-abc", 1_700_000_000_000_000), ("abc", 0), ("abc-1", 0), ("-5", 0), ("12", 0),
     ("1" * 13 + "-x", 0), ("٣-x", 0)],
)  # fmt: skip
def test_a_timed_key_has_its_time_in_front(key, at_us):
    assert key_time_us(key) == at_us
