"""Commands that run before the limit of a job, in place of a warning signal.

One runs as the job's user in its environment, once for each limit whatever is killed meanwhile: it
is noted in the attempt's intent before it starts. What goes wrong with it is noted too, and told
with the end of the job.
"""

import contextlib
import os
from typing import Any, Final

from xce.worker.shepherd import proc, rundir
from xce.worker.shepherd.attempts import LEAVING, Attempt
from xce.worker.shepherd.hooks import MAIN
from xce.worker.shepherd.spawn import SHELL, As
from xce.worker.shepherd.starting import Starter

_ENVIRON_MAX: Final = 8 * 1024 * 1024


def start_warning(
    attempt: Attempt,
    which: int,
    asked: dict[str, Any],
    starter: Starter,
    pids: list[int],
    null: int,
) -> int:
    """Start the command; return its pid, or 0 where it cannot be or was before.

    Args:
        attempt: The job's.
        which: The limit that it warns before.
        asked: The order.
        starter: What starts it.
        pids: The job's processes.
        null: What it reads from and writes to.
    """
    if which == attempt.warned or attempt.state == LEAVING or attempt.step:
        return 0
    attempt.warned, attempt.warning = which, ""
    rundir.note(attempt.path, ["warned", which])
    try:
        return _start(attempt, asked, starter, pids, null)
    except OSError as error:
        end_warning(attempt, f"it was not run: {error.strerror or error}")
        return 0


def end_warning(attempt: Attempt, fault: str) -> None:
    """Note what went wrong with the command; nothing: it went well, or the job ended before it."""
    is_told = fault and not (attempt.state == LEAVING or attempt.step)
    attempt.warning = f"the warning command failed: {fault}" if is_told else ""
    rundir.note(attempt.path, ["warning", attempt.warning])


def _start(
    attempt: Attempt, asked: dict[str, Any], starter: Starter, pids: list[int], null: int
) -> int:
    """Start the command.

    Raises:
        OSError: It cannot be started.
    """
    is_job = attempt.course is None or attempt.course.step.kind == MAIN
    content = proc.load_file(f"/proc/{attempt.pid}/environ", _ENVIRON_MAX) if is_job else b""
    if not content:
        raise OSError("the job's shell is gone")
    items = (item.partition(b"=") for item in content.split(b"\0") if item.find(b"=") > 0)
    env = {name: value for name, _, value in items}
    env |= {
        b"LS_EXEC_T": b"JOB_CONTROLS",
        b"LSB_JOBPGIDS": b"%d" % attempt.pid,
        b"LSB_JOBPIDS": " ".join(map(str, pids)).encode(),
        proc.MARK.encode(): attempt.mark.encode(),
    }
    umask = os.umask(asked["umask"] & 0o777)
    try:
        with As(attempt.ids), contextlib.suppress(OSError, ValueError):
            os.chdir(asked["cwd"])
        argv: list[str | bytes] = [SHELL, "-c", os.fsencode(asked["command"])]
        return starter.spawn_beside(attempt, argv, env, [null] * 3)
    finally:
        os.umask(umask)
        os.chdir("/")
