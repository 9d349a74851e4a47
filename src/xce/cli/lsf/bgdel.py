"""``bgdel``: delete job groups in which no job is left."""

from __future__ import annotations

from xce.cli.lsf.bgadd import act_on_group, one_group
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, Options
from xce.client.rest import ProblemError, make_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

USAGE = """\
Usage: bgdel [-c] /group | 0
  /group   has no jobs that have not ended, and no groups below it
  -c       the empty groups below it, not itself
  0        all empty groups of one's own
"""
OPTIONS = Options({"-c": FLAG}, {"-u": "name the group"}, bundled=True)


def execute(context: Context) -> int:
    """Delete the group."""
    is_below = context.parsed.has("-c")
    if not is_below and context.parsed.rest != ["0"]:
        return act_on_group(context, {"action": "delete"}, "deleted")
    body: dict[str, Any] = {"action": "delete"}
    if is_below:
        body.update({"below": True, "name": one_group(context)})
    try:
        path = "/jobgroups/actions"
        answer = context.api.call("POST", path, (), body, key=make_key(), repeatable=False)
    except ProblemError as error:
        context.err(f"{(error.lsf or error.text).rstrip('.')}.")
        return FAILED
    context.out(f"{answer['count']} job group(s) were deleted.")
    return 0


def main() -> NoReturn:
    """Run ``bgdel``."""
    run_main(OPTIONS, USAGE, execute)
