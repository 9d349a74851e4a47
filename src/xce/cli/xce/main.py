"""`xce`: a cluster on this machine, from start to end."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

import xce.client.version as release
from xce.cli.xce.demo import run_demo
from xce.cli.xce.down import run_down
from xce.cli.xce.environment import run_env
from xce.cli.xce.logs import run_logs
from xce.cli.xce.status import run_status
from xce.cli.xce.up import UpOptions, run_up
from xce.daemon.components import command_line
from xce.daemon.fresh_config import HostsWanted
from xce.daemon.settings import Settings, SettingsError, load_settings

DAEMONS: Final = {
    "controller": "the one that decides, and writes the journal",
    "scheduler": "plans what starts where",
    "apiserver": "answers users",
    "history": "keeps what has ended",
    "worker": "runs the jobs of one host (--host NAME)",
    "snapshot": "makes one snapshot of the journal, then ends",
    "node-manager": "starts and watches the others",
}
NOT_BUILT: Final = {"proxy": "providers come with a later release"}


class _Parser(argparse.ArgumentParser):
    """Usage errors are one line and exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and leave."""
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(2)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    words = sys.argv[1:] if words is None else words
    if words and words[0] in NOT_BUILT:
        print(f"xce {words[0]} is not built yet: {NOT_BUILT[words[0]]}", file=sys.stderr)
        return 2
    if words and words[0] in DAEMONS:
        _become_daemon(words[0], words[1:])
    try:
        try:
            options = build_parser().parse_args(words)
            return _run(options, load_settings(options.dir))
        finally:
            sys.stdout.flush()  # also what --help says
    except SettingsError as error:
        print(f"xce: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing is left to be flushed
        return 141


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(prog="xce", description=__doc__, allow_abbrev=False)
    names = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    common = _Parser(add_help=False)
    common.add_argument("--dir", help="state directory (default: $XCE_DIR, else ~/.xce)")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return names.add_parser(
            name, help=text, description=text, parents=[common], allow_abbrev=False
        )

    up = add("up", "start the cluster of this machine, or go on with it")
    up.add_argument("--workers", type=int, metavar="N", help="that many hosts (default: 1)")
    up.add_argument("--hosts", metavar="NAMES", help='names instead of a number: "h[1-4]"')
    up.add_argument("--slots", type=int, metavar="S", help="slots of each host")
    up.add_argument("--mem", metavar="M", help="memory of each host: 4G")
    up.add_argument("--gpus", type=int, metavar="N", help="simulated GPUs of each host")
    up.add_argument(
        "--only", default="", metavar="DAEMONS",
        help="run only these here: controller,scheduler,history,apiserver,worker,worker-NAME",
    )  # fmt: skip
    up.add_argument("--foreground", action="store_true", help="stay, until Ctrl-C")
    up.add_argument("--timeout", type=float, default=120, metavar="S", help="(default: 120)")
    down = add("down", "end the daemons; jobs go on")
    down.add_argument("--jobs", action="store_true", help="end all jobs first")
    status = add("status", "show daemons, hosts and how many jobs there are")
    status.add_argument("--json", action="store_true")
    logs = add("logs", "show the daemons' logs")
    logs.add_argument("daemon", nargs="?", help="controller, worker, worker-h1, ...; default: all")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    logs.add_argument("-n", type=int, default=40, metavar="N", help="last lines (default: 40)")
    logs.add_argument("--json", action="store_true", help="as they are written")
    add("env", 'print what a shell evaluates: eval "$(xce env)"')
    add("demo", "a cluster of its own with real jobs, in about 20 seconds")
    add("version", "print the version")
    for name, text in DAEMONS.items():
        names.add_parser(name, help=f"daemon: {text}", add_help=False)
    return parser


def _run(options: argparse.Namespace, settings: Settings) -> int:
    """Run the chosen command."""
    match options.name:
        case "up":
            wanted = HostsWanted(
                options.workers, options.hosts, options.slots, options.mem, options.gpus
            )
            only = tuple(filter(None, options.only.split(",")))
            return run_up(
                settings, UpOptions(wanted, options.foreground, options.timeout, only=only)
            )
        case "down":
            return run_down(settings, with_jobs=options.jobs)
        case "status":
            return run_status(settings, as_json=options.json)
        case "logs":
            return run_logs(
                settings,
                daemon=options.daemon,
                count=max(0, options.n),
                follow=options.follow,
                as_json=options.json,
            )
        case "env":
            return run_env(settings)
        case "demo":
            return run_demo(options.dir)
        case _:
            print(f"XCE {release.VERSION}")
            return 0


def _become_daemon(name: str, words: Sequence[str]) -> NoReturn:
    """Become a daemon; its state directory is named as everywhere."""
    words = list(words)
    given = None
    if "--dir" in words[:-1]:
        place = words.index("--dir")
        given = words[place + 1]
        del words[place : place + 2]
    try:
        settings = load_settings(given)
    except SettingsError as error:
        print(f"xce {name}: {error}", file=sys.stderr)
        sys.exit(2)
    module = f"xce.daemon.{name.replace('-', '_')}"
    line = command_line(["-m", module, "--dir", str(settings.state_dir), *words])
    os.execv(line[0], line)


if __name__ == "__main__":
    sys.exit(main())
