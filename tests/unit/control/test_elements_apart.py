"""Elements of an array that are changed, or switched to another queue, apart from the rest."""

import pytest
from msgspec.structs import replace

from xce.control import part
from xce.model.command import Accepted, Modification, ModifyJobs, ProposePlan, RequeueJobs
from xce.model.config import QueueConfig
from xce.model.effect import Launch
from xce.model.ids import SECOND_US
from xce.model.job import Outcome
from xce.model.plan import Reservation
from xce.model.record_modify import JobModified
from xce.model.refusal import Refusal, RefusalCode
from xce.sched.session import run_session
from xce.state.snapshot import digest, dump, load
from xce.state.view import pend_reason, shown_forms
from xce.testing.builders import (
    bulk,
    chosen,
    cluster,
    join_host,
    kill,
    modify,
    place,
    plan,
    propose,
    report_ended,
    report_started,
    request,
    submission,
    submit,
    switch,
)
from xce.testing.recorded import check_whole as check

QUEUES = (
    QueueConfig(name="normal", priority=30, default=True),
    QueueConfig(name="night", priority=10, run_limit_us=60 * SECOND_US, tasks_max=2),
    QueueConfig(name="off", active=False),
)


@pytest.fixture
def controller():
    return cluster({"h1": 4, "h2": 4}, queues=QUEUES)


def queues_of(controller, job):
    """Return the queue of each element, in order."""
    found, state = controller.job(job), controller.state
    return [state.class_at(found, position).key.queue for position in range(found.size)]


def commands_of(controller, job):
    found, state = controller.job(job), controller.state
    return [state.spec_at(found, position).command for position in range(found.size)]


def counts(controller):
    """Return the pending, held and live elements by queue."""
    found = {}
    for cls in controller.state.classes.values():
        before = found.get(cls.key.queue, (0, 0, 0))
        now = (cls.pending, cls.held, cls.live)
        found[cls.key.queue] = tuple(map(sum, zip(before, now, strict=True)))
    return {queue: each for queue, each in found.items() if any(each)}


def refused(result):
    assert isinstance(result, Refusal), result
    return result.code


def test_some_elements_are_switched(controller):
    job = submit(controller, submission(elements="1-6"))
    (result,) = switch(controller, "night", (job, 2, 3))
    assert (result.text, result.first, result.last) == ("switched", 2, 3)
    assert queues_of(controller, job) == ["normal", "night", "night", "normal", "normal", "normal"]
    assert counts(controller) == {"normal": (4, 0, 0), "night": (2, 0, 0)}
    check(controller)
    switch(controller, "night", (job, 5, 5))
    assert len(controller.job(job).variants) == 1, "what is alike stands together"
    assert controller.job(job).variants[0].ranges == ((1, 2), (4, 4))
    check(controller)
    switch(controller, "normal", (job, 1, 6))
    assert queues_of(controller, job) == ["normal"] * 6
    assert not controller.job(job).variants
    assert len(controller.state.classes) == 1, "the class of the others is gone"
    check(controller)


def test_elements_that_are_not_switched_are_each_told_of(controller):
    job = submit(controller, submission(elements="1-6", tasks=3))
    results = switch(controller, "night", (job, 2, 2), (job, 4, 5))
    assert [(refused(one), one.first, one.last) for one in results] == [
        (RefusalCode.TOO_MANY_TASKS, 2, 2), (RefusalCode.TOO_MANY_TASKS, 4, 5),
    ]  # fmt: skip


def test_a_switch_of_the_job_takes_all_elements_along(controller):
    job = submit(controller, submission(elements="1-4"))
    modify(controller, job, (2, 2), command="other")
    switch(controller, "night", job)
    assert queues_of(controller, job) == ["night"] * 4
    assert commands_of(controller, job) == ["true", "other", "true", "true"]
    check(controller)
    ended(controller, job, 2)
    switch(controller, "normal", job)
    assert queues_of(controller, job) == ["normal"] * 4
    check(controller)


def test_some_elements_are_modified(controller):
    job = submit(controller, submission(elements="1-5"))
    result = modify(controller, job, (4, 5), request=request(2), command="other", priority=3)
    assert isinstance(result, Accepted)
    assert commands_of(controller, job) == ["true"] * 3 + ["other"] * 2
    found, state = controller.job(job), controller.state
    assert state.key(found).request == request(1)
    assert state.class_at(found, 4).key.request == request(2)
    assert [record.firsts for record in records_of(controller)] == [[4]]
    check(controller)
    place(controller, job, 1, 4)
    commands = {(effect.indices[0], effect.spec.command) for _, effect in controller.effects()}
    assert commands == {(1, "true"), (4, "other")}
    check(controller)
    modify(controller, job, run_limit_us=SECOND_US)
    assert {state.class_at(found, at).key.run_limit_us for at in range(5)} == {SECOND_US}
    assert commands_of(controller, job) == ["true"] * 3 + ["other"] * 2
    check(controller)


