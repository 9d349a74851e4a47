"""``lsinfo``: list resources, types and models of hosts."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    Resource = tuple[str, str, str, str]
    """Name, type, order, description."""

USAGE = """\
Usage: lsinfo [-r] [-t] [-m | -M] [-w] [-l resource_name ...] [resource_name ...]
  -r  -t  -m      only resources; only types; only models of hosts
  -w              nothing cut (it never is)
  -l              long
"""
OPTIONS = Options(dict.fromkeys(("-r", "-t", "-m", "-M", "-w", "-l"), FLAG), {}, bundled=True)
BUILT_IN: tuple[Resource, ...] = (
    ("r15s", "Numeric", "Inc", "Length of the run queue over 15 seconds"),
    ("r1m", "Numeric", "Inc", "Length of the run queue over a minute"),
    ("r15m", "Numeric", "Inc", "Length of the run queue over 15 minutes"),
    ("ut", "Numeric", "Inc", "Use of the CPUs, 0 to 1"),
    ("pg", "Numeric", "Inc", "Pages in and out a second"),
    ("io", "Numeric", "Inc", "Disk I/O, in KB/s"),
    ("ls", "Numeric", "Inc", "Users who are logged in"),
    ("it", "Numeric", "Dec", "Minutes since somebody typed"),
    ("tmp", "Numeric", "Dec", "Free space in /tmp, in MB"),
    ("swp", "Numeric", "Dec", "Free swap space, in MB"),
    ("mem", "Numeric", "Dec", "Memory that is not reserved, in MB"),
    ("slots", "Numeric", "Dec", "Slots that are free"),
    ("maxslots", "Numeric", "Dec", "Slots of the host"),
    ("maxmem", "Numeric", "Dec", "Memory of the host, in MB"),
    ("maxswp", "Numeric", "Dec", "Swap space of the host, in MB"),
    ("maxtmp", "Numeric", "Dec", "Space in /tmp, in MB"),
    ("ncpus", "Numeric", "Dec", "CPUs of the host"),
    ("nprocs", "Numeric", "Dec", "Processors of the host"),
    ("ncores", "Numeric", "Dec", "Cores of the host"),
    ("nthreads", "Numeric", "Dec", "Threads of all cores of the host"),
    ("ndisks", "Numeric", "Dec", "Disks of the host"),
    ("ngpus", "Numeric", "Dec", "GPUs of the host"),
    ("ngpus_physical", "Numeric", "Dec", "GPUs of the host"),
    ("cpuf", "Numeric", "Dec", "CPU factor, which is 1"),
    ("rexpri", "Numeric", "N/A", "Nice value of remote jobs, which is 0"),
    ("server", "Boolean", "N/A", "The host runs jobs"),
    ("hname", "String", "N/A", "Name of the host"),
    ("type", "String", "N/A", "Type of the host"),
    ("model", "String", "N/A", "Model of the host"),
    ("status", "String", "N/A", "Status of the host"),
)
_DYNAMIC = frozenset((*(item[0] for item in BUILT_IN[:12]), "status"))
_KINDS = {"boolean": "Boolean", "string": "String"}
_HEADER = f"{'RESOURCE_NAME':<15} {'TYPE':<8} {'ORDER':<6} DESCRIPTION"


def execute(context: Context) -> int:
    """List what there is."""
    parsed = context.parsed
    cluster = context.api.call("GET", "/cluster")
    hosts = context.api.call("GET", "/hosts")["hosts"]
    resources: list[Resource] = list(BUILT_IN)
    for item in cluster["resources"]:
        kind = _KINDS.get(item["kind"], "Numeric")
        text = item.get("description") or item["kind"]
        unit = f", in {item['unit']}" if item.get("unit") else ""
        resources.append((item["name"], kind, "Dec" if kind == "Numeric" else "N/A", text + unit))
    declared = {item["name"] for item in cluster["resources"]}
    resources += [
        (name, "Numeric", "Dec", "pool of the whole cluster")
        for name in cluster["pools"]
        if name not in declared
    ]
    wanted = parsed.rest
    missing = [name for name in wanted if name not in {item[0] for item in resources}]
    if wanted:
        resources = [item for item in resources if item[0] in wanted]
    everything = not any(parsed.has(option) for option in ("-r", "-t", "-m", "-M")) and not wanted
    if parsed.has("-l"):
        _print_long(context, resources)
    elif resources and (everything or parsed.has("-r") or wanted):
        context.out(_HEADER)
        for name, kind, order, text in resources:
            context.out(f"{name:<15} {kind:<8} {order:<6} {text}")
    if not parsed.has("-l"):
        if everything or parsed.has("-t"):
            types = sorted({str(host["attributes"].get("type") or "any") for host in hosts})
            context.out("")
            context.out("TYPE_NAME")
            for name in types:
                context.out(name)
        if everything or parsed.has("-m") or parsed.has("-M"):
            models = sorted({str(host["attributes"].get("model") or "any") for host in hosts})
            context.out("")
            context.out(f"{'MODEL_NAME':<18} CPU_FACTOR   ARCHITECTURE")
            for name in models:
                context.out(f"{name:<18} {'1.00':>10}   -")
    for name in missing:
        context.err(f"{name}: resource name not found.")
    return FAILED if missing else 0


def _print_long(context: Context, resources: list[Resource]) -> None:
    for name, kind, order, text in resources:
        context.out(f"RESOURCE_NAME:  {name}")
        context.out(f"DESCRIPTION: {text}")
        context.out(f"{'TYPE':<10} {'ORDER':<7} INTERVAL  BUILTIN  DYNAMIC  RELEASE")
        built_in = "Yes" if any(item[0] == name for item in BUILT_IN) else "No"
        moving = "Yes" if name in _DYNAMIC else "No"
        context.out(f"{kind:<10} {order:<7} {'0':<9} {built_in:<8} {moving:<8} Yes")
        context.out("")


def main() -> NoReturn:
    """Run ``lsinfo``."""
    run_main(OPTIONS, USAGE, execute)
