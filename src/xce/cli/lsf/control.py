"""Which jobs ``bkill``, ``bstop`` and ``bresume`` mean, and what they say of each."""

from __future__ import annotations

import os
import pwd

from xce.cli.lsf.front import FAILED, Context
from xce.cli.lsf.options import VALUE, Parsed
from xce.cli.lsf.values import BadValueError, parse_job_id
from xce.client.rest import make_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LINES_MAX = 10_000
"""An index run of more elements is told in one line."""
SELECTORS = dict.fromkeys(("-J", "-q", "-m", "-u", "-g", "-app", "-stat"), VALUE)
REFUSED = {
    **dict.fromkeys(("-sla", "-G"), "select by -J, -q, -m, -u, -g, -app or -stat"),
    "-C": "the history keeps who asked, without a reason: bpost sends a message to the job",
}
STATES = ("pend", "run", "susp")
SELECTOR_USAGE = """\
  job_ID "job_ID[1-3,7]" 0   these jobs; 0: all own jobs that match the options below
  -J name  -q queue  -m host  -u user|all  -g /group  -app profile  -stat pend|run|susp
                             without job_ID: the newest that matches
"""


def user_name() -> str:
    """Return the name of the user who runs the command, as the cluster derives it, too."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def build_selection(parsed: Parsed) -> dict[str, Any]:
    """Return which jobs a command line means.

    As in LSF the options count only where no job is named, and then select the newest job, or all
    when 0 is given. The user is always said, so that nobody ends the jobs of others unawares.

    Raises:
        BadValueError: A word is no job id, or a state none of those to select by.
    """
    ids = [parse_job_id(word) for word in parsed.rest]
    named = [one for one in ids if one != "0"]
    if named:
        return {"jobs": named}
    selection: dict[str, Any] = {"user": parsed.value("-u") or user_name()}
    for option, member in (("-J", "name"), ("-q", "queue"), ("-m", "host"), ("-app", "app")):
        if parsed.has(option):
            selection[member] = parsed.value(option)
    if parsed.has("-stat"):
        selection["state"] = parse_state(parsed.value("-stat"))
    if parsed.has("-g"):
        selection["group"] = parse_group(parsed.value("-g"))
    selection["all" if ids else "newest"] = True
    return selection


def parse_state(text: str) -> str:
    """Return the state that ``-stat`` names.

    Raises:
        BadValueError: It is none of those that can be selected by.
    """
    if text.lower() not in STATES:
        raise BadValueError(f"-stat {text}: one of {', '.join(STATES)}")
    return text.lower()


def parse_group(text: str) -> str:
    """Return the job group that ``-g`` names, in the one form of its name.

    Raises:
        BadValueError: It is no group, or the root, in which there are no jobs of its own.
    """
    name = text.strip().rstrip("/")
    if not name.startswith("/"):
        raise BadValueError(f"{text}: Illegal job group name: a path of words, as /a/b")
    return name


def act(context: Context, action: dict[str, Any], verb: str) -> int:
    """Send an action for the jobs that the command line means; say what became of each.

    Args:
        context: The command.
        action: The request.
        verb: What is said of a job: "stopped" as "is being stopped"; several words as they are.
    """
    try:
        selection = build_selection(context.parsed)
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED
    answer = context.api.call(
        "POST",
        "/jobs/actions",
        (),
        {**action, "select": selection},
        key=make_key(),
        # The newest job of a second try may be another one.
        repeatable="newest" not in selection,
        in_runs=True,
    )
    status = 0
    for result in answer["results"]:
        if "count" in result:
            tell_run(context, result["jobid"], result["count"], verb)
            continue
        for job in each_label(result.get("job") or ""):
            text = render_result({**result, "job": job}, verb)
            if "error" in result:
                context.err(text)
                status = FAILED
            else:
                context.out(text)
    return status


def tell_run(context: Context, first: int, count: int, verb: str) -> None:
    """Print a line about each of the jobs from ``first`` on."""
    before, _, behind = render_result({"job": "%"}, verb).partition("%")
    for begin in range(first, first + count, LINES_MAX):
        end = min(begin + LINES_MAX, first + count)
        context.out_block([f"{before}{job}{behind}\n" for job in range(begin, end)])


def each_label(job: str) -> list[str]:
    """Return a label for each element of ``12[3-5]``; very many stay together."""
    number, bracket, run = job.partition("[")
    first, dash, last = run.removesuffix("]").partition("-")
    if not bracket or not dash or "," in run or int(last) - int(first) >= LINES_MAX:
        return [job]
    return [f"{number}[{index}]" for index in range(int(first), int(last) + 1)]


def render_result(result: dict[str, Any], verb: str) -> str:
    """Return the line about one job."""
    job = result.get("job") or ""
    error = result.get("error")
    if error is None:
        return f"Job <{job}> {verb}" if " " in verb else f"Job <{job}> is being {verb}"
    text = (error.get("lsf") or error.get("text") or error.get("detail") or "").rstrip(".")
    return f"Job <{job}>: {text}" if job else text
