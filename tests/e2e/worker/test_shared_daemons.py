"""A daemon that jobs of one user share (a stand-in for that of MPS), below a real shepherd."""

import os
import time
from pathlib import Path

import pytest
from mps_stand_in import daemons_of, write_stand_in
from other_user import IS_ROOT, NOBODY
from worker_rig import MODES, alive, open_shepherd, wait_until

from xce.model.device import DeviceGrant, GpuWish
from xce.model.effect import Launch
from xce.model.job import EndCause, JobSpec, Owner
from xce.worker.mps import mps_code, mps_command, share_order

KILL = 9


@pytest.fixture
def shepherd(request):
    with open_shepherd(getattr(request, "param", MODES[-1])) as made:
        made.root.chmod(0o777)
        yield made


class Jobs:
    """Jobs with a quarter of the same GPU each."""

    def __init__(self, shepherd, fault="", uid=None) -> None:
        self.shepherd = shepherd
        self.uid = shepherd.uid if uid is None else uid
        self.launch = Launch(
            1, [0], [1], JobSpec(command="x"), Owner("u", self.uid, 1), "normal", "p", "c",
            (("h1", 1),), 1, 0, 0, 0, 0, devices=[((DeviceGrant(2, milli=250),),)],
            gpu=GpuWish(1, 250, mps="yes,shared"),
            mps_control=str(write_stand_in(shepherd.root, fault)),
        )  # fmt: skip
        order = share_order(self.launch, 0, "h1", "/home/u")
        assert order is not None
        self.share = [order.name, order.start, order.quit]

    def spawn(self, job: int, script: str = "", **more: object) -> None:
        script = script or f'echo "$CUDA_MPS_PIPE_DIRECTORY" >new.{job}; mv new.{job} up.{job}'
        self.shepherd.spawn(
            f"{script}; exec sleep 600", job=job, uid=self.uid, gid=self.uid,
            before={"0": mps_code(self.launch, 0, "h1")}, shares={"0": self.share},
            **more,
        )  # fmt: skip

    def pipe(self, job: int) -> str:
        wait_until(lambda: self.shepherd.text(f"up.{job}"), f"job {job} runs")
        return self.shepherd.text(f"up.{job}").strip()

    def kill(self, *jobs: int) -> None:
        for job in jobs:
            self.shepherd.order(["signal", job, 0, 1, KILL, EndCause.OWNER, 4, 0])
            assert self.shepherd.ended(job)["cause"] == EndCause.OWNER

    def daemons(self) -> list[int]:
        return [one["pid"] for one in daemons_of(self.shepherd.root)]

    def places(self) -> list[Path]:
        return sorted(self.shepherd.runs.glob("shared.*"))

    def check_gone(self) -> None:
        wait_until(lambda: not any(map(alive, self.daemons())), "no daemon is left")
        wait_until(lambda: not self.places(), "and nothing of it")


@pytest.mark.parametrize("shepherd", MODES, indirect=True)
def test_it_outlives_its_first_job_and_shepherds_and_goes_with_the_last_job(shepherd):
    jobs = Jobs(shepherd)
    for job in (1, 2):
        jobs.spawn(job)
    assert jobs.pipe(1) == jobs.pipe(2)
    (daemon,) = daemons_of(shepherd.root)
    assert (daemon["uid"], daemon["env"]["HOME"]) == (shepherd.uid, "/home/u")
    assert daemon["env"]["CUDA_VISIBLE_DEVICES"] == "2"
    assert "XCE_TELL" not in daemon["env"]
    place, record = jobs.places()
    assert (place.stat().st_mode & 0o777, place.stat().st_uid) == (0o700, shepherd.uid)
    assert record.name == f"{place.name}.json"
    shepherd.restart()
    jobs.kill(1)
    jobs.spawn(3, hooks=[["pre", "true", "job"]], hook_limit_us=0, outer={})
    assert jobs.pipe(3) == jobs.pipe(2)
    jobs.kill(2)
    assert alive(daemon["pid"])
    shepherd.kill()
    os.kill(int((shepherd.runs / "3.0.1" / "status").read_text().split()[1]), KILL)
    shepherd.start()
    shepherd.ended(3)
    jobs.check_gone()
    assert len(jobs.daemons()) == 1
    assert not Path(daemon["env"]["CUDA_MPS_PIPE_DIRECTORY"]).exists()


@pytest.mark.parametrize("shepherd", MODES[:1], indirect=True)
def test_a_job_that_is_frozen_and_killed_takes_nothing_from_the_others(shepherd):
    jobs = Jobs(shepherd)
    for job in (1, 2):
        jobs.spawn(job)
        jobs.pipe(job)
    now_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    shepherd.order(["lease", [[1, 0, 1, now_us, now_us + 900_000]]])
    assert shepherd.expect("frozen", 1, 0, 1)[4] is True
    jobs.spawn(3)
    assert jobs.pipe(3) == jobs.pipe(2)
    assert shepherd.ended(1)["cause"] == EndCause.HOST_LOST
    assert [alive(pid) for pid in jobs.daemons()] == [True]
    jobs.kill(2, 3)
    jobs.check_gone()


