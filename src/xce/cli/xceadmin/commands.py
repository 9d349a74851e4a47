"""The subcommands of `xceadmin`, each loaded when it is wanted: a simulator takes 0.2 s to load."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from xce.client.rest import WAIT_S
from xce.daemon.settings import Settings

Run: TypeAlias = Callable[[Settings, argparse.Namespace], int]
Names: TypeAlias = Any
"""What `add_subparsers` returns, which is private to argparse."""
USAGE: Final = 2


class Parser(argparse.ArgumentParser):
    """Usage errors are one line and exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and leave."""
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(USAGE)


def _run_by(names: Names, name: str, run: Run) -> None:
    """Note what runs a subcommand; it gets the settings of the state directory."""
    names.choices[name].set_defaults(run=run)


def _add_init(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.init import add_init, run_init

    add_init(names, common)
    _run_by(names, "init", run_init)


def _add_keys(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.keys import add_keys, run_keys, run_peers

    add_keys(names, common)
    _run_by(names, "keys", run_keys)
    _run_by(names, "peers", run_peers)


def _add_check(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.check import run_check

    check = names.add_parser("check", parents=[common], help="check the configuration files")
    check.add_argument("directory", nargs="?", help="(default: config in the state directory)")
    _run_by(
        names, "check",
        lambda settings, options: run_check(settings, options.directory, as_json=options.json),
    )  # fmt: skip


def _add_apply(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.apply import run_apply

    apply = names.add_parser(
        "apply", parents=[common], help="put the configuration files of a running cluster in effect"
    )
    apply.add_argument("--wait-daemon", type=float, default=WAIT_S, metavar="S")
    _run_by(names, "apply", run_apply)


def _add_hosts(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.hosts import run_hosts

    hosts = names.add_parser(
        "hosts",
        parents=[common],
        help="open, close, drain or give up hosts, end or adopt strangers",
    )
    hosts.add_argument("action", choices=("open", "close", "drain", "lost", "kill", "adopt"))
    hosts.add_argument(
        "--gpu", action="append", default=[], metavar="ID",
        help="with open or close: only this GPU of the one host, by index or UUID",
    )  # fmt: skip
    hosts.add_argument("hosts", nargs="+", metavar="NAME", help='"g[01-08]" means many')
    hosts.add_argument(
        "-C", "--comment", default="", metavar="TEXT", help="why; bhosts -l shows it"
    )
    hosts.add_argument(
        "--wait", type=float, nargs="?", const=0.0, metavar="S",
        help="with drain: return when nothing runs there any more, or fail after S seconds",
    )  # fmt: skip
    hosts.add_argument("--yes", action="store_true", help="with lost and kill: do not ask")
    hosts.add_argument(
        "--wait-daemon", type=float, default=WAIT_S, metavar="S",
        help="try an unreachable cluster that long",
    )  # fmt: skip
    _run_by(names, "hosts", run_hosts)


def _add_topology(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.topology.command import READERS, run_topology

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
        "--apply", "--yes", action="store_true", help="write it, not only show the change"
    )
    _run_by(names, "topology", run_topology)


def _add_users(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.audit import run_audit
    from xce.cli.xceadmin.rbac import add_users, run_logins, run_rbac

    add_users(names, common)
    _run_by(
        names, "rbac",
        lambda settings, options: run_rbac(
            settings, options.user, options.permission, options.object, as_json=options.json
        ),
    )  # fmt: skip
    _run_by(
        names, "logins",
        lambda settings, options: run_logins(settings, options.user, options.session),
    )  # fmt: skip
    _run_by(
        names, "audit",
        lambda settings, options: run_audit(
            settings, user=options.user, since=options.since, denied=options.denied,
            as_json=options.json or options.form == "json",
        ),
    )  # fmt: skip


def _add_journal(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.journal import add_journal, run_journal

    add_journal(names, common)
    _run_by(names, "journal", run_journal)


def _add_backup(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.backup import run_backup, run_restore

    backup = names.add_parser(
        "backup", parents=[common], help="write journal, history and configuration into a file"
    )
    backup.add_argument("file", type=Path)
    restore = names.add_parser(
        "restore", parents=[common], help="make an empty state directory what a backup says"
    )
    restore.add_argument("file", type=Path)
    restore.add_argument(
        "--at", metavar="SEQ|TIME", help="up to this entry or instant (default: all)"
    )
    restore.add_argument("--dry-run", action="store_true", help="only say what would be done")
    _run_by(
        names, "backup",
        lambda settings, options: run_backup(settings, options.file, as_json=options.json),
    )  # fmt: skip
    _run_by(
        names, "restore",
        lambda settings, options: run_restore(
            settings, options.file, at=options.at, dry_run=options.dry_run
        ),
    )  # fmt: skip


def _add_replay(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.replay import run_replay

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
    _run_by(
        names, "replay",
        lambda settings, options: run_replay(
            settings, options.journal, fresh=options.fresh, as_json=options.json,
            traces=options.trace, session=options.session,
        ),
    )  # fmt: skip


def _add_history(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.history import add_history, run_history

    add_history(names, common)
    _run_by(names, "history", run_history)


def _add_import(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.lsf.command import run_import

    moved = names.add_parser("import-lsf", help="make our configuration of LSF's")
    moved.add_argument("directory", type=Path, help="with lsf.conf, lsb.queues and the others")
    moved.add_argument("target", type=Path, help="a directory to be made")
    moved.set_defaults(run_alone=lambda options: run_import(options.directory, options.target))


def _add_trace(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.trace import add_trace, run_trace

    add_trace(names, common, WAIT_S)
    _run_by(names, "trace", run_trace)


def _add_sim(names: Names, common: Parser) -> None:
    from xce.cli.xceadmin.sim import add_sim, run_sim

    add_sim(names)
    names.choices["sim"].set_defaults(run_alone=run_sim)


COMMANDS: Final[dict[str, Callable[[Names, Parser], None]]] = {
    "init": _add_init, "keys": _add_keys, "peers": _add_keys, "check": _add_check,
    "apply": _add_apply, "hosts": _add_hosts, "topology": _add_topology,
    "rbac": _add_users, "logins": _add_users, "audit": _add_users,
    "journal": _add_journal, "backup": _add_backup, "restore": _add_backup,
    "replay": _add_replay, "history": _add_history, "import-lsf": _add_import,
    "trace": _add_trace, "sim": _add_sim,
}  # fmt: skip
"""What adds each subcommand: ``run`` gets the settings and what was parsed, ``run_alone`` only
that."""