def records_of(controller):
    return [record for entry in controller.entries for record in entry.records
            if isinstance(record, JobModified)]  # fmt: skip


def test_of_named_elements_what_runs_keeps_what_it_was_given(controller):
    job = submit(controller, submission(elements="1-4"))
    place(controller, job, 1, 2)
    report_started(controller, job, 1)
    assert isinstance(modify(controller, job, (1, 3), command="other"), Accepted)
    assert commands_of(controller, job) == ["true", "true", "other", "true"]
    check(controller)
    controller.tell(RequeueJobs("alice", False, chosen((job, 1, 1))), by="alice")
    report_ended(controller, job, 1, exit_code=1)
    assert commands_of(controller, job)[0] == "other", "it is to be that when it starts again"
    place(controller, job, 1)
    launches = [effect for _, effect in controller.effects() if isinstance(effect, Launch)]
    assert launches[-1].spec.command == "other"
    check(controller)


def test_a_launch_that_was_lost_is_told_again_as_it_was_placed(controller):
    job = submit(controller, submission(elements="1-3"))
    place(controller, job, 1)
    modify(controller, job, command="other")
    controller.effects().clear()
    join_host(controller, "h1")
    (launch,) = [effect for _, effect in controller.effects() if isinstance(effect, Launch)][-1:]
    assert (launch.indices, launch.spec.command) == ([1], "true")
    check(controller)


def test_what_has_ended_stays_what_it_was(controller):
    job = submit(controller, submission(elements="1-4"))
    place(controller, job, 1)
    report_started(controller, job, 1)
    report_ended(controller, job, 1)
    assert controller.job(job).ended_at(0).outcome == Outcome.DONE
    assert isinstance(modify(controller, job, (1, 2), command="other"), Accepted)
    assert commands_of(controller, job) == ["true", "other", "true", "true"]
    assert refused(modify(controller, job, (1, 1), priority=1)) is RefusalCode.ALREADY_FINISHED
    (result,) = switch(controller, "night", (job, 1, 1))
    assert (refused(result), result.first) == (RefusalCode.ALREADY_FINISHED, 1)
    check(controller)


def test_what_a_job_has_as_a_whole_no_element_has_of_its_own(controller):
    job = submit(controller, submission(elements="1-4"))
    for change in ({"dependency": "done(1)"}, {"array_limit": 2}, {"group": "/a"}):
        assert refused(modify(controller, job, (2, 2), **change)) is RefusalCode.NOT_BUILT
    modify(controller, job, (2, 2), priority=1)
    assert isinstance(modify(controller, job, array_limit=2, priority=4), Accepted)
    found = controller.job(job)
    assert found.array.limit == 2
    assert {controller.state.class_at(found, at).key.priority for at in range(4)} == {4}
    assert not found.variants, "they are alike again"
    check(controller)


def test_a_change_that_was_made_out_before_another_one_is_refused(controller):
    job = submit(controller, submission(elements="1-4"))
    found, state = controller.job(job), controller.state
    wanted = part.as_it_is(state, found)
    items = [
        Modification(job, found.spec_id, found.cls, wanted),
        Modification(job, found.spec_id, found.cls, wanted, 0, ((2, 3),)),
    ]
    modify(controller, job, (2, 2), priority=1)
    for item in items:
        (result,) = controller.tell(ModifyJobs("alice", False, (item,), ("rerunnable",)))
        assert refused(result) is RefusalCode.STALE
    check(controller)


@pytest.mark.parametrize("started", [(1,), (2, 3)])
def test_a_whole_job_is_changed_where_some_of_its_forms_have_started(controller, started):
    job = submit(controller, submission(elements="1-3"))
    modify(controller, job, (1, 1), priority=5)
    place(controller, job, *started)
    result = modify(controller, job, command="other", name="new", group="/g")
    assert isinstance(result, Accepted)
    assert commands_of(controller, job) == [
        "true" if index in started else "other" for index in (1, 2, 3)
    ]
    found, state = controller.job(job), controller.state
    forms = found.own_forms()
    assert {state.specs[spec].name for _, spec in forms} == {"new"}
    assert {state.classes[cls].key.group for cls, _ in forms} == {"/g"}
    check(controller)
    controller.tell(RequeueJobs("alice", False, chosen((job, started[0], started[0]))), by="alice")
    report_ended(controller, job, started[0], exit_code=1)
    assert commands_of(controller, job)[started[0] - 1] == "other"
    check(controller)


