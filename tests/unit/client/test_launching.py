"""How the command of a job becomes its tasks."""

import os
import subprocess

import pytest

from xce.client.launching import (
    LaunchError,
    check_devices,
    check_ranks,
    mpi_argv,
    mpi_environment,
    mpi_hostfile,
    mpi_program,
    rank_arguments,
    rank_owns,
    role_arguments,
    role_environment,
    script_argv,
    torch_environment,
)
from xce.client.ranks import Rank
from xce.step.environment import Meeting
from xce.step.plan import Plan, RolePlan, TaskPlan

RANKS = [Rank(0, "h1", 0, "", 0), Rank(1, "h2", 0, "", 1), Rank(2, "h1", 1, "", 2)]


def run(argv, tmp_path):
    env = {**os.environ, "XCE_JOB_HOST_DIR": str(tmp_path)}
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize(
    ("content", "way"),
    [(b'echo "$1-$2"; exit 3\n', "source"), (b'#!/bin/sh\necho "$1-$2"; exit 3', "exec")],
)
def test_a_script_runs_where_there_is_no_copy_of_it(content, way, tmp_path):
    done = run(script_argv(content, way, ["a b", "c"]), tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("a b-c\n", "", 3)


def test_a_long_script_is_no_trouble(tmp_path):
    content = b"# " + b"x" * 400_000 + b"\necho long\n"
    assert run(script_argv(content, "source", []), tmp_path).stdout == "long\n"


def test_what_is_no_text_is_refused():
    with pytest.raises(LaunchError):
        script_argv(b"\x7fELF\0", "exec", [])


def test_torch_finds_world_rank_and_node():
    found = torch_environment(RANKS[2], RANKS, {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "20001"})
    assert (found["RANK"], found["WORLD_SIZE"]) == ("2", "3")
    assert (found["LOCAL_RANK"], found["LOCAL_WORLD_SIZE"]) == ("1", "2")
    assert (found["NODE_RANK"], found["MASTER_ADDR"]) == ("0", "10.0.0.1")
    assert (found["PET_NNODES"], found["PET_NPROC_PER_NODE"]) == ("2", "2")


def solver() -> tuple[Plan, Meeting]:
    members = (TaskPlan(1, 4, (("CUDA_VISIBLE_DEVICES", "0"),)), TaskPlan(0, 5), TaskPlan(1, 6))
    solve = RolePlan("solve", "echo $XCE_RANK $XCE_ROLE_INDEX $CUDA_VISIBLE_DEVICES",
                     (TaskPlan(0, 4),), launch="mpi", started=members)  # fmt: skip
    plan = Plan(("h1", "h2"), (solve,), 1_000_000)
    meeting = Meeting(plan)
    meeting.note_host(0, "one", [11, 12])
    return plan, meeting


def test_members_that_mpirun_starts_find_out_who_they_are():
    plan, meeting = solver()
    found = role_environment(plan, 0, 0, meeting, "/job")
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("one", "12")
    assert found["XCE_RANKFILE"] == "/job/ranks-solve"
    opening, member = role_arguments(plan, 0)[:4], role_arguments(plan, 0)[4:]
    assert opening[-1] == "mpi"
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        env = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "all"} | found
        said = [
            subprocess.run(member, env=env | {name: str(rank)}, capture_output=True, check=True)
            for rank in range(3)
        ]
        assert [done.stdout.decode() for done in said] == ["4 0 0\n", "5 1 all\n", "6 2 all\n"]


def said_by(own: dict[str, str], number: int, at: int) -> str:
    """Return what a process of an MPI finds out about itself."""
    env = {"OMPI_COMM_WORLD_RANK": str(number), "OMPI_COMM_WORLD_LOCAL_RANK": str(at)}
    env |= own | {"XCE_RANK": "0", "XCE_ROLE": "a", "XCE_ROLE_INDEX": "0"}
    text = 'echo "$XCE_RANK $XCE_ROLE.$XCE_ROLE_INDEX at $XCE_HOST_TASK_INDEX"'
    argv = rank_arguments(["/bin/sh", "-c", text])
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.strip()


