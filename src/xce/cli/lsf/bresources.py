"""``bresources``: list what is configured about resources."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, Options, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = """\
Usage: bresources -s [resource_name ...]
  -s              pools of the cluster and counters of hosts: what is configured
"""
OPTIONS = Options(
    {"-s": FLAG},
    {
        **dict.fromkeys(
            ("-g", "-l", "-q", "-m"), "there are no guarantees; queues have reservations and shares"
        ),
        "-p": "queues preempt by 'preempt' in queues.yaml: see bqueues -l",
        "-k": "there are no Kubernetes pods",
    },
    bundled=False,
)


def execute(context: Context) -> int:
    """List them."""
    parsed = context.parsed
    if not parsed.has("-s"):
        raise UsageError("say what to list: -s")
    rows = [
        (pool["name"], "pool", pool["total"], "all")
        for pool in context.api.call("GET", "/pools")["pools"]
    ]
    for host in context.api.call("GET", "/hosts")["hosts"]:
        rows += [
            (name, "counter", total, host["name"]) for name, (total, _) in host["counters"].items()
        ]
    missing = [name for name in parsed.rest if name not in {row[0] for row in rows}]
    rows = [row for row in rows if not parsed.rest or row[0] in parsed.rest]
    if rows:
        context.out(f"{'RESOURCE':<20} {'TYPE':<8} {'TOTAL':>12}  LOCATION")
        for name, kind, total, where in sorted(rows):
            context.out(f"{name:<20} {kind:<8} {total:>12}  {where}")
    for name in missing:
        context.err(f"{name}: Unknown resource name")
    if not rows and not missing:
        context.err("No resource is configured")
    return FAILED if missing else 0


def main() -> NoReturn:
    """Run ``bresources``."""
    run_main(OPTIONS, USAGE, execute)
