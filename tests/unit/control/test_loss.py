"""Hosts that are away: unknown, given up, back with what was given up."""

import msgspec
import pytest

from xce.model.command import Accepted, ApplyConfig, DeclareHostsLost, SetHostsOpen
from xce.model.config import AppConfig, ClusterConfig, GrantConfig
from xce.model.effect import Launch, Terminate
from xce.model.host_record import HostsLost, HostsSilent, StaleGone
from xce.model.ids import SECOND_US
from xce.model.job import EndCause
from xce.model.observation import AttemptEnded, AttemptSeen, HostDisconnected, ReignBegan, Reported
from xce.model.record import Ended, Requeued
from xce.model.refusal import RefusalCode
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import ended_element, pend_reason, stat_of
from xce.testing.builders import (
    cluster,
    gang,
    join_host,
    kill,
    leave_host,
    place,
    propose,
    report,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
    tick,
)

GRACE_US = 120 * SECOND_US


@pytest.fixture
def controller():
    return cluster()


def start(controller, *, rerunnable=None, host="h1"):
    """Return a job that runs."""
    job = submit(controller, submission(rerunnable=rerunnable))
    place(controller, job, host=host)
    report_started(controller, job)
    return job


def lose(controller, host="h1"):
    """Let a host be away for longer than its grace."""
    leave_host(controller, host)
    tick(controller, after_us=GRACE_US)


def records(controller):
    return controller.entries[-1].records


def stat(controller, job):
    return stat_of(controller.state, controller.job(job), 0)


def test_jobs_of_a_host_that_is_away_run_on_until_beats_are_missed_and_are_unknown_then(controller):
    job = start(controller)
    leave_host(controller, "h1")
    tick(controller, after_us=14 * SECOND_US)
    assert stat(controller, job) == "RUN"
    tick(controller, after_us=SECOND_US)
    assert records(controller) == (HostsSilent([0]),)
    assert stat(controller, job) == "UNKWN"
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)])
    assert stat(controller, job) == "RUN"


def test_jobs_of_a_host_that_fell_silent_are_unknown_at_once(controller):
    job = start(controller)
    controller.tell(HostDisconnected("h1", silent=True), by="host h1")
    assert stat(controller, job) == "UNKWN"
    kill(controller, job)
    assert stat(controller, job) == "ZOMBI"


def test_before_the_grace_is_over_nothing_is_given_up(controller):
    job = start(controller, rerunnable=True)
    leave_host(controller, "h1")
    tick(controller, after_us=GRACE_US - 1)
    assert controller.attempt(job).number == 1
    assert controller.state.hosts.used[0, 0] == 1


def test_a_lost_host_ends_its_jobs_with_the_reason(controller):
    job = start(controller)
    lose(controller)
    lost, ended = records(controller)
    assert lost == HostsLost([0], [1])
    assert isinstance(ended, Ended)
    found, _ = ended_element(controller.job(job), 0)
    assert (found.cause, found.outcome, found.attempt) == (EndCause.HOST_LOST, 2, 1)
    assert controller.job(job).details == {0: "host h1 was lost: it was away for 2m"}
    assert not controller.state.hosts.used.any()
    check_state(controller.state)


def test_a_rerunnable_job_pends_again_under_its_id_with_the_reason(controller):
    job = start(controller, rerunnable=True)
    lose(controller)
    assert isinstance(records(controller)[1], Requeued)
    assert stat(controller, job) == "PEND"
    assert pend_reason(controller.state, controller.job(job)).code == "requeued"
    requeue = controller.job(job).requeues[0]
    assert (requeue.cause, requeue.attempt, requeue.has_run) == (EndCause.HOST_LOST, 1, True)
    assert "h1 was lost" in requeue.detail
    place(controller, job, host="h2")
    (launch,) = [effect for _, effect in controller.effects() if isinstance(effect, Launch)]
    assert (launch.attempts, launch.restarted) == ([2], [0])
    check_state(controller.state)


def test_a_job_that_was_to_be_killed_has_ended_for_that_though_it_is_rerunnable(controller):
    job = start(controller, rerunnable=True)
    kill(controller, job)
    lose(controller)
    found, by = ended_element(controller.job(job), 0)
    assert (found.cause, by) == (EndCause.OWNER, "alice")


def test_what_was_starting_on_a_lost_host_may_have_run(controller):
    job = submit(controller)
    place(controller, job)
    lose(controller)
    assert ended_element(controller.job(job), 0)[0].cause == EndCause.HOST_LOST


@pytest.mark.parametrize("rerunnable", [True, False])
def test_a_parallel_job_of_which_another_host_is_lost_holds_the_rest_until_it_is_gone(rerunnable):
    controller = cluster({"h1": 4, "h2": 4})
    job = submit(controller, submission(tasks=4, rerunnable=rerunnable))
    propose(controller, gang(controller, job, hosts={"h1": 2, "h2": 2}))
    report_started(controller, job)
    lose(controller, "h2")
    assert controller.state.hosts.used[0].tolist() == [2, 0]
    (terminate,) = [effect for _, effect in controller.effects() if isinstance(effect, Terminate)]
    assert terminate.cause == EndCause.HOST_LOST
    check_state(controller.state)
    report_ended(controller, job, exit_code=0)
    assert not controller.state.hosts.used.any()
    assert stat(controller, job) == ("PEND" if rerunnable else "EXIT")
    check_state(controller.state)


