"""Starts the MPI that is installed: ``mpi ARGUMENT ...`` for the members of a role.

It becomes ``mpirun``, which reaches the other hosts through our agent.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from xce.client.launching import (
    LaunchError,
    mpi_argv,
    mpi_environment,
    mpi_hostfile,
    mpi_program,
)
from xce.client.ranks import Rank, RankFileError, load_ranks
from xce.client.tasks import LOST_CODE

START: Final = f"{os.path.dirname(os.path.abspath(__file__))}/start.py"  # noqa: PTH100, PTH120
_VERSION_S: Final = 20


def main() -> int:
    """Run the members of a role whose ranks are in ``XCE_RANKFILE``."""
    environ = dict(os.environ)
    try:
        ranks = load_ranks(environ)
        run_mpi(
            ranks, sys.argv[1:], environ, is_one_machine=not is_known(environ.get("XCE_HOST", ""))
        )
    except (LaunchError, RankFileError, OSError) as error:
        print(f"xce-launch: {error}", file=sys.stderr, flush=True)
        return LOST_CODE


def is_known(name: str) -> bool:
    """Return whether a host is found by its name.

    Where not even itself knows it, all hosts are one machine, as those of ``xce up``.
    """
    try:
        socket.getaddrinfo(name or None, 0)
    except OSError:
        return False
    return True


def run_mpi(
    ranks: Sequence[Rank], argv: Sequence[str], environ: dict[str, str], *, is_one_machine: bool
) -> NoReturn:
    """Become the starter of the MPI that is installed.

    Raises:
        LaunchError: There is none that is known.
        OSError: It cannot be run.
    """
    path = shutil.which("mpirun", path=environ.get("PATH"))
    if path is None:
        raise LaunchError("mpirun is not on the job's PATH")
    agent = f"{sys.executable} -IS {START} rsh"
    is_root = os.geteuid() == 0
    environ |= mpi_environment(agent, is_root=is_root, is_one_machine=is_one_machine)
    try:
        said = subprocess.run(
            [path, "--version"], env=environ, stdin=subprocess.DEVNULL, capture_output=True,
            encoding="utf-8", errors="replace", timeout=_VERSION_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LaunchError(f"{path} --version does not answer within {_VERSION_S} s") from None
    program = mpi_program(said.stdout + said.stderr)
    # Of each role its own: several may start at one time.
    hostfile = f"{environ['XCE_JOB_HOST_DIR']}/mpi-hosts.{os.getpid()}"
    with open(hostfile, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(mpi_hostfile(ranks, program))
    os.execve(path, [*mpi_argv(program, ranks, hostfile), *argv], environ)
