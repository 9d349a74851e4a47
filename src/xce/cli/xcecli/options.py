"""The command line of ``xcecli``, and what is not built yet."""

import argparse
import sys
from collections.abc import Callable
from typing import Final, NoReturn

from xce.cli.xcecli.render import FORMATS
from xce.cli.xcecli.session import USAGE
from xce.cli.xcecli.trace import add_trace
from xce.client.moment import FORMS
from xce.client.version import VERSION

_LATER: Final = "comes with a later release"
NOT_BUILT: Final = {
    "modify": f"it {_LATER}; 'bmod' and 'bswitch' change jobs",
    "top": f"it {_LATER}; 'xcecli jobs --watch' shows what goes on",
    "projects": f"projects with shares {_LATER}",
    "apps": f"application profiles {_LATER}",
    "preset": f"presets {_LATER}",
    "data": f"datasets {_LATER}",
    "claim": f"claims {_LATER}",
    "service": f"services {_LATER}",
    "history": f"it {_LATER}; 'bhist' and 'bacct' tell it, 'xcecli info ID' answers for ever",
    "whatif": f"it {_LATER}; 'xcecli plan' says what would become of a submission",
    "completion": f"it {_LATER}",
}


class Parser(argparse.ArgumentParser):
    """Usage errors are one line and exit status 2."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and leave."""
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(USAGE)


def build_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="xcecli",
        description="Jobs, hosts and queues of an XCE cluster.",
        epilog="Exit status: 0 ok, 1 failed, 2 usage, 3 not found, 4 denied, 5 unreachable; "
        "'wait' and 'submit --wait' return the job's own.",
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"XCE {VERSION}")
    _add_patience(parser, default=None)
    names = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    common = Parser(add_help=False)
    _add_patience(common, default=argparse.SUPPRESS)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return names.add_parser(
            name, help=text, description=text, parents=[common], allow_abbrev=False
        )

    _add_submit(add("submit", "submit a command or a script"))
    plan = "tell what would become of a job: would it run, where, when; submit nothing"
    _add_submit(add("plan", plan))
    _add_jobs(add("jobs", "list jobs"))
    _add_info(add("info", "show all about jobs"))
    why = add("why", "tell why jobs are where they are, and what would let them start")
    why.add_argument("ids", nargs="+", metavar="ID")
    _add_format(why, ("json", "yaml"))
    add_trace(add("trace", "show what sessions decided about jobs, and from what"))
    output = add("output", "print what a job wrote")
    output.add_argument("id", metavar="ID")
    output.add_argument("-f", "--follow", action="store_true", help="go on until it is over")
    output.add_argument("--stderr", action="store_true", help="its error output")
    for name, text in (
        ("kill", "end jobs: INT, TERM, then KILL"),
        ("stop", "suspend running jobs, hold pending ones"),
        ("resume", "let stopped jobs go on"),
    ):
        _add_selection(add(name, text), has_force=name == "kill")
    requeue = add("requeue", "let jobs pend again under their ids; what runs is ended first")
    _add_selection(requeue, has_force=False)
    requeue.add_argument(
        "--state", metavar="LIST", default="run,susp",
        help="only those in these states: any of pend,run,susp,done,exit (default: run,susp)",
    )  # fmt: skip
    requeue.add_argument("--hold", action="store_true", help="hold them until 'xcecli resume'")
    _add_logins(add)
    wait = add("wait", "wait for the end of jobs; the exit status is theirs")
    wait.add_argument("ids", nargs="+", metavar="ID")
    wait.add_argument("--timeout", type=float, metavar="SECONDS", help="wait no longer")
    for name in ("hosts", "queues"):
        table = add(name, f"list the {name}")
        _add_format(table, FORMATS)
        _add_moment(table)
    _add_topology(add("topology", "show in which domains hosts lie, and what is free there"))
    return parser


def _add_topology(topology: argparse.ArgumentParser) -> None:
    topology.add_argument("--map", action="store_true", help="a sign for each GPU, or for slots")
    topology.add_argument(
        "--json", dest="output", action="store_const", const="json", help="as -o json"
    )
    _add_format(topology, ("json", "yaml"))
    _add_moment(topology)


def _add_info(info: argparse.ArgumentParser) -> None:
    info.add_argument("ids", nargs="+", metavar="ID", help="12 or 12[3]")
    info.add_argument(
        "--spec", action="store_true", help="as a jobspec, whichever way it was submitted"
    )
    _add_format(info, ("json", "yaml"))
    _add_moment(info)


