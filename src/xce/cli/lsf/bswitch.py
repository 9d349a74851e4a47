"""``bswitch``: let jobs be in another queue."""

from __future__ import annotations

from xce.cli.lsf.control import REFUSED, SELECTOR_USAGE, SELECTORS, act
from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import Options, Parsed, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = f"""\
Usage: bswitch [options] queue [job_ID | "job_ID[index_list]" | 0 ...]
  queue                      where they shall be; what runs keeps its limits
{SELECTOR_USAGE}"""
OPTIONS = Options(dict(SELECTORS), dict(REFUSED), bundled=True)


def execute(context: Context) -> int:
    """Switch the jobs."""
    parsed = context.parsed
    if not parsed.rest:
        raise UsageError("Queue name must be specified")
    queue, *words = parsed.rest
    action = {"action": "switch", "to_queue": queue}
    context.parsed = Parsed(parsed.given, words)
    return act(context, action, f"is switched to queue <{queue}>")


def main() -> NoReturn:
    """Run ``bswitch``."""
    run_main(OPTIONS, USAGE, execute)
