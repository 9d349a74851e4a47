"""Jobs whose command is every task: plain ones, those of torch, those under a real mpirun."""

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch_jobs import BESIDE_MPI, HAS_MPI, SPEC, build_hello, submit_launch
from live import Live, is_alive, open_live, until
from mps_stand_in import daemons_of, write_stand_in

from xce.worker.ranks import PORT_FIRST, PORTS, port_of


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with open_live() as cluster:
        cluster.xce("up", "--hosts", "h1,h2", "--slots", "2", "--gpus", "2")
        yield cluster


def output(live: Live, job: int) -> list[str]:
    return sorted(live.output(job).decode().splitlines())


def test_the_command_is_every_task_on_every_host(live: Live) -> None:
    job = submit_launch(live, "tasks", "echo $XCE_RANK of $XCE_NTASKS on $HOSTNAME")
    row = live.until_ended(job)
    assert row["stat"] == "DONE", live.output(job)
    hosts = [host for host, count in row["hosts"] for _ in range(count)]
    assert output(live, job) == [f"{rank} of 4 on {host}" for rank, host in enumerate(hosts)]


def test_the_job_ends_with_the_exit_code_of_the_first_task_that_fails(live: Live) -> None:
    job = submit_launch(live, "tasks", "[ $XCE_RANK = 2 ] && exit 9; exec sleep 300")
    row = live.until_ended(job)
    assert (row["stat"], row["exit_code"]) == ("EXIT", 9)


def test_torch_finds_its_world(live: Live) -> None:
    job = submit_launch(live, "torch", "echo $RANK $WORLD_SIZE $LOCAL_RANK $NODE_RANK $MASTER_PORT")
    row = live.until_ended(job)
    assert row["stat"] == "DONE", live.output(job)
    lines = [line.split() for line in output(live, job)]
    assert [line[:4] for line in lines] == [
        ["0", "4", "0", "0"], ["1", "4", "1", "0"], ["2", "4", "0", "1"], ["3", "4", "1", "1"],
    ]  # fmt: skip
    (port,) = {int(line[4]) for line in lines}
    assert PORT_FIRST <= port < PORT_FIRST + PORTS


def test_a_member_that_is_killed_ends_the_others_and_the_job(live: Live) -> None:
    job = submit_launch(live, "tasks", "echo $$ > pid.$XCE_RANK; exec sleep 300")
    pids = [
        int(until(lambda rank=rank: live.file(f"pid.{rank}").strip(), f"rank {rank}"))
        for rank in range(4)
    ]
    os.kill(pids[2], 9)
    row = live.until_ended(job)
    assert (row["stat"], row["exit_code"]) == ("EXIT", 137)
    assert not any(map(is_alive, pids))


def test_a_port_that_somebody_else_has_is_said_before_anything_starts(live: Live) -> None:
    # The port follows from the job, so it is known to who takes it before.
    job = submit_launch(live, "tasks", "touch started", hold=True)
    with socket.create_server(("", port_of("xce", job, 0, 1))):
        live.act("resume", job)
        row = live.until_ended(job)
    assert row["exit_code"] == 125
    assert f"preflight: host {row['hosts'][0][0]}: port " in live.output(job).decode()
    assert not (live.home / "started").exists()


def test_each_host_of_a_job_has_a_daemon_of_mps_that_goes_with_it(live: Live) -> None:
    tool = write_stand_in(live.home)
    live.configure(f"mps_control: {tool}\npre_exec_tries: 2\n")
    live.xceadmin("apply")
    said = 'echo "$XCE_RANK $CUDA_VISIBLE_DEVICES $CUDA_MPS_PIPE_DIRECTORY"'
    spec = SPEC.format(
        launch="tasks", command=f'  test -S "$CUDA_MPS_PIPE_DIRECTORY/control" && {said}',
        count=4, per_host=2,
    ).replace("span[", "rusage[gpu=1:mps=yes] span[")  # fmt: skip
    body = {
        "spec": spec,
        "cwd": str(live.home),
        "env": [f"PATH={live.environ['PATH']}"],
        "umask": 0o022,
    }
    job = live.submit_all([body])[0]
    row = live.until_ended(job)
    assert row["stat"] == "DONE", live.output(job)
    found = [line.split() for line in output(live, job)]
    assert [line[:2] for line in found] == [["0", "0"], ["1", "1"], ["2", "0"], ["3", "1"]]
    assert len({pipe for _, _, pipe in found}) == 2
    daemons = daemons_of(live.home)
    assert [one["env"]["CUDA_VISIBLE_DEVICES"] for one in daemons] == ["0,1"] * 2
    assert not any(is_alive(one["pid"]) for one in daemons)
    write_stand_in(live.home, "refuse")
    job = live.submit("true", gpu={"num": 1, "mps": True, "mps_options": ["nocvd"]})
    row = live.until_ended(job)
    assert (row["stat"], row["exit_code"], row["attempt"]) == ("EXIT", 125, 2), "once on each host"
    assert row["cause"] == "TERM_PRE_EXEC_FAIL"
    assert "no CUDA-capable device is detected" in row["detail"], row
    assert "rusage[ngpus_physical=1.00/host:mps=yes,nocvd]" in row["resreq"]


@pytest.mark.skipif(not HAS_MPI, reason="no MPI is installed")
def test_a_real_mpi_program_runs_as_a_role_beside_others(live: Live, tmp_path: Path) -> None:
    build_hello(tmp_path, live.home / "hello")
    body = {"spec": BESIDE_MPI.format(gpu=1), "cwd": str(live.home), "umask": 0o022}
    job = live.submit_all([body])[0]
    row = live.until_ended(job)
    text = live.output(job).decode()
    hosts = [host for host, count in row["hosts"] for _ in range(count)]
    sums = sorted(re.findall(r"solve.0: rank (\d) of 3 on (h\d): sum 3\n", text))
    own = sorted(re.findall(r"index (\d) on (h\d) rank (\d) gpu (\d)\n", text))
    assert [one[:2] for one in own] == sums, text
    assert [hosts[int(rank)] for _, _, rank, _ in own] == [host for _, host in sums]
    assert len({(host, gpu) for _, host, _, gpu in own}) == 3, "each has a GPU of its own"
    assert row["exit_code"] == 7, "that of a rank"
    assert row["cpu_s"] > 0
    until(lambda: not live.job_processes(), "nothing is left")


@pytest.mark.skipif(not HAS_MPI, reason="no MPI is installed")
def test_a_real_mpi_program_runs_on_several_hosts(live: Live, tmp_path: Path) -> None:
    build_hello(tmp_path, live.home / "hello")
    job = submit_launch(live, "mpi", "./hello")
    row = live.until_ended(job)
    said = [line for line in output(live, job) if line.startswith("rank ")]
    hosts = [host for host, count in row["hosts"] for _ in range(count)]
    assert said == [f"rank {rank} of 4 on {host}: sum 6" for rank, host in enumerate(hosts)]
    assert row["exit_code"] == 7, "that of a rank"
    until(lambda: not live.job_processes(), "no daemon of MPI is left")
