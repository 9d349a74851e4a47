"""``bmgroup``: list groups of hosts: the domains of the topology."""

from __future__ import annotations

from xce.cli.lsf.bugroup import list_groups
from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import FLAG, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = """\
Usage: bmgroup [-l] [-r] [-w] [-cu] [group_name ...]
  -l              long
  -cu             with the level of the topology
  -r  -w          hosts, not cut: so they always are
"""
OPTIONS = Options(
    {"-l": FLAG, "-r": FLAG, "-w": FLAG, "-cu": FLAG},
    {"-cname": "there is one cluster", "-x": "a host that fails starts is closed: see bhosts -l"},
    bundled=True,
)


def execute(context: Context) -> int:
    """List the groups."""
    found = [g for g in context.api.call("GET", "/groups")["groups"] if g["kind"] != "users"]
    parsed = context.parsed
    if parsed.has("-cu") and not parsed.has("-l"):
        wanted = [name.rstrip("/") for name in parsed.rest]
        chosen = [g for g in found if not wanted or g["name"] in wanted]
        if chosen and all(any(g["name"] == name for g in found) for name in wanted):
            context.out(f"{'NAME':<12} {'TYPE':<10} HOSTS")
            for group in chosen:
                context.out(f"{group['name']:<12} {group['kind']:<10} {' '.join(group['members'])}")
            return 0
    none = "No host group is defined: hosts get labels in hosts.yaml"
    return list_groups(context, found, "HOSTS", none)


def main() -> NoReturn:
    """Run ``bmgroup``."""
    run_main(OPTIONS, USAGE, execute)
