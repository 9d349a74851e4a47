"""`xceadmin`: configuration, hosts and the journal of a cluster, for those who run it."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from xce.cli.xceadmin.commands import COMMANDS, USAGE, Parser
from xce.client.version import VERSION
from xce.daemon.settings import SettingsError, load_settings

NOT_BUILT: Final = {
    "diff": "`xceadmin check` judges the files, `xceadmin apply` puts them in effect",
    "rollback": "put the former files back, then `xceadmin apply`",
    "supply": "supply is in the configuration files; `xcecli hosts` and `xcecli topology` show it",
    "providers": "there are no providers yet",
    "demand": "there are no providers yet",
    "upgrade": "install the new release, then `xce down` and `xce up`",
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status.

    0 done, 1 failed, 2 wrong usage, 3 not found, 4 denied, 5 unreachable.
    """
    words = sys.argv[1:] if words is None else words
    if words and words[0] in NOT_BUILT:
        print(f"xceadmin {words[0]} is not built yet: {NOT_BUILT[words[0]]}", file=sys.stderr)
        return USAGE
    return _unbroken(lambda: _execute(words))


def _execute(words: Sequence[str]) -> int:
    options = build_parser(words[0] if words else "").parse_args(words)
    if "run_alone" in options:
        return int(options.run_alone(options))
    try:
        settings = load_settings(options.dir)
    except SettingsError as error:
        print(f"xceadmin: {error}", file=sys.stderr)
        return USAGE
    return int(options.run(settings, options))


def _unbroken(run: Callable[[], int]) -> int:
    """Run a command whose reader may go away."""
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()  # also what --help says
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing is left to be flushed
        return 141


def build_parser(name: str = "") -> argparse.ArgumentParser:
    """Return the parser of one subcommand; of the whole command line where none is named."""
    parser = Parser(prog="xceadmin", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", "-V", action="version", version=f"XCE {VERSION}")
    names = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    common = Parser(add_help=False, allow_abbrev=False)
    common.add_argument("--dir", help="state directory (default: $XCE_DIR, else ~/.xce)")
    common.add_argument("--json", action="store_true", help="JSON instead of a table")
    wanted = [COMMANDS[name]] if name in COMMANDS else COMMANDS.values()
    for add in dict.fromkeys(wanted):
        add(names, common)
    if name not in COMMANDS:
        for other, text in NOT_BUILT.items():
            names.add_parser(other, help=f"not built yet: {text}", add_help=False)
    return parser
