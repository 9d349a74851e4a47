"""``busers``: list users with how many slots their jobs want and have."""

from __future__ import annotations

from xce.cli.lsf.columns import (
    OPTIONS as CUSTOM,
)
from xce.cli.lsf.columns import (
    USAGE as CUSTOM_USAGE,
)
from xce.cli.lsf.columns import (
    counted,
    is_custom,
    nothing,
    render_custom,
)
from xce.cli.lsf.control import user_name
from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import FLAG, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    User = dict[str, Any]

USAGE = f"""\
Usage: busers [options] [user_name ...|all]
  (none)          the caller
  -w              nothing cut, more columns
{CUSTOM_USAGE}\
  -alloc          counted in slots: so they always are
"""
OPTIONS = Options({"-w": FLAG, "-alloc": FLAG, **CUSTOM}, {}, bundled=True)
FIELDS = (
    ("user", 15, "user_name", lambda user: str(user["name"])),
    ("jl_p", 8, "jlp", nothing),
    ("max", 8, "", nothing),
    *[(name, 8, "", counted(name)) for name in ("njobs", "pend", "run", "ssusp", "ususp", "rsv")],
    ("mpend", 8, "", nothing),
    ("pjobs", 8, "", nothing),
    ("mpjobs", 8, "", nothing),
)
"""Name, recommended width, aliases, text."""
DEFAULT = "user jl_p max njobs pend run ssusp ususp rsv"
_HEADER = "USER/GROUP          JL/P    MAX  NJOBS   PEND    RUN  SSUSP  USUSP    RSV"
_NONE = dict.fromkeys(("njobs", "pend", "run", "ssusp", "ususp", "rsv"), 0)


def render_users(users: list[User], *, wide: bool) -> list[str]:
    """Return the table."""
    lines = [_HEADER + ("  MPEND  PJOBS MPJOBS\n" if wide else "\n")]
    for user in users:
        name = user["name"] if wide else user["name"][:19]
        line = (
            f"{name:<19} {'-':>4} {'-':>6} {user['njobs']:>6} {user['pend']:>6} {user['run']:>6} "
            f"{user['ssusp']:>6} {user['ususp']:>6} {user['rsv']:>6}"
        )
        lines.append(f"{line} {'-':>6} {'-':>6} {'-':>6}\n" if wide else f"{line}\n")
    return lines


def execute(context: Context) -> int:
    """List the users."""
    parsed = context.parsed
    custom = is_custom(parsed)
    known = {user["name"]: user for user in context.api.call("GET", "/users")["users"]}
    names = parsed.rest or [user_name()]
    wanted = list(known) if "all" in names else list(dict.fromkeys(names))
    users = [known.get(name) or {"name": name, **_NONE} for name in wanted]
    if custom:
        context.out_block(
            render_custom(parsed, FIELDS, DEFAULT, users, command="busers", noun="USERS")
        )
        return 0
    lines = render_users(users, wide=parsed.has("-w"))
    context.out_block(lines[1:] if parsed.has("-noheader") else lines)
    return 0


def main() -> NoReturn:
    """Run ``busers``."""
    run_main(OPTIONS, USAGE, execute)
