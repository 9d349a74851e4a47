"""Requests for checkpoints: who can write one, what a host is told, and what it says."""

import pytest
from msgspec.structs import replace

from xce.model.checkpoint import Checkpoints, is_checkpoint, is_forced, request_number, wants_end
from xce.model.command import SignalJobs
from xce.model.effect import Launch, SendSignal
from xce.model.host_record import CheckpointsSeen
from xce.model.observation import CheckpointSeen, Reported
from xce.model.refusal import Refusal
from xce.state.check import check_state
from xce.testing.builders import (
    chosen,
    cluster,
    place,
    report_ended,
    report_started,
    stop,
    submission,
    submit,
)

ASK = request_number(ends=False, forced=False)


@pytest.fixture
def controller():
    return cluster()


def asked(controller, number, *jobs, by="alice"):
    return controller.tell(SignalJobs(by, False, chosen(*jobs), number), by=by)


WANTED = Checkpoints("/ck")


def job_of(controller, *, wanted=WANTED):
    given = submission()
    return submit(controller, replace(given, spec=replace(given.spec, checkpoints=wanted)))


def running(controller, **more):
    job = job_of(controller, **more)
    place(controller, job)
    report_started(controller, job)
    return job


def test_a_request_is_told_apart_from_signals_and_says_what_is_wanted():
    numbers = {
        request_number(ends=ends, forced=forced): (ends, forced)
        for ends in (False, True)
        for forced in (False, True)
    }
    assert len(numbers) == 4
    for number, (ends, forced) in numbers.items():
        assert is_checkpoint(number)
        assert (wants_end(number), is_forced(number)) == (ends, forced)
    assert not any(map(is_checkpoint, range(100)))
    assert max(numbers) <= 127


def test_what_runs_and_was_submitted_with_k_is_asked(controller):
    job = running(controller)
    (result,) = asked(controller, ASK, job)
    assert result.text == "checkpointed"
    assert controller.attempt(job).signals == [ASK]
    assert controller.effects() == [("h1", SendSignal(job, 0, 1, 1, ASK))]
    check_state(controller.state)


@pytest.mark.parametrize(
    ("make", "lsf"),
    [
        (lambda c: running(c, wanted=None), "Job is not checkpointable"),
        (job_of, "Job has not started yet"),
    ],
)
def test_others_are_refused(controller, make, lsf):
    job = make(controller)
    (result,) = asked(controller, ASK, job)
    assert isinstance(result, Refusal)
    assert result.lsf == lsf


def test_what_is_placed_and_does_not_run_yet_or_is_stopped_is_refused(controller):
    job = job_of(controller)
    place(controller, job)
    (result,) = asked(controller, ASK, job)
    assert result.lsf == "Job has not started yet"
    report_started(controller, job)
    stop(controller, job)
    (result,) = asked(controller, ASK, job)
    assert "is suspended" in result.text


def told(controller, *items):
    before = len(controller.entries)
    controller.tell(Reported("h1", 9, checkpoints=items), by="host h1")
    records = [record for entry in controller.entries[before:] for record in entry.records]
    return [record for record in records if isinstance(record, CheckpointsSeen)]


def test_what_became_of_one_is_recorded_once(controller):
    job = running(controller)
    key = (job, 0, controller.attempt(job).number)
    good, bad = CheckpointSeen(*key, 1, True), CheckpointSeen(*key, 2, False, "x" * 9_000)
    (record,) = told(controller, good, bad, good)
    assert (record.jobs, record.numbers) == ([job, job], [1, 2])
    assert record.faults == ["", "x" * 512]
    assert told(controller, good, bad) == []
    old = CheckpointSeen(job, 0, key[2] + 1, 3, True)
    assert told(controller, old) == []
    check_state(controller.state)
    report_ended(controller, job)
    assert told(controller, CheckpointSeen(*key, 3, True)) == []


def test_a_host_is_told_where_the_programs_are(controller):
    made = cluster(checkpoint_programs="/programs")
    job = job_of(made)
    place(made, job)
    (launch,) = [one for _, one in made.effects() if isinstance(one, Launch)]
    assert launch.checkpoint_programs == "/programs"
