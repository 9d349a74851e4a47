"""`xceadmin`: configuration, hosts and the journal of a cluster, for those who run it."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from xce.cli.xceadmin.backup import run_backup, run_restore
from xce.cli.xceadmin.check import run_check
from xce.cli.xceadmin.hosts import run_hosts
from xce.cli.xceadmin.journal import parse_target, run_export, run_migrate, run_verify
from xce.cli.xceadmin.replay import run_replay
from xce.cli.xceadmin.sim import add_sim, refuse_not_built, run_sim
from xce.client.rest import WAIT_S
from xce.client.version import VERSION
from xce.daemon.settings import Settings, SettingsError, load_settings
from xce.model.errors import ConfigError

OK, FAILED, USAGE, NOT_FOUND, DENIED, UNREACHABLE = range(6)
NOT_BUILT: Final = {
    "init": "keys come with the security release; `xce up` makes a cluster",
    "diff": "configuration is in effect after `xce down` and `xce up`",
    "apply": "configuration is in effect after `xce down` and `xce up`",
    "rollback": "configuration is in effect after `xce down` and `xce up`",
    "keys": "components trust the unix sockets of their own user",
    "supply": "supply is in the configuration files",
    "providers": "there are no providers yet",
    "demand": "there are no providers yet",
    "upgrade": "install the new release, then `xce down` and `xce up`",
}


class _Parser(argparse.ArgumentParser):
    """Usage errors are one line and exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and leave."""
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(USAGE)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status.

    0 done, 1 failed, 2 wrong usage, 3 not found, 4 denied, 5 unreachable.
    """
    words = sys.argv[1:] if words is None else words
    if words and words[0] in NOT_BUILT:
        print(f"xceadmin {words[0]} is not built yet: {NOT_BUILT[words[0]]}", file=sys.stderr)
        return USAGE
    if words and words[0] == "sim" and refuse_not_built(words[1:]):
        return USAGE
    options = build_parser().parse_args(words)
    if options.name == "sim":
        return _unbroken(lambda: run_sim(options))
    try:
        settings = load_settings(options.dir)
    except SettingsError as error:
        print(f"xceadmin: {error}", file=sys.stderr)
        return USAGE
    return _unbroken(lambda: _run(options, settings))


def _unbroken(run: Callable[[], int]) -> int:
    """Run a command whose reader may go away."""
    try:
        status = run()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing is left to be flushed
        return 141
    return status


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(prog="xceadmin", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", "-V", action="version", version=f"XCE {VERSION}")
    names = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    common = _Parser(add_help=False, allow_abbrev=False)
    common.add_argument("--dir", help="state directory (default: $XCE_DIR, else ~/.xce)")
    common.add_argument("--json", action="store_true", help="JSON instead of a table")

    check = names.add_parser("check", parents=[common], help="check the configuration files")
    check.add_argument("directory", nargs="?", help="(default: config in the state directory)")

    hosts = names.add_parser("hosts", parents=[common], help="open, close, drain or give up hosts")
    hosts.add_argument("action", choices=("open", "close", "drain", "lost"))
    hosts.add_argument("hosts", nargs="+", metavar="NAME", help='"g[01-08]" means many')
    hosts.add_argument(
        "-C", "--comment", default="", metavar="TEXT", help="why; bhosts -l shows it"
    )
    hosts.add_argument(
        "--wait", type=float, nargs="?", const=0.0, metavar="S",
        help="with drain: return when nothing runs there any more, or fail after S seconds",
    )  # fmt: skip
    hosts.add_argument("--yes", action="store_true", help="with lost: do not ask")
    hosts.add_argument(
        "--wait-daemon", type=float, default=WAIT_S, metavar="S",
        help="try an unreachable cluster that long",
    )  # fmt: skip

    journal = names.add_parser(
        "journal", parents=[common], help="look into the journal, or move it"
    )
    _add_journal(journal)
    _add_backup(names, common)
    replay = names.add_parser(
        "replay", parents=[common], help="run recorded sessions again and compare their decisions"
    )
    replay.add_argument(
        "journal", nargs="?", type=Path, help="a directory (default: of the state directory)"
    )
    replay.add_argument(
        "--fresh", action="store_true", help="without what sessions remember of earlier ones"
    )
    add_sim(names)
    for name, text in NOT_BUILT.items():
        names.add_parser(name, help=f"not built yet: {text}", add_help=False)
    return parser


def _add_journal(journal: argparse.ArgumentParser) -> None:
    """Add what ``xceadmin journal`` takes."""
    # The same options once more, so that they may also stand behind the action.
    again = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    again.add_argument("--dir", help="state directory (default: $XCE_DIR, else ~/.xce)")
    again.add_argument("--json", action="store_true", help="JSON instead of a table")
    actions = journal.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser(
        "verify", parents=[again], help="read all of it, and say up to where it is whole"
    )
    export = actions.add_parser(
        "export", parents=[again], help="print entries, each a line of JSON"
    )
    export.add_argument("--from", dest="from_seq", type=int, default=1, metavar="SEQ")
    export.add_argument("--to", dest="to_seq", type=int, default=0, metavar="SEQ")
    migrate = actions.add_parser(
        "migrate", parents=[again], help="copy it between files and a database"
    )
    migrate.add_argument(
        "--to", dest="target", required=True, metavar="WHERE",
        help="postgresql://user@host1,host2/database, or: files",
    )  # fmt: skip
    migrate.add_argument("--password-file", default="", metavar="FILE")
    migrate.add_argument("--password-env", default="", metavar="NAME")


def _add_backup(names: "argparse._SubParsersAction[_Parser]", common: _Parser) -> None:
    """Add ``backup`` and ``restore``."""
    backup = names.add_parser(
        "backup", parents=[common], help="write journal, history and configuration into a file"
    )
    backup.add_argument("file", type=Path)
    restore = names.add_parser(
        "restore", parents=[common], help="make an empty state directory what a backup says"
    )
    restore.add_argument("file", type=Path)
    restore.add_argument(
        "--at", default="", metavar="SEQ|TIME", help="up to this entry or instant (default: all)"
    )
    restore.add_argument("--dry-run", action="store_true", help="only say what would be done")


def _run(options: argparse.Namespace, settings: Settings) -> int:
    """Run the chosen command."""
    match options.name, getattr(options, "action", ""):
        case "check", _:
            return run_check(settings, options.directory, as_json=options.json)
        case "replay", _:
            return run_replay(settings, options.journal, fresh=options.fresh, as_json=options.json)
        case "hosts", _:
            return run_hosts(settings, options)
        case "backup", _:
            return run_backup(settings, options.file, as_json=options.json)
        case "restore", _:
            return run_restore(settings, options.file, at=options.at, dry_run=options.dry_run)
        case _, "verify":
            return run_verify(settings, as_json=options.json)
        case _, "migrate":
            return _run_migrate(options, settings)
        case _:
            return run_export(settings, from_seq=options.from_seq, to_seq=options.to_seq)


def _run_migrate(options: argparse.Namespace, settings: Settings) -> int:
    """Read where the journal shall go, and copy it there."""
    try:
        target = parse_target(options.target, options.password_file, options.password_env)
    except ConfigError as error:
        print(f"xceadmin journal: {error}", file=sys.stderr)
        return USAGE
    return run_migrate(settings, target)
