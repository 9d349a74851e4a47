"""``badmin``: open and close queues and hosts, check and show the configuration."""

from __future__ import annotations

import time

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError
from xce.cli.lsf.times import render_date
from xce.client.rest import ProblemError, make_key
from xce.client.socket_path import socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

USAGE = """\
Usage: badmin SUBCOMMAND [options] [argument ...]
  hopen  hclose  [-C text] host ...|all        let hosts take new work, or no more of it
  qopen  qclose  [-C text] queue ...|all       let queues take new jobs, or no more of them
  qact   qinact  [-C text] queue ...|all       let jobs of queues start, or not
  ckconfig  [-v]                               check the configuration files; -v: say what they mean
  reconfig                                     check them, and put them in effect
  showconf mbd                                 the configuration in LSF's words
  showstatus                                   hosts, jobs and users in numbers
"""
OPTIONS = Options(
    {"-C": VALUE, "-v": FLAG},
    {
        "-f": "a configuration with errors is never put in effect",
        "-i": "a host has one lock: the comment of -C says whose",
    },
    bundled=False,
)
_RESTART = "the node manager starts what ends; use 'xce down' and 'xce up'"
_EVENTS = "use 'xceadmin journal export', which has every change with its time and who asked"
REFUSED = {
    "mbdrestart": _RESTART,
    **dict.fromkeys(("hstartup", "hshutdown", "hrestart"), _RESTART),
    **dict.fromkeys(("hhist", "qhist", "mbdhist", "hist"), _EVENTS),
    **dict.fromkeys(
        ("mbddebug", "mbdtime", "sbddebug", "sbdtime", "schddebug", "schdtime"),
        "daemons log JSON lines at all times: use 'xce logs'",
    ),
    "perfmon": "use 'xcecli info' and 'xce status'",
    "diagnose": "use 'xcecli why ID'",
    "lsfproxyd": "there is no such daemon",
    "gpdckconfig": "there are no global policies",
    "gpdrestart": "there are no global policies",
    "rc": "there are no providers yet",
    "security": "rights are in roles.yaml: use 'xceadmin rbac check'",
}
"""Subcommands of LSF that XCE has not, and what to use instead."""
_QUEUE_WORDS = {
    "qopen": ("open", "Queue <{}> is opened"),
    "qclose": ("close", "Queue <{}> is closed"),
    "qact": ("activate", "Queue <{}> is activated"),
    "qinact": ("inactivate", "Queue <{}> is inactivated"),
}
_HOST_WORDS = {
    "hopen": ("open", "Open <{}> ...... done"),
    "hclose": ("close", "Close <{}> ...... done"),
}
SUBCOMMANDS = (*_HOST_WORDS, *_QUEUE_WORDS, "ckconfig", "reconfig", "showconf", "showstatus")


def _switch(context: Context, kind: str, word: str, names: list[str]) -> int:
    """Open or close hosts or queues (``kind``), or activate or inactivate queues."""
    action, line = (_QUEUE_WORDS if kind == "queue" else _HOST_WORDS)[word]
    several = f"{kind}s"
    if not names:
        raise UsageError(f"{word}: name a {kind}, or all")
    if "all" in names:
        names = [row["name"] for row in context.api.call("GET", f"/{several}")[several]]
    document = {"action": action, several: names, "comment": context.parsed.value("-C")}
    answer = context.api.call("POST", f"/{several}/actions", (), document, key=make_key())
    status = 0
    for result in answer["results"]:
        refused = result.get("error")
        if refused:
            context.err((refused.get("lsf") or refused["text"]).rstrip("."))
            status = FAILED
        else:
            context.out(line.format(result[kind]))
    return status


def show_configuration(context: Context, title: str) -> int:
    """Print the configuration in LSF's words, as clients read it."""
    found = context.api.call("GET", "/parameters")["parameters"]
    context.out(f"{title} at {render_date(time.time(), with_year=True)}")
    for parameter in sorted(found, key=lambda item: str(item["name"])):
        context.out(f" {parameter['name']} = {parameter['value']}")
    return 0


