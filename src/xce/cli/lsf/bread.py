"""``bread``: read what was written to a job."""

from __future__ import annotations

import os

from xce.cli.lsf.bpost import BOX_MAX, box_number, find_job, label_of
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, VALUE, Options
from xce.cli.lsf.times import render_minute
from xce.cli.lsf.values import BadValueError
from xce.client.rest import ProblemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

USAGE = f"""\
Usage: bread [-i number] [-a file] [-N] [-w] job_ID | "job_ID[index]" | -J name
  -i number   the message in this box, 0 (default) to {BOX_MAX}; 'bjobs -l' shows all
  -a file     write what is attached to the message into a file
  -N          only a message that has a level, with its level
  -w          do not cut long messages
  -J name     the newest job of that name
"""
OPTIONS = Options(
    {**dict.fromkeys(("-i", "-a", "-J"), VALUE), **dict.fromkeys(("-N", "-w"), FLAG)},
    {},
    bundled=True,
)
_TEXT_WIDTH = 27


def _line(cells: tuple[str, str, str, str], text: str) -> str:
    job, box, by, at = cells
    return f"{job:<11} {box:<10} {by:<10} {at:<18} {text}".rstrip()


def show(context: Context, box: int) -> int:
    """Print the message in a box."""
    parsed = context.parsed
    try:
        job, index = find_job(context)
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED
    label = label_of(job, index)
    pairs = [("index", index)] if index else []
    try:
        found = _find(context, job, pairs, box)
        if parsed.has("-a"):
            _save(context, job, [*pairs, ("box", str(box))])
    except ProblemError as error:
        text = (error.lsf or error.text).rstrip(".")
        context.err(f"{text}." if "Job <" in text else f"Job <{label}>: {text}")
        return FAILED
    except BadValueError as error:
        context.err(f"Job <{label}>: {error}")
        return FAILED
    heading = "LEVEL      DESCRIPTION" if parsed.has("-N") else "DESCRIPTION"
    context.out(_line(("JOBID", "MSG_ID", "FROM", "POST_TIME"), heading))
    context.out(_message(context, label, found))
    return 0


def _find(context: Context, job: str, pairs: list[tuple[str, str]], box: int) -> dict[str, Any]:
    """Return the message that is meant.

    Raises:
        BadValueError: There is none.
    """
    answer = context.api.call("GET", f"/jobs/{job}/messages", pairs)
    for one in answer["messages"]:
        if one["box"] == box and (one["level"] or not context.parsed.has("-N")):
            found: dict[str, Any] = one
            return found
    raise BadValueError(f"No message is there in message box {box}")


def _message(context: Context, label: str, one: dict[str, Any]) -> str:
    """Return the line about a message."""
    text = str(one["text"])
    if not context.parsed.has("-w") and len(text) > _TEXT_WIDTH:
        text = f"*{text[-_TEXT_WIDTH + 1 :]}"
    if context.parsed.has("-N"):
        text = f"{one['level']:<10} {text}"
    return _line((label, str(one["box"]), one["by"], render_minute(one["at"])), text)


def _save(context: Context, job: str, pairs: list[tuple[str, str]]) -> None:
    """Write an attached file.

    Raises:
        BadValueError: It cannot be written.
    """
    answer = context.api.request("GET", f"/jobs/{job}/attachment", pairs)
    if answer.status >= 400:
        raise ProblemError(answer.status, answer.value())
    content = answer.body
    path = context.parsed.value("-a")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o666)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BadValueError(f"{path}: {error.strerror}") from None


def execute(context: Context) -> int:
    """Read the messages."""
    return show(context, box_number(context))


def main() -> NoReturn:
    """Run ``bread``."""
    run_main(OPTIONS, USAGE, execute)
