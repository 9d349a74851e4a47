"""What hosts are owed, read off the state."""

from msgspec.structs import replace

from xce.control.effects import owed, row_wishes
from xce.model.command import SignalJobs
from xce.model.device import GpuWish
from xce.model.effect import Launch, SendSignal, SetSuspended, Terminate
from xce.model.ids import SECOND_US
from xce.model.observation import AttemptSeen
from xce.model.plan import GangStart
from xce.model.request import Amount, Part, Request
from xce.state.job import Attempt
from xce.testing.builders import (
    chosen,
    cluster,
    gang,
    join_host,
    kill,
    place,
    propose,
    report_ended,
    report_started,
    request,
    stop,
    submission,
    submit,
)


def test_elements_of_one_job_on_one_host_are_launched_together():
    controller = cluster()
    job = submit(controller, submission(elements="1-9:2", run_limit_us=60 * SECOND_US))
    place(controller, job, 1, 5, 7)
    ((host, launch),) = controller.effects()
    assert host == "h1"
    assert (launch.indices, launch.attempts) == ([1, 5, 7], [1, 1, 1])
    assert (launch.array_end, launch.array_step) == (9, 2)
    assert launch.run_limit_us == 60 * SECOND_US
    assert launch.hosts == (("h1", 1),)


def with_spec(**members):
    wanted = submission()
    return replace(wanted, spec=replace(wanted.spec, **members))


def test_a_host_is_told_how_long_it_is_to_the_warning_before_a_deadline():
    controller = cluster()
    deadline_us = controller.now_us + 600 * SECOND_US
    warning = {"warning_signal": 10, "warning_us": 60 * SECOND_US}
    job = submit(controller, with_spec(deadline_us=deadline_us, **warning))
    for quiet in ({"deadline_us": deadline_us}, warning):
        place(controller, submit(controller, with_spec(**quiet)))
        assert controller.effects()[-1][1].warning_in_us == 0
    controller.now_us += 100 * SECOND_US
    place(controller, job)
    told_us = controller.effects()[-1][1].warning_in_us
    assert 439 * SECOND_US < told_us <= 440 * SECOND_US
    controller.now_us += 500 * SECOND_US
    join_host(controller, "h1")
    told = [one for _, one in controller.effects() if isinstance(one, Launch) and one.job == job]
    assert told[-1].warning_in_us == 1, "it is due"


def test_a_launch_says_all_that_the_host_needs():
    controller = cluster(term_grace_us=5, kill_interval_us=7, cluster_name="c")
    asks = request(
        (2, 3), mem_mib=100, amounts=[Amount("mem", 10, "host"), Amount("mem", 5, "job")]
    )
    job = submit(controller, submission("run me", name="n", asks=asks, project="p"))
    propose(controller, gang(controller, job, hosts={"h2": 1, "h1": 1}))
    ((host, launch),) = controller.effects()
    assert host == "h2"
    assert launch.spec.name == "n"
    assert launch.owner.user == "alice"
    assert (launch.queue, launch.project, launch.cluster) == ("normal", "p", "c")
    assert (launch.term_grace_us, launch.kill_interval_us) == (5, 7)
    assert launch.tasks_max == 3
    assert launch.mem_request_mib == 2 * 100 + 2 * 10 + 5
    assert "rusage" in launch.resreq


def test_a_host_is_owed_a_launch_until_it_says_that_the_job_runs():
    controller = cluster()
    job = submit(controller)
    place(controller, job)
    state = controller.state
    assert [type(effect) for effect in owed(state, 0)] == [Launch]
    assert owed(state, 0) == owed(state, 0)
    assert owed(state, 1) == ()
    report_started(controller, job)
    assert owed(state, 0) == ()


def test_a_host_is_owed_an_end_until_it_is_there():
    controller = cluster()
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    kill(controller, job)
    assert [type(effect) for effect in owed(controller.state, 0)] == [Terminate]
    report_ended(controller, job)
    assert owed(controller.state, 0) == ()


