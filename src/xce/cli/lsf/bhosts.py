"""``bhosts``: list hosts."""

from __future__ import annotations

from xce.cli.lsf.columns import (
    OPTIONS as CUSTOM,
)
from xce.cli.lsf.columns import (
    USAGE as CUSTOM_USAGE,
)
from xce.cli.lsf.columns import (
    counted,
    fixed,
    is_custom,
    nothing,
    render_custom,
)
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.host_words import load_word, threshold_rows
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError
from xce.cli.lsf.shared_resources import list_shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Host = dict[str, Any]

USAGE = f"""\
Usage: bhosts [options] [host_name ...]
       bhosts -s [resource_name ...]
  -w              nothing cut, the reason of a closed host
  -l              long
  -gpu            GPUs; with -l, and which jobs have them
  -s              counters of hosts and pools of the cluster, what is there and what is reserved
  -R "select"     only hosts that the expression takes
{CUSTOM_USAGE}\
  -a -e -X -alloc    all hosts, each on its own, counted in slots: so they always are
"""
OPTIONS = Options(
    {
        **dict.fromkeys(("-w", "-l", "-s", "-gpu", "-a", "-e", "-X", "-alloc"), FLAG),
        "-R": VALUE,
        **CUSTOM,
    },
    {
        "-x": "a host that fails starts is closed: bhosts -l says why",
        "-aff": "use 'xcecli hosts -o json', which has each host's processors",
        "-rc": "there are no hosts from providers yet",
        "-attr": "attributes are shown by lshosts -w",
        "-cname": "there is one cluster",
    },
    bundled=True,
)
_HEADER = "HOST_NAME          STATUS       JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV\n"
_INDICES = "r15s r1m r15m ut pg io ls it tmp swp mem slots"


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
    measured = [load_word(host, name) for name in names[:-2]]
    seen = (host.get("load") or {}).get("mem")
    room = None if memory is None else memory - used
    if room is not None and seen is not None:
        room = int(min(room, seen))
    total = [*measured, "-" if room is None else f"{room}M", free]
    reserved = [*["-"] * len(measured), f"{used}M", "-"]
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
        " LOAD THRESHOLD USED FOR SCHEDULING:\n",
        *threshold_rows({}, {}),
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


FIELDS = (
    ("host_name", 20, "hname", lambda host: str(host["name"])),
    ("status", 15, "", lambda host: str(host["status"])),
    ("cpuf", 10, "", fixed("1.00")),
    ("jl_u", 8, "jlu", nothing),
    ("max", 8, "", _most),
    ("njobs", 8, "", counted("njobs")),
    ("run", 8, "", counted("run")),
    ("ssusp", 8, "", counted("ssusp")),
    ("ususp", 8, "", counted("ususp")),
    ("rsv", 8, "", counted("rsv")),
    ("dispatch_window", 50, "dispwin", nothing),
    ("comments", 128, "", lambda host: str(host.get("comment") or "-")),
    ("available_mem", 15, "", lambda host: _memory(host, free=True)),
    ("reserved_mem", 15, "", lambda host: _memory(host, free=False)),
    ("ngpus", 10, "ng", lambda host: str(len(_gpus(host)) or "-")),
    ("ngpus_alloc", 10, "ngu", lambda host: str(sum(gpu["used"] > 0 for gpu in _gpus(host)))),
    ("total_mem", 15, "", lambda host: f"{host['mem_mib']}M" if host.get("mem_mib") else "-"),
)
"""Name, recommended width, aliases, text."""
DEFAULT = "host_name status jl_u max njobs run ssusp ususp rsv"


def _gpus(host: Host) -> list[dict[str, Any]]:
    """Return the GPUs that are there and given out as they are."""
    return [gpu for gpu in host.get("gpus") or () if gpu["state"] in {"ok", "closed"}]


def _memory(host: Host, *, free: bool) -> str:
    if not host.get("mem_mib"):
        return "-"
    used = host.get("mem_used_mib") or 0
    return f"{host['mem_mib'] - used if free else used}M"


def _list_shared(context: Context) -> int:
    """List counters of hosts and pools: ``RESOURCE TOTAL RESERVED LOCATION``."""
    return list_shared(
        context,
        f"{'RESOURCE':<23} {'TOTAL':>8} {'RESERVED':>14}      LOCATION",
        lambda one: f"{one.name:<23} {one.total - one.used:>8} {one.used:>14}      {one.where}",
        order=lambda one: (one.name, one.total, one.used, one.where),
        nothing="No shared resource is declared",
    )


def _list_gpus(context: Context, hosts: list[Host]) -> None:
    from xce.cli.lsf.gpu_text import render_gpus, render_host_gpus  # noqa: PLC0415 - of this only

    found = [host for host in hosts if host.get("gpus")]
    if not found:
        context.err("No GPU was found")
    elif context.parsed.has("-l"):
        for host in found:
            context.out_block(render_host_gpus(host))
    else:
        lines = render_gpus(found)
        context.out_block(lines[1:] if context.parsed.has("-noheader") else lines)


def execute(context: Context) -> int:
    """List the hosts."""
    parsed = context.parsed
    custom = is_custom(parsed)
    if parsed.has("-s"):
        if parsed.has("-l") or parsed.has("-w") or parsed.has("-R"):
            raise UsageError("-s stands alone")
        return _list_shared(context)
    query = [("select", parsed.value("-R"))] if parsed.has("-R") else []
    known: list[Host] = context.api.call("GET", "/hosts", query)["hosts"]
    by_name = {host["name"]: host for host in known}
    missing = [name for name in parsed.rest if name not in by_name]
    if parsed.rest:
        known = [by_name[name] for name in dict.fromkeys(parsed.rest) if name in by_name]
    if custom:
        context.out_block(
            render_custom(parsed, FIELDS, DEFAULT, known, command="bhosts", noun="HOSTS")
        )
    elif parsed.has("-gpu"):
        _list_gpus(context, known)
    elif parsed.has("-l"):
        for host in known:
            context.out_block(render_host(host))
    elif known:
        lines = render_hosts(known, wide=parsed.has("-w"))
        context.out_block(lines[1:] if parsed.has("-noheader") else lines)
    for name in missing:
        context.err(f"{name}: Bad host name, host group name or cluster name")
    if not known and not missing:
        context.err("No host takes it" if query else "No host has joined the cluster")
    return FAILED if missing else 0


def main() -> NoReturn:
    """Run ``bhosts``."""
    run_main(OPTIONS, USAGE, execute)