def test_a_whole_job_of_which_everything_has_started_has_only_other_limits(controller):
    job = submit(controller, submission(elements="1-2"))
    modify(controller, job, (1, 1), priority=5)
    place(controller, job, 1, 2)
    assert refused(modify(controller, job, command="other")) is RefusalCode.WRONG_STATE
    assert isinstance(modify(controller, job, run_limit_us=SECOND_US), Accepted)
    check(controller)


def test_a_whole_job_is_changed_as_a_whole_or_not_at_all(controller):
    job = submit(controller, submission(elements="1-3"))
    modify(controller, job, (1, 1), request=request(3))
    result = modify(controller, job, queue="night", priority=7)
    assert refused(result) is RefusalCode.TOO_MANY_TASKS
    found, state = controller.job(job), controller.state
    assert queues_of(controller, job) == ["normal"] * 3
    assert {state.class_at(found, at).key.priority for at in range(3)} == {0}
    check(controller)


def ended(controller, job, *indices):
    """Let elements run and end."""
    place(controller, job, *indices)
    for index in indices:
        report_started(controller, job, index)
        report_ended(controller, job, index)


@pytest.mark.parametrize("indices", [(1, 2), (1,), (1, 4)])
def test_what_ended_of_a_whole_job_is_what_was_wished_if_it_starts_anew(controller, indices):
    job = submit(controller, submission(elements="1-5"))
    modify(controller, job, (1, 2), command="one")
    modify(controller, job, (3, 3), priority=4)
    ended(controller, job, *indices)
    result = modify(controller, job, name="new", group="/g", run_limit_us=SECOND_US)
    assert isinstance(result, Accepted)
    check(controller)
    found, state = controller.job(job), controller.state
    for at in range(5):
        spec, key = state.spec_at(found, at), state.class_at(found, at).key
        assert (spec.name, key.group, key.run_limit_us) == ("new", "/g", SECOND_US), at + 1
    assert commands_of(controller, job) == ["one", "one", "true", "true", "true"]
    elements = tuple((job, index, index) for index in indices)
    controller.tell(RequeueJobs("alice", False, chosen(*elements), ("DONE",), False), by="alice")
    place(controller, job, *indices)
    launches = [effect for _, effect in controller.effects() if isinstance(effect, Launch)]
    assert {effect.spec.name for effect in launches[-len(indices) :]} == {"new"}
    check(controller)


def test_what_ended_may_become_as_the_rest(controller):
    job = submit(controller, submission(elements="1-4"))
    modify(controller, job, (1, 2), priority=4)
    ended(controller, job, 1, 2)
    assert isinstance(modify(controller, job, priority=4), Accepted)
    assert not controller.job(job).variants
    check(controller)


def test_a_job_is_not_changed_where_what_ended_of_it_cannot_be(controller):
    job = submit(controller, submission(elements="1-3"))
    switch(controller, "night", (job, 1, 1))
    ended(controller, job, 1)
    result = modify(controller, job, request=request(3))
    assert refused(result) is RefusalCode.TOO_MANY_TASKS
    assert result.text == (
        "1[1] has ended, and if it started anew: 3 tasks; queue night takes at most 2; "
        "name the others"
    )
    assert {controller.state.class_at(controller.job(job), at).key.request for at in (1, 2)} == {
        request(1)
    }
    assert isinstance(modify(controller, job, (2, 3), request=request(3)), Accepted)
    check(controller)


def test_a_job_is_looked_at_again_if_more_of_it_was_set_apart_meanwhile(controller):
    job = submit(controller, submission(elements="1-4"))
    modify(controller, job, (2, 2), command="other")
    found, state = controller.job(job), controller.state
    items = tuple(
        one.modification(found, replace(part.as_it_is(state, found, one.form), priority=7), 0)
        for one in part.wishes_of(found, ())
    )
    modify(controller, job, (3, 3), command="other")
    results = controller.tell(ModifyJobs("alice", False, items, ("priority",)))
    assert [refused(one) for one in results] == [RefusalCode.STALE] * 2
    assert {state.class_at(found, at).key.priority for at in range(4)} == {0}
    assert isinstance(modify(controller, job, priority=7), Accepted)
    assert {state.class_at(found, at).key.priority for at in range(4)} == {7}
    check(controller)


