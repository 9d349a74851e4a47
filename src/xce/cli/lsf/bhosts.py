"""``bhosts``: list hosts."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Host = dict[str, Any]

USAGE = """\
Usage: bhosts [options] [host_name ...]
  -w              nothing cut, the reason of a closed host
  -l              long
"""
OPTIONS = Options(
    {"-w": FLAG, "-l": FLAG},
    {
        **dict.fromkeys(
            (
                "-a", "-e", "-R", "-s", "-X", "-x", "-aff", "-gpu", "-rc", "-attr", "-alloc",
                "-cname", "-noheader",
            ),
            "",
        ),
        **dict.fromkeys(("-o", "-json"), "use 'xcecli hosts -o json'"),
    },
    bundled=True,
)  # fmt: skip
_HEADER = "HOST_NAME          STATUS       JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV\n"
_INDICES = "r15s r1m r15m ut pg io ls it tmp swp mem slots"
_THRESHOLDS = (
    " LOAD THRESHOLD USED FOR SCHEDULING:\n"
    "           r15s   r1m  r15m   ut      pg    io   ls    it    tmp    swp    mem\n"
    " loadSched   -     -     -     -       -     -    -     -     -      -      -  \n"
    " loadStop    -     -     -     -       -     -    -     -     -      -      -  \n"
)


def _counts(host: Host) -> str:
    """Return JL/U and the counts, each right-justified."""
    return (
        f"{'-':>4} {_most(host):>6} {host['njobs']:>6} {host['run']:>6} "
        f"{host['ssusp']:>6} {host['ususp']:>6} {host['rsv']:>6}"
    )


def _most(host: Host) -> str:
    return "-" if host.get("slots_max") is None else str(host["slots_max"])


def render_hosts(hosts: list[Host], *, wide: bool) -> list[str]:
    """Return the table; short words for states unless ``wide``."""
    lines = [_HEADER]
    for host in hosts:
        name, status = host["name"], host["status"]
        if not wide:
            name, status = name[:18], status.partition("_")[0]
        lines.append(f"{name:<18} {status:<12} {_counts(host)}\n")
    return lines


def render_host(host: Host) -> list[str]:
    """Return the long form of one host."""
    memory, used = host.get("mem_mib"), host.get("mem_used_mib") or 0
    slots = host.get("slots_max")
    free = "-" if slots is None else str(max(0, slots - host["njobs"]))
    names = _INDICES.split()
    unknown = ["-"] * (len(names) - 2)
    total = [*unknown, "-" if memory is None else f"{memory - used}M", free]
    reserved = [*unknown, f"{used}M", "-"]
    lines = [
        f"HOST  {host['name']}\n",
        "STATUS           CPUF  JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV DISPATCH_WINDOW\n",
        f"{host['status']:<15} {'1.00':>5}  {_counts(host)}      -\n",
        "\n",
        " CURRENT LOAD USED FOR SCHEDULING:\n",
        _load_row("", names),
        _load_row("Total", total),
        _load_row("Reserved", reserved),
        "\n",
        _THRESHOLDS,
    ]
    counters = host.get("counters") or {}
    if counters:
        free_amounts = [str(total - used) for total, used in counters.values()]
        used_amounts = [str(used) for _, used in counters.values()]
        lines += [
            "\n",
            _load_row("", list(counters)),
            _load_row("Total", free_amounts),
            _load_row("Reserved", used_amounts),
        ]
    if host.get("comment"):
        lines += ["\n", f' ADMIN ACTION COMMENT: "{host["comment"]}"\n']
    return [*lines, "\n"]


def _load_row(label: str, cells: list[str]) -> str:
    """Return a row of the load table; a column grows with its own text only."""
    return f" {label:<9}" + "".join([f" {cell:>6}" for cell in cells]) + "\n"


def execute(context: Context) -> int:
    """List the hosts."""
    parsed = context.parsed
    known: list[Host] = context.api.call("GET", "/hosts")["hosts"]
    by_name = {host["name"]: host for host in known}
    missing = [name for name in parsed.rest if name not in by_name]
    if parsed.rest:
        known = [by_name[name] for name in dict.fromkeys(parsed.rest) if name in by_name]
    if parsed.has("-l"):
        for host in known:
            context.out_block(render_host(host))
    elif known:
        context.out_block(render_hosts(known, wide=parsed.has("-w")))
    for name in missing:
        context.err(f"{name}: Bad host name, host group name or cluster name")
    if not known and not missing:
        context.err("No host has joined the cluster")
    return FAILED if missing else 0


def main() -> NoReturn:
    """Run ``bhosts``."""
    run_main(OPTIONS, USAGE, execute)