def test_a_parallel_job_is_given_up_when_its_first_host_is(controller):
    job = submit(controller, submission(tasks=4, rerunnable=True))
    propose(controller, gang(controller, job, hosts={"h1": 2, "h2": 2}))
    report_started(controller, job)
    lose(controller, "h1")
    assert stat(controller, job) == "PEND"
    assert not controller.state.hosts.used.any()


def test_a_host_that_comes_back_ends_what_is_stale_before_it_takes_anything_new(controller):
    job = start(controller, rerunnable=True)
    lose(controller)
    place(controller, job, host="h2")
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)])
    table = controller.state.hosts
    assert table.is_up[0]
    assert table.usable().tolist() == [False, True]
    told = [effect for host, effect in controller.effects() if host == "h1"]
    assert told == [Terminate(job, 0, 1, EndCause.NONE, force=True, forget=True)]
    check_state(controller.state)
    assert digest(load(dump(controller.state))) == digest(controller.state)
    controller.tell(Reported("h1", 1, gone=((job, 0, 1),)), by="host h1")
    assert records(controller) == (StaleGone(0, [job], [0], [1]),)
    assert table.usable().all()
    assert controller.attempt(job).number == 2
    check_state(controller.state)


def test_a_late_result_of_a_stale_attempt_is_refused(controller):
    job = start(controller, rerunnable=True)
    lose(controller)
    place(controller, job, host="h2")
    join_host(controller, "h1", unreported=[(job, 0, 1)])
    report(controller, "h1", AttemptEnded(job, 0, 1, exit_code=0))
    assert controller.attempt(job).number == 2


@pytest.mark.parametrize("boot_id", ["boot-1", "boot-2"])
def test_an_attempt_runs_on_though_the_end_of_an_earlier_one_is_still_to_be_told(boot_id):
    controller = cluster()
    job = start(controller, rerunnable=True)
    lose(controller)
    join_host(controller, "h1", boot_id=boot_id)
    place(controller, job)
    report_started(controller, job)
    leave_host(controller, "h1")
    runs = AttemptSeen(job, 0, 2, running=True)
    join_host(controller, "h1", boot_id=boot_id, attempts=[runs], unreported=[(job, 0, 1)])
    assert controller.attempt(job).number == 2
    assert stat(controller, job) == "RUN"


def test_a_host_that_is_closed_for_what_is_stale_is_rid_of_it_by_the_next_list(controller):
    job = start(controller)
    lose(controller)
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)])
    leave_host(controller, "h1")
    join_host(controller, "h1")
    assert controller.state.hosts.usable().all()


def test_a_leader_that_begins_gives_every_host_its_whole_grace(controller):
    job = start(controller, rerunnable=True)
    leave_host(controller, "h1")
    tick(controller, after_us=GRACE_US - SECOND_US)
    controller.tell(ReignBegan())
    assert not controller.state.hosts.is_up.any()
    tick(controller, after_us=GRACE_US - SECOND_US)
    assert controller.attempt(job).number == 1
    tick(controller)
    assert stat(controller, job) == "PEND"
    check_state(controller.state)


def test_a_clock_that_jumps_gives_no_host_up(controller):
    job = start(controller)
    leave_host(controller, "h1")
    controller.tell(ReignBegan(is_jump=True), after_us=10 * GRACE_US)
    tick(controller)
    assert controller.state.hosts.is_up[1]
    assert controller.attempt(job).number == 1


def test_an_administrator_declares_a_host_lost_that_is_away(controller):
    job = start(controller)
    command = DeclareHostsLost("root", ("h1", "h2", "h9"), is_admin=True)
    results = controller.tell(command, by="root")
    assert [getattr(item, "code", "") for item in results] == [
        RefusalCode.WRONG_STATE, RefusalCode.WRONG_STATE, RefusalCode.UNKNOWN_HOST,
    ]  # fmt: skip
    leave_host(controller, "h1")
    (result,) = controller.tell(DeclareHostsLost("root", ("h1",), is_admin=True), by="root")
    assert result == Accepted(text="lost")
    assert controller.job(job).details == {0: "host h1 was declared lost by root"}
    assert controller.state.hosts.losses_us[0] == []
    (result,) = controller.tell(DeclareHostsLost("root", ("h1",), is_admin=True), by="root")
    assert result == Accepted(text="lost")


