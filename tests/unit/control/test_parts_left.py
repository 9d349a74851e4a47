"""What an attempt leaves on its other hosts when its first host cannot tell."""

import pytest

from xce.model.effect import Terminate
from xce.model.host_record import PartsLeft
from xce.model.ids import SECOND_US
from xce.model.job import EndCause
from xce.model.observation import AttemptSeen, HostDisconnected, Reported
from xce.model.record import Ended
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import (
    cluster,
    gang,
    join_host,
    kill,
    leave_host,
    propose,
    report_ended,
    report_started,
    submission,
    submit,
    tick,
)


@pytest.fixture
def controller():
    return cluster({"h1": 4, "h2": 4, "h3": 4})


def start(controller, *, rerunnable=False):
    job = submit(controller, submission(tasks=4, rerunnable=rerunnable))
    propose(controller, gang(controller, job, hosts={"h1": 2, "h2": 1, "h3": 1}))
    report_started(controller, job)
    controller.effects()
    return job


def ends_of(controller, *hosts):
    told = [(host, effect) for host, effect in controller.effects() if host in hosts]
    return [(host, effect) for host, effect in told if isinstance(effect, Terminate)]


@pytest.mark.parametrize("rerunnable", [True, False])
def test_when_the_first_host_is_lost_the_others_end_what_they_have_of_it(controller, rerunnable):
    job = start(controller, rerunnable=rerunnable)
    leave_host(controller, "h1")
    tick(controller, after_us=1000 * SECOND_US)
    gone = Terminate(job, 0, 1, EndCause.NONE, force=True, forget=True)
    assert ends_of(controller, "h2", "h3") == [("h2", gone), ("h3", gone)]
    table = controller.state.hosts
    assert table.usable().tolist() == [False, False, False]
    check_state(controller.state)
    assert digest(load(dump(controller.state))) == digest(controller.state)
    for number, host in enumerate(("h2", "h3"), 1):
        controller.tell(Reported(host, 1, gone=((job, 0, 1),)), by=f"host {host}")
        assert table.usable()[number]
    check_state(controller.state)


def test_a_host_that_is_away_itself_tells_of_its_part_when_it_comes_back(controller):
    job = start(controller)
    leave_host(controller, "h2")
    leave_host(controller, "h1")
    tick(controller, after_us=1000 * SECOND_US)
    left = [one for one in controller.entries[-1].records if isinstance(one, PartsLeft)]
    assert left == [PartsLeft([2], [job], [0], [1])]
    join_host(controller, "h2", attempts=[AttemptSeen(job, 0, 1, running=True)])
    assert [host for host, _ in ends_of(controller, "h2")] == ["h2"]
    assert not controller.state.hosts.usable()[1]
    check_state(controller.state)


def test_a_part_is_nothing_strange_on_a_host_that_comes_back_while_its_job_runs(controller):
    job = start(controller)
    leave_host(controller, "h2")
    join_host(controller, "h2", attempts=[AttemptSeen(job, 0, 1, running=True)])
    assert ends_of(controller, "h2") == []
    assert controller.state.hosts.usable()[1]
    assert controller.attempt(job).number == 1


def test_a_restarted_first_host_leaves_parts_too(controller):
    start(controller)
    leave_host(controller, "h1")
    join_host(controller, "h1", boot_id="another")
    assert [host for host, _ in ends_of(controller, "h2", "h3")] == ["h2", "h3"]
    check_state(controller.state)


def test_an_attempt_that_its_first_host_does_not_know_any_more_leaves_parts(controller):
    start(controller)
    leave_host(controller, "h1")
    join_host(controller, "h1")
    assert [host for host, _ in ends_of(controller, "h2", "h3")] == ["h2", "h3"]
    check_state(controller.state)


def test_an_attempt_that_is_removed_by_force_leaves_parts(controller):
    job = start(controller)
    controller.tell(HostDisconnected("h1", silent=True), by="host h1")
    kill(controller, job, force=True)
    assert [host for host, _ in ends_of(controller, "h2", "h3")] == ["h2", "h3"]
    check_state(controller.state)


def test_an_end_that_the_first_host_has_told_leaves_nothing(controller):
    job = start(controller)
    report_ended(controller, job, exit_code=0)
    assert ends_of(controller, "h2", "h3") == []
    assert controller.state.hosts.usable().all()


def test_an_end_by_a_lost_host_names_it(controller):
    job = start(controller)
    leave_host(controller, "h2")
    tick(controller, after_us=1000 * SECOND_US)
    report_ended(controller, job, exit_code=130)
    (ended,) = [one for one in controller.entries[-1].records if isinstance(one, Ended)]
    assert ended.details == [(0, "lost: h2")]
