"""The shells that start a job's own daemon of MPS, and end it: with a stand-in for the daemon."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from mps_stand_in import daemons_of, write_stand_in
from msgspec.structs import replace
from other_user import IS_ROOT, NOBODY
from worker_rig import alive, wait_until

from xce.model.device import DeviceGrant, GpuWish
from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.worker.environ import Account, base_environment
from xce.worker.gpus import gpu_environment
from xce.worker.mps import mps_code, mps_command, quit_command, share_order
from xce.worker.part_desk import part_environment

GRANTS = ((DeviceGrant(3, "GPU-a"), DeviceGrant(5)), (DeviceGrant(1),))
SAYS = 'echo "${XCE_MPS:-$CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY}"'


def launch(program: Path | str = "mps-control", mps: str = "yes") -> Launch:
    return Launch(
        7, [0], [1], JobSpec(command="x"), Owner("ann", os.geteuid(), 1), "normal", "p", "c",
        (("h1", 2), ("h2", 1)), 3, 0, 0, 0, 0, devices=[GRANTS],
        gpu=GpuWish(2, per="host", mps=mps), mps_control=str(program),
    )  # fmt: skip


class Place:
    """A directory of a job, and the program."""

    def __init__(self, root: Path, fault: str = "", name: str = "job") -> None:
        self.root, self.job = root, root / name
        self.job.mkdir()
        self.launch = launch(write_stand_in(root, fault))
        self.env = {"PATH": "/nowhere", "XCE_JOB_HOST_DIR": str(self.job), "LD_PRELOAD": ""}

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=60, check=False
        )

    def start(self, host: str = "h1") -> str:
        return self.run(["/bin/sh", "-c", mps_code(self.launch, 0, host) + SAYS]).stdout.strip()

    def quit(self, host: str = "h1") -> None:
        self.env["PATH"] = "/usr/bin:/bin"
        self.run(quit_command(self.launch, 0, host))

    def kill(self) -> None:
        for one in daemons_of(self.root):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one["pid"], signal.SIGKILL)


@pytest.fixture
def place(tmp_path, request):
    short = tmp_path / "p"
    short.mkdir()
    made = Place(short, *getattr(request, "param", ()))
    yield made
    made.kill()
    if (made.job / "mps").is_dir():
        shutil.rmtree((made.job / "mps").resolve())  # it may be in /tmp


def test_who_comes_first_starts_it_and_others_find_it(place):
    places = {place.start(), place.start()}
    (answer,) = places
    pipe, log = answer.split()
    assert pipe.endswith("/pipe")
    assert log == pipe.removesuffix("pipe") + "log"
    (daemon,) = daemons_of(place.root)
    assert daemon["env"]["CUDA_VISIBLE_DEVICES"] == "GPU-a,5"
    assert daemon["env"]["CUDA_MPS_PIPE_DIRECTORY"] == pipe
    assert "LD_PRELOAD" not in daemon["env"]
    assert Path(pipe).parent.stat().st_mode & 0o777 == 0o700
    place.quit()
    wait_until(lambda: not alive(daemon["pid"]), "it has ended")
    assert not Path(pipe).parent.exists()


def test_a_task_of_a_part_has_it_too_and_goes_on_with_its_own_words(place):
    command = mps_command(["printf", "%s|", "a b", "c"], place.launch, 0, "h2")
    place.env["PATH"] = "/usr/bin:/bin"
    assert place.run(command).stdout == "a b|c|"
    assert daemons_of(place.root)[0]["env"]["CUDA_VISIBLE_DEVICES"] == "1"


@pytest.mark.parametrize("place", [("refuse",)], indirect=True)
def test_one_that_refuses_to_start_is_quoted_and_the_host_is_named(place):
    said = place.start()
    assert said.startswith("host h1: ")
    assert "-d ended with exit status 1: no CUDA-capable device is detected" in said
    done = place.run(mps_command(["true"], place.launch, 0, "h2"))
    assert (done.returncode, done.stderr.startswith("xce: host h2: ")) == (125, True)


def test_a_host_without_the_program_is_named(place):
    place.launch = launch("no-such-program")
    assert place.start() == "host h1: there is no program no-such-program (mps=yes)"


@pytest.mark.parametrize("place", [("", "j" * 60)], indirect=True)
def test_where_the_path_of_a_socket_would_be_too_long_it_is_a_short_one(place):
    (pipe,) = {place.start().split()[0], place.start().split()[0]}
    assert re.fullmatch(r"/tmp/xce-mps-\w{10}/pipe", pipe), "nobody can foresee it"
    assert Path(pipe).parent.stat().st_mode & 0o777 == 0o700
    assert len(daemons_of(place.root)) == 1
    place.quit()
    assert not Path(pipe).parent.exists()
    assert not any(place.job.iterdir())


@pytest.mark.parametrize("place", [(), ("", "j" * 60)], indirect=True, ids=["short", "long"])
def test_a_place_that_is_somebody_elses_by_now_is_neither_used_nor_touched(place):
    theirs = Path("/usr/local")
    if IS_ROOT:
        theirs = place.root / "theirs"
        theirs.mkdir()
        os.chown(theirs, NOBODY, NOBODY)
    before = sorted(theirs.iterdir())
    (place.job / "mps").symlink_to(theirs)
    place.quit()
    (place.job / "mps").symlink_to(theirs)
    pipe = place.start().split()[0]
    assert Path(pipe).is_dir()
    assert theirs not in Path(pipe).parents
    place.quit()
    assert sorted(theirs.iterdir()) == before


def shared(uid: int = 5, mps: str = "yes,shared", **grant: bool) -> Launch:
    """Return a job with parts of GPUs, which the second host has in another order."""
    parts = [
        tuple(DeviceGrant(at, milli=250, **grant) for at in order) for order in ((4, 3), (3, 4))
    ]
    made = replace(launch(mps=mps), owner=Owner("ann", uid, 1), devices=[tuple(parts)])
    return replace(made, gpu=GpuWish(1, 250, mps=mps))


def test_who_has_parts_of_the_same_gpus_shares_a_daemon_with_his_own_jobs_only():
    orders = [share_order(shared(), 0, host, "/home/ann") for host in ("h1", "h2")]
    assert len({order.name for order in orders}) == 1
    assert orders[0].name.startswith("5-")
    assert "HOME=/home/ann" in orders[0].start
    assert "3,4" in orders[0].start, "all count them alike"
    others = [
        shared(6),
        replace(shared(), mps_control="/opt/mps"),
        replace(shared(), devices=[((DeviceGrant(3, milli=250),), ())]),
    ]
    names = {share_order(other, 0, "h1", "/home/ann").name for other in others}
    assert len(names - {orders[0].name}) == len(others)
    assert quit_command(shared(), 0, "h1") == [], "none of them may end it"
    found = gpu_environment(shared(), 0)
    assert (found["CUDA_VISIBLE_DEVICES"], found["XCE_GPU_MPS"]) == ("1,0", "yes,shared")
    assert (found["XCE_GPU_SHARE_KIND"], found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) == (
        "advisory", "25",
    )  # fmt: skip


def test_whole_gpus_have_a_daemon_of_their_own_and_those_of_the_site_need_none():
    whole = launch(mps="yes,shared")
    assert share_order(whole, 0, "h1", "/") is None
    assert quit_command(whole, 0, "h1")
    of_site = shared(is_enforced=True)
    assert share_order(of_site, 0, "h1", "/") is None
    assert mps_code(of_site, 0, "h1") == ""
    assert quit_command(of_site, 0, "h1") == []
    assert gpu_environment(of_site, 0)["CUDA_VISIBLE_DEVICES"] == "4,3"


def test_a_job_waits_for_what_is_said_of_a_daemon_that_it_shares(place):
    place.launch = shared()
    told = place.job / "mps"
    for text, said in (
        ("at /the/place", "/the/place/pipe /the/place/log"),
        ("no host h1: it is not there", "host h1: it is not there"),
        ("no", "mps=yes: its start was ended"),
    ):
        told.write_text(f"{text}\n")
        assert place.start() == said


def test_one_that_was_killed_is_started_anew_where_it_left_its_pipe(place):
    pipe = place.start()
    place.kill()
    assert Path(pipe.split()[0], "control").exists()
    assert place.start() == pipe
    assert len(daemons_of(place.root)) == 2


def test_jobs_without_it_and_hosts_without_gpus_have_none_of_it():
    assert mps_code(launch(mps=""), 0, "h1") == ""
    assert quit_command(launch(mps=""), 0, "h1") == []
    bare = replace(launch(), devices=[(GRANTS[0], ())])
    assert mps_command(["true"], bare, 0, "h2") == ["true"]


def test_gpus_without_uuid_are_called_as_the_daemon_counts_them():
    found = gpu_environment(launch(), 0)
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-a,1"
    assert (found["NVIDIA_VISIBLE_DEVICES"], found["XCE_GPUS"]) == ("GPU-a,5", "GPU-a,5")
    assert found["XCE_GPU_MPS"] == "yes"
    assert gpu_environment(launch(), 0, 1)["CUDA_VISIBLE_DEVICES"] == "0"


def test_nocvd_leaves_the_variable_out_that_cuda_reads():
    found = gpu_environment(launch(mps="yes,nocvd"), 0)
    assert "CUDA_VISIBLE_DEVICES" not in found
    assert (found["XCE_GPUS"], found["XCE_GPU_MPS"]) == ("GPU-a,5", "yes,nocvd")
    per_task = replace(launch(mps="yes,nocvd"), gpu=GpuWish(1, mps="yes,nocvd"))
    account = Account("ann", 1, 1, (), "/home/ann", "/bin/sh")
    given = [b"CUDA_MPS_PIPE_DIRECTORY=/first/hosts", b"XCE_HOST_TASK_INDEX=0"]
    found = part_environment(per_task, 0, "h2", account, given)
    assert not {"CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY"} & set(found)
    assert found["CUDA_VISIBLE_DEVICES0"] == "0"


def test_a_job_that_is_submitted_from_one_does_not_use_its_daemon():
    account = Account("ann", 1, 1, (), "/home/ann", "/bin/sh")
    blob = b"CUDA_MPS_PIPE_DIRECTORY=/x/pipe\0CUDA_MPS_LOG_DIRECTORY=/x/log"
    assert base_environment(blob, account, "h1")["CUDA_MPS_PIPE_DIRECTORY"] == "/x/pipe"
    inner = base_environment(blob + b"\0XCE_GPU_MPS=yes", account, "h1")
    assert not any("MPS" in name for name in inner)
