"""``brequeue``: let jobs pend again under their ids."""

from __future__ import annotations

from xce.cli.lsf.control import REFUSED, SELECTOR_USAGE, SELECTORS, act
from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import FLAG, Options, Parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = f"""\
Usage: brequeue [options] [job_ID | "job_ID[index_list]" | 0 ...]
  (none)                     jobs that run or are suspended: they end, and pend again
  -d  -e  -r  -p             done, exited, running, pending jobs only; several add up
  -a                         all of these
  -H                         hold them until bresume
{SELECTOR_USAGE}"""
OPTIONS = Options(
    {**SELECTORS, **dict.fromkeys(("-d", "-e", "-r", "-p", "-a", "-H"), FLAG)},
    REFUSED,
    bundled=True,
)
_RUNNING = ("RUN",)
_SUSPENDED = ("USUSP", "SSUSP")
_STATES = {"-r": _RUNNING, "-d": ("DONE",), "-e": ("EXIT",), "-p": ("PEND",)}


def chosen_states(parsed: Parsed) -> tuple[str, ...]:
    """Return in which states jobs are requeued."""
    if parsed.has("-a"):
        return ("RUN", "USUSP", "SSUSP", "DONE", "EXIT", "PEND")
    chosen = [state for option, states in _STATES.items() if parsed.has(option) for state in states]
    return tuple(chosen) or (*_RUNNING, *_SUSPENDED)


def execute(context: Context) -> int:
    """Requeue the jobs."""
    parsed = context.parsed
    action = {"action": "requeue", "states": list(chosen_states(parsed)), "hold": parsed.has("-H")}
    return act(context, action, "requeued")


def main() -> NoReturn:
    """Run ``brequeue``."""
    run_main(OPTIONS, USAGE, execute)
