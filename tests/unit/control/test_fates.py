"""Jobs that lose a host which is not their first: whose fates bear that go on without it."""

from random import Random

import pytest
from msgspec.structs import replace

from xce.control.fates import tolerated_roles
from xce.model.effect import Launch, Terminate
from xce.model.host_record import HostsLeftOut
from xce.model.ids import SECOND_US
from xce.model.job import EndCause, JobSpec, Owner
from xce.model.observation import AttemptSeen, Reported
from xce.model.plan import GangStart
from xce.model.record import EndDecided
from xce.model.relation import LaunchType, Relation, RelationKind, Role
from xce.model.request import Amount, Part, Request
from xce.sim.step_load import draw_role_job
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import (
    cluster,
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
from xce.worker.step_plan import plan_of

K = RelationKind
TOLERATE = Relation(K.FATE, roles=("worker",), params=(("policy", "tolerate"),))
RESTART = Relation(K.FATE, roles=("worker",), params=(("policy", "restart-member"),))
BESIDE = Relation(K.SIDECAR_OF, source=("worker",), target=("main",))
TASKS = LaunchType.TASKS
MEMORY = (Amount("mem", 100, "host"), Amount("mem", 1000, "job"))


@pytest.fixture
def controller():
    return cluster({"h1": 4, "h2": 4, "h3": 4}, pools={"tokens": 9})


def start(controller, *relations, attached=(), amounts=(), is_running=True):
    """Return a job of a role on h1, and one with two tasks on h2 and one on h3."""
    counts = {"main": 1, "worker": 3}
    roles = [Role(name, count, command="a", launch=TASKS) for name, count in counts.items()]
    roles += [Role("beside", 0, command="c", attach=attached, launch=TASKS)] if attached else []
    parts = (
        Part("main", 1, Request()),
        Part("worker", 3, Request(tasks_min=3, tasks_max=3, amounts=amounts)),
    )
    request = Request(tasks_min=4, tasks_max=4, parts=parts)
    wanted = submission(tasks=4)
    spec = replace(wanted.spec, roles=tuple(roles), relations=tuple(relations), runs_by_roles=True)
    job = submit(controller, replace(wanted, spec=spec, request=request))
    key = controller.job(job)
    propose(controller, GangStart(key.cls, job, 0, [0, 1, 2], [1, 2, 1], parts=[0, 1, 1]))
    if is_running:
        report_started(controller, job)
    controller.effects()
    return job


def lose(controller, *hosts):
    for host in hosts:
        leave_host(controller, host)
    tick(controller, after_us=1000 * SECOND_US)


def said(controller, kind):
    return [one for one in controller.entries[-1].records if isinstance(one, kind)]


@pytest.mark.parametrize("relation", [TOLERATE, BESIDE])
def test_a_job_goes_on_without_a_host_that_had_tasks_whose_end_it_bears(controller, relation):
    job = start(controller, relation)
    lose(controller, "h2")
    assert said(controller, HostsLeftOut) == [HostsLeftOut([1], [job], [0], [1])]
    assert said(controller, EndDecided) == []
    assert controller.effects() == []
    attempt = controller.attempt(job)
    assert (attempt.hosts, attempt.tasks, attempt.parts) == ([0, 2], [1, 1], [0, 1])
    assert (attempt.left_out, attempt.ranks) == ([1], [0, 3])
    assert controller.state.hosts.used[0].tolist() == [1, 0, 1]
    check_state(controller.state)
    assert digest(load(dump(controller.state))) == digest(controller.state)
    report_ended(controller, job, exit_code=0)
    assert not controller.state.hosts.used.any()
    check_state(controller.state)


@pytest.mark.parametrize("relations", [(), (RESTART,), (BESIDE, RESTART)])
def test_a_job_ends_when_a_host_is_lost_with_tasks_that_it_cannot_do_without(controller, relations):
    job = start(controller, *relations)
    lose(controller, "h3")
    assert said(controller, HostsLeftOut) == [HostsLeftOut([2], [job], [0], [1])]
    (terminate,) = [effect for _, effect in controller.effects() if isinstance(effect, Terminate)]
    assert terminate.cause is EndCause.HOST_LOST
    check_state(controller.state)


def test_a_role_that_is_attached_to_lost_tasks_counts_too(controller):
    start(controller, TOLERATE, attached=("worker",))
    lose(controller, "h2")
    assert said(controller, EndDecided) != []


def test_nothing_goes_on_that_has_not_begun(controller):
    start(controller, TOLERATE, is_running=False)
    lose(controller, "h2")
    assert said(controller, EndDecided) != []


def test_the_first_host_is_never_done_without(controller):
    start(controller, TOLERATE)
    lose(controller, "h1")
    assert said(controller, HostsLeftOut) == []
    assert controller.state.hosts.used[0].tolist() == [0, 0, 0]


def test_several_hosts_may_be_lost_at_once(controller):
    job = start(controller, TOLERATE)
    lose(controller, "h2", "h3")
    assert said(controller, HostsLeftOut) == [HostsLeftOut([1, 2], [job, job], [0, 0], [1, 1])]
    assert controller.attempt(job).hosts == [0]
    check_state(controller.state)


def test_what_is_once_for_a_role_stays_with_its_lost_first_host(controller):
    start(controller, TOLERATE, amounts=MEMORY)
    used = controller.state.hosts.used
    assert used[1].tolist() == [0, 1100, 100]
    lose(controller, "h2")
    assert controller.state.hosts.used[1].tolist() == [0, 0, 100]
    check_state(controller.state)
    assert digest(load(dump(controller.state))) == digest(controller.state)


def test_a_lost_host_takes_nothing_new_before_what_it_still_runs_is_gone(controller):
    job = start(controller, TOLERATE)
    lose(controller, "h2")
    join_host(controller, "h2", attempts=[AttemptSeen(job, 0, 1, running=True)])
    gone = Terminate(job, 0, 1, EndCause.NONE, force=True, forget=True)
    assert controller.effects() == [("h2", gone)]
    table = controller.state.hosts
    assert table.usable().tolist() == [True, False, True]
    controller.tell(Reported("h2", 1, gone=((job, 0, 1),)), by="host h2")
    assert table.usable().all()
    assert controller.attempt(job).hosts == [0, 2]
    check_state(controller.state)


def test_a_host_that_was_restarted_is_left_out_and_may_be_used_at_once(controller):
    job = start(controller, TOLERATE)
    leave_host(controller, "h2")
    join_host(controller, "h2", boot_id="another")
    assert said(controller, HostsLeftOut) == [HostsLeftOut([1], [job], [0], [1])]
    assert controller.state.hosts.usable().all()
    assert controller.state.hosts.used[0].tolist() == [1, 0, 1]
    assert [effect for _, effect in controller.effects() if isinstance(effect, Launch)] == []


def test_what_is_being_ended_is_left_without_the_host_too(controller):
    job = start(controller)
    kill(controller, job)
    lose(controller, "h2")
    assert said(controller, HostsLeftOut) == [HostsLeftOut([1], [job], [0], [1])]
    assert said(controller, EndDecided) == []
    check_state(controller.state)


def test_what_the_allocation_bears_is_what_the_step_bears():
    for seed in range(300):
        spec, request = draw_role_job(Random(seed), JobSpec(command="run 1 0"), is_spread=True)
        rows = tuple((part.name, "h1", part.tasks) for part in request.parts)
        launch = Launch(
            job=1, indices=[0], attempts=[1], spec=spec, owner=Owner("u", 1, 1), queue="q",
            project="p", cluster="c", hosts=(("h1", 3),), tasks_max=3, submit_at_us=0,
            run_limit_us=0, term_grace_us=0, kill_interval_us=SECOND_US, rows=rows,
        )  # fmt: skip
        plan = plan_of(launch, 0, "")
        assert tolerated_roles(spec) == {role.name for role in plan.roles if not role.is_fatal}
