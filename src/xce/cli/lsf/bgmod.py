"""``bgmod``: change the limit of a job group."""

from __future__ import annotations

from xce.cli.lsf.bgadd import act_on_group, parse_limit
from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = """\
Usage: bgmod -L limit | -Ln /group
  -L limit    so many jobs of it and of those below it run at once
  -Ln         any number of them
"""
OPTIONS = Options({"-L": VALUE, "-Ln": FLAG}, {}, bundled=False)


def execute(context: Context) -> int:
    """Change the limit."""
    parsed = context.parsed
    if parsed.has("-L") == parsed.has("-Ln"):
        raise UsageError("one of -L and -Ln must be given")
    limit = None if parsed.has("-Ln") else parse_limit(parsed.value("-L"))
    return act_on_group(context, {"action": "modify", "limit": limit}, "modified")


def main() -> NoReturn:
    """Run ``bgmod``."""
    run_main(OPTIONS, USAGE, execute)
