"""``bbot``: move a pending job to the bottom of its queue; see `xce.cli.lsf.btop`."""

from __future__ import annotations

from xce.cli.lsf.btop import OPTIONS, move, usage
from xce.cli.lsf.front import Context, run_main

USAGE = usage("bbot")
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def execute(context: Context) -> int:
    """Move the job to the bottom."""
    return move(context, to_top=False)


def main() -> NoReturn:
    """Run ``bbot``."""
    run_main(OPTIONS, USAGE, execute)