def test_a_plan_of_before_starts_only_what_is_still_as_it_was(controller):
    job = submit(controller, submission(elements="1-4"))
    old = plan(controller, bulk(controller, (job, 1, 4), hosts={"h1": 4}))
    switch(controller, "night", (job, 2, 3))
    controller.tell(ProposePlan(old), by="scheduler")
    assert sorted(controller.job(job).live) == [0, 3]
    assert counts(controller) == {"normal": (0, 0, 2), "night": (2, 0, 0)}
    check(controller)


def test_a_session_starts_elements_of_all_classes_and_minds_the_limit(controller):
    job = submit(controller, submission(elements="1-6", limit=3))
    switch(controller, "night", (job, 2, 3))
    modify(controller, job, (5, 6), command="other", priority=5)
    for _ in range(3):
        controller.tell(ProposePlan(run_session(controller.state, now_us=controller.now_us)))
        check(controller)
    assert len(controller.job(job).live) == 3
    kill(controller, job)
    for position in sorted(controller.job(job).live):
        report_ended(controller, job, controller.job(job).index(position), exit_code=130)
    assert controller.job(job).is_finished
    check(controller)


def test_elements_of_an_array_that_stand_at_one_place_all_get_their_turn(controller):
    job = submit(controller, submission(elements="1-4"))
    modify(controller, job, (2, 2), run_limit_us=SECOND_US)
    modify(controller, job, (3, 3), run_limit_us=2 * SECOND_US)
    other = submit(controller)
    controller.tell(ProposePlan(run_session(controller.state, now_us=controller.now_us)))
    assert sorted(controller.job(job).live) == [0, 1, 2, 3]
    assert controller.job(other).live
    check(controller)


def test_why_an_element_waits_is_why_its_class_does(controller):
    job = submit(controller, submission(elements="1-3"))
    switch(controller, "off", (job, 2, 2))
    found, state = controller.job(job), controller.state
    assert pend_reason(state, found, position=1).resource == "off"
    assert pend_reason(state, found, position=0).resource != "off"


def test_what_is_held_killed_and_reserved_is_counted_where_it_is(controller):
    job = submit(controller, submission(elements="1-4", tasks=2))
    switch(controller, "night", (job, 3, 4))
    night = controller.job(job).form_at(2)[0]
    kept = Reservation(night, job, 3, 0, [0], [2])
    old = plan(controller)
    controller.tell(
        ProposePlan(type(old)(old.seq, old.config_version, old.now_us, reserved=(kept,)))
    )
    assert list(controller.state.reservations[job]) == [3]
    switch(controller, "normal", (job, 3, 3))
    assert job not in controller.state.reservations, "it was for another class"
    kill(controller, (job, 4, 4))
    assert counts(controller) == {"normal": (3, 0, 0)}
    check(controller)


def test_no_more_ways_than_are_allowed(controller, monkeypatch):
    monkeypatch.setattr("xce.control.modify.PARTS_MAX", 2)
    job = submit(controller, submission(elements="1-9"))
    for index in (1, 2):
        assert isinstance(modify(controller, job, (index, index), priority=index), Accepted)
    assert refused(modify(controller, job, (3, 3), priority=3)) is RefusalCode.TOO_LARGE
    assert isinstance(modify(controller, job, command="other"), Accepted)
    assert set(commands_of(controller, job)) == {"other"}


def test_ten_million_elements_stay_a_few_runs(controller):
    job = submit(controller, submission(elements="1-10000000"))
    modify(controller, job, (1_000, 2_000_000), priority=1)
    switch(controller, "night", (job, 1_500_000, 9_000_000))
    found = controller.job(job)
    assert len(found.variants) == 3
    assert sum(len(one.ranges) for one in found.variants) == 3
    assert counts(controller)["night"][0] == 7_500_001
    assert digest(load(dump(controller.state))) == digest(controller.state)


def test_rows_are_of_what_lives_and_of_what_is_to_be(controller):
    job = submit(controller, submission(elements="1-4"))
    place(controller, job, 1)
    modify(controller, job, (1, 2), command="other")
    found, state = controller.job(job), controller.state
    rows = {position: state.specs[spec].command
            for _, spec, ranges in shown_forms(state, found, ((0, 3),))
            for first, last in ranges for position in range(first, last + 1)}  # fmt: skip
    assert rows == {0: "true", 1: "other", 2: "true", 3: "true"}


def test_a_job_whose_elements_are_of_several_classes_is_moved_and_forgotten(controller):
    job = submit(controller, submission(elements="1-3"))
    switch(controller, "night", (job, 2, 2))
    propose(controller)
    kill(controller, job)
    check(controller)
    assert counts(controller) == {}
