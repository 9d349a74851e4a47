"""``brun``: a pending job starts where an administrator says, and nothing is given out twice."""

import pytest
from msgspec.structs import replace
from sessions import Scheduled

from xce.config.values import parse_windows
from xce.model.command import Accepted, ForceJob, ProposePlan, ResolveWindows, SetQueues
from xce.model.config import GrantConfig, HostConfig, QueueConfig, RoleConfig
from xce.model.ids import SECOND_US
from xce.model.plan import StartRule
from xce.model.record import GangPlaced
from xce.model.refusal import Refusal, RefusalCode
from xce.state.check import check_not_over_committed, check_state
from xce.state.view import stat_of
from xce.testing.builders import (
    cluster,
    place,
    plan,
    report_started,
    request,
    stop,
    submission,
    submit,
    tick,
)

NIGHT = QueueConfig(name="night", priority=20, run_windows=parse_windows("20-8"))
NORMAL = QueueConfig(name="normal", priority=30, default=True)
URGENT = QueueConfig(name="urgent", priority=50, preempt=("normal", "night"))
HOUR = 3_600 * SECOND_US


@pytest.fixture
def controller():
    return cluster({"h1": 4, "h2": 4}, queues=[NORMAL, NIGHT, URGENT])


def force(controller, job, *hosts, index=0, by="root", **more):
    command = ForceJob(by, by == "root", job, index, hosts or ("h1",), **more)
    (result,) = controller.tell(command, by=by)
    check_state(controller.state)
    check_not_over_committed(controller.state)
    return result


def hosts_of(controller, job, index=0):
    attempt = controller.attempt(job, index)
    names = controller.state.hosts.names
    return {names[host]: tasks for host, tasks in zip(attempt.hosts, attempt.tasks, strict=True)}


def test_a_job_starts_on_the_host_that_is_named_whoever_is_in_front(controller):
    submit(controller, submission(tasks=4))
    job = submit(controller, submission())
    assert isinstance(force(controller, job, "h2"), Accepted)
    assert hosts_of(controller, job) == {"h2": 1}
    assert controller.attempt(job).rule is StartRule.FORCED


def test_a_parallel_job_lies_on_several_as_it_asked(controller):
    job = submit(controller, submission(asks=request(tasks=4, ptile=2)))
    force(controller, job, "h1", "h2")
    assert hosts_of(controller, job) == {"h1": 2, "h2": 2}
    assert controller.attempt(job).rule is StartRule.FORCED


def test_the_state_of_the_queue_does_not_count(controller):
    controller.tell(SetQueues("root", ("normal",), is_active=False, is_admin=True), by="root")
    job = submit(controller, submission())
    assert isinstance(force(controller, job), Accepted)


def test_what_is_taken_is_not_given_out_again(controller):
    other = submit(controller, submission(tasks=3))
    place(controller, other)
    job = submit(controller, submission(tasks=2))
    found = force(controller, job)
    assert isinstance(found, Refusal)
    assert found.lsf == "Not enough host(s) currently eligible"
    assert "slots" in found.text
    assert not controller.job(job).live
    assert isinstance(force(controller, job, "h1", "h2"), Accepted)
    # What does not fit on one host alone is spread where its requirement lets it.
    assert sum(hosts_of(controller, job).values()) == 2


def test_what_the_job_asks_for_counts_on_the_named_hosts_too():
    machines = [HostConfig(name="h1", slots=4, mem_mib=1_000), HostConfig(name="h2", slots=4)]
    controller = cluster(machines)
    job = submit(controller, submission(mem_mib=2_000))
    assert isinstance(force(controller, job), Refusal)


def test_an_element_is_named_and_the_others_wait_on(controller):
    job = submit(controller, submission(elements="1-5", limit=2))
    found = force(controller, job)
    assert (found.code, found.lsf) == (RefusalCode.BAD_ARRAY, "Job array index error")
    assert force(controller, job, index=9).code == RefusalCode.UNKNOWN_JOB
    assert isinstance(force(controller, job, index=4), Accepted)
    assert list(controller.job(job).live) == [3]
    force(controller, job, index=5)
    found = force(controller, job, index=1)
    assert "its limit 2" in found.text


