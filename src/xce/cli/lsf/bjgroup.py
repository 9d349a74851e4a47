"""``bjgroup``: show job groups."""

from __future__ import annotations

from xce.cli.lsf.control import parse_group
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, Options
from xce.cli.lsf.values import BadValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

USAGE = """\
Usage: bjgroup [-s] [-N] [/group ...]
  -s   in the order of their paths, as they always are
  -N   slots in place of jobs
"""
OPTIONS = Options(dict.fromkeys(("-s", "-N"), FLAG), {}, bundled=True)
_HEADS = ("NJOBS", "PEND", "RUN", "SSUSP", "USUSP", "FINISH")


def _line(name: str, cells: list[str], sla: str, limit: str, owner: str) -> str:
    counts = " ".join([f"{cell:<6}" for cell in cells])
    return f"{name:<13} {counts} {sla:>5}  {limit:>6} {owner}".rstrip()


def _row(row: dict[str, Any], load: dict[str, int]) -> str:
    cells = [load[word] for word in ("pend", "run", "ssusp", "ususp", "finish")]
    limit = "-" if row["limit"] is None else str(row["limit"])
    texts = [str(cell) for cell in (sum(cells), *cells)]
    return _line(row["name"], texts, "()", f"{row['used']}/{limit}", row["owner"])


def execute(context: Context) -> int:
    """Show the groups."""
    try:
        wanted = [parse_group(word) for word in context.parsed.rest]
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED
    rows = {row["name"]: row for row in context.api.call("GET", "/jobgroups")["groups"]}
    if not rows and not wanted:
        context.err("No job group found")
        return FAILED
    status = 0
    if not wanted or any(name in rows for name in wanted):
        context.out(_line("GROUP_NAME", list(_HEADS), "SLA", "JLIMIT", "OWNER"))
    for name in wanted or rows:
        if name in rows:
            load = rows[name]["slots" if context.parsed.has("-N") else "jobs"]
            context.out(_row(rows[name], load))
        else:
            context.err(f"{name}: Job group does not exist.")
            status = FAILED
    return status


def main() -> NoReturn:
    """Run ``bjgroup``."""
    run_main(OPTIONS, USAGE, execute)