def _show_status(context: Context) -> int:
    """Print hosts, jobs and users in numbers."""
    cluster = context.api.call("GET", "/cluster")
    hosts = context.api.call("GET", "/hosts")["hosts"]
    users = context.api.call("GET", "/users")["users"]
    ok = sum(host["status"] == "ok" for host in hosts)
    closed = sum(host["status"].startswith("closed") for host in hosts)
    away = sum(host["status"] == "unavail" for host in hosts)
    lines = [
        "XCE runtime mbatchd information",
        "    Available local hosts (current/peak):",
        f"        Clients:                 {len(hosts) - away}",
        f"        Servers:                 {len(hosts) - away}",
        f"        CPUs:                    {sum(host['cpus'] for host in hosts)}",
        "    Number of servers:",
        f"        Total:                   {len(hosts)}",
        f"        Ok:                      {ok}",
        f"        Closed:                  {closed}",
        f"        Unavailable:             {away}",
        "    Number of jobs (in slots):",
        f"        Total:                   {sum(user['njobs'] for user in users)}",
        f"        Running:                 {sum(user['run'] for user in users)}",
        f"        Suspended:               {sum(u['ssusp'] + u['ususp'] for u in users)}",
        f"        Pending:                 {sum(user['pend'] for user in users)}",
        "    Number of users:",
        f"        Active users:            {len(users)}",
        f"    Latest entry of the journal: {cluster['seq']}",
    ]
    for line in lines:
        context.out(line)
    return 0


def _check_configuration(context: Context) -> int:
    """Check the configuration files of the cluster."""
    root = socket_path(context.environ).rpartition("/run/")[0]
    context.out("Checking configuration files ...")
    context.flush()
    # Reading YAML costs; only who asks for it pays.
    check = __import__("xce.cli.xceadmin.check", fromlist=["problems_in"])
    problems: list[str] = check.problems_in(root)
    for problem in problems:
        context.err(problem)
    if problems:
        context.err(f"There are {len(problems)} fatal errors.")
        return FAILED
    context.out("No errors found.")
    if context.parsed.has("-v"):
        context.out(check.summary_of(root))
    return 0


def _reconfigure(context: Context) -> int:
    """Put the configuration files in effect."""
    context.out("Checking configuration files ...")
    try:
        answer = context.api.call("POST", "/config/actions", (), {"action": "apply"})
    except ProblemError as error:
        if error.code != "bad-config":
            raise
        problems = error.text.splitlines()
        for problem in problems:
            context.err(problem)
        context.err(f"There are {len(problems)} fatal errors.")
        context.err("Reconfiguration aborted.")
        return FAILED
    context.out("No errors found.")
    if answer["text"] == "unchanged":
        context.out("The configuration is in effect already")
    else:
        context.out("Reconfiguration initiated")
    if answer["new_hosts"]:
        names = " ".join(answer["new_hosts"])
        context.err(f"New hosts need a worker, which 'xce down' and 'xce up' start: {names}")
    return 0


def execute(context: Context) -> int:
    """Run the subcommand."""
    words = context.parsed.rest
    if not words:
        raise UsageError("name a subcommand")
    word, names = words[0], words[1:]
    if word in REFUSED:
        raise UsageError(f"{word}: this subcommand of LSF is not in XCE; {REFUSED[word]}")
    if context.parsed.has("-v") and word != "ckconfig":
        raise UsageError(f"-v: {word} has no more to say")
    if word in _QUEUE_WORDS:
        return _switch(context, "queue", word, names)
    if word in _HOST_WORDS:
        return _switch(context, "host", word, names)
    if context.parsed.has("-C"):
        raise UsageError(f"-C: {word} takes no comment")
    if word == "showconf":
        if names != ["mbd"]:
            raise UsageError("showconf: only mbd can be shown; there is no sbd: see 'xce status'")
        return show_configuration(context, "MBD configuration")
    simple: dict[str, Callable[[Context], int]] = {
        "ckconfig": _check_configuration,
        "reconfig": _reconfigure,
        "showstatus": _show_status,
    }
    if word not in simple:
        raise UsageError(f"{word}: there is no such subcommand")
    if names:
        raise UsageError(f"{names[0]}: no word is expected")
    return simple[word](context)


def main() -> NoReturn:
    """Run ``badmin``."""
    run_main(OPTIONS, USAGE, execute)
