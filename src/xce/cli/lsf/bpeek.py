"""``bpeek``: show the output that a running job has written so far."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError
from xce.cli.lsf.rows import is_finished, is_pending, job_label
from xce.cli.lsf.values import BadValueError, parse_job_id
from xce.client.rest import ProblemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Row = dict[str, Any]

USAGE = """\
Usage: bpeek [-f] [-J name | -q queue | job_ID | "job_ID[index]"]
  (none)          the job that was submitted last and runs
  -f              go on until the job is over
  -J name  -q queue   of these jobs the one that was submitted last
"""
OPTIONS = Options(
    {"-f": FLAG, "-J": VALUE, "-q": VALUE},
    dict.fromkeys(("-m", "-u", "-app", "-g", "-sla"), "name the job by its id"),
    bundled=True,
)
_CHUNK = 1 << 20
_FIELDS = "stat,error,output"


def execute(context: Context) -> int:
    """Show the output."""
    try:
        row = _named(context) if context.parsed.rest else _newest(context)
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED
    if row is None:
        context.err("No matching job found")
        return FAILED
    label = job_label(row)
    if is_pending(row):
        context.err(f"Job <{label}> : Not yet started.")
        return FAILED
    if is_finished(row):
        context.err(f"Job <{label}> : Job has already finished; 'xcecli output {label}' shows it.")
        return FAILED
    return _show(context, row)


def _named(context: Context) -> Row | None:
    """Return the row of the job that the command line names."""
    if len(context.parsed.rest) > 1:
        raise UsageError("one job at a time")
    label = parse_job_id(context.parsed.rest[0])
    if label == "0":
        raise BadValueError("0: Illegal job ID")
    job, bracket, index = label.partition("[")
    index = index.removesuffix("]")
    if bracket and not index.isdecimal():
        raise BadValueError(f"{label}: one element at a time")
    try:
        row: Row = context.api.call("GET", f"/jobs/{job}", [("index", index)] if bracket else [])
    except ProblemError as error:
        if error.status != 404:
            raise
        return None
    if "elements" in row:
        raise BadValueError(f"Job <{job}> is an array; say which element, as in {job}[1]")
    return row


def _newest(context: Context) -> Row | None:
    """Return the row of the own job submitted last that runs, else of one that waits."""
    parsed = context.parsed
    pairs = [("fields", _FIELDS)]
    for option, member in (("-J", "name"), ("-q", "queue")):
        if parsed.has(option):
            pairs.append((member, parsed.value(option)))
    for states in ("run,susp", "pend,psusp"):
        newest: Row | None = None
        cursor = ""
        while True:
            page = [("cursor", cursor)] if cursor else []
            answer = context.api.call("GET", "/jobs", [*pairs, ("state", states), *page])
            for row in answer["jobs"]:
                if newest is None or row["jobid"] >= newest["jobid"]:
                    newest = row
            cursor = answer.get("next") or ""
            if not cursor:
                break
        if newest is not None:
            return newest
    return None


def _show(context: Context, row: Row) -> int:
    """Print what the job wrote: output, then errors where they go elsewhere."""
    if context.parsed.has("-f"):
        context.out("<< output from stdout >>")
        context.flush()
        path, query = _address(row, "stdout")
        for part in context.api.stream(path, [*query, ("follow", "1")]):
            context.out_bytes(part)
        _print_errors(context, row)
        return 0
    is_first = True
    for part in _parts(context, row, "stdout"):
        if is_first:
            context.out("<< output from stdout >>")
            is_first = False
        context.out_bytes(part)
    if not _print_errors(context, row) and is_first:
        context.err("No output so far")
    return 0


def _print_errors(context: Context, row: Row) -> bool:
    """Print the error output where it is kept apart; return whether there was any."""
    is_first = True
    for part in _parts(context, row, "stderr"):
        if is_first:
            context.out("<< output from stderr >>")
            is_first = False
        context.out_bytes(part)
    return not is_first


def _address(row: Row, stream: str) -> tuple[str, list[tuple[str, str]]]:
    query = [("stream", stream)]
    if row.get("index"):
        query.append(("index", str(row["index"])))
    return f"/jobs/{row['jobid']}/output", query


def _parts(context: Context, row: Row, stream: str) -> list[bytes]:
    """Return what a stream holds now; nothing when it is not kept."""
    path, query = _address(row, stream)
    parts: list[bytes] = []
    offset = 0
    while True:
        answer = context.api.request(
            "GET", path, [*query, ("offset", str(offset)), ("limit", str(_CHUNK))]
        )
        if answer.status == 404:
            return parts
        if answer.status >= 400:
            value = answer.value()
            raise ProblemError(answer.status, value if isinstance(value, dict) else {})
        if answer.body:
            parts.append(answer.body)
        offset += len(answer.body)
        size = answer.headers.get("xce-size", "")
        if not answer.body or not size.isdecimal() or offset >= int(size):
            return parts


def main() -> NoReturn:
    """Run ``bpeek``."""
    run_main(OPTIONS, USAGE, execute)
