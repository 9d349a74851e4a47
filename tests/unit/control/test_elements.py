"""Elements that wait for those of other arrays: ``-w "done(name[*])"``."""

import msgspec
import pytest

from xce.model.command import PostMessage
from xce.model.ids import SECOND_US
from xce.model.reason import ReasonCode
from xce.model.record import Withdrawn
from xce.model.record_elements import ElementsDoomed, ElementsReleased
from xce.model.refusal import Refusal, RefusalCode
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import pend_reason, stat_of
from xce.testing.builders import (
    bulk,
    cluster,
    kill,
    modify,
    place,
    propose,
    report_ended,
    report_started,
    resume,
    run_job,
    stop,
    submission,
    submit,
    tick,
    try_submit,
)

LSF_SIZES = "Dependent job arrays must be the same size"


@pytest.fixture
def controller():
    return cluster({"h1": 8})


def array(last, **more):
    return submission(elements=f"1-{last}", **more)


def end_element(controller, job, index, exit_code=0):
    place(controller, job, index)
    report_started(controller, job, index)
    report_ended(controller, job, index, exit_code=exit_code)


def awaiting(controller, job):
    return controller.job(job).awaiting


def refusal_of(controller, wanted):
    (result,) = try_submit(controller, wanted)
    assert isinstance(result, Refusal)
    return result


def test_an_element_starts_when_the_one_at_its_place_is_done(controller):
    first = submit(controller, array(3))
    job = submit(controller, array(3, after=f"done({first}[*])"))
    assert awaiting(controller, job) == ((0, 2),)
    propose(controller, bulk(controller, job, hosts={"h1": 3}))
    assert not controller.job(job).live
    end_element(controller, first, 2)
    assert ElementsReleased([job], [2], [2]) in controller.entries[-1].records
    assert awaiting(controller, job) == ((0, 0), (2, 2))
    propose(controller, bulk(controller, job, hosts={"h1": 3}))
    assert list(controller.job(job).live) == [1]
    check_state(controller.state)


def test_elements_belong_together_by_their_places_whatever_their_indices(controller):
    first = submit(controller, submission(elements="10-30:10"))
    job = submit(controller, array(3, after=f"done({first}[*])"))
    end_element(controller, first, 30)
    assert awaiting(controller, job) == ((0, 1),)


def test_what_holds_already_is_released_at_once(controller):
    first = submit(controller, array(3))
    end_element(controller, first, 1)
    job = submit(controller, array(3, after=f"done({first}[*])"))
    assert awaiting(controller, job) == ((1, 2),)
    assert ElementsReleased([job], [1], [1]) in controller.entries[-1].records
    check_state(controller.state)


def test_an_element_can_wait_for_more_than_its_own(controller):
    first, other = submit(controller, array(2)), submit(controller)
    job = submit(controller, array(2, after=f"done({first}[*]) && done({other})"))
    end_element(controller, first, 1)
    assert awaiting(controller, job) == ((0, 1),)
    run_job(controller, other)
    assert awaiting(controller, job) == ((1, 1),)
    end_element(controller, first, 2)
    assert not awaiting(controller, job)
    assert not controller.state.dependents
    check_state(controller.state)


def test_an_element_can_wait_for_either_of_two(controller):
    first, other = submit(controller, array(2)), submit(controller, array(2))
    job = submit(controller, array(2, after=f"done({first}[*]) || done({other}[*])"))
    end_element(controller, first, 1)
    end_element(controller, other, 2)
    assert not awaiting(controller, job)


def test_the_other_elements_of_the_same_array_can_count_too(controller):
    first = submit(controller, array(3))
    job = submit(controller, array(3, after=f"done({first}[*]) && numdone({first}, >= 2)"))
    end_element(controller, first, 1)
    assert awaiting(controller, job) == ((0, 2),)
    end_element(controller, first, 2)
    assert awaiting(controller, job) == ((2, 2),)


@pytest.mark.parametrize(
    ("test", "code", "word"),
    [
        ("done", 0, "PEND"), ("done", 3, "EXIT"), ("ended", 3, "PEND"), ("exit", 3, "PEND"),
        ("exit", 0, "EXIT"), ("post_done", 0, "PEND"), ("post_err", 0, "EXIT"),
    ],
)  # fmt: skip
def test_each_test_is_made_of_the_own_element(controller, test, code, word):
    first = submit(controller, array(2))
    job = submit(controller, array(2, after=f"{test}({first}[*])"))
    end_element(controller, first, 1, exit_code=code)
    found = controller.job(job)
    assert stat_of(controller.state, found, 0) == word
    assert found.ready == (((0, 0),) if word == "PEND" else ())
    assert found.awaiting == ((1, 1),)


def test_a_condition_can_be_turned_round(controller):
    first = submit(controller, array(2))
    end_element(controller, first, 1)
    job = submit(controller, array(2, after=f"!done({first}[*])"))
    assert stat_of(controller.state, controller.job(job), 0) == "EXIT"
    assert controller.job(job).ready == ((1, 1),)


def test_exit_codes_are_compared_element_by_element(controller):
    first = submit(controller, array(2))
    job = submit(controller, array(2, after=f"exit({first}[*], >= 5)"))
    end_element(controller, first, 1, exit_code=5)
    end_element(controller, first, 2, exit_code=4)
    assert controller.job(job).withdrawn
    assert stat_of(controller.state, controller.job(job), 0) == "PEND"
    assert stat_of(controller.state, controller.job(job), 1) == "EXIT"
    check_state(controller.state)


def test_a_started_element_releases_its_own(controller):
    first = submit(controller, array(2))
    job = submit(controller, array(2, after=f"started({first}[*])"))
    place(controller, first, 2)
    report_started(controller, first, 2)
    assert awaiting(controller, job) == ((0, 0),)


