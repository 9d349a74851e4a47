"""GPUs of plans where they hold, and GPUs that administrators close."""

from msgspec.structs import replace

from xce.model.command import Accepted, ProposePlan, SetDevicesOpen
from xce.model.config import HostConfig
from xce.model.device import Device, GpuWish
from xce.model.effect import Launch
from xce.model.observation import AttemptSeen
from xce.model.plan import BulkStart, GangStart, Plan
from xce.model.processor import made_up
from xce.model.reason import HostCode
from xce.model.refusal import Refusal, RefusalCode
from xce.sched.session import run_session
from xce.state.check import check_not_over_committed, check_state
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import (
    cluster,
    join_host,
    report_ended,
    report_started,
    request,
    submission,
    submit,
    try_submit,
)

GPUS = tuple(Device(index, f"GPU-{index}", "H100", link=index // 2) for index in range(4))
HOST = HostConfig(name="g1", slots=16, mem_mib=1000, gpus=GPUS)


def world(*hosts: HostConfig):
    return cluster(hosts or (HOST,))


def ask(controller, count=1, tasks=1, **wish):
    job = submission(asks=replace(request(tasks), gpu=GpuWish(count, **wish)))
    return submit(controller, job)


def run_once(controller) -> Plan:
    plan = run_session(controller.state, now_us=controller.now_us)
    controller.tell(ProposePlan(plan), by="scheduler")
    check_state(controller.state)
    check_not_over_committed(controller.state)
    return plan


def used(controller, host=0):
    table = controller.state.hosts
    return table.used[table.device_row :, host].tolist()


def near_to_gpus(wish: GpuWish, tasks: int, numas: tuple[int, ...]) -> list[str]:
    gpus = tuple(Device(index, numa=numa) for index, numa in enumerate(numas))
    cores = made_up({"sockets": 2, "cores": 2, "threads": 1, "numa": 2})
    controller = world(HostConfig(name="g1", slots=16, gpus=gpus, processors=cores))
    submit(controller, submission(asks=replace(request(tasks), gpu=wish)))
    run_once(controller)
    ((_, launch),) = controller.effects()
    assert isinstance(launch, Launch)
    return [task for hosts in launch.bindings for binding in hosts for task in binding.tasks]


def test_tasks_are_bound_near_to_their_gpus():
    assert near_to_gpus(GpuWish(2, per="host", is_near=True), 1, (1, 1, 0, 0)) == ["2-3"]
    assert near_to_gpus(GpuWish(1, is_near=True), 2, (0, 1)) == ["0-1", "2-3"]
    # All tasks have all GPUs: they are near to both domains. Nobody said where a GPU is: to all.
    assert near_to_gpus(GpuWish(2, per="host", is_near=True), 2, (0, 1)) == ["0-3", "0-3"]
    assert near_to_gpus(GpuWish(1, is_near=True), 1, (-1,)) == ["0-3"]
    assert near_to_gpus(GpuWish(1), 1, (0, 1)) == []


def test_what_is_given_out_is_in_the_record_and_comes_back_at_the_end():
    controller = world()
    job = ask(controller, 2)
    run_once(controller)
    attempt = controller.state.attempt(job, 0)
    assert attempt is not None
    assert attempt.devices == [[0, 1]]
    assert used(controller) == [1000, 1000, 0, 0]
    report_started(controller, job)
    report_ended(controller, job)
    assert used(controller) == [0, 0, 0, 0]
    check_state(controller.state)


def test_a_snapshot_knows_who_has_which():
    controller = world()
    ask(controller, 2)
    ask(controller, 1, milli=500)
    run_once(controller)
    controller.tell(SetDevicesOpen("root", "g1", ("3",), False, "ECC", True), by="root")
    again = load(dump(controller.state))
    assert digest(again) == digest(controller.state)
    assert again.hosts.used.tolist() == controller.state.hosts.used.tolist()
    assert again.hosts.devices.hosts[0].closed == {3: "ECC"}
    check_state(again)


def test_a_plan_that_gives_out_what_is_in_use_is_stale():
    controller = world()
    first, second = ask(controller, 2), ask(controller, 2)
    cls = controller.state.jobs[first].cls
    twice = BulkStart(cls, [first, second], [0, 0], [0, 0], [0], [2], devices=[[0, 1], [1, 2]])
    plan = Plan(controller.state.seq, controller.state.config_version, 1, bulk=(twice,))
    controller.tell(ProposePlan(plan), by="scheduler")
    assert controller.state.attempt(first, 0) is not None
    assert controller.state.attempt(second, 0) is None
    check_state(controller.state)


def test_a_plan_with_other_gpus_than_were_asked_for_is_stale():
    controller = world(HOST, HostConfig(name="g2", slots=16, gpus=GPUS))
    job = ask(controller, 2, tasks=2, is_linked=True)
    cls = controller.state.jobs[job].cls
    for devices in ([[0, 1]], [[0, 1], [0]], [[0, 2], [0, 1]], [[0, 1], [2, 2]], [[], []]):
        gang = GangStart(cls, job, 0, [0, 1], [1, 1], devices=devices)
        plan = Plan(controller.state.seq, controller.state.config_version, 1, gangs=(gang,))
        controller.tell(ProposePlan(plan), by="scheduler")
        assert controller.state.attempt(job, 0) is None, devices
    gang = GangStart(cls, job, 0, [0, 1], [1, 1], devices=[[0, 1], [2, 3]])
    plan = Plan(controller.state.seq, controller.state.config_version, 1, gangs=(gang,))
    controller.tell(ProposePlan(plan), by="scheduler")
    assert controller.state.attempt(job, 0) is not None


def test_a_closed_gpu_takes_nothing_new_and_what_runs_there_goes_on():
    controller = world()
    job = ask(controller, 1)
    run_once(controller)
    results = controller.tell(
        SetDevicesOpen("root", "g1", ("0", "GPU-1", "9"), False, "Xid 79", True), by="root"
    )
    assert [type(result) for result in results] == [Accepted, Accepted, Refusal]
    assert isinstance(results[2], Refusal)
    assert results[2].code is RefusalCode.UNKNOWN_DEVICE
    assert controller.state.attempt(job, 0) is not None
    waits = ask(controller, 3)
    plan = run_once(controller)
    assert controller.state.attempt(waits, 0) is None
    ((_, reason),) = plan.reasons
    assert [item.code for item in reason.host_reasons] == [HostCode.DEVICE_CLOSED]
    assert not reason.unsatisfiable
    controller.tell(SetDevicesOpen("root", "g1", ("1",), True, "", True), by="root")
    run_once(controller)
    assert used(controller) == [1000, 1000, 1000, 1000]


def test_only_administrators_close_gpus():
    controller = world()
    (result,) = controller.tell(SetDevicesOpen("ann", "g1", ("0",), False), by="ann")
    assert isinstance(result, Refusal)
    assert result.code is RefusalCode.DENIED


def test_a_host_that_comes_back_with_other_gpus_keeps_what_runs():
    controller = cluster((HostConfig(name="g1", slots=16),))
    join_host(controller, "g1", devices=GPUS[:2])
    job = ask(controller, 2)
    run_once(controller)
    report_started(controller, job)
    seen = controller.state.attempt(job, 0)
    assert seen is not None
    live = AttemptSeen(job, 0, seen.number, running=True)
    join_host(controller, "g1", devices=GPUS[1:], attempts=(live,))
    table = controller.state.hosts
    assert [device.uuid for device in table.devices.hosts[0].devices] == [
        "GPU-0", "GPU-1", "GPU-2", "GPU-3",
    ]  # fmt: skip
    assert used(controller) == [1000, 1000, 0, 0]
    two = ask(controller, 2)
    run_once(controller)
    attempt = controller.state.attempt(two, 0)
    assert attempt is not None
    assert attempt.devices == [[2, 3]]


def test_a_job_that_wants_mps_is_warned_about_where_no_host_has_told_of_it():
    controller = world(HOST, HostConfig(name="g2", slots=16, gpus=GPUS))
    job = submission(asks=replace(request(1), gpu=GpuWish(mps="yes")))
    assert [one.warning for one in try_submit(controller, job)] == [""], "nobody has told of any"
    join_host(controller, "g1", boot_id="b", attributes={"ndisks": 1})
    (told,) = try_submit(controller, job)
    assert told.warning == (
        "no host has the program nvidia-cuda-mps-control, without which mps=yes cannot start"
    )
    join_host(controller, "g2", boot_id="b", attributes={"nvidia-cuda-mps-control": True})
    assert [one.warning for one in try_submit(controller, job)] == [""]


def test_a_job_that_would_share_a_daemon_of_mps_with_nobody_is_told_so():
    controller = world()
    whole, part = GpuWish(mps="yes,shared,nocvd"), GpuWish(1, 250, mps="yes,shared")
    for wish, text in ((whole, "mps=yes,shared,nocvd with whole GPUs, which are"), (part, "")):
        (told,) = try_submit(controller, submission(asks=replace(request(1), gpu=wish)))
        assert bool(told.warning) == bool(text)
        assert told.warning.startswith(text)


def test_a_host_is_told_the_program_of_mps_where_a_job_wants_that():
    controller = cluster((HOST,), mps_control="/opt/mps")
    for mps in ("yes", ""):
        ask(controller, mps=mps)
    run_once(controller)
    launches = [launch for _, launch in controller.effects() if isinstance(launch, Launch)]
    assert sorted(one.mps_control for one in launches) == ["", "/opt/mps"]
