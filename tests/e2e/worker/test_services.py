"""A daemon that serves a job (a stand-in for that of MPS), below a real shepherd."""

import os
import shlex
import time
from types import SimpleNamespace

import pytest
from mps_stand_in import daemons_of, write_stand_in
from worker_rig import MODES, alive, open_shepherd, wait_until

from xce.model.device import DeviceGrant, GpuWish
from xce.model.effect import Launch
from xce.model.job import EndCause, JobSpec, Owner
from xce.worker.mps import mps_code, mps_command, quit_command

USER, TERM, KILL = 10, 15, 9


EVERY = pytest.mark.parametrize("shepherd", MODES, indirect=True)


@pytest.fixture
def shepherd(request):
    with open_shepherd(getattr(request, "param", MODES[-1])) as made:
        made.root.chmod(0o777)
        yield made


def words(shepherd, fault=""):
    """Return what the worker says of a job with a daemon."""
    launch = Launch(
        1, [0], [1], JobSpec(command="x"), Owner("u", shepherd.uid, 1), "normal", "p", "c",
        (("h1", 1),), 1, 0, 0, 0, 0, devices=[((DeviceGrant(2),),)],
        gpu=GpuWish(1, mps="yes"), mps_control=str(write_stand_in(shepherd.root, fault)),
    )  # fmt: skip
    return SimpleNamespace(
        launch=launch,
        shared={
            "before": {"0": mps_code(launch, 0, "h1")},
            "last": {"0": quit_command(launch, 0, "h1")},
        },
    )


def the_daemon(shepherd):
    wait_until(lambda: daemons_of(shepherd.root), "it runs")
    (daemon,) = daemons_of(shepherd.root)
    return daemon


@EVERY
def test_it_is_there_before_the_script_and_goes_with_the_job(shepherd):
    shepherd.spawn('test -S "$CUDA_MPS_PIPE_DIRECTORY/control"; exit $?', **words(shepherd).shared)
    end = shepherd.ended()
    assert (end["code"], end["cause"], end["detail"]) == (0, 0, "")
    daemon = the_daemon(shepherd)
    assert not alive(daemon["pid"])
    assert daemon["uid"] == shepherd.uid
    # It was asked to end, and its place is gone with it.
    assert not os.path.exists(daemon["env"]["CUDA_MPS_PIPE_DIRECTORY"])  # noqa: PTH110


@EVERY
def test_signals_go_past_it_until_the_job_is_over_or_killed(shepherd):
    script = "trap 'echo u >> seen' USR1; trap 'echo t >> seen; exit 3' TERM; touch up\n"
    shepherd.spawn(script + "while :; do sleep 0.05; done", **words(shepherd, "stubborn").shared)
    wait_until((shepherd.root / "up").exists, "the script runs")
    daemon = the_daemon(shepherd)
    shepherd.order(["signal", 1, 0, 1, USER, 0, 0, 1])
    wait_until(lambda: shepherd.text("seen") == "u\n", "the script has had the signal")
    assert alive(daemon["pid"])
    shepherd.order(["signal", 1, 0, 1, KILL, EndCause.OWNER, 4, 0])
    assert shepherd.ended()["signal"] == KILL
    assert not alive(daemon["pid"])


@EVERY
@pytest.mark.parametrize("is_killed", [False, True], ids=["", "and the shepherd before"])
def test_it_is_ended_with_a_job_that_is_killed_while_it_is_frozen(shepherd, is_killed):
    shepherd.spawn("touch up; exec sleep 600", **words(shepherd).shared)
    wait_until((shepherd.root / "up").exists, "the script runs")
    daemon = the_daemon(shepherd)
    now_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    shepherd.order(["lease", [[1, 0, 1, now_us, now_us + 900_000]]])
    assert shepherd.expect("frozen", 1, 0, 1)[4] is True
    if is_killed:
        shepherd.restart()
    assert shepherd.ended()["cause"] == EndCause.HOST_LOST
    assert not alive(daemon["pid"])
    assert not os.path.exists(daemon["env"]["CUDA_MPS_LOG_DIRECTORY"])  # noqa: PTH110


def test_one_that_does_not_quit_is_killed(shepherd):
    shepherd.spawn("exit 3", **words(shepherd, "stubborn").shared)
    assert shepherd.ended()["code"] == 3
    assert not alive(the_daemon(shepherd)["pid"])


def test_a_job_whose_daemon_does_not_start_has_not_run_and_says_why(shepherd):
    shepherd.spawn("touch ran", **words(shepherd, "refuse").shared)
    end = shepherd.ended()
    assert (end["code"], end["cause"]) == (125, EndCause.PRE_EXEC_FAIL)
    assert end["detail"].startswith("host h1: ")
    assert "no CUDA-capable device is detected" in end["detail"]
    assert not (shepherd.root / "ran").exists()


def test_what_ends_it_outlives_the_shepherd(shepherd):
    shepherd.spawn("touch up; exec sleep 1", **words(shepherd).shared)
    wait_until((shepherd.root / "up").exists, "the script runs")
    shepherd.restart()
    assert shepherd.ended()["code"] == 0
    assert not alive(the_daemon(shepherd)["pid"])


def test_a_part_has_one_for_all_its_tasks_and_it_goes_with_the_part(shepherd):
    said = words(shepherd)
    shepherd.open_part(last=said.shared["last"]["0"])
    for number, name in enumerate(("a", "b")):
        script = f'test -S "$CUDA_MPS_PIPE_DIRECTORY/control" && touch {shlex.quote(name)}'
        argv = mps_command(["/bin/sh", "-c", script], said.launch, 0, "h1")
        shepherd.start_task(number, name, argv)
    for name in ("a", "b"):
        wait_until((shepherd.root / name).exists, f"task {name} found the daemon")
    daemon = the_daemon(shepherd)
    assert alive(daemon["pid"])
    shepherd.order(["signal", 1, 0, 1, TERM, EndCause.OWNER, 2, 0])
    shepherd.ended()
    assert not alive(daemon["pid"])
