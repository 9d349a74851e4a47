"""``blaunch``: run a command on hosts of the job that it is called in, as rsh would."""

from __future__ import annotations

import gc
import os

from xce.cli.lsf.front import FAILED, run_main
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from xce.cli.lsf.front import Context

USAGE = """\
Usage: blaunch [-n] [-no-shell] [-u HOST_FILE | -z "HOST ..." | HOST] COMMAND [ARGUMENT ...]
  HOST            a host of the job; without any, one task for each slot of the job
  -z "HOST ..."   one task on each of these
  -u HOST_FILE    one task on the host that each line begins with
  -n              the task has no input; several tasks never have
  -no-shell       no shell reads the command there
Options of rsh and ssh are taken and change nothing.
"""
OPTIONS = Options(
    {
        "-n": FLAG, "-no-shell": FLAG, "-u": VALUE, "-z": VALUE, "-x": FLAG, "-X": FLAG,
        "-q": FLAG, "-T": FLAG, "-l": VALUE, "-p": VALUE, "-o": VALUE,
    },
    {"-use-login-shell": "name the shell: blaunch HOST bash -lc '...'"},
    bundled=False,
)  # fmt: skip


def execute(context: Context) -> int:
    """Run the command; return the highest exit code of its tasks."""
    # Only here: to say how it is used takes none of these.
    from xce.client.ranks import (  # noqa: PLC0415
        RankFileError,
        hosts_of,
        load_ranks,
        rank_environment,
    )
    from xce.client.running import Run  # noqa: PLC0415
    from xce.client.tasks import NoJobError, Tasks  # noqa: PLC0415

    gc.enable()
    try:
        ranks = load_ranks(context.environ)
        tasks = Tasks(context.environ)
    except (RankFileError, NoJobError) as error:
        context.err(f"blaunch: {error}")
        return FAILED
    environ, known, words = dict(context.environ), hosts_of(ranks), list(context.parsed.rest)
    hosts = _asked_hosts(context)
    if not hosts and len(words) > 1 and words[0] in known:
        hosts = [words.pop(0)]
    if not words:
        raise UsageError("a command is needed")
    strange = [host for host in hosts if host not in known]
    if strange:
        raise UsageError(f"{strange[0]} is not a host of this job")
    # As with rsh, a shell there reads the words joined by blanks.
    uses_shell = not context.parsed.has("-no-shell")
    argv = ["/bin/sh", "-c", " ".join(words)] if uses_shell else words
    places = [(host, environ) for host in hosts] or [
        (rank.host, rank_environment(rank, ranks, environ)) for rank in ranks
    ]
    has_input = len(places) == 1 and not context.parsed.has("-n")
    cwd = os.getcwd()
    try:
        own = [
            tasks.start(host, argv, env=env, cwd=cwd, has_input=has_input) for host, env in places
        ]
        return Run(tasks, own, program="blaunch").wait()
    finally:
        tasks.close()


def _asked_hosts(context: Context) -> list[str]:
    """Return the hosts that options name."""
    parsed = context.parsed
    if parsed.has("-z") and parsed.has("-u"):
        raise UsageError("-z and -u exclude each other")
    if parsed.has("-z"):
        hosts = parsed.value("-z").split()
        if not hosts:
            raise UsageError("-z names no host")
        return hosts
    if not parsed.has("-u"):
        return []
    path = parsed.value("-u")
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.partition("#")[0].split() for line in file]
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    hosts = [words[0] for words in lines if words]
    if not hosts:
        raise UsageError(f"{path} names no host")
    return hosts


def main() -> NoReturn:
    """Run ``blaunch``."""
    run_main(OPTIONS, USAGE, execute, until_word=True)
