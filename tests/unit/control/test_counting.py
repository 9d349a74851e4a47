"""Dependencies on counts of elements, on external status, and orphans that end at once."""

import pytest
from msgspec.structs import replace

from xce.model.command import PostMessage
from xce.model.refusal import Refusal
from xce.state.check import check_state
from xce.state.snapshot import digest
from xce.testing.builders import (
    cluster,
    kill,
    place,
    replayed,
    report_ended,
    report_started,
    resume,
    run_job,
    stop,
    submission,
    submit,
    try_submit,
)


@pytest.fixture
def controller():
    return cluster({"h1": 8}, orphan_grace_us=-1)


def waits(controller, job):
    return bool(controller.job(job).waits)


@pytest.mark.parametrize(
    ("condition", "when"),
    [
        ("numpend({0}, < 3)", "placed"),
        ("numpend({0}, 2)", "placed"),
        ("numrun({0}, >= 2)", "placed"),
        ("numstart({0}, 2)", "placed"),
        ("numhold({0}, > 0)", "held"),
        ("numdone({0}, 1)", "done"),
        ("numexit({0}, == 1)", "exited"),
        ("numended({0}, >= 2)", "exited"),
        ("numended({0}, *)", "over"),
        ("numdone({0}, *) || numexit({0}, > 0)", "exited"),
        ("!numpend({0}, > 2)", "placed"),
    ],
)
def test_a_job_waits_for_a_count_of_elements(controller, condition, when):
    array = submit(controller, submission(elements="1-4"))
    job = submit(controller, submission(after=condition.format(array)))
    assert waits(controller, job)
    place(controller, array, 1, 2)
    seen = ["placed"] * (not waits(controller, job))
    stop(controller, (array, 4, 4))
    seen += ["held"] * (not waits(controller, job))
    report_started(controller, array, 1)
    report_ended(controller, array, 1)
    seen += ["done"] * (not waits(controller, job))
    report_started(controller, array, 2)
    report_ended(controller, array, 2, exit_code=1)
    seen += ["exited"] * (not waits(controller, job))
    resume(controller, (array, 4, 4))
    kill(controller, array)
    seen += ["over"] * (not waits(controller, job))
    assert seen[0] == when
    check_state(controller.state)
    assert digest(replayed(controller.entries)) == digest(controller.state)


def test_counts_are_of_arrays_by_their_ids(controller):
    plain = submit(controller, submission(name="a"))
    for condition in (f"numdone({plain}, 1)", "numdone(a, 1)"):
        (result,) = try_submit(controller, submission(after=condition))
        assert isinstance(result, Refusal)
        assert result.lsf == "Job array does not exist"


def test_a_job_waits_for_a_word_of_external_status(controller):
    first = submit(controller)
    job = submit(controller, submission(after=f'external({first}, "ready")'))
    for text in ("not ready", "ready to go"):
        assert waits(controller, job)
        controller.tell(PostMessage("alice", False, first, 0, text), by="alice")
    assert not waits(controller, job)


def test_an_orphan_that_asked_for_it_ends_at_once(controller):
    first = submit(controller)
    given = submission(after=f"exit({first})")
    keeps = submit(controller, given)
    ends = submit(controller, replace(given, spec=replace(given.spec, ends_as_orphan=True)))
    run_job(controller, first)
    assert controller.job(ends).is_finished
    assert not controller.job(keeps).is_finished
    check_state(controller.state)
