"""``bchkpnt``: have jobs write checkpoints."""

from __future__ import annotations

from xce.cli.lsf.control import REFUSED, SELECTOR_USAGE, SELECTORS, act, each_label, render_result
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError
from xce.cli.lsf.values import BadValueError, parse_job_id
from xce.client.rest import make_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = f"""\
Usage: bchkpnt [-k] [-f] [-p minutes] [job_ID | "job_ID[index_list]" | 0 ...]
  of running jobs that were submitted with bsub -k
  -k                         end them when it is written
  -f                         tell their program that it is forced
  -p minutes                 from now on write one so often, of jobs by ID; 0: only when asked
{SELECTOR_USAGE}"""
OPTIONS = Options({**SELECTORS, "-k": FLAG, "-f": FLAG, "-p": VALUE}, REFUSED, bundled=True)
_MINUTES_MAX = 527_040
"""Of a year."""


def execute(context: Context) -> int:
    """Ask for the checkpoints."""
    parsed = context.parsed
    action: dict[str, object] = {"action": "checkpoint"}
    if parsed.has("-k"):
        action["end"] = True
    if parsed.has("-f"):
        action["force"] = True
    if parsed.has("-p") and not _set_period(context):
        return FAILED
    return act(context, action, "checkpointed")


def _set_period(context: Context) -> bool:
    """Have checkpoints written in another period; False: not of all that are named."""
    text, words = context.parsed.value("-p"), context.parsed.rest
    if not text.isascii() or not text.isdigit() or int(text) > _MINUTES_MAX:
        raise UsageError(f"-p {text}: expected minutes, or 0")
    try:
        jobs = [parse_job_id(word) for word in words]
    except BadValueError as error:
        raise UsageError(str(error)) from None
    if not jobs or "0" in jobs:
        raise UsageError("-p is for jobs that are named by their ID")
    body = {
        "action": "modify", "select": {"jobs": jobs},
        "change": {"checkpoint_period_s": int(text) * 60},
    }  # fmt: skip
    answer = context.api.call("POST", "/jobs/actions", (), body, key=make_key(), repeatable=False)
    failed = [result for result in answer["results"] if "error" in result]
    for result in failed:
        for job in each_label(result.get("job") or ""):
            context.err(render_result({**result, "job": job}, ""))
    return not failed


def main() -> NoReturn:
    """Run ``bchkpnt``."""
    run_main(OPTIONS, USAGE, execute)
