"""`xceadmin trace on|off|list`: of what sessions tell, and for how long."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from xce.cli.xceadmin.apiserver import STATUS_OF_CODE, ask_apiserver, tell
from xce.daemon.settings import Settings
from xce.model.errors import TextError
from xce.model.units import parse_span_us, render_span


def add_trace(names: Any, common: argparse.ArgumentParser, wait_s: float) -> None:  # noqa: ANN401
    """Add the command line of `xceadmin trace`; ``names``: what argparse keeps commands in."""
    trace = names.add_parser("trace", parents=[common], help="have sessions tell what they decide")
    trace.add_argument("action", choices=("on", "off", "list"))
    trace.add_argument("rules", nargs="*", type=int, metavar="RULE", help="with off: which ones")
    what = trace.add_mutually_exclusive_group()
    what.add_argument("--job", type=int, metavar="ID", help="what becomes of a job")
    what.add_argument("--user", metavar="USER", help="... of a user's jobs")
    what.add_argument("--queue", metavar="QUEUE", help="... of a queue's jobs")
    what.add_argument(
        "--next", type=int, metavar="N", help="... of all jobs in the next N sessions"
    )
    trace.add_argument("--for", dest="span", metavar="SPAN", help="90s, 10m (the default), 2h")
    trace.add_argument("--all", action="store_true", help="with off: all rules that are yours")
    trace.add_argument("--wait-daemon", type=float, default=wait_s, metavar="S",
                       help="try an unreachable cluster that long")  # fmt: skip


def run_trace(settings: Settings, options: argparse.Namespace) -> int:
    """Change or list what is traced; return the exit status."""
    try:
        document = _document(options)
    except TextError as error:
        print(f"xceadmin trace: {error.message}", file=sys.stderr)
        return 2
    wait_s = options.wait_daemon
    if document is None:
        status, answer = ask_apiserver(
            settings, "trace", "GET", "/trace/rules", wait_s=wait_s, progress=tell
        )
        return status if answer is None else _show(answer, options)
    status, answer = ask_apiserver(
        settings, "trace", "POST", "/trace/actions", document=document,
        wait_s=wait_s, progress=tell,
    )  # fmt: skip
    return status if answer is None else _report(answer["results"], options)


def _document(options: argparse.Namespace) -> dict[str, object] | None:
    """Return what to ask for; None: the list.

    Raises:
        TextError: The options do not go together.
    """
    subject = {"job": options.job, "user": options.user, "queue": options.queue,
               "sessions": options.next}  # fmt: skip
    subject = {name: value for name, value in subject.items() if value is not None}
    match options.action:
        case "on":
            if options.rules or options.all or not subject:
                raise TextError("on takes one of --job, --user, --queue, --next", text="on")
            # The cluster judges the rest, but its answer would name no option.
            span_us = parse_span_us(options.span or "10m")
            return {"action": "on", **subject, "for_s": max(1, -(-span_us // 1_000_000))}
        case "off":
            if subject or options.span or bool(options.rules) == options.all:
                raise TextError("off takes the numbers of rules, or --all", text="off")
            return {"action": "off", "rules": options.rules}
        case _:
            if subject or options.span or options.rules or options.all:
                raise TextError("list takes nothing more", text="list")
            return None


def _report(results: list[dict[str, Any]], options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(results, indent=2))
    status = 0
    for result in results:
        refusal = result.get("error")
        if refusal:
            print(f"xceadmin trace: {refusal['text']}", file=sys.stderr)
            status = status or STATUS_OF_CODE.get(refusal["code"], 1)
        elif not options.json:
            until = result.get("until")
            left = f" for {_left(until)}" if until else ""
            print(f"rule {result['rule']}: {result['text']}{left}")
    if not results and not options.json:
        print("no rule is in effect")
    return status


def _show(answer: dict[str, Any], options: argparse.Namespace) -> int:
    rules = answer["rules"]
    if options.json:
        print(json.dumps(rules, indent=2))
        return 0
    if not rules:
        print("nothing is traced")
        return 0
    lines = [("RULE", "WHAT", "BY", "LEFT")]
    lines += [(str(rule["rule"]), _what(rule), rule["by"], _left(rule["until"])) for rule in rules]
    widths = [max(len(line[at]) for line in lines) for at in range(4)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(cells).rstrip())
    return 0


def _what(rule: dict[str, Any]) -> str:
    words: dict[str, Callable[[], str]] = {
        "job": lambda: f"job {rule['job']}",
        "session": lambda: f"all, in {rule['sessions']} sessions",
    }
    return words.get(rule["kind"], lambda: f"{rule['kind']} {rule['name']}")()


def _left(until: float) -> str:
    return render_span(int(max(0.0, until - time.time() + 0.999) * 1_000_000))
