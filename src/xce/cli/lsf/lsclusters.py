"""``lsclusters``: list the clusters; there is one."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = """\
Usage: lsclusters [-w | -l] [cluster_name ...]
  -w              nothing cut
  -l              long
"""
OPTIONS = Options({"-w": FLAG, "-l": FLAG}, {}, bundled=False)
_HEADER = f"{'CLUSTER_NAME':<15} STATUS   {'MASTER_HOST':<20} {'ADMIN':<10} HOSTS  SERVERS"


def execute(context: Context) -> int:
    """List the cluster."""
    parsed = context.parsed
    cluster = context.api.call("GET", "/cluster")
    hosts = context.api.call("GET", "/hosts")["hosts"]
    name, master = cluster["cluster"], cluster["controller_host"]
    missing = [one for one in parsed.rest if one != name]
    admin = cluster.get("owner") or "-"
    if not parsed.rest or name in parsed.rest:
        if parsed.has("-l"):
            resources = " ".join(item["name"] for item in cluster["resources"])
            for line in (
                f"CLUSTER_NAME:  {name}",
                f"CLUSTER_ADMIN: {admin}",
                f"MASTER_HOST:   {master}",
                f"HOSTS:         {len(hosts)}",
                f"RESOURCES:     {resources or '-'}",
                f"VERSION:       XCE {cluster['version']}",
            ):
                context.out(line)
        else:
            shown = name if parsed.has("-w") else name[:15]
            host = master if parsed.has("-w") else master[:20]
            context.out(_HEADER)
            context.out(
                f"{shown:<15} {'ok':<8} {host:<20} {admin:<10} {len(hosts):>5} {len(hosts):>8}"
            )
    for one in missing:
        context.err(f"{one}: unknown cluster name")
    return FAILED if missing else 0


def main() -> NoReturn:
    """Run ``lsclusters``."""
    run_main(OPTIONS, USAGE, execute)
