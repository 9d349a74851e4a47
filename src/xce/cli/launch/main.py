"""``xce-launch``: run a command as the tasks of the job that it is called in."""

import argparse
import os
import sys
from collections.abc import Sequence

from xce.client.ranks import Rank, RankFileError, load_ranks, rank_environment
from xce.client.running import Run
from xce.client.tasks import LOST_CODE, NoJobError, Tasks

USAGE_CODE = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xce-launch",
        description="Run a command as tasks of the job that this is called in: all of them, each "
        "on its host, with its rank in XCE_RANK. When one fails the others are ended.",
    )
    parser.add_argument("--role", help="the tasks of this role only")
    parser.add_argument("--host", action="append", help="those on this host only; again for more")
    parser.add_argument("--per-host", action="store_true", help="one task on each host")
    parser.add_argument("--keep-going", action="store_true", help="let the others go on")
    parser.add_argument(
        "-l", "--label", action="store_true", help="begin each line of output with its rank"
    )
    parser.add_argument("command", help="a program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def choose(ranks: Sequence[Rank], options: argparse.Namespace) -> list[Rank]:
    """Return the tasks that are meant."""
    chosen = [
        rank
        for rank in ranks
        if options.role in (None, rank.role) and (not options.host or rank.host in options.host)
    ]
    if not options.per_host:
        return chosen
    first: dict[str, Rank] = {}
    for rank in chosen:
        first.setdefault(rank.host, rank)
    return list(first.values())


def main() -> int:
    """Run the tasks; return the highest of their exit codes."""
    options = _parser().parse_args()
    try:
        ranks = load_ranks()
        tasks = Tasks()
    except (RankFileError, NoJobError) as error:
        print(f"xce-launch: {error}", file=sys.stderr)
        return LOST_CODE
    chosen = choose(ranks, options)
    if not chosen:
        print("xce-launch: the job has no such tasks", file=sys.stderr)
        return USAGE_CODE
    argv = [options.command, *options.arguments]
    cwd = os.getcwd()  # noqa: PTH109 - as bytes-like as it came
    try:
        own = [
            tasks.start(
                rank.host, argv, env=rank_environment(rank, ranks, os.environ), cwd=cwd,
                has_input=len(chosen) == 1,
            )
            for rank in chosen
        ]  # fmt: skip
        labels = [f"{rank.rank}: " for rank in chosen] if options.label else []
        run = Run(
            tasks, own, program="xce-launch", fails_together=not options.keep_going, labels=labels
        )
        return run.wait()
    finally:
        tasks.close()
