"""``bpost``: write to a job; and what ``bread`` and ``bstatus`` share with it."""

from __future__ import annotations

import binascii
import os

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import VALUE, Options, UsageError
from xce.cli.lsf.submission import read_file
from xce.cli.lsf.values import BadValueError, parse_job_id
from xce.client.rest import ProblemError, make_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

USAGE = """\
Usage: bpost [-i number] [-d text [-N level]] [-a file] job_ID | "job_ID[index]" | -J name
  -i number   of the message box, 0 (default) to 128; what lies there is replaced
  -d text     the message (default: no description)
  -N level    INFO, WARNING, ERROR or CRITICAL
  -a file     attach a file of at most 1 MiB
  -J name     the newest job of that name
"""
OPTIONS = Options(dict.fromkeys(("-i", "-d", "-N", "-a", "-J"), VALUE), {}, bundled=True)
BOX_MAX = 128
TEXT = "no description"


def find_job(context: Context) -> tuple[str, str]:
    """Return id and index of the job that a command line means; an empty index: all of it.

    Raises:
        UsageError: None is named, or several are.
        BadValueError: It is no job id, or no job has the name.
    """
    parsed = context.parsed
    if parsed.has("-J") and not parsed.rest:
        pairs = [("name", parsed.value("-J")), ("fields", "jobid"), ("finished", "1")]
        rows = context.api.call("GET", "/jobs", pairs)["jobs"]
        if not rows:
            raise BadValueError("No matching job found")
        return str(rows[-1]["jobid"]), ""
    if not parsed.rest:
        raise UsageError("Job ID must be specified")
    if len(parsed.rest) > 1:
        raise UsageError(f"{parsed.rest[1]}: one job at a time")
    number, _, index = parse_job_id(parsed.rest[0]).partition("[")
    index = index.removesuffix("]")
    if index and not index.isdigit():
        raise BadValueError(f"{parsed.rest[0]}: one element at a time")
    return number, index


def box_number(context: Context) -> int:
    """Return the message box that ``-i`` names.

    Raises:
        UsageError: It is no number of a box.
    """
    text = context.parsed.value("-i", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 4 and int(text) <= BOX_MAX):
        raise UsageError(f"-i {text}: expected a number from 0 to {BOX_MAX}")
    return int(text)


def label_of(job: str, index: str) -> str:
    """Return how a job or element is called."""
    return f"{job}[{index}]" if index else job


def post(context: Context, box: int) -> int:
    """Write to the job; nothing is said when it is done, as in LSF."""
    parsed = context.parsed
    try:
        job, index = find_job(context)
        body: dict[str, Any] = {"box": box, "text": parsed.value("-d") or TEXT}
        if index:
            body["index"] = int(index)
        if parsed.has("-N"):
            body["level"] = parsed.value("-N").upper()
        if parsed.has("-a"):
            body.update(_attach(parsed.value("-a")))
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED
    try:
        context.api.call("POST", f"/jobs/{job}/messages", (), body, key=make_key())
    except ProblemError as error:
        text = (error.lsf or error.text).rstrip(".")
        context.err(f"{text}." if "Job <" in text else f"Job <{label_of(job, index)}>: {text}")
        return FAILED
    return 0


def _attach(path: str) -> dict[str, Any]:
    """Return what is sent of a file."""
    try:
        content = read_file(path)
    except OSError as error:
        raise BadValueError(f"{path}: {error.strerror}") from None
    if not content:
        raise BadValueError(f"{path}: the file is empty")
    encoded = binascii.b2a_base64(content, newline=False).decode("ascii")
    return {"attached": os.path.basename(path), "content": encoded}


def execute(context: Context) -> int:
    """Write to the job."""
    return post(context, box_number(context))


def main() -> NoReturn:
    """Run ``bpost``."""
    run_main(OPTIONS, USAGE, execute)
