"""Which jobs a selection means."""

import pytest

from xce.control.dependency import matches
from xce.control.selection import Selected, select
from xce.model.command import Selection
from xce.model.config import AppConfig, QueueConfig
from xce.model.observation import SuspensionSeen
from xce.model.permission import Actor, Permission
from xce.model.refusal import RefusalCode
from xce.testing.builders import (
    BOB,
    cluster,
    gang,
    modify,
    place,
    propose,
    report,
    report_started,
    run_job,
    stop,
    submission,
    submit,
    switch,
)


@pytest.fixture
def controller():
    found = cluster(
        queues=(QueueConfig(name="normal", default=True), QueueConfig(name="night")),
        applications=(AppConfig(name="long"),),
    )
    submit(found, submission(name="sim_a"), submission(name="sim_b", queue="night"))
    submit(found, submission(name="sim_a"), submission(), owner=BOB)
    submit(found, submission(name="other", elements="1-3"))
    place(found, 5, 1, host="h2")
    return found


def ids(controller, *, by="alice", is_admin=False, **filters):
    selection = Selection(all=True, **filters)
    found = select(
        controller.state,
        selection,
        actor=Actor(by, is_admin=is_admin),
        permission=Permission.JOB_KILL,
    )
    return [item.job for item in found if isinstance(item, Selected)]


def test_a_user_means_his_own_jobs(controller):
    assert ids(controller) == [1, 2, 5]
    assert ids(controller, user="bob") == []


def test_an_administrator_means_those_of_all_or_of_one(controller):
    assert ids(controller, by="root", is_admin=True) == [1, 2, 3, 4, 5]
    assert ids(controller, by="root", is_admin=True, user="bob") == [3, 4]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"name": "sim_*"}, [1, 2]),
        ({"name": "sim_a"}, [1]),
        ({"queue": "night"}, [2]),
        ({"host": "h2"}, [5]),
        ({"host": "h1"}, []),
        ({"host": "nowhere"}, []),
        ({"newest": True}, [5]),
        ({"newest": True, "name": "sim_*"}, [2]),
    ],
)
def test_filters_narrow_it(controller, filters, expected):
    assert ids(controller, **filters) == expected


def found_elements(controller, **filters):
    found = select(
        controller.state,
        Selection(user="alice", **filters),
        actor=Actor("alice"),
        permission=Permission.JOB_KILL,
    )
    return [(one.job, one.positions) for one in found if isinstance(one, Selected)]


def test_a_state_means_the_elements_that_are_in_it(controller):
    stop(controller, 2, (5, 3, 3))
    assert found_elements(controller, all=True, state="run") == [(5, ((0, 0),))]
    assert found_elements(controller, all=True, state="pend") == [(1, None), (5, ((1, 1),))]
    assert found_elements(controller, all=True, state="susp") == [(2, None), (5, ((2, 2),))]
    report_started(controller, 5, 1)
    report(controller, "h2", SuspensionSeen(5, 1, 1, suspended=True))
    assert found_elements(controller, all=True, state="run") == []
    newest = found_elements(controller, newest=True, state="susp")
    assert newest == [(5, ((0, 0),)), (5, ((2, 2),))]


def test_a_host_means_what_lives_there_and_nothing_else_of_an_array(controller):
    place(controller, 5, 3, host="h1")
    assert found_elements(controller, all=True, host="h2") == [(5, ((0, 0),))]
    assert found_elements(controller, all=True, host="h1", state="run") == [(5, ((2, 2),))]
    place(controller, 1, host="h1")
    assert found_elements(controller, newest=True, host="h1") == [(5, ((2, 2),))]
    assert found_elements(controller, all=True, host="h1") == [(1, None), (5, ((2, 2),))]


def test_a_host_means_parallel_jobs_that_have_any_of_their_tasks_there(controller):
    job = submit(controller, submission(tasks=2))
    propose(controller, gang(controller, job, hosts={"h1": 1, "h2": 1}))
    assert found_elements(controller, all=True, host="h2") == [(5, ((0, 0),)), (job, None)]


def test_a_queue_and_a_profile_mean_the_elements_that_are_of_them(controller):
    modify(controller, 5, (2, 2), app="long")
    switch(controller, "night", (5, 3, 3))
    assert found_elements(controller, all=True, app="long") == [(5, ((1, 1),))]
    assert found_elements(controller, all=True, queue="night") == [(2, None), (5, ((2, 2),))]
    assert found_elements(controller, all=True, queue="night", app="long") == []
    assert found_elements(controller, all=True, queue="normal", host="h2") == [(5, ((0, 0),))]
    assert found_elements(controller, all=True, queue="night", host="h2") == []


def test_a_filter_that_nothing_matches_is_one_refusal(controller):
    (found,) = select(
        controller.state,
        Selection(all=True, name="x"),
        actor=Actor("alice"),
        permission=Permission.JOB_KILL,
    )
    assert (found.code, found.lsf) == (RefusalCode.UNKNOWN_JOB, "No matching job found")


def test_finished_jobs_match_no_filter(controller):
    run_job(controller, 1)
    assert ids(controller) == [2, 5]


def test_named_jobs_keep_their_order_and_their_runs(controller):
    selection = Selection(jobs=((5, ((3, 3), (1, 2))), (1, ())))
    found = select(
        controller.state, selection, actor=Actor("alice"), permission=Permission.JOB_KILL
    )
    assert [(item.job, item.positions) for item in found] == [
        (5, ((2, 2),)),
        (5, ((0, 1),)),
        (1, None),
    ]


def test_an_index_of_a_job_that_is_no_array_is_unknown(controller):
    selection = Selection(jobs=((1, ((3, 3),)),))
    (found,) = select(
        controller.state, selection, actor=Actor("alice"), permission=Permission.JOB_KILL
    )
    assert found.code == RefusalCode.UNKNOWN_JOB


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("abc", "abc", True),
        ("abc", "ab", False),
        ("abc", "*", True),
        ("abc", "a*c", True),
        ("abc", "a*b", False),
        ("abab", "ab*ab", True),
        ("aba", "ab*ba", False),
        ("axbxc", "a*b*c", True),
        ("acb", "a*b*c", False),
        ("", "*", True),
        ("a.c", "a?c", False),
        ("[x]", "[x]", True),
    ],
)
def test_only_a_star_is_special(name, pattern, fits):
    assert matches(name, pattern) is fits


@pytest.mark.parametrize(
    ("elements", "asked", "told"),
    [
        ("1-3", (2, 9), (2, 3)),
        ("1-3", (1, 3), (1, 3)),
        ("2-8:3", (1, 7), (2, 5)),
        ("5", (1, 2**31), (5, 5)),
    ],
)
def test_what_is_told_of_elements_is_of_those_that_are_there(elements, asked, told):
    found = cluster(queues=(QueueConfig(name="normal", default=True),))
    submit(found, submission(elements=elements))
    (item,) = select(
        found.state,
        Selection(jobs=((1, (asked,)),)),
        actor=Actor("alice"),
        permission=Permission.JOB_KILL,
    )
    assert isinstance(item, Selected)
    assert (item.first, item.last) == told
