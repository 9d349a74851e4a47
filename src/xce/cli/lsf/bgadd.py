"""``bgadd``: make a job group; and what ``bgmod`` and ``bgdel`` share with it."""

from __future__ import annotations

from xce.cli.lsf.control import parse_group
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import VALUE, Options, UsageError
from xce.cli.lsf.values import BadValueError
from xce.client.rest import ProblemError, make_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

USAGE = """\
Usage: bgadd [-L limit] /group
  /group      its whole path; groups above it are made, too
  -L limit    so many jobs of it and of those below it run at once
"""
OPTIONS = Options(
    {"-L": VALUE}, {"-sla": "there are no service classes; use a queue"}, bundled=True
)


def parse_limit(text: str) -> int:
    """Return the number of ``-L``.

    Raises:
        UsageError: It is none.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise UsageError(f"-L {text}: expected a whole number")
    return int(text)


def one_group(context: Context) -> str:
    """Return the job group that the command line names.

    Raises:
        UsageError: None is named, several are, or it is none.
    """
    words = context.parsed.rest
    if not words:
        raise UsageError("Job group name must be specified")
    if len(words) > 1:
        raise UsageError(f"{words[1]}: one job group at a time")
    try:
        return parse_group(words[0])
    except BadValueError as error:
        raise UsageError(str(error)) from None


def act_on_group(context: Context, body: dict[str, Any], done: str) -> int:
    """Have something done to the job group that the command line names; say so.

    Args:
        context: The command.
        body: What is done.
        done: What is said then.
    """
    name = one_group(context)
    try:
        request = {**body, "name": name}
        path = "/jobgroups/actions"
        context.api.call("POST", path, (), request, key=make_key(), repeatable=False)
    except ProblemError as error:
        context.err(f"{name}: {(error.lsf or error.text).rstrip('.')}.")
        return FAILED
    context.out(f"Job group <{name}> was {done}.")
    return 0


def execute(context: Context) -> int:
    """Make the group."""
    body: dict[str, Any] = {"action": "add"}
    if context.parsed.has("-L"):
        body["limit"] = parse_limit(context.parsed.value("-L"))
    return act_on_group(context, body, "added")


def main() -> NoReturn:
    """Run ``bgadd``."""
    run_main(OPTIONS, USAGE, execute)
