"""Workers that come and go, hosts that are opened and closed, configurations."""

import msgspec
import pytest

from xce.model.command import Accepted, ApplyConfig, SetHostsOpen
from xce.model.config import HostConfig
from xce.model.effect import Launch, Terminate
from xce.model.host_record import HostsOpened
from xce.model.job import EndCause
from xce.model.observation import HOLLOW, AttemptSeen, HostJoined
from xce.model.refusal import RefusalCode
from xce.model.request import Amount
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import ended_element
from xce.testing.builders import (
    cluster,
    config,
    join_host,
    kill,
    leave_host,
    place,
    report_ended,
    report_started,
    request,
    run_job,
    submission,
    submit,
    tick,
)


@pytest.fixture
def controller():
    return cluster()


def test_a_host_that_no_configuration_names_is_refused(controller):
    (result,) = join_host(controller, "h9")
    assert result.code == RefusalCode.UNKNOWN_HOST
    assert "h9" in result.text


def test_a_worker_that_joins_brings_its_host_up_with_what_it_has():
    controller = cluster([HostConfig(name="h1")], join=False)
    table = controller.state.hosts
    assert not table.usable().any()
    join_host(controller, "h1", cpus=6, mem_mib=1_000, attributes={"os": "x"})
    assert table.usable().all()
    assert table.total[:, 0].tolist() == [6, 1_000]
    assert table.attributes(0) == {"os": "x"}


def test_what_the_configuration_says_wins_over_what_the_worker_reports():
    host = HostConfig(name="h1", slots=2, mem_mib=50, attributes={"os": "y"})
    controller = cluster([host], join=False)
    join_host(controller, "h1", attributes={"os": "x", "model": "m"})
    assert controller.state.hosts.total[:, 0].tolist() == [2, 50]
    assert controller.state.hosts.attributes(0) == {"os": "y", "model": "m"}


def test_a_worker_that_leaves_takes_its_host_out_of_new_work_and_jobs_run_on(controller):
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    leave_host(controller, "h1")
    assert not controller.state.hosts.usable()[0]
    assert controller.attempt(job)
    before = len(controller.entries)
    leave_host(controller, "h1")
    leave_host(controller, "h9")
    assert len(controller.entries) == before


def test_a_worker_that_comes_again_with_its_jobs_changes_nothing_about_them(controller):
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)])
    assert controller.attempt(job)
    assert controller.effects() == []


def test_an_end_that_is_still_to_be_reported_is_waited_for(controller):
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    join_host(controller, "h1", unreported=[(job, 0, 1)])
    report_ended(controller, job, exit_code=0)
    assert controller.job(job).done == 1


@pytest.mark.parametrize(
    ("boot_id", "cause"),
    [("boot-2", EndCause.HOST_RESTARTED), ("boot-1", EndCause.STATUS_LOST)],
)
def test_what_ran_and_is_unknown_to_its_host_has_ended(controller, boot_id, cause):
    job, other = submit(controller), submit(controller)
    place(controller, job)
    place(controller, other, host="h2")
    report_started(controller, job)
    report_started(controller, other)
    join_host(controller, "h1", boot_id=boot_id)
    assert ended_element(controller.job(job), 0)[0].cause == cause
    assert controller.attempt(other)
    check_state(controller.state)


def test_what_was_to_be_ended_keeps_its_cause_when_its_host_lost_it(controller):
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    kill(controller, job)
    join_host(controller, "h1", boot_id="boot-2")
    assert ended_element(controller.job(job), 0)[0].cause == EndCause.OWNER


def test_what_was_not_known_to_run_is_launched_again(controller):
    job = submit(controller)
    place(controller, job)
    join_host(controller, "h1", boot_id="boot-2")
    ((host, effect),) = controller.effects()
    assert (host, type(effect), effect.attempts) == ("h1", Launch, [1])


def test_an_attempt_that_is_not_ours_any_more_is_ended_without_a_report(controller):
    job = submit(controller)
    run_job(controller, job)
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)])
    assert controller.effects() == [
        ("h1", Terminate(job, 0, 1, EndCause.NONE, force=True, forget=True))
    ]


def test_an_attempt_of_a_forgotten_job_is_ended_and_one_of_an_unknown_job_is_left(controller):
    job = submit(controller)
    run_job(controller, job)
    tick(controller, after_us=10**11)
    seen = [AttemptSeen(job, 0, 1, running=True), AttemptSeen(job + 50, 0, 1, running=True)]
    join_host(controller, "h1", attempts=seen)
    assert [effect.job for _, effect in controller.effects()] == [job]