def test_only_what_pends_for_room_is_forced(controller):
    first = submit(controller, submission())
    waiting = submit(controller, submission(after=f"done({first})"))
    held = submit(controller, submission(hold=True))
    assert "dependency" in force(controller, waiting).text
    assert "bresume" in force(controller, held).text
    place(controller, first)
    assert force(controller, first).lsf == "Job has already started"
    assert force(controller, 99).lsf == "No matching job found"
    assert force(controller, held, "nowhere").code == RefusalCode.WRONG_STATE
    other = submit(controller, submission())
    found = force(controller, other, "nowhere")
    assert found.lsf == "Bad host name, host group name or cluster name"


def test_the_owner_may_not_and_whoever_has_the_permission_may():
    roles = [RoleConfig(name="starter", permissions=("job:force",))]
    grants = [GrantConfig(role="starter", users=("eve",), queue="normal")]
    controller = cluster({"h1": 4}, queues=[NORMAL, NIGHT], roles=roles, grants=grants)
    job = submit(controller, submission())
    found = force(controller, job, by="alice")
    assert (found.permission, found.lsf) == ("job:force", "User permission denied")
    assert isinstance(force(controller, job, by="eve"), Accepted)
    other = submit(controller, submission(queue="night"))
    assert force(controller, other, by="eve", is_firm=True).permission == "job:force"


def test_a_closed_window_needs_the_firm_form_and_does_not_suspend_it(controller):
    now_us = controller.now_us
    controller.tell(ResolveWindows((("night", ((now_us + HOUR, now_us + 2 * HOUR),)),)))
    job = submit(controller, submission(queue="night"))
    assert "-f" in force(controller, job).text
    assert isinstance(force(controller, job, is_firm=True), Accepted)
    assert controller.attempt(job).rule is StartRule.FIRM
    report_started(controller, job)
    tick(controller, after_us=HOUR)
    tick(controller, after_us=HOUR)
    assert stat_of(controller.state, controller.job(job), 0) == "RUN"
    assert not controller.attempt(job).stops


@pytest.mark.parametrize("is_firm", [True, False])
def test_others_make_it_give_way_unless_it_is_firm(is_firm):
    world = Scheduled(cluster({"h1": 1}, queues=[NORMAL, URGENT]))
    job = submit(world.controller, submission())
    force(world.controller, job, is_firm=is_firm)
    report_started(world.controller, job)
    urgent = submit(world.controller, submission(queue="urgent"))
    world.run()
    assert bool(world.controller.state.holds) != is_firm
    assert not world.is_live(urgent)


def test_room_that_is_held_for_another_is_not_taken():
    world = Scheduled(cluster({"h1": 2}, queues=[NORMAL, URGENT]))
    low = submit(world.controller, submission(tasks=2))
    world.run()
    report_started(world.controller, low)
    submit(world.controller, submission(tasks=2, queue="urgent"))
    world.run()
    assert world.controller.state.holds
    job = submit(world.controller, submission())
    assert isinstance(force(world.controller, job), Refusal)


def test_no_plan_of_a_scheduler_can_have_the_rule(controller):
    job = submit(controller, submission(tasks=2))
    proposed = plan(controller)
    item = Scheduled(controller).plan().gangs[0]
    assert item.job == job
    forged = replace(proposed, gangs=(replace(item, rule=StartRule.FIRM),))
    controller.tell(ProposePlan(forged), by="scheduler")
    assert not controller.job(job).live
    assert GangPlaced not in map(type, controller.entries[-1].records)


def test_a_stopped_pending_job_is_held_and_not_forced(controller):
    job = submit(controller, submission())
    stop(controller, job)
    assert "bresume" in force(controller, job).text