def test_hosts_are_declared_lost_with_the_permission_only():
    controller = cluster(grants=(GrantConfig(role="operator", users=("bob",)),))
    leave_host(controller, "h1")
    (denied,) = controller.tell(DeclareHostsLost("carol", ("h1",)), by="carol")
    assert (denied.code, denied.permission) == (RefusalCode.DENIED, "host:lost")
    assert not controller.state.hosts.is_lost[0]
    assert controller.tell(DeclareHostsLost("bob", ("h1",)), by="bob") == (Accepted(text="lost"),)
    assert controller.entries[-1].cause.basis == "role operator"


def test_a_host_that_is_lost_again_and_again_is_closed_until_it_is_opened():
    controller = cluster(losses_max=2, losses_window_us=1_000 * SECOND_US)
    for _ in range(2):
        assert controller.state.hosts.is_open[0]
        lose(controller)
        join_host(controller, "h1")
    table = controller.state.hosts
    assert not table.is_open[0]
    assert table.comments[0] == "quarantined: lost 2 times within 16m 40s"
    controller.tell(SetHostsOpen("root", ("h1",), True, is_admin=True), by="root")
    assert table.is_open[0]
    lose(controller)
    assert table.is_open[0]
    tick(controller, after_us=2_000 * SECOND_US)
    join_host(controller, "h1")
    lose(controller)
    assert table.is_open[0]


def test_a_host_that_was_restarted_starts_its_rerunnable_jobs_anew(controller):
    again, once = start(controller, rerunnable=True), start(controller)
    told = start(controller, rerunnable=True)
    leave_host(controller, "h1")
    join_host(controller, "h1", boot_id="boot-2", unreported=[(told, 0, 1)])
    assert stat(controller, again) == "PEND"
    assert ended_element(controller.job(once), 0)[0].cause == EndCause.HOST_RESTARTED
    report(controller, "h1", AttemptEnded(told, 0, 1, 1, cause=EndCause.HOST_RESTARTED))
    assert stat(controller, told) == "PEND"


def test_a_killed_job_on_a_host_that_is_away_is_removed_by_force_and_stale_then(controller):
    job = start(controller)
    controller.tell(HostDisconnected("h1", silent=True), by="host h1")
    kill(controller, job, force=True)
    found, by = ended_element(controller.job(job), 0)
    assert (found.cause, by) == (EndCause.FORCE_OWNER, "alice")
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)])
    assert not controller.state.hosts.usable()[0]


def test_a_queue_says_whether_its_jobs_are_rerunnable_where_they_do_not():
    queue = ClusterConfig().queues[0]
    controller = cluster(queues=[type(queue)(name="safe", default=True, rerunnable=True)])
    for asked, expected in ((None, True), (True, True), (False, False)):
        job = submit(controller, submission(rerunnable=asked))
        assert controller.state.spec(controller.job(job)).rerunnable == expected


def test_opening_an_open_host_lifts_avoidance(controller):
    job = submit(controller)
    place(controller, job)
    report_ended(controller, job, host_fault=True, detail="no space")
    assert controller.job(job).avoid == (0,)
    controller.tell(SetHostsOpen("root", ("h1",), True, is_admin=True), by="root")
    assert controller.job(job).avoid == ()


def test_jobs_that_run_elsewhere_are_not_touched(controller):
    job = start(controller, host="h2")
    run_job(controller, submit(controller))
    lose(controller)
    assert stat(controller, job) == "RUN"


@pytest.mark.parametrize(
    ("of_cluster", "of_profile", "rerunnable", "is_fenced"),
    [
        (True, None, True, True), (True, False, True, False), (False, True, True, True),
        (False, None, True, False), (True, True, False, False),
    ],
)  # fmt: skip
def test_cluster_and_profile_say_which_rerunnable_jobs_are_frozen_and_killed(
    of_cluster, of_profile, rerunnable, is_fenced
):
    apps = (AppConfig(name="solver", self_fence=of_profile),)
    controller = cluster(self_fence=of_cluster, applications=apps)
    wanted = msgspec.structs.replace(submission(rerunnable=rerunnable), app="solver")
    place(controller, submit(controller, wanted))
    ((_, launch),) = [one for one in controller.effects() if isinstance(one[1], Launch)]
    spans = (90 * SECOND_US, 114 * SECOND_US) if is_fenced else (0, 0)
    assert (launch.fence_us, launch.fence_kill_us) == spans


def test_a_shorter_grace_does_not_count_for_what_was_launched_under_a_longer_one():
    """It was told to end by itself later than that."""
    controller = cluster(self_fence=True)
    job = start(controller, rerunnable=True)
    shorter = msgspec.structs.replace(controller.state.config, host_grace_us=30 * SECOND_US)
    controller.tell(ApplyConfig("root", shorter, is_admin=True), by="root")
    leave_host(controller, "h1")
    leave_host(controller, "h2")
    tick(controller, after_us=30 * SECOND_US)
    table = controller.state.hosts
    assert table.is_lost == [False, True]
    tick(controller, after_us=90 * SECOND_US)
    assert table.is_lost == [True, True]
    assert stat(controller, job) == "PEND"
    assert digest(load(dump(controller.state))) == digest(controller.state)
