"""Counters of hosts and pools, as ``bhosts -s`` and ``bresources -s`` list them."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from xce.cli.lsf.front import Context


class SharedResource:
    """A pool, or the counter of one host.

    Attributes:
        name: Its name.
        kind: ``pool`` or ``counter``.
        total: How much there is.
        used: How much of it is given out.
        where: The host; ``all``: it is a pool.
    """

    __slots__ = ("kind", "name", "total", "used", "where")

    def __init__(self, name: str, kind: str, total: int, used: int, where: str) -> None:
        self.name, self.kind, self.total, self.used, self.where = name, kind, total, used, where


def list_shared(
    context: Context,
    heading: str,
    render: Callable[[SharedResource], str],
    *,
    order: Callable[[SharedResource], tuple[Any, ...]],
    nothing: str,
) -> int:
    """Print those that are asked for by name, or all; return the exit status.

    Args:
        context: Of the command; what is left on its line are names.
        heading: Stands above them.
        render: Makes the line of one.
        order: Smaller goes first.
        nothing: Is said where there are none at all.
    """
    names = context.parsed.rest
    found = [
        SharedResource(pool["name"], "pool", pool["total"], pool["used"], "all")
        for pool in context.api.call("GET", "/pools")["pools"]
    ]
    for host in context.api.call("GET", "/hosts")["hosts"]:
        for name, (total, used) in (host.get("counters") or {}).items():
            found.append(SharedResource(name, "counter", total, used, host["name"]))
    known = {one.name for one in found}
    missing = [name for name in names if name not in known]
    rows = sorted([one for one in found if not names or one.name in names], key=order)
    if rows:
        context.out(heading)
        for one in rows:
            context.out(render(one))
    for name in missing:
        context.err(f"{name}: Unknown resource name")
    if not rows and not missing:
        context.err(nothing)
    return FAILED if missing else 0
