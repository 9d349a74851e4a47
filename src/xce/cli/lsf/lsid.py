"""``lsid``: say which system and which cluster this is."""

from __future__ import annotations

from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import Options, UsageError
from xce.client.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

USAGE = """\
Usage: lsid
"""
OPTIONS = Options({}, {}, bundled=False)


def render_cluster(cluster: dict[str, Any]) -> list[str]:
    """Return the lines about a cluster; a configured product line stands in for XCE's own."""
    first = cluster.get("product_line") or f"XCE {cluster.get('version') or VERSION}"
    return [
        first.rstrip("\n"),
        "",
        f"My cluster name is {cluster['cluster']}",
        f"My master name is {cluster['controller_host']}",
    ]


def execute(context: Context) -> int:
    """Print the lines."""
    if context.parsed.rest:
        raise UsageError(f"{context.parsed.rest[0]}: no word is expected")
    for line in render_cluster(context.api.call("GET", "/cluster")):
        context.out(line)
    return 0


def main() -> NoReturn:
    """Run ``lsid``."""
    run_main(OPTIONS, USAGE, execute)
