"""``bchkpnt``: have jobs write checkpoints."""

from __future__ import annotations

from xce.cli.lsf.control import REFUSED, SELECTOR_USAGE, SELECTORS, act
from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import FLAG, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = f"""\
Usage: bchkpnt [-k] [-f] [job_ID | "job_ID[index_list]" | 0 ...]
  of running jobs that were submitted with bsub -k
  -k                         end them when it is written
  -f                         tell their program that it is forced
{SELECTOR_USAGE}"""
OPTIONS = Options(
    {**SELECTORS, "-k": FLAG, "-f": FLAG},
    {
        **REFUSED,
        "-p": "the period is what bsub -k says",
    },
    bundled=True,
)


def execute(context: Context) -> int:
    """Ask for the checkpoints."""
    parsed = context.parsed
    action: dict[str, object] = {"action": "checkpoint"}
    if parsed.has("-k"):
        action["end"] = True
    if parsed.has("-f"):
        action["force"] = True
    return act(context, action, "checkpointed")


def main() -> NoReturn:
    """Run ``bchkpnt``."""
    run_main(OPTIONS, USAGE, execute)
