"""``bkill``: end jobs, or send them a signal."""

from __future__ import annotations

from xce.cli.lsf.control import REFUSED, SELECTOR_USAGE, SELECTORS, act
from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError
from xce.cli.lsf.signals import SIGNALS, parse_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = f"""\
Usage: bkill [options] [job_ID | "job_ID[index_list]" | 0 ...]
  (none)                     INT, then TERM, then KILL; pending jobs end at once
  -s signal                  send only this: a number or name, e.g. USR1
  -r                         KILL at once
  -d                         what has started counts as DONE when it is gone
  -b                         the same as without it
  -l                         list the names of signals
{SELECTOR_USAGE}"""
OPTIONS = Options(
    {**SELECTORS, "-s": VALUE, "-r": FLAG, "-b": FLAG, "-d": FLAG, "-l": FLAG},
    REFUSED,
    bundled=True,
)
_KILL = 9
_CONTROL = {"STOP": "stop", "TSTP": "stop", "CONT": "resume"}
"""Signals that are job control: a shell's job must stop as a whole and be shown as stopped."""


def build_action(signal: str, *, force: bool) -> tuple[dict[str, object], str]:
    """Return the action of REST and the word that says it of a job."""
    if not signal:
        action: dict[str, object] = {"action": "kill"}
        return ({**action, "force": True} if force else action), "terminated"
    number = parse_signal(signal)
    if number == _KILL:
        return {"action": "kill", "force": True}, "signaled"
    name = SIGNALS[number - 1] if number <= len(SIGNALS) else ""
    if name in _CONTROL:
        return {"action": _CONTROL[name]}, "signaled"
    return {"action": "signal", "signal": number}, "signaled"


def execute(context: Context) -> int:
    """End the jobs."""
    parsed = context.parsed
    if parsed.has("-l"):
        context.out(" ".join(SIGNALS))
        return 0
    if parsed.has("-s") and parsed.has("-r"):
        raise UsageError("-s and -r cannot be used together")
    if parsed.has("-d") and (parsed.has("-s") or parsed.has("-r")):
        raise UsageError("-d belongs to a kill without -s and -r")
    action, verb = build_action(parsed.value("-s"), force=parsed.has("-r"))
    if parsed.has("-d"):
        action["as_done"] = True
    return act(context, action, verb)


def main() -> NoReturn:
    """Run ``bkill``."""
    run_main(OPTIONS, USAGE, execute)