def test_jobs_whose_daemon_does_not_start_have_not_run_and_say_why(shepherd):
    jobs = Jobs(shepherd, "refuse")
    for job in (1, 2):
        jobs.spawn(job, "touch ran")
    for job in (1, 2):
        end = shepherd.ended(job)
        assert (end["code"], end["cause"]) == (125, EndCause.PRE_EXEC_FAIL)
        assert end["detail"].startswith("host h1: ")
        assert "no CUDA-capable device is detected" in end["detail"]
        assert end["detail"].endswith("(mps=yes,shared)")
    assert not (shepherd.root / "ran").exists()
    jobs.check_gone()


def test_who_comes_while_it_ends_gets_another_one_also_of_the_next_shepherd(shepherd):
    jobs = Jobs(shepherd)
    jobs.share[2] = ["/bin/sh", "-c", 'sleep 0.5; exec "$@"', "sh", *jobs.share[2]]
    jobs.spawn(1)
    jobs.pipe(1)
    jobs.kill(1)
    wait_until(lambda: '"ends": true' in jobs.places()[-1].read_text(), "it is told to end")
    jobs.spawn(2)
    shepherd.expect("started", 2, 0, 1)
    shepherd.restart()
    jobs.pipe(2)
    first, second = jobs.daemons()
    assert (alive(first), alive(second)) == (False, True)
    os.kill(second, KILL)
    jobs.spawn(3)
    assert jobs.pipe(3) == jobs.pipe(2)
    assert alive(jobs.daemons()[2]), "who comes has it started again"
    jobs.kill(2, 3)
    shepherd.process.terminate()  # as `xce down --jobs` does
    shepherd.process.wait()
    assert not any(map(alive, jobs.daemons()))
    shepherd.start()
    jobs.check_gone()


@pytest.mark.parametrize("shepherd", MODES[:1], indirect=True)
def test_it_is_not_told_to_end_while_a_start_of_it_is_under_way(shepherd):
    jobs = Jobs(shepherd)
    wait = f"cd {shepherd.root}; echo >>starts; until [ -e goes ]; do sleep 0.02; done"
    jobs.share[1] = ["/bin/sh", "-c", f'{wait}; exec "$@"', "sh", *jobs.share[1]]
    (shepherd.root / "goes").touch()
    jobs.spawn(1)
    jobs.pipe(1)
    (shepherd.root / "goes").unlink()
    shepherd.restart()  # the next one sees to the daemon of what it finds
    wait_until(lambda: len(shepherd.text("starts").splitlines()) == 2, "it has it started")
    jobs.kill(1)
    shepherd.quiet(0.3)
    assert [alive(pid) for pid in jobs.daemons()] == [True]
    (shepherd.root / "goes").touch()
    jobs.check_gone()
    assert len(jobs.daemons()) == 1


@pytest.mark.skipif(not IS_ROOT, reason="only root runs jobs of two users")
@pytest.mark.parametrize("shepherd", MODES[:1], indirect=True)
def test_another_user_has_one_of_his_own(shepherd):
    ours, theirs = Jobs(shepherd), Jobs(shepherd, uid=NOBODY)
    ours.spawn(1)
    theirs.spawn(2)
    assert ours.pipe(1) != theirs.pipe(2)
    assert {one["uid"] for one in daemons_of(shepherd.root)} == {0, NOBODY}
    theirs.kill(2)
    wait_until(lambda: len(ours.places()) == 2, "his is gone")
    assert [alive(one["pid"]) for one in daemons_of(shepherd.root) if one["uid"] == 0] == [True]
    ours.kill(1)
    ours.check_gone()


def test_tasks_of_a_part_share_it_with_the_jobs_of_their_host(shepherd):
    jobs = Jobs(shepherd)
    jobs.spawn(2)
    shepherd.open_part(share=jobs.share)
    for number, name in enumerate(("a", "b")):
        script = f'echo "$CUDA_MPS_PIPE_DIRECTORY" >new.{name}; mv new.{name} up.{name}'
        argv = mps_command(["/bin/sh", "-c", script], jobs.launch, 0, "h1")
        shepherd.start_task(number, name, argv)
    assert jobs.pipe("a") == jobs.pipe("b") == jobs.pipe(2)
    jobs.kill(2)
    assert all(map(alive, jobs.daemons()))
    shepherd.order(["signal", 1, 0, 1, KILL, EndCause.OWNER, 4, 0])
    shepherd.ended()
    jobs.check_gone()
