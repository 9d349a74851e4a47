"""What post hooks are told of the job's end, in LSF's variables. No I/O."""

import signal
from typing import Any, Final

from xce.worker.shepherd.hooks import CAUSE_PRE_EXEC, Result

_PRE_ABORT: Final = 99
"""`xce.control.hooks.PRE_ABORT`: after it nothing is tried again."""
_REQUEUES: Final = (10, 11)
"""`xce.model.job.EndCause.REQUEUE_OWNER` and ``_ADMIN``, which this program cannot import."""
_USER_KILLS: Final = (8, 9, 14, 15)
"""Those of a job that its owner or an administrator ended."""
_CHECKPOINTED: Final = 13
_SIGNALLED: Final = 128
_NAMES: Final = {number.value: number.name.removeprefix("SIG") for number in signal.Signals}


def exit_variables(plan: dict[str, Any], main: Result) -> dict[str, str]:
    """Return the variables of a post hook that say how the job ended.

    Args:
        plan: Of the attempt's course: ``requeue_codes`` are the exit statuses for which it is
            started anew.
        main: How the job ended.
    """
    found = {"LSB_JOBEXIT_STAT": str(main.signal or (main.code & 255) << 8)}
    reason = _reason(main)
    if reason:
        found["LSB_JOBEXIT_INFO"] = f"SIGNAL {reason}"
    if _is_requeued(plan, main):
        found["LSB_JOBPEND"] = "Y"
    if main.pid:
        # The job's shell leads its process group.
        found["LSB_JOBPIDS"] = found["LSB_JOBPGIDS"] = str(main.pid)
    return found


def _reason(main: Result) -> str:
    """Return number and name of what the cluster sent; empty: it ended by itself, or from outside.

    The negative ones are LSF's own numbers. Where it has one that is not public, as for limits, it
    is the signal that ended the job.
    """
    if main.cause in _REQUEUES:
        return "-23 SIG_KILL_REQUEUE"
    if main.cause in _USER_KILLS:
        return "-14 SIG_TERM_USER"
    if main.cause == _CHECKPOINTED:
        return "-1 SIG_CHKPNT"
    ended = main.signal or max(0, main.code - _SIGNALLED)
    if ended and (main.cause or ended == main.sent):
        return f"{ended} {_NAMES.get(ended, ended)}"
    return ""


def _is_requeued(plan: dict[str, Any], main: Result) -> bool:
    """Return whether the job waits again for its start."""
    if main.cause == CAUSE_PRE_EXEC:
        return main.code != _PRE_ABORT
    if main.cause:
        return main.cause in _REQUEUES
    return main.code in plan.get("requeue_codes", ())
