"""``bstatus``: the external status of a job, which is its message 0."""

from __future__ import annotations

from xce.cli.lsf.bpost import post
from xce.cli.lsf.bread import show
from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import VALUE, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = """\
Usage: bstatus [-d text] job_ID | "job_ID[index]" | -J name
  -d text   set the external status; without it: show it
  -J name   the newest job of that name
"""
OPTIONS = Options(dict.fromkeys(("-d", "-J"), VALUE), {}, bundled=True)


def execute(context: Context) -> int:
    """Set or show the status."""
    return post(context, 0) if context.parsed.has("-d") else show(context, 0)


def main() -> NoReturn:
    """Run ``bstatus``."""
    run_main(OPTIONS, USAGE, execute)
