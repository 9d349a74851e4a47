"""``lsadmin``: show and check the configuration of the cluster."""

from __future__ import annotations

from xce.cli.lsf.badmin import show_configuration
from xce.cli.lsf.front import Context, run_main
from xce.cli.lsf.options import Options, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

USAGE = """\
Usage: lsadmin showconf lim
  showconf lim        the configuration in LSF's words
"""
OPTIONS = Options({}, {"-f": "nothing asks", "-v": "showconf has no more to say"}, bundled=False)
SUBCOMMANDS = ("showconf",)
_NO_LIM = "there is no LIM and no RES; a worker tells what its host has: see 'xce status'"
REFUSED = {
    **dict.fromkeys(
        (
            "limstartup", "limrestart", "limshutdown", "resstartup", "resrestart", "resshutdown",
            "limdebug", "limtime", "resdebug", "restime", "reslogon", "reslogoff",
        ),
        _NO_LIM,
    ),
    "limlock": "use 'badmin hclose HOST'",
    "limunlock": "use 'badmin hopen HOST'",
    "reconfig": "use 'badmin reconfig', which puts all files in effect",
    "ckconfig": "use 'badmin ckconfig', which checks all files together",
    "expire": "hosts are named in hosts.yaml",
}  # fmt: skip
"""Subcommands of LSF that XCE has not, and what to use instead."""


def execute(context: Context) -> int:
    """Run the subcommand."""
    words = context.parsed.rest
    if not words:
        raise UsageError("name a subcommand")
    if words[0] in REFUSED:
        raise UsageError(f"{words[0]}: this subcommand of LSF is not in XCE; {REFUSED[words[0]]}")
    if words[0] != "showconf":
        raise UsageError(f"{words[0]}: there is no such subcommand")
    if words[1:2] != ["lim"]:
        raise UsageError("showconf: name what to show: lim")
    for host in words[2:]:
        if host not in {one["name"] for one in context.api.call("GET", "/hosts")["hosts"]}:
            raise UsageError(f"{host}: Bad host name")
    return show_configuration(context, "LIM configuration")


def main() -> NoReturn:
    """Run ``lsadmin``."""
    run_main(OPTIONS, USAGE, execute)