def test_hosts_are_closed_and_opened_by_name(controller):
    results = controller.tell(SetHostsOpen("root", ("h1", "h9", "h1"), False, "why", is_admin=True))
    assert [type(result) is Accepted for result in results] == [True, False, True]
    assert results[1].code == RefusalCode.UNKNOWN_HOST
    assert controller.entries[-1].records == (HostsOpened([0], False, "why"),)
    before = len(controller.entries)
    controller.tell(SetHostsOpen("root", ("h1",), False, is_admin=True))
    assert len(controller.entries) == before
    controller.tell(SetHostsOpen("root", ("h1",), True, is_admin=True))
    assert controller.state.hosts.usable().all()


# Configurations.


def reconfigure(controller, *hosts, **more):
    controller.tell(ApplyConfig("root", config(hosts, **more), is_admin=True))
    check_state(controller.state)
    loaded = load(dump(controller.state))
    check_state(loaded)
    assert digest(loaded) == digest(controller.state)
    return controller.state.hosts


def test_an_equal_configuration_changes_nothing(controller):
    before = len(controller.entries)
    (result,) = controller.tell(ApplyConfig("root", config(("h1", "h2")), is_admin=True))
    assert result.text == "unchanged"
    assert len(controller.entries) == before


def test_hosts_keep_their_numbers(controller):
    table = reconfigure(controller, "h0", "h2")
    assert table.names == ["h1", "h2", "h0"]
    assert table.usable().tolist() == [False, True, False]


def test_a_host_that_comes_back_is_as_new(controller):
    closed = HostConfig(name="h1", slots=4, closed=True)
    table = reconfigure(controller, closed, "h2")
    assert not table.is_open[0]
    controller.tell(SetHostsOpen("root", ("h1",), True, is_admin=True))
    reconfigure(controller, "h2")
    table = reconfigure(controller, closed, "h2")
    assert not table.is_open[0]
    table = reconfigure(controller, msgspec.structs.replace(closed, closed=False), "h2")
    assert table.is_open[0]


def test_a_host_that_left_the_configuration_may_come_until_its_last_job_has_ended(controller):
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    reconfigure(controller, "h2")
    assert join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)]) == ()
    assert not controller.state.hosts.usable()[0]
    report_ended(controller, job)
    assert controller.job(job).done == 1
    (result,) = join_host(controller, "h1")
    assert result.code == RefusalCode.UNKNOWN_HOST


def test_what_an_administrator_opened_stays_open_when_the_rest_changes(controller):
    closed = HostConfig(name="h1", slots=4, closed=True)
    reconfigure(controller, closed, "h2")
    controller.tell(SetHostsOpen("root", ("h1",), True, is_admin=True))
    table = reconfigure(controller, msgspec.structs.replace(closed, slots=8), "h2")
    assert table.is_open[0]


def test_counters_and_pools_may_come_go_and_change_places_under_running_jobs():
    licensed = HostConfig(name="h1", slots=4, counters={"lic": 3, "aaa": 1})
    controller = cluster([licensed], counters=("lic",), pools={"tokens": 5})
    asks = request(1, amounts=[Amount("lic", 2), Amount("tokens", 3)])
    job = submit(controller, submission(asks=asks))
    place(controller, job)
    table, pools = controller.state.hosts, controller.state.pools
    assert table.used[table.row["lic"], 0] == 2
    reconfigure(controller, licensed, counters=("aaa", "lic"), pools={"tokens": 5})
    assert table.used[table.row["lic"], 0] == 2
    reconfigure(controller, licensed, pools={"lic": 9})
    assert (pools.used["lic"], pools.free("lic")) == (2, 7)
    reconfigure(controller, licensed, counters=("lic", "tokens"))
    assert table.used[table.row["tokens"], 0] == 3
    report_ended(controller, job)
    check_state(controller.state)
    assert not table.used.any()


def test_a_hollow_host_is_refused_in_mode_production_and_taken_in_mode_test():
    seen = HostJoined("h1", "boot", 1, 1_000, isolation=f"{HOLLOW}: jobs are simulated")
    for mode, text in (
        ("production", "is hollow, and the cluster is in mode production"),
        ("test", ""),
    ):
        controller = cluster([HostConfig(name="h1")], join=False)
        controller.tell(
            ApplyConfig("root", config([HostConfig(name="h1")], mode=mode), is_admin=True)
        )
        results = controller.tell(seen, by="host h1")
        assert [text in result.text for result in results if text] == ([True] if text else [])
        assert controller.state.hosts.usable().any() == (not text)
