"""``bparams``: show the parameters of the cluster in LSF's words."""

from __future__ import annotations

from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import FLAG, Options, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Parameter = dict[str, Any]

USAGE = """\
Usage: bparams [-a | -l]
  (none)          the most important ones, in sentences
  -a              all, a line for each:  NAME = value
  -l              all, each with what it means
"""
OPTIONS = Options({"-a": FLAG, "-l": FLAG}, {}, bundled=False)


def render_short(found: list[Parameter]) -> list[str]:
    """Return LSF's sentences."""
    values = {parameter["name"]: parameter["value"] for parameter in found}
    return [
        f"Default Queues:  {values.get('DEFAULT_QUEUE', '')}\n",
        f"MBD_SLEEP_TIME used for calculations:  {values['MBD_SLEEP_TIME']} seconds\n",
        f"Job Checking Interval:  {values['SBD_SLEEP_TIME']} seconds\n",
        f"Job Accepting Interval:  {values['JOB_ACCEPT_INTERVAL']} seconds\n",
    ]


def render_all(found: list[Parameter]) -> list[str]:
    """Return a line for each parameter."""
    return [f" {parameter['name']} = {parameter['value']}\n" for parameter in found]


def render_long(found: list[Parameter]) -> list[str]:
    """Return each parameter below what it means."""
    lines = ["\n"]
    for parameter in found:
        lines += [
            f"{parameter['text'][:1].upper()}{parameter['text'][1:]}:\n",
            f"     {parameter['name']} = {parameter['value']}\n",
            "\n",
        ]
    return lines


def execute(context: Context) -> int:
    """Print them."""
    parsed = context.parsed
    if parsed.rest:
        raise UsageError(f"{parsed.rest[0]}: no word is expected")
    if parsed.has("-a") and parsed.has("-l"):
        raise UsageError("-a and -l cannot be used together")
    found = sorted(
        context.api.call("GET", "/parameters")["parameters"], key=lambda item: str(item["name"])
    )
    if parsed.has("-l"):
        context.out_block(render_long(found))
    else:
        context.out_block(render_all(found) if parsed.has("-a") else render_short(found))
    return 0


def main() -> NoReturn:
    """Run ``bparams``."""
    run_main(OPTIONS, USAGE, execute)
