"""What a job with a launch type runs on its first host: the preflight, then its tasks.

``job TYPE WAY SCRIPT ARGUMENT ...``: the script and how it runs, as the worker has them.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from xce.client.launching import (
    EXEC,
    MPI,
    LaunchError,
    mpi_argv,
    mpi_environment,
    mpi_hostfile,
    mpi_program,
    script_argv,
    torch_environment,
)
from xce.client.preflight import look_at_hosts
from xce.client.ranks import Rank, RankFileError, load_ranks, rank_environment
from xce.client.running import Run
from xce.client.tasks import LOST_CODE, NoJobError, Tasks
from xce.step.core import PREFLIGHT_CODE
from xce.step.plan import TORCH

_START: Final = f"{os.path.dirname(os.path.abspath(__file__))}/start.py"  # noqa: PTH100, PTH120


def main() -> int:
    """Run the job; return its exit code."""
    kind, way, script, *arguments = sys.argv[1:]
    environ = dict(os.environ)
    is_one_machine = _set_address(environ)
    environ |= {"XCE_LAUNCH_PYTHON": sys.executable, "XCE_LAUNCH_START": _START}
    try:
        ranks = load_ranks(environ)
        tasks = Tasks(environ)
    except (RankFileError, NoJobError) as error:
        return _say(str(error), LOST_CODE)
    try:
        trouble = look_at_hosts(ranks, tasks, environ)
        if trouble:
            for line in trouble:
                _say(f"preflight: {line}")
            return PREFLIGHT_CODE
        with open(script, "rb") as file:  # noqa: PTH123 - pathlib costs a start twice
            content = file.read()
        argv = script_argv(content, way, arguments)
        if kind == MPI:
            return _run_mpi(ranks, argv, environ, is_one_machine=is_one_machine)
        own = []
        for rank in ranks:
            env = rank_environment(rank, ranks, environ)
            if kind == TORCH:
                env |= torch_environment(rank, ranks, environ)
            is_here = rank.host == tasks.host
            start = [script] if way == EXEC else ["/bin/sh", script]
            words = [*start, *arguments] if is_here else argv
            own.append(tasks.start(rank.host, words, env=env, cwd=os.getcwd()))  # noqa: PTH109
        return Run(tasks, own, program="xce-launch", fails_together=True).wait()
    except (LaunchError, OSError) as error:
        return _say(str(error), LOST_CODE)
    finally:
        tasks.close()


def _say(text: str, code: int = 0) -> int:
    print(f"xce-launch: {text}", file=sys.stderr, flush=True)
    return code


def _set_address(environ: dict[str, str]) -> bool:
    """Let tasks meet at an address, where the first host's name is known to nobody.

    That is so when all hosts are one machine, as those of ``xce up``; return whether it is.
    """
    name = environ.get("MASTER_ADDR", "")
    try:
        socket.getaddrinfo(name or None, 0)
    except OSError:
        environ["MASTER_ADDR"] = "127.0.0.1"
        return True
    return False


def _run_mpi(
    ranks: Sequence[Rank], argv: list[str], environ: dict[str, str], *, is_one_machine: bool
) -> int:
    """Become the starter of the MPI that is installed.

    Raises:
        LaunchError: There is none that is known.
        OSError: It cannot be run.
    """
    path = shutil.which("mpirun", path=environ.get("PATH"))
    if path is None:
        raise LaunchError("mpirun is not on the job's PATH")
    agent = f"{sys.executable} -IS {_START} rsh"
    is_root = os.geteuid() == 0
    environ |= mpi_environment(agent, is_root=is_root, is_one_machine=is_one_machine)
    said = subprocess.run(
        [path, "--version"], env=environ, capture_output=True, text=True, timeout=20, check=False
    )
    program = mpi_program(said.stdout + said.stderr)
    hostfile = f"{environ['XCE_JOB_HOST_DIR']}/mpi-hosts"
    with open(hostfile, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(mpi_hostfile(ranks, program))
    os.execve(path, [*mpi_argv(program, ranks, hostfile), *argv], environ)
