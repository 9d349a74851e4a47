"""``bresources``: list what is configured about resources."""

from __future__ import annotations

from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import FLAG, Options, UsageError
from xce.cli.lsf.shared_resources import list_shared

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
    return list_shared(
        context,
        f"{'RESOURCE':<20} {'TYPE':<8} {'TOTAL':>12}  LOCATION",
        lambda one: f"{one.name:<20} {one.kind:<8} {one.total:>12}  {one.where}",
        order=lambda one: (one.name, one.kind, one.total, one.where),
        nothing="No resource is configured",
    )


def main() -> NoReturn:
    """Run ``bresources``."""
    run_main(OPTIONS, USAGE, execute)