def _add_logins(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    login = add("login", "log in at a cluster on another machine")
    login.add_argument(
        "url", nargs="?", default="", help="https://host:port; without it and XCE_URL: here"
    )
    login.add_argument("--munge", action="store_true", help="with a MUNGE credential")
    login.add_argument("--paste", action="store_true", help="the browser is on another machine")
    login.add_argument("--fingerprint", default="", metavar="SHA256", help="of its certificate")
    login.add_argument("--ca", default="", metavar="FILE", help="who certifies it")
    logout = add("logout", "end a login")
    logout.add_argument("url", nargs="?", default="")
    logout.add_argument("--all", action="store_true", help="all logins, wherever they are")


def _add_patience(parser: argparse.ArgumentParser, default: object) -> None:
    parser.add_argument(
        "--wait-daemon",
        type=seconds,
        metavar="SECONDS",
        default=default,
        help="try an unreachable cluster that long (default $XCE_WAIT_DAEMON, else 60)",
    )


def seconds(text: str) -> float:
    """Return a number of seconds; a usage error names the function."""
    number = float(text)
    if not 0 <= number < 1e9:
        raise ValueError(text)
    return number


def _add_format(parser: argparse.ArgumentParser, formats: tuple[str, ...]) -> None:
    parser.add_argument("-o", "--output", choices=formats, help="how to print it")


def _add_moment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--at", metavar="TIME", help=f"as it was then: {FORMS}")


def _add_submit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-f", "--file", metavar="FILE",
        help="a job script instead of command words, -: stdin; FILE.yaml, FILE.json: a jobspec",
    )  # fmt: skip
    add("-n", "--tasks", metavar="MIN[,MAX]", help="number of tasks")
    add("-R", "--resreq", action="append", metavar="TEXT", help="resource requirement; adds up")
    add("-q", "--queue", metavar="QUEUE")
    add("-W", "--run-limit", metavar="TIME", help="90s, 10m, 1.5h, 2d, or [hours:]minutes")
    add("-M", "--memory", metavar="SIZE", help="memory limit with its unit: 500M, 4G")
    add("-m", "--hosts", metavar="HOSTS", help="only these hosts")
    add("-x", "--exclusive", action="store_true", help="no other job beside it")
    add("-P", "--project", metavar="PROJECT")
    add("--name", dest="job_name", metavar="NAME", help="the job's name")
    add("--array", metavar="LIST", help="an array: 1-100:2,200%%5")
    add("--env", action="append", metavar="NAME=VALUE", help="all, none, NAME or NAME=value")
    add("--cwd", metavar="DIR", help="working directory (default: the current one)")
    add("-i", "--input", metavar="FILE")
    add("-o", "--output", metavar="FILE", help="output; %%J job id, %%I index")
    add("-e", "--error", metavar="FILE", help="error output")
    add(
        "--rerunnable", action=argparse.BooleanOptionalAction,
        help="start anew when the host fails, or never (default: as the queue has it)",
    )  # fmt: skip
    add("--hold", action="store_true", help="do not start before 'xcecli resume'")
    add("-w", "--after", metavar="CONDITION", help="start when done(12) && exit(13) and the like")
    add(
        "--placement-group", metavar="NAME[,pack|spread][,hard|soft][,LEVEL]",
        help="pack your jobs of this group into one domain of the level, or spread them",
    )  # fmt: skip
    add("--begin", metavar="TIME", help="not before 2026-01-31T12:00, or +10m")
    add("--priority", type=int, metavar="N")
    add("--wait", action="store_true", help="wait for the end; the exit status is the job's")
    add("--json", action="store_true", help="print the result as JSON")
    add(
        "words",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="one word is a shell's command line, several are a command with its arguments; "
        "behind -f: the script's arguments",
    )


def _add_jobs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("ids", nargs="*", metavar="ID", help="only these, whatever state and owner")
    add("-u", "--user", metavar="USER", help="another user's; all: everybody's")
    add("-a", "--all", action="store_true", help="also those that have ended lately")
    add("-q", "--queue", metavar="QUEUE")
    add("-m", "--host", metavar="HOST", help="only those on this host")
    add("--name", dest="pattern", metavar="PATTERN", help="job name; * stands for anything")
    add("--state", metavar="LIST", help="any of pend,psusp,run,susp,done,exit")
    add("--watch", action="store_true", help="show it again and again, until Ctrl-C")
    _add_moment(parser)
    _add_format(parser, FORMATS)


def _add_selection(parser: argparse.ArgumentParser, *, has_force: bool) -> None:
    add = parser.add_argument
    add("ids", nargs="*", metavar="ID", help="12 or 12[3-5]")
    add("--all", action="store_true", help="all that match the filters")
    add("-u", "--user", metavar="USER", help="with --all: this user's; all: everybody's")
    add("-q", "--queue", metavar="QUEUE", help="with --all: only of this queue")
    add("--name", dest="pattern", metavar="PATTERN", help="with --all: only with such a name")
    add("--json", action="store_true", help="print the result as JSON")
    if has_force:
        add("--force", action="store_true", help="KILL at once")
