"""What a job with a launch type runs on its first host: the preflight, then its tasks.

``job TYPE WAY SCRIPT ARGUMENT ...``: the script and how it runs, as the worker has them.
"""

import os
import sys

from xce.cli.launch.mpi import START, is_known, run_mpi
from xce.client.launching import (
    EXEC,
    LaunchError,
    rank_arguments,
    rank_owns,
    script_argv,
    torch_environment,
)
from xce.client.preflight import look_at_hosts
from xce.client.ranks import RankFileError, load_ranks, rank_environment
from xce.client.running import Run
from xce.client.tasks import LOST_CODE, NoJobError, Tasks
from xce.step.core import PREFLIGHT_CODE
from xce.step.plan import MPI, TORCH


def main() -> int:
    """Run the job; return its exit code."""
    kind, way, script, *arguments = sys.argv[1:]
    environ = dict(os.environ)
    is_one_machine = _set_address(environ)
    environ |= {"XCE_LAUNCH_PYTHON": sys.executable, "XCE_LAUNCH_START": START}
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
            environ |= rank_owns(ranks)
            run_mpi(ranks, rank_arguments(argv), environ, is_one_machine=is_one_machine)
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
    if is_known(environ.get("MASTER_ADDR", "")):
        return False
    environ["MASTER_ADDR"] = "127.0.0.1"
    return True
