"""``btop`` and ``bbot``: move a pending job in the order of its queue."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import Options, UsageError
from xce.cli.lsf.values import BadValueError, parse_job_id
from xce.client.rest import make_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

OPTIONS = Options({}, {"-u": "name the job"}, bundled=False)
_POSITION_MAX = 1_000_000_000


def usage(name: str) -> str:
    """Return the usage of ``btop`` or ``bbot``."""
    return f"""\
Usage: {name} job_ID [position]
  job_ID     a pending job; users: their own, administrators: anybody's
  position   from the {"top" if name == "btop" else "bottom"}, counted from 1 (default 1)
"""


USAGE = usage("btop")


def move(context: Context, *, to_top: bool) -> int:
    """Move the job."""
    words = context.parsed.rest
    if not words:
        raise UsageError("Job ID must be specified")
    if len(words) > 2:
        raise UsageError(f"{words[2]}: only a job and a position can be given")
    try:
        job = parse_job_id(words[0])
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED
    position = words[1] if len(words) > 1 else "1"
    if not (position.isascii() and position.isdigit() and 1 <= int(position) <= _POSITION_MAX):
        raise UsageError(f"{position}: Illegal position: expected a whole number from 1")
    action = {
        "action": "top" if to_top else "bottom",
        "position": int(position),
        "select": {"jobs": [job]},
    }
    answer = context.api.call("POST", "/jobs/actions", (), action, key=make_key(), repeatable=False)
    status = 0
    for result in answer["results"]:
        refused = result.get("error")
        if refused is not None:
            text = (refused.get("lsf") or refused.get("text") or "").rstrip(".")
            context.err(f"Job <{result.get('job') or job}>: {text}")
            status = FAILED
        else:
            end = "top" if to_top else "bottom"
            context.out(
                f"Job <{result['job']}> has been moved to position "
                f"{result.get('position', position)} from {end}."
            )
    return status


def execute(context: Context) -> int:
    """Move the job to the top."""
    return move(context, to_top=True)


def main() -> NoReturn:
    """Run ``btop``."""
    run_main(OPTIONS, USAGE, execute)
