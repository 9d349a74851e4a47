"""``lsload``: list hosts with their load, as their workers measured it last."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.host_words import load_word, named_hosts, size_mib
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Host = dict[str, Any]

USAGE = """\
Usage: lsload [-l | -w] [-N | -E] [-I index[:index ...]] [-R "select"] [host_name ...]
  -l              with io and the declared counters
  -w              nothing cut
  -N -E           run queues for each CPU
  -I              only these indices
  -R "select"     only hosts that the expression takes
  what a host does not measure is shown as -; its mem is then what no job has reserved
"""
OPTIONS = Options(
    {"-l": FLAG, "-w": FLAG, "-N": FLAG, "-E": FLAG, "-I": VALUE, "-R": VALUE},
    {
        "-s": "use 'bhosts -s'",
        "-a": "all hosts are listed",
        "-n": "name the hosts, or use head",
        "-gpu": "declared counters are shown by lsload -l",
        "-gpuload": "declared counters are shown by lsload -l",
        "-cname": "there is one cluster",
        "-o": "use 'bhosts -o' or 'xcecli hosts -o json'",
        "-json": "use 'bhosts -json' or 'xcecli hosts -o json'",
    },
    bundled=False,
)
_SHORT = ("r15s", "r1m", "r15m", "ut", "pg", "ls", "it", "tmp", "swp", "mem")
_LONG = ("r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem")
_STATUS = {"unavail": "unavail", "closed_Excl": "lockU"}


def execute(context: Context) -> int:
    """List the hosts, those that can take work first."""
    parsed = context.parsed
    known, missing = named_hosts(context)
    indices = list(_LONG if parsed.has("-l") else _SHORT)
    if parsed.has("-l"):
        indices += sorted({name for host in known for name in host["counters"]})
    if parsed.has("-I"):
        indices = parsed.value("-I").replace(":", " ").split()
        for name in indices:
            if name not in _LONG and not any(name in host["counters"] for host in known):
                raise UsageError(f"-I: there is no index {name!r}")
    known.sort(key=lambda host: host["status"] == "unavail")
    per_cpu = parsed.has("-N") or parsed.has("-E")
    cut = None if parsed.has("-w") or parsed.has("-l") else 15
    if known:
        heads = "".join([f" {name:>6}" for name in indices])
        context.out(f"{'HOST_NAME':<15} {'status':>7}{heads}")
    for host in known:
        status = _STATUS.get(host["status"], "ok")
        cells = [] if status == "unavail" else [_value(host, name, per_cpu) for name in indices]
        line = "".join([f" {cell:>6}" for cell in cells])
        context.out(f"{host['name'][:cut]:<15} {status:>7}{line}")
    for name in missing:
        context.err(f"lsload: Unknown host name {name}")
    if not known and not missing:
        context.err("No host has joined the cluster, or none is taken by -R")
    return FAILED if missing or not known else 0


def _value(host: Host, index: str, per_cpu: bool) -> str:
    measured = load_word(host, index, per_cpu=per_cpu)
    if measured == "-" and index == "mem":
        return size_mib((host["mem_mib"] or 0) - (host["mem_used_mib"] or 0))
    if measured == "-" and index in host["counters"]:
        total, used = host["counters"][index]
        return str(total - used)
    return measured


def main() -> NoReturn:
    """Run ``lsload``."""
    run_main(OPTIONS, USAGE, execute)
