"""``bwait``: wait until a dependency condition holds."""

from __future__ import annotations

import time

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import VALUE, Options, UsageError
from xce.cli.lsf.submission import parse_condition
from xce.client.rest import ProblemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = """\
Usage: bwait -w "condition" [-t minutes] [-r minutes]
  -w "condition"   as with bsub: done(12) && ended(name)
  -t minutes       wait so long at most (default: for ever)
  -r minutes       look again so often at the latest; changes are heard of at once
"""
OPTIONS = Options(dict.fromkeys(("-w", "-t", "-r"), VALUE), {}, bundled=True)
_WAIT_S = 60.0


def _seconds(context: Context, option: str) -> float | None:
    """Return the seconds that an option means; None: it was not given."""
    if not context.parsed.has(option):
        return None
    text = context.parsed.value(option)
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0
    if not 0 < minutes < 1 << 31:
        raise UsageError(f"{option} {text}: expected a number of minutes above 0")
    return minutes * 60


def execute(context: Context) -> int:
    """Wait for the condition; nothing is said when it holds."""
    parsed = context.parsed
    condition = parse_condition(parsed.value("-w"))
    if not condition:
        raise UsageError("-w: a condition is needed")
    if parsed.rest:
        raise UsageError(f"{parsed.rest[0]}: a condition stands behind -w")
    limit_s, look_s = _seconds(context, "-t"), _seconds(context, "-r") or _WAIT_S
    deadline = None if limit_s is None else time.monotonic() + limit_s
    while True:
        left_s = _WAIT_S if deadline is None else max(0.0, deadline - time.monotonic())
        body = {"condition": condition, "timeout_s": min(left_s, look_s, _WAIT_S)}
        try:
            verdict = context.api.call("POST", "/conditions", (), body)["verdict"]
        except ProblemError as error:
            context.err(f"{(error.lsf or error.text).rstrip('.')}.")
            return FAILED
        if verdict == "holds":
            return 0
        if verdict == "never":
            context.err("Dependency condition invalid or never satisfied.")
            return FAILED
        if deadline is not None and time.monotonic() >= deadline:
            context.err(f"The condition does not hold after {parsed.value('-t')} minutes.")
            return FAILED


def main() -> NoReturn:
    """Run ``bwait``."""
    run_main(OPTIONS, USAGE, execute)