def test_signals_are_told_again_to_a_worker_that_comes_again():
    controller = cluster()
    job = submit(controller)
    place(controller, job)
    report_started(controller, job)
    controller.tell(SignalJobs("alice", False, chosen(job), 10))
    join_host(controller, "h1", attempts=[AttemptSeen(job, 0, 1, running=True)])
    assert controller.effects() == [("h1", SendSignal(job, 0, 1, 1, 10))]
    assert owed(controller.state, 0) == (SendSignal(job, 0, 1, 1, 10),)


def test_a_suspension_is_owed_only_while_the_attempt_runs():
    controller = cluster()
    job = submit(controller)
    place(controller, job)
    stop(controller, job)
    assert [type(effect) for effect in owed(controller.state, 0)] == [Launch]
    report_started(controller, job)
    assert owed(controller.state, 0) == (SetSuspended(job, 0, 1, suspended=True),)


def test_a_step_tells_only_what_it_added():
    controller = cluster()
    first, second = submit(controller), submit(controller)
    place(controller, first)
    place(controller, second)
    assert [effect.job for _, effect in controller.effects()] == [second]


def test_parts_that_meet_on_a_host_are_one_entry_of_the_launch():
    controller = cluster({"h1": 4, "h2": 4})
    part = Request(tasks_min=2, tasks_max=2, amounts=(Amount("mem", 5),))
    asks = Request(tasks_min=4, tasks_max=4, parts=(Part("a", 2, part), Part("b", 2, part)))
    job = submit(controller, submission(asks=asks))
    number = controller.state.hosts.number
    hosts = [number[name] for name in ("h2", "h1", "h1", "h2")]
    placed = GangStart(controller.job(job).cls, job, 0, hosts, [1, 1, 1, 1], [0, 0, 1, 1])
    propose(controller, placed)
    ((host, launch),) = controller.effects()
    assert host == "h2"
    assert launch.hosts == (("h2", 1), ("h1", 2), ("h2", 1))
    assert launch.mem_request_mib == 20


def test_a_launch_names_the_role_of_each_rank():
    controller = cluster({"h1": 4, "h2": 4})
    part = Request(tasks_min=2, tasks_max=2)
    asks = Request(tasks_min=4, tasks_max=4, parts=(Part("a", 2, part), Part("b", 2, part)))
    job = submit(controller, submission(asks=asks))
    number = controller.state.hosts.number
    hosts = [number[name] for name in ("h2", "h1", "h1")]
    propose(controller, GangStart(controller.job(job).cls, job, 0, hosts, [1, 1, 2], [0, 0, 1]))
    ((_, launch),) = controller.effects()
    assert launch.rows == (("a", "h2", 1), ("a", "h1", 1), ("b", "h1", 2))


def test_a_launch_without_roles_names_none():
    controller = cluster({"h1": 4, "h2": 4})
    job = submit(controller, submission(asks=Request(tasks_min=2, tasks_max=2)))
    number = controller.state.hosts.number
    hosts = [number[name] for name in ("h2", "h1")]
    propose(controller, GangStart(controller.job(job).cls, job, 0, hosts, [1, 1]))
    ((_, launch),) = controller.effects()
    assert launch.rows == ()


def test_a_launch_says_what_each_role_asked_for_of_gpus():
    controller = cluster({"h1": 4})
    plain = Request()
    with_gpu = Request(gpu=GpuWish(2))
    asks = Request(tasks_min=2, tasks_max=2, parts=(Part("a", 1, plain), Part("b", 1, with_gpu)))
    job = submit(controller, submission(asks=asks))
    cls = controller.job(job).cls
    attempt = Attempt(1, cls, [0, 0], [1, 1], parts=[0, 1])
    assert row_wishes(controller.state, attempt) == (None, GpuWish(2))
    plain_cls = controller.job(submit(controller)).cls
    assert row_wishes(controller.state, Attempt(1, plain_cls, [0], [1])) == ()
