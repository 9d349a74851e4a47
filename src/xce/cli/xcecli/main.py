"""``xcecli``: jobs, hosts and queues, for people and programs."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TextIO

from xce.cli.xcecli.act import run_action
from xce.cli.xcecli.listing import run_hosts, run_jobs, run_queues
from xce.cli.xcecli.options import NOT_BUILT, build_parser
from xce.cli.xcecli.session import OK, USAGE, Session, errors_told
from xce.cli.xcecli.show import run_info, run_output, run_wait, run_why
from xce.cli.xcecli.submit import run_plan, run_submit
from xce.cli.xcecli.topology import run_topology
from xce.cli.xcecli.trace import run_trace


def _run_login(session: Session, options: argparse.Namespace) -> int:
    """Log in or out; what that needs costs time to load, which other commands do not spend."""
    from xce.cli.xcecli.login import run_login, run_logout  # noqa: PLC0415

    return (run_login if options.name == "login" else run_logout)(session, options)


_RUN: Final[Mapping[str, Callable[[Session, argparse.Namespace], int]]] = {
    "submit": run_submit,
    "plan": run_plan,
    "jobs": run_jobs,
    "info": run_info,
    "why": run_why,
    "trace": run_trace,
    "output": run_output,
    "kill": run_action,
    "stop": run_action,
    "resume": run_action,
    "requeue": run_action,
    "wait": run_wait,
    "login": _run_login,
    "logout": _run_login,
    "hosts": run_hosts,
    "queues": run_queues,
    "topology": run_topology,
}


def execute(words: Sequence[str], environ: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Run one command; return its exit status."""
    if words and words[0] in NOT_BUILT:
        err.write(f"xcecli: {words[0]} is not built yet: {NOT_BUILT[words[0]]}\n")
        return USAGE
    sys.set_int_max_str_digits(0)  # such numbers are judged like any other, and not by Python
    options = build_parser().parse_args(words)
    session = Session(environ, out, err, wait_s=options.wait_daemon)
    codes: list[int] = []
    with contextlib.closing(session), errors_told(session, codes):
        codes.append(_RUN[options.name](session, options))
        out.flush()
    return codes[-1] if codes else OK


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    return execute(sys.argv[1:] if words is None else words, os.environ, sys.stdout, sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
