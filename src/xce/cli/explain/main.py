"""``bsub --explain``: print what a submission says; submit nothing."""

import json
from collections.abc import Sequence
from typing import Final, NoReturn

from xce.cli.explain.asked import OPTIONS, read_asked
from xce.cli.explain.cluster import load_cluster
from xce.cli.explain.reading import explain
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import UsageError, parse_options
from xce.cli.lsf.values import BadValueError
from xce.resreq.errors import LanguageError

USAGE: Final = """\
Usage: bsub --explain [options] [command [argument ...]]
       bsub --explain [options] < script
  Prints one JSON object of everything that was understood, and submits nothing. Names of queues,
  hosts and resources that do not exist are listed under "warnings".
"""


def is_asked(words: Sequence[str]) -> bool:
    """Return whether ``--explain`` is among the options, and not a word of the command."""
    try:
        return parse_options(words, OPTIONS, until_word=True).has("--explain")
    except UsageError:
        return True


def execute(context: Context) -> int:
    """Explain."""
    wait = context.parsed.value("--wait-daemon")
    if wait and not (wait.isascii() and wait.isdigit()):
        raise UsageError(f"--wait-daemon {wait}: expected a number of seconds")
    cluster = load_cluster(context.environ, wait_s=float(wait or 0))
    try:
        asked = read_asked(context.parsed, lambda: cluster.config.lsf_parse_script)
        result = explain(asked, cluster, context.environ)
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED
    except LanguageError as error:
        for line in _render_error(error):
            context.err(line)
        return FAILED
    text = json.dumps(result, indent=2, ensure_ascii=False)
    if not text.isascii() and any("\ud800" <= mark <= "\udfff" for mark in text):
        text = json.dumps(result, indent=2)  # bytes that are no UTF-8 stand as escapes
    context.out(text)
    return 0


def _render_error(error: LanguageError) -> list[str]:
    """Return what is wrong, and the text with a mark below the column."""
    message = error.message
    if error.column and f"column {error.column}" not in message:
        message = f"{message} (column {error.column})"
    lines = [f"{error.lsf}: {message}." if error.lsf else f"{message}."]
    if error.column and error.text and error.text.isprintable():
        start = max(0, error.column - 60)
        lines.append(f"  {error.text[start : start + 76]}")
        lines.append(" " * (error.column - start + 1) + "^")
    return lines


def main() -> NoReturn:
    """Run ``bsub --explain`` on the process's own words."""
    run_main(OPTIONS, USAGE, execute, until_word=True)
