"""`xceadmin`: configuration, hosts and the journal of a cluster, for those who run it."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from xce.cli.xceadmin.apply import run_apply
from xce.cli.xceadmin.audit import run_audit
from xce.cli.xceadmin.backup import run_backup, run_restore
from xce.cli.xceadmin.check import run_check
from xce.cli.xceadmin.history import run_history_export
from xce.cli.xceadmin.hosts import run_hosts
from xce.cli.xceadmin.init import add_init, run_init
from xce.cli.xceadmin.journal import add_journal, run_journal
from xce.cli.xceadmin.keys import add_keys, run_keys, run_peers
from xce.cli.xceadmin.lsf.command import run_import
from xce.cli.xceadmin.rbac import add_users, run_logins, run_rbac
from xce.cli.xceadmin.replay import run_replay
from xce.cli.xceadmin.sim import add_sim, run_sim
from xce.cli.xceadmin.topology.command import READERS, run_topology
from xce.cli.xceadmin.trace import add_trace, run_trace
from xce.client.rest import WAIT_S
from xce.client.version import VERSION
from xce.daemon.settings import Settings, SettingsError, load_settings

OK, FAILED, USAGE, NOT_FOUND, DENIED, UNREACHABLE = range(6)
NOT_BUILT: Final = {
    "diff": "configuration is in effect after `xce down` and `xce up`",
    "rollback": "configuration is in effect after `xce down` and `xce up`",
    "supply": "supply is in the configuration files",
    "providers": "there are no providers yet",
    "demand": "there are no providers yet",
    "upgrade": "install the new release, then `xce down` and `xce up`",
}
RUNNERS: Final = {
    "init": run_init,
    "keys": run_keys,
    "peers": run_peers,
    "trace": run_trace,
    "journal": run_journal,
    "apply": run_apply,
    "history": run_history_export,
    "hosts": run_hosts,
    "topology": run_topology,
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
    return _unbroken(lambda: _execute(words))


def _execute(words: Sequence[str]) -> int:
    options = build_parser().parse_args(words)
    if options.name == "import-lsf":
        return run_import(options.directory, options.target)
    if options.name == "sim":
        return run_sim(options)
    try:
        settings = load_settings(options.dir)
    except SettingsError as error:
        print(f"xceadmin: {error}", file=sys.stderr)
        return USAGE
    return _run(options, settings)


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


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(prog="xceadmin", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", "-V", action="version", version=f"XCE {VERSION}")
    names = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    common = _Parser(add_help=False, allow_abbrev=False)
    common.add_argument("--dir", help="state directory (default: $XCE_DIR, else ~/.xce)")
    common.add_argument("--json", action="store_true", help="JSON instead of a table")

    add_init(names, common)
    add_keys(names, common)
    check = names.add_parser("check", parents=[common], help="check the configuration files")
    check.add_argument("directory", nargs="?", help="(default: config in the state directory)")

    apply = names.add_parser(
        "apply", parents=[common], help="put the configuration files of a running cluster in effect"
    )
    apply.add_argument("--wait-daemon", type=float, default=WAIT_S, metavar="S")

    hosts = names.add_parser("hosts", parents=[common], help="open, close, drain or give up hosts")
    hosts.add_argument("action", choices=("open", "close", "drain", "lost"))
    hosts.add_argument(
        "--gpu",
        action="append",
        default=[],
        metavar="ID",
        help="with open or close: only this GPU of the one host, by index or UUID",
    )
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

    _add_topology(names, common)
    add_users(names, common)
    add_journal(names, common)
    _add_backup(names, common)
    _add_replay(names, common)
    _add_exchange(names, common)
    add_trace(names, common, WAIT_S)
    add_sim(names)
    for name, text in NOT_BUILT.items():
        names.add_parser(name, help=f"not built yet: {text}", add_help=False)
    return parser


def _add_topology(names: "argparse._SubParsersAction[_Parser]", common: _Parser) -> None:
    """Add ``topology``."""
    topology = names.add_parser(
        "topology", parents=[common], help="take domains of hosts, or GPUs, from other files"
    )
    topology.add_argument("action", choices=("import",))
    topology.add_argument("file", type=Path, help="the file, or - for the standard input")
    topology.add_argument("--format", dest="form", choices=tuple(READERS), help="(default: guess)")
    topology.add_argument(
        "--levels", default="", metavar="NAMES", help="of the levels, the narrowest first"
    )
    topology.add_argument(
        "--host", default="", metavar="NAMES", help="hosts like the one machine of the file"
    )
    topology.add_argument("--config", type=Path, metavar="DIR", help="(default: the cluster's)")
    topology.add_argument(
        "--apply",
        "--yes",
        action="store_true",
        help="write it, not only show the change",
    )


def _add_replay(names: "argparse._SubParsersAction[_Parser]", common: _Parser) -> None:
    """Add ``replay``."""
    replay = names.add_parser(
        "replay", parents=[common], help="run recorded sessions again and compare their decisions"
    )
    replay.add_argument(
        "journal", nargs="?", type=Path, help="a directory (default: of the state directory)"
    )
    replay.add_argument(
        "--fresh", action="store_true", help="without what sessions remember of earlier ones"
    )
    replay.add_argument("--trace", type=Path, metavar="DIR", help="write what they decided there")
    replay.add_argument("--session", type=int, metavar="N", help="with --trace: only this one")


def _add_exchange(names: "argparse._SubParsersAction[_Parser]", common: _Parser) -> None:
    """Add what goes to accounting programs, and what comes from LSF."""
    history = names.add_parser("history", parents=[common], help="what ended jobs used")
    history.add_argument("action", choices=("export",))
    history.add_argument("--format", dest="form", choices=("json", "lsb.acct"), default="json")
    history.add_argument("--from", dest="from_s", type=float, default=0.0, metavar="EPOCH_S")
    history.add_argument("--to", dest="to_s", type=float, default=0.0, metavar="EPOCH_S")
    history.add_argument("--user", default="", metavar="NAME", help="only this user's jobs")
    moved = names.add_parser("import-lsf", help="make our configuration of LSF's")
    moved.add_argument("directory", type=Path, help="with lsf.conf, lsb.queues and the others")
    moved.add_argument("target", type=Path, help="a directory to be made")


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
    if options.name in RUNNERS:
        return RUNNERS[options.name](settings, options)
    match options.name, getattr(options, "action", ""):
        case "check", _:
            return run_check(settings, options.directory, as_json=options.json)
        case "replay", _:
            return run_replay(
                settings,
                options.journal,
                fresh=options.fresh,
                as_json=options.json,
                traces=options.trace,
                session=options.session,
            )
        case "audit", _:
            return run_audit(
                settings,
                user=options.user,
                since=options.since,
                denied=options.denied,
                as_json=options.json or options.form == "json",
            )
        case "logins", _:
            return run_logins(settings, options.user, options.session)
        case "rbac", _:
            return run_rbac(
                settings, options.user, options.permission, options.object, as_json=options.json
            )
        case "backup", _:
            return run_backup(settings, options.file, as_json=options.json)
        case _:
            return run_restore(settings, options.file, at=options.at, dry_run=options.dry_run)
