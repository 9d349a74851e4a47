"""``lshosts``: list hosts with what they are."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.gpu_text import render_lshosts
from xce.cli.lsf.host_words import STATIC, named_hosts, resource_words, size_mib, static_word
from xce.cli.lsf.options import FLAG, VALUE, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Host = dict[str, Any]

USAGE = """\
Usage: lshosts [-w | -l | -gpu] [-R "select"] [host_name ...]
  -w              nothing cut
  -l              long
  -gpu            GPUs
  -R "select"     only hosts that the expression takes
"""
OPTIONS = Options(
    {"-w": FLAG, "-l": FLAG, "-gpu": FLAG, "-R": VALUE},
    {
        "-T": "use 'xcecli hosts -o json', which has each host's processors",
        "-s": "use 'bhosts -s'",
        "-mig": "instances of MIG are shown by -gpu",
        "-a": "all hosts are listed",
        "-cname": "there is one cluster",
        "-o": "use 'bhosts -o' or 'xcecli hosts -o json'",
        "-json": "use 'bhosts -json' or 'xcecli hosts -o json'",
    },
    bundled=True,
)
_HEADER = "HOST_NAME      type    model  cpuf ncpus maxmem maxswp server RESOURCES"


def render_host(host: Host, *, wide: bool) -> str:
    """Return the line of a host."""
    kind = str(host["attributes"].get("type") or "any")
    model = str(host["attributes"].get("model") or "any")
    name = host["name"]
    if not wide:
        name, kind, model = name[:11], kind[:7], model[:8]
    cpus = host["cpus"] or "-"
    return (
        f"{name:<11} {kind:>7} {model:>8} {'1.0':>5} {cpus:>5} {size_mib(host['mem_mib']):>6} "
        f"{static_word(host, 'maxswp'):>6}    Yes {resource_words(host)}"
    )


def render_long(host: Host) -> list[str]:
    """Return the lines about one host."""
    kind = str(host["attributes"].get("type") or "any")
    model = str(host["attributes"].get("model") or "any")
    cpus = host["cpus"] or "-"
    found = {name: static_word(host, name) for name in STATIC}
    return [
        "",
        f"HOST_NAME:  {host['name']}",
        (
            "type             model  cpuf ncpus ndisks maxmem maxswp maxtmp rexpri server nprocs "
            "ncores nthreads"
        ),
        (
            f"{kind:<12} {model:>9} {'1.0':>5} {cpus:>5} {found['ndisks']:>6} "
            f"{size_mib(host['mem_mib']):>6} {found['maxswp']:>6} {found['maxtmp']:>6} {0:>6}    "
            f"Yes {found['nprocs']:>6} {found['ncores']:>6} {found['nthreads']:>8}"
        ),
        "",
        f"RESOURCES: {resource_words(host)}",
        "RUN_WINDOWS:  (always open)",
        "",
        "LOAD_THRESHOLDS:",
        "  r15s   r1m  r15m   ut    pg    io   ls   it   tmp   swp   mem",
        "     -     -     -    -     -     -    -    -     -     -     -",
    ]


def execute(context: Context) -> int:
    """List the hosts."""
    known, missing = named_hosts(context)
    if context.parsed.has("-gpu"):
        for line in render_lshosts(known):
            context.out(line)
    elif context.parsed.has("-l"):
        for host in known:
            for line in render_long(host):
                context.out(line)
    elif known:
        context.out(_HEADER)
        for host in known:
            context.out(render_host(host, wide=context.parsed.has("-w")))
    for name in missing:
        context.err(f"lshosts: Unknown host name {name}")
    if not known and not missing:
        context.err("No host has joined the cluster, or none is taken by -R")
    return FAILED if missing or not known else 0


def main() -> NoReturn:
    """Run ``lshosts``."""
    run_main(OPTIONS, USAGE, execute)