def test_a_word_for_one_element_or_for_all_releases(controller):
    first = submit(controller, array(3))
    job = submit(controller, array(3, after=f'external({first}[*], "go")'))
    controller.tell(PostMessage("alice", False, first, 0, "go now", 2), by="alice")
    assert awaiting(controller, job) == ((0, 0), (2, 2))
    controller.tell(PostMessage("alice", False, first, 0, "go"), by="alice")
    assert not awaiting(controller, job)


def test_whoever_waits_in_vain_ends_with_the_element_it_waits_for(controller):
    first = submit(controller, array(3))
    job = submit(controller, array(3, after=f"done({first}[*])"))
    kill(controller, (first, 2, 3))
    assert [item.ranges for item in controller.job(job).withdrawn] == [((1, 2),)]
    assert awaiting(controller, job) == ((0, 0),)
    end_element(controller, first, 1)
    end_element(controller, job, 1)
    assert controller.job(job).is_finished
    check_state(controller.state)


def test_orphans_pend_for_the_grace_each_for_its_own_time():
    controller = cluster(orphan_grace_us=10 * SECOND_US)
    first = submit(controller, array(3))
    job = submit(controller, array(3, after=f"done({first}[*])"))
    kill(controller, (first, 1, 1))
    assert ElementsDoomed in map(type, controller.entries[-1].records)
    tick(controller, after_us=5 * SECOND_US)
    kill(controller, (first, 2, 2))
    found = controller.job(job)
    reason = pend_reason(controller.state, found, position=0)
    assert (reason.code, reason.detail) == (ReasonCode.DEPENDENCY_NEVER, f"done({first}[*])")
    assert pend_reason(controller.state, found, position=2).code is ReasonCode.DEPENDENCY
    tick(controller, after_us=6 * SECOND_US)
    assert [item.ranges for item in controller.job(job).withdrawn] == [((0, 0),)]
    tick(controller, after_us=6 * SECOND_US)
    assert awaiting(controller, job) == ((2, 2),)
    check_state(controller.state)


def test_an_orphan_that_asks_for_it_ends_at_once():
    controller = cluster(orphan_grace_us=10 * SECOND_US)
    first = submit(controller, array(2))
    wanted = array(2, after=f"done({first}[*])")
    spec = msgspec.structs.replace(wanted.spec, ends_as_orphan=True)
    job = submit(controller, msgspec.structs.replace(wanted, spec=spec))
    kill(controller, (first, 1, 1))
    assert Withdrawn in map(type, controller.entries[-1].records)
    assert [item.ranges for item in controller.job(job).withdrawn] == [((0, 0),)]


def test_a_held_element_is_released_and_stays_held(controller):
    first = submit(controller, array(2))
    job = submit(controller, array(2, after=f"done({first}[*])"))
    stop(controller, (job, 1, 1))
    end_element(controller, first, 1)
    assert stat_of(controller.state, controller.job(job), 0) == "PSUSP"
    assert awaiting(controller, job) == ((1, 1),)
    resume(controller, (job, 1, 1))
    assert controller.job(job).ready == ((0, 0),)
    check_state(controller.state)


def test_sizes_must_be_the_same(controller):
    first = submit(controller, array(3))
    found = refusal_of(controller, array(2, after=f"done({first}[*])"))
    assert (found.code, found.lsf) == (RefusalCode.BAD_DEPENDENCY, LSF_SIZES)
    assert "3 elements" in found.text
    found = refusal_of(controller, submission(after=f"done({first}[*])"))
    assert "only an array waits element by element" in found.text


def test_a_name_of_several_arrays_is_refused(controller):
    jobs = [submit(controller, array(2, name="same")) for _ in range(2)]
    found = refusal_of(controller, array(2, after="done(same[*])"))
    assert found.lsf == LSF_SIZES
    assert all(str(job) in found.text for job in jobs)
    assert submit(controller, array(2, after=f"done({jobs[0]}[*])"))


def test_a_job_that_is_no_array_has_no_elements(controller):
    first = submit(controller)
    found = refusal_of(controller, array(2, after=f"done({first}[*])"))
    assert found.lsf == "Job array does not exist"


def test_another_change_lets_elements_wait_on_and_another_condition_begins_anew(controller):
    first, other = submit(controller, array(2)), submit(controller, array(2))
    job = submit(controller, array(2, after=f"done({first}[*])"))
    end_element(controller, first, 1)
    modify(controller, job, name="new")
    assert awaiting(controller, job) == ((1, 1),)
    modify(controller, job, dependency=f"done({other}[*])")
    assert awaiting(controller, job) == ((0, 1),)
    assert list(controller.state.dependents) == [other]
    modify(controller, job, dependency="")
    assert not awaiting(controller, job)
    assert not controller.state.dependents
    check_state(controller.state)


def test_a_snapshot_has_what_elements_wait_for(controller):
    first = submit(controller, array(3))
    submit(controller, array(3, after=f"done({first}[*])"))
    end_element(controller, first, 1)
    again = load(dump(controller.state))
    assert digest(again) == digest(controller.state)
    assert again.dependents == controller.state.dependents
    check_state(again)


def test_a_large_pair_costs_what_changes(controller):
    first = submit(controller, array(100_000))
    job = submit(controller, array(100_000, after=f"done({first}[*])"))
    end_element(controller, first, 70_000)
    assert awaiting(controller, job) == ((0, 69_998), (70_000, 99_999))
    kill(controller, (first, 50_001, 60_000))
    assert sum(last - first + 1 for first, last in awaiting(controller, job)) == 89_999
    check_state(controller.state)