def test_ranks_that_mpirun_starts_find_out_who_they_are():
    alike = [Rank(0, "h1", 0, "a", 0), Rank(1, "h1", 1, "a", 1), Rank(2, "h2", 0, "a", 2)]
    assert rank_owns(alike) == {}
    assert said_by({}, 2, 0) == "2 a.2 at 0"
    # An MPI counts host by host; the third process is the second one on h1.
    mixed = [Rank(0, "h1", 0, "a", 0), Rank(1, "h2", 0, "a", 1), Rank(2, "h1", 1, "b", 0)]
    own = rank_owns(mixed)
    found = [said_by(own, *place) for place in ((0, 0), (1, 1), (2, 0))]
    assert found == ["0 a.0 at 0", "2 b.0 at 1", "1 a.1 at 0"]


@pytest.mark.parametrize(
    ("said", "program"),
    [
        ("mpirun (Open MPI) 4.1.4", "openmpi"),
        ("HYDRA build details:\n Version: 4.0.2", "hydra"),
        ("Intel(R) MPI Library for Linux* OS", "hydra"),
    ],
)
def test_the_mpi_is_found_out_by_what_it_says(said, program):
    assert mpi_program(said) == program


def test_an_unknown_mpi_is_said_so():
    with pytest.raises(LaunchError, match="no MPI that is known"):
        mpi_program("mpirun 1.0")


def test_a_starter_is_given_its_own_form_of_host_file():
    assert mpi_hostfile(RANKS, "openmpi") == "h1 slots=2\nh2 slots=1\n"
    assert mpi_hostfile(RANKS, "hydra") == "h1:2\nh2:1\n"
    assert mpi_argv("hydra", RANKS, "/f") == ["mpirun", "-f", "/f", "-n", "3"]
    assert mpi_argv("openmpi", RANKS, "/f") == ["mpirun", "--hostfile", "/f", "-n", "3"]


def test_only_root_has_to_say_that_it_is_root_and_only_one_machine_talks_by_tcp_alone():
    plain = mpi_environment("agent", is_root=False, is_one_machine=False)
    assert plain["OMPI_MCA_plm_rsh_agent"] == plain["HYDRA_LAUNCHER_EXEC"] == "agent"
    assert "OMPI_ALLOW_RUN_AS_ROOT" not in plain
    assert "OMPI_MCA_btl" not in plain
    both = mpi_environment("agent", is_root=True, is_one_machine=True)
    assert (both["OMPI_ALLOW_RUN_AS_ROOT"], both["OMPI_MCA_btl"]) == ("1", "tcp,self")


@pytest.mark.parametrize(
    ("ranks", "environ", "words"),
    [
        (RANKS, {"XCE_NTASKS": "3"}, ""),
        ([*RANKS, Rank(1, "h3", 0, "", 0)], {}, "rank 1 is there twice: on host h2 and on host h3"),
        ([RANKS[0], RANKS[2]], {}, "the ranks are not 0 to 1"),
        (RANKS, {"XCE_NTASKS": "4"}, "3 ranks for 4 tasks"),
    ],
)
def test_ranks_are_looked_at(ranks, environ, words):
    found = check_ranks(ranks, environ)
    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, ""),
        ({"XCE_GPU_COUNT": "2", "XCE_GPUS": "GPU-a,GPU-b"}, ""),
        ({"XCE_GPU_COUNT": "2", "XCE_GPUS": "GPU-a,GPU-a"}, "there twice"),
        ({"XCE_GPU_COUNT": "2", "XCE_GPUS": "GPU-a"}, "2 GPUs were given, and 1 are visible"),
        ({"XCE_GPU_COUNT": "1", "XCE_GPUS": "3"}, "GPU 3 is not there"),
    ],
)
def test_devices_are_looked_at(environ, words):
    found = check_devices(environ, lambda number: number < 2)
    assert words in found
    assert bool(words) == bool(found)
