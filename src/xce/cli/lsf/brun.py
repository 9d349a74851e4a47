"""``brun``: start pending jobs at once, out of their turn, on hosts that are named."""

from __future__ import annotations

from xce.cli.lsf.control import each_label
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError
from xce.cli.lsf.values import BadValueError, parse_job_id
from xce.client.rest import ProblemError, make_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

ELEMENTS_MAX = 1_000
USAGE = """\
Usage: brun [-f] -m "host ..." job_ID | "job_ID[index_list]" ...
  -m "host ..."              only on these hosts; where on them, the job's own requirement says
  -f                         neither run windows of the queue nor other jobs suspend it
"""
OPTIONS = Options(
    {"-m": VALUE, "-f": FLAG},
    {
        "-b": "jobs begin anew whenever they start",
        "-c": "tasks lie on the hosts as span[] of the job says",
    },
    bundled=False,
)


def chosen_elements(words: list[str]) -> list[str]:
    """Return the jobs and elements that are named, an element each.

    Raises:
        BadValueError: A word is no job id, or there are too many elements.
        UsageError: There is none.
    """
    found: list[str] = []
    for word in words:
        number, bracket, runs = parse_job_id(word).partition("[")
        if not bracket:
            found.append(number)
            continue
        for run in runs.removesuffix("]").split(","):
            found += each_label(f"{number}[{run.strip()}]")
    if not found:
        raise UsageError("Job ID must be specified")
    if len(found) > ELEMENTS_MAX or any("-" in label for label in found):
        raise BadValueError(f"Job array index error: name at most {ELEMENTS_MAX} elements")
    return found


def force(context: Context, label: str, hosts: list[str]) -> int:
    """Start one job or element; say what became of it."""
    job, _, index = label.partition("[")
    body: dict[str, Any] = {"hosts": hosts, "firm": context.parsed.has("-f")}
    if index:
        body["index"] = int(index.removesuffix("]"))
    try:
        # Sent once: a second try would find it started.
        context.api.call("POST", f"/jobs/{job}/run", (), body, key=make_key(), repeatable=False)
    except ProblemError as error:
        first, *more = [text.rstrip(".") for text in (error.lsf, error.text) if text]
        if error.code == "unknown-job":
            first = "No matching job found"
        context.err(f"Job <{label}>: {first}")
        for text in more:
            context.err(f"  {text}.")
        return FAILED
    context.out(f"Job <{label}> is being forced to run")
    return 0


def execute(context: Context) -> int:
    """Start the jobs."""
    parsed = context.parsed
    hosts = parsed.value("-m").split() if parsed.has("-m") else []
    if not hosts:
        raise UsageError("-m must be given: the hosts to run on")
    try:
        labels = chosen_elements(list(parsed.rest))
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED
    return max(force(context, label, hosts) for label in labels)


def main() -> NoReturn:
    """Run ``brun``."""
    run_main(OPTIONS, USAGE, execute)
