"""`xceadmin hosts ...`: which hosts take work, which are given up, what is unknown there."""

import argparse
import json
import sys
import time
from typing import Any, Final

from xce.cli.xceadmin.apiserver import STATUS_OF_CODE, ask_apiserver, tell
from xce.config.names import expand_names
from xce.daemon.settings import Settings
from xce.model.errors import TextError

LOOK_S: Final = 1.0
"""Between two looks at hosts that are being drained."""
_QUESTION: Final = """\
What runs on {hosts} is given up at once: rerunnable jobs start anew elsewhere, others end with
TERM_HOST_LOST. Say yes only if nothing runs there any more, or if it may run twice.
Give up {hosts}? [y/N] """


_STRANGERS: Final = """\
What runs on {hosts} of jobs that the restored journal does not know is killed.
Kill it? [y/N] """
ADOPT_S: Final = 60.0
"""So long it is waited for what hosts tell of what is adopted."""


def run_hosts(settings: Settings, options: argparse.Namespace) -> int:
    """Open, close, drain or give up hosts; return 0 when it was done to all of them.

    Args:
        settings: Where the cluster is.
        options: ``action``, ``hosts``, ``comment``, ``wait``, ``yes``, ``wait_daemon``, ``json``.
    """
    problem = _misused(options)
    if problem:
        print(f"xceadmin hosts: {problem}", file=sys.stderr)
        return 2
    try:
        names = list(expand_names(",".join(options.hosts)))
    except TextError as error:
        print(f"xceadmin hosts: {error.message}", file=sys.stderr)
        return 2
    question = {"lost": _QUESTION, "kill": _STRANGERS}.get(options.action)
    if question and not options.yes and not _confirms(question.format(hosts=", ".join(names))):
        print("xceadmin hosts: nothing was done", file=sys.stderr)
        return 1
    status = _act(settings, options, names)
    if options.wait is not None and status == 0:
        status = _wait_until_empty(settings, options, names)
    if options.action == "adopt" and status == 0:
        status = _wait_until_adopted(settings, options, names)
    return status


def _misused(options: argparse.Namespace) -> str:
    """Return which options belong to another action; empty: none."""
    if options.wait is not None and options.action != "drain":
        return "--wait belongs to drain"
    if options.yes and options.action not in ("lost", "kill"):
        return "--yes belongs to lost and kill"
    if options.gpu and options.action not in ("open", "close"):
        return "--gpu belongs to open and close"
    if options.comment and options.action in ("lost", "kill", "adopt"):
        return f"-C does not belong to {options.action}"
    return ""


def _confirms(question: str) -> bool:
    """Ask; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        print("xceadmin hosts: say --yes, since there is nobody to ask", file=sys.stderr)
        return False
    print(question, end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _act(settings: Settings, options: argparse.Namespace, names: list[str]) -> int:
    """Do it, and say what became of each host; return the status of the first refusal."""
    action, comment = options.action, options.comment
    if action == "drain":
        action, comment = "close", comment or "draining"
    document = {"action": action, "hosts": names, "comment": comment}
    if options.gpu:
        document |= {"action": f"{action}-devices", "devices": options.gpu}
    status, answer = ask_apiserver(
        settings, "hosts", "POST", "/hosts/actions", document=document,
        wait_s=options.wait_daemon, progress=tell,
    )  # fmt: skip
    if answer is None:
        return status
    if options.json and options.action != "adopt":
        print(json.dumps(answer["results"], indent=2))
    for result in answer["results"]:
        refusal = result.get("error")
        name = result["host"] + (f" GPU {result['device']}" if "device" in result else "")
        if refusal:
            print(f"{name}: {refusal['text']}", file=sys.stderr)
            status = status or STATUS_OF_CODE.get(refusal["code"], 1)
        elif not options.json:
            text = "draining" if options.action == "drain" else result["text"]
            print(f"{name}: {text}")
    return status


def _wait_until_adopted(settings: Settings, options: argparse.Namespace, names: list[str]) -> int:
    """Say what came of each host; return 0 when nothing is left there that is not known."""
    until = time.monotonic() + ADOPT_S
    while True:
        status, hosts = _look_at(settings, options, names)
        if hosts is None:
            return status
        if not any(host["adopting"] for host in hosts) or time.monotonic() >= until:
            break
        time.sleep(0.1)
    members = ("name", "strangers", "adopting", "unadopted")
    if options.json:
        print(json.dumps([{name: host[name] for name in members} for host in hosts], indent=2))
    for host in () if options.json else hosts:
        for one in host["unadopted"]:
            job, attempt, reason = one["job"], one["attempt"], one["reason"]
            print(f"{host['name']}: {job}, attempt {attempt}, stays: {reason}", file=sys.stderr)
        left = f"{host['strangers']} unknown attempts are left"
        if host["adopting"]:
            left += f", {host['adopting']} wait for their hosts: look again later"
        print(f"{host['name']}: {left}" if host["strangers"] else f"{host['name']}: adopted")
    return int(any(host["strangers"] for host in hosts))


def _look_at(
    settings: Settings, options: argparse.Namespace, names: list[str]
) -> tuple[int, list[dict[str, Any]] | None]:
    """Return the rows of hosts, or an exit status and None."""
    status, answer = ask_apiserver(
        settings, "hosts", "GET", "/hosts", wait_s=options.wait_daemon, progress=tell
    )
    if answer is None:
        return status, None
    return 0, [host for host in answer["hosts"] if host["name"] in names]


def _wait_until_empty(settings: Settings, options: argparse.Namespace, names: list[str]) -> int:
    """Return 0 when nothing runs on the hosts any more, 1 after ``options.wait`` s (0: never)."""
    limit_s: float = options.wait
    until = time.monotonic() + limit_s
    while True:
        status, hosts = _look_at(settings, options, names)
        if hosts is None:
            return status
        busy = [host["name"] for host in hosts if host["njobs"]]
        if not busy:
            return 0
        if limit_s and time.monotonic() >= until:
            print(f"xceadmin hosts: still busy: {', '.join(busy)}", file=sys.stderr)
            return 1
        time.sleep(LOOK_S if not limit_s else min(LOOK_S, max(0.01, until - time.monotonic())))
