"""``bresume``: let stopped and held jobs go on."""

from __future__ import annotations

from xce.cli.lsf.control import REFUSED, SELECTOR_USAGE, SELECTORS, act
from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = f"""\
Usage: bresume [options] [job_ID | "job_ID[index_list]" | 0 ...]
{SELECTOR_USAGE}"""
OPTIONS = Options(SELECTORS, {**REFUSED, "-a": "give 0 in place of a job_ID"}, bundled=True)


def execute(context: Context) -> int:
    """Act on the jobs."""
    return act(context, {"action": "resume"}, "resumed")


def main() -> NoReturn:
    """Run ``bresume``."""
    run_main(OPTIONS, USAGE, execute)
